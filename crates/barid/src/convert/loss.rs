//! The properties of messages that the target of a copy cannot store.

use barid_mailbox::Format;
use barid_types::{InternalDate, Keyword, KeywordTable};

use crate::{KeywordLimit, Mailbox, Result};

/// Losses of a copy. Times are stored to the second everywhere, and line ends are those of the
/// target's format; neither counts as a loss.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Losses {
    /// `true` if the target should have the UIDVALIDITY of the source and has another.
    pub uidvalidity: bool,
    /// Number of messages that should have kept their UID and have another.
    pub uids: u64,
    /// `true` if the target has a lower UIDNEXT than the source: it may reuse the UID of a message
    /// that is gone from the source.
    pub uidnext: bool,
    /// Keywords that the target cannot store, the limits, and the numbers of messages with them.
    pub keywords: Vec<(Keyword, KeywordLimit, u64)>,
    /// Number of messages whose internal date lost its time zone; the instant is kept.
    pub zones: u64,
    /// Number of messages with lines that got a `>` before their `From `, which readers do not
    /// remove.
    pub quoted: u64,
    /// `true` if the senders in From_ lines are lost, which only an mbox can store.
    pub senders: bool,
}

impl Losses {
    /// Returns `true` if nothing is lost.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The capabilities of a target, apart from texts.
#[derive(Debug)]
pub(super) struct Hold {
    refused: Vec<(Keyword, KeywordLimit, u64)>,
    keeps_zones: bool,
}

impl Hold {
    /// Determines which keywords of a mailbox another can store.
    pub(super) fn of(target: &Mailbox, keywords: &KeywordTable) -> Result<Self> {
        let refused = target.unholdable(keywords.names())?;
        let refused = refused.into_iter().map(|(keyword, limit)| (keyword, limit, 0)).collect();
        Ok(Self { refused, keeps_zones: target.format().keeps_zone })
    }

    /// Returns the keywords of a message that can be stored, and counts the others.
    pub(super) fn keep(&mut self, keywords: Vec<Keyword>) -> Vec<Keyword> {
        let mut kept = keywords;
        if !self.refused.is_empty() {
            kept.retain(|keyword| {
                let refused = self.refused.iter_mut().find(|(name, ..)| name == keyword);
                refused.map(|(.., count)| *count += 1).is_none()
            });
        }
        kept
    }

    /// Returns `true` if the time zone of a date is lost.
    pub(super) fn loses_zone(&self, date: InternalDate) -> bool {
        !self.keeps_zones && date.zone_minutes != 0
    }

    /// Returns the keywords of messages that could not be stored.
    pub(super) fn refused(self) -> Vec<(Keyword, KeywordLimit, u64)> {
        self.refused.into_iter().filter(|(.., count)| *count > 0).collect()
    }
}

/// Returns `true` if the senders in From_ lines are lost.
pub(super) fn loses_senders(source: Format, target: Format) -> bool {
    source.has_senders && !target.has_senders
}
