//! Plain text, and the charset of HTML.

use std::borrow::Cow;

use barid_message::{decode_charset, decode_plain};

use crate::Failure;
use crate::limits::{CHARSET_LEN_MAX, META_LEN};

/// Returns a text, decoded as texts of messages are; a byte order mark overrides the charset.
///
/// # Errors
/// [`Failure::NotText`] if it has zero bytes.
pub(crate) fn decode<'b>(bytes: &'b [u8], charset: &str) -> Result<Cow<'b, str>, Failure> {
    let text = match (marked_charset(bytes), charset) {
        (Some(marked), _) => decode_charset(marked.as_bytes(), bytes),
        (None, "" | "us-ascii") => None,
        (None, charset) => decode_charset(charset.as_bytes(), bytes),
    };
    let text = text.unwrap_or_else(|| decode_plain(bytes));
    if text.contains('\0') { Err(Failure::NotText) } else { Ok(text) }
}

/// Returns the charset that a byte order mark shows.
pub(crate) fn marked_charset(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0xef, 0xbb, 0xbf, ..] => Some("utf-8"),
        [0xfe, 0xff, ..] => Some("utf-16be"),
        [0xff, 0xfe, ..] => Some("utf-16le"),
        _ => None,
    }
}

/// Returns the charset that the beginning of HTML declares, or an empty text.
pub(crate) fn html_charset(bytes: &[u8]) -> String {
    let start = bytes[..bytes.len().min(META_LEN)].to_ascii_lowercase();
    let Some(at) = memchr::memmem::find(&start, b"charset") else { return String::new() };
    let value = start[at + b"charset".len()..].trim_ascii_start();
    let Some(value) = value.strip_prefix(b"=") else { return String::new() };
    let value = value.trim_ascii_start();
    let value = value.strip_prefix(b"\"").or(value.strip_prefix(b"'")).unwrap_or(value);
    clean_charset(&String::from_utf8_lossy(value))
}

/// Returns the name of a charset at the start of a text, as it can be an argument of a program.
pub(crate) fn clean_charset(text: &str) -> String {
    let is_part = |c: &char| c.is_ascii_alphanumeric() || "-_.:+".contains(*c);
    let name = text.trim().chars().take_while(is_part).take(CHARSET_LEN_MAX);
    name.collect::<String>().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charsets_are_declared_or_guessed() {
        let check = |bytes: &[u8], charset: &str, expected: Result<&str, Failure>| {
            assert_eq!(decode(bytes, charset).as_deref(), expected.as_ref().copied(), "{charset}");
        };
        check(b"caf\xe9", "iso-8859-1", Ok("café"));
        check("café".as_bytes(), "", Ok("café"));
        check(b"caf\xe9", "us-ascii", Ok("café"));
        check(b"caf\xe9", "none", Ok("café"));
        check(b"\xff\xfea\0b\0", "utf-8", Ok("ab"));
        check(b"\xfe\xff\0a", "", Ok("a"));
        check(b"\xef\xbb\xbfa", "iso-8859-1", Ok("a"));
        check(b"a\0b", "", Err(Failure::NotText));
    }

    #[test]
    fn html_declares_its_charset() {
        let check =
            |html: &str, expected: &str| assert_eq!(html_charset(html.as_bytes()), expected);
        check("<meta charset=\"KOI8-R\">", "koi8-r");
        check("<meta http-equiv=x content='text/html; charset=utf-8'>", "utf-8");
        check("<meta charset = 'x y'>", "x");
        check("<p>charset", "");
        check("", "");
        assert_eq!(clean_charset("utf-8\0; rm"), "utf-8");
    }
}
