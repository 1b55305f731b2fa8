//! UIDs of messages, which the ledger stores by message key.
//!
//! A message that is known, or that the ledger has under another number, keeps its UID; of equal
//! messages the lowest UID goes to the lowest number. All others get new UIDs in the order of their
//! numbers, except messages that cannot be read: the ledger may have them. If the ledger is lost,
//! so are all UIDs, and UIDVALIDITY rises.

use std::collections::{HashMap, VecDeque};

use barid_mailbox::Result;
use barid_state::{Ledger, LedgerEntry, MessageKey};
use barid_types::{Uid, UidValidity};
use barid_vfs::Vfs;

use super::before::KnownMh;
use super::layout::{LEDGER_LOCK_TIMEOUT, UIDNEXT_MAX};
use super::list::{MhListing, MhMatch};

/// Content of the ledger.
#[derive(Debug, Default)]
pub(super) struct MhLedger {
    /// The UIDVALIDITY under which its entries are valid.
    pub(super) uidvalidity: Option<UidValidity>,
    seen: (Option<UidValidity>, u32),
    pub(super) uidnext: u32,
    pub(super) next_uidvalidity: u32,
    /// The entries, ascending by UID.
    pub(super) entries: Vec<LedgerEntry>,
}

impl MhLedger {
    /// Reads the ledger.
    pub(super) fn load(ledger: &mut Ledger, vfs: &dyn Vfs) -> Result<Self> {
        // A damaged ledger is lost: all its UIDs are void.
        if let Err(barid_state::Error::Damaged { .. }) = ledger.entries() {
            ledger.replace(ledger.next_uidvalidity(vfs.now()), Vec::new());
        }
        let uidnext = ledger.uidnext().map_or(1, Uid::get);
        let uidvalidity = ledger.uidvalidity();
        let mut view = Self {
            uidvalidity: uidvalidity.filter(|_| uidnext <= UIDNEXT_MAX),
            seen: (uidvalidity, uidnext),
            uidnext,
            next_uidvalidity: ledger.next_uidvalidity(vfs.now()).get(),
            entries: Vec::new(),
        };
        if view.uidvalidity.is_some() {
            view.entries = ledger.entries()?.to_vec();
        }
        Ok(view)
    }

    /// Locks the ledger. Returns `false`, without the lock, if its content has changed: then
    /// another process gave out UIDs.
    pub(super) fn lock(&self, ledger: &mut Ledger) -> Result<bool> {
        ledger.lock(LEDGER_LOCK_TIMEOUT)?;
        let now = (ledger.uidvalidity(), ledger.uidnext().map_or(1, Uid::get));
        if now != self.seen {
            ledger.unlock();
        }
        Ok(now == self.seen)
    }

    /// Returns `true` if it agrees with what was known about every known message that is there.
    pub(super) fn agrees(&self, before: &KnownMh, listing: &MhListing) -> bool {
        let mut entries = self.entries.iter().peekable();
        self.uidvalidity.is_some()
            && before.uidvalidity == self.uidvalidity
            && before.rows.iter().zip(&listing.seen).all(|(row, seen)| {
                while entries.next_if(|entry| { entry.uid } < row.uid).is_some() {}
                let entry = entries.next_if(|entry| { entry.uid } == row.uid);
                *seen == MhMatch::Gone || entry.is_some_and(|entry| { entry.key } == row.key)
            })
    }
}

/// A message without a file, as far as marks show, that a file may turn out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// A known message.
    Row(u32),
    /// A message that is in the ledger alone.
    Entry(Uid),
}

/// Messages without files, by message key.
#[derive(Debug, Default)]
pub(super) struct Candidates(HashMap<MessageKey, VecDeque<Lost>>);

impl Candidates {
    /// Collects those of a listing: known messages that were not seen, and messages that only the
    /// ledger has.
    pub(super) fn of(before: &KnownMh, listing: &MhListing, ledger: &MhLedger) -> Self {
        let mut found: HashMap<MessageKey, VecDeque<Lost>> = HashMap::new();
        for (at, row) in before.rows.iter().enumerate() {
            if listing.seen[at] == MhMatch::Gone {
                found.entry(row.key).or_default().push_back(Lost::Row(at as u32));
            }
        }
        let mut rows = before.rows.iter().peekable();
        for entry in &ledger.entries {
            while rows.next_if(|row| row.uid < entry.uid).is_some() {}
            if rows.next_if(|row| row.uid == entry.uid).is_some() {
                continue;
            }
            found.entry(entry.key).or_default().push_back(Lost::Entry(entry.uid));
        }
        Self(found)
    }

    /// Returns `true` if there are no candidates.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes and returns the candidate with this key and the lowest UID.
    pub(super) fn take(&mut self, key: MessageKey) -> Option<Lost> {
        self.0.get_mut(&key)?.pop_front()
    }

    /// Returns the UIDs of the ledger that no file turned out to be.
    pub(super) fn unclaimed(&self) -> impl Iterator<Item = Uid> {
        self.0.values().flatten().filter_map(|lost| match lost {
            Lost::Entry(uid) => Some(*uid),
            Lost::Row(_) => None,
        })
    }
}
