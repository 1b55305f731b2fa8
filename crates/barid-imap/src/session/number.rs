//! Sequence numbers of a session: which message the client means by a number.
//!
//! A client knows the messages that were announced to it, and an expunge is not announced at any
//! time. So numbers are rows of the view that the client knows, and data comes from the newest
//! announced view, by UID. Usually both are the same view.

use barid_query::search::NumberSet;
use barid_types::{Uid, UidSet};

use super::select::Selected;
use crate::backend::{Answer, MailView, Mailbox};
use crate::command::MessageSet;

impl<M: Mailbox> Selected<M> {
    /// Returns the UIDs that a set names, ascending. UIDs without a message are left out; so are
    /// messages that were not announced.
    ///
    /// # Errors
    /// A sequence number beyond the last message.
    pub(super) fn uids_of_set(&self, set: &MessageSet, saved: &UidSet) -> Answer<Vec<Uid>> {
        match set {
            MessageSet::Numbers(set) => self.uids_of_numbers(set),
            MessageSet::Uids(set) => self.numbers.uids_in(&set.resolve(self.last_uid()?), false),
            MessageSet::Saved(_) => self.uids_of_saved(saved),
        }
    }

    fn uids_of_numbers(&self, set: &NumberSet) -> Answer<Vec<Uid>> {
        let exists = self.numbers.len();
        let ranges = set.resolve(exists);
        if exists == 0 || ranges.last().is_some_and(|(_, last)| *last > exists) {
            return Err(crate::backend::Refusal::bad("Invalid sequence number"));
        }
        self.numbers.uids_in(&ranges, true)
    }

    fn uids_of_saved(&self, saved: &UidSet) -> Answer<Vec<Uid>> {
        let ranges: Vec<_> = saved.numbers().collect();
        self.numbers.uids_in(&ranges, false)
    }

    /// Returns the UID of the last message that the client knows; 0 if there is none.
    pub(super) fn last_uid(&self) -> Answer<u32> {
        match self.numbers.len().checked_sub(1) {
            Some(row) => Ok(self.numbers.uid_of(row)?.get()),
            None => Ok(0),
        }
    }

    /// Returns the sequence number of a message that the client knows.
    pub(super) fn number_of(&self, uid: Uid) -> Answer<Option<u32>> {
        let row = self.numbers.row_from(uid)?;
        let is_it = row < self.numbers.len() && self.numbers.uid_of(row)? == uid;
        Ok(is_it.then_some(row + 1))
    }

    /// Returns the sequence numbers, or the UIDs, of rows of the newest view, in their order.
    pub(super) fn numbers_of_rows(&self, rows: &[u32], uid: bool) -> Answer<Vec<u32>> {
        if !uid && !self.has_hidden_expunges {
            return Ok(rows.iter().map(|row| row + 1).collect());
        }
        let uids = self.newest.uids_of(rows)?;
        let mut numbers = Vec::with_capacity(rows.len());
        let last = self.last_uid()?;
        for found in uids {
            match uid {
                true if found.get() <= last => numbers.push(found.get()),
                true => {}
                false => numbers.extend(self.number_of(found)?),
            }
        }
        Ok(numbers)
    }
}

/// Returns the number that a message has in a view; `None` also if the view cannot be read.
pub(super) fn number_in<V: MailView>(view: &V, uid: Uid) -> Option<u32> {
    let row = view.row_from(uid).ok()?;
    let is_it = row < view.len() && view.uid_of(row).ok()? == uid;
    is_it.then_some(row + 1)
}
