//! The fetched data of one message.

use std::borrow::Cow;
use std::sync::LazyLock;

use barid_message::{HeaderFields, Section, body_structure, envelope, parse_addresses, unfold};
use barid_types::{Address, BodyStructure, Envelope};

use super::large::FetchedLargeMessage;
use super::{FetchItem, FetchItems, Partial};
use crate::{EmailId, Summary};

/// The parts of a message that the items need when it is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    structure: bool,
    /// `true` if the places of its parts are needed, which only the message itself gives.
    places: bool,
}

impl Needs {
    pub(super) fn of(items: &FetchItems) -> Self {
        Self { structure: items.needs_structure(), places: items.needs_places() }
    }
}

/// The fetched data of one message.
#[derive(Debug)]
pub struct Fetched<'a> {
    /// Cached data of the message.
    pub summary: &'a Summary<'a>,
    items: &'a FetchItems,
    /// The message in wire form, if it was read.
    message: Option<&'a [u8]>,
    /// The structure, if an item needs it.
    structure: Option<BodyStructure>,
    /// The parts that were read, if the message is too large and was read in part.
    large: Option<&'a FetchedLargeMessage>,
    preview: Option<String>,
    email_id: Option<EmailId>,
}

/// Parts of a message that were read beside it, or instead of it.
#[derive(Debug, Default)]
pub(super) struct ReadParts<'a> {
    /// The parts of a message that is too large.
    pub(super) large: Option<&'a FetchedLargeMessage>,
    /// The beginning of its text.
    pub(super) preview: Option<String>,
    /// The identifier of its content.
    pub(super) email_id: Option<EmailId>,
}

impl<'a> Fetched<'a> {
    pub(super) fn new(
        summary: &'a Summary<'a>,
        message: Option<&'a [u8]>,
        known: Option<BodyStructure>,
        (items, needs): (&'a FetchItems, Needs),
        parts: ReadParts<'a>,
    ) -> Self {
        let structure = match (message, known) {
            (Some(message), known) if needs.places || (needs.structure && known.is_none()) => {
                Some(body_structure(message).0)
            }
            (_, known) => known,
        };
        let ReadParts { large, preview, email_id } = parts;
        Self { summary, items, message, structure, large, preview, email_id }
    }

    /// Returns the requested items.
    pub fn items(&self) -> &'a FetchItems {
        self.items
    }

    /// Returns the beginning of the text (RFC 8970); `None` if no item asks for it, or only lazily
    /// for many messages.
    pub fn preview(&self) -> Option<&str> {
        self.preview.as_deref()
    }

    /// Returns the identifier of the content (RFC 8474); `None` if no item asks for it.
    pub fn email_id(&self) -> Option<EmailId> {
        self.email_id
    }

    /// Returns RFC822.SIZE; `None` if no item needs it.
    pub fn rfc822_size(&self) -> Option<u64> {
        let of_message = || match self.large {
            Some(large) => large.size,
            None => self.message.map(|message| message.len() as u64),
        };
        self.summary.rfc822_size.or_else(of_message)
    }

    /// Returns the envelope, if it was requested. Costs O(bytes of its fields), each time.
    pub fn envelope(&self) -> Option<Envelope> {
        self.items.has(&FetchItem::Envelope).then(|| match self.whole() {
            Some(message) => envelope(message),
            None => known_envelope(self.summary.fields),
        })
    }

    /// Returns the message, if it was read because the cache does not have all header fields of the
    /// envelope.
    pub(super) fn whole(&self) -> Option<&'a [u8]> {
        self.message.filter(|_| self.summary.is_cut)
    }

    /// Returns the structure; empty if no item needs it. The places of its parts are set only if a
    /// section was requested as well.
    pub fn structure(&self) -> &BodyStructure {
        let of_large = self.large.and_then(|large| large.structure.as_ref());
        of_large.unwrap_or_else(|| self.own_structure())
    }

    fn own_structure(&self) -> &BodyStructure {
        static EMPTY: LazyLock<BodyStructure> = LazyLock::new(BodyStructure::default);
        self.structure.as_ref().unwrap_or_else(|| &EMPTY)
    }

    /// Returns the bytes that contain a section.
    fn message_for(&self, section: &Section) -> Option<&[u8]> {
        let header = self.large.and_then(|large| large.header.as_deref());
        header.filter(|_| !section.needs_structure()).or(self.message)
    }

    /// Returns the bytes of a requested section, or a byte range of them; `None` if the message has
    /// no such part. Section and range must be those of an item: of a large message nothing else
    /// was read.
    pub fn section(&self, section: &Section, partial: Option<Partial>) -> Option<Cow<'_, [u8]>> {
        if let (Some(large), Some(partial)) = (self.large, partial)
            && let Some(range) = large.range(section, partial)
        {
            return Some(Cow::Borrowed(range));
        }
        let bytes = section.of(self.message_for(section)?, self.own_structure())?;
        Some(match (bytes, partial) {
            (bytes, None) => bytes,
            (Cow::Borrowed(bytes), Some(partial)) => Cow::Borrowed(partial.of(bytes)),
            (Cow::Owned(bytes), Some(partial)) => Cow::Owned(partial.of(&bytes).to_vec()),
        })
    }

    /// Returns the unknown transfer encoding for which an item cannot be answered (RFC 3516 §4.3,
    /// UNKNOWN-CTE). IMAP's answer leaves such items out.
    pub fn unknown_encoding(&self, item: &FetchItem) -> Option<&[u8]> {
        item.binary_section()?.unknown_encoding(self.own_structure())
    }

    /// Returns the bytes of a requested part, without its transfer encoding; `None` if there is no
    /// such part, or if the encoding is unknown.
    pub fn binary(&self, section: &Section) -> Option<Cow<'_, [u8]>> {
        section.decoded(self.message_for(section)?, self.own_structure())
    }
}

/// Computes the envelope from the cached fields, which must be complete.
pub(super) fn known_envelope(fields: &HeaderFields<'_>) -> Envelope {
    let text = |field: Option<&[u8]>| field.map(|raw| unfold(raw).into_owned());
    let list = |field: Option<&[u8]>| field.map(parse_addresses).unwrap_or_default();
    let from = list(fields.from);
    let or_from = |addresses: Vec<Address>| match addresses.is_empty() {
        true => from.clone(),
        false => addresses,
    };
    Envelope {
        date: text(fields.date),
        subject: text(fields.subject),
        sender: or_from(list(fields.sender)),
        reply_to: or_from(list(fields.reply_to)),
        to: list(fields.to),
        cc: list(fields.cc),
        bcc: list(fields.bcc),
        in_reply_to: text(fields.in_reply_to),
        message_id: text(fields.message_id),
        from,
    }
}
