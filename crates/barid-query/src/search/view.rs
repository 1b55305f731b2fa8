//! What a search is told of a message, as it asks for it.

use barid_message::{HeaderFields, RawField, fields};
use barid_types::{FlagSet, InternalDate, KeywordMask, ModSeq, SentDate, Uid};

/// The fixed-size facts of a message; they cost nothing.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Its sequence number.
    pub seq: u32,
    /// Its UID.
    pub uid: Uid,
    /// Its flags.
    pub flags: FlagSet,
    /// Its keywords, by slots of [`super::MatcherContext::keywords`].
    pub keywords: KeywordMask,
    /// When it last changed.
    pub modseq: ModSeq,
    /// When it arrived.
    pub internal_date: InternalDate,
    /// When it was sent, if it says so.
    pub sent_date: Option<SentDate>,
    /// The least that RFC822.SIZE can be.
    pub size_least: u64,
    /// The most that it can be; both are equal where it is known.
    pub size_most: u64,
}

/// A header field that caches keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CachedField {
    /// `Date`.
    Date,
    /// `From`.
    From,
    /// `Sender`.
    Sender,
    /// `Reply-To`.
    ReplyTo,
    /// `To`.
    To,
    /// `Cc`.
    Cc,
    /// `Bcc`.
    Bcc,
    /// `Subject`.
    Subject,
    /// `Message-ID`.
    MessageId,
    /// `In-Reply-To`.
    InReplyTo,
    /// `References`.
    References,
}

impl CachedField {
    const ALL: [(&'static str, Self); 11] = [
        ("date", Self::Date),
        ("from", Self::From),
        ("sender", Self::Sender),
        ("reply-to", Self::ReplyTo),
        ("to", Self::To),
        ("cc", Self::Cc),
        ("bcc", Self::Bcc),
        ("subject", Self::Subject),
        ("message-id", Self::MessageId),
        ("in-reply-to", Self::InReplyTo),
        ("references", Self::References),
    ];

    /// The field of a name, in any case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, field)| *field)
    }

    fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    /// The first such field of a header.
    fn of<'a>(self, fields: &HeaderFields<'a>) -> Option<&'a [u8]> {
        match self {
            Self::Date => fields.date,
            Self::From => fields.from,
            Self::Sender => fields.sender,
            Self::ReplyTo => fields.reply_to,
            Self::To => fields.to,
            Self::Cc => fields.cc,
            Self::Bcc => fields.bcc,
            Self::Subject => fields.subject,
            Self::MessageId => fields.message_id,
            Self::InReplyTo => fields.in_reply_to,
            Self::References => fields.references,
        }
    }
}

/// The raw body of a header field.
#[derive(Clone, Copy, Debug)]
pub enum FieldText<'a> {
    /// Without white space around it, as caches keep it.
    Trimmed(&'a [u8]),
    /// With the white space behind it.
    Padded(&'a [u8]),
}

/// One message as a search sees it. Columns are asked for only where the answer depends on them,
/// facts first, the message last; what a view does not have it leaves unknown.
///
/// All views of one message give the same answers as far as they give any.
pub trait SearchView {
    /// The fixed-size facts.
    fn facts(&self) -> &Facts;

    /// Returns `true` if `holds` says so of a field, or of one of them where it occurs more than
    /// once; `None` if that is not known here. Of a padded text `holds` knows the answer.
    fn any_field(
        &mut self,
        field: CachedField,
        holds: &mut dyn FnMut(FieldText<'_>) -> Option<bool>,
    ) -> Option<bool> {
        let _ = (field, holds);
        None
    }

    /// All bytes of the message; `None` if they are not here.
    fn message(&mut self) -> Option<&[u8]> {
        None
    }
}

/// A message of which nothing but the facts is at hand.
#[derive(Clone, Copy, Debug)]
pub struct FactsView(pub Facts);

impl SearchView for FactsView {
    fn facts(&self) -> &Facts {
        &self.0
    }
}

/// A message that was read.
#[derive(Debug)]
pub struct MessageView<'a> {
    facts: Facts,
    bytes: &'a [u8],
    fields: Option<HeaderFields<'a>>,
}

impl<'a> MessageView<'a> {
    /// A view of these bytes. The fields that mailbox formats own may still be there; they are not
    /// searched.
    #[must_use]
    pub fn new(facts: Facts, bytes: &'a [u8]) -> Self {
        Self { facts, bytes, fields: None }
    }
}

impl SearchView for MessageView<'_> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn any_field(
        &mut self,
        field: CachedField,
        holds: &mut dyn FnMut(FieldText<'_>) -> Option<bool>,
    ) -> Option<bool> {
        let bytes = self.bytes;
        let first = self.fields.get_or_insert_with(|| HeaderFields::scan(bytes));
        if !first.has_repeats {
            let found = field.of(first).map_or(Some(false), |raw| holds(FieldText::Trimmed(raw)));
            if found.is_some() {
                return found;
            }
        }
        let is_named =
            |found: &RawField<'_>| found.name.eq_ignore_ascii_case(field.name().as_bytes());
        let mut named = fields(bytes).filter(is_named);
        Some(named.any(|found| holds(FieldText::Padded(found.padded)) == Some(true)))
    }

    fn message(&mut self) -> Option<&[u8]> {
        Some(self.bytes)
    }
}
