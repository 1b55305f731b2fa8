//! ISO-2022-JP-2 (RFC 1554) and ISO-2022-KR (RFC 1557): escape sequences choose sets of characters.

use encoding_rs::{EUC_JP, GBK, ISO_8859_7};

const ESCAPE: u8 = 0x1B;

/// A set of characters that an escape sequence chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    Ascii,
    /// JIS X 0201, of which two letters are not ASCII.
    Roman,
    Katakana,
    JisX0208,
    JisX0212,
    Gb2312,
    KsX1001,
}

impl Set {
    fn is_double(self) -> bool {
        matches!(self, Self::JisX0208 | Self::JisX0212 | Self::Gb2312 | Self::KsX1001)
    }

    fn single(self, byte: u8) -> Option<char> {
        match (self, byte) {
            (Self::Roman, b'\\') => Some('\u{a5}'),
            (Self::Roman, b'~') => Some('\u{203e}'),
            (Self::Katakana, _) => crate::one(EUC_JP, &[0x8E, byte | 0x80]),
            _ => Some(char::from(byte)),
        }
    }

    fn double(self, first: u8, second: u8) -> Option<char> {
        let [first, second] = [first | 0x80, second | 0x80];
        match self {
            Self::JisX0212 => crate::one(EUC_JP, &[0x8F, first, second]),
            Self::Gb2312 => crate::one(GBK, &[first, second]),
            Self::KsX1001 => crate::ks_x_1001(first, second),
            _ => crate::one(EUC_JP, &[first, second]),
        }
    }
}

/// Returns the set that an escape sequence chooses, and the length of the sequence.
fn chosen(text: &[u8]) -> Option<(Set, usize)> {
    Some(match text {
        [ESCAPE, b'(', b'B', ..] => (Set::Ascii, 3),
        [ESCAPE, b'(', b'J', ..] => (Set::Roman, 3),
        [ESCAPE, b'(', b'I', ..] => (Set::Katakana, 3),
        [ESCAPE, b'$', b'@' | b'B', ..] => (Set::JisX0208, 3),
        [ESCAPE, b'$', b'A', ..] => (Set::Gb2312, 3),
        [ESCAPE, b'$', b'(', b'C', ..] => (Set::KsX1001, 4),
        [ESCAPE, b'$', b'(', b'D', ..] => (Set::JisX0212, 4),
        _ => return None,
    })
}

/// Decodes ISO-2022-JP-2 to the end of `out`. A line end returns to ASCII.
pub(crate) fn decode_jp_2(bytes: &[u8], out: &mut String) {
    let (mut set, mut is_greek) = (Set::Ascii, None);
    let mut rest = bytes;
    while let Some((&first, after)) = rest.split_first() {
        if let Some((other, len)) = chosen(rest) {
            (set, rest) = (other, &rest[len..]);
            continue;
        }
        let (character, len) = match *rest {
            [ESCAPE, b'.', kind @ (b'A' | b'F'), ..] => {
                (is_greek, rest) = (Some(kind == b'F'), &rest[3..]);
                continue;
            }
            // One character of the upper half.
            [ESCAPE, b'N', byte, ..] if byte < 0x80 => (upper(is_greek, byte | 0x80), 3),
            [b'\n', ..] => {
                (set, is_greek) = (Set::Ascii, None);
                (Some('\n'), 1)
            }
            [0x21..=0x7E, second @ 0x21..=0x7E, ..] if set.is_double() => {
                (set.double(first, second), 2)
            }
            [0..=0x20 | 0x7F, ..] => (Some(char::from(first)), 1),
            [0x21..=0x7E, ..] if !set.is_double() => (set.single(first), 1),
            _ => (None, 1),
        };
        out.push(character.unwrap_or(char::REPLACEMENT_CHARACTER));
        rest = &after[len - 1..];
    }
}

fn upper(is_greek: Option<bool>, byte: u8) -> Option<char> {
    match is_greek? {
        true => crate::one(ISO_8859_7, &[byte]),
        false => Some(char::from(byte)),
    }
}

/// Decodes ISO-2022-KR to the end of `out`: shift out chooses KS X 1001, shift in ASCII.
pub(crate) fn decode_kr(bytes: &[u8], out: &mut String) {
    const SHIFT_OUT: u8 = 0x0E;
    const SHIFT_IN: u8 = 0x0F;
    let mut is_out = false;
    let mut rest = bytes;
    while let Some((&first, after)) = rest.split_first() {
        let (character, len) = match *rest {
            [ESCAPE, b'$', b')', b'C', ..] => {
                rest = &rest[4..];
                continue;
            }
            [SHIFT_OUT | SHIFT_IN, ..] => {
                (is_out, rest) = (first == SHIFT_OUT, after);
                continue;
            }
            [0x21..=0x7E, second @ 0x21..=0x7E, ..] if is_out => {
                (Set::KsX1001.double(first, second), 2)
            }
            [0..=0x7F, ..] if !is_out || !(0x21..=0x7E).contains(&first) => {
                // A line end returns to ASCII, so that a missing shift in affects one line.
                is_out &= first != b'\n';
                (Some(char::from(first)), 1)
            }
            _ => (None, 1),
        };
        out.push(character.unwrap_or(char::REPLACEMENT_CHARACTER));
        rest = &after[len - 1..];
    }
}
