//! A stored message as it goes over the wire.

use std::borrow::Cow;

use crate::crlf::with_crlf;
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
