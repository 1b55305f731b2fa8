//! c-client's session lock: only its holder may change the positions of messages.
//!
//! A program that has an mbox open for writing by c-client remembers the offsets of its messages.
//! For as long as it runs it holds a `flock` on a file of the temporary folder that is named after
//! the mailbox's device and inode in lower-case hexadecimal: `/tmp/.fd01.2a3b4c`. Only the lock
//! counts, not the file, which is often left behind.
//!
//! If another process holds the lock, c-client sends `SIGUSR2` to the process that the file names.
//! If the signal could be sent it waits 15 s for the lock, else it opens the mailbox read-only at
//! once. The signal ends a program that does not handle it. So barid writes its own process id only
//! if `SIGUSR2` is caught or ignored here. Otherwise it writes an id that no process can have
//! ([`NOBODY`]) and its own after it, for barid's error messages.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_vfs::{File, FileType, LockKind, LockMode, Metadata, OpenOptions, Vfs};

use super::holder::by_kernel;
use super::layout::{SESSION_LEN_MAX, SESSION_TRIES, STATUS_LEN_MAX};

/// A process id above the highest that Linux assigns (2^22), which still is a C `int`.
const NOBODY: u32 = i32::MAX as u32;

/// Outcome of an attempt to take the session lock.
#[derive(Debug)]
pub(super) enum SessionAttempt {
    /// This process holds it.
    Ours(#[expect(dead_code, reason = "it is held until it is dropped")] SessionLock),
    /// Another process holds it; its id, if the file or `/proc/locks` names one.
    Held(Option<u32>),
    /// There is no folder for such locks, so nobody holds it.
    Nowhere,
    /// Its file cannot be used: it is a link, the disk is full, or a user who may not write the
    /// mailbox has locked it.
    Unusable,
}

/// The held lock; its file is removed when dropped, as c-client does.
#[derive(Debug)]
pub(super) struct SessionLock {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    file: Box<dyn File>,
}

impl SessionLock {
    /// Tries to lock the file in `dir` that stands for the mailbox, without waiting.
    ///
    /// Costs a dozen system calls if there is no such file yet.
    pub(super) fn take(vfs: &Arc<dyn Vfs>, dir: &Path, mailbox: &Metadata) -> SessionAttempt {
        let path = dir.join(format!(".{:x}.{:x}", mailbox.device, mailbox.inode));
        for _ in 0..SESSION_TRIES {
            match Self::try_once(vfs, &path, mailbox) {
                Ok(Some(session)) => return session,
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return SessionAttempt::Nowhere;
                }
                Err(_) => return SessionAttempt::Unusable,
            }
        }
        SessionAttempt::Held(None)
    }

    /// Returns `None` if the file was created or removed meanwhile.
    fn try_once(
        vfs: &Arc<dyn Vfs>,
        path: &Path,
        mailbox: &Metadata,
    ) -> io::Result<Option<SessionAttempt>> {
        let file = match vfs.symlink_metadata(path) {
            Ok(found) if !is_sound(&found) => return Ok(Some(SessionAttempt::Unusable)),
            Ok(_) => vfs.open(path, OpenOptions { no_follow: true, ..OpenOptions::WRITE }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => create(&**vfs, path),
            Err(error) => Err(error),
        };
        let file = match file {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            // The file was removed, unless the folder is missing, which the next try finds out.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && vfs.metadata(path.parent().unwrap_or(Path::new("/"))).is_ok() =>
            {
                return Ok(None);
            }
            file => file?,
        };
        if !file.try_lock(LockKind::Flock, LockMode::Exclusive)? {
            return Ok(Some(held(&**vfs, &*file, mailbox)?));
        }
        let inode = file.metadata()?.inode;
        match vfs.symlink_metadata(path) {
            Ok(found) if found.inode == inode && is_sound(&found) => {}
            _ => return Ok(None),
        }
        let pid = vfs.process().pid;
        let text = if survives_usr2(&**vfs) { pid.to_string() } else { format!("{NOBODY} {pid}") };
        // The lock is valid whatever the file contains.
        let _ = file.set_len(0).and_then(|()| file.write_all_at(text.as_bytes(), 0));
        let lock = Self { vfs: Arc::clone(vfs), path: path.to_owned(), file };
        Ok(Some(SessionAttempt::Ours(lock)))
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        // A file that cannot be removed is another user's: at least leave no stale id in it.
        let _ = self.file.set_len(0);
        let _ = self.vfs.remove_file(&self.path);
    }
}

fn create(vfs: &dyn Vfs, path: &Path) -> io::Result<Box<dyn File>> {
    let options = OpenOptions { no_follow: true, ..OpenOptions::create_new(0o666) };
    let file = vfs.open(path, options)?;
    // Every user who may open the mailbox must be able to open this, whatever our umask.
    let _ = file.set_mode(0o666);
    Ok(file)
}

/// Returns `true` if `SIGUSR2` does not end this process, according to `/proc/self/status`.
fn survives_usr2(vfs: &dyn Vfs) -> bool {
    // Its number, except on MIPS and a few older machines.
    const SIGUSR2: u32 = 12;
    let known = cfg!(any(
        target_arch = "x86_64",
        target_arch = "x86",
        target_arch = "aarch64",
        target_arch = "arm",
        target_arch = "riscv64",
        target_arch = "powerpc64",
        target_arch = "s390x",
    ));
    let mut bytes = [0; STATUS_LEN_MAX];
    let status = vfs.open(Path::new("/proc/self/status"), OpenOptions::READ);
    let Ok(len) = status.and_then(|status| status.read_full_at(&mut bytes, 0)) else {
        return false;
    };
    let text = String::from_utf8_lossy(&bytes[..len]);
    let masks = text.lines().filter_map(|line| match line.split_once(':')? {
        ("SigIgn" | "SigCgt", mask) => u64::from_str_radix(mask.trim(), 16).ok(),
        _ => None,
    });
    known && masks.fold(0, |all, mask| all | mask) >> (SIGUSR2 - 1) & 1 == 1
}

/// Returns `true` for a regular file with one link; anything else may be an attack.
fn is_sound(metadata: &Metadata) -> bool {
    metadata.file_type == FileType::File && metadata.links == 1
}

/// Judges a lock that another process holds. Anybody can lock the file, which all may open; only a
/// user who may write the mailbox can have a session.
fn held(vfs: &dyn Vfs, file: &dyn File, mailbox: &Metadata) -> io::Result<SessionAttempt> {
    let found = file.metadata()?;
    let pid = by_kernel(vfs, LockKind::Flock, &found).filter(|pid| *pid != 0);
    let process = pid.and_then(|pid| vfs.metadata(Path::new(&format!("/proc/{pid}"))).ok());
    let user = process.map_or(found.uid, |process| process.uid);
    Ok(match user == vfs.user() || may_write(user, mailbox) {
        true => SessionAttempt::Held(pid.or_else(|| holder(file))),
        false => SessionAttempt::Unusable,
    })
}

/// Returns `true` if a user may be able to open the mailbox for writing. Only the system knows the
/// members of its group and of access control lists (for which the group bits stand), so a mailbox
/// that its group or others may write counts as writable by all.
fn may_write(user: u32, mailbox: &Metadata) -> bool {
    const OWNER: u32 = 0o200;
    const GROUP_AND_OTHERS: u32 = 0o022;
    user == 0
        || mailbox.mode & GROUP_AND_OTHERS != 0
        || user == mailbox.uid && mailbox.mode & OWNER != 0
}

/// Reads the process id in a session lock's file; barid's own may follow [`NOBODY`].
fn holder(file: &dyn File) -> Option<u32> {
    let mut bytes = [0; SESSION_LEN_MAX];
    let len = file.read_full_at(&mut bytes, 0).ok()?;
    let text = std::str::from_utf8(&bytes[..len]).ok()?;
    let words = text.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
    words.filter_map(|word| word.parse().ok()).find(|pid| *pid != 0 && *pid != NOBODY)
}

#[cfg(test)]
mod tests {
    use barid_vfs::MemVfs;

    use super::*;

    const FILE: &str = "/tmp/.0.2a";

    fn world() -> (MemVfs, Arc<dyn Vfs>) {
        let vfs = MemVfs::new();
        vfs.create_dir(Path::new("/tmp"), 0o777).unwrap();
        (vfs.clone(), Arc::new(vfs))
    }

    fn take(vfs: &Arc<dyn Vfs>) -> SessionAttempt {
        let mut mailbox = vfs.metadata(Path::new("/")).unwrap();
        (mailbox.device, mailbox.inode) = (0, 0x2a);
        SessionLock::take(vfs, Path::new("/tmp"), &mailbox)
    }

    #[test]
    fn it_is_held_by_one_and_goes_with_it() {
        let (disk, vfs) = world();
        let other: Arc<dyn Vfs> = Arc::new(disk.as_process(77));
        let first = take(&other);
        assert!(matches!(first, SessionAttempt::Ours(_)), "{first:?}");
        assert_eq!(disk.read(Path::new(FILE), 99).unwrap(), b"2147483647 77");
        assert!(matches!(take(&vfs), SessionAttempt::Held(Some(77))));
        drop(first);
        assert!(disk.metadata(Path::new(FILE)).is_err());
        assert!(matches!(take(&vfs), SessionAttempt::Ours(_)));
    }

    #[test]
    fn who_survives_the_signal_is_named() {
        let (disk, vfs) = world();
        disk.create_dir_all(Path::new("/proc/self"), 0o755).unwrap();
        let status = disk.open(Path::new("/proc/self/status"), OpenOptions::create(0o600)).unwrap();
        for (ignored, caught, expected) in [
            ("0000000000000800", "0000000000000000", "4242"),
            ("0000000000001000", "0000000000000a00", "4242"),
            ("fffffffffffff7ff", "fffffffffffff7ff", "2147483647 4242"),
        ] {
            let text = format!("Name:\tx\nSigIgn:\t{ignored}\nSigCgt:\t{caught}\n");
            status.write_all_at(text.as_bytes(), 0).unwrap();
            let lock = take(&vfs);
            assert_eq!(disk.read(Path::new(FILE), 99).unwrap(), expected.as_bytes());
            drop(lock);
        }
    }

    #[test]
    fn a_file_left_behind_is_no_lock() {
        let (disk, vfs) = world();
        let file = disk.open(Path::new(FILE), OpenOptions::create(0o666)).unwrap();
        file.write_all_at(b"4711\0", 0).unwrap();
        assert!(matches!(take(&vfs), SessionAttempt::Ours(_)));
        file.write_all_at(b"4711\0", 0).unwrap();
        drop(file);
        let file = disk.open(Path::new(FILE), OpenOptions::create(0o666)).unwrap();
        file.write_all_at(b"4711", 0).unwrap();
        assert!(file.try_lock(LockKind::Flock, LockMode::Exclusive).unwrap());
        assert!(matches!(take(&vfs), SessionAttempt::Held(Some(4711))));
        file.set_len(0).unwrap();
        assert!(matches!(take(&vfs), SessionAttempt::Held(None)));
    }

    #[test]
    fn a_lock_counts_if_its_holder_may_write_the_mailbox() {
        let (disk, vfs) = world();
        let theirs = disk.as_user(77);
        let file = theirs.open(Path::new(FILE), OpenOptions::create(0o666)).unwrap();
        file.write_all_at(b"4711", 0).unwrap();
        assert!(file.try_lock(LockKind::Flock, LockMode::Exclusive).unwrap());
        let take = |vfs: &Arc<dyn Vfs>, uid, mode| {
            let mut mailbox = vfs.metadata(Path::new("/")).unwrap();
            (mailbox.device, mailbox.inode, mailbox.uid, mailbox.mode) = (0, 0x2a, uid, mode);
            SessionLock::take(vfs, Path::new("/tmp"), &mailbox)
        };
        assert!(matches!(take(&vfs, 1000, 0o600), SessionAttempt::Unusable));
        assert!(matches!(take(&vfs, 1000, 0o644), SessionAttempt::Unusable));
        for (uid, mode) in [(77, 0o600), (1000, 0o660), (1000, 0o666)] {
            assert!(
                matches!(take(&vfs, uid, mode), SessionAttempt::Held(Some(4711))),
                "{uid} {mode:o}"
            );
        }
        // The owner of the file need not be the user who locks it.
        disk.create_dir_all(Path::new("/proc"), 0o755).unwrap();
        let found = file.metadata().unwrap();
        let (major, minor) = (found.device >> 8 & 0xfff, found.device & 0xff);
        let place = format!("{major:02x}:{minor:02x}:{}", found.inode);
        let lock = format!("1: FLOCK  ADVISORY  WRITE 9 {place} 0 EOF\n");
        let table = disk.open(Path::new("/proc/locks"), OpenOptions::create(0o600)).unwrap();
        table.write_all_at(lock.as_bytes(), 0).unwrap();
        let run_by = |user| {
            let options = OpenOptions::create(0o600);
            disk.as_user(user).open(Path::new("/proc/9"), options).map(drop).unwrap();
        };
        run_by(1000);
        assert!(matches!(take(&vfs, 1000, 0o600), SessionAttempt::Held(Some(9))));
        disk.remove_file(Path::new("/proc/9")).unwrap();
        run_by(78);
        assert!(matches!(take(&vfs, 77, 0o600), SessionAttempt::Unusable));
    }

    #[test]
    fn traps_are_not_stepped_into() {
        let (disk, vfs) = world();
        let victim = Path::new("/victim");
        disk.open(victim, OpenOptions::create(0o600)).unwrap().write_all_at(b"mail", 0).unwrap();
        disk.symlink(victim, Path::new(FILE)).unwrap();
        assert!(matches!(take(&vfs), SessionAttempt::Unusable));
        disk.remove_file(Path::new(FILE)).unwrap();
        disk.hard_link(victim, Path::new(FILE)).unwrap();
        assert!(matches!(take(&vfs), SessionAttempt::Unusable));
        assert_eq!(disk.read(victim, 99).unwrap(), b"mail");
        disk.remove_file(Path::new(FILE)).unwrap();
        disk.set_mode(Path::new("/tmp"), 0o500).unwrap();
        assert!(matches!(take(&vfs), SessionAttempt::Unusable));
        disk.set_mode(Path::new("/tmp"), 0o700).unwrap();
        disk.remove_dir(Path::new("/tmp")).unwrap();
        assert!(matches!(take(&vfs), SessionAttempt::Nowhere));
    }
}
