//! Vanished UIDs: those of expunged messages, with the mod-sequences of their expunges (RFC 7162).

use barid_types::{ModSeq, Uid};

use super::layout::{HEADER_LEN, Wanted};
use super::read;
use super::twice::Stream;
use super::{Ledger, LedgerFile};
use crate::error::{At, Error, Result};
use crate::limits::VANISHED_MAX;

/// A range of UIDs of expunged messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vanished {
    /// The mod-sequence of the expunge.
    pub modseq: ModSeq,
    /// The lowest UID.
    pub first: Uid,
    /// The highest UID.
    pub last: Uid,
}

impl Ledger {
    /// Records with the next commit that messages were expunged at `modseq`, and raises the highest
    /// mod-sequence to that. `uids` ascend.
    ///
    /// The number of records is bounded: the oldest are forgotten when the ledger is compacted. A
    /// commit with too many ranges of UIDs forgets everything, as [`Ledger::forget_vanished`] does.
    pub fn record_vanished(&mut self, modseq: ModSeq, uids: &[Uid]) {
        self.raise_modseq(modseq);
        let ranges = ranges(uids);
        if self.pending.vanished.len() + ranges.len() > VANISHED_MAX {
            self.forget_vanished();
            return;
        }
        let records = ranges.into_iter().map(|(first, last)| Vanished { modseq, first, last });
        let before = self.pending.vanished.len();
        self.pending.vanished.extend(records);
        let added = self.pending.vanished.len() - before;
        self.summary.vanished_count += added as u32;
        self.pending.dirty |= added > 0;
    }

    /// Forgets all vanished UIDs with the next commit: [`Ledger::vanished_floor`] rises to the
    /// highest mod-sequence.
    pub fn forget_vanished(&mut self) {
        self.pending.vanished.clear();
        (self.pending.forgets, self.pending.dirty) = (true, true);
        self.summary.vanished_count = 0;
        self.summary.vanished_floor = self.summary.modseq;
    }

    /// Returns the mod-sequence up to which vanished UIDs may be missing from the records.
    pub fn vanished_floor(&self) -> ModSeq {
        ModSeq::new(self.summary.vanished_floor).unwrap_or(ModSeq::MAX)
    }

    /// Returns the UIDs that vanished after `modseq`, in the order of their mod-sequences, with
    /// pending changes; `None` if `modseq` is below [`Ledger::vanished_floor`], so that some may be
    /// missing.
    ///
    /// Costs nothing if `modseq` is the highest mod-sequence. Otherwise reads the file from the
    /// oldest record on: at most some hundred KB, unless entries are stored between them.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a durable batch is damaged in all copies: the next commit forgets all
    /// vanished UIDs; [`Error::Io`].
    pub fn vanished_since(&mut self, modseq: ModSeq) -> Result<Option<Vec<Vanished>>> {
        if modseq < self.vanished_floor() {
            return Ok(None);
        }
        if modseq >= self.highest_modseq() {
            return Ok(Some(Vec::new()));
        }
        let mut all = self.load_vanished()?;
        all.retain(|vanished| vanished.modseq > modseq);
        Ok(Some(all))
    }

    /// Returns all vanished UIDs above the floor, pending changes included.
    fn load_vanished(&mut self) -> Result<Vec<Vanished>> {
        let mut all = Vec::new();
        let in_file = self.summary.vanished_count as usize > self.pending.vanished.len();
        if let Some(file) = self.file.as_ref().filter(|_| in_file && !self.pending.forgets)
            && self.found.end > HEADER_LEN
        {
            let LedgerFile { size, layout, end, flaw, .. } = self.found;
            let stream = Stream::new(file.as_ref(), layout, size);
            let (id, wanted) = (self.identity.id, Wanted::Vanished);
            let loaded = read::load(&stream, &self.summary, (end, flaw), id, wanted);
            match loaded.at(&self.path)? {
                Ok(loaded) => {
                    if let Some(offset) = loaded.damage {
                        self.note_damage(offset);
                    }
                    all = loaded.contents.vanished;
                }
                Err(offset) => {
                    self.note_damage(offset);
                    return Err(Error::Damaged { path: self.path.clone(), offset });
                }
            }
            let floor = self.vanished_floor();
            all.retain(|vanished| vanished.modseq > floor);
        }
        all.extend_from_slice(&self.pending.vanished);
        Ok(all)
    }

    /// Returns the vanished UIDs that a compacted file keeps. The oldest are forgotten if there are
    /// too many, and all if they cannot be read.
    pub(super) fn latest_vanished(&mut self) -> Result<Vec<Vanished>> {
        let mut all = match self.load_vanished() {
            Err(Error::Damaged { .. }) => {
                self.forget_vanished();
                return Ok(Vec::new());
            }
            result => result?,
        };
        if let Some(beyond) = all.len().checked_sub(VANISHED_MAX).filter(|beyond| *beyond > 0) {
            // All ranges of one expunge are forgotten together.
            let floor = all[beyond - 1].modseq;
            self.summary.vanished_floor = floor.get();
            all.retain(|vanished| vanished.modseq > floor);
        }
        Ok(all)
    }
}

/// Returns the ranges of ascending UIDs, first and last.
pub(super) fn ranges(uids: &[Uid]) -> Vec<(Uid, Uid)> {
    let mut ranges: Vec<(Uid, Uid)> = Vec::new();
    for uid in uids {
        match ranges.last_mut() {
            Some((_, last)) if uid.get() <= last.get().saturating_add(1) => *last = *uid,
            _ => ranges.push((*uid, *uid)),
        }
    }
    ranges
}
