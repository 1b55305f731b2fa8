//! Inputs made to exhaust time, memory or the stack.

use barid_message::limits::{DEFECTS_MAX, DEPTH_MAX, PARTS_MAX};
use barid_message::{DefectKind, body_structure, numbered_parts, readable_text};

use super::exercise;

#[test]
fn one_endless_line() {
    let line = "x".repeat(64 << 20);
    exercise(line.as_bytes());
    for name in ["Subject", "From", "References", "Date", "Content-Type", "Status"] {
        exercise(format!("{name}: {}", &line[..4 << 20]).as_bytes());
    }
}

#[test]
fn parts_nested_deeply() {
    let mut message = String::new();
    for level in 0..10_000 {
        message += &format!("Content-Type: multipart/mixed; boundary=b{level}\n\n--b{level}\n");
    }
    let defects = exercise(message.as_bytes());
    assert!(defects.iter().any(|defect| defect.kind == DefectKind::TooDeep));
    let message = "Content-Type: message/rfc822\n\n".repeat(10_000);
    let (structure, defects) = body_structure(message.as_bytes());
    assert!(defects.iter().any(|defect| defect.kind == DefectKind::TooDeep));
    assert_eq!(numbered_parts(&structure).len(), DEPTH_MAX);
    exercise(message.as_bytes());
}

#[test]
fn very_many_parts() {
    let mut message = b"Content-Type: multipart/mixed; boundary=b\n\n".to_vec();
    message.extend(b"--b\n\nx\n".repeat(100_000));
    let (structure, defects) = body_structure(&message);
    assert_eq!(structure.parts.len(), PARTS_MAX - 1);
    assert!(defects.iter().any(|defect| defect.kind == DefectKind::TooManyParts));
    assert_eq!(defects.len(), DEFECTS_MAX);
    exercise(&message);
}

#[test]
fn nothing_is_ever_closed() {
    for open in
        ["(", "\"", "<", "[", "=?utf-8?q?", "<a@b(", "a;b=\"", "--", "{", "&#", "<!--", "<style"]
    {
        let text = open.repeat(100_000);
        let header = format!(
            "From: {text}\nTo: {text}\nSubject: {text}\nDate: {text}\nMessage-ID: {text}\n\
             References: {text}\nContent-Type: text/html; {text}\nContent-Disposition: {text}\n\
             Content-Language: {text}\n\n{text}"
        );
        exercise(header.as_bytes());
    }
}

#[test]
fn html_of_every_kind_becomes_text() {
    for html in
        ["<", ">", "&", "&;", "<b", "<b>x</b>", "&amp", "\u{e9}&\u{e9};<\u{e9}>", "<!-", "-->"]
    {
        let body = html.repeat(20_000);
        let message = format!("Content-Type: text/html; charset=utf-8\n\n{body}");
        readable_text(message.as_bytes());
    }
}
