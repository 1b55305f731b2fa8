//! c-client's locks of an mbx.
//!
//! - The *session lock* is a `flock` on the mailbox: shared for reading and writing, exclusive for
//!   moving messages.
//! - The *permission to parse and append* is an exclusive `flock` on a file in the temporary folder
//!   that is named after the mailbox's device and inode, `/tmp/.fd01.2a3b4c`. It is held while
//!   messages are numbered or appended or flags are written; the last holder removes its file.
//!
//! In c-client, a process that takes the session lock exclusively has the permission already, and
//! one that has the permission does not wait for sessions. So a process may hold the session lock
//! shared while it waits for the permission. Here, recovery and repair do wait for sessions with
//! the permission held, but only until the timeout.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use barid_mailbox::{Error, Result};
use barid_vfs::{File, FileType, LockKind, LockMode, Metadata, OpenOptions, Timestamp, Vfs};

use super::MbxMailbox;
use super::layout::{LOCK_FILE_TRIES, LOCK_PAUSE_MAX, LOCK_PAUSE_MIN};

/// Takes the session lock shared. Closing the file releases it. On a file system without such
/// locks, this does nothing.
///
/// # Errors
/// [`Error::Locked`] after the timeout.
pub(super) fn lock_shared(mailbox: &MbxMailbox, file: &dyn File) -> Result<()> {
    until_deadline(mailbox, "a program that moves messages", || {
        try_session(file, LockMode::Shared).map(|held| held.then_some(()))
    })
}

/// Tries to make the shared session lock exclusive, which only the holder of the [`Permission`] may
/// do. Returns `false` with the lock shared again if others have the mailbox open.
pub(super) fn try_exclusive(mailbox: &MbxMailbox, file: &dyn File) -> Result<bool> {
    let held = try_alone(file).map_err(Error::at(&mailbox.path))?;
    if !held {
        // A failed conversion may have released the shared lock.
        lock_shared(mailbox, file)?;
    }
    Ok(held)
}

/// Waits until no other session has the mailbox open. If that takes too long, the lock is shared
/// again.
///
/// # Errors
/// [`Error::Locked`] after the timeout.
pub(super) fn wait_exclusive(mailbox: &MbxMailbox, file: &dyn File) -> Result<()> {
    let held = until_deadline(mailbox, "a program that has it open", || {
        try_alone(file).map(|held| held.then_some(()))
    });
    if held.is_err() {
        lock_shared(mailbox, file)?;
    }
    held
}

/// Tries to take the session lock. Returns `true` if the file system does not support it.
fn try_session(file: &dyn File, mode: LockMode) -> io::Result<bool> {
    match file.try_lock(LockKind::Flock, mode) {
        Err(error) if is_unsupported(&error) => Ok(true),
        result => result,
    }
}

/// Tries to take the session lock exclusively. Returns `false` if the file system has no locks,
/// because other sessions cannot be excluded then.
fn try_alone(file: &dyn File) -> io::Result<bool> {
    match file.try_lock(LockKind::Flock, LockMode::Exclusive) {
        Err(error) if is_unsupported(&error) => Ok(false),
        result => result,
    }
}

/// The permission to parse and append. Dropping it removes its file.
#[derive(Debug)]
pub(super) struct Permission {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    _file: Box<dyn File>,
}

impl Permission {
    /// Waits for the permission of the mailbox with this `metadata`.
    ///
    /// # Errors
    /// [`Error::Locked`] after the timeout, or if the path of the lock file is not a plain file
    /// with one link; [`Error::Io`] if the lock file cannot be created, with `NotFound` if its
    /// folder is missing.
    pub(super) fn acquire(mailbox: &MbxMailbox, metadata: &Metadata) -> Result<Self> {
        let dir = &mailbox.options.session_dir;
        let vfs = Arc::clone(&mailbox.vfs);
        vfs.metadata(dir).map_err(Error::at(dir))?;
        let path = dir.join(format!(".{:x}.{:x}", metadata.device, metadata.inode));
        let file = until_deadline(mailbox, "a program that parses or appends", || {
            for _ in 0..LOCK_FILE_TRIES {
                match try_once(&*mailbox.vfs, &path)? {
                    Tried::Ours(file) => return Ok(Some(Some(file))),
                    Tried::Held => return Ok(None),
                    Tried::Trap => return Ok(Some(None)),
                    Tried::Moved => {}
                }
            }
            Ok(None)
        });
        match file {
            Ok(Some(file)) => Ok(Self { vfs, path, _file: file }),
            Err(Error::Io { source, .. }) => Err(Error::Io { path, source }),
            Err(error) => Err(error),
            Ok(None) => {
                let holder = "another file in the place of the lock file".to_owned();
                Err(Error::Locked { path, holder, waited_ms: 0 })
            }
        }
    }
}

impl Drop for Permission {
    fn drop(&mut self) {
        // A file that cannot be removed is locked again by the next holder.
        let _ = self.vfs.remove_file(&self.path);
    }
}

enum Tried {
    Ours(Box<dyn File>),
    Held,
    /// The file was created or removed meanwhile.
    Moved,
    /// A link, or not a regular file.
    Trap,
}

fn try_once(vfs: &dyn Vfs, path: &Path) -> io::Result<Tried> {
    let existing = OpenOptions { no_follow: true, ..OpenOptions::WRITE };
    let created = OpenOptions { no_follow: true, ..OpenOptions::create_new(0o666) };
    let file = match vfs.symlink_metadata(path) {
        Ok(found) if found.file_type != FileType::File || found.links > 1 => {
            return Ok(Tried::Trap);
        }
        Ok(_) => vfs.open(path, existing),
        Err(error) if error.kind() == io::ErrorKind::NotFound => vfs.open(path, created),
        Err(error) => Err(error),
    };
    let file = match file {
        Ok(file) => file,
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) =>
        {
            return Ok(Tried::Moved);
        }
        Err(error) => return Err(error),
    };
    match file.try_lock(LockKind::Flock, LockMode::Exclusive) {
        Ok(false) => return Ok(Tried::Held),
        Err(error) if !is_unsupported(&error) => return Err(error),
        _ => {}
    }
    let ours = file.metadata()?;
    match vfs.symlink_metadata(path) {
        Ok(now) if now.inode == ours.inode && now.device == ours.device && ours.links == 1 => {
            // Everybody who may open the mailbox must be able to open this file, whatever our
            // umask.
            let _ = file.set_mode(0o666);
            Ok(Tried::Ours(file))
        }
        Ok(now) if now.file_type != FileType::File => Ok(Tried::Trap),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(Tried::Moved),
    }
}

/// The locks of a writer: the permission, and the session lock of the open file.
#[derive(Debug)]
pub(super) struct MbxWriteLocks {
    /// The open mailbox file.
    pub(super) file: Box<dyn File>,
    /// Its path without symbolic links; journals are created beside it.
    pub(super) path: PathBuf,
    /// Its metadata just after it was locked.
    pub(super) metadata: Metadata,
    // Dropped last. `None` if there is no lock folder: then the session lock stays exclusive.
    permission: Option<Permission>,
}

impl MbxWriteLocks {
    /// Opens the mailbox for writing and takes its locks, with the session lock shared. If there is
    /// no temporary folder, and so no permission, the session lock is exclusive.
    ///
    /// # Errors
    /// [`Error::Locked`] after the timeout.
    pub(super) fn acquire(mailbox: &MbxMailbox) -> Result<Self> {
        let at = || Error::at(&mailbox.path);
        loop {
            let path = mailbox.vfs.canonicalize(&mailbox.path).map_err(at())?;
            let file = mailbox.vfs.open(&path, OpenOptions::WRITE).map_err(at())?;
            let opened = file.metadata().map_err(at())?;
            let permission = match Permission::acquire(mailbox, &opened) {
                Ok(permission) => Some(permission),
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
            match &permission {
                Some(_) => lock_shared(mailbox, &*file)?,
                None => wait_exclusive(mailbox, &*file)?,
            }
            let metadata = file.metadata().map_err(at())?;
            // The file may have been renamed or replaced while this waited for its lock.
            if mailbox.vfs.metadata(&path).map_err(at())?.inode == metadata.inode {
                return Ok(Self { file, path, metadata, permission });
            }
        }
    }

    /// Lets other sessions in again, unless there is no permission, which makes that impossible.
    ///
    /// # Errors
    /// [`Error::Locked`] after the timeout.
    pub(super) fn share(&self, mailbox: &MbxMailbox) -> Result<()> {
        if self.permission.is_some() { lock_shared(mailbox, &*self.file) } else { Ok(()) }
    }

    /// Returns the modification time of the mailbox when it was locked.
    pub(super) fn modified(&self) -> Timestamp {
        self.metadata.modified
    }
}

/// Retries `attempt` until it succeeds or the timeout has passed.
fn until_deadline<T>(
    mailbox: &MbxMailbox,
    holder: &str,
    mut attempt: impl FnMut() -> io::Result<Option<T>>,
) -> Result<T> {
    let start = mailbox.vfs.now();
    let mut pause = LOCK_PAUSE_MIN;
    loop {
        if let Some(locked) = attempt().map_err(Error::at(&mailbox.path))? {
            return Ok(locked);
        }
        let waited = mailbox.vfs.now().unix_nanos.saturating_sub(start.unix_nanos);
        let is_late = u128::from(waited.unsigned_abs()) >= mailbox.options.lock_timeout.as_nanos();
        let stop = mailbox.options.stop.as_ref();
        if is_late || stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            let waited_ms = waited.unsigned_abs() / 1_000_000;
            let (path, holder) = (mailbox.path.clone(), holder.to_owned());
            return Err(Error::Locked { path, holder, waited_ms });
        }
        mailbox.vfs.sleep(pause);
        pause = (pause * 2).min(LOCK_PAUSE_MAX);
    }
}

/// Returns `true` if the error means that the file system has no such locks. (`EBADF`: NFS turns an
/// exclusive `flock` into an `fcntl` lock, which needs a descriptor for writing.)
fn is_unsupported(error: &io::Error) -> bool {
    const ENOLCK: i32 = 37;
    const EOPNOTSUPP: i32 = 95;
    const EBADF: i32 = 9;
    matches!(error.kind(), io::ErrorKind::Unsupported)
        || matches!(error.raw_os_error(), Some(ENOLCK | EOPNOTSUPP | EBADF))
}
