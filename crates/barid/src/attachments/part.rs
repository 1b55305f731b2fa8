//! The decoded bytes of a part of a message of any size.

use std::borrow::Cow;

use barid_mailbox::ReadAs;
use barid_message::{
    Attachment, body_offset, is_known_encoding, parameter, part_body, part_by_number,
};
use barid_types::{BodyStructure, Uid};

use super::reader::AttachmentToRead;
use crate::large::TakePiece;
use crate::limits::ENCODED_PIECE_LEN;
use crate::{Result, View};

/// A message with its structure.
#[derive(Clone, Copy, Debug)]
pub(super) struct StructuredMessage<'a> {
    pub(super) view: &'a View,
    pub(super) uid: Uid,
    /// The structure of the whole message.
    pub(super) structure: &'a BodyStructure,
    /// The message; `None` if it is too large, so that it is read for each of its parts.
    pub(super) bytes: Option<&'a [u8]>,
}

impl StructuredMessage<'_> {
    /// Reads an attachment, up to a byte more than `len_max`.
    pub(super) fn to_read(
        self,
        attachment: Attachment,
        len_max: usize,
    ) -> Result<AttachmentToRead> {
        let Attachment { number, name, media_type, .. } = attachment;
        let (mut bytes, mut charset) = (Vec::new(), None);
        if let Some(part) = part_by_number(self.structure, &number) {
            charset = parameter(&part.parameters, "charset").map(Cow::into_owned);
            self.read_part(part, &mut |piece| {
                // One byte more says that it is too long.
                let room = (len_max + 1).saturating_sub(bytes.len());
                bytes.extend_from_slice(&piece[..piece.len().min(room)]);
                room > piece.len()
            })?;
        }
        Ok(AttachmentToRead { media_type, name, charset, bytes })
    }

    /// Passes the decoded bytes of a part to `take`, in pieces, until it returns `false`. Returns
    /// `true` if its transfer encoding is known; otherwise the bytes are passed as they are.
    pub(super) fn read_part(self, part: &BodyStructure, take: &mut TakePiece<'_>) -> Result<bool> {
        if let Some(bytes) = self.bytes {
            take(&part_body(bytes, part).0);
            return Ok(is_known_encoding(&part.encoding));
        }
        let (from, to) = (part.body_offset as i64, part.body_end as i64);
        let mut decoder = PieceDecoder::new(&part.encoding);
        let (mut at, mut takes) = (None, true);
        self.view.read_pieces(self.uid, ReadAs::Message, &mut |piece| {
            // The header may have another length than when the structure was read.
            let header_len = |piece| self.structure.body_offset as i64 - body_offset(piece) as i64;
            let start = at.unwrap_or_else(|| header_len(piece));
            let len = piece.len() as i64;
            let within = |offset: i64| (offset - start).clamp(0, len) as usize;
            takes = decoder.push(&piece[within(from)..within(to)], take);
            at = Some(start + len);
            takes && start + len < to
        })?;
        if takes {
            decoder.finish(take);
        }
        Ok(is_known_encoding(&part.encoding))
    }
}

/// Decodes a transfer encoding in pieces, as [`part_body`] does it as a whole.
struct PieceDecoder {
    encoding: Vec<u8>,
    /// Encoded bytes whose rest has not come.
    waiting: Vec<u8>,
}

impl PieceDecoder {
    fn new(encoding: &[u8]) -> Self {
        Self { encoding: encoding.to_ascii_lowercase(), waiting: Vec::new() }
    }

    /// Decodes as much as it can; returns `false` if `take` wants no more.
    fn push(&mut self, bytes: &[u8], take: &mut TakePiece<'_>) -> bool {
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
            _ => take(bytes),
        }
    }

    fn decode(&mut self, len: usize, take: &mut TakePiece<'_>) -> bool {
        if len == 0 {
            return true;
        }
        let bytes = decoded(&self.encoding, &self.waiting[..len]);
        self.waiting.drain(..len);
        take(&bytes)
    }

    /// Decodes the rest.
    fn finish(mut self, take: &mut TakePiece<'_>) {
        self.decode(self.waiting.len(), take);
    }
}

fn decoded(encoding: &[u8], bytes: &[u8]) -> Vec<u8> {
    let part = BodyStructure {
        encoding: encoding.to_vec(),
        body_end: bytes.len() as u64,
        ..BodyStructure::default()
    };
    part_body(bytes, &part).0.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(encoding: &str, encoded: &[u8]) {
        let whole = decoded(encoding.as_bytes(), encoded);
        for len in 1..=encoded.len() {
            let (mut found, mut decoder) = (Vec::new(), PieceDecoder::new(encoding.as_bytes()));
            let mut take = |bytes: &[u8]| {
                found.extend_from_slice(bytes);
                true
            };
            for piece in encoded.chunks(len) {
                assert!(decoder.push(piece, &mut take));
            }
            decoder.finish(&mut take);
            assert_eq!(found, whole, "{encoding} {len}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_decoded_in_pieces() {
        let line = b"a=3Db=C3=A9  c \td".repeat(ENCODED_PIECE_LEN / 8);
        let whole = decoded(b"quoted-printable", &line);
        for len in [1000, 1001, 1003, ENCODED_PIECE_LEN + 1] {
            let (mut found, mut most) = (Vec::new(), 0);
            let mut decoder = PieceDecoder::new(b"quoted-printable");
            for piece in line.chunks(len) {
                let mut take = |bytes: &[u8]| {
                    found.extend_from_slice(bytes);
                    true
                };
                assert!(decoder.push(piece, &mut take));
                most = most.max(decoder.waiting.len());
            }
            decoder.finish(&mut |bytes| {
                found.extend_from_slice(bytes);
                true
            });
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
