//! The decoded bytes of attachments in messages of any size.

use barid::message::{DefectKind, body_structure, part_body, part_by_number};
use barid::{BodyStructure, Mailbox, ReadAs, is_too_large};

use super::MessageTitle;
use crate::limits::ENCODED_PIECE_LEN;

/// A message whose attachments are read.
pub(super) struct AttachedMessage<'m> {
    mailbox: &'m mut Mailbox,
    pub(super) title: MessageTitle,
    structure: BodyStructure,
    /// The message; `None` if it is too large, so that it is read for each of its parts.
    bytes: Option<Vec<u8>>,
}

/// Receives the bytes of an attachment; an error ends the reading.
type TakePart<'a> = dyn FnMut(&[u8]) -> anyhow::Result<()> + 'a;

impl<'m> AttachedMessage<'m> {
    /// Reads a message, or the structure of a large one.
    pub(super) fn read(mailbox: &'m mut Mailbox, title: MessageTitle) -> barid::Result<Self> {
        let uid = title.uid;
        let (structure, bytes) = match mailbox.read(uid, ReadAs::Message) {
            Ok(message) => (body_structure(&message.bytes).0, Some(message.bytes)),
            Err(error) if is_too_large(&error) => {
                (mailbox.read_reduced(uid, &|_| false)?.structure, None)
            }
            Err(error) => return Err(error),
        };
        Ok(Self { mailbox, title, structure, bytes })
    }

    pub(super) fn structure(&self) -> &BodyStructure {
        &self.structure
    }

    pub(super) fn part(&self, number: &str) -> Option<&BodyStructure> {
        part_by_number(&self.structure, number)
    }

    /// Passes the decoded bytes of a part to `take`, in pieces. Returns `true` if its transfer
    /// encoding is known; otherwise the bytes are passed as they are.
    pub(super) fn read_part(
        &mut self,
        number: &str,
        take: &mut TakePart<'_>,
    ) -> anyhow::Result<bool> {
        let Some(part) = part_by_number(&self.structure, number) else { return Ok(true) };
        if let Some(bytes) = &self.bytes {
            let (body, defects) = part_body(bytes, part);
            take(&body)?;
            return Ok(defects.iter().all(|defect| defect.kind != DefectKind::UnknownEncoding));
        }
        let (from, to) = (part.body_offset, part.body_end);
        let mut decoder = PieceDecoder::new(&part.encoding);
        let (mut at, mut failed) = (0, None);
        self.mailbox.read_pieces(self.title.uid, ReadAs::Message, &mut |piece| {
            let start = from.saturating_sub(at).min(piece.len() as u64) as usize;
            let end = to.saturating_sub(at).min(piece.len() as u64) as usize;
            at += piece.len() as u64;
            let body = piece.get(start..end).unwrap_or_default();
            failed = decoder.push(body, take).err();
            failed.is_none() && at < to
        })?;
        match failed {
            Some(error) => Err(error),
            None => decoder.finish(take),
        }
    }
}

/// Decodes a transfer encoding in pieces, as [`part_body`] does it as a whole.
struct PieceDecoder {
    encoding: Vec<u8>,
    /// Encoded bytes whose rest has not come.
    waiting: Vec<u8>,
    is_known: bool,
}

impl PieceDecoder {
    fn new(encoding: &[u8]) -> Self {
        Self { encoding: encoding.to_ascii_lowercase(), waiting: Vec::new(), is_known: true }
    }

    fn push(&mut self, bytes: &[u8], take: &mut TakePart<'_>) -> anyhow::Result<()> {
        match &*self.encoding {
            b"base64" => {
                let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
                self.waiting.extend(bytes.iter().filter(is_part));
                // Whole groups of four; after a padding they are counted anew.
                let padded = self.waiting.iter().rposition(|byte| *byte == b'=');
                let from = padded.map_or(0, |at| at + 1);
                let len = from + (self.waiting.len() - from) / 4 * 4;
                self.decode(len, take)
            }
            b"quoted-printable" => {
                self.waiting.extend_from_slice(bytes);
                let lines = self.waiting.iter().rposition(|byte| *byte == b'\n');
                let len = lines.map_or(0, |at| at + 1);
                let is_long = len == 0 && self.waiting.len() > ENCODED_PIECE_LEN;
                // A line without an end is cut in front of a sign that may be incomplete, and of
                // blanks that may end the line.
                let is_sign = |byte: &u8| b"= \t".contains(byte);
                let start = self.waiting.len().saturating_sub(3);
                let sign = self.waiting[start..].iter().position(is_sign);
                let cut = sign.map_or(self.waiting.len(), |at| start + at);
                let cut = self.waiting[..cut].iter().rposition(|byte| !is_sign(byte));
                let cut = cut.map_or(self.waiting.len(), |at| at + 1);
                self.decode(if is_long { cut } else { len }, take)
            }
            _ => {
                let (_, is_known) = decoded(&self.encoding, b"");
                self.is_known &= is_known;
                take(bytes)
            }
        }
    }

    fn decode(&mut self, len: usize, take: &mut TakePart<'_>) -> anyhow::Result<()> {
        if len == 0 {
            return Ok(());
        }
        let (bytes, is_known) = decoded(&self.encoding, &self.waiting[..len]);
        self.is_known &= is_known;
        self.waiting.drain(..len);
        take(&bytes)
    }

    /// Decodes the rest; returns `true` if the encoding is known.
    fn finish(mut self, take: &mut TakePart<'_>) -> anyhow::Result<bool> {
        self.decode(self.waiting.len(), take)?;
        Ok(self.is_known)
    }
}

fn decoded(encoding: &[u8], bytes: &[u8]) -> (Vec<u8>, bool) {
    let part = BodyStructure {
        encoding: encoding.to_vec(),
        body_end: bytes.len() as u64,
        ..BodyStructure::default()
    };
    let (body, defects) = part_body(bytes, &part);
    let is_known = defects.iter().all(|defect| defect.kind != DefectKind::UnknownEncoding);
    (body.into_owned(), is_known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(encoding: &str, encoded: &[u8]) {
        let (whole, is_known) = decoded(encoding.as_bytes(), encoded);
        for len in 1..=encoded.len() {
            let (mut found, mut decoder) = (Vec::new(), PieceDecoder::new(encoding.as_bytes()));
            let mut take = |bytes: &[u8]| {
                found.extend_from_slice(bytes);
                Ok(())
            };
            for piece in encoded.chunks(len) {
                decoder.push(piece, &mut take).unwrap();
            }
            assert_eq!(decoder.finish(&mut take).unwrap(), is_known);
            assert_eq!(found, whole, "{encoding} {len}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_decoded_in_pieces() {
        let line = b"a=3Db=C3=A9  c \td".repeat(ENCODED_PIECE_LEN / 8);
        let (whole, _) = decoded(b"quoted-printable", &line);
        for len in [1000, 1001, 1003, ENCODED_PIECE_LEN + 1] {
            let (mut found, mut most) = (Vec::new(), 0);
            let mut decoder = PieceDecoder::new(b"quoted-printable");
            for piece in line.chunks(len) {
                let mut take = |bytes: &[u8]| {
                    found.extend_from_slice(bytes);
                    Ok(())
                };
                decoder.push(piece, &mut take).unwrap();
                most = most.max(decoder.waiting.len());
            }
            decoder
                .finish(&mut |bytes| {
                    found.extend_from_slice(bytes);
                    Ok(())
                })
                .unwrap();
            assert!(found == whole && most <= ENCODED_PIECE_LEN + len, "{len} {most}");
        }
    }

    #[test]
    fn pieces_are_decoded_as_the_whole() {
        check("BASE64", b"SGVs\r\nbG8g\nd29y\r\nbGQh\r\nIQ==\r\n");
        check("base64", b"aGVsbG8=aGVsbG8=\naGVsbG8");
        check("base64", b"a G V s\n");
        check("base64", b"aG*Vs-bG8_h\n");
        check("quoted-printable", b"a=3Db=\r\nc =\nd=20\r\n  \r\n=C3=A9 \t\r\nlast=");
        check("7bit", b"a=3D\r\n");
        check("x-none", b"abc");
        check("8bit", b"\xff\0");
    }
}
