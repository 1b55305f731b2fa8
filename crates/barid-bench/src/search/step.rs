//! The measured programs and their steps.

use std::fmt;

use serde::{Serialize, Serializer};

use super::query::{Class, Field};

/// One of the measured sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The program under test with its text index.
    Barid,
    /// The same without an index: it reads the messages.
    #[serde(rename = "no-index")]
    Linear,
    /// notmuch.
    Notmuch,
    /// mu.
    Mu,
    /// mairix, asked for parts of words.
    Mairix,
    /// Dovecot's `imap` without a text index.
    Dovecot,
    /// Dovecot's `imap` with the text index of fts-xapian.
    Fts,
}

impl Side {
    /// All sides, in the order of the tables.
    pub const ALL: [Self; 7] = [
        Self::Barid,
        Self::Linear,
        Self::Notmuch,
        Self::Mu,
        Self::Mairix,
        Self::Dovecot,
        Self::Fts,
    ];

    /// The programs that barid can be compared with.
    pub const PEERS: [Self; 5] = [Self::Notmuch, Self::Mu, Self::Mairix, Self::Dovecot, Self::Fts];

    /// The name on the command line and in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Barid => "barid",
            Self::Linear => "no-index",
            Self::Notmuch => "notmuch",
            Self::Mu => "mu",
            Self::Mairix => "mairix",
            Self::Dovecot => "dovecot",
            Self::Fts => "fts",
        }
    }

    /// Returns `true` for the sides without a text index, which read the messages for each search.
    pub(crate) const fn reads_mail(self) -> bool {
        matches!(self, Self::Linear | Self::Dovecot)
    }

    /// Returns `true` if the side must find exactly what contains a text.
    pub(crate) const fn is_exact(self) -> bool {
        matches!(self, Self::Barid | Self::Linear)
    }
}

impl fmt::Display for Side {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// A step, in which every side that takes part does the same work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The mail is indexed from nothing.
    Build,
    /// The index is brought up to date after one message was delivered.
    IndexOne,
    /// A search after that, for a word of the message.
    SearchOne,
    /// The index is brought up to date after many messages were delivered.
    IndexMany,
    /// A search after that, for a word of these messages.
    SearchMany,
    /// A search without a delivery before, in turn with [`Step::Delivered`].
    Unchanged,
    /// A search right after one message was delivered, which must find it.
    Delivered,
    /// The queries of a class in a field, a process each.
    Query(Field, Class),
}

impl Step {
    /// All steps but the queries, in the order in which they run; the queries come after
    /// [`Step::Build`].
    pub(crate) const OTHERS: [Self; 7] = [
        Self::Build,
        Self::IndexOne,
        Self::SearchOne,
        Self::IndexMany,
        Self::SearchMany,
        Self::Unchanged,
        Self::Delivered,
    ];

    /// Returns the steps of the queries, in the order of the tables.
    pub(crate) fn queries() -> impl Iterator<Item = Self> {
        let of = |field| Class::ALL.into_iter().map(move |class| Self::Query(field, class));
        Field::ALL.into_iter().flat_map(of)
    }

    /// Returns all steps, in the order of the tables.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::OTHERS.into_iter().chain(Self::queries())
    }

    /// Returns `true` if a side takes part in the step.
    pub(crate) const fn is_of(self, side: Side) -> bool {
        match self {
            Self::Build | Self::IndexOne | Self::IndexMany => !side.reads_mail(),
            Self::SearchOne | Self::SearchMany | Self::Query(..) => true,
            // The peers find a new message only after they have indexed it.
            Self::Unchanged | Self::Delivered => matches!(side, Side::Barid),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Build => "build",
            Self::IndexOne => "index one delivery",
            Self::SearchOne => "search after one",
            Self::IndexMany => "index many deliveries",
            Self::SearchMany => "search after many",
            Self::Unchanged => "search without change",
            Self::Delivered => "search after delivery",
            Self::Query(field, class) => {
                return out.pad(&format!("{} {class}", field.name()));
            }
        })
    }
}

impl Serialize for Step {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
