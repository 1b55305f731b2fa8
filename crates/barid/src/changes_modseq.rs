//! The changes of a mailbox since a mod-sequence (docs/design/modseq.md).

use std::collections::BTreeMap;
use std::sync::Arc;

use barid_state::{Access, Error as StateError, Ledger, Vanished};
use barid_types::{ModSeq, Uid, UidSet};

use crate::{Result, View};

/// The changes of a mailbox since a mod-sequence: those that QRESYNC (RFC 7162) and `Email/changes`
/// (RFC 8620) ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModSeqChanges {
    /// The messages that are new or may have other flags or keywords, ascending, each with its
    /// mod-sequence.
    pub changed: Vec<(Uid, ModSeq)>,
    /// The UIDs of messages that were expunged; some may never have been known to the client.
    pub vanished: UidSet,
    /// `true` if the mod-sequence is older than the records of expunges. Then `vanished` has every
    /// UID below UIDNEXT that is not in the mailbox.
    pub is_older_than_kept: bool,
}

impl View {
    /// Returns the highest mod-sequence of the view: a client that knows the view stays up to date
    /// with the changes since this number. It never falls while the state folder can be written.
    /// Costs nothing.
    pub fn highest_modseq(&self) -> ModSeq {
        self.snapshot.meta().highest_modseq.max(self.shown.highest_modseq())
    }

    /// Returns what has changed since `modseq`, which was the highest mod-sequence of a view with
    /// the same UIDVALIDITY, of this process or another: a client that removes the vanished
    /// messages, then fetches flags and keywords of the changed ones, knows the mailbox as this
    /// view has it.
    ///
    /// Costs nothing if `modseq` is that of the view. Otherwise reads the mod-sequences of all
    /// messages, and the records of expunges from the state folder. If the mod-sequence is older
    /// than these, compares the UIDs of all messages.
    ///
    /// # Errors
    /// A damaged cache; errors of the file system.
    pub fn changes_since_modseq(&self, modseq: ModSeq) -> Result<ModSeqChanges> {
        if modseq >= self.highest_modseq() {
            return Ok(ModSeqChanges::default());
        }
        let changed = self.changed_since(modseq)?;
        let kept = self.vanished_since(modseq)?;
        let is_older_than_kept = kept.is_none();
        let vanished = match kept {
            Some(kept) => self.vanished_of(kept)?,
            None => self.missing()?,
        };
        Ok(ModSeqChanges { changed, vanished, is_older_than_kept })
    }

    fn changed_since(&self, modseq: ModSeq) -> Result<Vec<(Uid, ModSeq)>> {
        let changed = self.done(self.snapshot.changed_since(modseq))?;
        let mut pending: BTreeMap<Uid, ModSeq> = BTreeMap::new();
        for (uid, at) in self.shown.modseqs().filter(|(_, at)| *at > modseq) {
            if self.row_of(uid)?.is_some() {
                pending.insert(uid, at);
            }
        }
        if pending.is_empty() {
            return Ok(changed);
        }
        for (uid, at) in changed {
            let of_message = pending.entry(uid).or_insert(at);
            *of_message = at.max(*of_message);
        }
        Ok(pending.into_iter().collect())
    }

    /// Returns the records of expunges after `modseq` that the view contains; `None` if they are
    /// not kept.
    fn vanished_since(&self, modseq: ModSeq) -> Result<Option<Vec<Vanished>>> {
        let (vfs, dir) = (Arc::clone(&self.vfs), &self.options.state_dir);
        let mut ledger = Ledger::open(vfs, dir, &self.identity, Access::ReadOnly)?;
        let highest = self.highest_modseq();
        // Otherwise it cannot be written, or was replaced.
        if ledger.highest_modseq() < highest {
            return Ok(None);
        }
        let found = match ledger.vanished_since(modseq) {
            Err(StateError::Damaged { .. }) => None,
            result => result?,
        };
        let in_view = |vanished: &Vanished| vanished.modseq <= highest;
        Ok(found.map(|found| found.into_iter().filter(in_view).collect()))
    }

    /// Returns the UIDs of records. A message that was missing only for a while has not vanished.
    fn vanished_of(&self, mut records: Vec<Vanished>) -> Result<UidSet> {
        records.sort_by_key(|vanished| vanished.first);
        let mut set = UidSet::new();
        for Vanished { first, last, .. } in records {
            let mut from = first;
            for row in self.row_from(first)?.. {
                let here = if row < self.len() { Some(self.uid_of(row)?) } else { None };
                let Some(uid) = here.filter(|uid| *uid <= last) else { break };
                insert_between(&mut set, from, uid);
                let Some(next) = uid.next() else { return Ok(set) };
                from = next;
            }
            if from <= last {
                set.insert_range(from, last);
            }
        }
        Ok(set)
    }

    /// Returns the UIDs below UIDNEXT that no message has.
    fn missing(&self) -> Result<UidSet> {
        let mut set = UidSet::new();
        let mut from = Uid::MIN;
        let read = self.snapshot.cores(0..self.len(), &mut |_, core| {
            insert_between(&mut set, from, core.uid);
            from = core.uid.next().unwrap_or(Uid::MAX);
        });
        self.done(read)?;
        insert_between(&mut set, from, self.snapshot.meta().uidnext);
        Ok(set)
    }
}

/// Inserts the UIDs from `from` to the one before `end`.
fn insert_between(set: &mut UidSet, from: Uid, end: Uid) {
    if let Some(last) = Uid::new(end.get() - 1).filter(|last| from <= *last) {
        set.insert_range(from, last);
    }
}
