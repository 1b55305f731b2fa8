//! Body of a message that is too large for memory, in the form in which the file stores it.

use barid_mailbox::{NewMessage, Result};
use barid_message::{CrlfPieces, LinePieces};

use super::{Composed, quote};
use crate::mbox::Variant;

/// Body of a large message; each use reads and quotes it again, in pieces.
pub(super) struct LargeBody<'a> {
    message: &'a NewMessage<'a>,
    /// The part of the body that is in memory.
    start: &'a [u8],
    /// Bytes before the rest.
    start_len: usize,
    variant: Variant,
    is_crlf: bool,
}

impl<'a> LargeBody<'a> {
    /// Returns the body of a message, of which the bytes before the rest and the part of the body
    /// in them are given; `None` if all of it is in memory.
    pub(super) fn of(
        message: &'a NewMessage<'a>,
        (text, start): (&[u8], &'a [u8]),
        variant: Variant,
        is_crlf: bool,
    ) -> Option<Self> {
        let start_len = text.len();
        let body = Self { message, start, start_len, variant, is_crlf };
        message.rest.is_some().then_some(body)
    }

    /// Returns the number of its bytes in the file. Reads all of it.
    pub(super) fn len(&self) -> Result<u64> {
        let mut len = 0;
        self.read(&mut |text, in_line| {
            let mut out = Vec::new();
            self.put(text, in_line, &mut out);
            len += out.len() as u64;
            Ok(())
        })?;
        Ok(len)
    }

    /// Writes it into `composed`.
    pub(super) fn write(&self, composed: &mut Composed<'_, '_>) -> Result<()> {
        self.read(&mut |text, in_line| {
            self.put(text, in_line, composed.bytes);
            composed.flush_if_full()
        })
    }

    /// Appends a piece, quoting its lines; with `in_line` it begins within a line.
    fn put(&self, text: &[u8], in_line: bool, out: &mut Vec<u8>) {
        let line_end = memchr::memchr(b'\n', text).map_or(text.len(), |end| end + 1);
        let (rest, lines) = text.split_at(if in_line { line_end } else { 0 });
        out.extend_from_slice(rest);
        quote(self.variant, lines, out);
    }

    /// Reads it in pieces that end only where that cannot hide a line to be quoted.
    fn read(&self, take: &mut dyn FnMut(&[u8], bool) -> Result<()>) -> Result<()> {
        let (mut crlf, mut lines, mut room) =
            (CrlfPieces::default(), LinePieces::default(), Vec::new());
        let mut push = |piece: &[u8]| {
            room.clear();
            if self.is_crlf {
                crlf.push(piece, &mut room);
            }
            let piece = if self.is_crlf { &room } else { piece };
            let mut taken = Ok(());
            lines.push(piece, &mut |text, in_line| taken = take(text, in_line));
            taken
        };
        push(self.start)?;
        self.message.read_after(self.start_len, &mut push)?;
        let mut taken = Ok(());
        lines.finish(&mut |text, in_line| taken = take(text, in_line));
        taken
    }
}

#[cfg(test)]
mod tests {
    use barid_types::InternalDate;
    use jiff::tz::TimeZone;

    use super::super::{Form, UidHeader, write_numbered};
    use super::*;
    use barid_mailbox::{MessageRest, StoredMessage, TakeRest};

    /// A rest that comes in pieces of this many bytes.
    #[derive(Debug)]
    struct Pieces<'a>(&'a [u8], usize);

    impl MessageRest for Pieces<'_> {
        fn size(&self) -> u64 {
            self.0.len() as u64
        }

        fn read(&self, take: &mut TakeRest<'_>) -> Result<()> {
            self.0.chunks(self.1).try_for_each(take)
        }
    }

    fn written(form: &Form<'_>, message: &NewMessage<'_>) -> (Vec<u8>, bool) {
        let (mut out, mut taken, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        let mut flush = |piece: &[u8]| {
            taken.extend_from_slice(piece);
            Ok(())
        };
        let mut composed = Composed { bytes: &mut bytes, flush: Some(&mut flush) };
        let date = InternalDate::default();
        write_numbered(form, message, UidHeader::default(), date, &mut composed).unwrap();
        let is_flushed = !taken.is_empty();
        out.extend_from_slice(&taken);
        out.extend_from_slice(&bytes);
        (out, is_flushed)
    }

    #[test]
    fn pieces_are_written_as_the_whole() {
        let mut rng = fastrand::Rng::with_seed(6);
        let parts = ["\n", "From me\n", ">From you\n", ">>Fr", "om ", "x", "\r\n", "F", "\r"];
        let mut flushed = 0;
        for round in 0..3000 {
            let header = *rng.choice(&["A: b\n\n", "A: b\r\nFrom x\r\n\r\n", "\n"]).unwrap();
            let mut body: String =
                (0..rng.usize(..12)).map(|_| *rng.choice(&parts).unwrap()).collect();
            if round % 500 == 0 {
                body = body.repeat((3 << 20) / body.len().max(1));
            }
            let whole = format!("{header}{body}");
            let start = rng.usize(header.len()..=whole.len());
            let most = if round % 500 == 0 { 100_000 } else { rng.usize(1..9) };
            let rest = Pieces(&whole.as_bytes()[start..], most);
            let separator = "From x Sat Jan  3 01:05:34 1996\n";
            let stood = format!("{separator}{whole}");
            let is_stored = rng.bool();
            let stored = |len: usize| StoredMessage {
                bytes: &stood.as_bytes()[..separator.len() + len],
                separator_len: separator.len(),
            };
            let plain = NewMessage {
                bytes: whole.as_bytes(),
                stored: is_stored.then_some(stored(whole.len())),
                ..NewMessage::default()
            };
            let large = NewMessage {
                bytes: &whole.as_bytes()[..start],
                rest: Some(&rest),
                stored: is_stored.then_some(stored(start)),
                ..NewMessage::default()
            };
            for variant in
                [Variant::Mboxo, Variant::Mboxrd, Variant::Mboxcl, Variant::Mboxcl2, Variant::Mmdf]
            {
                for is_crlf in [false, true] {
                    let form = Form { variant, is_crlf, zone: &TimeZone::UTC };
                    let (expected, _) = written(&form, &plain);
                    let (found, is_flushed) = written(&form, &large);
                    assert!(found == expected, "{variant:?} {is_crlf} {is_stored} {whole:.200?}");
                    flushed += u32::from(is_flushed);
                }
            }
        }
        assert!(flushed > 20, "{flushed}");
    }
}
