//! The locks of a mailbox: `flock` on `.mixmeta`, `.mixindex` and `.mixstatus`, as c-client takes
//! them.
//!
//! A session of c-client holds a shared lock of `.mixmeta` as long as it lasts, and an exclusive
//! one while it moves messages in the data files, which it only does if it is alone. Index and
//! status are locked for one operation, shared or exclusively. This code never waits for one lock
//! while it holds another.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use barid_mailbox::{Error, Result};
use barid_vfs::{File, LockKind, LockMode, OpenOptions};

use super::MixMailbox;
use super::layout::{INDEX, LOCK_PAUSE_MAX, LOCK_PAUSE_MIN, LOCK_TIMEOUT, META, STATUS};

/// Purpose of the locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MixLockPurpose {
    /// Reading.
    Read,
    /// Changing index and status.
    Write,
    /// Moving messages in data files: no session may have the mailbox open.
    Move,
}

/// The locks; released when dropped.
#[derive(Debug)]
pub(super) struct Locks {
    meta: Box<dyn File>,
    index: Option<Box<dyn File>>,
    status: Option<Box<dyn File>>,
}

impl Locks {
    /// Takes the locks. Index and status are locked only if they exist.
    ///
    /// # Errors
    /// [`Error::Locked`] after [`LOCK_TIMEOUT`], or once the wait is to stop.
    pub(super) fn acquire(mailbox: &MixMailbox, purpose: MixLockPurpose) -> Result<Self> {
        until_deadline(mailbox, mailbox.stop.as_deref(), || Self::attempt(mailbox, purpose))
    }

    /// Tries once; otherwise returns the file that another program has locked.
    fn attempt(
        mailbox: &MixMailbox,
        purpose: MixLockPurpose,
    ) -> Result<std::result::Result<Self, &'static str>> {
        let own =
            if purpose == MixLockPurpose::Read { LockMode::Shared } else { LockMode::Exclusive };
        let options = match purpose {
            MixLockPurpose::Read => OpenOptions::READ,
            MixLockPurpose::Write | MixLockPurpose::Move => OpenOptions::WRITE,
        };
        let open = |name: &str| {
            let path = mailbox.path.join(name);
            mailbox.vfs.open(&path, options).map_err(Error::at(&path))
        };
        let lock = |file: &dyn File, name: &str, mode| {
            try_lock(file, mode).map_err(Error::at(&mailbox.path.join(name)))
        };
        let meta = open(META)?;
        let held = match purpose {
            MixLockPurpose::Move => {
                try_alone(&*meta).map_err(Error::at(&mailbox.path.join(META)))?
            }
            MixLockPurpose::Read | MixLockPurpose::Write => lock(&*meta, META, LockMode::Shared)?,
        };
        if !held {
            return Ok(Err(META));
        }
        let mut rest = [None, None];
        for (name, slot) in [INDEX, STATUS].into_iter().zip(&mut rest) {
            let file = match open(name) {
                Ok(file) => file,
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    continue;
                }
                Err(error) => return Err(error),
            };
            if !lock(&*file, name, own)? {
                return Ok(Err(name));
            }
            *slot = Some(file);
        }
        let [index, status] = rest;
        Ok(Ok(Self { meta, index, status }))
    }

    pub(super) fn meta(&self) -> &dyn File {
        &*self.meta
    }

    pub(super) fn index(&self) -> Option<&dyn File> {
        self.index.as_deref()
    }

    pub(super) fn status(&self) -> Option<&dyn File> {
        self.status.as_deref()
    }

    /// Unlocks index and status; nothing moves as long as the other lock is held.
    pub(super) fn release_records(&self, mailbox: &MixMailbox) -> Result<()> {
        for file in self.index.iter().chain(&self.status) {
            match file.unlock(LockKind::Flock) {
                Err(error) if error.kind() != io::ErrorKind::Unsupported => {
                    return Err(Error::at(&mailbox.path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Tries to lock exclusively; returns `true` on success. In either case the mailbox stays
    /// locked.
    pub(super) fn try_alone(&self, mailbox: &MixMailbox) -> Result<bool> {
        let at = || Error::at(&mailbox.path);
        if try_alone(&*self.meta).map_err(at())? {
            return Ok(true);
        }
        // A failed change of mode may have lost the old lock.
        self.share(mailbox)?;
        Ok(false)
    }

    /// Returns to the shared lock.
    ///
    /// # Errors
    /// [`Error::Locked`] after [`LOCK_TIMEOUT`]: another program has the exclusive lock now.
    pub(super) fn share(&self, mailbox: &MixMailbox) -> Result<()> {
        // Not ended by a request to stop: a change may be committed already.
        until_deadline(mailbox, None, || {
            let held = try_lock(&*self.meta, LockMode::Shared);
            Ok(if held.map_err(Error::at(&mailbox.path))? { Ok(()) } else { Err(META) })
        })
    }
}

/// Repeats `attempt` until it succeeds, or fails with the file that another program has locked.
fn until_deadline<T>(
    mailbox: &MixMailbox,
    stop: Option<&AtomicBool>,
    mut attempt: impl FnMut() -> Result<std::result::Result<T, &'static str>>,
) -> Result<T> {
    let start = mailbox.vfs.now();
    let mut pause = LOCK_PAUSE_MIN;
    loop {
        let held = match attempt()? {
            Ok(had) => return Ok(had),
            Err(name) => name,
        };
        let waited = mailbox.vfs.now().unix_nanos.saturating_sub(start.unix_nanos);
        let is_late = u128::from(waited.unsigned_abs()) >= LOCK_TIMEOUT.as_nanos();
        if is_late || stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            let path = mailbox.path.join(held);
            let holder = "another program".to_owned();
            let waited_ms = waited.unsigned_abs() / 1_000_000;
            return Err(Error::Locked { path, holder, waited_ms });
        }
        mailbox.vfs.sleep(pause);
        pause = (pause * 2).min(LOCK_PAUSE_MAX);
    }
}

/// Takes a lock; without support of the file system it counts as taken.
fn try_lock(file: &dyn File, mode: LockMode) -> io::Result<bool> {
    match file.try_lock(LockKind::Flock, mode) {
        Err(error) if is_unsupported(&error) => Ok(true),
        result => result,
    }
}

/// Tries to lock exclusively; returns `false` also if the file system has no locks.
fn try_alone(meta: &dyn File) -> io::Result<bool> {
    match meta.try_lock(LockKind::Flock, LockMode::Exclusive) {
        Err(error) if is_unsupported(&error) => Ok(false),
        result => result,
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    const ENOLCK: i32 = 37;
    const EOPNOTSUPP: i32 = 95;
    const EBADF: i32 = 9;
    error.kind() == io::ErrorKind::Unsupported
        || matches!(error.raw_os_error(), Some(ENOLCK | EOPNOTSUPP | EBADF))
}
