//! The bytes that the filter sees of a message: the same whatever mailbox keeps it.
//!
//! Without a From_ line, without the header fields that mailbox formats own, `Content-Length`
//! and `X-Bogosity`, with LF for line ends, the header ended by a blank line and the last line
//! ended. So a message has the same tokens and the same receipt wherever it is read, and taking a
//! training back takes off exactly what it added.

use barid_message::{fields, is_owned_field};
use sha2::{Digest as _, Sha256};

/// What fields begin with that tell a filter's verdict, as [`barid_bayes::Options`] has it.
const VERDICT: &[u8] = b"X-Bogosity";

/// The bytes that the filter sees of a message: without a From_ line, without the header fields
/// that mailbox formats own, `Content-Length` and `X-Bogosity`, with LF for line ends, the header
/// ended by a blank line and the last line ended.
pub fn canonical_text(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_canonical(message, &mut out);
    out
}

/// Writes that text in place of what `out` holds.
pub(super) fn write_canonical(message: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let message = without_from_line(message);
    out.reserve(message.len() + 2);
    let (mut from, mut end) = (0, 0);
    let mut all = fields(message);
    for field in all.by_ref() {
        let name = field.name;
        if is_left_out(name) {
            push_lf(&message[from..field.offset], out);
            from = field.end;
        }
        end = field.end;
    }
    let has_blank_line = all.offset() > end;
    push_lf(&message[from..], out);
    if !out.is_empty() && !out.ends_with(b"\n") {
        out.push(b'\n');
    }
    if !has_blank_line {
        out.push(b'\n');
    }
}

/// Whether a field is no part of what was sent: one of a mailbox, or what a filter says of the
/// message, of which no tokens are made either.
fn is_left_out(name: &[u8]) -> bool {
    is_owned_field(name)
        || name.eq_ignore_ascii_case(b"content-length")
        || name.starts_with(VERDICT)
}

/// What a receipt of that text is kept by: the first half of its SHA-256, so that nobody can write
/// a message that takes off what another has added.
pub(super) fn content_of(canonical: &[u8]) -> u128 {
    let digest: [u8; 32] = Sha256::digest(canonical).into();
    digest[..16].iter().fold(0, |all, byte| all << 8 | u128::from(*byte))
}

fn without_from_line(message: &[u8]) -> &[u8] {
    if !message.starts_with(b"From ") {
        return message;
    }
    let end = memchr::memchr(b'\n', message).map_or(message.len(), |at| at + 1);
    &message[end..]
}

/// Appends a text with every CRLF made LF.
fn push_lf(text: &[u8], out: &mut Vec<u8>) {
    let mut from = 0;
    for at in memchr::memchr_iter(b'\r', text) {
        if text.get(at + 1) == Some(&b'\n') {
            out.extend_from_slice(&text[from..at]);
            from = at + 1;
        }
    }
    out.extend_from_slice(&text[from..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &[u8], expected: &[u8]) {
        let mut found = b"what was there".to_vec();
        write_canonical(message, &mut found);
        assert_eq!(found, expected, "{}", message.escape_ascii());
        let again = found.clone();
        write_canonical(&again, &mut found);
        assert_eq!(found, again, "{}", message.escape_ascii());
    }

    #[test]
    fn fields_of_verdicts_are_those_without_tokens() {
        assert_eq!(barid_bayes::Options::default().spam_header_name.as_bytes(), VERDICT);
    }

    #[test]
    fn what_mailboxes_add_is_left_out() {
        let plain: &[u8] = b"Subject: one\nTo: a@b\n\nbody\n";
        check(plain, plain);
        check(b"Subject: one\r\nTo: a@b\r\n\r\nbody\r\n", plain);
        check(b"From a@b Tue Mar  5 12:22:10 2024\nSubject: one\nTo: a@b\n\nbody", plain);
        check(
            b"Status: RO\nSubject: one\nX-UID: 7\n  8\nTo: a@b\nContent-Length: 5\n\nbody\n",
            plain,
        );
        check(
            b"X-Bogosity: Spam, tests=bogofilter\nSubject: one\nTo: a@b\n\
              X-Bogosity: Ham,\n\ttests=bogofilter\n\nbody\n",
            plain,
        );
        check(b"X-Other: X-Bogosity\n\n", b"X-Other: X-Bogosity\n\n");
        check(b"Subject: one\n", b"Subject: one\n\n");
        check(b"", b"\n");
        check(b"Subject: one\n\na\rb\n", b"Subject: one\n\na\rb\n");
    }
}
