//! The data of a message that a search requests, on demand.

use barid_message::{HeaderFields, HeaderScan, RawField, fields};
use barid_types::{FlagSet, InternalDate, KeywordMask, ModSeq, SentDate, Uid};

/// The fixed-size facts of a message, which cost nothing.
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
    /// Mod-sequence of its last change.
    pub modseq: ModSeq,
    /// Its arrival time.
    pub internal_date: InternalDate,
    /// Its sent date, if it has one.
    pub sent_date: Option<SentDate>,
    /// The lower bound of RFC822.SIZE.
    pub size_least: u64,
    /// The upper bound; both are equal if the size is known.
    pub size_most: u64,
}

impl Facts {
    /// Returns the facts of a message of which nothing is known but its bytes.
    pub(super) fn unknown() -> Self {
        Self {
            seq: 1,
            uid: Uid::MIN,
            flags: FlagSet::default(),
            keywords: KeywordMask::default(),
            modseq: ModSeq::default(),
            internal_date: InternalDate::default(),
            sent_date: None,
            size_least: 0,
            size_most: u64::MAX,
        }
    }
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

    /// Returns the field with a name, in any case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, field)| *field)
    }

    pub(super) fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    /// Returns the first such field of a header.
    #[must_use]
    pub fn of<'a>(self, fields: &HeaderFields<'a>) -> Option<&'a [u8]> {
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
    /// Without white space around it, as in caches.
    Trimmed(&'a [u8]),
    /// With the white space after it.
    Padded(&'a [u8]),
}

/// A view of one message for a search. Columns are requested only if the answer depends on them,
/// facts first, the message last; a view reports data that it does not have as unknown.
///
/// All views of one message return the same answers, except for unknown ones.
pub trait SearchView {
    /// Returns the fixed-size facts.
    fn facts(&self) -> &Facts;

    /// Returns the answer of an index for a key that compares texts ([`super::Matcher::texts`]);
    /// `None` if there is none.
    fn indexed(&mut self, node: usize) -> Option<bool> {
        let _ = node;
        None
    }

    /// Returns `true` if `holds` returns `true` for the field, or for one of its occurrences;
    /// `None` if that is unknown. `holds` always knows the answer for a padded text.
    fn any_field(
        &mut self,
        field: CachedField,
        holds: &mut dyn FnMut(FieldText<'_>) -> Option<bool>,
    ) -> Option<bool> {
        let _ = (field, holds);
        None
    }

    /// Returns all bytes of the message; `None` if they are not available.
    fn message(&mut self) -> Option<&[u8]> {
        None
    }

    /// Passes the texts of the attachments to `take` until it returns `false`. Returns `false` if
    /// they are unknown. A view with the message that does not extract texts passes none, and
    /// `true`: then the file names decide.
    fn attachment_texts(&mut self, take: &mut dyn FnMut(&str) -> bool) -> bool {
        let _ = take;
        self.message().is_some()
    }
}

/// A view with the facts of a message only.
#[derive(Clone, Copy, Debug)]
pub struct FactsView(pub Facts);

impl SearchView for FactsView {
    fn facts(&self) -> &Facts {
        &self.0
    }
}

/// A view with all bytes of a message.
#[derive(Debug)]
pub struct MessageView<'a> {
    facts: Facts,
    bytes: &'a [u8],
    header: Option<HeaderScan<'a>>,
}

impl<'a> MessageView<'a> {
    /// Creates a view of these bytes. The fields that mailbox formats own may still be present;
    /// they are not searched.
    #[must_use]
    pub fn new(facts: Facts, bytes: &'a [u8]) -> Self {
        Self { facts, bytes, header: None }
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
        let header = self.header.get_or_insert_with(|| HeaderScan::new(bytes));
        if !header.has_repeats {
            let value = field.of(&header.fields);
            let found = value.map_or(Some(false), |raw| holds(FieldText::Trimmed(raw)));
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
