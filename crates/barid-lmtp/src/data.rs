//! The bytes of a message on the wire: dots, line ends and the end.

use memchr::memchr;

/// State between two bytes of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DataState {
    /// After CR LF, or at the start.
    #[default]
    LineStart,
    /// After a dot at the start of a line.
    Dot,
    /// After a dot at the start of a line, and CR.
    DotCr,
    /// Within a line.
    Text,
    /// After CR.
    Cr,
}

/// Decodes the message after DATA: removes the dots that were added (RFC 5321 §4.5.2), and makes CR
/// LF to LF. Other line ends stay as they are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DataDecoder(DataState);

impl DataDecoder {
    /// Takes bytes; appends those of the message to `out`. Returns the number of bytes up to the end
    /// of the message, if that is among them.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            at += 1;
            self.0 = match (self.0, byte) {
                (DataState::LineStart, b'.') => DataState::Dot,
                (DataState::Dot, b'\r') => DataState::DotCr,
                (DataState::DotCr, b'\n') => return Some(at),
                (DataState::DotCr, byte) => {
                    out.push(b'\r');
                    text(byte, out)
                }
                (DataState::Cr, b'\n') => {
                    out.push(b'\n');
                    DataState::LineStart
                }
                (DataState::Cr, byte) => {
                    out.push(b'\r');
                    text(byte, out)
                }
                (DataState::LineStart | DataState::Dot | DataState::Text, byte) => text(byte, out),
            };
            if self.0 == DataState::Text {
                let rest = &bytes[at..];
                let len = memchr(b'\r', rest).unwrap_or(rest.len());
                out.extend_from_slice(&rest[..len]);
                at += len;
            }
        }
        None
    }
}

fn text(byte: u8, out: &mut Vec<u8>) -> DataState {
    if byte == b'\r' {
        return DataState::Cr;
    }
    out.push(byte);
    DataState::Text
}

/// Makes CR LF to LF in the chunks of BDAT.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChunkDecoder {
    has_cr: bool,
}

impl ChunkDecoder {
    /// Takes bytes, and appends those of the message to `out`.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if std::mem::take(&mut self.has_cr) && !rest.starts_with(b"\n") {
                out.push(b'\r');
            }
            let len = memchr(b'\r', rest).unwrap_or(rest.len());
            out.extend_from_slice(&rest[..len]);
            self.has_cr = len < rest.len();
            rest = rest.get(len + 1..).unwrap_or_default();
        }
    }

    /// Appends what is left at the end of the message.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.has_cr) {
            out.push(b'\r');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the message and the rest after its end, whole and byte by byte.
    fn check(wire: &str, message: &str, rest: Option<&str>) {
        for size in [wire.len().max(1), 1, 2, 3] {
            let (mut decoder, mut out) = (DataDecoder::default(), Vec::new());
            let (mut used, mut is_ended) = (0, false);
            for piece in wire.as_bytes().chunks(size) {
                match decoder.push(piece, &mut out) {
                    Some(len) => {
                        (used, is_ended) = (used + len, true);
                        break;
                    }
                    None => used += piece.len(),
                }
            }
            assert_eq!(String::from_utf8_lossy(&out), message, "{wire:?} {size}");
            assert_eq!(is_ended.then(|| &wire[used..]), rest, "{wire:?} {size}");
        }
    }

    #[test]
    fn only_a_dot_alone_between_crlf_ends_a_message() {
        check("a\r\n.\r\nQUIT", "a\n", Some("QUIT"));
        check(".\r\n", "", Some(""));
        check("a\r\n..b\r\n.\r\n", "a\n.b\n", Some(""));
        check("a\n.\r\nb\r\n.\r\n", "a\n.\nb\n", Some(""));
        check("a\r\n.\nb\r\n.\r\n", "a\n\nb\n", Some(""));
        check("a\r.\r\nb\r\n.\r\n", "a\r.\nb\n", Some(""));
        check("a\r\n.\r.\r\n.\r\n", "a\n\r.\n", Some(""));
        check("a\r\r\n.\r\n", "a\r\n", Some(""));
        check("a\r\n.\r\r\n.\r\n", "a\n\r\n", Some(""));
        check("a\r\n.", "a\n", None);
    }

    #[test]
    fn chunks_lose_the_cr_of_line_ends() {
        for size in 1..6 {
            let (mut decoder, mut out) = (ChunkDecoder::default(), Vec::new());
            let wire = b"a\r\n.\r\n\rb\r\r\n\r";
            wire.chunks(size).for_each(|piece| decoder.push(piece, &mut out));
            decoder.finish(&mut out);
            assert_eq!(out, b"a\n.\n\rb\r\n\r", "{size}");
        }
    }
}
