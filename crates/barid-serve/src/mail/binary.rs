//! Parts with the transfer encoding `binary` (RFC 3516 §4.4), which mailboxes cannot store: their
//! lines are those of texts. They are encoded in base64.

use barid::BodyStructure;
use barid::message::body_structure;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Bytes that make a line of base64 (RFC 2045 §6.8).
const LINE_BYTES: usize = 57;
/// The field that names the encoding.
const FIELD: &[u8] = b"content-transfer-encoding:";

/// Returns the message with each part of the encoding `binary` in base64.
pub(crate) fn encode_binary_parts(message: &[u8]) -> Vec<u8> {
    let (structure, _) = body_structure(message);
    let mut leaves = Vec::new();
    let mut open = vec![&structure];
    while let Some(part) = open.pop() {
        match part.parts.is_empty() {
            true if part.encoding.eq_ignore_ascii_case(b"binary") => leaves.push(part),
            true => {}
            false => open.extend(&part.parts),
        }
    }
    leaves.sort_by_key(|part| part.header_offset);
    let (mut out, mut at) = (Vec::with_capacity(message.len() * 4 / 3), 0);
    for part in leaves {
        let (header, body, end) = places(part);
        if header < at || body < header || end < body || end > message.len() {
            continue;
        }
        out.extend_from_slice(&message[at..header]);
        write_header(&message[header..body], &mut out);
        for line in message[body..end].chunks(LINE_BYTES) {
            out.extend_from_slice(STANDARD.encode(line).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        at = end;
    }
    out.extend_from_slice(&message[at..]);
    out
}

/// Returns the offsets of the header, the body and the end of a part.
fn places(part: &BodyStructure) -> (usize, usize, usize) {
    let offset = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
    (offset(part.header_offset), offset(part.body_offset), offset(part.body_end))
}

/// Appends a header with another encoding.
fn write_header(header: &[u8], out: &mut Vec<u8>) {
    let mut is_encoding = false;
    for line in header.split_inclusive(|byte| *byte == b'\n') {
        let is_folded = matches!(line.first(), Some(b' ' | b'\t'));
        if !is_folded {
            let start = line.get(..FIELD.len()).unwrap_or_default();
            is_encoding = start.eq_ignore_ascii_case(FIELD);
            if is_encoding {
                out.extend_from_slice(b"Content-Transfer-Encoding: base64\r\n");
            }
        }
        if !is_encoding {
            out.extend_from_slice(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &[u8], expected: &[u8]) {
        let encoded = encode_binary_parts(message);
        assert_eq!(encoded.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }

    #[test]
    fn a_message_is_encoded() {
        check(
            b"Content-Transfer-Encoding: binary\r\nX: y\r\n\r\n\0-\xe4\n\r\n\n",
            b"Content-Transfer-Encoding: base64\r\nX: y\r\n\r\nAC3kCg0KCg==\r\n",
        );
    }

    #[test]
    fn other_parts_stay() {
        let text = |middle: &str, body: &str| {
            format!(
                "Content-Type: multipart/mixed; boundary=x\r\n\r\npre\r\n--x\r\n\r\na\nb\r\n--x\r\n\
                 A: b\r\nContent-Transfer-Encoding:{middle}\r\n\r\n{body}--x--\r\npost\r\n"
            )
        };
        let (binary, base64) = (text("\r\n binary", "\0\r\n"), text(" base64", "AA==\r\n\r\n"));
        check(binary.as_bytes(), base64.as_bytes());
        let plain = text(" 8bit", "x\r\n");
        check(plain.as_bytes(), plain.as_bytes());
    }
}
