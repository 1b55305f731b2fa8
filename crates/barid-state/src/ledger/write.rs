//! Locking, committing and compacting a ledger.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use barid_vfs::{File, OpenOptions, atomic_replace, create_dir_durable};

use super::batch::Batch;
use super::layout::{ENTRY_LEN, HEADER_LEN, Summary, VANISHED_LEN, hash, header};
use super::twice::{file_len, has_remains};
use super::{Ledger, LedgerFile, UncommittedChanges};
use crate::aside::keep_aside;
use crate::error::{At, Error, Result};
use crate::limits::{
    COMMIT_LOCK_TIMEOUT, COMPACT_FACTOR, COMPACT_SIZE_MIN, ENTRIES_KEPT_MAX, VANISHED_MAX,
};
use crate::modes::{DIR_MODE, FILE_MODE, is_absent, is_denied};
use crate::waiting::wait_for_lock;

impl Ledger {
    /// Takes the lock of this ledger (an open-file-description lock on `<id>.ledger.lock`, which is
    /// never removed), waiting up to `timeout`; then reads the file again if another process
    /// committed. Does nothing if the lock is held already or the ledger is not persistent.
    ///
    /// # Errors
    /// [`Error::Locked`] after `timeout`; [`Error::NotAscending`] at the next commit if UIDs were
    /// pushed before the lock and another process pushed, too.
    pub fn lock(&mut self, timeout: Duration) -> Result<()> {
        if self.lock.is_some() || !self.persistent {
            return Ok(());
        }
        let path = self.path.with_extension("ledger.lock");
        let file = match self.open_lock(&path) {
            Ok(file) => file,
            Err(error) if is_denied(&error) => {
                self.persistent = false;
                return Ok(());
            }
            result => result.at(&path)?,
        };
        let place = (self.vfs.as_ref(), file.as_ref(), path.as_path());
        wait_for_lock(place, timeout, self.stop.as_ref())?;
        self.lock = Some(file);
        let read = self.read_again();
        if read.is_err() {
            self.unlock();
        }
        read
    }

    /// Sets the flag that ends the wait for a lock with [`Error::Locked`].
    pub fn set_stop(&mut self, stop: Option<Arc<AtomicBool>>) {
        self.stop = stop;
    }

    /// Returns the flag of [`Ledger::set_stop`].
    pub fn stop(&self) -> Option<&Arc<AtomicBool>> {
        self.stop.as_ref()
    }

    /// Releases the lock, as does dropping the ledger.
    pub fn unlock(&mut self) {
        self.lock = None;
    }

    /// Makes the pending changes durable, under the lock, which it takes if the caller has not.
    ///
    /// The commit point is the fdatasync of one batch, or the rename of a whole new file (see
    /// [`atomic_replace`]) if the file is new, to be compacted, of an earlier version, torn or
    /// damaged. The body of a batch above 960 bytes is made durable before its footer is written.
    /// After a crash before the commit point the ledger is unchanged; after a later one it has all
    /// of the batch.
    ///
    /// Costs nothing if nothing is pending. Otherwise it costs the lock (open, lock, stat, close)
    /// unless held, a read, a write for each of the two copies and one fdatasync; writes and
    /// fdatasync twice for a long batch.
    ///
    /// # Errors
    /// After a failed write or fsync, further commits fail with [`Error::Poisoned`] until the
    /// ledger is reopened.
    pub fn commit(&mut self) -> Result<()> {
        if !self.pending.dirty {
            return Ok(());
        }
        self.check_commit()?;
        let held = self.lock.is_some();
        if !held {
            self.lock(COMMIT_LOCK_TIMEOUT)?;
            self.check_commit()?;
        }
        if !self.persistent {
            return Ok(());
        }
        let written = self.write_pending();
        if !held {
            self.unlock();
        }
        match written {
            Ok(()) => {
                self.pending = UncommittedChanges::default();
                // They are read again when needed.
                if self.entries.as_ref().is_some_and(|all| all.len() > ENTRIES_KEPT_MAX) {
                    self.entries = None;
                }
                Ok(())
            }
            Err(error) => {
                self.poisoned |= matches!(error, Error::Io { .. });
                Err(error)
            }
        }
    }

    fn write_pending(&mut self) -> Result<()> {
        let count = u64::from(self.summary.vanished_count);
        let alive = HEADER_LEN + self.summary.live * ENTRY_LEN as u64 + count * VANISHED_LEN as u64;
        let wasteful = count > 2 * VANISHED_MAX as u64
            || self.found.end > COMPACT_SIZE_MIN
                && self.found.end > alive.saturating_mul(COMPACT_FACTOR);
        let is_unsound = self.lost || self.damage.is_some() || self.found.flaw.is_some();
        match self.file.is_none() || is_unsound || wasteful {
            true => self.write_all(),
            false => self.append(),
        }
    }

    /// Replaces the file by one with all entries, and the latest vanished UIDs, in one batch.
    fn write_all(&mut self) -> Result<()> {
        self.load_entries()?;
        let vanished = self.latest_vanished()?;
        self.set_aside()?;
        let mut summary = self.next_summary();
        summary.entries_offset = HEADER_LEN;
        summary.vanished_offset = HEADER_LEN;
        summary.vanished_count = vanished.len() as u32;
        let mut batch = Batch::new(HEADER_LEN);
        batch.replaced();
        batch.entries(self.entries.as_deref().unwrap_or(&[]));
        batch.vanished(&vanished);
        batch.path(self.identity.path.as_os_str().as_bytes(), &mut summary);
        let header = header(self.identity.id, self.vfs.now().unix_nanos);
        let size = HEADER_LEN + batch.len();
        let file = atomic_replace(self.vfs.as_ref(), &self.path, FILE_MODE, true, |file| {
            batch.write(file, header, self.identity.id, &summary, false)
        });
        let file = file.at(&self.path)?;
        let inode = file.metadata().at(&self.path)?.inode;
        self.file = Some(file);
        self.found = LedgerFile { inode, size: file_len(size), end: size, ..LedgerFile::default() };
        self.summary = summary;
        (self.lost, self.is_missing, self.damage) = (false, false, None);
        Ok(())
    }

    /// Appends a batch of the pending changes.
    fn append(&mut self) -> Result<()> {
        let Some(file) = &self.file else { return self.write_all() };
        if has_remains(file.as_ref(), self.found.end).at(&self.path)? {
            return self.write_all();
        }
        let mut summary = self.next_summary();
        let mut batch = Batch::new(self.found.end);
        if self.pending.replaced {
            summary.entries_offset = self.found.end;
            batch.replaced();
        }
        batch.entries(self.pushed());
        batch.expunged(&self.pending.expunged);
        batch.vanished(&self.pending.vanished);
        if summary.vanished_count as usize <= self.pending.vanished.len() {
            summary.vanished_offset = self.found.end;
        }
        let path = self.identity.path.as_os_str().as_bytes();
        if hash(path) != summary.path_hash {
            batch.path(path, &mut summary);
        }
        let end = self.found.end + batch.len();
        let id = self.identity.id;
        let written = batch.write(file.as_ref(), Vec::new(), id, &summary, true);
        if written.is_err() {
            // No reader may accept a batch whose commit failed: it may be gone from the disk
            // although it is still in the page cache. If this fails, too, the file is as after a
            // crash.
            let _ = file.set_len(file_len(self.found.end));
        }
        written.at(&self.path)?;
        self.found = LedgerFile { size: file_len(end), end, ..self.found };
        self.summary = summary;
        Ok(())
    }

    /// Gives a damaged file a second name, durably, so that it is kept when a new file replaces it.
    /// The notice names the latest such file.
    fn set_aside(&mut self) -> Result<()> {
        if self.damage.is_some() {
            self.summary.aside = keep_aside(self.vfs.as_ref(), &self.path)?;
        }
        Ok(())
    }

    fn next_summary(&self) -> Summary {
        Summary { sequence: self.summary.sequence + 1, inode: self.identity.inode, ..self.summary }
    }

    /// Reads the file again if another process changed it, and reapplies the pending changes.
    pub(super) fn read_again(&mut self) -> Result<()> {
        let found = match self.vfs.metadata(&self.path) {
            Ok(metadata) => (metadata.inode, metadata.size),
            Err(error) if is_absent(&error) => (0, 0),
            Err(error) => return Err(error).at(&self.path),
        };
        if found == (self.found.inode, self.found.size) {
            return Ok(());
        }
        let ours = self.summary;
        if !self.pending.replaced {
            self.pending.pushed = self.pushed().to_vec();
        }
        let our_entries = self.entries.take();
        self.read_file()?;
        let pending = &mut self.pending;
        let theirs = self.summary;
        self.summary.uidvalidity_max = theirs.uidvalidity_max.max(ours.uidvalidity_max);
        if !pending.dirty {
            return Ok(());
        }
        self.summary.modseq = theirs.modseq.max(ours.modseq);
        if ours.uidvalidity != theirs.uidvalidity && !pending.replaced {
            (pending.vanished, pending.forgets) = (Vec::new(), false);
        }
        if pending.forgets {
            pending.vanished.clear();
            self.summary.vanished_floor = self.summary.modseq;
            self.summary.vanished_count = 0;
        }
        self.summary.vanished_count += pending.vanished.len() as u32;
        self.summary.fingerprint = ours.fingerprint;
        if pending.replaced {
            self.summary.uidvalidity = ours.uidvalidity;
            self.summary.uid_last = ours.uid_last;
            self.summary.live = ours.live;
            self.summary.notices |= ours.notices;
            self.summary.uidnext = match ours.uidvalidity == theirs.uidvalidity {
                true => ours.uidnext.max(theirs.uidnext),
                false => ours.uidnext,
            };
            self.entries = our_entries;
            return Ok(());
        }
        if ours.uidvalidity == theirs.uidvalidity {
            self.summary.uidnext = ours.uidnext.max(theirs.uidnext);
        }
        if let Some(first) = pending.pushed.first() {
            let void = ours.uidvalidity != theirs.uidvalidity;
            if void || first.uid.get() <= theirs.uid_last {
                pending.misplaced.get_or_insert(first.uid);
            }
            pending.pushed_above = Some(theirs.uid_last);
            self.summary.uid_last = ours.uid_last.max(theirs.uid_last);
        }
        let live = self.summary.live + pending.pushed.len() as u64;
        self.summary.live = live.saturating_sub(pending.expunged.len() as u64);
        Ok(())
    }

    fn open_lock(&self, path: &std::path::Path) -> io::Result<Box<dyn File>> {
        let options = OpenOptions::create(FILE_MODE);
        match self.vfs.open(path, options) {
            Err(error) if is_absent(&error) => {
                create_dir_durable(self.vfs.as_ref(), &self.dir, DIR_MODE)?;
                self.vfs.open(path, options)
            }
            result => result,
        }
    }
}
