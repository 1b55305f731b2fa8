//! A message that is being written: fields and text, as people edit them and as they are sent.

use std::collections::HashSet;

use anyhow::Context as _;
use barid::vfs::{Host as _, OsVfs};
use mail_builder::MessageBuilder;
use mail_builder::headers::HeaderType;
use mail_builder::headers::address::Address;
use mail_builder::headers::raw::Raw;
use mail_builder::headers::text::Text;
use mail_builder::mime::MimePart;

use super::parts::{Correspondent, Original, people};
use super::recipients::typed_people;
use crate::exit::WithHint;

/// The people whom an answer addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyScope {
    Author,
    All,
    List,
}

/// A message that is being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MailDraft {
    /// The fields that are edited, decoded, in order.
    fields: Vec<(String, String)>,
    text: String,
    /// References, which go with In-Reply-To.
    references: String,
    /// A message that is attached as it is.
    attached: Option<Vec<u8>>,
}

/// The fields that have addresses.
const ADDRESS_FIELDS: [&str; 6] = ["From", "To", "Cc", "Bcc", "Reply-To", "Sender"];
/// The fields whose people get the message.
const RECIPIENT_FIELDS: [&str; 3] = ["To", "Cc", "Bcc"];

impl MailDraft {
    /// Begins an answer.
    pub(super) fn reply(
        original: &Original<'_>,
        recipients: ReplyScope,
        from: Option<String>,
        quotes: bool,
    ) -> anyhow::Result<Self> {
        let (to, cc) = match recipients {
            ReplyScope::List => {
                let Some(list) = original.list() else {
                    return Err(WithHint::error(
                        "the message names no mailing list in List-Post",
                        "--all answers everybody",
                    ));
                };
                (vec![list], Vec::new())
            }
            ReplyScope::Author => (original.authors(), Vec::new()),
            ReplyScope::All => everybody(original, from.as_deref()),
        };
        let mut fields = vec![("To".to_owned(), list_of(&to)), ("Cc".to_owned(), list_of(&cc))];
        let subject = original.subject();
        let has_re = subject.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("re:"));
        let subject = if has_re { subject } else { format!("Re: {subject}") };
        fields.push(("Subject".to_owned(), subject));
        fields.extend(original.id().map(|id| ("In-Reply-To".to_owned(), id)));
        let text = if quotes { quoted(original) } else { String::new() };
        Ok(Self { references: original.references(), text, ..Self::with(from, fields) })
    }

    /// Begins to forward a message.
    pub(super) fn forward(
        original: &Original<'_>,
        to: &str,
        from: Option<String>,
        is_inline: bool,
    ) -> anyhow::Result<Self> {
        typed_people(to)?;
        let subject = format!("Fwd: {}", original.subject());
        let fields = [("To", to.to_owned()), ("Subject", subject)];
        let fields = fields.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let draft = Self::with(from, fields);
        Ok(match is_inline {
            true => Self { text: copied(original), ..draft },
            false => Self { attached: Some(original.bytes.to_owned()), ..draft },
        })
    }

    fn with(from: Option<String>, mut fields: Vec<(String, String)>) -> Self {
        if let Some(from) = from {
            fields.insert(0, ("From".to_owned(), from));
        }
        Self { fields, text: String::new(), references: String::new(), attached: None }
    }

    /// Returns the text that is edited.
    pub(super) fn template(&self) -> String {
        let mut out = String::new();
        for (name, value) in &self.fields {
            out.push_str(&format!("{name}: {value}\n").replace(": \n", ":\n"));
        }
        out.push('\n');
        out.push_str(&self.text);
        out
    }

    /// Returns the draft with the fields and the text of an edited template.
    ///
    /// # Errors
    ///
    /// Returns an error for a line in front of the text that is no field.
    pub(super) fn edited(&self, template: &str) -> anyhow::Result<Self> {
        let mut fields: Vec<(String, String)> = Vec::new();
        let mut rest = template;
        for number in 1.. {
            let (line, next) = rest.split_once('\n').unwrap_or((rest, ""));
            let (line, is_last) = (line.trim_end_matches('\r'), !rest.contains('\n'));
            rest = next;
            if line.is_empty() {
                break;
            }
            let is_name =
                |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
            match (line.split_once(':'), fields.last_mut()) {
                (_, Some((_, value))) if line.starts_with([' ', '\t']) => {
                    value.push(' ');
                    value.push_str(line.trim());
                }
                (Some((name, value)), _) if is_name(name) => {
                    fields.push((name.to_owned(), value.trim().to_owned()));
                }
                _ => {
                    return Err(WithHint::error(
                        format!("line {number}: {line:?} is not a header field"),
                        "an empty line divides the fields and the text",
                    ));
                }
            }
            if is_last {
                break;
            }
        }
        Ok(Self { fields, text: rest.to_owned(), ..self.clone() })
    }

    /// Returns the addresses of those who get it.
    ///
    /// # Errors
    ///
    /// Returns an error for what is no address, and if there is none.
    pub(super) fn recipients(&self) -> anyhow::Result<Vec<String>> {
        let mut found = Vec::new();
        for (name, value) in &self.fields {
            let is_in = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
            if !is_in(&ADDRESS_FIELDS) {
                continue;
            }
            let people = typed_people(value)?;
            if is_in(&RECIPIENT_FIELDS) {
                found.extend(people.into_iter().map(|person| person.address));
            }
        }
        match found.is_empty() {
            true => Err(WithHint::error("it has no recipient", "fill in To, Cc or Bcc")),
            false => Ok(found),
        }
    }

    /// Returns the message (RFC 5322, RFC 2045), with LF as line end, as programs that send take
    /// it.
    pub(super) fn message(&self) -> anyhow::Result<Vec<u8>> {
        let mut builder = MessageBuilder::new().message_id(self.new_id()?);
        let mut is_reply = false;
        for (name, value) in self.fields.iter().filter(|(_, value)| !value.trim().is_empty()) {
            is_reply |= name.eq_ignore_ascii_case("In-Reply-To");
            builder = builder.header(name.clone(), field_value(name, value));
        }
        if is_reply && !self.references.is_empty() {
            builder = builder.header("References", Raw::new(&*self.references));
        }
        builder = builder.text_body(&*self.text);
        if let Some(message) = &self.attached {
            let encoding = if message.is_ascii() { "7bit" } else { "8bit" };
            let part = MimePart::new("message/rfc822", message.clone());
            builder.attachments = Some(vec![part.transfer_encoding(encoding)]);
        }
        let message = builder.write_to_vec()?;
        Ok(with_line_feeds(&message))
    }

    /// Returns a new Message-ID, without its brackets, of the host of the sender.
    fn new_id(&self) -> anyhow::Result<String> {
        let from = self.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("From"));
        let people = from.map(|(_, value)| people(value.as_bytes())).unwrap_or_default();
        let host = people.first().and_then(|person| person.address.rsplit_once('@'));
        let host = host.map_or("localhost", |(_, host)| host);
        let mut random = [0; 16];
        OsVfs.random(&mut random).context("no random bytes for the Message-ID")?;
        Ok(format!("{:032x}@{host}", u128::from_le_bytes(random)))
    }
}

/// Returns the value of a field as it is sent: addresses and texts are encoded.
fn field_value<'f>(name: &str, value: &'f str) -> HeaderType<'f> {
    if name.eq_ignore_ascii_case("In-Reply-To") || name.eq_ignore_ascii_case("References") {
        return Raw::new(value).into();
    }
    if !ADDRESS_FIELDS.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return Text::new(value).into();
    }
    let people = people(value.as_bytes()).into_iter();
    let addresses =
        people.map(|Correspondent { name, address }| Address::new_address(name, address));
    Address::new_list(addresses.collect()).into()
}

/// Returns the author for To, and the other people for Cc, each once and without the sender.
fn everybody(
    original: &Original<'_>,
    from: Option<&str>,
) -> (Vec<Correspondent>, Vec<Correspondent>) {
    let address = |person: &Correspondent| person.address.to_lowercase();
    let own = from.map(|from| people(from.as_bytes())).unwrap_or_default();
    let mut seen: HashSet<String> = own.iter().map(address).collect();
    let (authors, recipients) = (original.authors(), original.recipients());
    // Who answers himself goes on with those whom he wrote to.
    let (to, rest) = match authors.iter().all(|author| seen.contains(&address(author))) {
        true => (recipients, Vec::new()),
        false => (authors, recipients),
    };
    let mut is_new = |person: &Correspondent| seen.insert(address(person));
    let to: Vec<Correspondent> = to.into_iter().filter(&mut is_new).collect();
    let cc = rest.into_iter().filter(is_new).collect();
    (to, cc)
}

fn list_of(people: &[Correspondent]) -> String {
    people.iter().map(Correspondent::in_field).collect::<Vec<_>>().join(", ")
}

/// Returns the text of a message, each line marked as quoted.
fn quoted(original: &Original<'_>) -> String {
    let mut out = String::new();
    let authors = original.authors();
    let author = authors.first().map(|person| person.name.as_ref().unwrap_or(&person.address));
    let author = author.map_or("somebody", String::as_str);
    match original.date() {
        date if date.is_empty() => out.push_str(&format!("{author} wrote:\n")),
        date => out.push_str(&format!("On {date}, {author} wrote:\n")),
    }
    for line in original.text().lines() {
        out.push_str(if line.is_empty() || line.starts_with('>') { ">" } else { "> " });
        out.push_str(line);
        out.push('\n');
    }
    out.push('\n');
    out
}

/// Returns the text of a message with the fields that people read.
fn copied(original: &Original<'_>) -> String {
    let of = |raw: Option<&[u8]>| list_of(&raw.map(people).unwrap_or_default());
    let fields = [
        ("From", of(original.fields.from)),
        ("Date", original.date()),
        ("Subject", original.subject()),
        ("To", of(original.fields.to)),
        ("Cc", of(original.fields.cc)),
    ];
    let mut out = "\n---------- Forwarded message ----------\n".to_owned();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        out.push_str(&format!("{name}: {value}\n"));
    }
    out.push('\n');
    out.push_str(&original.text());
    out.push('\n');
    out
}

fn with_line_feeds(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len());
    for line in message.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\r\n") {
            Some(line) => {
                out.extend_from_slice(line);
                out.push(b'\n');
            }
            None => out.extend_from_slice(line),
        }
    }
    out
}

#[cfg(test)]
mod tests;
