//! Mod-sequences carried over when a mailbox is scanned again from nothing.

use std::cell::RefCell;

use barid_types::{FlagSet, KeywordMask, ModSeq, Uid};

use crate::core_row::Core;
use crate::snapshot::{CoreCursor, Snapshot};

impl Snapshot {
    /// Says which modseq a message had with the same flags and keywords, for
    /// [`crate::Finish::keep`] when a mailbox is scanned again from nothing.
    ///
    /// UIDs are mostly asked for in ascending order, which reads each block once; one out of order
    /// costs as much as [`Snapshot::row_of_uid`]. What cannot be read is not kept.
    pub fn modseq_keeper(&self) -> impl Fn(Uid, FlagSet, KeywordMask) -> Option<ModSeq> {
        let walk = RefCell::new(Walk::new(self));
        move |uid, flags, keywords| {
            let core = walk.borrow_mut().find(self, uid)?;
            (core.flags == flags && core.keywords == keywords).then_some(core.modseq)
        }
    }
}

/// How far the rows were walked over.
struct Walk<'a> {
    cores: CoreCursor<'a>,
    /// The row behind that of `core`.
    row: u32,
    core: Option<Core>,
    /// The UID of the row before, if that was seen.
    passed: Option<Uid>,
}

/// Rows that are walked over before the row of a UID is looked for.
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
