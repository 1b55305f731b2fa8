//! Waiting for a lock of a state file.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use barid_vfs::{File, LockError, LockKind, LockMode, Vfs, lock_file};

use crate::error::{Error, Result};
use crate::limits::LOCK_SLICE;

/// Takes an exclusive lock. Fails with [`Error::Locked`] after `timeout`, or once `stop` is true.
pub(crate) fn wait_for_lock(
    (vfs, file, path): (&dyn Vfs, &dyn File, &Path),
    timeout: Duration,
    stop: Option<&Arc<AtomicBool>>,
) -> Result<()> {
    let lock = (LockKind::Fcntl, LockMode::Exclusive);
    let mut waited = Duration::ZERO;
    loop {
        let slice = LOCK_SLICE.min(timeout.saturating_sub(waited));
        match lock_file(vfs, file, path, lock, slice) {
            Ok(()) => return Ok(()),
            Err(LockError::Io { path, source }) => return Err(Error::Io { path, source }),
            Err(_) => waited += slice,
        }
        if waited >= timeout || stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(Error::Locked { path: path.to_owned(), timeout: waited });
        }
    }
}
