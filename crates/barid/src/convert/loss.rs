//! What the target of a copy cannot hold.

use barid_formats::Format;
use barid_types::{InternalDate, Keyword, KeywordTable};

use super::text::is_mbox;
use crate::{KeywordLimit, Mailbox, Result};

/// What is lost in a copy. Times are kept to the second everywhere, and line ends are those of the
/// target's format; neither counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Losses {
    /// The target has another UIDVALIDITY than the source, which it was to have.
    pub uidvalidity: bool,
    /// Messages that have another UID than they had, and were to keep.
    pub uids: u64,
    /// The target has a lower UIDNEXT than the source: it may give a UID to a message that another,
    /// which is gone, had in the source.
    pub uidnext: bool,
    /// Keywords that the target cannot hold, why, and how many messages had them.
    pub keywords: Vec<(Keyword, KeywordLimit, u64)>,
    /// Messages of whose internal date the time zone is not kept; the instant is.
    pub zones: u64,
    /// Messages with lines that got a `>` before their `From `, which no reader takes away again.
    pub quoted: u64,
    /// The senders that From_ lines name, for which only an mbox has room.
    pub senders: bool,
}

impl Losses {
    /// Whether nothing is lost.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// What a target can hold, beside texts.
#[derive(Debug)]
pub(super) struct Hold {
    refused: Vec<(Keyword, KeywordLimit, u64)>,
    keeps_zones: bool,
}

impl Hold {
    /// Which of the keywords of a mailbox another can hold.
    pub(super) fn of(target: &Mailbox, keywords: &KeywordTable) -> Result<Self> {
        let refused = target.unholdable(keywords.names())?;
        let refused = refused.into_iter().map(|(keyword, limit)| (keyword, limit, 0)).collect();
        let keeps_zones = matches!(target.format(), Format::Mbx | Format::Mix);
        Ok(Self { refused, keeps_zones })
    }

    /// The keywords of a message that can be held; the others are counted.
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

    /// Whether the time zone of a date is lost.
    pub(super) fn loses_zone(&self, date: InternalDate) -> bool {
        !self.keeps_zones && date.zone_minutes != 0
    }

    /// The keywords that were met and could not be held.
    pub(super) fn refused(self) -> Vec<(Keyword, KeywordLimit, u64)> {
        self.refused.into_iter().filter(|(.., count)| *count > 0).collect()
    }
}

/// Whether the senders of From_ lines are lost.
pub(super) fn loses_senders(source: Format, target: Format) -> bool {
    let has_senders = |format| is_mbox(format) && format != Format::Mmdf;
    has_senders(source) && !has_senders(target)
}
