//! A message as a line of JSON (`docs/json.md`, type `message`).

use std::collections::HashMap;
use std::ffi::OsStr;

use barid::Summary;
use barid::message::{Profile, decode_words, message_id, message_ids};

use crate::mail::address::{Person, visit_parsed, visit_plain};
use crate::output::json::Json;

/// Writes messages as JSON.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MessageJson<'a> {
    /// The mailbox, where several are listed together.
    pub(crate) mailbox: Option<&'a OsStr>,
    /// `true` to write `rfc822_size`, which must then be known. Other commands leave it out, so
    /// that their output does not depend on the contents of the cache.
    pub(crate) has_rfc822_size: bool,
    /// The scores by row, where messages are in the order of their relevance.
    pub(crate) scores: Option<&'a HashMap<u32, f64>>,
}

impl MessageJson<'_> {
    /// Appends the line of one message.
    pub(crate) fn write(&self, out: &mut Vec<u8>, summary: &Summary<'_>) {
        let mut json = Json::line(out, "message");
        let fields = &summary.fields;
        if let Some(mailbox) = self.mailbox {
            json.key("mailbox").bytes(mailbox.as_encoded_bytes());
        }
        json.key("uid").number(summary.uid.get().into());
        json.key("seq").number(u64::from(summary.row) + 1);
        if let Some(score) = self.scores.and_then(|scores| scores.get(&summary.row)) {
            json.key("score").real(*score);
        }
        write_dates(&mut json, summary);
        write_addresses(json.key("from"), fields.from);
        write_addresses(json.key("to"), fields.to);
        write_addresses(json.key("cc"), fields.cc);
        write_subject(&mut json, fields.subject);
        write_flags(&mut json, summary);
        json.key("size").number(summary.size);
        match summary.rfc822_size.filter(|_| self.has_rfc822_size) {
            Some(size) => json.key("rfc822_size").number(size),
            None if self.has_rfc822_size => json.key("rfc822_size").null(),
            None => {}
        }
        write_ids(&mut json, summary);
        json.end_line();
    }
}

/// Writes `date` and `internal_date`.
pub(crate) fn write_dates(json: &mut Json<'_>, summary: &Summary<'_>) {
    match summary.sent_date {
        Some(date) => json.key("date").date(date.unix_seconds, date.zone_minutes),
        None => json.key("date").null(),
    }
    let arrived = summary.internal_date;
    json.key("internal_date").date(arrived.unix_seconds, arrived.zone_minutes);
}

/// Writes `subject`.
pub(crate) fn write_subject(json: &mut Json<'_>, raw: Option<&[u8]>) {
    match raw {
        Some(raw) => json.key("subject").str(&decode_words(raw)),
        None => json.key("subject").null(),
    }
}

/// Writes the addresses of a field as an array.
pub(crate) fn write_addresses(json: &mut Json<'_>, raw: Option<&[u8]>) {
    json.open(b'[');
    if let Some(raw) = raw {
        let mark = json.mark();
        if !visit_plain(raw, &mut |name, address| write_plain(json, name, address)) {
            json.rewind(mark);
            visit_parsed(raw, &mut |person| write_person(json, person));
        }
    }
    json.close(b']');
}

fn write_plain(json: &mut Json<'_>, name: Option<&str>, address: &str) {
    json.open(b'{');
    match name {
        Some(name) => json.key("name").str(name),
        None => json.key("name").null(),
    }
    json.key("address").plain(address.as_bytes());
    json.close(b'}');
}

fn write_person(json: &mut Json<'_>, person: Person<'_>) {
    json.open(b'{');
    for (key, value) in [("name", person.name), ("address", person.address)] {
        match value {
            Some(text) => json.key(key).str(text),
            None => json.key(key).null(),
        }
    }
    if let Some(group) = person.group {
        json.key("group").str(group);
    }
    json.close(b'}');
}

/// Writes `flags` and `keywords`.
pub(crate) fn write_flags(json: &mut Json<'_>, summary: &Summary<'_>) {
    json.key("flags").open(b'[');
    summary.flags.iter().for_each(|flag| json.str(flag.name()));
    json.close(b']');
    json.key("keywords").open(b'[');
    if summary.keywords.0 != 0 {
        summary.keyword_names().for_each(|name| json.str(name));
    }
    json.close(b']');
}

fn write_ids(json: &mut Json<'_>, summary: &Summary<'_>) {
    let fields = &summary.fields;
    match fields.message_id.and_then(|raw| message_id(raw, Profile::Rfc)) {
        Some(id) => json.key("message_id").bytes(&id),
        None => json.key("message_id").null(),
    }
    for (key, raw) in [("in_reply_to", fields.in_reply_to), ("references", fields.references)] {
        json.key(key).open(b'[');
        if let Some(raw) = raw {
            message_ids(raw, Profile::Rfc, &mut |id| json.bytes(id));
        }
        json.close(b']');
    }
}
