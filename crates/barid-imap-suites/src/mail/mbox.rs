//! Mbox files with the fields that c-client and Dovecot keep in them.

use std::io;
use std::path::Path;

use barid_testkit::corpus::Calendar;
use barid_testkit::disk;

use super::plan::{MailboxPlan, MessagePlan};
use super::pool::PoolMessage;

/// Writes a mailbox.
pub(super) fn write(path: &Path, plan: &MailboxPlan, pool: &[PoolMessage]) -> io::Result<()> {
    let mut bytes = Vec::new();
    let mut keywords: Vec<&str> = Vec::new();
    for keyword in plan.messages.iter().flat_map(|message| &message.keywords) {
        if !keywords.contains(&keyword.as_str()) {
            keywords.push(keyword);
        }
    }
    for (number, message) in plan.messages.iter().enumerate() {
        let source = &pool[message.message];
        let date = Calendar::asctime(source.date);
        bytes.extend_from_slice(format!("From sender@example.org {date}\n").as_bytes());
        if number == 0 {
            let last = plan.uidnext() - 1;
            let base = format!("X-IMAPbase: {} {last:010}", plan.uidvalidity);
            let base = keywords.iter().fold(base, |base, keyword| format!("{base} {keyword}"));
            bytes.extend_from_slice(format!("{base}\n").as_bytes());
        }
        bytes.extend_from_slice(own_fields(message).as_bytes());
        push_quoted(&mut bytes, &source.bytes);
        bytes.push(b'\n');
    }
    disk::write(path, &bytes)
}

/// Returns the fields with the UID and the flags.
fn own_fields(message: &MessagePlan) -> String {
    let has = |letter| message.flags.contains(letter);
    let mut status = String::new();
    if has('S') {
        status.push('R');
    }
    if !message.is_new {
        status.push('O');
    }
    let mut more = String::new();
    for (flag, letter) in [('R', 'A'), ('F', 'F'), ('D', 'T'), ('T', 'D')] {
        if has(flag) {
            more.push(letter);
        }
    }
    let mut fields = format!("X-UID: {}\n", message.uid);
    for (name, value) in [("Status", status), ("X-Status", more)] {
        if !value.is_empty() {
            fields.push_str(&format!("{name}: {value}\n"));
        }
    }
    if !message.keywords.is_empty() {
        fields.push_str(&format!("X-Keywords: {}\n", message.keywords.join(" ")));
    }
    fields
}

/// Adds a message with LF line ends and a `>` before lines that start with `From `.
fn push_quoted(bytes: &mut Vec<u8>, message: &[u8]) {
    for line in message.strip_suffix(b"\n").unwrap_or(message).split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.starts_with(b"From ") {
            bytes.push(b'>');
        }
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_quotes_are_written() {
        let message = MessagePlan {
            message: 0,
            uid: 7,
            flags: "FS".into(),
            keywords: vec!["a".into(), "b".into()],
            is_new: false,
        };
        assert_eq!(own_fields(&message), "X-UID: 7\nStatus: RO\nX-Status: F\nX-Keywords: a b\n");
        let mut bytes = Vec::new();
        push_quoted(&mut bytes, b"A: b\r\n\r\nFrom here\nx");
        assert_eq!(bytes, b"A: b\n\n>From here\nx\n");
    }
}
