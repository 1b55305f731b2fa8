//! Charsets whose characters take several bytes.

use encoding_rs::{
    BIG5_INIT, DecoderResult, EUC_JP_INIT, EUC_KR_INIT, Encoding, GB18030_INIT, GBK_INIT,
    SHIFT_JIS_INIT,
};

/// A charset of several bytes for a character, and its state between lines.
#[derive(Clone, Copy, Debug)]
pub(in crate::tokenizer) enum MultiByte {
    /// A charset in which bytes below 0x80 are ASCII.
    Pairs(&'static Pairs),
    /// ISO-2022-JP, and whether an escape sequence has chosen pairs.
    Iso2022Jp(bool),
    /// UTF-16, and whether the low byte comes first; `None` until a byte order mark may have told.
    Utf16(Option<bool>),
    /// UTF-7 (RFC 2152): outside of base64, or the bits that are waiting and their number.
    Utf7(Option<(u32, u32)>),
}

/// A charset of `encoding_rs`, and what the C library takes of it.
#[derive(Debug)]
pub(in crate::tokenizer) struct Pairs {
    names: &'static [&'static str],
    encoding: &'static Encoding,
    takes: fn(u8, u8) -> bool,
    /// Up to where bytes from 0x80 on are control characters.
    controls_end: u8,
    /// How many bytes a character beyond ASCII and these has at least.
    len_min: usize,
}

static PAIRS: [Pairs; 8] = [
    Pairs {
        names: &["BIG5", "BIG-5", "BIG-FIVE", "BIGFIVE", "CN-BIG5", "CP950", "CSBIG5"],
        encoding: &BIG5_INIT,
        takes: |lead, _| matches!(lead, 0xA1..=0xF9),
        controls_end: 0x80,
        len_min: 2,
    },
    Pairs {
        names: &["GB2312", "EUC-CN", "EUCCN", "CN-GB", "CSGB2312"],
        encoding: &GBK_INIT,
        takes: is_gb2312,
        controls_end: 0x7F,
        len_min: 2,
    },
    Pairs {
        names: &["GBK", "CP936", "GB13000", "MS936", "WINDOWS-936"],
        encoding: &GBK_INIT,
        takes: |_, trail| trail >= 0x40,
        controls_end: 0x80,
        len_min: 2,
    },
    Pairs {
        names: &["GB18030"],
        encoding: &GB18030_INIT,
        takes: |_, _| true,
        controls_end: 0x80,
        len_min: 2,
    },
    Pairs {
        names: &["EUC-KR", "EUCKR", "CSEUCKR"],
        encoding: &EUC_KR_INIT,
        takes: |lead, trail| matches!(lead, 0xA1..=0xFD) && trail >= 0xA1,
        controls_end: 0x9F,
        len_min: 2,
    },
    Pairs {
        names: &["UHC", "CP949", "MSCP949", "OSF100203B5"],
        encoding: &EUC_KR_INIT,
        takes: |_, _| true,
        controls_end: 0x7F,
        len_min: 2,
    },
    Pairs {
        names: &["EUC-JP", "EUCJP", "UJIS", "CSEUCPKDFMTJAPANESE"],
        encoding: &EUC_JP_INIT,
        takes: |_, _| true,
        controls_end: 0x8D,
        len_min: 2,
    },
    Pairs {
        names: &["SJIS", "SHIFT-JIS", "CSSHIFTJIS", "CP932", "MS932", "WINDOWS-31J", "SJIS-WIN"],
        encoding: &SHIFT_JIS_INIT,
        takes: |_, _| true,
        controls_end: 0x7F,
        len_min: 1,
    },
];

/// The rows of GB 2312 that are filled, as GBK has more.
fn is_gb2312(lead: u8, trail: u8) -> bool {
    match lead {
        0xA1 | 0xA3 | 0xB0..=0xD6 | 0xD8..=0xF7 => matches!(trail, 0xA1..=0xFE),
        0xA2 => matches!(trail, 0xB1..=0xE2 | 0xE5..=0xEE | 0xF1..=0xFC),
        0xA4 => matches!(trail, 0xA1..=0xF3),
        0xA5 => matches!(trail, 0xA1..=0xF6),
        0xA6 => matches!(trail, 0xA1..=0xB8 | 0xC1..=0xD8),
        0xA7 => matches!(trail, 0xA1..=0xC1 | 0xD1..=0xF1),
        0xA8 => matches!(trail, 0xA1..=0xBA | 0xC5..=0xE9),
        0xA9 => matches!(trail, 0xA4..=0xEF),
        0xD7 => matches!(trail, 0xA1..=0xF9),
        _ => false,
    }
}

impl MultiByte {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "ISO-2022-JP" | "ISO2022JP" | "CSISO2022JP" => Self::Iso2022Jp(false),
            "UTF-16" | "UTF16" => Self::Utf16(None),
            "UTF-16LE" | "UTF16LE" => Self::Utf16(Some(true)),
            "UTF-16BE" | "UTF16BE" => Self::Utf16(Some(false)),
            "UTF-7" | "UTF7" => Self::Utf7(None),
            _ => return PAIRS.iter().find(|pairs| pairs.names.contains(&name)).map(Self::Pairs),
        })
    }

    /// Whether lines of ASCII stay what they are.
    pub(super) fn keeps_ascii(self) -> bool {
        matches!(self, Self::Pairs(_))
    }

    /// Converts a line to the end of `to`, which must not become longer than `end`.
    pub(super) fn convert(
        &mut self,
        line: &[u8],
        to: &mut Vec<u8>,
        end: usize,
        replacement: Option<u8>,
    ) {
        let mut rest = line;
        while let Some(&first) = rest.first() {
            let mut utf8 = [0; 8];
            let taken = match self {
                Self::Pairs(pairs) => pairs.character(rest, &mut utf8),
                Self::Iso2022Jp(is_double) => iso_2022_jp(is_double, rest, &mut utf8),
                Self::Utf16(order) => utf16(order, rest, &mut utf8),
                Self::Utf7(state) => utf7(state, rest, &mut utf8),
            };
            let (len, written) = taken.unwrap_or_else(|| {
                utf8[0] = replacement.unwrap_or(first);
                (1, 1)
            });
            if to.len() + written > end {
                return;
            }
            to.extend_from_slice(&utf8[..written]);
            rest = &rest[len..];
        }
    }
}

/// How many bytes a character takes, and how many it has in UTF-8; `None` if there is none.
type Taken = Option<(usize, usize)>;

impl Pairs {
    fn character(&self, text: &[u8], utf8: &mut [u8; 8]) -> Taken {
        let first = *text.first()?;
        if first < 0x80 {
            utf8[0] = first;
            return Some((1, 1));
        }
        if first <= self.controls_end {
            return Some((1, put(char::from(first), utf8)));
        }
        for len in self.len_min..=text.len().min(4) {
            if len > 1 && !(self.takes)(first, text[1]) {
                return None;
            }
            let mut decoder = self.encoding.new_decoder_without_bom_handling();
            let decoded = decoder.decode_to_utf8_without_replacement(&text[..len], utf8, true);
            if let (DecoderResult::InputEmpty, _, written) = decoded {
                return Some((len, written));
            }
        }
        None
    }
}

fn put(character: char, utf8: &mut [u8; 8]) -> usize {
    character.encode_utf8(utf8).len()
}

fn iso_2022_jp(is_double: &mut bool, text: &[u8], utf8: &mut [u8; 8]) -> Taken {
    match *text {
        [0x1B, b'(', b'B' | b'J', ..] => {
            *is_double = false;
            Some((3, 0))
        }
        [0x1B, b'$', b'B' | b'@', ..] => {
            *is_double = true;
            Some((3, 0))
        }
        [lead @ 0x21..=0x7E, trail @ 0x21..=0x7E, ..] if *is_double => {
            let pair = [lead | 0x80, trail | 0x80];
            let mut decoder = EUC_JP_INIT.new_decoder_without_bom_handling();
            match decoder.decode_to_utf8_without_replacement(&pair, utf8, true) {
                (DecoderResult::InputEmpty, _, written) => Some((2, written)),
                _ => None,
            }
        }
        [byte @ (0..=0x20 | 0x7F), ..] => {
            // A line end goes back to single bytes.
            *is_double &= byte != b'\n';
            utf8[0] = byte;
            Some((1, 1))
        }
        [byte @ 0x21..=0x7E, ..] if !*is_double => {
            utf8[0] = byte;
            Some((1, 1))
        }
        _ => None,
    }
}

fn utf16(order: &mut Option<bool>, text: &[u8], utf8: &mut [u8; 8]) -> Taken {
    let is_little = match (*order, text) {
        (Some(is_little), _) => is_little,
        (None, [first, second, ..]) => {
            let mark = [*first, *second];
            *order = Some(mark != [0xFE, 0xFF]);
            if mark == [0xFE, 0xFF] || mark == [0xFF, 0xFE] {
                return Some((2, 0));
            }
            true
        }
        (None, _) => return None,
    };
    let unit = |at: usize| {
        let pair = [*text.get(at)?, *text.get(at + 1)?];
        Some(if is_little { u16::from_le_bytes(pair) } else { u16::from_be_bytes(pair) })
    };
    let high = unit(0)?;
    match char::from_u32(u32::from(high)) {
        Some(character) => Some((2, put(character, utf8))),
        None => {
            let pair = [high, unit(2)?];
            let character = char::decode_utf16(pair).next()?.ok()?;
            Some((4, put(character, utf8)))
        }
    }
}

fn utf7(state: &mut Option<(u32, u32)>, text: &[u8], utf8: &mut [u8; 8]) -> Taken {
    let first = *text.first()?;
    let Some((bits, count)) = *state else {
        return match first {
            b'+' if text.get(1) == Some(&b'-') => {
                utf8[0] = b'+';
                Some((2, 1))
            }
            b'+' => {
                *state = Some((0, 0));
                Some((1, 0))
            }
            0x80.. => None,
            _ => {
                utf8[0] = first;
                Some((1, 1))
            }
        };
    };
    let digit = match first {
        b'A'..=b'Z' => first - b'A',
        b'a'..=b'z' => first - b'a' + 26,
        b'0'..=b'9' => first - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        b'-' => {
            *state = None;
            return Some((1, 0));
        }
        _ => {
            *state = None;
            return utf7(state, text, utf8);
        }
    };
    let (bits, count) = (bits << 6 | u32::from(digit), count + 6);
    if count < 16 {
        *state = Some((bits, count));
        return Some((1, 0));
    }
    // Halves of surrogate pairs are no characters here.
    let unit = bits >> (count - 16) & 0xFFFF;
    *state = Some((bits & ((1 << (count - 16)) - 1), count - 16));
    char::from_u32(unit).map(|character| (1, put(character, utf8)))
}
