//! Charsets whose characters take several bytes.

use encoding_rs::{
    BIG5_INIT, DecoderResult, EUC_JP_INIT, EUC_KR_INIT, Encoding, GB18030_INIT, GBK_INIT,
    SHIFT_JIS_INIT,
};

/// A charset of several bytes per character, and its state between lines.
#[derive(Clone, Copy, Debug)]
pub(in crate::tokenizer) enum MultiByte {
    /// A charset in which most bytes below 0x80 are ASCII.
    Pairs(&'static Pairs),
    /// ISO-2022-JP; `true` if an escape sequence has switched to two bytes per character.
    Iso2022Jp(bool),
    /// UTF-16; `true` for little endian, `None` until the first two bytes, which may be a byte
    /// order mark, have been read.
    Utf16(Option<bool>),
    /// UTF-7 (RFC 2152): `None` outside of base64, inside it the bits not yet written and their
    /// number.
    Utf7(Option<(u32, u32)>),
}

/// A charset of `encoding_rs`, limited to the sequences that the C library accepts.
#[derive(Debug)]
pub(in crate::tokenizer) struct Pairs {
    names: &'static [&'static str],
    encoding: &'static Encoding,
    takes: fn(u8, u8) -> bool,
    /// Last byte of the range from 0x80 on whose bytes are control characters; below 0x80 there are
    /// none.
    controls_end: u8,
    /// Fewest bytes of a character outside ASCII and these control characters.
    len_min: usize,
    /// Sequences that the C library converts differently, ascending.
    others: &'static [Run],
}

/// Sequences of bytes, read as numbers from `first` to `last`, whose code points ascend from
/// `code`; with 0 they mean nothing.
#[derive(Debug)]
struct Run {
    first: u32,
    last: u32,
    code: u32,
}

static PAIRS: [Pairs; 9] = [
    Pairs {
        names: &["BIG5", "BIG-5", "BIG-FIVE", "BIGFIVE", "CN-BIG5", "CP950", "CSBIG5"],
        encoding: &BIG5_INIT,
        takes: |lead, _| matches!(lead, 0xA1..=0xF9),
        controls_end: 0x80,
        len_min: 2,
        others: &BIG5,
    },
    Pairs {
        names: &["GB2312", "EUC-CN", "EUCCN", "CN-GB", "CSGB2312"],
        encoding: &GBK_INIT,
        takes: is_gb2312,
        controls_end: 0x7F,
        len_min: 2,
        others: &GB2312,
    },
    Pairs {
        names: &["GBK", "CP936", "GB13000", "MS936", "WINDOWS-936"],
        encoding: &GBK_INIT,
        takes: |_, trail| trail >= 0x40,
        controls_end: 0x7F,
        len_min: 1,
        others: &GBK,
    },
    Pairs {
        names: &["GB18030"],
        encoding: &GB18030_INIT,
        takes: |_, _| true,
        controls_end: 0x7F,
        len_min: 1,
        others: &GB18030,
    },
    Pairs {
        names: &["EUC-KR", "EUCKR", "CSEUCKR"],
        encoding: &EUC_KR_INIT,
        takes: |lead, trail| matches!(lead, 0xA1..=0xFD) && trail >= 0xA1,
        controls_end: 0x9F,
        len_min: 2,
        others: &EUC_KR,
    },
    Pairs {
        names: &["UHC", "CP949", "MSCP949", "OSF100203B5"],
        encoding: &EUC_KR_INIT,
        takes: |_, _| true,
        controls_end: 0x7F,
        len_min: 2,
        others: &[],
    },
    EUC_JP_PAIRS,
    Pairs {
        names: &["SJIS", "SHIFT-JIS", "SHIFT_JIS", "MS_KANJI", "CSSHIFTJIS"],
        encoding: &SHIFT_JIS_INIT,
        takes: |_, _| true,
        controls_end: 0x7F,
        len_min: 1,
        others: &SJIS,
    },
    Pairs {
        names: &["CP932", "MS932", "WINDOWS-31J", "SJIS-OPEN", "SJIS-WIN"],
        encoding: &SHIFT_JIS_INIT,
        takes: |_, _| true,
        controls_end: 0x7F,
        len_min: 1,
        others: &CP932,
    },
];

const EUC_JP_PAIRS: Pairs = Pairs {
    names: &["EUC-JP", "EUCJP", "UJIS", "CSEUCPKDFMTJAPANESE"],
    encoding: &EUC_JP_INIT,
    takes: |_, _| true,
    controls_end: 0x8D,
    len_min: 1,
    others: &EUC_JP,
};

/// Parses runs: the first sequence, `-` and the last if there are more, a colon, a code point. The
/// test that compares with the C library prints the runs that are missing.
const fn runs<const COUNT: usize>(text: &str) -> [Run; COUNT] {
    let mut runs = [const { Run { first: 0, last: 0, code: 0 } }; COUNT];
    let (text, mut at, mut count) = (text.as_bytes(), 0, 0);
    while at < text.len() {
        let (first, last, code);
        (first, at) = number(text, at);
        (last, at) = if text[at] == b'-' { number(text, at + 1) } else { (first, at) };
        assert!(text[at] == b':', "a code point follows");
        (code, at) = number(text, at + 1);
        runs[count] = Run { first, last, code };
        count += 1;
        while at < text.len() && text[at] == b' ' {
            at += 1;
        }
    }
    assert!(count == COUNT, "all are counted");
    runs
}

/// Parses a hexadecimal number; returns it and its end.
const fn number(text: &[u8], mut at: usize) -> (u32, usize) {
    let mut number = 0;
    while at < text.len() && text[at].is_ascii_hexdigit() {
        let digit = (text[at] as char).to_digit(16);
        number = number << 4 | digit.expect("because it is a digit");
        at += 1;
    }
    (number, at)
}

const BIG5: [Run; 7] = runs(
    "A3C0-A3E0:0 C6A1-C6FE:F6B1 C740-C77E:F70F C7A1-C7FE:F74E C840-C87E:F7AC \
     C8A1-C8FE:F7EB F9FE:2593",
);

const GB2312: [Run; 2] = runs("A1A4:30FB A1AA:2015");

const GBK: [Run; 53] = runs(
    "A140-A17E:0 A180-A1A0:0 A240-A27E:0 A280-A2A0:0 A2AB-A2B0:0 A2E3-A2E4:0 \
     A2EF-A2F0:0 A2FD-A2FE:0 A340-A37E:0 A380-A3A0:0 A440-A47E:0 A480-A4A0:0 \
     A4F4-A4FE:0 A540-A57E:0 A580-A5A0:0 A5F7-A5FE:0 A640-A67E:0 A680-A6A0:0 \
     A6B9-A6C0:0 A6D9-A6DF:0 A6EC-A6ED:0 A6F3:0 A6F6-A6FE:0 A740-A77E:0 A780-A7A0:0 \
     A7C2-A7D0:0 A7F2-A7FE:0 A896-A8A0:0 A8BC:0 A8BF:0 A8C1-A8C4:0 A8EA-A8FE:0 A958:0 \
     A95B:0 A95D-A95F:0 A989-A995:0 A997-A9A3:0 A9F0-A9FE:0 AAA1-AAFE:0 ABA1-ABFE:0 \
     ACA1-ACFE:0 ADA1-ADFE:0 AEA1-AEFE:0 AFA1-AFFE:0 D7FA-D7FE:0 F8A1-F8FE:0 \
     F9A1-F9FE:0 FAA1-FAFE:0 FBA1-FBFE:0 FCA1-FCFE:0 FDA1-FDFE:0 FE50-FE7E:0 \
     FE80-FEFE:0",
);

const GB18030: [Run; 12] = runs(
    "80:0 A3A0:E5E5 FE51:20087 FE52:20089 FE53:200CC FE6C:215D7 FE76:2298F FE91:241FE \
     82359037-82359039:0 82359130-82359134:0 84318236-84318239:0 84318330-84318335:0",
);

const EUC_KR: [Run; 1] = runs("A2E8:327E");

const EUC_JP: [Run; 14] = runs(
    "90-9F:90 A1C1:301C A1C2:2016 A1DD:2212 A1F1-A1F2:A2 A2CC:AC ADA1-ADBE:0 \
     ADC0-ADD6:0 ADDF-ADFC:0 F9A1-F9FE:0 FAA1-FAFE:0 FBA1-FBFE:0 FCA1-FCEE:0 \
     FCF1-FCFE:0",
);

const SJIS: [Run; 42] = runs(
    "5C:A5 7E:203E 80:0 8160:301C 8161:2016 817C:2212 8191-8192:A2 81CA:AC 8740-875D:0 875F-8775:0 \
     877E:0 8780-879C:0 ED40-ED7E:0 ED80-EDFC:0 EE40-EE7E:0 EE80-EEEC:0 EEEF-EEFC:0 \
     F040-F07E:0 F080-F0FC:0 F140-F17E:0 F180-F1FC:0 F240-F27E:0 F280-F2FC:0 \
     F340-F37E:0 F380-F3FC:0 F440-F47E:0 F480-F4FC:0 F540-F57E:0 F580-F5FC:0 \
     F640-F67E:0 F680-F6FC:0 F740-F77E:0 F780-F7FC:0 F840-F87E:0 F880-F8FC:0 \
     F940-F97E:0 F980-F9FC:0 FA40-FA7E:0 FA80-FAFC:0 FB40-FB7E:0 FB80-FBFC:0 \
     FC40-FC4B:0",
);

const CP932: [Run; 1] = runs("80:0");

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

    /// Returns `true` if lines of ASCII are converted to themselves.
    pub(super) fn keeps_ascii(self) -> bool {
        let Self::Pairs(pairs) = self else { return false };
        pairs.others.first().is_none_or(|run| run.first >= 0x80)
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

/// Bytes consumed for a character, and bytes of UTF-8 written for it; `None` if the input begins
/// with no valid character.
type Taken = Option<(usize, usize)>;

impl Pairs {
    fn character(&self, text: &[u8], utf8: &mut [u8; 8]) -> Taken {
        let first = *text.first()?;
        if first < 0x80 {
            let character = self.other(&[first]).and_then(char::from_u32);
            return Some((1, put(character.unwrap_or(char::from(first)), utf8)));
        }
        if first <= self.controls_end {
            return Some((1, put(char::from(first), utf8)));
        }
        for len in self.len_min..=text.len().min(4) {
            if len > 1 && !(self.takes)(first, text[1]) {
                return None;
            }
            if let Some(code) = self.other(&text[..len]) {
                return Some((len, put(char::from_u32(code)?, utf8)));
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

impl Pairs {
    /// Returns the code point of a sequence for which the C library differs; `u32::MAX`, which no
    /// character has, where it rejects the sequence.
    fn other(&self, sequence: &[u8]) -> Option<u32> {
        let key = sequence.iter().fold(0, |key, byte| key << 8 | u32::from(*byte));
        let run = &self.others[..self.others.partition_point(|run| run.first <= key)];
        let run = run.last().filter(|run| key <= run.last)?;
        Some(if run.code == 0 { u32::MAX } else { run.code + (key - run.first) })
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
            EUC_JP_PAIRS.character(&[lead | 0x80, trail | 0x80], utf8)
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

static BASE64: [u8; 256] = barid_charset::base64_values(0xFF);

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
    let digit = match (BASE64[usize::from(first)], first) {
        (digit @ 0..64, _) => digit,
        (_, b'-') => {
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
    // Halves of surrogate pairs are not characters here.
    let unit = bits >> (count - 16) & 0xFFFF;
    *state = Some((bits & ((1 << (count - 16)) - 1), count - 16));
    char::from_u32(unit).map(|character| (1, put(character, utf8)))
}
