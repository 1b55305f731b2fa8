//! The locks under which an mbox is read and written.
//!
//! Reading takes a shared `fcntl` lock, as Dovecot's `mbox_read_locks` does, and also c-client's
//! shared `flock`. Writing takes the list of [`MboxOptions::write_locks`]: by default c-client's
//! session lock (`session.rs`) if messages may move, the lock file, and both kernel locks
//! exclusively. Programs disagree on the order, so no lock is waited for while another is held: if
//! one is not free, all are released and tried again after a pause, until the deadline.
//!
//! [`MboxOptions::write_locks`]: super::MboxOptions::write_locks

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use barid_mailbox::{Error, Result};
use barid_vfs::{
    DotLock, DotLockOptions, File, LockError, LockKind, LockMode, Metadata, OpenOptions, Timestamp,
    Vfs,
};

use super::MboxMailbox;
use super::holder::Obstacle;
use super::layout::{LOCK_PAUSE_MAX, LOCK_PAUSE_MIN, LOCK_TOUCH_INTERVAL, STALE_AFTER};
use super::session::{SessionAttempt, SessionLock};

/// A lock under which an mbox is written. The set of locks, and their order, must match that of the
/// other programs that write the mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MboxLock {
    /// c-client's session lock, taken for changes that may move messages. If its file cannot be
    /// used, the other locks must suffice.
    Session,
    /// `FILE.lock`. If it cannot be created, the other locks must suffice (Dovecot's
    /// `dotlock_try`).
    Dotlock,
    /// `flock`, as c-client takes it.
    Flock,
    /// `fcntl`, as Dovecot and mutt take it, but as an open-file-description lock: closing another
    /// descriptor of the file in this process does not release it.
    Fcntl,
}

impl MboxLock {
    /// All locks, in c-client's order: suits every program on one machine.
    pub const ALL: [Self; 4] = [Self::Session, Self::Dotlock, Self::Flock, Self::Fcntl];

    /// Returns the name as in Dovecot's `mbox_write_locks`; `session` for c-client's.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Dotlock => "dotlock",
            Self::Flock => "flock",
            Self::Fcntl => "fcntl",
        }
    }
}

/// Kind of write that the locks are taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MboxLockPurpose {
    /// Messages are added after the others, which stay where they are.
    Append,
    /// Messages may move.
    Change,
}

/// Takes those of the shared kernel locks `flock` and `fcntl` for reading that are among the write
/// locks. They are released when the file is closed. On a file system without locks the file is
/// read without any.
///
/// # Errors
/// [`Error::Locked`] after the timeout.
pub(super) fn lock_for_reading(mailbox: &MboxMailbox, file: &dyn File) -> Result<()> {
    let wanted = |lock: &MboxLock| mailbox.options.write_locks.contains(lock);
    let kinds = [(MboxLock::Flock, LockKind::Flock), (MboxLock::Fcntl, LockKind::Fcntl)];
    let kinds: Vec<LockKind> =
        kinds.iter().filter(|(lock, _)| wanted(lock)).map(|(_, kind)| *kind).collect();
    until_deadline(mailbox, || {
        for (index, kind) in kinds.iter().copied().enumerate() {
            if !try_kernel_lock(file, kind, LockMode::Shared).map_err(Error::at(&mailbox.path))? {
                for held in &kinds[..index] {
                    file.unlock(*held).map_err(Error::at(&mailbox.path))?;
                }
                let metadata = file.metadata().map_err(Error::at(&mailbox.path))?;
                return Ok(Err(Obstacle::Kernel(kind, metadata)));
            }
        }
        Ok(Ok(()))
    })
}

/// The held write locks; released when dropped, the last taken first.
#[derive(Debug)]
pub(super) struct MboxWriteLocks {
    file: Box<dyn File>,
    /// `None` if the directory cannot be written, or the lock is not wanted.
    dotlock: Option<DotLock>,
    /// `None` if the lock is not wanted.
    session: Option<SessionAttempt>,
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    /// Modification time of the mailbox when the locks were taken.
    modified: Timestamp,
    /// Time of the last touch of the lock file, in nanoseconds since 1970.
    touched_nanos: AtomicI64,
}

impl MboxWriteLocks {
    /// Opens the file and takes all locks.
    ///
    /// # Errors
    /// [`Error::Locked`], which names a holder, after the timeout.
    pub(super) fn acquire(mailbox: &MboxMailbox, purpose: MboxLockPurpose) -> Result<Self> {
        let path = mailbox.vfs.canonicalize(&mailbox.path).map_err(Error::at(&mailbox.path))?;
        until_deadline(mailbox, || LockAttempt::make(mailbox, &path, purpose))
    }

    /// Takes the locks as [`MboxWriteLocks::acquire`] does, and calls `purpose` before each
    /// attempt. Returns `None` once `purpose` returns `None`: the locks are no longer needed.
    ///
    /// # Errors
    /// As [`MboxWriteLocks::acquire`], and errors of `purpose`.
    pub(super) fn acquire_while(
        mailbox: &MboxMailbox,
        purpose: impl Fn() -> Result<Option<MboxLockPurpose>>,
    ) -> Result<Option<Self>> {
        let path = mailbox.vfs.canonicalize(&mailbox.path).map_err(Error::at(&mailbox.path))?;
        until_deadline(mailbox, || match purpose()? {
            Some(purpose) => Ok(LockAttempt::make(mailbox, &path, purpose)?.map(Some)),
            None => Ok(Ok(None)),
        })
    }

    /// Returns the locked file.
    pub(super) fn file(&self) -> &dyn File {
        &*self.file
    }

    /// Returns the path without symbolic links; lock files and journals are beside it.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the modification time of the mailbox when the locks were taken.
    pub(super) fn modified(&self) -> Timestamp {
        self.modified
    }

    /// Returns `true` if no c-client session has the mailbox open. Such a session may have numbered
    /// messages without having written the UIDs yet.
    pub(super) fn excludes_sessions(&self) -> bool {
        matches!(self.session, None | Some(SessionAttempt::Ours(_) | SessionAttempt::Nowhere))
    }

    /// Returns `true` if messages may move, whatever the locks were taken for.
    pub(super) fn may_move(&self) -> bool {
        !matches!(self.session, Some(SessionAttempt::Held(_)))
    }

    /// Touches the lock file if the last touch was over [`LOCK_TOUCH_INTERVAL`] ago, so that others
    /// do not consider it stale. Must be called regularly while the locks are held.
    ///
    /// # Errors
    /// [`Error::Io`] if another program removed the lock file: programs that know only lock files
    /// may then write the mailbox.
    pub(super) fn touch(&self) -> Result<()> {
        let now = self.vfs.now().unix_nanos;
        let since = now.saturating_sub(self.touched_nanos.load(Ordering::Relaxed));
        if u128::from(since.unsigned_abs()) >= LOCK_TOUCH_INTERVAL.as_nanos() {
            self.touched_nanos.store(now, Ordering::Relaxed);
            self.dotlock.as_ref().map_or(Ok(()), DotLock::touch).map_err(lock_error)?;
        }
        Ok(())
    }
}

/// One attempt to take all locks without waiting for any. Locks taken so far are released when it
/// is dropped.
struct LockAttempt {
    file: Box<dyn File>,
    metadata: Metadata,
    dotlock: Option<DotLock>,
    session: Option<SessionAttempt>,
    /// Another program's lock file, which may be stale.
    foreign: Option<Obstacle>,
    /// `true` once a kernel lock is held.
    has_kernel_lock: bool,
}

type Attempted<T> = Result<std::result::Result<T, Obstacle>>;

impl LockAttempt {
    fn make(
        mailbox: &MboxMailbox,
        path: &Path,
        purpose: MboxLockPurpose,
    ) -> Attempted<MboxWriteLocks> {
        let vfs = &mailbox.vfs;
        let at = || Error::at(&mailbox.path);
        let file = vfs.open(path, OpenOptions::WRITE).map_err(at())?;
        let metadata = file.metadata().map_err(at())?;
        let (dotlock, session, foreign) = (None, None, None);
        let mut attempt =
            Self { file, metadata, dotlock, session, foreign, has_kernel_lock: false };
        for lock in &mailbox.options.write_locks {
            let obstacle = match lock {
                MboxLock::Session => attempt.try_session(mailbox, purpose),
                MboxLock::Dotlock => attempt.try_dotlock(mailbox, path)?,
                MboxLock::Flock => attempt.try_kernel(LockKind::Flock).map_err(at())?,
                MboxLock::Fcntl => attempt.try_kernel(LockKind::Fcntl).map_err(at())?,
            };
            if let Some(obstacle) = obstacle {
                return Ok(Err(attempt.foreign.unwrap_or(obstacle)));
            }
        }
        if vfs.metadata(path).map_err(at())?.inode != attempt.metadata.inode {
            return Ok(Err(Obstacle::Replaced));
        }
        if let Some(obstacle) = attempt.break_stale(mailbox, path)? {
            return Ok(Err(obstacle));
        }
        let Self { file, metadata, dotlock, session, .. } = attempt;
        let modified = metadata.modified;
        let (vfs, path) = (Arc::clone(vfs), path.to_owned());
        let touched_nanos = AtomicI64::new(vfs.now().unix_nanos);
        Ok(Ok(MboxWriteLocks { file, dotlock, session, vfs, path, modified, touched_nanos }))
    }

    fn try_session(&mut self, mailbox: &MboxMailbox, purpose: MboxLockPurpose) -> Option<Obstacle> {
        let dir = &mailbox.options.session_dir;
        let session = SessionLock::take(&mailbox.vfs, dir, &self.metadata);
        let obstacle = match session {
            SessionAttempt::Held(pid) if purpose == MboxLockPurpose::Change => {
                Some(Obstacle::Session(pid))
            }
            _ => None,
        };
        self.session = Some(session);
        obstacle
    }

    /// Tries to create the lock file. One of another program is not an obstacle yet: it may turn
    /// out to be stale.
    fn try_dotlock(&mut self, mailbox: &MboxMailbox, path: &Path) -> Result<Option<Obstacle>> {
        match DotLock::acquire(&mailbox.vfs, path, dotlock_options(false)) {
            Ok(dotlock) => self.dotlock = Some(dotlock),
            Err(LockError::Held { holder, .. }) => {
                self.foreign = Some(Obstacle::LockFile(holder));
            }
            Err(LockError::Io { source, .. }) if is_denied(&source) => {}
            Err(error) => return Err(lock_error(error)),
        }
        Ok(None)
    }

    fn try_kernel(&mut self, kind: LockKind) -> io::Result<Option<Obstacle>> {
        if !try_kernel_lock(&*self.file, kind, LockMode::Exclusive)? {
            return Ok(Some(Obstacle::Kernel(kind, self.metadata)));
        }
        self.has_kernel_lock = true;
        Ok(None)
    }

    /// Replaces a stale lock file. Only the holder of a kernel lock may judge that it is stale.
    fn break_stale(&mut self, mailbox: &MboxMailbox, path: &Path) -> Result<Option<Obstacle>> {
        let Some(foreign) = self.foreign.take() else { return Ok(None) };
        if !self.has_kernel_lock {
            return Ok(Some(foreign));
        }
        match DotLock::acquire(&mailbox.vfs, path, dotlock_options(true)) {
            Ok(dotlock) => {
                self.dotlock = Some(dotlock);
                Ok(None)
            }
            Err(LockError::Held { .. }) => Ok(Some(foreign)),
            Err(error) => Err(lock_error(error)),
        }
    }
}

fn dotlock_options(break_stale: bool) -> DotLockOptions {
    DotLockOptions {
        timeout: Duration::ZERO,
        stale_after: STALE_AFTER,
        break_stale,
        break_before_boot: true,
        mode: 0o666,
    }
}

/// Repeats an attempt until it succeeds or the time is up; no lock is held during the pauses.
fn until_deadline<T>(
    mailbox: &MboxMailbox,
    mut attempt: impl FnMut() -> Attempted<T>,
) -> Result<T> {
    let start = mailbox.vfs.now();
    let mut pause = LOCK_PAUSE_MIN;
    loop {
        let obstacle = match attempt()? {
            Ok(locked) => return Ok(locked),
            Err(obstacle) => obstacle,
        };
        let waited = mailbox.vfs.now().unix_nanos.saturating_sub(start.unix_nanos);
        let is_late = u128::from(waited.unsigned_abs()) >= mailbox.options.lock_timeout.as_nanos();
        let stop = mailbox.options.stop.as_ref();
        if is_late || stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            let waited_ms = waited.unsigned_abs() / 1_000_000;
            let holder = obstacle.describe(&*mailbox.vfs);
            return Err(Error::Locked { path: mailbox.path.clone(), holder, waited_ms });
        }
        mailbox.vfs.sleep(pause);
        pause = (pause * 2).min(LOCK_PAUSE_MAX);
    }
}

/// Tries to take a kernel lock. Returns `true` also if the file system has no such locks.
fn try_kernel_lock(file: &dyn File, kind: LockKind, mode: LockMode) -> io::Result<bool> {
    match file.try_lock(kind, mode) {
        Err(error) if is_unsupported(&error) => Ok(true),
        result => result,
    }
}

/// Returns `true` if the file system has no such locks. (`EBADF`: NFS makes an exclusive `flock` an
/// `fcntl` lock, which needs a descriptor open for writing.)
fn is_unsupported(error: &io::Error) -> bool {
    const ENOLCK: i32 = 37;
    const EOPNOTSUPP: i32 = 95;
    const EBADF: i32 = 9;
    matches!(error.kind(), io::ErrorKind::Unsupported)
        || matches!(error.raw_os_error(), Some(ENOLCK | EOPNOTSUPP | EBADF))
}

/// Returns `true` if no lock file can be created here.
fn is_denied(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem | StorageFull)
}

fn lock_error(error: LockError) -> Error {
    match error {
        LockError::Held { path, holder } => {
            let holder = holder.unwrap_or_else(|| "another program".to_owned());
            Error::Locked { path, holder, waited_ms: 0 }
        }
        LockError::Io { path, source } => Error::Io { path, source },
        LockError::Lost { path } => {
            let source = io::Error::other("our lock file was taken away");
            Error::Io { path, source }
        }
        other => Error::Io { path: Default::default(), source: io::Error::other(other) },
    }
}
