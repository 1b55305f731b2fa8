//! The input of threading: columns of numbers, one entry for each message or reference.

use crate::QueryError;
use crate::limits::{MESSAGE_IDS_MAX, MESSAGES_MAX};

/// The entry of a message without an id in a column of message ids.
pub const NO_ID: u32 = u32::MAX;

/// The columns that link messages (RFC 5256 §3, REFERENCES step 1), for consecutive rows.
///
/// Message ids are interned: equal ids have equal numbers below `id_count`. Numbers should be
/// assigned in the order in which ids appear (for each message its own id, then its references),
/// because THREAD=REFS lists threads of absent first messages with equal dates in that order.
#[derive(Clone, Copy, Debug)]
pub struct LinkColumns<'a> {
    /// Each message's own id, or [`NO_ID`] if it has no valid one.
    pub ids: &'a [u32],
    /// For each message the end of its references in `refs`; they begin at the previous end.
    pub ref_ends: &'a [u32],
    /// The references of all messages in their order: the ids of the References field, or if it
    /// has none the first of In-Reply-To.
    pub refs: &'a [u32],
    /// The first number that is not a message id.
    pub id_count: u32,
}

/// The columns that order and merge threads, for every row of the mailbox.
#[derive(Clone, Copy, Debug)]
pub struct KeyColumns<'a> {
    /// Interned base subjects below `subject_count`; 0 is the empty one.
    pub subjects: &'a [u32],
    /// The first number that is not a base subject.
    pub subject_count: u32,
    /// `true` if the subject is that of a reply or forward (RFC 5256 §2.1).
    pub replies: &'a [bool],
    /// The sent date in seconds since 1970, or the internal date without one (RFC 5256 §2.2).
    pub dates: &'a [i64],
}

/// All columns of a mailbox.
#[derive(Clone, Copy, Debug)]
pub struct ThreadColumns<'a> {
    /// The columns that link messages, from row 0 on.
    pub links: LinkColumns<'a>,
    /// The columns that order and merge threads.
    pub keys: KeyColumns<'a>,
}

impl LinkColumns<'_> {
    /// Checks that the columns fit together; `O(references)`.
    pub(crate) fn check(&self) -> Result<(), QueryError> {
        same_length("ref_ends", self.ref_ends.len(), self.ids.len())?;
        at_most("messages", self.ids.len(), MESSAGES_MAX)?;
        at_most("message ids", self.id_count as usize, MESSAGE_IDS_MAX)?;
        let end = self.ref_ends.last().copied().unwrap_or(0);
        same_length("refs", self.refs.len(), end as usize)?;
        if !self.ref_ends.is_sorted() {
            return Err(QueryError::ColumnValue { column: "ref_ends", value: end, limit: end });
        }
        let ids = self.ids.iter().copied().filter(|&id| id != NO_ID);
        below("ids", ids.max(), self.id_count)?;
        below("refs", self.refs.iter().copied().max(), self.id_count)
    }

    /// Returns the references of the message at `at`.
    #[inline]
    pub(crate) fn refs_of(&self, at: usize) -> &[u32] {
        let start = if at == 0 { 0 } else { self.ref_ends[at - 1] };
        &self.refs[start as usize..self.ref_ends[at] as usize]
    }
}

impl KeyColumns<'_> {
    /// Checks that the columns fit together; `O(messages)`.
    pub(crate) fn check(&self, rows: usize) -> Result<(), QueryError> {
        at_most("messages", rows, MESSAGES_MAX)?;
        same_length("subjects", self.subjects.len(), rows)?;
        same_length("replies", self.replies.len(), rows)?;
        same_length("dates", self.dates.len(), rows)?;
        below("subjects", self.subjects.iter().copied().max(), self.subject_count)
    }
}

fn same_length(column: &'static str, found: usize, expected: usize) -> Result<(), QueryError> {
    if found == expected {
        Ok(())
    } else {
        Err(QueryError::ColumnLength { column, found, expected })
    }
}

fn at_most(what: &'static str, found: usize, max: usize) -> Result<(), QueryError> {
    if found <= max { Ok(()) } else { Err(QueryError::TooMany { what, found, max }) }
}

fn below(column: &'static str, value: Option<u32>, limit: u32) -> Result<(), QueryError> {
    match value {
        Some(value) if value >= limit => Err(QueryError::ColumnValue { column, value, limit }),
        _ => Ok(()),
    }
}
