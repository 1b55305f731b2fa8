//! The canonical bytes of a message for the filter: the same in every mailbox format.
//!
//! They have no From_ line, none of the header fields that mailbox formats own, no `Content-Length`
//! and no `X-Bogosity`; lines end with LF, the header ends with a blank line and the last line is
//! complete. So a message has the same tokens and the same receipt wherever it is read, and
//! untraining removes exactly what training added.

use barid_message::{fields, is_owned_field};
use sha2::{Digest as _, Sha256};

/// Prefix of the names of fields with a filter's verdict, as in [`barid_bayes::Options`].
const VERDICT: &[u8] = b"X-Bogosity";

/// Returns the canonical bytes of a message for the filter: without a From_ line, without the
/// header fields that mailbox formats own, `Content-Length` and `X-Bogosity`, with LF for line
/// ends, the header ended by a blank line and the last line ended.
pub fn canonical_text(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_canonical(message, &mut out);
    out
}

/// Writes the canonical text into `out`, replacing its content.
pub(crate) fn write_canonical(message: &[u8], out: &mut Vec<u8>) {
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

/// Returns `true` for a field that was not sent with the message: one of a mailbox format, or a
/// filter's verdict, of which no tokens are made either.
fn is_left_out(name: &[u8]) -> bool {
    is_owned_field(name)
        || name.eq_ignore_ascii_case(b"content-length")
        || name.starts_with(VERDICT)
}

/// Returns the key of the receipt of a canonical text: the first half of its SHA-256, so that
/// nobody can forge a message that untrains another.
pub(crate) fn content_of(canonical: &[u8]) -> u128 {
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

/// Appends a text with every CRLF converted to LF.
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
