//! Writers of the values in a FETCH response (RFC 9051 §7.5.2 and §9).

use barid_message::{AddressRef, HeaderFields, is_message, unfold, visit_addresses};
use barid_types::{Address, BodyStructure, CivilDay, Envelope, InternalDate, Parameter};

use super::Partial;

/// Writes a number.
pub fn number(number: u64, out: &mut Vec<u8>) {
    /// Number of digits of the largest number.
    const LEN: usize = 20;
    let (mut digits, mut at, mut rest) = ([0; LEN], LEN, number);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return out.extend_from_slice(&digits[at..]);
        }
    }
}

/// Writes bytes as a literal; as `literal8` if they contain a NUL and that is allowed.
pub fn write_bytes(
    bytes: Option<&[u8]>,
    partial: Option<Partial>,
    binary: bool,
    out: &mut Vec<u8>,
) {
    // A missing part is written as empty, as in Dovecot.
    let bytes = bytes.unwrap_or_default();
    let bytes = partial.map_or(bytes, |partial| partial.of(bytes));
    if binary && has_nul(bytes) {
        out.push(b'~');
        return push_literal(bytes, out);
    }
    literal(bytes, out);
}

fn has_nul(bytes: &[u8]) -> bool {
    memchr::memchr(0, bytes).is_some()
}

/// Writes `literal`, which must not contain a NUL; the replacement is Dovecot's.
pub fn literal(bytes: &[u8], out: &mut Vec<u8>) {
    push_literal(bytes, out);
    if has_nul(bytes) {
        let start = out.len() - bytes.len();
        out[start..].iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = 0x80);
    }
}

fn push_literal(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'{');
    number(bytes.len() as u64, out);
    out.extend_from_slice(b"}\r\n");
    out.extend_from_slice(bytes);
}

/// `date-time = DQUOTE date-day-fixed "-" date-month "-" date-year SP time SP zone DQUOTE`
pub fn write_date(date: InternalDate, out: &mut Vec<u8>) {
    let InternalDate { unix_seconds, zone_minutes } = date;
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let local = unix_seconds.saturating_add(i64::from(zone_minutes) * 60);
    let (days, second) = (local.div_euclid(86_400), local.rem_euclid(86_400));
    // Years 1 to 9999.
    let civil = CivilDay::after_1970(days.clamp(-719_162, 2_932_896));
    let CivilDay { year, month, day } = civil.expect("because it is in the calendar");
    let day = i64::from(day);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let zone = i64::from(zone_minutes.unsigned_abs());
    let digit = |number: i64| b'0' + (number % 10) as u8;
    let two = |number: i64| [digit(number / 10), digit(number)];
    out.push(b'"');
    out.push(if day < 10 { b' ' } else { digit(day / 10) });
    out.extend_from_slice(&[digit(day), b'-']);
    out.extend_from_slice(MONTHS[month as usize - 1].as_bytes());
    out.push(b'-');
    out.extend_from_slice(&two(year / 100));
    out.extend_from_slice(&two(year));
    for (sign, number) in [(b' ', hour), (b':', minute), (b':', second)] {
        out.push(sign);
        out.extend_from_slice(&two(number));
    }
    out.extend_from_slice(if zone_minutes < 0 { b" -" } else { b" +" });
    out.extend_from_slice(&two(zone / 60));
    out.extend_from_slice(&two(zone % 60));
    out.push(b'"');
}

/// Writes `string`: quoted if possible, otherwise a literal.
pub fn string(text: &[u8], out: &mut Vec<u8>) {
    let class = class_of(text);
    if class & IN_LITERAL != 0 {
        return literal(text, out);
    }
    out.reserve(text.len() + 2);
    out.push(b'"');
    match class & ESCAPED {
        0 => out.extend_from_slice(text),
        _ => push_escaped(text, out),
    }
    out.push(b'"');
}

/// A byte that stands for itself in a quoted string.
const PLAIN: u8 = 0;
/// A byte that needs a backslash in a quoted string.
const ESCAPED: u8 = 1;
/// A byte that cannot be in a quoted string.
const IN_LITERAL: u8 = 2;

/// Returns the classes of all bytes of a text. No branch depends on a byte, so that the compiler
/// looks at many bytes at once.
fn class_of(text: &[u8]) -> u8 {
    /// Bytes that the compiler looks at together.
    const STRETCH: usize = 16;
    let bit = |is: bool, class: u8| u8::from(is) * class;
    let (stretches, rest) = text.as_chunks::<STRETCH>();
    let mut classes = [PLAIN; STRETCH];
    for stretch in stretches {
        for (class, byte) in classes.iter_mut().zip(stretch) {
            let is_escaped = (*byte == b'"') | (*byte == b'\\');
            let is_literal = (*byte == b'\r') | (*byte == b'\n') | (*byte == 0) | (*byte >= 0x80);
            *class |= bit(is_escaped, ESCAPED) | bit(is_literal, IN_LITERAL);
        }
    }
    let of_stretches = classes.iter().fold(PLAIN, |all, class| all | class);
    rest.iter().fold(of_stretches, |all, byte| all | CLASSES[usize::from(*byte)])
}

/// Class of each byte in a string.
const CLASSES: [u8; 256] = {
    let mut classes = [PLAIN; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'"' | b'\\' => ESCAPED,
            b'\r' | b'\n' | 0 | 0x80.. => IN_LITERAL,
            _ => PLAIN,
        };
        byte += 1;
    }
    classes
};

fn push_escaped(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
}

/// `nstring`
pub fn nstring(text: Option<&[u8]>, out: &mut Vec<u8>) {
    match text {
        Some(text) => string(text, out),
        None => out.extend_from_slice(b"NIL"),
    }
}

/// ```text
/// envelope = "(" env-date SP env-subject SP env-from SP env-sender SP env-reply-to SP env-to SP
///            env-cc SP env-bcc SP env-in-reply-to SP env-message-id ")"
/// ```
pub fn write_envelope(envelope: &Envelope, out: &mut Vec<u8>) {
    out.push(b'(');
    nstring(envelope.date.as_deref(), out);
    out.push(b' ');
    nstring(envelope.subject.as_deref(), out);
    let Envelope { from, sender, reply_to, to, cc, bcc, .. } = envelope;
    for list in [from, sender, reply_to, to, cc, bcc] {
        out.push(b' ');
        write_addresses(list, out);
    }
    out.push(b' ');
    nstring(envelope.in_reply_to.as_deref(), out);
    out.push(b' ');
    nstring(envelope.message_id.as_deref(), out);
    out.push(b')');
}

/// Writes the envelope from the cached fields, which must be complete.
pub fn write_fields_envelope(fields: &HeaderFields<'_>, out: &mut Vec<u8>) {
    let text = |raw: Option<&[u8]>, out: &mut Vec<u8>| nstring(raw.map(unfold).as_deref(), out);
    out.push(b'(');
    text(fields.date, out);
    out.push(b' ');
    text(fields.subject, out);
    out.push(b' ');
    let from = out.len();
    write_raw_addresses(fields.from, out);
    let from = from..out.len();
    for raw in [fields.sender, fields.reply_to] {
        out.push(b' ');
        if !write_any_addresses(raw, out) {
            out.extend_from_within(from.clone());
        }
    }
    for raw in [fields.to, fields.cc, fields.bcc] {
        out.push(b' ');
        write_raw_addresses(raw, out);
    }
    out.push(b' ');
    text(fields.in_reply_to, out);
    out.push(b' ');
    text(fields.message_id, out);
    out.push(b')');
}

/// `"(" 1*address ")" / nil`
fn write_addresses(list: &[Address], out: &mut Vec<u8>) {
    if list.is_empty() {
        return out.extend_from_slice(b"NIL");
    }
    out.push(b'(');
    for address in list {
        write_address(AddressRef::of(address), out);
    }
    out.push(b')');
}

/// Does the same for the body of a field.
fn write_raw_addresses(raw: Option<&[u8]>, out: &mut Vec<u8>) {
    if !write_any_addresses(raw, out) {
        out.extend_from_slice(b"NIL");
    }
}

/// `"(" 1*address ")"`, or nothing and `false`.
fn write_any_addresses(raw: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    visit_addresses(raw.unwrap_or_default(), |address| {
        if out.len() == start {
            out.push(b'(');
        }
        write_address(address, out);
    });
    let any = out.len() > start;
    if any {
        out.push(b')');
    }
    any
}

/// `address = "(" addr-name SP addr-adl SP addr-mailbox SP addr-host ")"`
fn write_address(address: AddressRef<'_>, out: &mut Vec<u8>) {
    let parts = [address.name, address.route, address.mailbox, address.host];
    for (at, part) in parts.into_iter().enumerate() {
        out.push(if at == 0 { b'(' } else { b' ' });
        nstring(part, out);
    }
    out.push(b')');
}

/// A remaining step of writing a structure.
enum Step<'s> {
    Part(&'s BodyStructure),
    EndMultipart(&'s BodyStructure),
    EndMessage(&'s BodyStructure),
}

/// `body`, with its extension data if `extended`; parts nest on a stack of our own.
pub fn write_structure(root: &BodyStructure, extended: bool, out: &mut Vec<u8>) {
    let mut steps = vec![Step::Part(root)];
    while let Some(step) = steps.pop() {
        match step {
            Step::Part(part) if part.media_type.eq_ignore_ascii_case(b"multipart") => {
                out.push(b'(');
                if part.parts.is_empty() {
                    out.extend_from_slice(EMPTY_PART);
                    out.extend_from_slice(if extended { b" NIL NIL NIL NIL)" } else { b")" });
                }
                steps.push(Step::EndMultipart(part));
                steps.extend(part.parts.iter().rev().map(Step::Part));
            }
            Step::Part(part) => {
                out.push(b'(');
                write_type(part, out);
                write_fields(part, out);
                match (&part.envelope, part.parts.as_slice()) {
                    (Some(envelope), [inner]) => {
                        out.push(b' ');
                        write_envelope(envelope, out);
                        out.push(b' ');
                        steps.push(Step::EndMessage(part));
                        steps.push(Step::Part(inner));
                    }
                    _ => {
                        if part.media_type.eq_ignore_ascii_case(b"text") {
                            out.push(b' ');
                            number(part.lines, out);
                        }
                        end_single(part, extended, out);
                    }
                }
            }
            Step::EndMessage(part) => {
                out.push(b' ');
                number(part.lines, out);
                end_single(part, extended, out);
            }
            Step::EndMultipart(part) => {
                out.push(b' ');
                string(&part.subtype, out);
                if extended {
                    out.push(b' ');
                    write_parameters(&part.parameters, false, out);
                    write_extension(part, out);
                }
                out.push(b')');
            }
        }
    }
}

/// Replacement for the parts of a multipart without parts, which the grammar does not allow.
const EMPTY_PART: &[u8] = b"(\"text\" \"plain\" (\"charset\" \"us-ascii\") NIL NIL \"7bit\" 0 0";

/// `media-type SP`
fn write_type(part: &BodyStructure, out: &mut Vec<u8>) {
    // The grammar has no message without its envelope and structure, and one nested too deep was
    // not parsed.
    if is_message(part) && (part.envelope.is_none() || part.parts.len() != 1) {
        return out.extend_from_slice(b"\"application\" \"octet-stream\" ");
    }
    string(&part.media_type, out);
    out.push(b' ');
    string(&part.subtype, out);
    out.push(b' ');
}

/// `body-fields`
fn write_fields(part: &BodyStructure, out: &mut Vec<u8>) {
    let is_text = part.media_type.eq_ignore_ascii_case(b"text");
    write_parameters(&part.parameters, is_text, out);
    out.push(b' ');
    nstring(part.id.as_deref(), out);
    out.push(b' ');
    nstring(part.description.as_deref(), out);
    out.push(b' ');
    string(&part.encoding, out);
    out.push(b' ');
    number(part.size, out);
}

/// `body-fld-param`; a text without a charset is in us-ascii (RFC 2046 §4.1.2).
fn write_parameters(parameters: &[Parameter], is_text: bool, out: &mut Vec<u8>) {
    let is_charset = |parameter: &Parameter| {
        let name = parameter.name.strip_suffix(b"*").unwrap_or(&parameter.name);
        name.eq_ignore_ascii_case(b"charset")
    };
    let adds = is_text && !parameters.iter().any(is_charset);
    if parameters.is_empty() && !adds {
        return out.extend_from_slice(b"NIL");
    }
    out.push(b'(');
    for (at, parameter) in parameters.iter().enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        string(&parameter.name, out);
        out.push(b' ');
        string(&parameter.value, out);
    }
    if adds {
        if !parameters.is_empty() {
            out.push(b' ');
        }
        out.extend_from_slice(b"\"charset\" \"us-ascii\"");
    }
    out.push(b')');
}

fn end_single(part: &BodyStructure, extended: bool, out: &mut Vec<u8>) {
    if extended {
        out.push(b' ');
        nstring(part.md5.as_deref(), out);
        write_extension(part, out);
    }
    out.push(b')');
}

/// `SP body-fld-dsp SP body-fld-lang SP body-fld-loc`
fn write_extension(part: &BodyStructure, out: &mut Vec<u8>) {
    out.push(b' ');
    match &part.disposition {
        Some(disposition) => {
            out.push(b'(');
            string(&disposition.kind, out);
            out.push(b' ');
            write_parameters(&disposition.parameters, false, out);
            out.push(b')');
        }
        None => out.extend_from_slice(b"NIL"),
    }
    out.push(b' ');
    match part.language.as_slice() {
        [] => out.extend_from_slice(b"NIL"),
        tags => {
            for (at, tag) in tags.iter().enumerate() {
                out.push(if at == 0 { b'(' } else { b' ' });
                string(tag, out);
            }
            out.push(b')');
        }
    }
    out.push(b' ');
    nstring(part.location.as_deref(), out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use barid_message::{body_structure, envelope};

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn dates_have_a_day_of_two_places() {
        let check = |seconds, zone, expected: &str| {
            assert_eq!(
                text(|out| write_date(
                    InternalDate { unix_seconds: seconds, zone_minutes: zone },
                    out
                )),
                expected
            );
        };
        check(0, 0, "\" 1-Jan-1970 00:00:00 +0000\"");
        check(951_782_400, 60, "\"29-Feb-2000 01:00:00 +0100\"");
        check(-1, -330, "\"31-Dec-1969 18:29:59 -0530\"");
        check(i64::MAX, 0, "\"31-Dec-9999 15:30:07 +0000\"");
        check(i64::MIN, 0, "\" 1-Jan-0001 08:29:52 +0000\"");
    }

    #[test]
    fn strings_are_quoted_or_literals() {
        let check = |bytes: &[u8], expected: &[u8]| {
            let mut out = Vec::new();
            string(bytes, &mut out);
            assert_eq!(out, expected);
        };
        check(b"a\"b\\", b"\"a\\\"b\\\\\"");
        check(b"\xe9", b"{1}\r\n\xe9");
        check(b"a\0b", b"{3}\r\na\x80b");
        check(b"", b"\"\"");
    }

    #[test]
    fn the_class_of_a_text_is_that_of_its_bytes() {
        for len in 0..40 {
            for byte in 0..=u8::MAX {
                let mut text = vec![b'a'; len];
                assert_eq!(class_of(&text), PLAIN);
                let Some(at) = len.checked_sub(1).map(|last| usize::from(byte) % (last + 1)) else {
                    continue;
                };
                text[at] = byte;
                assert_eq!(class_of(&text), CLASSES[usize::from(byte)], "{text:?}");
            }
        }
    }

    #[test]
    fn an_envelope_is_written() {
        let envelope = envelope(b"From: A B <a@b>, c@d\nTo: g: x@y;\nSubject: s\n\n");
        assert_eq!(
            text(|out| write_envelope(&envelope, out)),
            "(NIL \"s\" ((\"A B\" NIL \"a\" \"b\")(NIL NIL \"c\" \"d\")) \
             ((\"A B\" NIL \"a\" \"b\")(NIL NIL \"c\" \"d\")) \
             ((\"A B\" NIL \"a\" \"b\")(NIL NIL \"c\" \"d\")) \
             ((NIL NIL \"g\" NIL)(NIL NIL \"x\" \"y\")(NIL NIL NIL NIL)) NIL NIL NIL NIL)"
        );
    }

    #[test]
    fn structures_are_written() {
        let check = |message: &str, extended: bool, expected: &str| {
            let (structure, _) = body_structure(message.as_bytes());
            assert_eq!(text(|out| write_structure(&structure, extended, out)), expected);
        };
        check(
            "\na\r\n",
            false,
            "(\"text\" \"plain\" (\"charset\" \"us-ascii\") NIL NIL \"7bit\" 3 1)",
        );
        check(
            "Content-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: a/b; n=\"v\"\n\
             Content-Disposition: inline\n\n1\n--x--\n",
            true,
            "((\"a\" \"b\" (\"n\" \"v\") NIL NIL \"7bit\" 1 NIL (\"inline\" NIL) NIL NIL) \
             \"mixed\" (\"boundary\" \"x\") NIL NIL NIL)",
        );
        check(
            "Content-Type: multipart/x; boundary=x\n\n",
            false,
            "((\"text\" \"plain\" (\"charset\" \"us-ascii\") NIL NIL \"7bit\" 0 0) \"x\")",
        );
        check(
            "Content-Type: message/rfc822\n\nSubject: s\n\nb\n",
            false,
            "(\"message\" \"rfc822\" NIL NIL NIL \"7bit\" 17 \
             (NIL \"s\" NIL NIL NIL NIL NIL NIL NIL NIL) \
             (\"text\" \"plain\" (\"charset\" \"us-ascii\") NIL NIL \"7bit\" 3 1) 3)",
        );
        check(
            "Content-Type: a/b; n=\"\u{e9}(\"; m=v\n\n",
            false,
            "(\"a\" \"b\" (\"n\" {3}\r\n\u{e9}( \"m\" \"v\") NIL NIL \"7bit\" 0)",
        );
    }

    #[test]
    fn a_message_that_was_not_looked_into_is_no_message() {
        let message = "Content-Type: message/rfc822\n\n".repeat(200);
        let (structure, _) = body_structure(message.as_bytes());
        let written = text(|out| write_structure(&structure, false, out));
        let messages = written.matches("\"message\" \"rfc822\" NIL NIL NIL \"7bit\"").count();
        let envelopes = written.matches(" (NIL NIL NIL NIL NIL NIL NIL NIL NIL NIL) (").count();
        assert_eq!(messages, envelopes);
        assert_eq!(written.matches("\"application\" \"octet-stream\" NIL").count(), 1);
    }
}
