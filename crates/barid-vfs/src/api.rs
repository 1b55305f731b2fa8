//! The traits. Object-safe and in plain types; errors are plain [`io::Error`]s, and the caller adds
//! the path. Every implementation repeats calls that a signal interrupted (`EINTR`), so that no
//! caller ever sees [`io::ErrorKind::Interrupted`].

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::watch::Watch;

/// A point in time: nanoseconds since 1970-01-01 00:00:00 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Nanoseconds since 1970; good until the year 2262.
    pub unix_nanos: i64,
}

impl Timestamp {
    /// The whole seconds, rounded towards the past.
    pub const fn unix_seconds(self) -> i64 {
        self.unix_nanos.div_euclid(1_000_000_000)
    }
}

/// What kind of thing a directory entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
    /// Anything else, or not told by the file system.
    Other,
}

/// What `stat` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// The kind of file.
    pub file_type: FileType,
    /// The inode number.
    pub inode: u64,
    /// The device number. It changes at reboot on device-mapper, btrfs and NFS, so it never says
    /// which file this is; it is here for lock files that other programs name by it.
    pub device: u64,
    /// How many names the file has.
    pub links: u64,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// The user id of the owner.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
    /// Last change of the content.
    pub modified: Timestamp,
    /// Last change of the inode.
    pub changed: Timestamp,
    /// Last read.
    pub accessed: Timestamp,
    /// Bytes allocated on the disk.
    pub allocated: u64,
}

/// The part of [`Metadata`] that tells whether a file is still the same and unchanged.
///
/// The device number is left out: it changes at reboot on device-mapper, btrfs and NFS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStamp {
    /// The inode number; 0 stands for a file that does not exist.
    pub inode: u64,
    /// Size in bytes.
    pub size: u64,
    /// Last change of the content.
    pub modified: Timestamp,
    /// Last change of the inode; unlike `modified` it cannot be put back.
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

/// How to open a file; reading is always allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Allow writing.
    pub write: bool,
    /// Create the file if it is missing, with this mode (before umask).
    pub create: Option<u32>,
    /// With `create`: fail if the file exists.
    pub exclusive: bool,
    /// Cut the file to nothing.
    pub truncate: bool,
    /// Fail if the last component is a symbolic link.
    pub no_follow: bool,
    /// With `create`: leave a new file of the superuser to him, rather than give it to the owner of
    /// the folder.
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

/// Which of the kernel's locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// An open-file-description lock on the whole file: it conflicts with other programs' `fcntl`
    /// locks, and unlike those it does not vanish when another descriptor of the file is closed.
    Fcntl,
    /// A BSD `flock`.
    Flock,
}

/// Shared or exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Many may hold it.
    Shared,
    /// One may hold it.
    Exclusive,
}

/// A process as lock files and unique file names show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The process id.
    pub pid: u32,
    /// The name of the host (`uname -n`).
    pub host: String,
}

/// A file system, and the clock of the machine it is on.
pub trait Vfs: Debug + Send + Sync {
    /// Opens a file.
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Box<dyn File>>;
    /// Opens a directory for listing and for opening many of its files.
    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn Dir>>;
    /// `stat`: follows symbolic links.
    fn metadata(&self, path: &Path) -> io::Result<Metadata>;
    /// `lstat`: does not follow symbolic links.
    fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata>;
    /// The absolute path without symbolic links.
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf>;
    /// Creates a directory; its parent must exist.
    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()>;
    /// Renames within a file system, replacing what is there. Not durable before
    /// [`Vfs::sync_dir`] of the directories.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Renames, unless something has the new name already; fails with
    /// [`io::ErrorKind::AlreadyExists`] then. An implementation that does not say otherwise looks
    /// before it renames.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        look_and_rename(self, from, to)
    }
    /// Gives a file a second name; fails if that exists.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a name of a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a name of each of many files, in no certain order, and returns the result of each.
    ///
    /// Removing the last name of a file may wait for the disk (blocks are discarded, or an inode is
    /// written); an implementation may let many of these waits pass at the same time. Not durable
    /// before [`Vfs::sync_dir`] of the directories, as [`Vfs::remove_file`].
    fn remove_files(&self, paths: &[PathBuf]) -> Vec<io::Result<()>> {
        paths.iter().map(|path| self.remove_file(path)).collect()
    }
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes the entries of a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// The value of an extended attribute; `None` if it is absent or the file system has none.
    fn xattr(&self, path: &Path, name: &str) -> io::Result<Option<Vec<u8>>>;
    /// Sets an extended attribute.
    fn set_xattr(&self, path: &Path, name: &str, value: &[u8]) -> io::Result<()>;
    /// Sets an extended attribute that is absent; of several that try at once one succeeds, and the
    /// others get [`io::ErrorKind::AlreadyExists`].
    fn create_xattr(&self, path: &Path, name: &str, value: &[u8]) -> io::Result<()>;
    /// Removes an extended attribute.
    fn remove_xattr(&self, path: &Path, name: &str) -> io::Result<()>;
    /// Sets access and modification time.
    fn set_times(&self, path: &Path, accessed: Timestamp, modified: Timestamp) -> io::Result<()>;
    /// The bytes that may still be written to the file system that holds `path`, which must exist.
    fn free_space(&self, path: &Path) -> io::Result<u64>;
    /// The bytes of the file system that holds `path`, which must exist, free or not.
    fn total_space(&self, path: &Path) -> io::Result<u64>;
    /// The size of a block of the file system that holds `path`, which must exist: what offset and
    /// length of [`File::collapse`] have to be multiples of.
    fn block_size(&self, path: &Path) -> io::Result<u64>;
    /// Whether the file system that holds `path` is known to do what [`File::collapse`] promises of
    /// a crash; others may collapse ranges in ways of their own.
    fn collapses(&self, path: &Path) -> bool {
        crate::os::collapses(path)
    }
    /// The time now.
    fn now(&self) -> Timestamp;
    /// Waits.
    fn sleep(&self, duration: Duration);

    /// Who this process is, as lock files name it. Doubles give a fixed answer.
    fn process(&self) -> Process {
        crate::os::process()
    }

    /// The effective user id of this process. Doubles give the one they were told.
    fn user(&self) -> u32 {
        crate::os::user()
    }

    /// Whether a process of this host lives (`kill` with signal 0). Doubles know only their own.
    fn process_alive(&self, pid: u32) -> bool {
        crate::os::process_alive(pid)
    }

    /// When this machine was started, as far as the system tells; by its clock of now, so a clock
    /// that was set since moves it. Doubles were started when they were made.
    fn boot_time(&self) -> Option<Timestamp> {
        crate::os::boot_time()
    }

    /// Whether `path` is on a file system that only this machine has mounted, and whose times are
    /// those of its clock. What is not known to be so is not.
    fn is_local(&self, path: &Path) -> bool {
        crate::os::is_local(path)
    }

    /// What waits until something happens to files.
    ///
    /// # Errors
    /// `Unsupported` where that cannot be told, as by doubles; what the system says.
    fn watch(&self) -> io::Result<Box<dyn Watch>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Fills `bytes` with random ones. Doubles draw them from a seed.
    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        crate::os::random(bytes)
    }

    /// Creates a directory and its missing parents.
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

    /// Reads a whole file of at most `size_max` bytes; a larger one is an error.
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

/// Looks whether something has the new name, and else renames.
pub(crate) fn look_and_rename<V: Vfs + ?Sized>(vfs: &V, from: &Path, to: &Path) -> io::Result<()> {
    match vfs.symlink_metadata(to) {
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => vfs.rename(from, to),
        Err(error) => Err(error),
    }
}

/// An open file. Reads and writes name their offset; there is no position.
pub trait File: Debug + Send + Sync {
    /// Reads at most `buffer.len()` bytes at `offset`; 0 at the end.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at `offset`; may write less than asked.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// `fstat`.
    fn metadata(&self) -> io::Result<Metadata>;
    /// Cuts or extends the file.
    fn set_len(&self, size: u64) -> io::Result<()>;
    /// Reserves disk blocks for a range and extends the size where needed. New bytes are zeros, and
    /// until something is written there they are a hole to [`File::first_hole`].
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Takes a range of whole blocks out of the file; what follows moves down and the file gets
    /// shorter (`fallocate` with `COLLAPSE_RANGE`). Other bytes than these are neither read nor
    /// written.
    ///
    /// Not atomic over a crash before the next sync: then blocks from `offset` to some h may have
    /// moved down, a hole of `len` bytes stands at h, and the size is the old one. The hole may
    /// reach the end of the file: all has moved, but the size did not follow.
    ///
    /// # Errors
    /// `Unsupported` where the file system cannot; `InvalidInput` if offset or length are not
    /// multiples of [`Vfs::block_size`], or if the range reaches the end of the file.
    fn collapse(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Where the first hole at or after `from` begins (`SEEK_HOLE`); `None` if there is none before
    /// the end, and where the file system cannot tell. Blocks that were reserved but never written
    /// are holes, too. Exact only after a sync.
    fn first_hole(&self, from: u64) -> io::Result<Option<u64>>;
    /// Sets access and modification time (`futimens`).
    fn set_times(&self, accessed: Timestamp, modified: Timestamp) -> io::Result<()>;
    /// Like [`Vfs::xattr`], of this file whatever its name is by now.
    fn xattr(&self, name: &str) -> io::Result<Option<Vec<u8>>>;
    /// Like [`Vfs::set_xattr`], of this file, which must be open for writing.
    fn set_xattr(&self, name: &str, value: &[u8]) -> io::Result<()>;
    /// Like [`Vfs::remove_xattr`], of this file, which must be open for writing.
    fn remove_xattr(&self, name: &str) -> io::Result<()>;
    /// Makes content and size durable (`fdatasync`).
    fn sync_data(&self) -> io::Result<()>;
    /// Makes content and all metadata durable (`fsync`).
    fn sync_all(&self) -> io::Result<()>;
    /// Returns `true` if [`File::sync_all`] makes the name durable, too, by which this file was
    /// created: then no `fsync` of its folder is needed after the first. ext4 and XFS do; neither
    /// POSIX nor ext2 promises it.
    ///
    /// # Errors
    /// The error of the file system.
    fn syncs_name(&self) -> io::Result<bool>;
    /// Takes a lock on the whole file without waiting, or changes its mode; `false` if another
    /// holds it. Released when the file is dropped.
    fn try_lock(&self, kind: LockKind, mode: LockMode) -> io::Result<bool>;
    /// Releases a lock.
    fn unlock(&self, kind: LockKind) -> io::Result<()>;

    /// Tells the system that a range will be read soon, so that it may fetch it meanwhile. A hint:
    /// nothing waits, and nothing is promised.
    fn prefetch(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Sets the permission bits, whatever the umask. Without effect where there are none.
    fn set_mode(&self, mode: u32) -> io::Result<()> {
        let _ = mode;
        Ok(())
    }

    /// Sets owner and group, as far as they are given (`fchown`). Without effect where there are
    /// none.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] for all but the superuser and, of a group that one is
    /// in, the owner.
    fn set_owner(&self, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
        let _ = (uid, gid);
        Ok(())
    }

    /// Reads until `buffer` is full or the file ends; returns how much.
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

    /// Fills `buffer`; an early end is `UnexpectedEof`.
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
    /// Visits every entry but `.` and `..`, in the order of the file system, from the beginning.
    /// `visit` may open files of the directory but not list it again.
    fn list(&self, visit: &mut dyn FnMut(&[u8], FileType)) -> io::Result<()>;
    /// Opens a file of the directory.
    fn open(&self, name: &[u8], options: OpenOptions) -> io::Result<Box<dyn File>>;
    /// Opens, stats, reads the first `buffer.len()` bytes and closes: the call for visiting many
    /// small files. Returns what `fstat` said and how many bytes were read.
    fn read_head(&self, name: &[u8], buffer: &mut [u8]) -> io::Result<(Metadata, usize)>;
    /// `lstat` of an entry.
    fn metadata(&self, name: &[u8]) -> io::Result<Metadata>;
    /// Whether [`Dir::sync_file_system`] is to be had here. To be asked before files are written
    /// that it is to make durable: a file that was closed may have lost its error.
    ///
    /// # Errors
    /// What the system says of the file system.
    fn syncs_file_system(&self) -> io::Result<bool>;
    /// Makes everything durable that was written to the file system of the directory (`syncfs`):
    /// contents and names of many files for the price of one barrier. Whatever others have written
    /// there meanwhile costs time, too.
    ///
    /// # Errors
    /// `Unsupported` where the system would not tell of everything that could not be written since
    /// the directory was opened: then each file is to be synced.
    fn sync_file_system(&self) -> io::Result<()>;
}
