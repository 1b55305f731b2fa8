//! A stored message as it goes over the wire.

use std::borrow::Cow;

use crate::strip_owned;

/// The message as IMAP gives it: without the fields that mailbox formats own, every line ended by
/// CRLF. As long as [`crate::rfc822_size`] says. Borrows where that is what is stored.
pub fn wire_message(stored: &[u8]) -> Cow<'_, [u8]> {
    match strip_owned(stored) {
        Cow::Borrowed(message) => with_crlf(message),
        Cow::Owned(message) => match with_crlf(&message) {
            Cow::Borrowed(_) => Cow::Owned(message),
            Cow::Owned(message) => Cow::Owned(message),
        },
    }
}

/// A text with every LF that follows no CR made CRLF.
fn with_crlf(text: &[u8]) -> Cow<'_, [u8]> {
    let is_bare = |at: &usize| *at == 0 || text[at - 1] != b'\r';
    let mut bare = memchr::memchr_iter(b'\n', text).filter(is_bare);
    let Some(first) = bare.next() else { return Cow::Borrowed(text) };
    let mut out = Vec::with_capacity(text.len() + text.len() / 24 + 16);
    out.extend_from_slice(&text[..first]);
    let mut from = first;
    for at in bare {
        out.extend_from_slice(b"\r");
        out.extend_from_slice(&text[from..at]);
        from = at;
    }
    out.extend_from_slice(b"\r");
    out.extend_from_slice(&text[from..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_crlf() {
        let check = |stored: &str, expected: &str| {
            let found = wire_message(stored.as_bytes());
            assert_eq!(String::from_utf8_lossy(&found), expected, "{stored:?}");
            assert_eq!(found.len() as u64, crate::rfc822_size(stored.as_bytes()), "{stored:?}");
        };
        check("a: b\n\nc\n", "a: b\r\n\r\nc\r\n");
        check("a: b\r\n\r\nc\r\n", "a: b\r\n\r\nc\r\n");
        check("\n\nx\r\ny\rz\n", "\r\n\r\nx\r\ny\rz\r\n");
        check("Status: RO\na: b\n\nc", "a: b\r\n\r\nc");
        check("Status: RO\r\na: b\r\n\r\nc", "a: b\r\n\r\nc");
        check("", "");
    }
}
