//! A stored message as it goes over the wire.

use std::borrow::Cow;

use crate::crlf::{has_only_crlf, push_crlf};
use crate::owned::visit_owned;

/// The message as IMAP gives it: without the fields that mailbox formats own, every line ended by
/// CRLF. As long as [`crate::rfc822_size`] says. Borrows where that is what is stored.
pub fn wire_message(stored: &[u8]) -> Cow<'_, [u8]> {
    let mut out = Vec::new();
    match write_wire(stored, &mut out) {
        true => Cow::Owned(out),
        false => Cow::Borrowed(stored),
    }
}

/// [`wire_message`] with room that is used again: what is in it is overwritten.
pub fn wire_message_in<'a>(stored: &'a [u8], room: &'a mut Vec<u8>) -> &'a [u8] {
    room.clear();
    match write_wire(stored, room) {
        true => room,
        false => stored,
    }
}

/// Appends the message, unless it is what is stored; whether it is not.
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

/// Whether an LF follows no CR: in most texts that have one the first does not.
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
