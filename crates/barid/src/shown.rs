//! What is shown of a mailbox: what is in it, and what was accepted and is not written yet.

use std::collections::BTreeMap;

use barid_cache::{Core, Snapshot};
use barid_state::{FlagDelta, Pending, PendingKind};
use barid_types::{Flag, FlagSet, KeywordMask, KeywordTable, ModSeq, Uid};

use crate::Result;
use crate::change::matching::{Match, find_all};

/// The pending changes of flags as they are shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    changes: BTreeMap<Uid, Change>,
    /// The keywords of the mailbox and those that are pending; `None` if nothing is.
    keywords: Option<KeywordTable>,
    /// By how much the number of unseen messages differs.
    unseen: i64,
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
    /// The change that this and then `later` make.
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
    /// Lays what is pending over what is known. Costs what is pending.
    pub(crate) fn of(snapshot: &Snapshot, pending: &Pending) -> Result<Self> {
        let mut shown = Self::default();
        if pending.records().is_empty() {
            return Ok(shown);
        }
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

    /// Flags, keywords and mod-sequence of a message.
    pub(crate) fn of_message(&self, core: &Core) -> (FlagSet, KeywordMask, ModSeq) {
        match self.changes.get(&core.uid) {
            Some(change) => {
                let (flags, keywords) = change.apply(core.flags, core.keywords);
                (flags, keywords, core.modseq.max(change.modseq))
            }
            None => (core.flags, core.keywords, core.modseq),
        }
    }

    /// The keywords, those that are pending included.
    pub(crate) fn keywords<'a>(&'a self, snapshot: &'a Snapshot) -> &'a KeywordTable {
        self.keywords.as_ref().unwrap_or(&snapshot.meta().keywords)
    }

    /// How many messages are unseen where `unseen` are in the mailbox.
    pub(crate) fn unseen(&self, unseen: u32) -> u32 {
        u32::try_from(i64::from(unseen) + self.unseen).unwrap_or(0)
    }
}

/// A change by slots; a keyword that finds none is not shown.
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
