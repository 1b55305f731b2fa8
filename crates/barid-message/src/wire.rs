//! The form in which a stored message is sent.

use std::borrow::Cow;

use crate::crlf::{has_only_crlf, push_crlf};
use crate::owned::visit_owned;

/// Returns the message in the form that IMAP sends: without the fields that mailbox formats own,
/// every line ended by CRLF. Its length is [`crate::rfc822_size`]. Borrows if the stored message
/// already has that form.
pub fn wire_message(stored: &[u8]) -> Cow<'_, [u8]> {
    let mut out = Vec::new();
    match write_wire(stored, &mut out) {
        true => Cow::Owned(out),
        false => Cow::Borrowed(stored),
    }
}

/// Returns the [`wire_message`] of a stored message, with a reusable buffer, whose content is
/// overwritten.
pub fn wire_message_in<'a>(stored: &'a [u8], room: &'a mut Vec<u8>) -> &'a [u8] {
    room.clear();
    match write_wire(stored, room) {
        true => room,
        false => stored,
    }
}

/// Appends the message in wire form if it differs from the stored one. Returns `true` if it does.
fn write_wire(stored: &[u8], out: &mut Vec<u8>) -> bool {
    let mut from = 0;
    visit_owned(stored, &mut |start, end| {
        push_crlf(&stored[from..start], out);
        from = end;
    });
    let is_other = from > 0 || has_bare_lf(stored);
    if is_other {
        push_crlf(&stored[from..], out);
    }
    is_other
}

/// Returns `true` if some LF has no CR before it: in most texts with such an LF, the first one is
/// such.
fn has_bare_lf(text: &[u8]) -> bool {
    let is_bare = |at: usize| at == 0 || text[at - 1] != b'\r';
    memchr::memchr(b'\n', text).is_some_and(is_bare) || !has_only_crlf(text)
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
            let mut room = b"what was in it".to_vec();
            assert_eq!(wire_message_in(stored.as_bytes(), &mut room), &*found, "{stored:?}");
        };
        check("a: b\n\nc\n", "a: b\r\n\r\nc\r\n");
        check("a: b\r\n\r\nc\r\n", "a: b\r\n\r\nc\r\n");
        check("\n\nx\r\ny\rz\n", "\r\n\r\nx\r\ny\rz\r\n");
        check("Status: RO\na: b\n\nc", "a: b\r\n\r\nc");
        check("Status: RO\r\na: b\r\n\r\nc", "a: b\r\n\r\nc");
        check("a: b\r\n\r\nc\r\nd\n", "a: b\r\n\r\nc\r\nd\r\n");
        check("X-UID: 1\na: b\nStatus: RO\n\nc\r\n", "a: b\r\n\r\nc\r\n");
        check("", "");
    }
}
