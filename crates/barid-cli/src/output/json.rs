//! A JSON writer without allocations: it appends to a buffer and keeps no state.
//!
//! The byte written last determines if a comma is needed, so nesting has no limit and a line can be
//! written from many places. Besides the characters of RFC 8259 §7, everything that could control a
//! terminal is escaped ([`steers`]), and bytes that are not UTF-8 become U+FFFD.

use super::date;
use super::escape::steers;

/// Appends JSON to a buffer.
pub(crate) struct Json<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Json<'a> {
    /// Starts a line: an object with the version of the schema and the type of the line.
    pub(crate) fn line(out: &'a mut Vec<u8>, kind: &str) -> Self {
        out.extend_from_slice(b"{\"v\":1,\"type\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.push(b'"');
        Self { out }
    }

    /// Continues a line.
    pub(crate) fn more(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Ends a line.
    pub(crate) fn end_line(self) {
        self.out.extend_from_slice(b"}\n");
    }

    fn separate(&mut self) {
        if !matches!(self.out.last(), Some(b'{' | b'[' | b':')) {
            self.out.push(b',');
        }
    }

    /// Writes a key that needs no escaping; its value must follow.
    pub(crate) fn key(&mut self, key: &str) -> &mut Self {
        self.separate();
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        self
    }

    /// Opens an object or an array.
    pub(crate) fn open(&mut self, bracket: u8) {
        self.separate();
        self.out.push(bracket);
    }

    /// Closes an object or an array.
    pub(crate) fn close(&mut self, bracket: u8) {
        self.out.push(bracket);
    }

    /// Writes `null`.
    pub(crate) fn null(&mut self) {
        self.separate();
        self.out.extend_from_slice(b"null");
    }

    /// Writes a boolean.
    pub(crate) fn bool(&mut self, value: bool) {
        self.separate();
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
    }

    /// Writes a number.
    pub(crate) fn number(&mut self, value: u64) {
        self.separate();
        self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }

    /// Writes a number with a fraction, without loss of precision; `null` unless it is finite.
    pub(crate) fn real(&mut self, value: f64) {
        if !value.is_finite() {
            return self.null();
        }
        self.separate();
        // The debug form always has a point or an exponent, so it is not read as an integer.
        self.out.extend_from_slice(format!("{value:?}").as_bytes());
    }

    /// Writes milliseconds with three decimals.
    pub(crate) fn millis(&mut self, time: std::time::Duration) {
        self.separate();
        let micros = time.as_micros();
        self.out.extend_from_slice(format!("{}.{:03}", micros / 1000, micros % 1000).as_bytes());
    }

    /// Writes a string.
    pub(crate) fn str(&mut self, text: &str) {
        if is_plain(text.as_bytes()) {
            return self.plain(text.as_bytes());
        }
        self.separate();
        self.out.push(b'"');
        escape_str(self.out, text);
        self.out.push(b'"');
    }

    /// Writes printable ASCII without quotes and backslashes as a string.
    pub(crate) fn plain(&mut self, text: &[u8]) {
        self.separate();
        self.out.push(b'"');
        self.out.extend_from_slice(text);
        self.out.push(b'"');
    }

    /// Returns the current position, for [`Json::rewind`].
    pub(crate) fn mark(&self) -> usize {
        self.out.len()
    }

    /// Removes everything written since a mark.
    pub(crate) fn rewind(&mut self, mark: usize) {
        self.out.truncate(mark);
    }

    /// Writes bytes that should be UTF-8 as a string.
    pub(crate) fn bytes(&mut self, text: &[u8]) {
        if is_plain(text) {
            return self.plain(text);
        }
        match std::str::from_utf8(text) {
            Ok(text) => self.str(text),
            Err(_) => self.lossy(text),
        }
    }

    #[cold]
    fn lossy(&mut self, text: &[u8]) {
        self.str(&String::from_utf8_lossy(text));
    }

    /// Writes a date (RFC 3339), or `null` if its year does not have four digits.
    pub(crate) fn date(&mut self, unix_seconds: i64, zone_minutes: i16) {
        self.separate();
        let start = self.out.len();
        self.out.push(b'"');
        if date::write_rfc3339(self.out, unix_seconds, zone_minutes) {
            self.out.push(b'"');
        } else {
            self.out.truncate(start);
            self.out.extend_from_slice(b"null");
        }
    }
}

/// Bytes that end a run that can be copied: escaped ones, and the first bytes of characters of
/// which some are escaped.
const SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] =
            byte < 0x20 || matches!(byte as u8, b'"' | b'\\' | 0x7f | 0xc2 | 0xd8 | 0xe2 | 0xef);
        byte += 1;
    }
    table
};

/// Returns `true` if a text is printable ASCII without quotes and backslashes; checks eight bytes
/// at a time.
fn is_plain(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks();
    let plain = |byte: &u8| byte.is_ascii() && !SPECIAL[usize::from(*byte)];
    words.iter().all(|word| is_plain_word(u64::from_le_bytes(*word))) && rest.iter().all(plain)
}

fn is_plain_word(word: u64) -> bool {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    // The high bit of the first byte below `limit`, and possibly of some above it.
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
    let equal = |byte: u64| below(word ^ (ONES * byte), 1);
    (below(word, 0x20) | equal(0x22) | equal(0x5c) | equal(0x7f) | word) & HIGH == 0
}

/// Appends the inside of a JSON string.
fn escape_str(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let mut rest = 0;
    while let Some(len) = bytes[rest..].iter().position(|byte| SPECIAL[usize::from(*byte)]) {
        out.extend_from_slice(&bytes[rest..rest + len]);
        rest += len;
        let c = text[rest..].chars().next().expect("because a special byte starts a character");
        rest += c.len_utf8();
        match c {
            '"' | '\\' => out.extend_from_slice(&[b'\\', c as u8]),
            '\n' => out.extend_from_slice(b"\\n"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\r' => out.extend_from_slice(b"\\r"),
            _ if c.is_ascii() || steers(c) => escape_unicode(out, c as u16),
            _ => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    out.extend_from_slice(&bytes[rest..]);
}

/// Writes a character of the basic plane as an escape.
fn escape_unicode(out: &mut Vec<u8>, code: u16) {
    out.extend_from_slice(b"\\u");
    for shift in [12, 8, 4, 0] {
        out.push(b"0123456789abcdef"[usize::from(code >> shift & 0xf)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &[u8], expected: &str) {
        let mut out = Vec::new();
        let mut json = Json::line(&mut out, "test");
        json.key("text").bytes(input);
        json.end_line();
        let line = String::from_utf8(out).unwrap();
        assert_eq!(line, format!("{{\"v\":1,\"type\":\"test\",\"text\":\"{expected}\"}}\n"));
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["text"], *String::from_utf8_lossy(input));
    }

    #[test]
    fn strings() {
        check(b"", "");
        check(b"plain", "plain");
        check(br#"a "quoted\" word"#, r#"a \"quoted\\\" word"#);
        check(b"\x1b[2J\0\x7f\r\n\t", "\\u001b[2J\\u0000\\u007f\\r\\n\\t");
        check("Grüße â‚¬ 日本 👍 ﷺ".as_bytes(), "Grüße â‚¬ 日本 👍 ﷺ");
        check("\u{9b}\u{202e}\u{2066}\u{feff}".as_bytes(), "\\u009b\\u202e\\u2066\\ufeff");
        check(b"caf\xe9", "caf\u{fffd}");
    }

    #[test]
    fn real_numbers_are_told_from_integers() {
        for (value, expected) in [(0.0, "0.0"), (1.0, "1.0"), (0.52, "0.52"), (1e-9, "1e-9")] {
            let mut out = Vec::new();
            let mut json = Json::line(&mut out, "test");
            json.key("value").real(value);
            json.end_line();
            let line = String::from_utf8(out).unwrap();
            assert!(line.ends_with(&format!(",\"value\":{expected}}}\n")), "{line}");
            let read: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert!(read["value"].is_f64() && read["value"] == value, "{line}");
        }
    }

    #[test]
    fn every_character_survives() {
        let all: String = ('\0'..=char::MAX).collect();
        let mut out = vec![b'"'];
        escape_str(&mut out, &all);
        out.push(b'"');
        let text = String::from_utf8(out).unwrap();
        assert!(!text.chars().any(|c| c.is_control() || steers(c)));
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), all);
    }

    #[test]
    fn plain_texts_are_told_anywhere() {
        for byte in 0..=255_u8 {
            let plain = matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
            for at in 0..21 {
                for other in [b'x', b' ', b'~', b'!', b'#', b'[', b']'] {
                    let mut text = [other; 21];
                    text[at] = byte;
                    assert_eq!(is_plain(&text), plain, "{byte} at {at} among {other}");
                }
            }
        }
    }

    #[test]
    fn commas_stand_between_values() {
        let mut out = Vec::new();
        let mut json = Json::line(&mut out, "x");
        json.key("list").open(b'[');
        json.number(1);
        json.open(b'{');
        json.key("a").null();
        json.key("b").bool(true);
        json.close(b'}');
        json.open(b'[');
        json.close(b']');
        json.str("[");
        json.date(0, 0);
        json.date(i64::MAX, 0);
        json.close(b']');
        json.key("ms").millis(std::time::Duration::from_micros(1_042));
        json.end_line();
        let expected = r#"{"v":1,"type":"x","list":[1,{"a":null,"b":true},[],"[","1970-01-01T00:00:00Z",null],"ms":1.042}"#;
        assert_eq!(String::from_utf8(out).unwrap().trim_end(), expected);
    }
}
