//! The locks under which an mbox is read and written.
//!
//! Reading takes what Dovecot's `mbox_read_locks` asks for, a shared `fcntl` lock, and c-client's
//! shared `flock` beside it. Writing takes the lock file first, as c-client does, then both kernel
//! locks exclusively. Programs disagree on the order, so no lock is waited for while another is
//! held: what cannot be had at once is tried again with nothing held, until the deadline.

use std::io;
use std::time::Duration;

use barid_vfs::{
    DotLock, DotLockOptions, File, LockError, LockKind, LockMode, OpenOptions, Timestamp,
};

use super::MboxMailbox;
use super::layout::{LOCK_PAUSE_MAX, LOCK_PAUSE_MIN, LOCK_TOUCH_INTERVAL, STALE_AFTER};
use crate::{Error, Result};

/// Who holds a lock that could not be had.
type Holder = String;

/// Takes the locks for reading; they are released with the file. A file system without locks is
/// read without.
///
/// # Errors
/// [`Error::Locked`] after the timeout.
pub(super) fn lock_for_reading(mailbox: &MboxMailbox, file: &dyn File) -> Result<()> {
    until_deadline(mailbox, || {
        let locked = try_kernel_locks(file, LockMode::Shared).map_err(Error::at(&mailbox.path))?;
        Ok(if locked { Ok(()) } else { Err(anonymous()) })
    })
}

/// The locks for writing; released when dropped.
#[derive(Debug)]
pub(super) struct WriteLocks {
    file: Box<dyn File>,
    /// Absent where the directory cannot be written: then the kernel's locks must do.
    dotlock: Option<DotLock>,
}

impl WriteLocks {
    /// Opens the file and takes all locks.
    ///
    /// # Errors
    /// [`Error::Locked`] with the name of a holder after the timeout.
    pub(super) fn acquire(mailbox: &MboxMailbox) -> Result<Self> {
        let at = || Error::at(&mailbox.path);
        let path = mailbox.vfs.canonicalize(&mailbox.path).map_err(at())?;
        until_deadline(mailbox, || {
            let dotlock = DotLock::acquire(&mailbox.vfs, &path, dotlock_options(false));
            let file = mailbox.vfs.open(&path, OpenOptions::WRITE).map_err(at())?;
            let (dotlock, holder) = match dotlock {
                Ok(dotlock) => (Some(dotlock), None),
                Err(LockError::Held { holder, .. }) => (None, Some(holder)),
                Err(LockError::Io { source, .. }) if is_denied(&source) => (None, None),
                Err(error) => return Err(lock_error(error)),
            };
            if !try_kernel_locks(&*file, LockMode::Exclusive).map_err(at())? {
                return Ok(Err(holder.flatten().unwrap_or_else(anonymous)));
            }
            let inode = file.metadata().map_err(at())?.inode;
            if mailbox.vfs.metadata(&path).map_err(at())?.inode != inode {
                return Ok(Err("a program that replaces the file".to_owned()));
            }
            let Some(holder) = holder else { return Ok(Ok(Self { file, dotlock })) };
            // Only who holds the kernel's locks may judge that a lock file is stale.
            match DotLock::acquire(&mailbox.vfs, &path, dotlock_options(true)) {
                Ok(dotlock) => Ok(Ok(Self { file, dotlock: Some(dotlock) })),
                Err(LockError::Held { .. }) => Ok(Err(holder.unwrap_or_else(anonymous))),
                Err(error) => Err(lock_error(error)),
            }
        })
    }

    /// The file that is locked.
    pub(super) fn file(&self) -> &dyn File {
        &*self.file
    }

    /// Shows that the lock file is in use, if that was long ago.
    pub(super) fn touch(&self, mailbox: &MboxMailbox, touched: &mut Timestamp) -> Result<()> {
        let now = mailbox.vfs.now();
        let since = now.unix_nanos.saturating_sub(touched.unix_nanos);
        if u128::from(since.unsigned_abs()) >= LOCK_TOUCH_INTERVAL.as_nanos() {
            *touched = now;
            self.dotlock.as_ref().map_or(Ok(()), DotLock::touch).map_err(lock_error)?;
        }
        Ok(())
    }
}

fn dotlock_options(break_stale: bool) -> DotLockOptions {
    DotLockOptions { timeout: Duration::ZERO, stale_after: STALE_AFTER, break_stale, mode: 0o666 }
}

/// Tries until it succeeds or the time is up; the inner error names the holder.
fn until_deadline<T>(
    mailbox: &MboxMailbox,
    mut attempt: impl FnMut() -> Result<std::result::Result<T, Holder>>,
) -> Result<T> {
    let start = mailbox.vfs.now();
    let mut pause = LOCK_PAUSE_MIN;
    loop {
        let holder = match attempt()? {
            Ok(locked) => return Ok(locked),
            Err(holder) => holder,
        };
        let waited = mailbox.vfs.now().unix_nanos.saturating_sub(start.unix_nanos);
        if u128::from(waited.unsigned_abs()) >= mailbox.options.lock_timeout.as_nanos() {
            let waited_ms = waited.unsigned_abs() / 1_000_000;
            return Err(Error::Locked { path: mailbox.path.clone(), holder, waited_ms });
        }
        mailbox.vfs.sleep(pause);
        pause = (pause * 2).min(LOCK_PAUSE_MAX);
    }
}

/// Both kernel locks or none.
fn try_kernel_locks(file: &dyn File, mode: LockMode) -> io::Result<bool> {
    if !try_kernel_lock(file, LockKind::Flock, mode)? {
        return Ok(false);
    }
    if try_kernel_lock(file, LockKind::Fcntl, mode)? {
        return Ok(true);
    }
    file.unlock(LockKind::Flock)?;
    Ok(false)
}

/// A lock that the file system does not have counts as taken.
fn try_kernel_lock(file: &dyn File, kind: LockKind, mode: LockMode) -> io::Result<bool> {
    match file.try_lock(kind, mode) {
        Err(error) if is_unsupported(&error) => Ok(true),
        result => result,
    }
}

/// The file system has no such locks. (`EBADF`: NFS makes an exclusive `flock` an `fcntl` lock,
/// which a descriptor for reading cannot take.)
fn is_unsupported(error: &io::Error) -> bool {
    const ENOLCK: i32 = 37;
    const EOPNOTSUPP: i32 = 95;
    const EBADF: i32 = 9;
    matches!(error.kind(), io::ErrorKind::Unsupported)
        || matches!(error.raw_os_error(), Some(ENOLCK | EOPNOTSUPP | EBADF))
}

/// No lock file can be made here.
fn is_denied(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem | StorageFull)
}

fn anonymous() -> Holder {
    "another program".to_owned()
}

fn lock_error(error: LockError) -> Error {
    match error {
        LockError::Held { path, holder } => {
            Error::Locked { path, holder: holder.unwrap_or_else(anonymous), waited_ms: 0 }
        }
        LockError::Io { path, source } => Error::Io { path, source },
        LockError::Lost { path } => {
            let source = io::Error::other("our lock file was taken away");
            Error::Io { path, source }
        }
        other => Error::Io { path: Default::default(), source: io::Error::other(other) },
    }
}
