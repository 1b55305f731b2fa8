//! Notices of damaged ledgers, which stay until they are acknowledged.

use std::path::PathBuf;
use std::time::Duration;

use super::layout::{DAMAGED, LOST, RENUMBERED};
use super::{Flaw, Ledger};
use crate::aside::aside_path;
use crate::error::Result;

/// The longest time that a commit of another process is expected to take.
const COMMIT_TIME_MAX: Duration = Duration::from_secs(2);

/// A notice that a ledger was damaged or is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerNotice {
    /// Path of the damaged file: the ledger itself, or its second name.
    pub path: PathBuf,
    /// Byte offset of the damage; `None` if the file is not in place any more.
    pub offset: Option<u64>,
    /// `true` if there was no file although there must have been one.
    pub is_missing: bool,
    /// `true` if UIDs are lost that only the ledger had.
    pub lost: bool,
    /// `true` if the messages have new UIDs, under a new UIDVALIDITY.
    pub renumbered: bool,
}

impl Ledger {
    /// Returns the notice of damage that is not acknowledged yet; `None` if there is none.
    pub fn notice(&self) -> Option<LedgerNotice> {
        let notices = self.summary.notices;
        let renumbered = notices & RENUMBERED != 0;
        let path = match self.summary.aside {
            0 => self.path.clone(),
            aside => aside_path(&self.path, aside),
        };
        let lost = renumbered || notices & LOST != 0;
        (notices & (DAMAGED | RENUMBERED) != 0).then_some(LedgerNotice {
            path,
            offset: self.damage,
            is_missing: self.summary.aside == 0 && self.damage.is_none(),
            lost,
            renumbered,
        })
    }

    /// Clears [`Ledger::notice`], durably; the damaged file is kept. Reads the whole file, so that
    /// damage that was not detected before is repaired, too.
    ///
    /// # Errors
    /// As [`Ledger::commit`].
    pub fn acknowledge(&mut self, timeout: Duration) -> Result<()> {
        self.lock(timeout)?;
        let done = self.acknowledge_locked();
        self.unlock();
        done
    }

    fn acknowledge_locked(&mut self) -> Result<()> {
        match self.entries() {
            Ok(_) => {}
            Err(error @ crate::Error::Io { .. }) => return Err(error),
            // The next opening of the mailbox assigns new UIDs, which must be reported.
            Err(_) => return Ok(()),
        }
        if self.notice().is_none() {
            return Ok(());
        }
        // This commit replaces the file, after giving it its second name.
        if self.damage.is_some() {
            self.pending.dirty = true;
            self.commit()?;
        }
        self.summary.notices &= LOST;
        self.summary.aside = 0;
        self.pending.dirty = true;
        self.commit()
    }

    /// Records damage of the file in place that loses nothing: one copy is sound.
    pub(super) fn note_damage(&mut self, offset: u64) {
        self.damage = Some(offset);
        self.summary.notices |= DAMAGED;
        // The next commit rewrites the file.
        self.pending.dirty = true;
    }

    /// Reads a file that seems torn or damaged again under the lock, when no process is writing it.
    pub(super) fn read_settled(&mut self) -> Result<()> {
        let is_in_doubt = self.lost || !matches!(self.found.flaw, None | Some(Flaw::Old));
        if is_in_doubt && self.persistent && self.lock(COMMIT_TIME_MAX).is_ok() {
            let read = self.read_file();
            self.unlock();
            read?;
        }
        Ok(())
    }
}
