//! The lock of a store: one writer, or any number of readers.
//!
//! Between processes this is a `flock` of `<path>.lock`, which also conflicts between two
//! descriptors of one process. For libraries that allow only one handle per process, sessions of
//! the process also take turns.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use barid_vfs::{File, LockError, LockKind, LockMode, OpenOptions, Vfs, lock_file};

use crate::files::folder_of;
use crate::limits::LOCK_FILES_MAX;
use crate::{Error, Result};

/// The longest time that a session waits for another to end.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The right to have a store open; returned when dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    /// Dropped first: the next session of this process then finds the file unlocked.
    _file: Box<dyn File>,
    _turn: Option<ProcessTurn>,
}

impl Lock {
    /// Waits some seconds for the right to have `path` open; with `alone` only one session of this
    /// process has it, whatever the mode.
    pub(crate) fn take(
        vfs: &dyn Vfs,
        path: &Path,
        lock_path: &Path,
        mode: LockMode,
        alone: bool,
    ) -> Result<Self> {
        let turn = if alone { Some(ProcessTurn::take(vfs, path)?) } else { None };
        for _ in 0..LOCK_FILES_MAX {
            let file = open(vfs, lock_path, mode).map_err(Error::at(lock_path))?;
            match lock_file(vfs, &*file, lock_path, (LockKind::Flock, mode), LOCK_TIMEOUT) {
                Ok(()) => {}
                Err(LockError::Io { path, source }) => return Err(Error::Io { path, source }),
                Err(_) => return Err(Error::Busy { path: path.to_owned() }),
            }
            // Removing a store removes its lock: the locked file must still exist.
            let locked = file.metadata().map_err(Error::at(lock_path))?;
            match vfs.metadata(lock_path) {
                Ok(there) if there.inode == locked.inode => {
                    return Ok(Self { _file: file, _turn: turn });
                }
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::at(lock_path)(error)),
            }
        }
        Err(Error::Busy { path: path.to_owned() })
    }
}

/// Opens the lock file; a reader also accepts a read-only one.
fn open(vfs: &dyn Vfs, path: &Path, mode: LockMode) -> std::io::Result<Box<dyn File>> {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    match vfs.open(path, OpenOptions::create(0o600)) {
        Err(error)
            if mode == LockMode::Shared
                && matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem) =>
        {
            vfs.open(path, OpenOptions::READ)
        }
        opened => opened,
    }
}

static TAKEN: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);
static GIVEN_BACK: Condvar = Condvar::new();

/// The right of one session of this process to have a store open.
#[derive(Debug)]
struct ProcessTurn {
    name: PathBuf,
}

impl ProcessTurn {
    fn take(vfs: &dyn Vfs, path: &Path) -> Result<Self> {
        let parent = folder_of(path);
        let mut name = vfs.canonicalize(parent).map_err(Error::at(parent))?;
        name.extend(path.file_name());
        let deadline = Instant::now() + LOCK_TIMEOUT;
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        while !taken.get_or_insert_default().insert(name.clone()) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::Busy { path: path.to_owned() });
            }
            let waited = GIVEN_BACK.wait_timeout(taken, left);
            taken = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(Self { name })
    }
}

impl Drop for ProcessTurn {
    fn drop(&mut self) {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = taken.as_mut() {
            taken.remove(&self.name);
        }
        GIVEN_BACK.notify_all();
    }
}
