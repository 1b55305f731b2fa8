//! Charsets of mail that the WHATWG Encoding Standard, and so `encoding_rs`, lacks, and names of
//! the C library for those that it has.
//!
//! The tables and the rules for single characters are those of the GNU C library, as comparisons
//! with its `iconv` show; malformed bytes become U+FFFD. Input may be anything: every function
//! takes linear time and keeps a few bytes of state.
//!
//! The digits of base64 are here, too, for the decoders of mail and of UTF-7.

mod base64;
mod iso2022;
mod johab;
mod names;
mod single;

use encoding_rs::Encoding;

pub use self::base64::base64_values;
pub use self::names::encoding_named;
pub use self::single::{single_byte_names, upper_half};

/// A charset that `encoding_rs` lacks.
#[derive(Clone, Copy, Debug)]
pub enum Charset {
    /// One byte a character: the upper half.
    Single(&'static [u16; 128]),
    /// Johab, KS X 1001 annex 3: Hangul by its letters.
    Johab,
    /// ISO-2022-JP-2 (RFC 1554), and ISO-2022-JP-1 in it.
    Iso2022Jp2,
    /// ISO-2022-KR (RFC 1557).
    Iso2022Kr,
    /// UTF-32; `true` if the low byte comes first.
    Utf32(bool),
}

impl Charset {
    /// Returns the charset of a name, in any case; `None` if it is not one of these.
    pub fn named(name: &[u8]) -> Option<Self> {
        let name = names::upper(name)?;
        Some(match &*name {
            "JOHAB" | "CP1361" | "MSCP1361" => Self::Johab,
            "ISO-2022-JP-2" | "ISO2022JP2" | "CSISO2022JP2" | "ISO-2022-JP-1" => Self::Iso2022Jp2,
            "ISO-2022-KR" | "ISO2022KR" | "CSISO2022KR" => Self::Iso2022Kr,
            "UTF-32" | "UTF32" | "UTF-32BE" | "UTF32BE" | "UCS-4" | "UCS4" | "UCS-4BE"
            | "ISO-10646-UCS-4" => Self::Utf32(false),
            "UTF-32LE" | "UTF32LE" | "UCS-4LE" => Self::Utf32(true),
            name => Self::Single(upper_half(name)?),
        })
    }

    /// Decodes a text. O(length).
    pub fn decode(self, bytes: &[u8]) -> String {
        let mut out = String::with_capacity(bytes.len() + bytes.len() / 2);
        match self {
            Self::Single(upper) => out.extend(bytes.iter().map(|byte| single(upper, *byte))),
            Self::Johab => johab::decode(bytes, &mut out),
            Self::Iso2022Jp2 => iso2022::decode_jp_2(bytes, &mut out),
            Self::Iso2022Kr => iso2022::decode_kr(bytes, &mut out),
            Self::Utf32(is_little) => utf32(bytes, is_little, &mut out),
        }
        out
    }
}

fn single(upper: &[u16; 128], byte: u8) -> char {
    let Some(at) = byte.checked_sub(0x80) else { return char::from(byte) };
    match upper[usize::from(at)] {
        0 => char::REPLACEMENT_CHARACTER,
        code => char::from_u32(code.into()).unwrap_or(char::REPLACEMENT_CHARACTER),
    }
}

fn utf32(bytes: &[u8], is_little: bool, out: &mut String) {
    const MARK: char = '\u{feff}';
    let mut units = bytes.chunks(4).peekable();
    let mut is_little = is_little;
    if let Some([0xFF, 0xFE, 0, 0]) = units.peek() {
        is_little = true;
    }
    for (at, unit) in units.enumerate() {
        let code = <[u8; 4]>::try_from(unit).ok().map(|unit| match is_little {
            true => u32::from_le_bytes(unit),
            false => u32::from_be_bytes(unit),
        });
        let character = code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
        if at > 0 || character != MARK {
            out.push(character);
        }
    }
}

/// Decodes a sequence that is one character of a charset of `encoding_rs`.
fn one(encoding: &'static Encoding, sequence: &[u8]) -> Option<char> {
    let (text, has_errors) = encoding.decode_without_bom_handling(sequence);
    let mut characters = text.chars();
    let first = characters.next();
    first.filter(|_| !has_errors && characters.next().is_none())
}

/// Decodes a character of KS X 1001 by its row and cell, each with the high bit.
fn ks_x_1001(row: u8, cell: u8) -> Option<char> {
    match (row, cell) {
        // Added to KS X 1001 in 2002; the WHATWG's table is older.
        (0xA2, 0xE8) => Some('\u{327e}'),
        _ => one(encoding_rs::EUC_KR, &[row, cell]),
    }
}

#[cfg(test)]
mod tests;
