//! The real file system, by direct system calls of Linux.
//!
//! Files are opened with `O_CLOEXEC` and with `O_NONBLOCK`, which regular files ignore and which
//! prevents blocking on a FIFO in a mailbox. Interrupted calls are repeated.

mod ofd;
mod system;

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags, RawDir, SeekFrom, Timespec, Timestamps};
use rustix::fs::{Gid, Uid, XattrFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::api::{
    Dir, File, FileType, LockKind, LockMode, Metadata, OpenOptions, Timestamp, Vfs, look_and_rename,
};
use crate::host::{Host, Process};
use crate::limits::{CREATE_TRIES_MAX, LIST_BUFFER_LEN, XATTR_LEN_GUESS, XATTR_LEN_MAX};
use crate::owner::may;
use crate::replace::parent_of;
use crate::watch::{Inotify, Watch};

use self::system::{
    EXT, SYNCFS_REPORTS_ERRORS, SYNCS_NAMES, file_system_of, has_birth_time, kernel_is_at_least,
    user,
};

/// The file system of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsVfs;

/// An open file of [`OsVfs`].
#[derive(Debug)]
struct OsFile(OwnedFd);

/// An open directory of [`OsVfs`].
#[derive(Debug)]
struct OsDir {
    fd: OwnedFd,
    /// `true` if the descriptor's position has moved. Locked while listing, because the position is
    /// shared.
    listed: Mutex<bool>,
}

impl Host for OsVfs {
    fn now(&self) -> Timestamp {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        timestamp(now.tv_sec, now.tv_nsec)
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn process(&self) -> Process {
        system::process()
    }

    fn user(&self) -> u32 {
        user()
    }

    fn process_alive(&self, pid: u32) -> bool {
        system::process_alive(pid)
    }

    fn boot_time(&self) -> Option<Timestamp> {
        system::boot_time()
    }

    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        system::random(bytes)
    }
}

impl Vfs for OsVfs {
    /// One `openat`.
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Box<dyn File>> {
        let fd = match options.create {
            Some(_) if user() == 0 && !options.keep_owner => open_as_root(path, options)?,
            _ => open_at(rustix::fs::CWD, path, options)?,
        };
        Ok(Box::new(OsFile(fd)))
    }

    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn Dir>> {
        Ok(Box::new(OsDir { fd: open_dir_fd(path)?, listed: Mutex::new(false) }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        Ok(metadata_of(&retry_on_intr(|| rustix::fs::stat(path))?))
    }

    fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
        Ok(metadata_of(&retry_on_intr(|| rustix::fs::lstat(path))?))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door itself")]
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::canonicalize(path)
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        match path.file_name() {
            Some(name) if user() == 0 => create_dir_in(open_parent(path)?.as_fd(), name, mode),
            _ => Ok(retry_on_intr(|| rustix::fs::mkdir(path, Mode::from_raw_mode(mode)))?),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(retry_on_intr(|| rustix::fs::rename(from, to))?)
    }

    /// Uses `renameat2` with `RENAME_NOREPLACE`; if the file system does not support it, links the
    /// new name and removes the old one; without hard links, checks before renaming.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        match retry_on_intr(|| renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)) {
            Err(Errno::INVAL | Errno::NOSYS) => link_and_remove(from, to),
            result => Ok(result?),
        }
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(retry_on_intr(|| rustix::fs::link(from, to))?)
    }

    fn symbolic_link(&self, target: &Path, path: &Path) -> io::Result<()> {
        Ok(retry_on_intr(|| rustix::fs::symlink(target, path))?)
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        let target = retry_on_intr(|| rustix::fs::readlink(path, Vec::new()))?;
        Ok(OsStr::from_bytes(target.as_bytes()).into())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        Ok(retry_on_intr(|| rustix::fs::unlink(path))?)
    }

    fn remove_files(&self, paths: &[PathBuf]) -> Vec<io::Result<()>> {
        crate::many::remove_files(self, paths)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        Ok(retry_on_intr(|| rustix::fs::rmdir(path))?)
    }

    /// Opens, `fsync`s and closes the directory.
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let fd = open_dir_fd(path)?;
        Ok(retry_on_intr(|| rustix::fs::fsync(&fd))?)
    }

    /// One `getxattr` for values of up to 256 bytes, two for longer ones.
    fn xattr(&self, path: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
        read_xattr(|value| rustix::fs::getxattr(path, name, value))
    }

    fn set_xattr(&self, path: &Path, name: &str, value: &[u8]) -> io::Result<()> {
        Ok(retry_on_intr(|| rustix::fs::setxattr(path, name, value, XattrFlags::empty()))?)
    }

    fn create_xattr(&self, path: &Path, name: &str, value: &[u8]) -> io::Result<()> {
        Ok(retry_on_intr(|| rustix::fs::setxattr(path, name, value, XattrFlags::CREATE))?)
    }

    /// Removes the attribute. An absent one is not an error.
    fn remove_xattr(&self, path: &Path, name: &str) -> io::Result<()> {
        absent_is_fine(retry_on_intr(|| rustix::fs::removexattr(path, name)))
    }

    fn set_times(&self, path: &Path, accessed: Timestamp, modified: Timestamp) -> io::Result<()> {
        let times = timestamps(accessed, modified);
        Ok(retry_on_intr(|| {
            rustix::fs::utimensat(rustix::fs::CWD, path, &times, AtFlags::empty())
        })?)
    }

    /// The space that `statvfs` reports for unprivileged processes.
    fn free_space(&self, path: &Path) -> io::Result<u64> {
        let stat = retry_on_intr(|| rustix::fs::statvfs(path))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn total_space(&self, path: &Path) -> io::Result<u64> {
        let stat = retry_on_intr(|| rustix::fs::statvfs(path))?;
        Ok(stat.f_blocks.saturating_mul(stat.f_frsize))
    }

    fn block_size(&self, path: &Path) -> io::Result<u64> {
        Ok(retry_on_intr(|| rustix::fs::statvfs(path))?.f_bsize.max(1))
    }

    fn collapses(&self, path: &Path) -> bool {
        system::collapses(path)
    }

    fn is_local(&self, path: &Path) -> bool {
        system::is_local(path)
    }

    fn watch(&self) -> io::Result<Box<dyn Watch>> {
        Ok(Box::new(Inotify::new()?))
    }
}

impl File for OsFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(retry_on_intr(|| rustix::io::pread(&self.0, &mut *buffer, offset))?)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        Ok(retry_on_intr(|| rustix::io::pwrite(&self.0, bytes, offset))?)
    }

    fn metadata(&self) -> io::Result<Metadata> {
        fstat(self.0.as_fd())
    }

    fn set_len(&self, size: u64) -> io::Result<()> {
        Ok(retry_on_intr(|| rustix::fs::ftruncate(&self.0, size))?)
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let flags = rustix::fs::FallocateFlags::empty();
        Ok(retry_on_intr(|| rustix::fs::fallocate(&self.0, flags, offset, len))?)
    }

    /// Repeats an interrupted call only if the size shows that it had no effect: a second collapse
    /// would remove other bytes.
    fn collapse(&self, offset: u64, len: u64) -> io::Result<()> {
        let size = self.metadata()?.size;
        loop {
            let flags = rustix::fs::FallocateFlags::COLLAPSE_RANGE;
            match rustix::fs::fallocate(&self.0, flags, offset, len) {
                Err(Errno::INTR) if self.metadata()?.size == size => {}
                Err(Errno::INTR) => return Ok(()),
                result => return Ok(result?),
            }
        }
    }

    /// An `fstat` and an `lseek`, whose effect on the position does not matter: nothing uses it.
    fn first_hole(&self, from: u64) -> io::Result<Option<u64>> {
        let size = self.metadata()?.size;
        match retry_on_intr(|| rustix::fs::seek(&self.0, SeekFrom::Hole(from))) {
            Ok(hole) => Ok(Some(hole).filter(|hole| *hole < size)),
            // `from` is at or after the end, or the file system does not support `SEEK_HOLE`.
            Err(Errno::NXIO | Errno::INVAL | Errno::NOTSUP) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn set_times(&self, accessed: Timestamp, modified: Timestamp) -> io::Result<()> {
        let times = timestamps(accessed, modified);
        Ok(retry_on_intr(|| rustix::fs::futimens(&self.0, &times))?)
    }

    fn xattr(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        read_xattr(|value| rustix::fs::fgetxattr(&self.0, name, value))
    }

    fn set_xattr(&self, name: &str, value: &[u8]) -> io::Result<()> {
        let flags = XattrFlags::empty();
        Ok(retry_on_intr(|| rustix::fs::fsetxattr(&self.0, name, value, flags))?)
    }

    fn remove_xattr(&self, name: &str) -> io::Result<()> {
        absent_is_fine(retry_on_intr(|| rustix::fs::fremovexattr(&self.0, name)))
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| rustix::fs::fdatasync(&self.0))?)
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| rustix::fs::fsync(&self.0))?)
    }

    /// `fstatfs`, and on ext4 `statx`.
    fn syncs_name(&self) -> io::Result<bool> {
        let kind = file_system_of(&self.0)?;
        // A pure ext2 driver has no birth times.
        Ok(SYNCS_NAMES.contains(&kind) && (kind != EXT || has_birth_time(&self.0)?))
    }

    /// `F_OFD_SETLK` or `flock`. An exclusive `Fcntl` lock requires a file opened for writing.
    fn try_lock(&self, kind: LockKind, mode: LockMode) -> io::Result<bool> {
        match kind {
            LockKind::Fcntl => ofd::try_lock(&self.0, mode),
            LockKind::Flock => {
                let operation = match mode {
                    LockMode::Shared => rustix::fs::FlockOperation::NonBlockingLockShared,
                    LockMode::Exclusive => rustix::fs::FlockOperation::NonBlockingLockExclusive,
                };
                match retry_on_intr(|| rustix::fs::flock(&self.0, operation)) {
                    Ok(()) => Ok(true),
                    Err(Errno::WOULDBLOCK) => Ok(false),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    fn unlock(&self, kind: LockKind) -> io::Result<()> {
        match kind {
            LockKind::Fcntl => ofd::unlock(&self.0),
            LockKind::Flock => {
                let operation = rustix::fs::FlockOperation::Unlock;
                Ok(retry_on_intr(|| rustix::fs::flock(&self.0, operation))?)
            }
        }
    }

    fn prefetch(&self, offset: u64, len: u64) {
        let len = std::num::NonZeroU64::new(len);
        // The hint is optional, so errors are ignored.
        let _ = rustix::fs::fadvise(&self.0, offset, len, rustix::fs::Advice::WillNeed);
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(retry_on_intr(|| rustix::fs::fchmod(&self.0, Mode::from_raw_mode(mode)))?)
    }

    fn set_owner(&self, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
        chown(self.0.as_fd(), uid, gid)
    }
}

impl Dir for OsDir {
    /// One `getdents64` per 64 KB of entries and one that finds the end; an `lstat` for each entry
    /// whose type the file system does not report.
    fn list(&self, visit: &mut dyn FnMut(&[u8], FileType)) -> io::Result<()> {
        let mut listed = self.listed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if std::mem::replace(&mut *listed, true) {
            rustix::fs::seek(&self.fd, SeekFrom::Start(0))?;
        }
        let mut buffer = vec![MaybeUninit::<u8>::uninit(); LIST_BUFFER_LEN];
        let mut entries = RawDir::new(&self.fd, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                let found = match entry.file_type() {
                    rustix::fs::FileType::Unknown => Dir::metadata(self, name)
                        .map_or(FileType::Other, |metadata| metadata.file_type),
                    known => file_type(known),
                };
                visit(name, found);
            }
        }
        Ok(())
    }

    fn open(&self, name: &[u8], options: OpenOptions) -> io::Result<Box<dyn File>> {
        Ok(Box::new(OsFile(open_at(self.fd.as_fd(), name, options)?)))
    }

    /// `openat`, `fstat`, `read`, `close`: four system calls and no allocation (a name of up to
    /// 255 bytes gets its NUL on the stack). An empty file is not read.
    fn read_head(&self, name: &[u8], buffer: &mut [u8]) -> io::Result<(Metadata, usize)> {
        let fd = open_at(self.fd.as_fd(), name, OpenOptions::READ)?;
        let metadata = fstat(fd.as_fd())?;
        let wanted = buffer.len().min(usize::try_from(metadata.size).unwrap_or(usize::MAX));
        let mut len = 0;
        while len < wanted {
            match retry_on_intr(|| rustix::io::read(&fd, &mut buffer[len..]))? {
                0 => break,
                more => len += more,
            }
        }
        Ok((metadata, len))
    }

    fn metadata(&self, name: &[u8]) -> io::Result<Metadata> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(metadata_of(&retry_on_intr(|| rustix::fs::statat(&self.fd, name, flags))?))
    }

    fn syncs_file_system(&self) -> io::Result<bool> {
        let kind = file_system_of(&self.fd)?;
        Ok(SYNCFS_REPORTS_ERRORS.contains(&kind) && kernel_is_at_least(5, 8))
    }

    fn sync_file_system(&self) -> io::Result<()> {
        if !self.syncs_file_system()? {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(retry_on_intr(|| rustix::fs::syncfs(&self.fd))?)
    }
}

fn open_at(
    dir: BorrowedFd<'_>,
    path: impl rustix::path::Arg + Copy,
    options: OpenOptions,
) -> io::Result<OwnedFd> {
    let mut flags = OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    flags |= if options.write { OFlags::RDWR } else { OFlags::RDONLY };
    flags.set(OFlags::CREATE, options.create.is_some());
    flags.set(OFlags::EXCL, options.create.is_some() && options.exclusive);
    flags.set(OFlags::TRUNC, options.truncate);
    flags.set(OFlags::NOFOLLOW, options.no_follow);
    let mode = Mode::from_raw_mode(options.create.unwrap_or(0));
    Ok(retry_on_intr(|| rustix::fs::openat(dir, path, flags, mode))?)
}

/// Opens or creates a file as root. A new file in a folder of another user is given to that user,
/// who could not use it otherwise: files of mailboxes, of the state and of caches alike. A dangling
/// symbolic link is not followed when creating. The folder is resolved only once, because its owner
/// may replace it at any time.
fn open_as_root(path: &Path, options: OpenOptions) -> io::Result<OwnedFd> {
    let Some(name) = path.file_name() else { return open_at(rustix::fs::CWD, path, options) };
    for _ in 0..CREATE_TRIES_MAX {
        if !options.exclusive {
            match open_at(rustix::fs::CWD, path, OpenOptions { create: None, ..options }) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => return result,
            }
        }
        let folder = open_parent(path)?;
        let new = OpenOptions { exclusive: true, no_follow: true, truncate: false, ..options };
        match open_at(folder.as_fd(), name, new) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !options.exclusive => {}
            result => {
                let fd = result?;
                give_to_owner_of(folder.as_fd(), fd.as_fd()).inspect_err(|_| {
                    // The first error is the one to report.
                    let _ = rustix::fs::unlinkat(&folder, name, AtFlags::empty());
                })?;
                return Ok(fd);
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Creates a directory in an open one, as root, and gives it to the owner of that.
fn create_dir_in(folder: BorrowedFd<'_>, name: &OsStr, mode: u32) -> io::Result<()> {
    retry_on_intr(|| rustix::fs::mkdirat(folder, name, Mode::from_raw_mode(mode)))?;
    let flags = OFlags::CLOEXEC | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let fd = retry_on_intr(|| rustix::fs::openat(folder, name, flags, Mode::empty()))?;
    give_to_owner_of(folder, fd.as_fd()).inspect_err(|_| {
        // The first error is the one to report.
        let _ = rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR);
    })
}

/// Opens the folder of `path`, so that later calls use it even if the path changes.
fn open_parent(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::CLOEXEC | OFlags::DIRECTORY | OFlags::PATH;
    Ok(retry_on_intr(|| rustix::fs::open(parent_of(path), flags, Mode::empty()))?)
}

/// Gives a new file or directory to the owner of its folder. Does nothing if that is not permitted
/// (a network file system that maps root to nobody, an owner that does not exist in the user
/// namespace), or for a directory on another file system, which cannot be the one just created.
fn give_to_owner_of(folder: BorrowedFd<'_>, fd: BorrowedFd<'_>) -> io::Result<()> {
    let (folder, made) = (fstat(folder)?, fstat(fd)?);
    let is_other = made.file_type == FileType::Dir && made.device != folder.device;
    if folder.uid == 0 || made.uid != 0 || is_other {
        return Ok(());
    }
    may(chown(fd, Some(folder.uid), Some(folder.gid))).map(drop)
}

fn chown(fd: BorrowedFd<'_>, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
    Ok(retry_on_intr(|| rustix::fs::fchown(fd, uid, gid))?)
}

fn open_dir_fd(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::CLOEXEC | OFlags::RDONLY | OFlags::DIRECTORY;
    Ok(retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))?)
}

pub(crate) fn fstat(fd: BorrowedFd<'_>) -> io::Result<Metadata> {
    Ok(metadata_of(&retry_on_intr(|| rustix::fs::fstat(fd))?))
}

fn read_xattr(get: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> io::Result<Option<Vec<u8>>> {
    for len in [XATTR_LEN_GUESS, XATTR_LEN_MAX] {
        let mut value = vec![0; len];
        match retry_on_intr(|| get(&mut value)) {
            Ok(len) => {
                value.truncate(len);
                return Ok(Some(value));
            }
            Err(Errno::NODATA | Errno::NOTSUP) => return Ok(None),
            Err(Errno::RANGE) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::RANGE.into())
}

fn absent_is_fine(removed: rustix::io::Result<()>) -> io::Result<()> {
    match removed {
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(()),
        result => Ok(result?),
    }
}

fn timestamps(accessed: Timestamp, modified: Timestamp) -> Timestamps {
    Timestamps { last_access: timespec(accessed), last_modification: timespec(modified) }
}

fn metadata_of(stat: &rustix::fs::Stat) -> Metadata {
    Metadata {
        file_type: file_type(rustix::fs::FileType::from_raw_mode(stat.st_mode)),
        inode: stat.st_ino,
        device: stat.st_dev,
        links: stat.st_nlink,
        size: stat.st_size as u64,
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        modified: timestamp(stat.st_mtime, stat.st_mtime_nsec as i64),
        changed: timestamp(stat.st_ctime, stat.st_ctime_nsec as i64),
        accessed: timestamp(stat.st_atime, stat.st_atime_nsec as i64),
        allocated: stat.st_blocks as u64 * 512,
    }
}

fn file_type(file_type: rustix::fs::FileType) -> FileType {
    match file_type {
        rustix::fs::FileType::RegularFile => FileType::File,
        rustix::fs::FileType::Directory => FileType::Dir,
        rustix::fs::FileType::Symlink => FileType::Symlink,
        _ => FileType::Other,
    }
}

/// Converts to nanoseconds; times outside the range of 64 bits are clamped.
fn timestamp(seconds: i64, nanos: i64) -> Timestamp {
    Timestamp { unix_nanos: seconds.saturating_mul(1_000_000_000).saturating_add(nanos) }
}

fn timespec(timestamp: Timestamp) -> Timespec {
    Timespec {
        tv_sec: timestamp.unix_seconds(),
        tv_nsec: timestamp.unix_nanos.rem_euclid(1_000_000_000),
    }
}

/// Renames unless the new name exists, on a file system without `RENAME_NOREPLACE`.
fn link_and_remove(from: &Path, to: &Path) -> io::Result<()> {
    match retry_on_intr(|| rustix::fs::link(from, to)) {
        Ok(()) => OsVfs.remove_file(from),
        Err(Errno::PERM | Errno::NOTSUP | Errno::NOSYS) => look_and_rename(&OsVfs, from, to),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_way_of_renaming_replaces_a_file() {
        type Rename = fn(&Path, &Path) -> io::Result<()>;
        let ways: [Rename; 3] = [
            |from, to| OsVfs.rename_new(from, to),
            link_and_remove,
            |from, to| look_and_rename(&OsVfs, from, to),
        ];
        let dir = std::env::temp_dir().join(format!("barid-rename-{}", std::process::id()));
        OsVfs.create_dir(&dir, 0o700).unwrap();
        let put = |name: &str, content: &[u8]| {
            let path = dir.join(name);
            OsVfs
                .open(&path, OpenOptions::create(0o600))
                .unwrap()
                .write_all_at(content, 0)
                .unwrap();
            path
        };
        for rename in ways {
            let (from, taken, free) = (put("from", b"1"), put("taken", b"2"), dir.join("free"));
            assert_eq!(rename(&from, &taken).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(OsVfs.read(&taken, 9).unwrap(), b"2");
            assert_eq!(OsVfs.read(&from, 9).unwrap(), b"1");
            rename(&from, &free).unwrap();
            assert_eq!(OsVfs.read(&free, 9).unwrap(), b"1");
            assert_eq!(rename(&from, &dir.join("x")).unwrap_err().kind(), io::ErrorKind::NotFound);
            assert_eq!(OsVfs.metadata(&free).unwrap().links, 1);
            OsVfs.remove_file(&free).unwrap();
            OsVfs.remove_file(&taken).unwrap();
        }
        // A folder, which cannot have a second link, is renamed nevertheless.
        let (from, to) = (dir.join("folder"), dir.join("other"));
        OsVfs.create_dir(&from, 0o700).unwrap();
        link_and_remove(&from, &to).unwrap();
        OsVfs.remove_dir(&to).unwrap();
        OsVfs.remove_dir(&dir).unwrap();
    }

    #[test]
    fn a_folder_that_is_exchanged_gives_nothing_else_away() {
        const EVE: u32 = 54_321;
        let dir = std::env::temp_dir().join(format!("barid-exchange-{}", std::process::id()));
        let (folder, victim) = (dir.join("box"), dir.join("victim"));
        for path in [&dir, &folder, &victim, &victim.join("new")] {
            retry_on_intr(|| rustix::fs::mkdir(path, Mode::from_raw_mode(0o700))).unwrap();
        }
        let open = open_parent(&folder.join("new")).unwrap();
        if user() == 0 {
            rustix::fs::chown(&folder, Some(Uid::from_raw(EVE)), None).unwrap();
        }
        OsVfs.rename(&folder, &dir.join("moved")).unwrap();
        rustix::fs::symlink(&victim, &folder).unwrap();
        create_dir_in(open.as_fd(), OsStr::new("new"), 0o700).unwrap();
        let owner = |path: &str| OsVfs.metadata(&dir.join(path)).unwrap().uid;
        assert_eq!((owner("victim/new"), owner("victim")), (user(), user()));
        assert_eq!(owner("moved/new"), if user() == 0 { EVE } else { user() });
        OsVfs.remove_file(&folder).unwrap();
        for path in ["moved/new", "moved", "victim/new", "victim", ""] {
            OsVfs.remove_dir(&dir.join(path)).unwrap();
        }
    }

    #[test]
    fn a_fifo_in_a_mailbox_does_not_hang() {
        let vfs = OsVfs;
        let dir = std::env::temp_dir().join(format!("barid-fifo-{}", std::process::id()));
        vfs.create_dir(&dir, 0o700).unwrap();
        let path = dir.join("fifo");
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let open = vfs.open_dir(&dir).unwrap();
        let (metadata, len) = open.read_head(b"fifo", &mut [0; 9]).unwrap();
        assert_eq!((metadata.file_type, len), (FileType::Other, 0));
        let file = vfs.open(&path, OpenOptions::READ).unwrap();
        assert!(file.read_at(&mut [0; 9], 0).is_err());
        vfs.remove_file(&path).unwrap();
        vfs.remove_dir(&dir).unwrap();
    }

    #[test]
    fn times_before_1970_and_beyond_2262_are_kept_in_bounds() {
        for (seconds, nanos, expected) in
            [(-2, 5, -1_999_999_995), (i64::MAX, 0, i64::MAX), (i64::MIN, 0, i64::MIN)]
        {
            assert_eq!(timestamp(seconds, nanos).unix_nanos, expected);
        }
        let spec = timespec(Timestamp { unix_nanos: -1_999_999_995 });
        assert_eq!((spec.tv_sec, spec.tv_nsec), (-2, 5));
    }
}
