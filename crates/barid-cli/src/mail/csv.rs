//! Messages as lines of CSV (RFC 4180), for spreadsheets.

use std::ffi::OsStr;

use barid::message::{Profile, decode_words, message_id};
use barid::{Flag, Summary};

use super::address::visit_parsed;
use crate::lines::WriteLine;
use crate::output::date::write_rfc3339;

/// The columns; that of the mailbox is only there where several are listed together.
const COLUMNS: &str = "uid,date,from,to,cc,subject,flags,keywords,size,message_id\r\n";

/// Returns the first line.
pub(crate) fn csv_head(has_mailbox: bool) -> String {
    if has_mailbox { format!("mailbox,{COLUMNS}") } else { COLUMNS.to_owned() }
}

/// Writes messages as CSV.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MessageCsv<'a> {
    /// The mailbox, where several are listed together.
    pub(crate) mailbox: Option<&'a OsStr>,
}

impl WriteLine for MessageCsv<'_> {
    fn write_line(&mut self, out: &mut Vec<u8>, summary: &Summary<'_>) {
        let fields = &summary.fields;
        if let Some(mailbox) = self.mailbox {
            write_field(out, &mailbox.to_string_lossy());
            out.push(b',');
        }
        out.extend_from_slice(summary.uid.to_string().as_bytes());
        out.push(b',');
        if let Some(date) = summary.sent_date {
            write_rfc3339(out, date.unix_seconds, date.zone_minutes);
        }
        let subject = fields.subject.map(decode_words).unwrap_or_default();
        let flags: Vec<&str> = summary.flags.iter().map(Flag::name).collect();
        let keywords: Vec<&str> = summary.keyword_names().collect();
        let size = summary.size.to_string();
        let id = fields.message_id.and_then(|raw| message_id(raw, Profile::Rfc));
        let texts = [
            people(fields.from),
            people(fields.to),
            people(fields.cc),
            subject.into_owned(),
            flags.join(" "),
            keywords.join(" "),
            size,
            id.map(|id| String::from_utf8_lossy(&id).into_owned()).unwrap_or_default(),
        ];
        for text in texts {
            out.push(b',');
            write_field(out, &text);
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Returns the addresses of a field, decoded.
fn people(raw: Option<&[u8]>) -> String {
    let mut all: Vec<String> = Vec::new();
    visit_parsed(raw.unwrap_or_default(), &mut |person| {
        all.extend(person.address.map(|address| match person.name {
            Some(name) => format!("{name} <{address}>"),
            None => address.to_owned(),
        }));
    });
    all.join(", ")
}

/// Appends a value. A text of a stranger that a spreadsheet would take for a formula gets an
/// apostrophe before it; line ends and other control characters become blanks.
fn write_field(out: &mut Vec<u8>, text: &str) {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let needs_quotes = text.contains([',', ';', '"', '\n', '\r']);
    if needs_quotes {
        out.push(b'"');
    }
    if is_formula {
        out.push(b'\'');
    }
    for char in text.chars() {
        match char {
            '"' => out.extend_from_slice(b"\"\""),
            char if char.is_control() => out.push(b' '),
            char => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    if needs_quotes {
        out.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_one_cell_each() {
        let check = |text: &str, expected: &str| {
            let mut out = Vec::new();
            write_field(&mut out, text);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        check("", "");
        check("plan", "plan");
        check("a, b", "\"a, b\"");
        check("say \"x\"", "\"say \"\"x\"\"\"");
        check("a\nb\u{1b}[2J", "\"a b [2J\"");
        check("=HYPERLINK(\"x\")", "\"'=HYPERLINK(\"\"x\"\")\"");
        check("x;=1", "\"x;=1\"");
        check("-1", "'-1");
        check("Ü", "Ü");
    }
}
