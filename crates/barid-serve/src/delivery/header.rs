//! The header that a delivered message gets.

use barid::message::fields;

/// Header of a message as it is stored, and the offset of its body in the message.
pub(crate) struct DeliveredHeader {
    /// The bytes before the body.
    pub(crate) bytes: Vec<u8>,
    /// The envelope sender, for a From_ line.
    pub(crate) sender: Option<String>,
}

/// Removes the From_ line that programs write before a message on standard input; returns its
/// sender and length.
pub(crate) fn from_line(header: &[u8]) -> (Option<String>, usize) {
    // Postfix and getmail quote a From_ line that is within a header.
    if !header.starts_with(b"From ") {
        return (None, 0);
    }
    let end = header.iter().position(|byte| *byte == b'\n').map_or(header.len(), |at| at + 1);
    let line = String::from_utf8_lossy(&header[..end]);
    let sender = line.split_ascii_whitespace().nth(1).unwrap_or_default();
    let sender = if sender == "MAILER-DAEMON" { "" } else { sender };
    (Some(sender.to_owned()), end)
}

/// Returns the header of a message for a recipient: Return-Path with the envelope sender, which
/// replaces those that are there, and Delivered-To.
///
/// Without a known sender, the Return-Path that the message has stays, and names the sender.
pub(crate) fn delivered(
    header: &[u8],
    sender: Option<&str>,
    recipient: Option<&str>,
) -> DeliveredHeader {
    let (of_line, skipped) = from_line(header);
    let header = &header[skipped..];
    let crlf = first_line_is_crlf(header);
    let of_field =
        barid::message::field(header, b"Return-Path").map(|field| return_path(field.body));
    let mut bytes = Vec::with_capacity(header.len() + 200);
    let mut line = |name: &str, value: &str| {
        let value: String = value.chars().filter(|char| !char.is_control()).collect();
        bytes.extend_from_slice(format!("{name}: {value}").as_bytes());
        bytes.extend_from_slice(if crlf { b"\r\n" } else { b"\n" });
    };
    let known = sender.map(str::to_owned).or_else(|| match of_field {
        None => of_line.clone(),
        Some(_) => None,
    });
    if let Some(known) = &known {
        line("Return-Path", &format!("<{known}>"));
    }
    if let Some(recipient) = recipient {
        line("Delivered-To", recipient);
    }
    let mut from = 0;
    for field in fields(header) {
        if known.is_some() && field.name.eq_ignore_ascii_case(b"Return-Path") {
            bytes.extend_from_slice(&header[from..field.offset]);
            from = field.end;
        }
    }
    bytes.extend_from_slice(&header[from..]);
    let sender = sender.map(str::to_owned).or(of_field).or(of_line);
    DeliveredHeader { bytes, sender: sender.filter(|sender| !sender.is_empty()) }
}

fn first_line_is_crlf(header: &[u8]) -> bool {
    let end = header.iter().position(|byte| *byte == b'\n');
    end.is_some_and(|end| end > 0 && header[end - 1] == b'\r')
}

fn return_path(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    text.trim().trim_start_matches('<').trim_end_matches('>').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, sender: Option<&str>, recipient: Option<&str>, expected: (&str, &str)) {
        let found = delivered(header.as_bytes(), sender, recipient);
        let bytes = String::from_utf8_lossy(&found.bytes).into_owned();
        assert_eq!((bytes.as_str(), found.sender.as_deref().unwrap_or("")), expected);
    }

    #[test]
    fn return_path_and_delivered_to_come_first() {
        let lmtp = "Return-Path: <a@x>\nDelivered-To: b@y\nSubject: s\n\n";
        check("Subject: s\n\n", Some("a@x"), Some("b@y"), (lmtp, "a@x"));
        let crlf = "Return-Path: <>\r\nSubject: s\r\n\r\n";
        check("Subject: s\r\n\r\n", Some(""), None, (crlf, ""));
        let old = "Return-Path: <old@x>\nA: 1\nreturn-path: <older@x>\n\n";
        check(old, Some("a@x"), None, ("Return-Path: <a@x>\nA: 1\n\n", "a@x"));
        check(old, None, None, (old, "old@x"));
        let evil = "a@x>\r\nX: y";
        check("A: 1\n\n", Some(evil), None, ("Return-Path: <a@x>X: y>\nA: 1\n\n", evil));
    }

    #[test]
    fn a_from_line_is_the_sender() {
        let line = "From a@x Mon Jan  1 00:00:00 2024\n";
        let header = format!("{line}Subject: s\n\n");
        check(&header, None, None, ("Return-Path: <a@x>\nSubject: s\n\n", "a@x"));
        let postfix = format!("{line}Return-Path: <a@x>\nSubject: s\n\n");
        check(&postfix, None, None, ("Return-Path: <a@x>\nSubject: s\n\n", "a@x"));
        let bounce = "From MAILER-DAEMON Mon Jan  1 00:00:00 2024\nSubject: s\n\n";
        check(bounce, None, None, ("Return-Path: <>\nSubject: s\n\n", ""));
        check("From: x\n\n", None, None, ("From: x\n\n", ""));
    }
}
