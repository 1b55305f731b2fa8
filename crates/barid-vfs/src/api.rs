//! The traits [`Vfs`], [`File`] and [`Dir`], which are object-safe. Errors are plain
//! [`io::Error`]s; the caller adds the path. Every implementation repeats calls that a signal
//! interrupted (`EINTR`), so that callers never get [`io::ErrorKind::Interrupted`].

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::host::Host;
use crate::watch::Watch;

/// A point in time: nanoseconds since 1970-01-01 00:00:00 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Nanoseconds since 1970; reaches to the year 2262.
    pub unix_nanos: i64,
}

impl Timestamp {
    /// Returns the Unix time in seconds, rounded down.
    pub const fn unix_seconds(self) -> i64 {
        self.unix_nanos.div_euclid(1_000_000_000)
    }

    /// Returns `true` if `now` is less than `time` after this, and not before it.
    pub fn is_within(self, time: Duration, now: Self) -> bool {
        let age = u64::try_from(now.unix_nanos.saturating_sub(self.unix_nanos));
        age.is_ok_and(|age| Duration::from_nanos(age) < time)
    }
}

/// Type of a file or directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// Any other type, or one that the file system does not report.
    Other,
}

/// Metadata of a file, as returned by `stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// The kind of file.
    pub file_type: FileType,
    /// The inode number.
    pub inode: u64,
    /// The device number. It may change at reboot on device-mapper, btrfs and NFS, so it cannot
    /// identify a file; some programs use it in the names of lock files.
    pub device: u64,
    /// Number of hard links.
    pub links: u64,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// The user id of the owner.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
    /// Last change of the content (`mtime`).
    pub modified: Timestamp,
    /// Last change of the inode (`ctime`).
    pub changed: Timestamp,
    /// Last read (`atime`).
    pub accessed: Timestamp,
    /// Bytes allocated on the disk.
    pub allocated: u64,
}

/// The part of [`Metadata`] that shows whether a file was replaced or changed.
///
/// It has no device number, which may change at reboot on device-mapper, btrfs and NFS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStamp {
    /// The inode number; 0 stands for a file that does not exist.
    pub inode: u64,
    /// Size in bytes.
    pub size: u64,
    /// Last change of the content (`mtime`).
    pub modified: Timestamp,
    /// Last change of the inode (`ctime`); unlike `modified`, programs cannot set it.
    pub changed: Timestamp,
}

impl From<&Metadata> for FileStamp {
    fn from(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.inode,
            size: metadata.size,
            modified: metadata.modified,
            changed: metadata.changed,
        }
    }
}

/// Options for opening a file; reading is always allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// `true` to allow writing.
    pub write: bool,
    /// Create the file if it is missing, with this mode (before umask).
    pub create: Option<u32>,
    /// With `create`: `true` to fail if the file exists.
    pub exclusive: bool,
    /// `true` to truncate the file to 0 bytes.
    pub truncate: bool,
    /// `true` to fail if the last component is a symbolic link.
    pub no_follow: bool,
    /// With `create`: `true` to leave a new file that root creates to root, instead of giving it to
    /// the owner of the folder.
    pub keep_owner: bool,
}

impl OpenOptions {
    /// Reads an existing file.
    pub const READ: Self = Self {
        write: false,
        create: None,
        exclusive: false,
        truncate: false,
        no_follow: false,
        keep_owner: false,
    };
    /// Reads and writes an existing file.
    pub const WRITE: Self = Self { write: true, ..Self::READ };

    /// Reads and writes a file that must not exist yet.
    pub const fn create_new(mode: u32) -> Self {
        Self { create: Some(mode), exclusive: true, ..Self::WRITE }
    }

    /// Reads and writes a file, which is created if it is missing.
    pub const fn create(mode: u32) -> Self {
        Self { create: Some(mode), ..Self::WRITE }
    }
}

/// Kind of kernel lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// An open-file-description lock on the whole file: it conflicts with other programs' `fcntl`
    /// locks, and unlike those it does not vanish when another descriptor of the file is closed.
    Fcntl,
    /// A BSD `flock`.
    Flock,
}

/// Mode of a lock: shared or exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Many may hold it.
    Shared,
    /// One may hold it.
    Exclusive,
}

/// A file system, and the machine that it is on.
pub trait Vfs: Host {
    /// Opens a file.
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Box<dyn File>>;
    /// Opens a directory for listing and for opening many of its files.
    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn Dir>>;
    /// Returns the metadata of a file, following symbolic links (`stat`).
    fn metadata(&self, path: &Path) -> io::Result<Metadata>;
    /// Returns the metadata of a file, without following symbolic links (`lstat`).
    fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata>;
    /// Returns the absolute path without symbolic links.
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf>;
    /// Creates a directory; its parent must exist.
    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()>;
    /// Renames within a file system, replacing a file of the new name. Durable only after
    /// [`Vfs::sync_dir`] of the directories.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Renames; fails with [`io::ErrorKind::AlreadyExists`] if the new name exists. The default
    /// implementation is not atomic: it checks before it renames.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        look_and_rename(self, from, to)
    }
    /// Gives a file a second name; fails if that exists.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Creates a symbolic link at `path`; fails if that exists.
    ///
    /// # Errors
    /// `Unsupported` by default; errors of the system.
    fn symbolic_link(&self, target: &Path, path: &Path) -> io::Result<()> {
        let _ = (target, path);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    /// As [`Vfs::symbolic_link`]; `InvalidInput` if it is not one.
    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        let _ = path;
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Removes a name of a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes many files, in any order, and returns the result of each in the order of `paths`.
    ///
    /// Removing the last name of a file may wait for the disk (blocks are discarded, or an inode is
    /// written); an implementation may remove files in parallel. Like [`Vfs::remove_file`], durable
    /// only after [`Vfs::sync_dir`] of the directories.
    fn remove_files(&self, paths: &[PathBuf]) -> Vec<io::Result<()>> {
        paths.iter().map(|path| self.remove_file(path)).collect()
    }
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes the entries of a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Returns the value of an extended attribute; `None` if it is absent or the file system has no
    /// attributes.
    fn xattr(&self, path: &Path, name: &str) -> io::Result<Option<Vec<u8>>>;
    /// Sets an extended attribute.
    fn set_xattr(&self, path: &Path, name: &str, value: &[u8]) -> io::Result<()>;
    /// Sets an extended attribute that is absent. If several processes try at once, one succeeds
    /// and the others fail with [`io::ErrorKind::AlreadyExists`].
    fn create_xattr(&self, path: &Path, name: &str, value: &[u8]) -> io::Result<()>;
    /// Removes an extended attribute.
    fn remove_xattr(&self, path: &Path, name: &str) -> io::Result<()>;
    /// Sets access and modification time.
    fn set_times(&self, path: &Path, accessed: Timestamp, modified: Timestamp) -> io::Result<()>;
    /// Returns the free bytes of the file system of `path`, which must exist.
    fn free_space(&self, path: &Path) -> io::Result<u64>;
    /// Returns the total bytes of the file system of `path`, which must exist.
    fn total_space(&self, path: &Path) -> io::Result<u64>;
    /// Returns the block size in bytes of the file system of `path`, which must exist: offset and
    /// length of [`File::collapse`] must be multiples of it.
    fn block_size(&self, path: &Path) -> io::Result<u64>;
    /// Returns `true` if the file system of `path` is known to keep the guarantees of
    /// [`File::collapse`] over a crash.
    fn collapses(&self, path: &Path) -> bool;

    /// Returns `true` if `path` is on a file system that is known to be mounted by this machine
    /// only, and to take its times from this machine's clock.
    fn is_local(&self, path: &Path) -> bool;

    /// Returns a new [`Watch`], which waits for changes of files.
    ///
    /// # Errors
    /// `Unsupported` if files cannot be watched, as in test doubles; errors of the system.
    fn watch(&self) -> io::Result<Box<dyn Watch>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Creates a directory and its missing parents. Succeeds if it exists.
    fn create_dir_all(&self, path: &Path, mode: u32) -> io::Result<()> {
        match self.create_dir(path, mode) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                self.create_dir_all(parent.ok_or(error)?, mode)?;
                match self.create_dir(path, mode) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                    result => result,
                }
            }
            result => result,
        }
    }

    /// Reads a whole file; fails with `FileTooLarge` if it has more than `size_max` bytes.
    fn read(&self, path: &Path, size_max: u64) -> io::Result<Vec<u8>> {
        let file = self.open(path, OpenOptions::READ)?;
        let size = file.metadata()?.size;
        if size > size_max {
            let what = format!("the file is too large: {size} bytes, more than {size_max}");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
        }
        let mut bytes = vec![0; size as usize];
        let len = file.read_full_at(&mut bytes, 0)?;
        bytes.truncate(len);
        Ok(bytes)
    }
}

/// Renames after checking that the new name does not exist. Not atomic.
pub(crate) fn look_and_rename<V: Vfs + ?Sized>(vfs: &V, from: &Path, to: &Path) -> io::Result<()> {
    match vfs.symlink_metadata(to) {
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => vfs.rename(from, to),
        Err(error) => Err(error),
    }
}

/// An open file. Reads and writes take an offset; there is no file position.
pub trait File: Debug + Send + Sync {
    /// Reads at most `buffer.len()` bytes at `offset`; returns their number, which is 0 at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at `offset`; returns the number of bytes written, which may be less than
    /// `bytes.len()`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Returns the metadata of the file (`fstat`).
    fn metadata(&self) -> io::Result<Metadata>;
    /// Truncates or extends the file to `size` bytes.
    fn set_len(&self, size: u64) -> io::Result<()>;
    /// Reserves disk blocks for a range and extends the size if needed (`fallocate`). New bytes are
    /// zeros, and until they are written, [`File::first_hole`] reports them as a hole.
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Removes a range of whole blocks from the file; the bytes after it move down and the file
    /// gets shorter (`fallocate` with `COLLAPSE_RANGE`). No other data is read or written.
    ///
    /// Not atomic if a crash comes before the next sync: then the file may have its old size and a
    /// hole of `len` bytes at some offset h, with blocks between `offset` and h moved down. The
    /// hole may reach the end of the file: all blocks have moved, but the size is not updated yet.
    ///
    /// # Errors
    /// `Unsupported` if the file system does not support it; `InvalidInput` if offset or length is
    /// not a multiple of [`Vfs::block_size`], or if the range reaches the end of the file.
    fn collapse(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Returns the offset of the first hole at or after `from` (`SEEK_HOLE`); `None` if there is
    /// none before the end, or the file system does not report holes. Blocks that were reserved but
    /// never written are holes, too. Exact only after a sync.
    fn first_hole(&self, from: u64) -> io::Result<Option<u64>>;
    /// Sets access and modification time (`futimens`).
    fn set_times(&self, accessed: Timestamp, modified: Timestamp) -> io::Result<()>;
    /// Returns an attribute as [`Vfs::xattr`] does, for this open file, even if it was renamed.
    fn xattr(&self, name: &str) -> io::Result<Option<Vec<u8>>>;
    /// Sets an attribute as [`Vfs::set_xattr`] does, for this open file, which must be open for
    /// writing.
    fn set_xattr(&self, name: &str, value: &[u8]) -> io::Result<()>;
    /// Removes an attribute as [`Vfs::remove_xattr`] does, for this open file, which must be open
    /// for writing.
    fn remove_xattr(&self, name: &str) -> io::Result<()>;
    /// Makes content and size durable (`fdatasync`).
    fn sync_data(&self) -> io::Result<()>;
    /// Makes content and all metadata durable (`fsync`).
    fn sync_all(&self) -> io::Result<()>;
    /// Returns `true` if [`File::sync_all`] also makes the name durable under which this file was
    /// created, so that its folder needs no `fsync` after the first. ext4 and XFS do this; neither
    /// POSIX nor ext2 guarantees it.
    ///
    /// # Errors
    /// The error of the file system.
    fn syncs_name(&self) -> io::Result<bool>;
    /// Takes a lock on the whole file without waiting, or changes the mode of one that is held;
    /// returns `false` if another holder conflicts. Dropping the file releases the lock.
    fn try_lock(&self, kind: LockKind, mode: LockMode) -> io::Result<bool>;
    /// Releases a lock.
    fn unlock(&self, kind: LockKind) -> io::Result<()>;

    /// Hints that a range will be read soon, so that the system may read it ahead
    /// (`posix_fadvise`). Never waits and never fails.
    fn prefetch(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Sets the permission bits, regardless of the umask. The default implementation does nothing.
    fn set_mode(&self, mode: u32) -> io::Result<()> {
        let _ = mode;
        Ok(())
    }

    /// Sets owner and group, if given (`fchown`). The default implementation does nothing.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`], except for root, and for an owner who sets a group to
    /// which the owner belongs.
    fn set_owner(&self, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
        let _ = (uid, gid);
        Ok(())
    }

    /// Reads until `buffer` is full or the file ends; returns the number of bytes read.
    fn read_full_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut len = 0;
        while len < buffer.len() {
            match self.read_at(&mut buffer[len..], offset + len as u64)? {
                0 => break,
                more => len += more,
            }
        }
        Ok(len)
    }

    /// Fills `buffer`; fails with `UnexpectedEof` if the file ends first.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self.read_full_at(buffer, offset)? {
            len if len == buffer.len() => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Writes all of `bytes`.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut len = 0;
        while len < bytes.len() {
            match self.write_at(&bytes[len..], offset + len as u64)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                more => len += more,
            }
        }
        Ok(())
    }
}

/// An open directory. Names are single components, as bytes.
pub trait Dir: Debug + Send + Sync {
    /// Visits every entry except `.` and `..`, in the order of the file system. `visit` may open
    /// files of the directory, but must not list it again.
    fn list(&self, visit: &mut dyn FnMut(&[u8], FileType)) -> io::Result<()>;
    /// Opens a file of the directory.
    fn open(&self, name: &[u8], options: OpenOptions) -> io::Result<Box<dyn File>>;
    /// Opens a file, reads its metadata and its first `buffer.len()` bytes, and closes it, for
    /// visiting many small files. Returns the metadata and the number of bytes read.
    fn read_head(&self, name: &[u8], buffer: &mut [u8]) -> io::Result<(Metadata, usize)>;
    /// Returns the metadata of an entry, without following symbolic links (`lstat`).
    fn metadata(&self, name: &[u8]) -> io::Result<Metadata>;
    /// Returns `true` if [`Dir::sync_file_system`] is supported here. Check this before writing the
    /// files that it must make durable: a write error of a file that is closed already may be lost.
    ///
    /// # Errors
    /// The error of `fstatfs`.
    fn syncs_file_system(&self) -> io::Result<bool>;
    /// Makes everything durable that was written to the file system of the directory (`syncfs`):
    /// contents and names of many files with one barrier. It also waits for the writes of other
    /// processes.
    ///
    /// # Errors
    /// `Unsupported` if the system does not report every write error since the directory was
    /// opened: then sync each file.
    fn sync_file_system(&self) -> io::Result<()>;
}
