//! The overlay of pending changes on a mailbox: changes accepted and not written yet.

use std::collections::BTreeMap;

use barid_cache::{Core, Snapshot};
use barid_state::{FlagDelta, Pending, PendingKind};
use barid_types::{Flag, FlagSet, KeywordMask, KeywordTable, ModSeq, Uid};

use crate::Result;
use crate::change::matching::{Match, find_all};

/// The pending changes of flags as an overlay on the snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    changes: BTreeMap<Uid, Change>,
    /// The keywords of the mailbox and of the pending changes; `None` if nothing is pending.
    keywords: Option<KeywordTable>,
    /// Change that the pending changes make to the number of unseen messages.
    unseen: i64,
    /// The highest mod-sequence of the pending changes.
    highest_modseq: ModSeq,
}

#[derive(Clone, Copy, Debug, Default)]
struct Change {
    add: FlagSet,
    remove: FlagSet,
    add_keywords: KeywordMask,
    remove_keywords: KeywordMask,
    modseq: ModSeq,
}

impl Change {
    /// Returns the change that this one and then `later` make.
    fn then(self, later: Self) -> Self {
        let bits = |set: FlagSet| set.bits();
        Self {
            add: FlagSet::from_bits(bits(self.add) & !bits(later.remove) | bits(later.add)),
            remove: FlagSet::from_bits(bits(self.remove) & !bits(later.add) | bits(later.remove)),
            add_keywords: KeywordMask(
                self.add_keywords.0 & !later.remove_keywords.0 | later.add_keywords.0,
            ),
            remove_keywords: KeywordMask(
                self.remove_keywords.0 & !later.add_keywords.0 | later.remove_keywords.0,
            ),
            modseq: self.modseq.max(later.modseq),
        }
    }

    fn apply(&self, flags: FlagSet, keywords: KeywordMask) -> (FlagSet, KeywordMask) {
        let flags = (flags.bits() | self.add.bits()) & !self.remove.bits();
        let keywords = (keywords.0 | self.add_keywords.0) & !self.remove_keywords.0;
        (FlagSet::from_bits(flags), KeywordMask(keywords))
    }
}

impl Shown {
    /// Overlays the pending changes on the snapshot. The cost depends only on their number.
    pub(crate) fn of(snapshot: &Snapshot, pending: &Pending) -> Result<Self> {
        let mut shown = Self::default();
        if pending.records().is_empty() {
            return Ok(shown);
        }
        let modseqs = pending.records().iter().map(|record| record.change.modseq);
        shown.highest_modseq = modseqs.max().unwrap_or_default();
        let flags = |record: &'_ &barid_state::PendingRecord| {
            matches!(record.change.kind, PendingKind::Flags(_))
        };
        let changes = pending.records().iter().filter(flags).map(|record| &record.change);
        let found = find_all(snapshot, changes.clone(), &mut |_| Ok(0))?;
        let mut keywords = snapshot.meta().keywords.clone();
        for (change, found) in changes.zip(found) {
            let (PendingKind::Flags(delta), Match::Message(uid)) = (&change.kind, found) else {
                continue;
            };
            let now = shown.changes.entry(uid).or_default();
            *now = now.then(masked(delta, &mut keywords, change.modseq));
        }
        shown.keywords = Some(keywords);
        for (uid, change) in &shown.changes {
            let Some(row) = snapshot.row_of_uid(*uid)? else { continue };
            let core = snapshot.core(row)?;
            let after = change.apply(core.flags, core.keywords).0;
            let unseen = |flags: FlagSet| i64::from(!flags.contains(Flag::Seen));
            shown.unseen += unseen(after) - unseen(core.flags);
        }
        Ok(shown)
    }

    /// Returns the flags, keywords and mod-sequence of a message.
    pub(crate) fn of_message(&self, core: &Core) -> (FlagSet, KeywordMask, ModSeq) {
        match self.changes.get(&core.uid) {
            Some(change) => {
                let (flags, keywords) = change.apply(core.flags, core.keywords);
                (flags, keywords, core.modseq.max(change.modseq))
            }
            None => (core.flags, core.keywords, core.modseq),
        }
    }

    /// Returns the highest mod-sequence of the pending changes, 0 if there are none.
    pub(crate) fn highest_modseq(&self) -> ModSeq {
        self.highest_modseq
    }

    /// Returns the messages that have pending changes, ascending, with the mod-sequence of the last
    /// change of each.
    pub(crate) fn modseqs(&self) -> impl Iterator<Item = (Uid, ModSeq)> {
        self.changes.iter().map(|(uid, change)| (*uid, change.modseq))
    }

    /// Returns the UIDs of the messages that have pending changes, ascending.
    pub(crate) fn uids(&self) -> impl Iterator<Item = Uid> {
        self.changes.keys().copied()
    }

    /// Returns the keywords, including pending ones.
    pub(crate) fn keywords<'a>(&'a self, snapshot: &'a Snapshot) -> &'a KeywordTable {
        self.keywords.as_ref().unwrap_or(&snapshot.meta().keywords)
    }

    /// Returns the number of unseen messages if the mailbox has `unseen` without pending changes.
    pub(crate) fn unseen(&self, unseen: u32) -> u32 {
        u32::try_from(i64::from(unseen) + self.unseen).unwrap_or(0)
    }
}

/// Converts a change to slots; a keyword without a free slot is not shown.
fn masked(delta: &FlagDelta, table: &mut KeywordTable, modseq: ModSeq) -> Change {
    let mut add_keywords = KeywordMask::default();
    for keyword in &delta.add_keywords {
        add_keywords.0 |= table.intern(keyword).map_or(0, |slot| 1 << slot);
    }
    let mut remove_keywords = KeywordMask::default();
    for keyword in &delta.remove_keywords {
        remove_keywords.0 |= table.slot(keyword).map_or(0, |slot| 1 << slot);
    }
    let (add, remove) = (delta.add, delta.remove);
    Change { add, remove, add_keywords, remove_keywords, modseq }
}
