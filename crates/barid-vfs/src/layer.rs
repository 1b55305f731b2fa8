//! A wrapper of a file system that calls a hook before every call.

use std::fmt::Debug;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::api::{Dir, File, FileType, LockKind, LockMode, Metadata, OpenOptions, Timestamp, Vfs};
use crate::host::{Host, Process};
use crate::watch::Watch;

/// A kind of system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallKind {
    /// Opening a file or directory.
    Open,
    /// Closing a file or directory.
    Close,
    /// `stat`, `lstat`, `fstat`, `statvfs`, and searching for holes.
    Stat,
    /// Reading of a file.
    Read,
    /// Writing of a file.
    Write,
    /// Listing a directory: one per [`Dir::list`]. The number of system calls depends on the length
    /// of the names (64 KB of entries each).
    List,
    /// `ftruncate`, and `fallocate` to reserve or collapse blocks.
    Resize,
    /// `fsync`, `fdatasync`, of a file or directory; `syncfs`.
    Sync,
    /// Renaming, linking, unlinking, creating directories; setting mode or owner of an open file.
    Name,
    /// Reading or writing an extended attribute.
    Xattr,
    /// Setting times.
    Times,
    /// Taking or releasing a kernel lock.
    Lock,
    /// Resolving a path to its canonical form, whatever number of system calls that takes.
    Canonicalize,
}

/// A hook that observes calls and may change their effect.
pub(crate) trait Hook: Clone + Debug + Send + Sync + 'static {
    /// Observes a call. With an error, the call is not made and fails with that error.
    fn before(&self, kind: CallKind, path: &Path) -> io::Result<Verdict>;

    /// Observes that bytes were read or written.
    fn moved(&self, _path: &Path, _read: usize, _written: usize) {}

    /// Returns the open file that replaces the one at a path.
    fn stand_in(&self, _path: &Path) -> Option<Arc<dyn File>> {
        None
    }
}

/// The decision of a hook about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The call is made.
    Make,
    /// A read or write is made with half of the bytes, at least one; other calls are made.
    Halve,
    /// A sync succeeds without being made; other calls are made.
    Skip,
}

impl Verdict {
    /// Returns the number of `len` bytes that a call may read or write.
    fn shorten(self, len: usize) -> usize {
        if self == Self::Halve { len.div_ceil(2) } else { len }
    }

    /// Calls `sync` unless it is to be skipped.
    fn sync(self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if self == Self::Skip { Ok(()) } else { sync() }
    }
}

/// A file system with a hook: [`crate::CountingVfs`], [`crate::FaultVfs`] or
/// [`crate::StopVfs`]. Clones share the hook.
#[derive(Clone, Debug)]
pub struct Layer<V, H> {
    inner: V,
    hook: H,
}

impl<V, H> Layer<V, H> {
    pub(crate) fn with_hook(inner: V, hook: H) -> Self {
        Self { inner, hook }
    }

    pub(crate) fn hook(&self) -> &H {
        &self.hook
    }

    /// Returns the wrapped file system.
    pub fn inner(&self) -> &V {
        &self.inner
    }
}

/// A file system that a [`Layer`] wraps, by itself or shared.
pub trait Inner: Debug + Send + Sync {
    /// Returns the file system.
    fn vfs(&self) -> &dyn Vfs;
}

impl<V: Vfs> Inner for V {
    fn vfs(&self) -> &dyn Vfs {
        self
    }
}

impl Inner for Arc<dyn Vfs> {
    fn vfs(&self) -> &dyn Vfs {
        &**self
    }
}

impl<V: Inner, H: Hook> Host for Layer<V, H> {
    fn now(&self) -> Timestamp {
        self.inner.vfs().now()
    }

    fn sleep(&self, duration: Duration) {
        self.inner.vfs().sleep(duration);
    }

    fn process(&self) -> Process {
        self.inner.vfs().process()
    }

    fn user(&self) -> u32 {
        self.inner.vfs().user()
    }

    fn process_alive(&self, pid: u32) -> bool {
        self.inner.vfs().process_alive(pid)
    }

    fn boot_time(&self) -> Option<Timestamp> {
        self.inner.vfs().boot_time()
    }

    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.inner.vfs().random(bytes)
    }
}

impl<V: Inner, H: Hook> Vfs for Layer<V, H> {
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Box<dyn File>> {
        self.hook.before(CallKind::Open, path)?;
        let inner = match self.hook.stand_in(path) {
            Some(file) => file,
            None => self.inner.vfs().open(path, options)?.into(),
        };
        Ok(Box::new(LayerFile { inner, path: path.to_owned(), hook: self.hook.clone() }))
    }

    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn Dir>> {
        self.hook.before(CallKind::Open, path)?;
        let inner = self.inner.vfs().open_dir(path)?;
        Ok(Box::new(LayerDir { inner, path: path.to_owned(), hook: self.hook.clone() }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.hook.before(CallKind::Stat, path)?;
        match self.hook.stand_in(path) {
            Some(file) => file.metadata(),
            None => self.inner.vfs().metadata(path),
        }
    }

    fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.hook.before(CallKind::Stat, path)?;
        match self.hook.stand_in(path) {
            Some(file) => file.metadata(),
            None => self.inner.vfs().symlink_metadata(path),
        }
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.hook.before(CallKind::Canonicalize, path)?;
        self.inner.vfs().canonicalize(path)
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.hook.before(CallKind::Name, path)?;
        self.inner.vfs().create_dir(path, mode)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.hook.before(CallKind::Name, from)?;
        self.inner.vfs().rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.hook.before(CallKind::Name, from)?;
        self.inner.vfs().rename_new(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.hook.before(CallKind::Name, from)?;
        self.inner.vfs().hard_link(from, to)
    }

    fn symbolic_link(&self, target: &Path, path: &Path) -> io::Result<()> {
        self.hook.before(CallKind::Name, path)?;
        self.inner.vfs().symbolic_link(target, path)
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.hook.before(CallKind::Stat, path)?;
        self.inner.vfs().read_link(path)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.hook.before(CallKind::Name, path)?;
        self.inner.vfs().remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.hook.before(CallKind::Name, path)?;
        self.inner.vfs().remove_dir(path)
    }

    /// Counts an open, a sync and a close.
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.hook.before(CallKind::Open, path)?;
        let verdict = self.hook.before(CallKind::Sync, path)?;
        self.hook.before(CallKind::Close, path)?;
        verdict.sync(|| self.inner.vfs().sync_dir(path))
    }

    fn xattr(&self, path: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.hook.before(CallKind::Xattr, path)?;
        self.inner.vfs().xattr(path, name)
    }

    fn set_xattr(&self, path: &Path, name: &str, value: &[u8]) -> io::Result<()> {
        self.hook.before(CallKind::Xattr, path)?;
        self.inner.vfs().set_xattr(path, name, value)
    }

    fn create_xattr(&self, path: &Path, name: &str, value: &[u8]) -> io::Result<()> {
        self.hook.before(CallKind::Xattr, path)?;
        self.inner.vfs().create_xattr(path, name, value)
    }

    fn remove_xattr(&self, path: &Path, name: &str) -> io::Result<()> {
        self.hook.before(CallKind::Xattr, path)?;
        self.inner.vfs().remove_xattr(path, name)
    }

    fn set_times(&self, path: &Path, accessed: Timestamp, modified: Timestamp) -> io::Result<()> {
        self.hook.before(CallKind::Times, path)?;
        self.inner.vfs().set_times(path, accessed, modified)
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        self.hook.before(CallKind::Stat, path)?;
        self.inner.vfs().free_space(path)
    }

    fn total_space(&self, path: &Path) -> io::Result<u64> {
        self.hook.before(CallKind::Stat, path)?;
        self.inner.vfs().total_space(path)
    }

    fn block_size(&self, path: &Path) -> io::Result<u64> {
        self.hook.before(CallKind::Stat, path)?;
        self.inner.vfs().block_size(path)
    }

    fn collapses(&self, path: &Path) -> bool {
        self.inner.vfs().collapses(path)
    }

    fn is_local(&self, path: &Path) -> bool {
        self.inner.vfs().is_local(path)
    }

    fn watch(&self) -> io::Result<Box<dyn Watch>> {
        self.inner.vfs().watch()
    }
}

#[derive(Debug)]
struct LayerFile<H: Hook> {
    inner: Arc<dyn File>,
    path: PathBuf,
    hook: H,
}

impl<H: Hook> File for LayerFile<H> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let verdict = self.hook.before(CallKind::Read, &self.path)?;
        let wanted = verdict.shorten(buffer.len());
        let len = self.inner.read_at(&mut buffer[..wanted], offset)?;
        self.hook.moved(&self.path, len, 0);
        Ok(len)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let verdict = self.hook.before(CallKind::Write, &self.path)?;
        let len = self.inner.write_at(&bytes[..verdict.shorten(bytes.len())], offset)?;
        self.hook.moved(&self.path, 0, len);
        Ok(len)
    }

    fn metadata(&self) -> io::Result<Metadata> {
        self.hook.before(CallKind::Stat, &self.path)?;
        self.inner.metadata()
    }

    fn set_len(&self, size: u64) -> io::Result<()> {
        self.hook.before(CallKind::Resize, &self.path)?;
        self.inner.set_len(size)
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.hook.before(CallKind::Resize, &self.path)?;
        self.inner.allocate(offset, len)
    }

    fn collapse(&self, offset: u64, len: u64) -> io::Result<()> {
        self.hook.before(CallKind::Resize, &self.path)?;
        self.inner.collapse(offset, len)
    }

    /// Counts as a `stat`.
    fn first_hole(&self, from: u64) -> io::Result<Option<u64>> {
        self.hook.before(CallKind::Stat, &self.path)?;
        self.inner.first_hole(from)
    }

    fn set_times(&self, accessed: Timestamp, modified: Timestamp) -> io::Result<()> {
        self.hook.before(CallKind::Times, &self.path)?;
        self.inner.set_times(accessed, modified)
    }

    fn xattr(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.hook.before(CallKind::Xattr, &self.path)?;
        self.inner.xattr(name)
    }

    fn set_xattr(&self, name: &str, value: &[u8]) -> io::Result<()> {
        self.hook.before(CallKind::Xattr, &self.path)?;
        self.inner.set_xattr(name, value)
    }

    fn remove_xattr(&self, name: &str) -> io::Result<()> {
        self.hook.before(CallKind::Xattr, &self.path)?;
        self.inner.remove_xattr(name)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.hook.before(CallKind::Sync, &self.path)?.sync(|| self.inner.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.hook.before(CallKind::Sync, &self.path)?.sync(|| self.inner.sync_all())
    }

    fn syncs_name(&self) -> io::Result<bool> {
        self.inner.syncs_name()
    }

    fn try_lock(&self, kind: LockKind, mode: LockMode) -> io::Result<bool> {
        self.hook.before(CallKind::Lock, &self.path)?;
        self.inner.try_lock(kind, mode)
    }

    fn unlock(&self, kind: LockKind) -> io::Result<()> {
        self.hook.before(CallKind::Lock, &self.path)?;
        self.inner.unlock(kind)
    }

    /// A hint has no effect on the result, so it is neither counted nor made to fail.
    fn prefetch(&self, offset: u64, len: u64) {
        self.inner.prefetch(offset, len);
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.hook.before(CallKind::Name, &self.path)?;
        self.inner.set_mode(mode)
    }

    fn set_owner(&self, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
        self.hook.before(CallKind::Name, &self.path)?;
        self.inner.set_owner(uid, gid)
    }
}

impl<H: Hook> Drop for LayerFile<H> {
    fn drop(&mut self) {
        // An error of closing is not reported.
        let _ = self.hook.before(CallKind::Close, &self.path);
    }
}

#[derive(Debug)]
struct LayerDir<H: Hook> {
    inner: Box<dyn Dir>,
    path: PathBuf,
    hook: H,
}

impl<H: Hook> LayerDir<H> {
    fn path_of(&self, name: &[u8]) -> PathBuf {
        self.path.join(std::ffi::OsStr::from_bytes(name))
    }
}

impl<H: Hook> Dir for LayerDir<H> {
    fn list(&self, visit: &mut dyn FnMut(&[u8], FileType)) -> io::Result<()> {
        self.hook.before(CallKind::List, &self.path)?;
        self.inner.list(visit)
    }

    fn open(&self, name: &[u8], options: OpenOptions) -> io::Result<Box<dyn File>> {
        let path = self.path_of(name);
        self.hook.before(CallKind::Open, &path)?;
        let inner = match self.hook.stand_in(&path) {
            Some(file) => file,
            None => self.inner.open(name, options)?.into(),
        };
        Ok(Box::new(LayerFile { inner, path, hook: self.hook.clone() }))
    }

    /// Counts an open, and, if it succeeds, a stat, a read and a close.
    fn read_head(&self, name: &[u8], buffer: &mut [u8]) -> io::Result<(Metadata, usize)> {
        let path = self.path_of(name);
        self.hook.before(CallKind::Open, &path)?;
        let (metadata, len) = match self.hook.stand_in(&path) {
            Some(file) => (file.metadata()?, file.read_full_at(buffer, 0)?),
            None => self.inner.read_head(name, buffer)?,
        };
        for kind in [CallKind::Stat, CallKind::Read, CallKind::Close] {
            self.hook.before(kind, &path)?;
        }
        self.hook.moved(&path, len, 0);
        Ok((metadata, len))
    }

    fn metadata(&self, name: &[u8]) -> io::Result<Metadata> {
        let path = self.path_of(name);
        self.hook.before(CallKind::Stat, &path)?;
        match self.hook.stand_in(&path) {
            Some(file) => file.metadata(),
            None => self.inner.metadata(name),
        }
    }

    fn syncs_file_system(&self) -> io::Result<bool> {
        self.inner.syncs_file_system()
    }

    fn sync_file_system(&self) -> io::Result<()> {
        let verdict = self.hook.before(CallKind::Sync, &self.path)?;
        verdict.sync(|| self.inner.sync_file_system())
    }
}

impl<H: Hook> Drop for LayerDir<H> {
    fn drop(&mut self) {
        // An error of closing is not reported.
        let _ = self.hook.before(CallKind::Close, &self.path);
    }
}
