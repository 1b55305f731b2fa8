//! The header fields that mailbox formats own, and messages without them.
//!
//! mbox programs keep flags, keywords and UIDs in fields of the header. They belong to the mailbox
//! rather than to the message: *the same bytes* of a message are those without these fields.

use std::borrow::Cow;

use memchr::memchr_iter;
use xxhash_rust::xxh3::Xxh3;

use crate::crlf::{crlf_size, has_only_crlf};
use crate::fields::{is_empty_line, line_end};

/// Returns `true` if mailbox formats own the field of this name: `Status`, `X-Status`,
/// `X-Keywords`, `X-UID`, `X-IMAP` or `X-IMAPbase`, without regard to ASCII case.
pub fn is_owned_field(name: &[u8]) -> bool {
    match name.len() {
        5 => name.eq_ignore_ascii_case(b"x-uid"),
        6 => name.eq_ignore_ascii_case(b"status") || name.eq_ignore_ascii_case(b"x-imap"),
        8 => name.eq_ignore_ascii_case(b"x-status"),
        10 => name.eq_ignore_ascii_case(b"x-keywords") || name.eq_ignore_ascii_case(b"x-imapbase"),
        _ => false,
    }
}

/// Returns the bytes of a message without the fields of [`is_owned_field`].
///
/// Borrows if the message has no such field. O(length of the header), plus one copy if it has one.
pub fn strip_owned(message: &[u8]) -> Cow<'_, [u8]> {
    let mut kept = Vec::new();
    let mut from = 0;
    visit_owned(message, &mut |start, end| {
        kept.extend_from_slice(&message[from..start]);
        from = end;
    });
    if from == 0 {
        return Cow::Borrowed(message);
    }
    kept.extend_from_slice(&message[from..]);
    Cow::Owned(kept)
}

/// Calls `visit` with the range of every field that [`strip_owned`] leaves out.
pub(crate) fn visit_owned(message: &[u8], visit: &mut dyn FnMut(usize, usize)) {
    visit_dropped(message, is_owned_field, visit);
}

/// Returns the size of a message in octets as IMAP counts it: line ends as CRLF, without the owned
/// fields (RFC 9051 §2.3.4). One pass over the message.
pub fn rfc822_size(message: &[u8]) -> u64 {
    let mut size = crlf_size(message);
    visit_dropped(message, is_owned_field, &mut |start, end| {
        size -= crlf_size(&message[start..end]);
    });
    size
}

/// Returns the [`rfc822_size`] of a message of `size` bytes that is stored with CRLF, from its
/// header alone.
///
/// Returns `None` if the header does not determine it: it is truncated, or some of its lines do not
/// end in CRLF.
pub fn rfc822_size_of_crlf(header: &[u8], size: u64) -> Option<u64> {
    let mut owned = 0;
    let end = visit_dropped(header, is_owned_field, &mut |start, end| owned += end - start);
    let is_whole = end < header.len() || header.len() as u64 == size;
    (is_whole && has_only_crlf(header)).then(|| size - owned as u64)
}

/// Returns the hash by which a message is recognised: XXH3 (64 bits, seed 0) over its header
/// without the owned fields and without `Content-Length`, which mbox programs change too.
///
/// Every line counts as ended by LF, including the last, so that the key stays the same when a
/// message moves between mailboxes with different line ends, and when another message is appended
/// to one that is truncated in its header. The empty line and the body do not count; a whole
/// message is accepted too. Streams, without a copy.
pub fn header_key(header: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    let mut from = 0;
    let dropped =
        |name: &[u8]| is_owned_field(name) || name.eq_ignore_ascii_case(b"content-length");
    let end = visit_dropped(header, dropped, &mut |start, end| {
        update_with_lf(&mut hash, &header[from..start]);
        from = end;
    });
    let last = &header[from..end];
    // A CR at the very end is half of a line end.
    let last = last.strip_suffix(b"\r").unwrap_or(last);
    update_with_lf(&mut hash, last);
    if !last.is_empty() && !last.ends_with(b"\n") {
        hash.update(b"\n");
    }
    hash.digest()
}

fn is_no_part_of_key(name: &[u8]) -> bool {
    is_owned_field(name) || name.eq_ignore_ascii_case(b"content-length")
}

/// Returns `true` if a line starts a field that [`header_key`] leaves out.
#[inline]
pub(crate) fn is_left_out_of_key(line: &[u8]) -> bool {
    may_be_dropped(line) && name_of(line).is_some_and(is_no_part_of_key)
}

/// Hashes a text with CRLF as LF.
fn update_with_lf(hash: &mut Xxh3, text: &[u8]) {
    let mut from = 0;
    for at in memchr_iter(b'\r', text) {
        if text.get(at + 1) == Some(&b'\n') {
            hash.update(&text[from..at]);
            from = at + 1;
        }
    }
    hash.update(&text[from..]);
}

/// Calls `visit` with the range of every field whose name `dropped` selects. Returns the offset
/// of the end of the header, before its empty line.
fn visit_dropped(
    header: &[u8],
    dropped: impl Fn(&[u8]) -> bool,
    visit: &mut dyn FnMut(usize, usize),
) -> usize {
    let mut at = 0;
    while at < header.len() {
        let start = at;
        at = line_end(header, start);
        let line = &header[start..at];
        if is_empty_line(line) {
            return start;
        }
        let found = may_be_dropped(line) && name_of(line).is_some_and(&dropped);
        while matches!(header.get(at), Some(b' ' | b'\t')) {
            at = line_end(header, at);
        }
        if found {
            visit(start, at);
        }
    }
    header.len()
}

/// Returns `true` if the first letter of a line allows such a field: a quick check.
#[inline]
fn may_be_dropped(line: &[u8]) -> bool {
    matches!(line[0] | 0x20, b's' | b'x' | b'c')
}

/// Returns the field name at the start of a line, without the white space before the colon.
fn name_of(line: &[u8]) -> Option<&[u8]> {
    let name = &line[..memchr::memchr(b':', line)?];
    let blanks = name.iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    Some(&name[..name.len() - blanks])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &str, expected: &str) {
        assert_eq!(strip_owned(message.as_bytes()), expected.as_bytes(), "{message:?}");
        let crlf = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
        assert_eq!(rfc822_size(message.as_bytes()), crlf(expected).len() as u64);
        assert_eq!(strip_owned(crlf(message).as_bytes()), crlf(expected).as_bytes());
        assert_eq!(rfc822_size(crlf(message).as_bytes()), crlf(expected).len() as u64);
        let stored = crlf(message);
        let header = &stored[..crate::body_offset(stored.as_bytes())];
        let size = rfc822_size_of_crlf(header.as_bytes(), stored.len() as u64);
        assert_eq!(size, Some(crlf(expected).len() as u64), "{message:?}");
        let key = header_key(message.as_bytes());
        assert_eq!(key, header_key(expected.as_bytes()), "{message:?}");
        assert_eq!(key, header_key(crlf(message).as_bytes()), "{message:?}");
    }

    #[test]
    fn owned_fields_are_left_out() {
        check("A: 1\nStatus: RO\nB: 2\n\nStatus: body\n", "A: 1\nB: 2\n\nStatus: body\n");
        check("x-uid: 7\nX-IMAPbase: 1 2\n a b\nX-IMAP: 3\n\n", "\n");
        check("X-Keywords : a\n\tb\nX-Status:\nA: 1", "A: 1");
        check("Statuses: 1\nX-UIDL: 2\n\nb", "Statuses: 1\nX-UIDL: 2\n\nb");
        check("", "");
        check("X-UID", "X-UID");
    }

    #[test]
    fn the_size_is_not_told_by_half_a_header() {
        assert_eq!(rfc822_size_of_crlf(b"A: 1\r\nStatus: RO\r\n", 100), None);
        assert_eq!(rfc822_size_of_crlf(b"A: 1\nB: 2\r\n\r\n", 100), None);
        assert_eq!(rfc822_size_of_crlf(b"", 0), Some(0));
        assert_eq!(rfc822_size_of_crlf(b"", 1), None);
    }

    #[test]
    fn the_key_leaves_out_what_mbox_programs_change() {
        let key = header_key(b"Subject: a\n\nbody");
        assert_eq!(key, header_key(b"Subject: a\nContent-Length: 4\nStatus: R\n\nother"));
        assert_eq!(key, header_key(b"Subject: a\r\n\r\nbody"));
        assert_ne!(key, header_key(b"Subject: b\n\nbody"));
        assert_eq!(key, xxhash_rust::xxh3::xxh3_64(b"Subject: a\n"));
    }

    #[test]
    fn the_key_stays_when_the_last_line_is_ended() {
        let cut =
            ["", "A: 1", "A: 1\nB: 2\n 3", "A: 1\n\t", "A: 1\nStatus: R", "X-UID: 1", "A", "A\n"];
        for header in cut {
            for end in ["", "\n", "\r", "\r\n", "\n\n", "\r\n\r\n"] {
                let ended = format!("{header}{end}");
                let (fields, key) = crate::HeaderScan::with_key(ended.as_bytes());
                let expected = header_key(header.as_bytes());
                assert_eq!(header_key(ended.as_bytes()), expected, "{ended:?}");
                assert_eq!(key, expected, "{ended:?} {fields:?}");
            }
        }
    }
}
