//! A change from its journal to its end, with the order of all writes.
//!
//! 1. The journal, and its name; `fsync` of both, or of the journal alone where that is enough
//!    ([`File::syncs_name`]).
//! 2. The attribute that names it, if bytes move; ranges are collapsed (`collapse.rs`); the file
//!    grows to what it needs; `fsync`; GROWN in the journal, `fdatasync`.
//! 3. Steps (`apply.rs`).
//! 4. If the file shrinks: MOVED in the journal, `fdatasync`; the rest is cut off.
//! 5. Mail that others delivered meanwhile (`foreign.rs`), times; `fsync`.
//! 6. COMMIT in the journal, `fdatasync`: the commit point. Pending changes are dropped.
//! 7. The attribute is removed, `fsync`; the journal is removed, `fsync` of its folder.

use std::io;

use barid_mailbox::{Error, Result, SyncContext};
use barid_vfs::{File, Timestamp, Vfs};

use super::foreign::Foreign;
use super::header::RecordKind;
use super::steps::StepKind;
use super::work::{PlannedChange, plan_bytes};

/// Progress of a change.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stage {
    /// Number of ranges that have been collapsed.
    pub(super) collapsed: usize,
    /// `true` if the file has its working size.
    pub(super) is_grown: bool,
    /// Number of steps that are done.
    pub(super) steps_done: usize,
    /// `true` if the end has been cut off.
    pub(super) is_cut: bool,
    /// Mail of others that is in the journal.
    pub(super) foreign: Option<Foreign>,
    /// `true` once something was done that only the journal can undo.
    pub(super) is_begun: bool,
}

impl PlannedChange<'_> {
    /// Writes the journal. On return the change is certain: a recovery completes it after a crash.
    ///
    /// # Errors
    /// Errors of the file system; then there is no journal, and nothing was changed.
    pub(super) fn begin(mut self) -> Result<Self> {
        match self.write_plan() {
            Ok(()) => Ok(self),
            Err(error) => {
                self.journal.discard(self.places.vfs);
                Err(error)
            }
        }
    }

    fn write_plan(&mut self) -> Result<()> {
        let header = self.header.to_bytes();
        self.write_journal(&header, 0)?;
        let no_hash = xxhash_rust::xxh3::Xxh3::new();
        let (bytes, _) = plan_bytes(&self.units, &self.collapses, no_hash);
        self.write_journal(&bytes, self.header.units_at())?;
        let first = (self.steps.len() > 0).then(|| self.steps.get(0).kind);
        if first == Some(StepKind::Window) && self.collapses.is_empty() {
            self.fill_window(0)?;
        }
        self.journal.materialize(&self.places)?;
        // Reserve everything that is needed later before anything is begun.
        self.journal.reserve(&self.places, self.header.foreign_at())?;
        self.barriers += self.journal.sync(&self.places)?;
        Ok(())
    }

    /// Does the rest of the change.
    ///
    /// # Errors
    /// [`Error::Unfinished`]; or any other error, if nothing was changed and the journal is
    /// removed.
    pub(super) fn run(mut self, stage: Stage, context: &mut SyncContext<'_>) -> Result<Self> {
        let mut stage = stage;
        match self.do_all(&mut stage, context) {
            Ok(()) => Ok(self),
            Err(error) if !stage.is_begun && !self.journal.is_over() => {
                match self.roll_back(stage.is_grown) {
                    Ok(()) => {
                        self.journal.discard(self.places.vfs);
                        Err(error)
                    }
                    Err(_) => Err(self.unfinished(error)),
                }
            }
            Err(error) => Err(self.unfinished(error)),
        }
    }

    /// Converts an error after something was done.
    pub(super) fn unfinished(&self, error: Error) -> Error {
        match error {
            Error::Unfinished { .. } => error,
            error => Error::Unfinished {
                path: self.places.mailbox.to_owned(),
                journal: self.journal.path().unwrap_or(self.places.mailbox).to_owned(),
                what: error.to_string(),
            },
        }
    }

    /// Does the rest as [`PlannedChange::run`] does, for a recovery: the journal is kept after any
    /// error.
    ///
    /// # Errors
    /// [`Error::Unfinished`].
    pub(super) fn go_on(&mut self, mut stage: Stage, context: &mut SyncContext<'_>) -> Result<()> {
        self.do_all(&mut stage, context).map_err(|error| self.unfinished(error))
    }

    fn do_all(&mut self, stage: &mut Stage, context: &mut SyncContext<'_>) -> Result<()> {
        let mut attribute_waits = self.set_attribute()?;
        // A journal elsewhere is found only by its name in the mailbox, and the attribute need not
        // reach the disk before a size that was changed after it.
        let is_beside = self.journal.path() == Some(&*self.places.beside());
        if attribute_waits && (!is_beside || stage.collapsed < self.collapses.len()) {
            self.sync_all()?;
            attribute_waits = false;
        }
        if stage.collapsed < self.collapses.len() {
            self.collapse_from(stage)?;
        }
        if self.header.new_size > self.header.base_size && !stage.is_grown {
            self.grow(stage)?;
            attribute_waits = false;
        }
        if attribute_waits {
            self.sync_all()?;
        }
        if stage.steps_done < self.steps.len() {
            stage.is_begun = true;
            self.apply_steps(stage.steps_done, context)?;
        }
        if self.header.new_size < self.header.base_size && !stage.is_cut {
            self.flush()?;
            stage.is_begun = true;
            self.record(RecordKind::Moved, [0; 4])?;
            self.file().set_len(self.header.new_size).map_err(self.at())?;
        }
        if let Some(foreign) = stage.foreign {
            self.flush()?;
            self.restore_foreign(foreign)?;
        }
        stage.is_begun = true;
        self.renew_times()?;
        self.sync_all()?;
        self.record(RecordKind::Commit, [0; 4])?;
        self.clean_up(context)
    }

    /// Grows the file to its working size.
    fn grow(&mut self, stage: &mut Stage) -> Result<()> {
        let (from, to) = (self.header.base_size, self.header.working_size());
        match allocate(self.file(), from, to - from, self.options.buffer_len) {
            Ok(()) => {}
            Err(error) if is_full(&error) => {
                stage.is_grown = true;
                let path = self.places.mailbox.to_owned();
                let free = self.places.vfs.free_space(&path).unwrap_or(0);
                return Err(Error::NoSpace { path, needed: to - from, free });
            }
            Err(error) => {
                stage.is_grown = true;
                return Err(self.at()(error));
            }
        }
        stage.is_grown = true;
        self.sync_all()?;
        self.record(RecordKind::Grown, [0; 4])
    }

    /// Undoes everything, while that is possible without the journal.
    fn roll_back(&mut self, is_grown: bool) -> Result<()> {
        if is_grown {
            self.file().set_len(self.header.base_size).map_err(self.at())?;
        }
        self.remove_attribute()?;
        match is_grown {
            true => self.sync_all(),
            false => Ok(()),
        }
    }

    /// Sets the times of the mailbox so that every later change gives other times.
    fn renew_times(&mut self) -> Result<()> {
        let times = renew_times(self.places.vfs, self.file(), self.locks.modified(), false);
        self.times = times.map_err(self.at())?;
        Ok(())
    }

    /// Cleans up after the commit: drops pending changes, removes the attribute and the journal.
    pub(super) fn clean_up(&mut self, context: &mut SyncContext<'_>) -> Result<()> {
        if let (Some(through), Some(drop)) =
            (self.header.pending_through, &mut context.drop_pending)
        {
            drop(through)?;
        }
        self.remove_attribute()?;
        self.journal.unlink(self.places.vfs).map_err(self.at_journal())?;
        self.sync_journal_dir()
    }
}

/// Sets the times of a mailbox that was changed. The access time becomes now, or one second before
/// the modification time with `has_new_mail`. The modification time gets another second than
/// before, with a fraction that no clock is likely to give (docs/protocol.md, "Change an mbox", 6).
///
/// `found` is the modification time before the change, which has moved it to now. Returns the time
/// that was set; `None` if that is not permitted, as in another user's mailbox, or not supported:
/// then the file has the time of the last write.
pub(super) fn renew_times(
    vfs: &dyn Vfs,
    file: &dyn File,
    found: Timestamp,
    has_new_mail: bool,
) -> io::Result<Option<Timestamp>> {
    let now = vfs.now();
    let mut random = [0; 4];
    vfs.random(&mut random)?;
    // Neither whole microseconds nor a multiple of the tick of a slow clock.
    let nanos = i64::from(u32::from_le_bytes(random) % 1_000_000) * 1_000 + 457;
    let second = now.unix_seconds().max(found.unix_seconds().saturating_add(1));
    let modified = Timestamp { unix_nanos: second.saturating_mul(1_000_000_000) + nanos };
    let accessed = match has_new_mail {
        true => Timestamp { unix_nanos: modified.unix_nanos.saturating_sub(1_000_000_000) },
        false => now.max(modified),
    };
    match file.set_times(accessed, modified) {
        Ok(()) => Ok(Some(modified)),
        Err(error) if is_not_ours(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns `true` if there is no space, or none within the user's limits.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

fn is_not_ours(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported)
}

/// Extends a file by zeros that are allocated on the disk.
fn allocate(file: &dyn File, offset: u64, len: u64, buffer_len: usize) -> io::Result<()> {
    match file.allocate(offset, len) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
        result => return result,
    }
    let zeros = vec![0; (buffer_len as u64).min(len) as usize];
    let mut at = offset;
    while at < offset + len {
        let more = (offset + len - at).min(zeros.len() as u64);
        file.write_all_at(&zeros[..more as usize], at)?;
        at += more;
    }
    Ok(())
}
