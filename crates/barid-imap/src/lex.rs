//! Strings, literals and numbers as bytes (RFC 9051 §9).

use std::borrow::Cow;

/// Reads `DQUOTE *QUOTED-CHAR DQUOTE` after its first quote, 8-bit text included. Returns the text
/// and the number of bytes up to the end of the last quote.
pub(crate) fn quoted(inside: &[u8]) -> Option<(Cow<'_, [u8]>, usize)> {
    let ends = |byte: &u8| matches!(byte, b'"' | b'\\') || is_never_quoted(*byte);
    let plain = inside.iter().position(ends)?;
    if inside[plain] == b'"' {
        return Some((Cow::Borrowed(&inside[..plain]), plain + 1));
    }
    let mut text = inside[..plain].to_vec();
    let mut bytes = inside.iter().enumerate().skip(plain);
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some((Cow::Owned(text), at + 1)),
            b'\\' => match bytes.next() {
                Some((_, byte)) if !is_never_quoted(*byte) => text.push(*byte),
                _ => return None,
            },
            byte if is_never_quoted(*byte) => return None,
            byte => text.push(*byte),
        }
    }
    None
}

/// Returns `true` for CR, LF and NUL.
fn is_never_quoted(byte: u8) -> bool {
    matches!(byte, 0 | b'\r' | b'\n')
}

/// Reads `number64 ["+"] "}" (CRLF / LF) *OCTET` after the first brace. Returns the bytes and the
/// number of bytes up to their end.
pub(crate) fn literal(inside: &[u8]) -> Option<(&[u8], usize)> {
    let close = memchr::memchr(b'}', inside)?;
    let digits = inside[..close].strip_suffix(b"+").unwrap_or(&inside[..close]);
    let len: usize = number(digits)?;
    let after = &inside[close + 1..];
    let bytes = after.strip_prefix(b"\r\n").or_else(|| after.strip_prefix(b"\n"))?;
    let end = inside.len() - bytes.len() + len.min(bytes.len());
    bytes.get(..len).map(|bytes| (bytes, end))
}

/// Parses a number that consists of digits only.
pub(crate) fn number<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(digits).ok().filter(|_| is_number);
    text.and_then(|text| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_strings() {
        let check = |inside: &[u8], expected: Option<(&[u8], usize)>| {
            let found = quoted(inside);
            let found = found.as_ref().map(|(text, len)| (&**text, *len));
            assert_eq!(found, expected, "{}", inside.escape_ascii());
        };
        check(b"a b\" c", Some((b"a b", 4)));
        check(b"\"", Some((b"", 1)));
        check(b"a\\\"\\\\\" c", Some((b"a\"\\", 6)));
        check(b"\\x\"", Some((b"x", 3)));
        check(b"\xc3\xa4\xff\"", Some((b"\xc3\xa4\xff", 4)));
        for bad in [&b""[..], b"a", b"a\\", b"a\\\"", b"a\r\n\"", b"\\\0\"", b"\0\"", b"\\a\n\""] {
            check(bad, None);
        }
    }

    #[test]
    fn literals() {
        let check = |inside: &[u8], expected: Option<(&[u8], usize)>| {
            assert_eq!(literal(inside), expected, "{}", inside.escape_ascii());
        };
        check(b"3}\r\nabcd", Some((b"abc", 7)));
        check(b"03+}\nabcd", Some((b"abc", 8)));
        check(b"0}\r\n", Some((b"", 4)));
        for bad in
            [&b""[..], b"3", b"3}", b"3}abc", b"3}\r\nab", b"}\r\nab", b"+}\r\n", b"+3}\r\nabc"]
        {
            check(bad, None);
        }
        check(b"18446744073709551615}\r\nabc", None);
    }
}
