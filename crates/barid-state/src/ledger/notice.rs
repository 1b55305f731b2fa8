//! The news of a ledger that was damaged, until somebody has acknowledged it.

use std::path::PathBuf;
use std::time::Duration;

use super::layout::{DAMAGED, LOST, RENUMBERED};
use super::{Flaw, Ledger};
use crate::aside::aside_path;
use crate::error::Result;

/// The time for which another process may be in the middle of a commit.
const COMMIT_TIME_MAX: Duration = Duration::from_secs(2);

/// The news of a ledger that was damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerNotice {
    /// The damaged file: the ledger itself, or where it is kept.
    pub path: PathBuf,
    /// Where it is damaged, if it is still in place.
    pub offset: Option<u64>,
    /// There was no file where one must have been.
    pub is_missing: bool,
    /// UIDs are lost that only the ledger had.
    pub lost: bool,
    /// The messages have other UIDs than they had, under another UIDVALIDITY.
    pub renumbered: bool,
}

impl Ledger {
    /// The news of a damage that was not acknowledged yet; `None` if there was none.
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

    /// Makes [`Ledger::notice`] say nothing from now on, durably; the damaged file stays. Reads all
    /// of the file, so that damage which nobody met yet is noticed and mended, too.
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
        if self.entries().is_err() {
            // The next opening of the mailbox begins anew, and that is to be told.
            return Ok(());
        }
        if self.notice().is_none() {
            return Ok(());
        }
        // The file gets its second name when another takes its place.
        if self.damage.is_some() {
            self.pending.dirty = true;
            self.commit()?;
        }
        self.summary.notices &= LOST;
        self.summary.aside = 0;
        self.pending.dirty = true;
        self.commit()
    }

    /// Takes note of damage in the file in place, of which nothing is lost.
    pub(super) fn note_damage(&mut self, offset: u64) {
        self.damage = Some(offset);
        self.summary.notices |= DAMAGED;
        // The next commit makes the file anew.
        self.pending.dirty = true;
    }

    /// Reads again what seems torn or damaged, once nobody is writing it.
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
