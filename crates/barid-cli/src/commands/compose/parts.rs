//! The parts of a received message that a draft takes up.

use barid::HeaderFields;
use barid::message::{
    HeaderScan, Profile, attachments, body_structure, decode_words, field, message_id, message_ids,
    parse_date, readable_text, unfold,
};

use crate::limits::DRAFT_REFERENCES_MAX;
use crate::mail::address::visit_parsed;
use crate::output::date::write_short;

/// A person of an address field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Correspondent {
    pub(super) name: Option<String>,
    pub(super) address: String,
}

impl Correspondent {
    /// Returns `true` if mail can be sent to the address.
    pub(super) fn is_whole(&self) -> bool {
        let is_plain = |char: char| !char.is_whitespace() && !char.is_control();
        let parts = self.address.rsplit_once('@');
        parts.is_some_and(|(local, host)| !local.is_empty() && !host.is_empty())
            && self.address.chars().all(is_plain)
    }

    /// Returns the person as a field has it.
    pub(super) fn in_field(&self) -> String {
        let Self { name, address } = self;
        let Some(name) = name else { return address.clone() };
        let is_word = |char: char| char.is_alphanumeric() || " !#$%&'*+-/=?^_`{|}~".contains(char);
        match name.chars().all(is_word) {
            true => format!("{name} <{address}>"),
            false => format!("\"{}\" <{address}>", name.replace('\\', "\\\\").replace('"', "\\\"")),
        }
    }
}

/// Returns the people of a received address field, those of groups included; what is no address is
/// left out.
pub(super) fn people(raw: &[u8]) -> Vec<Correspondent> {
    let mut people = Vec::new();
    visit_parsed(raw, &mut |person| {
        people.extend(person.address.map(|address| Correspondent {
            name: person.name.map(on_one_line),
            address: on_one_line(address),
        }));
    });
    people
}

/// Returns a text of a message without control characters, which would begin another field, or
/// change a terminal.
fn on_one_line(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}

/// A received message.
pub(super) struct Original<'m> {
    pub(super) bytes: &'m [u8],
    pub(super) fields: HeaderFields<'m>,
}

impl<'m> Original<'m> {
    pub(super) fn of(bytes: &'m [u8]) -> Self {
        Self { bytes, fields: HeaderScan::new(bytes).fields }
    }

    /// Returns the people to whom an answer goes.
    pub(super) fn authors(&self) -> Vec<Correspondent> {
        let people_of = |raw: Option<&[u8]>| raw.map(people).unwrap_or_default();
        let fields = &self.fields;
        let mut found = [fields.reply_to, fields.from, fields.sender].into_iter().map(people_of);
        found.find(|people| !people.is_empty()).unwrap_or_default()
    }

    /// Returns the other people who got the message.
    pub(super) fn recipients(&self) -> Vec<Correspondent> {
        [self.fields.to, self.fields.cc].into_iter().flatten().flat_map(people).collect()
    }

    /// Returns the address of the mailing list (RFC 2369 §3.4).
    pub(super) fn list(&self) -> Option<Correspondent> {
        let value = unfold(field(self.bytes, b"List-Post")?.body);
        let value = String::from_utf8_lossy(&value).into_owned();
        let address = value.split('<').find_map(|rest| rest.strip_prefix("mailto:"))?;
        let address = address.split(['>', '?']).next()?;
        Some(Correspondent { name: None, address: address.to_owned() })
            .filter(Correspondent::is_whole)
    }

    /// Returns the decoded subject.
    pub(super) fn subject(&self) -> String {
        let raw = self.fields.subject.unwrap_or_default();
        on_one_line(&decode_words(&unfold(raw))).trim().to_owned()
    }

    /// Returns the Message-ID with its brackets.
    pub(super) fn id(&self) -> Option<String> {
        in_brackets(&message_id(self.fields.message_id?, Profile::Rfc)?)
    }

    /// Returns References of an answer (RFC 5322 §3.6.4): the last ids, and the message itself.
    pub(super) fn references(&self) -> String {
        let mut ids = Vec::new();
        let raw = self.fields.references.or(self.fields.in_reply_to).unwrap_or_default();
        message_ids(raw, Profile::Rfc, &mut |id| ids.extend(in_brackets(id)));
        ids.extend(self.id());
        ids.dedup();
        let from = ids.len().saturating_sub(DRAFT_REFERENCES_MAX);
        ids[from..].join(" ")
    }

    /// Returns the date as it is shown in lists; nothing without a date.
    pub(super) fn date(&self) -> String {
        let mut out = Vec::new();
        if let Some(date) = self.fields.date.and_then(parse_date) {
            write_short(&mut out, date.unix_seconds, date.zone_minutes);
        }
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Returns the readable text without the signature of its author.
    pub(super) fn text(&self) -> String {
        let text = readable_text(self.bytes);
        let mut kept = String::with_capacity(text.len());
        for line in text.lines().take_while(|line| *line != "-- ") {
            kept.push_str(line);
            kept.push('\n');
        }
        kept.truncate(kept.trim_end().len());
        kept
    }

    /// Returns `true` if there are attachments.
    pub(super) fn has_attachments(&self) -> bool {
        !attachments(&body_structure(self.bytes).0).is_empty()
    }
}

/// Returns an id as a field has it; `None` for one with bytes that no field may have.
fn in_brackets(id: &[u8]) -> Option<String> {
    let id = std::str::from_utf8(id).ok()?;
    let is_plain = id.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>".contains(&byte));
    is_plain.then(|| format!("<{id}>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_written_as_they_are_read() {
        for text in ["Ann Lee <a@b>", "a@b", "\"Lee, Ann\" <a@b>", "Jörg <j@b>", "\"a\\\"b\" <a@b>"]
        {
            let found: Vec<String> =
                people(text.as_bytes()).iter().map(Correspondent::in_field).collect();
            assert_eq!(found, [text]);
        }
        let found = people(b"team: a@b, c@d;, =?utf-8?q?J=C3=B6rg?= <e@f>");
        let found: Vec<String> = found.iter().map(Correspondent::in_field).collect();
        assert_eq!(found, ["a@b", "c@d", "Jörg <e@f>"]);
    }

    #[test]
    fn a_list_has_an_address() {
        let check = |value: &str, expected: Option<&str>| {
            let bytes = format!("List-Post: {value}\n\nx");
            let found = Original::of(bytes.as_bytes()).list().map(|list| list.address);
            assert_eq!(found.as_deref(), expected, "{value}");
        };
        check("<mailto:rust@lists.example>", Some("rust@lists.example"));
        check("(moderated) <http://x/>,\n <mailto:a@b?subject=x>", Some("a@b"));
        check("NO", None);
        check("<mailto:>", None);
    }
}
