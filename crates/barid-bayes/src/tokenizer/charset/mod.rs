//! Conversion of charsets to UTF-8 as bogofilter does it with the C library's iconv: a byte that
//! cannot be converted is copied as it is.

#[cfg(test)]
mod iconv;
mod multi_byte;

pub(super) use multi_byte::MultiByte;

/// A charset, by the way it is converted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Charset {
    /// UTF-8: copied, invalid bytes included unless they are replaced.
    Utf8,
    /// ASCII: copied, bytes from 0x80 on included unless they are replaced.
    #[default]
    Ascii,
    /// ISO-8859-1.
    Latin1,
    /// A single-byte charset: the code points of its bytes from 0x80 on.
    Upper(&'static [u16; 128]),
    /// Any other charset, with its shift state between lines.
    Multi(MultiByte),
}

/// Limits of a conversion's output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Most bytes that are written; the rest of the line is dropped.
    pub(super) room: usize,
    /// Replacement for bytes that cannot be converted; `None` copies them.
    pub(super) replacement: Option<u8>,
}

/// Bytes of the longest character that the C library takes.
const CHARACTER_LEN_MAX: usize = 6;

const UTF8: [&str; 4] = ["UTF8", "UTF-8", "ISO-IR-193", "OSF05010001"];

const ASCII: [&str; 11] = [
    "ANSI_X3.4-1968",
    "ASCII",
    "CP367",
    "IBM367",
    "ISO-IR-6",
    "ISO646-US",
    "US",
    "US-ASCII",
    "CSASCII",
    "OSF00010020",
    "ANSI_X3.4-1986",
];

const LATIN1: [&str; 9] = [
    "ISO-8859-1",
    "ISO8859-1",
    "ISO88591",
    "LATIN1",
    "L1",
    "CP819",
    "IBM819",
    "ISO-IR-100",
    "CSISOLATIN1",
];

impl Charset {
    /// Finds a charset by its name in the C library, ignoring case. Characters that occur in no
    /// name are ignored.
    pub(super) fn named(name: &[u8]) -> Option<Self> {
        let mut upper = [0; 32];
        let mut len = 0;
        let known = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_:.,/".contains(byte);
        for byte in name.iter().filter(|byte| known(byte)) {
            *upper.get_mut(len)? = byte.to_ascii_uppercase();
            len += 1;
        }
        let name = std::str::from_utf8(&upper[..len]).ok()?;
        if UTF8.contains(&name) {
            return Some(Self::Utf8);
        }
        if ASCII.contains(&name) {
            return Some(Self::Ascii);
        }
        if LATIN1.contains(&name) {
            return Some(Self::Latin1);
        }
        if let Some(upper) = barid_charset::upper_half(name) {
            return Some(Self::Upper(upper));
        }
        MultiByte::named(name).map(Self::Multi)
    }

    /// Finds a charset by the value of a `charset=` parameter, which bogofilter rewrites first
    /// (`iso-8859-1` becomes `iso8859-1`).
    pub(super) fn of_parameter(value: &[u8], default: Self) -> Option<Self> {
        let (value, is_quoted) = match value.strip_prefix(b"\"") {
            Some(value) => (value, true),
            None => (value, false),
        };
        let mut name = [0; 32];
        let mut len = 0;
        for &byte in value {
            let byte = if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
            if byte == b'-' && &name[..len] == b"iso" {
                continue;
            }
            if is_quoted && byte == b'"' {
                break;
            }
            *name.get_mut(len)? = byte;
            len += 1;
        }
        if &name[..len] == b"default" { Some(default) } else { Self::named(&name[..len]) }
    }

    /// Finds the charset that mail uses under the name in a `charset=` parameter: text declared as
    /// ISO-8859-1 or GB2312 is read as windows-1252 or GBK.
    pub(super) fn of_parameter_modern(value: &[u8]) -> Option<Self> {
        let value = value.strip_prefix(b"\"").unwrap_or(value);
        let value = value.strip_suffix(b"\"").unwrap_or(value);
        match Self::named(value)? {
            Self::Latin1 => Self::named(b"CP1252"),
            Self::Multi(_) if value.eq_ignore_ascii_case(b"gb2312") => Self::named(b"GBK"),
            found => Some(found),
        }
    }

    /// Converts a line to the end of `to`.
    pub(super) fn convert(&mut self, line: &[u8], to: &mut Vec<u8>, bounds: Bounds) {
        let is_plain = !matches!(self, Self::Multi(multi) if !multi.keeps_ascii());
        let same = matches!(self, Self::Utf8 | Self::Ascii) && bounds.replacement.is_none();
        if same || (is_plain && line.is_ascii()) {
            let len = line.len().min(bounds.room);
            let is_utf8 = matches!(self, Self::Utf8);
            return to.extend_from_slice(if is_utf8 { whole(line, len) } else { &line[..len] });
        }
        let end = to.len().saturating_add(bounds.room);
        match self {
            Self::Utf8 => replace_invalid(line, to, bounds),
            Self::Ascii => {
                each_byte(line, to, end, bounds, |byte| if byte < 0x80 { byte.into() } else { 0 })
            }
            Self::Latin1 => each_byte(line, to, end, bounds, u16::from),
            Self::Upper(upper) => {
                let code = |byte: u8| match byte.checked_sub(0x80) {
                    Some(index) => upper[usize::from(index)],
                    None => u16::from(byte),
                };
                each_byte(line, to, end, bounds, code);
            }
            Self::Multi(multi) => multi.convert(line, to, end, bounds.replacement),
        }
    }
}

/// Returns the first `len` bytes of UTF-8, without a character that would be cut in two.
fn whole(line: &[u8], len: usize) -> &[u8] {
    for start in len.saturating_sub(CHARACTER_LEN_MAX - 1)..len {
        let rest = &line[start..line.len().min(start + CHARACTER_LEN_MAX)];
        if start + character_len(rest) > len {
            return &line[..start];
        }
    }
    &line[..len]
}

/// Returns the length of the character that a text begins with; 0 if there is none.
fn character_len(text: &[u8]) -> usize {
    let valid = match std::str::from_utf8(text) {
        Ok(text) => text.len(),
        Err(error) => error.valid_up_to(),
    };
    let valid = std::str::from_utf8(&text[..valid]).unwrap_or_default();
    valid.chars().next().map_or_else(|| beyond_len(text), char::len_utf8)
}

fn each_byte(line: &[u8], to: &mut Vec<u8>, end: usize, bounds: Bounds, code: impl Fn(u8) -> u16) {
    for &byte in line {
        let mut utf8 = [0; 4];
        let text = match code(byte) {
            0 if byte == 0 => &b"\0"[..],
            0 => &[bounds.replacement.unwrap_or(byte)],
            code => {
                let character = char::from_u32(u32::from(code)).unwrap_or('?');
                character.encode_utf8(&mut utf8).as_bytes()
            }
        };
        if to.len() + text.len() > end {
            return;
        }
        to.extend_from_slice(text);
    }
}

/// Copies UTF-8 with its invalid bytes replaced. As in the C library, sequences of four to six
/// bytes for code points above U+10FFFF are valid.
fn replace_invalid(line: &[u8], to: &mut Vec<u8>, bounds: Bounds) {
    let (start, end) = (to.len(), to.len().saturating_add(bounds.room));
    let mut rest = line;
    while let Err(error) = std::str::from_utf8(rest) {
        let (valid, invalid) = rest.split_at(error.valid_up_to());
        to.extend_from_slice(valid);
        let (known, after) = invalid.split_at(beyond_len(invalid));
        to.extend_from_slice(known);
        rest = after;
        if known.is_empty()
            && let Some((&byte, after)) = rest.split_first()
        {
            to.push(bounds.replacement.unwrap_or(byte));
            rest = after;
        }
    }
    to.extend_from_slice(rest);
    if to.len() > end {
        let len = whole(&to[start..], bounds.room).len();
        to.truncate(start + len);
    }
}

/// Returns the length of the character beyond Unicode that a text begins with; 0 if there is none.
/// Characters of five and six bytes must need them.
fn beyond_len(text: &[u8]) -> usize {
    let len = match text {
        [0xF4..=0xF7, ..] => 4,
        [0xF8, 0x88..=0xFF, ..] | [0xF9..=0xFB, ..] => 5,
        [0xFC, 0x84..=0xFF, ..] | [0xFD, ..] => 6,
        _ => return 0,
    };
    let rest = text.get(1..len).unwrap_or(&[0]);
    if rest.iter().all(|byte| (0x80..0xC0).contains(byte)) { len } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, line: &[u8], expected: &[u8]) {
        let mut charset = Charset::of_parameter(name.as_bytes(), Charset::Latin1).unwrap();
        let mut to = Vec::new();
        charset.convert(line, &mut to, Bounds { room: 1000, replacement: None });
        assert_eq!(to, expected, "{name}: {line:?}");
    }

    #[test]
    fn lines_become_utf8() {
        check("US-ASCII", b"caf\xE9\n", b"caf\xE9\n");
        check("default", b"caf\xE9\n", "café\n".as_bytes());
        check("\"ISO_8859-15\"", b"\xA4\n", "€\n".as_bytes());
        check(
            "windows-1252",
            b"\x93x\x81\n",
            "\u{201C}x".as_bytes().iter().copied().chain(*b"\x81\n").collect::<Vec<_>>().as_slice(),
        );
        check("koi8-r", b"\xF0\xD2\xC9\n", "При\n".as_bytes());
        check("gb2312", b"a\xC4\xE3\xBA\xC3\n", "a你好\n".as_bytes());
        check("big5", b"\xA7A\xA6n\n", "你好\n".as_bytes());
        check("euc-kr", b"\xB0\xA1\xFFA\n", &["가".as_bytes(), b"\xFFA\n"].concat());
    }

    /// As `iconv -f UTF-8 -t UTF-8` has it.
    #[test]
    fn characters_beyond_unicode_are_valid() {
        let check = |line: &[u8], expected: &[u8]| {
            let mut to = Vec::new();
            replace_invalid(line, &mut to, Bounds { room: 1000, replacement: Some(b'?') });
            assert_eq!(to.escape_ascii().to_string(), expected.escape_ascii().to_string());
        };
        for valid in
            [&b"\xF4\x90\x80\x80"[..], b"\xF9\x9D\x89\x8F\xA6", b"\xFC\x84\x80\x80\x80\x80"]
        {
            check(&[b"a", valid, b"b"].concat(), &[b"a", valid, b"b"].concat());
            check(&valid[..valid.len() - 1], &b"?????"[..valid.len() - 1]);
        }
        check(b"\xF8\x87\xBF\xBF\xBF", b"?????");
        check(b"\xFE\x84\x80", b"???");
    }

    #[test]
    fn what_does_not_fit_is_not_cut_in_two() {
        let check = |line: &[u8], room: usize, expected: usize| {
            let mut to = Vec::new();
            Charset::Utf8.convert(line, &mut to, Bounds { room, replacement: None });
            assert_eq!(to, line[..expected], "{line:?} {room}");
        };
        let line = "a\u{e9}\u{20ac}\u{1f600}b".as_bytes();
        for (room, expected) in [
            (0, 0),
            (1, 1),
            (2, 1),
            (3, 3),
            (4, 3),
            (5, 3),
            (6, 6),
            (7, 6),
            (8, 6),
            (9, 6),
            (10, 10),
        ] {
            check(line, room, expected);
        }
        check(b"\xA9\xC3\xA9", 1, 1);
        check(b"\xA9\xC3\xA9", 2, 1);
        check(b"\xC3\xC3\xA9", 1, 1);
        check(b"\xF7\x80\x80\x80", 3, 0);
        check(b"\xF8\x80\x80\x80\x80", 3, 3);
        check(b"\xF9\x80\x80\x80\x80", 4, 0);
        check(b"ab\xC3", 3, 3);
    }

    #[test]
    fn unknown_names() {
        assert!(Charset::of_parameter(b"unknown-8bit", Charset::Latin1).is_none());
        assert!(Charset::of_parameter(&[b'x'; 4000], Charset::Latin1).is_none());
        // The C library has no such name: the dash is gone.
        assert!(Charset::of_parameter(b"iso-2022-jp", Charset::Latin1).is_none());
        assert!(Charset::named(b"iso-2022-jp").is_some());
    }
}
