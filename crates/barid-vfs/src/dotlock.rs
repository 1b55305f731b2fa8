//! Lock files beside a mailbox, `FILE.lock`, as c-client, Dovecot, procmail and mutt use them; and
//! waiting for kernel locks.
//!
//! A lock is taken by creating a file of a unique name and linking it to `FILE.lock`; it succeeded
//! if the link count is two, which is reliable on NFS, too. If the file system has no hard links,
//! `FILE.lock` is created exclusively. The file contains `PID:HOST`, as Dovecot's do, so that a
//! lock of a dead process is detected at once on the same host.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::api::{File, FileType, LockKind, LockMode, Metadata, OpenOptions, Timestamp, Vfs};
use crate::host::Process;
use crate::limits::{BOOT_MARGIN, HOLDER_LEN_MAX, LOCK_RETRY_MAX, LOCK_RETRY_MIN};

/// An error of taking or keeping a lock.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another process holds the lock.
    #[error("{}: locked{}", path.display(), named(holder))]
    Held {
        /// The lock file, or the file that has the kernel lock.
        path: PathBuf,
        /// The holder according to the lock file, as `PID:HOST` or `PID`; `None` if unknown.
        holder: Option<String>,
    },
    /// Another process broke our lock.
    #[error("{}: our lock was taken away", path.display())]
    Lost {
        /// The lock file.
        path: PathBuf,
    },
    /// A call of the file system failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The lock file, or the file that was to be locked.
        path: PathBuf,
        /// The error of the call.
        source: io::Error,
    },
}

/// Options for taking a [`DotLock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DotLockOptions {
    /// Time to wait for a lock that another process holds; zero tries once.
    pub timeout: Duration,
    /// Age at which a lock is stale: neither it nor the file it guards changed for this long.
    /// Dovecot uses 120 s, c-client 300 s.
    pub stale_after: Duration,
    /// `true` to break stale locks. For an mbox, set this only while holding the kernel locks.
    pub break_stale: bool,
    /// `true` to also treat a lock as stale that is older than the boot of this machine and names
    /// neither another host nor a living process, on a local file system. If the clock was set
    /// forward since the boot, live locks look like that, too.
    pub break_before_boot: bool,
    /// Permission bits of the lock file before umask; c-client uses 0o666.
    pub mode: u32,
}

impl Default for DotLockOptions {
    /// Returns options that wait 30 s, do not consider a lock stale before 120 s, and use mode
    /// 0o600.
    fn default() -> Self {
        Self {
            break_before_boot: false,
            timeout: Duration::from_secs(30),
            stale_after: Duration::from_secs(120),
            break_stale: true,
            mode: 0o600,
        }
    }
}

/// A held lock file; removed when dropped, unless another process broke the lock.
#[derive(Debug)]
pub struct DotLock {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    inode: u64,
}

impl DotLock {
    /// Takes the lock of `file`, waiting up to the timeout of `options`.
    ///
    /// Costs six calls if nobody holds it: create, write, link, fstat, unlink, close.
    ///
    /// # Errors
    /// [`LockError::Held`] with the holder after the timeout; [`LockError::Io`], for instance if
    /// the directory is not writable.
    pub fn acquire(
        vfs: &Arc<dyn Vfs>,
        file: &Path,
        options: DotLockOptions,
    ) -> Result<Self, LockError> {
        let path = Self::path_of(file);
        let io = |source| LockError::Io { path: path.clone(), source };
        let deadline = vfs.now().unix_nanos.saturating_add(nanos(options.timeout));
        let mut pause = LOCK_RETRY_MIN;
        let mut holder = None;
        // If the first try fails, wait until the lock file is gone before trying to create it
        // again.
        let mut gone = true;
        loop {
            if gone && let Some(inode) = create(vfs.as_ref(), &path, options.mode).map_err(io)? {
                return Ok(Self { vfs: Arc::clone(vfs), path, inode });
            }
            gone = match look(vfs.as_ref(), &path).map_err(io)? {
                None => true,
                Some(found) => {
                    let stale = options.break_stale && found.is_stale(vfs.as_ref(), file, &options);
                    if stale && found.remove(vfs.as_ref(), &path).map_err(io)? {
                        gone = true;
                        continue;
                    }
                    holder = found.holder;
                    false
                }
            };
            if vfs.now().unix_nanos >= deadline {
                return Err(LockError::Held { path, holder });
            }
            vfs.sleep(pause);
            pause = (pause * 2).min(LOCK_RETRY_MAX);
        }
    }

    /// Returns the path of the lock file of `file`.
    pub fn path_of(file: &Path) -> PathBuf {
        let mut path = file.as_os_str().to_owned();
        path.push(".lock");
        path.into()
    }

    /// Sets the lock file's times to now, so that other programs do not consider it stale. Every 30
    /// s is often enough.
    ///
    /// # Errors
    /// [`LockError::Lost`] if the lock file is not ours any more.
    pub fn touch(&self) -> Result<(), LockError> {
        let io = |source| LockError::Io { path: self.path.clone(), source };
        if !self.is_ours().map_err(io)? {
            return Err(LockError::Lost { path: self.path.clone() });
        }
        let now = self.vfs.now();
        self.vfs.set_times(&self.path, now, now).map_err(io)
    }

    /// Removes the lock file.
    ///
    /// # Errors
    /// [`LockError::Lost`] if the lock was not ours any more: another process may have changed the
    /// mailbox at the same time.
    pub fn release(mut self) -> Result<(), LockError> {
        self.remove()
    }

    fn remove(&mut self) -> Result<(), LockError> {
        let io = |source| LockError::Io { path: self.path.clone(), source };
        let ours = self.is_ours().map_err(io)?;
        self.inode = 0;
        match ours {
            true => self.vfs.remove_file(&self.path).map_err(io),
            false => Err(LockError::Lost { path: self.path.clone() }),
        }
    }

    fn is_ours(&self) -> io::Result<bool> {
        match self.vfs.symlink_metadata(&self.path) {
            Ok(metadata) => Ok(metadata.inode == self.inode),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Drop for DotLock {
    fn drop(&mut self) {
        if self.inode != 0 {
            // An error cannot be reported here; other programs break a lock file that is left.
            let _ = self.remove();
        }
    }
}

/// Takes a kernel lock on an open file, waiting up to `timeout`. `path` is used in errors only.
///
/// # Errors
/// [`LockError::Held`] after the timeout, [`LockError::Io`].
pub fn lock_file(
    vfs: &dyn Vfs,
    file: &dyn File,
    path: &Path,
    (kind, mode): (LockKind, LockMode),
    timeout: Duration,
) -> Result<(), LockError> {
    let deadline = vfs.now().unix_nanos.saturating_add(nanos(timeout));
    let mut pause = LOCK_RETRY_MIN;
    loop {
        match file.try_lock(kind, mode) {
            Ok(true) => return Ok(()),
            Ok(false) if vfs.now().unix_nanos >= deadline => {
                return Err(LockError::Held { path: path.to_owned(), holder: None });
            }
            Ok(false) => vfs.sleep(pause),
            Err(source) => return Err(LockError::Io { path: path.to_owned(), source }),
        }
        pause = (pause * 2).min(LOCK_RETRY_MAX);
    }
}

/// The lock file of another process.
#[derive(Debug)]
struct Foreign {
    metadata: Metadata,
    holder: Option<String>,
    /// `true` if its content could be read.
    is_read: bool,
}

impl Foreign {
    /// Returns `true` if its process on this host is dead, if it is from before the boot (see
    /// [`DotLockOptions::break_before_boot`]), or if lock and file did not change for
    /// `stale_after`. Anything but a regular file is never stale.
    fn is_stale(&self, vfs: &dyn Vfs, file: &Path, options: &DotLockOptions) -> bool {
        if self.metadata.file_type != FileType::File {
            return false;
        }
        if let Some((pid, host)) = self.holder.as_deref().and_then(|holder| holder.split_once(':'))
        {
            let pid = pid.parse().ok().filter(|pid| *pid > 0);
            if pid.is_some_and(|pid| host == vfs.process().host && !vfs.process_alive(pid)) {
                return true;
            }
        }
        if options.break_before_boot && self.is_before_boot(vfs, file) {
            return true;
        }
        let guarded = vfs.metadata(file).map(|metadata| metadata.modified);
        let changed = self.metadata.modified.max(self.metadata.changed);
        let changed = guarded.map_or(changed, |guarded| guarded.max(changed));
        vfs.now().unix_nanos.saturating_sub(changed.unix_nanos) >= nanos(options.stale_after)
    }

    /// Returns `true` if it was made before this machine booted, on a local file system, and names
    /// neither another host nor a living process: it was left by a power failure.
    fn is_before_boot(&self, vfs: &dyn Vfs, file: &Path) -> bool {
        let holder = self.holder.as_deref().unwrap_or_default();
        let (pid, host) = holder.split_once(':').unwrap_or((holder, ""));
        let is_alive = |pid: u32| pid > 0 && vfs.process_alive(pid);
        if (!host.is_empty() && host != vfs.process().host) || pid.parse().is_ok_and(is_alive) {
            return false;
        }
        let changed = self.metadata.modified.max(self.metadata.changed).unix_nanos;
        let known_from = changed.saturating_add(nanos(BOOT_MARGIN));
        let is_before = |boot: Timestamp| known_from < boot.unix_nanos;
        self.is_read && vfs.boot_time().is_some_and(is_before) && vfs.is_local(file)
    }

    /// Removes it if it is still the same file; returns `false` if another lock file replaced it.
    fn remove(&self, vfs: &dyn Vfs, path: &Path) -> io::Result<bool> {
        let same = |metadata: Metadata| {
            (metadata.inode, metadata.changed) == (self.metadata.inode, self.metadata.changed)
        };
        match vfs.symlink_metadata(path) {
            Ok(metadata) if same(metadata) => {}
            Ok(_) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        }
        match vfs.remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(true),
        }
    }
}

/// Tries once to create the lock file; returns its inode, or `None` if another process holds the
/// lock.
fn create(vfs: &dyn Vfs, path: &Path, mode: u32) -> io::Result<Option<u64>> {
    let process = vfs.process();
    let unique = unique_beside(vfs, path, &process)?;
    let file = vfs.open(&unique, OpenOptions::create_new(mode))?;
    let taken = fill(file.as_ref(), &process).and_then(|()| {
        let linked = vfs.hard_link(&unique, path);
        let metadata = match file.metadata() {
            Err(error) if linked.is_ok() => return Err(give_up(vfs, path, error)),
            metadata => metadata?,
        };
        match linked {
            _ if metadata.links == 2 => Ok(Some(metadata.inode)),
            Err(error) if has_no_links(&error) => create_exclusively(vfs, path, mode, &process),
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(None),
        }
    });
    match vfs.remove_file(&unique) {
        Err(error) if matches!(taken, Ok(None)) => Err(error),
        // A lock that we got is kept even if the unique file could not be removed.
        _ => taken,
    }
}

fn create_exclusively(
    vfs: &dyn Vfs,
    path: &Path,
    mode: u32,
    process: &Process,
) -> io::Result<Option<u64>> {
    match vfs.open(path, OpenOptions::create_new(mode)) {
        Ok(file) => match fill(file.as_ref(), process).and_then(|()| file.metadata()) {
            Ok(metadata) => Ok(Some(metadata.inode)),
            Err(error) => Err(give_up(vfs, path, error)),
        },
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes a lock file of ours that we cannot use; returns `error`, not that of the removal.
fn give_up(vfs: &dyn Vfs, path: &Path, error: io::Error) -> io::Error {
    let _ = vfs.remove_file(path);
    error
}

fn fill(file: &dyn File, process: &Process) -> io::Result<()> {
    file.write_all_at(format!("{}:{}", process.pid, process.host).as_bytes(), 0)
}

fn has_no_links(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, TooManyLinks, Unsupported};
    matches!(error.kind(), PermissionDenied | Unsupported | TooManyLinks)
}

/// Reads the lock file; `None` if it is gone.
fn look(vfs: &dyn Vfs, path: &Path) -> io::Result<Option<Foreign>> {
    let gone = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Ok(None),
        _ => Err(error),
    };
    let metadata = match vfs.symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) => return gone(error),
    };
    let (mut holder, mut is_read) = (None, false);
    if metadata.file_type == FileType::File {
        let options = OpenOptions { no_follow: true, ..OpenOptions::READ };
        let mut buffer = [0; HOLDER_LEN_MAX];
        let read = vfs.open(path, options).and_then(|file| file.read_full_at(&mut buffer, 0));
        match read {
            Ok(len) => (holder, is_read) = (holder_of(&buffer[..len]), true),
            // Another user's lock file: its holder stays unknown.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => return gone(error),
        }
    }
    Ok(Some(Foreign { metadata, holder, is_read }))
}

/// Returns the first line of a lock file, if it is printable.
fn holder_of(content: &[u8]) -> Option<String> {
    let line = content.split(|byte| matches!(byte, b'\n' | b'\r' | 0)).next()?.trim_ascii();
    let good = !line.is_empty() && line.iter().all(u8::is_ascii_graphic);
    good.then(|| String::from_utf8_lossy(line).into_owned())
}

fn named(holder: &Option<String>) -> String {
    holder.as_ref().map(|holder| format!(" by process {holder}")).unwrap_or_default()
}

/// Returns the path `FILE.lock.<random>.<pid>.<host>`, or a shorter one if that is too long for a
/// file name.
fn unique_beside(vfs: &dyn Vfs, path: &Path, process: &Process) -> io::Result<PathBuf> {
    let mut random = [0; 8];
    vfs.random(&mut random)?;
    let random = u64::from_le_bytes(random);
    let host: String = process.host.chars().filter(|c| *c != '/').take(64).collect();
    let tail = format!("{random:016x}.{}.{host}", process.pid);
    let mut name = OsString::new();
    let stem = path.file_name().unwrap_or_default();
    if stem.len() + 1 + tail.len() <= crate::limits::NAME_LEN_MAX {
        name.push(stem);
        name.push(".");
    } else {
        name.push(".lock.");
    }
    name.push(tail);
    Ok(path.with_file_name(name))
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Fault, FaultVfs};
    use crate::host::Host as _;
    use crate::mem::MemVfs;

    const FILE: &str = "/mbox";
    const LOCK: &str = "/mbox.lock";

    fn world() -> MemVfs {
        let vfs = MemVfs::new();
        vfs.open(Path::new(FILE), OpenOptions::create(0o600)).unwrap();
        vfs
    }

    fn acquire(vfs: &MemVfs, seconds: u64) -> Result<DotLock, LockError> {
        let timeout = Duration::from_secs(seconds);
        let options = DotLockOptions { timeout, ..DotLockOptions::default() };
        DotLock::acquire(&(Arc::new(vfs.clone()) as Arc<dyn Vfs>), Path::new(FILE), options)
    }

    fn put(vfs: &MemVfs, content: &str) {
        let file = vfs.open(Path::new(LOCK), OpenOptions::create(0o600)).unwrap();
        file.write_all_at(content.as_bytes(), 0).unwrap();
    }

    fn names(vfs: &MemVfs) -> Vec<String> {
        let mut names = Vec::new();
        let dir = vfs.open_dir(Path::new("/")).unwrap();
        dir.list(&mut |name, _| names.push(String::from_utf8_lossy(name).into_owned())).unwrap();
        names.sort();
        names
    }

    #[test]
    fn a_lock_names_its_holder_and_goes_with_it() {
        let vfs = world();
        let lock = acquire(&vfs, 1).unwrap();
        assert_eq!(names(&vfs), ["mbox", "mbox.lock"]);
        assert_eq!(vfs.read(Path::new(LOCK), 99).unwrap(), b"4242:memory");
        let before = vfs.now().unix_seconds();
        let held = acquire(&vfs.as_process(7), 20).unwrap_err();
        assert!(matches!(&held, LockError::Held { holder: Some(h), .. } if h == "4242:memory"));
        assert_eq!(held.to_string(), "/mbox.lock: locked by process 4242:memory");
        assert!((20..25).contains(&(vfs.now().unix_seconds() - before)));
        drop(lock);
        assert_eq!(names(&vfs), ["mbox"]);
        acquire(&vfs.as_process(7), 0).unwrap().release().unwrap();
    }

    #[test]
    fn dead_and_old_locks_are_broken() {
        let vfs = world();
        let _ = vfs.as_process(7);
        for (content, seconds, taken) in [
            ("7:memory", 119, false),
            ("8:memory", 0, true),
            ("8:elsewhere", 119, false),
            ("8:elsewhere", 120, true),
            ("8", 119, false),
            ("", 121, true),
            ("0:memory", 0, false),
        ] {
            put(&vfs, content);
            vfs.sleep(Duration::from_secs(seconds));
            assert_eq!(acquire(&vfs, 0).is_ok(), taken, "{content} after {seconds} s");
            let _ = vfs.remove_file(Path::new(LOCK));
        }
    }

    #[test]
    fn a_lock_of_before_the_start_of_the_machine_is_broken() {
        for (content, local, seconds, taken) in [
            ("", true, 10, true),
            ("0", true, 10, true),
            ("4711", true, 10, true),
            ("4242:memory", true, 10, false),
            ("4242", true, 10, false),
            ("4711:elsewhere", true, 10, false),
            ("", false, 10, false),
            ("", true, 1, false),
        ] {
            let vfs = world();
            vfs.set_local(local);
            put(&vfs, content);
            vfs.sleep(Duration::from_secs(seconds));
            let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
            let try_now = |break_before_boot| {
                let timeout = Duration::ZERO;
                let options = DotLockOptions { timeout, break_before_boot, ..Default::default() };
                DotLock::acquire(&shared, Path::new(FILE), options).is_ok()
            };
            assert!(!try_now(true), "{content} before the start");
            vfs.set_booted_now();
            assert!(!try_now(false), "{content} is not asked for");
            assert_eq!(try_now(true), taken, "{content} {local} {seconds} s");
        }
    }

    #[test]
    fn a_growing_mailbox_keeps_its_lock() {
        let vfs = world();
        put(&vfs, "");
        vfs.sleep(Duration::from_secs(200));
        let mbox = vfs.open(Path::new(FILE), OpenOptions::WRITE).unwrap();
        mbox.write_all_at(b"x", 0).unwrap();
        assert!(acquire(&vfs, 0).is_err());
        let options = DotLockOptions { break_stale: false, ..DotLockOptions::default() };
        let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
        vfs.sleep(Duration::from_secs(500));
        assert!(DotLock::acquire(&shared, Path::new(FILE), options).is_err());
        assert!(acquire(&vfs, 0).is_ok());
    }

    #[test]
    fn a_symbolic_link_is_no_lock_to_break() {
        let vfs = world();
        vfs.symlink(Path::new(FILE), Path::new(LOCK)).unwrap();
        vfs.sleep(Duration::from_secs(500));
        assert!(matches!(acquire(&vfs, 1), Err(LockError::Held { holder: None, .. })));
    }

    #[test]
    fn a_broken_lock_is_noticed_and_left_to_its_new_holder() {
        let vfs = world();
        let one = acquire(&vfs, 0).unwrap();
        vfs.sleep(Duration::from_secs(100));
        one.touch().unwrap();
        vfs.sleep(Duration::from_secs(119));
        assert!(acquire(&vfs, 0).is_err());
        vfs.sleep(Duration::from_secs(2));
        let _two = acquire(&vfs.as_process(7), 0).unwrap();
        assert!(matches!(one.touch(), Err(LockError::Lost { .. })));
        assert!(matches!(one.release(), Err(LockError::Lost { .. })));
        assert_eq!(vfs.read(Path::new(LOCK), 99).unwrap(), b"7:memory");
    }

    #[test]
    fn without_hard_links_creation_is_exclusive() {
        let vfs = world();
        vfs.set_hard_links(false);
        let lock = acquire(&vfs, 0).unwrap();
        assert!(acquire(&vfs, 1).is_err());
        drop(lock);
        assert_eq!(names(&vfs), ["mbox"]);
        vfs.set_mode(Path::new("/"), 0o500).unwrap();
        assert!(matches!(acquire(&vfs, 1), Err(LockError::Io { .. })));
    }

    #[test]
    fn a_failing_call_leaves_no_lock_behind() {
        for links in [true, false] {
            let mut faults = 0;
            loop {
                let disk = world();
                disk.set_hard_links(links);
                let vfs = FaultVfs::new(disk.clone(), Fault::nth(faults));
                let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
                let options = DotLockOptions { timeout: Duration::ZERO, ..Default::default() };
                match DotLock::acquire(&shared, Path::new(FILE), options) {
                    Ok(lock) => {
                        assert!(acquire(&disk, 0).is_err());
                        drop(lock);
                    }
                    Err(error) => assert!(matches!(error, LockError::Io { .. }), "{error}"),
                }
                if !vfs.fired() {
                    break;
                }
                // A failed removal may leave its file behind.
                let left = names(&disk).len() - 1;
                assert!(left <= 1, "{:?} after fault {faults}", names(&disk));
                faults += 1;
            }
            assert!(faults >= 6, "{faults}");
        }
    }
}
