//! Texts of header fields in the form in which they are searched: on one line, decoded, folded.

use std::borrow::Cow;

use barid_message::{RawField, decode_words, fields, is_owned_field, parse_addresses};
use barid_types::Address;

use super::fold::{fold_into, push_upper};

/// Appends a raw field body without line ends and with encoded words decoded. A tab that begins a
/// line becomes a space, since some programs fold lines with tabs.
pub(crate) fn push_value(raw: &[u8], line: &mut Vec<u8>, out: &mut Vec<u8>) {
    push_decoded(value_in(raw, line), out);
}

/// Returns a raw field body on one line, made in `line` if it has several.
fn value_in<'l>(raw: &'l [u8], line: &'l mut Vec<u8>) -> &'l [u8] {
    if memchr::memchr(b'\n', raw).is_none() {
        return raw;
    }
    line.clear();
    value_line(raw, line);
    line
}

/// Appends a raw field body on one line, with encoded words.
pub(crate) fn value_line(raw: &[u8], line: &mut Vec<u8>) {
    for (at, part) in raw.split(|byte| *byte == b'\n').enumerate() {
        let part = part.strip_suffix(b"\r").unwrap_or(part);
        match part {
            [b'\t', rest @ ..] if at > 0 => {
                line.push(b' ');
                line.extend_from_slice(rest);
            }
            _ => line.extend_from_slice(part),
        }
    }
}

/// Appends a subject like [`push_value`], with every run of white space as one space.
pub(crate) fn push_subject(raw: &[u8], line: &mut Vec<u8>, out: &mut Vec<u8>) {
    line.clear();
    subject_line(raw, line);
    push_decoded(line, out);
}

/// Appends a subject like [`value_line`], with every run of white space as one space.
pub(crate) fn subject_line(raw: &[u8], line: &mut Vec<u8>) {
    for byte in raw {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' if line.last().is_none_or(|last| *last == b' ') => {}
            b' ' | b'\t' | b'\r' | b'\n' => line.push(b' '),
            _ => line.push(*byte),
        }
    }
}

fn push_decoded(text: &[u8], out: &mut Vec<u8>) {
    if text.is_ascii() && memchr::memmem::find(text, b"=?").is_none() {
        return push_upper(text, out);
    }
    fold_into(&decode_words(text), out);
}

/// Appends an address field in the form of the envelope: `Name <mailbox@host>, ...`, without
/// comments, and with quotes only where a name needs them.
pub(crate) fn push_addresses(raw: &[u8], line: &mut Vec<u8>, out: &mut Vec<u8>) {
    line.clear();
    address_line(raw, line);
    push_decoded(line, out);
}

/// Appends an address field like [`push_addresses`], with encoded words.
pub(crate) fn address_line(raw: &[u8], line: &mut Vec<u8>) {
    // `name:;` of a group without members.
    let (mut in_group, mut separator) = (false, "");
    for address in parse_addresses(raw) {
        let is_end = in_group && address.host.is_none();
        if !is_end {
            line.extend_from_slice(separator.as_bytes());
        }
        separator = ", ";
        match &address.host {
            Some(host) => push_address(&address, host, line),
            None if is_end => line.push(b';'),
            None => {
                push_phrase(address.mailbox.as_deref().unwrap_or_default(), true, line);
                line.push(b':');
                separator = " ";
            }
        }
        in_group ^= address.host.is_none();
    }
}

fn push_address(address: &Address, host: &[u8], line: &mut Vec<u8>) {
    let name = address.name.as_deref().unwrap_or_default();
    push_phrase(name, true, line);
    let mailbox = address.mailbox.as_deref().unwrap_or_default();
    if mailbox.is_empty() && host.is_empty() && address.route.is_none() {
        return;
    }
    line.extend_from_slice(if name.is_empty() { b"<" } else { b" <" });
    if let Some(route) = &address.route {
        line.extend_from_slice(route);
        line.push(b':');
    }
    push_phrase(mailbox, false, line);
    if !host.is_empty() {
        line.push(b'@');
        line.extend_from_slice(host);
    }
    line.push(b'>');
}

/// Appends a name or a mailbox, in quotes if it contains more than atoms. A name with a dot is
/// quoted too; encoded words are not.
fn push_phrase(text: &[u8], is_name: bool, line: &mut Vec<u8>) {
    let needs_none = |byte: &u8| {
        byte.is_ascii_alphanumeric()
            || !byte.is_ascii()
            || b"!#$%&'*+-/=?^_`{|}~".contains(byte)
            || *byte == b'.' && !is_name
    };
    let is_encoded = is_name && memchr::memmem::find(text, b"=?").is_some();
    if is_encoded || text.iter().all(needs_none) {
        line.extend_from_slice(text);
        return;
    }
    line.push(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            line.push(b'\\');
        }
        line.push(*byte);
    }
    line.push(b'"');
}

/// Appends all fields of a header with their names, a line each, and the empty line. Fields that
/// mailbox formats own are left out of the header of the message itself.
pub(crate) fn push_header(header: &[u8], is_root: bool, line: &mut Vec<u8>, out: &mut Vec<u8>) {
    push_lines(header, is_root, push_decoded, line, out);
}

/// Returns the lines of [`push_header`], not folded.
pub(crate) fn header_lines(header: &[u8], is_root: bool) -> Cow<'static, str> {
    let (mut line, mut out) = (Vec::new(), Vec::new());
    let push = |text: &[u8], out: &mut Vec<u8>| {
        out.extend_from_slice(decode_words(text).as_bytes());
    };
    push_lines(header, is_root, push, &mut line, &mut out);
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

fn push_lines(header: &[u8], is_root: bool, push: PushText, line: &mut Vec<u8>, out: &mut Vec<u8>) {
    for field in searched_fields(header, is_root) {
        push_line(header, &field, push, line, out);
    }
    out.push(b'\n');
}

/// Returns the fields of a header that are searched.
pub(crate) fn searched_fields(
    header: &[u8],
    is_root: bool,
) -> impl Iterator<Item = RawField<'_>> + '_ {
    fields(header).filter(move |field| !is_root || !is_owned_field(field.name))
}

/// Appends a field with its name as a line, folded.
pub(crate) fn push_field(
    header: &[u8],
    field: &RawField<'_>,
    line: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    push_line(header, field, push_decoded, line, out);
}

/// Appends a text that may have encoded words.
type PushText = fn(&[u8], &mut Vec<u8>);

fn push_line(
    header: &[u8],
    field: &RawField<'_>,
    push: PushText,
    line: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    let whole = &header[field.offset..field.end];
    let whole = whole.strip_suffix(b"\n").unwrap_or(whole);
    let whole = whole.strip_suffix(b"\r").unwrap_or(whole);
    // Keeps the colon and one blank as written.
    let name_len = field.name.len();
    let value = match memchr::memchr(b':', whole).filter(|_| name_len > 0) {
        Some(colon) => {
            let blank = matches!(whole.get(colon + 1), Some(b' ' | b'\t'));
            colon + 1 + usize::from(blank)
        }
        None => 0,
    };
    push(&whole[..value], out);
    push(value_in(&whole[value..], line), out);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    type Push = fn(&[u8], &mut Vec<u8>, &mut Vec<u8>);

    fn check(push: Push, raw: &str, expected: &str) {
        let (mut line, mut out) = (Vec::new(), Vec::new());
        push(raw.as_bytes(), &mut line, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{raw}");
    }

    #[test]
    fn values() {
        check(push_value, "a b\r\n\tc\n  d", "A B C  D");
        check(push_value, "=?utf-8?q?a=C3=A9?=\n =?utf-8?q?b?=", "AE\u{301}B");
        check(push_subject, "a  b\n\t c", "A B C");
        check(push_subject, "a \t\n ", "A ");
        check(push_value, "a \t", "A \t");
    }

    #[test]
    fn addresses() {
        check(push_addresses, "Ann Lee <ann@x.y>, bob@z (Bob)", {
            "\"ANN LEE\" <ANN@X.Y>, BOB <BOB@Z>"
        });
        check(push_addresses, "=?utf-8?q?J=C3=B6rg?= <j@x>", "JO\u{308}RG <J@X>");
        check(push_addresses, "team: a@b, c@d;, e@f", "TEAM: <A@B>, <C@D>;, <E@F>");
        check(push_addresses, "undisclosed-recipients: ;", "UNDISCLOSED-RECIPIENTS:;");
        check(push_addresses, "a@b, g:;, h: c@d;", "<A@B>, G:;, H: <C@D>;");
        check(push_addresses, "\"name\", a@b", "NAME, <A@B>");
        check(push_addresses, "\"D, J.\" <@r:\"d j\"@x>", "\"D, J.\" <@R:\"D J\"@X>");
        check(push_addresses, "root", "<ROOT>");
        check(push_addresses, "", "");
    }

    #[test]
    fn headers() {
        let header = "Subject : a\n b\r\nStatus: RO\njunk\nX:\n =?utf-8?q?=C3=A9?=\n\nbody";
        let check = |is_root, expected: &str| {
            let (mut line, mut out) = (Vec::new(), Vec::new());
            push_header(header.as_bytes(), is_root, &mut line, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        check(true, "SUBJECT : A B\nJUNK\nX: E\u{301}\n\n");
        check(false, "SUBJECT : A B\nSTATUS: RO\nJUNK\nX: E\u{301}\n\n");
    }
}
