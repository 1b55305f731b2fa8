//! The decoded bodies of parts (RFC 2045 §6).

use std::borrow::Cow;

use barid_types::BodyStructure;

use crate::defect::{Defect, DefectKind, Defects};
use crate::words::{decode_base64, hex};
use crate::{decode_charset, decode_plain, parameter};

/// Returns the raw bytes of a part's body, as [`crate::body_structure`] found it in the same
/// message.
///
/// Offsets that do not fit the message give an empty slice.
pub fn raw_body<'m>(message: &'m [u8], part: &BodyStructure) -> &'m [u8] {
    message.get(part.body_offset as usize..part.body_end as usize).unwrap_or_default()
}

/// Returns the raw bytes of a part's header, its empty line included.
pub fn raw_header<'m>(message: &'m [u8], part: &BodyStructure) -> &'m [u8] {
    message.get(part.header_offset as usize..part.body_offset as usize).unwrap_or_default()
}

/// Returns `true` for the transfer encodings of RFC 2045 §6.1, in any case.
pub fn is_known_encoding(encoding: &[u8]) -> bool {
    const KNOWN: [&[u8]; 5] = [b"7bit", b"8bit", b"binary", b"base64", b"quoted-printable"];
    KNOWN.iter().any(|known| known.eq_ignore_ascii_case(encoding))
}

/// Returns the body of a part without its transfer encoding, and its defects.
///
/// base64 and quoted-printable are decoded as far as possible; the bytes of an unknown encoding are
/// returned unchanged. Line ends of text stay as stored. Borrows where nothing is encoded.
pub fn part_body<'m>(message: &'m [u8], part: &BodyStructure) -> (Cow<'m, [u8]>, Vec<Defect>) {
    let raw = raw_body(message, part);
    let mut defects = Defects::default();
    let offset = part.body_offset as usize;
    let mut decoded = Vec::new();
    match &*part.encoding.to_ascii_lowercase() {
        b"base64" => {
            decoded.reserve(raw.len() / 4 * 3);
            if decode_base64(raw, &mut decoded) > 0 {
                defects.add(DefectKind::BadBase64, offset);
            }
        }
        b"quoted-printable" => {
            decoded.reserve(raw.len());
            if let Some(at) = decode_quoted_printable(raw, &mut decoded) {
                defects.add(DefectKind::BadQuotedPrintable, offset + at);
            }
        }
        b"7bit" | b"8bit" | b"binary" => return (Cow::Borrowed(raw), Vec::new()),
        _ => {
            defects.add(DefectKind::UnknownEncoding, offset);
            return (Cow::Borrowed(raw), defects.into_vec());
        }
    }
    (Cow::Owned(decoded), defects.into_vec())
}

/// Returns the body of a text part as text, decoded from its transfer encoding and charset.
///
/// Without a charset, or with an unknown one, the bytes are decoded as UTF-8 if they are valid
/// UTF-8, else as windows-1252; so is a part that claims to be ASCII.
pub fn part_text<'m>(message: &'m [u8], part: &BodyStructure) -> (Cow<'m, str>, Vec<Defect>) {
    let (bytes, mut defects) = part_body(message, part);
    let charset = parameter(&part.parameters, "charset").unwrap_or_default();
    let charset = charset.trim().as_bytes();
    let plain = charset.is_empty() || charset.eq_ignore_ascii_case(b"us-ascii");
    let text = match bytes {
        Cow::Borrowed(bytes) => in_charset(charset, plain, bytes),
        Cow::Owned(bytes) => {
            in_charset(charset, plain, &bytes).map(|text| text.into_owned().into())
        }
    };
    if let Some(text) = text {
        return (text, defects);
    }
    defects.push(Defect { kind: DefectKind::BadCharset, offset: part.header_offset });
    let (bytes, _) = part_body(message, part);
    let text = match bytes {
        Cow::Borrowed(bytes) => decode_plain(bytes),
        Cow::Owned(bytes) => Cow::Owned(decode_plain(&bytes).into_owned()),
    };
    (text, defects)
}

fn in_charset<'a>(charset: &[u8], plain: bool, bytes: &'a [u8]) -> Option<Cow<'a, str>> {
    if plain { Some(decode_plain(bytes)) } else { decode_charset(charset, bytes) }
}

/// Decodes quoted-printable (RFC 2045 §6.7). Returns the offset of the first `=` that quotes
/// nothing; such signs are copied unchanged. White space at the end of a line was added in transit
/// and is removed.
fn decode_quoted_printable(raw: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let (mut at, mut broken) = (0, None);
    // A quoted byte stays, even if it is white space.
    let mut kept = out.len();
    while at < raw.len() {
        let rest = &raw[at..];
        let Some(skip) = memchr::memchr2(b'=', b'\n', rest) else {
            out.extend_from_slice(rest);
            break;
        };
        out.extend_from_slice(&rest[..skip]);
        at += skip;
        if raw[at] == b'\n' {
            trim_line_end(out, kept);
            let crlf = at > 0 && raw[at - 1] == b'\r';
            out.extend_from_slice(if crlf { b"\r\n" } else { b"\n" });
            kept = out.len();
            at += 1;
            continue;
        }
        let pair = raw.get(at + 1).zip(raw.get(at + 2));
        if let Some(byte) = pair.and_then(|(high, low)| Some(hex(*high)? << 4 | hex(*low)?)) {
            out.push(byte);
            kept = out.len();
            at += 3;
        } else if let Some(length) = soft_line_break(&raw[at + 1..]) {
            kept = out.len();
            at += 1 + length;
        } else {
            broken.get_or_insert(at);
            out.push(b'=');
            at += 1;
        }
    }
    broken
}

/// Removes blanks and a CR from the end, except in the first `kept` bytes.
fn trim_line_end(out: &mut Vec<u8>, kept: usize) {
    while out.len() > kept && matches!(out.last(), Some(b' ' | b'\t' | b'\r')) {
        out.pop();
    }
}

/// Returns the length of the white space and line end after a `=`; the end of the text also counts
/// as a line end.
fn soft_line_break(rest: &[u8]) -> Option<usize> {
    let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r')).count();
    match rest.get(blanks) {
        Some(b'\n') => Some(blanks + 1),
        None => Some(blanks),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body_structure;

    fn check(encoding: &str, body: &str, expected: &str, broken: bool) {
        let message = format!("Content-Transfer-Encoding: {encoding}\n\n{body}");
        let (structure, _) = body_structure(message.as_bytes());
        let (decoded, defects) = part_body(message.as_bytes(), &structure);
        assert_eq!(decoded, expected.as_bytes(), "{body:?}");
        assert_eq!(!defects.is_empty(), broken, "{body:?}");
    }

    #[test]
    fn transfer_encodings() {
        check("base64", "aGVs\r\nbG8=\n", "hello", false);
        check("BASE64", "aGVsbG8", "hello", false);
        check("base64", "aGVs*bG8=", "hello", true);
        check("base64", "aGVsbG8=aGVsbG8=", "hellohello", false);
        check("quoted-printable", "a=3Db=\nc=20\n", "a=bc \n", false);
        check("quoted-printable", "--=20\r\na=20 \t\r\n=0D\n", "-- \r\na \r\n\r\n", false);
        check("quoted-printable", "> =\r\n\r\n", "> \r\n", false);
        check("quoted-printable", "a \t\r\nb=  \r\nc", "a\r\nbc", false);
        check("quoted-printable", "a=zz=", "a=zz", true);
        check("8bit", "\u{e9}=20", "\u{e9}=20", false);
        check("x-none", "abc", "abc", true);
    }

    #[test]
    fn text_is_decoded_in_its_charset() {
        let check = |kind: &str, body: &[u8], expected: &str, broken: bool| {
            let message = [b"Content-Type: ", kind.as_bytes(), b"\n\n", body].concat();
            let (structure, _) = body_structure(&message);
            let (text, defects) = part_text(&message, &structure);
            assert_eq!((&*text, !defects.is_empty()), (expected, broken), "{kind}");
        };
        check("text/plain; charset=iso-8859-1", b"caf\xe9", "caf\u{e9}", false);
        check("text/plain; charset=\"UTF-8\"", "caf\u{e9}".as_bytes(), "caf\u{e9}", false);
        check("text/plain", b"caf\xe9", "caf\u{e9}", false);
        check("text/plain; charset=us-ascii", "caf\u{e9}".as_bytes(), "caf\u{e9}", false);
        check("text/plain; charset=nope", b"caf\xe9", "caf\u{e9}", true);
    }
}
