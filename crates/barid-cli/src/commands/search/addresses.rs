//! The senders of messages.

use std::collections::HashMap;

use barid::Mailbox;

use crate::mail::address::{visit_parsed, visit_plain};
use crate::output::escape::visible;
use crate::output::json::Json;

/// Senders, each once.
#[derive(Debug, Default)]
pub(super) struct Senders {
    /// Indices in `all`, by addresses in small letters.
    known: HashMap<String, usize>,
    all: Vec<Sender>,
}

/// A sender, as in the last message that has a name.
#[derive(Debug)]
struct Sender {
    name: Option<String>,
    address: String,
    messages: u64,
}

impl Senders {
    /// Adds the senders of messages.
    pub(super) fn add(&mut self, mailbox: &Mailbox, rows: &[u32]) -> barid::Result<()> {
        mailbox.summaries(rows, &mut |summary| {
            let raw = summary.fields.from.unwrap_or_default();
            let mut people: Vec<(Option<String>, String)> = Vec::new();
            let is_plain = visit_plain(raw, &mut |name, address| {
                people.push((name.map(str::to_owned), address.to_owned()));
            });
            if !is_plain {
                people.clear();
                visit_parsed(raw, &mut |person| {
                    if let Some(address) = person.address {
                        people.push((person.name.map(str::to_owned), address.to_owned()));
                    }
                });
            }
            people.into_iter().for_each(|(name, address)| self.add_one(name, address));
            true
        })
    }

    fn add_one(&mut self, name: Option<String>, address: String) {
        let at = *self.known.entry(address.to_lowercase()).or_insert(self.all.len());
        match self.all.get_mut(at) {
            Some(known) => {
                known.messages += 1;
                known.name = name.or_else(|| known.name.take());
            }
            None => self.all.push(Sender { name, address, messages: 1 }),
        }
    }

    /// Returns the senders as lines, those of the most messages first.
    pub(super) fn lines(mut self, is_json: bool) -> Vec<Vec<u8>> {
        self.all.sort_by_key(|sender| std::cmp::Reverse(sender.messages));
        self.all.iter().map(|sender| sender.line(is_json)).collect()
    }
}

impl Sender {
    fn line(&self, is_json: bool) -> Vec<u8> {
        let mut out = Vec::new();
        if is_json {
            let mut json = Json::line(&mut out, "address");
            match &self.name {
                Some(name) => json.key("name").str(name),
                None => json.key("name").null(),
            }
            json.key("address").str(&self.address);
            json.key("messages").number(self.messages);
            json.end_line();
            return out;
        }
        let address = visible(self.address.as_bytes());
        let text = match &self.name {
            Some(name) => format!("{} <{address}>\n", visible(name.as_bytes())),
            None => format!("{address}\n"),
        };
        out.extend_from_slice(text.as_bytes());
        out
    }
}
