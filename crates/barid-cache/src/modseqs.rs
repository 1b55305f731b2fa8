//! Mod-sequences: the messages changed since one, and raising them.

use barid_types::{ModSeq, Uid};
use barid_vfs::le::{u32_at, u64_at};

use crate::base::Cursor;
use crate::column::ColumnKind;
use crate::core_row::{Core, MODSEQ_AT, UID_AT};
use crate::error::{Error, Result, ScanFault};
use crate::limits::RAISE_LOGGED_MAX;
use crate::log::{ChangedRow, LogEntry};
use crate::meta::Meta;
use crate::rewrite::Revision;
use crate::snapshot::Snapshot;

impl Snapshot {
    /// Returns the messages whose modseq is higher than `modseq`, ascending, each with its modseq.
    ///
    /// Costs nothing if [`Meta::highest_modseq`] is not higher. Otherwise reads the core column,
    /// and decodes of each row only the UID and the modseq.
    ///
    /// # Errors
    /// A damaged cache.
    pub fn changed_since(&self, modseq: ModSeq) -> Result<Vec<(Uid, ModSeq)>> {
        let mut changed = Vec::new();
        if self.meta.highest_modseq <= modseq {
            return Ok(changed);
        }
        let base_len = self.base_len();
        let mut rows = Cursor::new(&self.base, ColumnKind::Core);
        for physical in self.overlay.live(0).take_while(|physical| *physical < base_len) {
            let row = rows.row(physical)?;
            let stored = || ModSeq::new(u64_at(row, MODSEQ_AT));
            let now = self.overlay.changed_modseq(physical).or_else(stored);
            let now = now.ok_or_else(|| self.bounds())?;
            if now > modseq {
                changed.push((Uid::new(u32_at(row, UID_AT)).ok_or_else(|| self.bounds())?, now));
            }
        }
        let added = self.overlay.live_added().map(|core| (core.uid, core.modseq));
        changed.extend(added.filter(|(_, now)| *now > modseq));
        Ok(changed)
    }

    /// Returns the snapshot in which every message has `modseq`, as after the loss of the cache,
    /// but without a scan. For few messages it appends a record, as [`Snapshot::touched`] does; for
    /// more it writes new columns, and returns `None` if another process has changed the file, or
    /// is changing it.
    ///
    /// # Errors
    /// Errors of reading the old file and of writing the new one.
    pub fn raised(&self, modseq: ModSeq) -> Result<Option<Self>> {
        if self.len() > RAISE_LOGGED_MAX {
            return self.revised(0, &mut Raise(modseq));
        }
        let uids: Option<Vec<Uid>> = self.uids()?.into_iter().map(Uid::new).collect();
        self.touched(&uids.ok_or_else(|| self.bounds())?, modseq).map(Some)
    }

    /// Returns the snapshot in which some messages, ascending by UID, have `modseq` and are
    /// otherwise the same; UIDs without a message are ignored. [`Meta::highest_modseq`] rises to
    /// `modseq` in any case. Appends one record to the file, as [`crate::Delta::apply`] does.
    ///
    /// # Errors
    /// A damaged cache.
    pub fn touched(&self, uids: &[Uid], modseq: ModSeq) -> Result<Self> {
        if !uids.is_sorted_by(|a, b| a < b) {
            return Err(Error::Scan(ScanFault::UidOrder));
        }
        let mut changed = Vec::with_capacity(uids.len());
        for uid in uids {
            let physical = self.physical_of_uid(*uid)?;
            let here = physical.filter(|physical| self.overlay.row_of(*physical).is_some());
            let Some(physical) = here else { continue };
            let Core { flags, keywords, .. } = self.core_of(physical)?;
            changed.push(ChangedRow {
                physical,
                flags: flags.bits(),
                keywords: keywords.0,
                modseq: modseq.get(),
                file: None,
            });
        }
        let highest_modseq = self.meta.highest_modseq.max(modseq);
        let meta = Meta { highest_modseq, ..self.meta.clone() };
        let mut snapshot = self.clone();
        snapshot.write(&meta, &LogEntry { changed: &changed, ..LogEntry::default() })?;
        Ok(snapshot)
    }
}

/// A revision that gives all messages one modseq.
struct Raise(ModSeq);

impl Revision for Raise {
    fn revise(&mut self, core: &mut Core) -> Result<bool> {
        core.modseq = self.0;
        Ok(true)
    }

    fn finish(&mut self, meta: &Meta) -> Result<Meta> {
        Ok(Meta { highest_modseq: meta.highest_modseq.max(self.0), ..meta.clone() })
    }
}
