//! Mod-sequences kept when a mailbox is scanned again from scratch.

use std::cell::RefCell;

use barid_types::{FlagSet, KeywordMask, ModSeq, Uid};

use crate::core_row::Core;
use crate::snapshot::{CoreCursor, Snapshot};

impl Snapshot {
    /// Returns a function for [`crate::Finish::keep`], for scanning a mailbox again from scratch:
    /// it returns the modseq that a message had with the same flags and keywords.
    ///
    /// Requests for UIDs in ascending order read each block once; a request out of order costs as
    /// much as [`Snapshot::row_of_uid`]. Unreadable modseqs are not kept.
    pub fn modseq_keeper(&self) -> impl Fn(Uid, FlagSet, KeywordMask) -> Option<ModSeq> {
        let walk = RefCell::new(Walk::new(self));
        move |uid, flags, keywords| {
            let core = walk.borrow_mut().find(self, uid)?;
            core.has_marks(flags, keywords).then_some(core.modseq)
        }
    }
}

/// The progress of a walk over the rows.
struct Walk<'a> {
    cores: CoreCursor<'a>,
    /// The row after that of `core`.
    row: u32,
    core: Option<Core>,
    /// The UID of the row before, if it was read.
    passed: Option<Uid>,
}

/// Rows to walk over before a search for the row of a UID.
const STEPS_MAX: u32 = 64;

impl<'a> Walk<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        Self { cores: snapshot.core_cursor(), row: 0, core: None, passed: None }
    }

    fn find(&mut self, snapshot: &Snapshot, uid: Uid) -> Option<Core> {
        for _ in 0..STEPS_MAX {
            match self.core {
                Some(core) if core.uid == uid => return Some(core),
                Some(core) if core.uid > uid => match self.passed {
                    Some(passed) if passed < uid => return None,
                    _ => break,
                },
                _ => self.step(snapshot)?,
            }
        }
        // Far ahead, or behind.
        self.row = snapshot.row_from_uid(uid).ok()?.min(snapshot.len().checked_sub(1)?);
        (self.core, self.passed) = (None, None);
        self.step(snapshot)?;
        self.core.filter(|core| core.uid == uid)
    }

    fn step(&mut self, snapshot: &Snapshot) -> Option<()> {
        if self.row >= snapshot.len() {
            return None;
        }
        self.passed = self.core.map(|core| core.uid);
        self.core = Some(self.cores.get(snapshot.physical_row(self.row)).ok()?);
        self.row += 1;
        Some(())
    }
}
