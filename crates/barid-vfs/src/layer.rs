//! A layer over a file system that sees every call before it is made.

use std::fmt::Debug;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::api::{
    Dir, File, FileType, LockKind, LockMode, Metadata, OpenOptions, Process, Timestamp, Vfs,
};
use crate::watch::Watch;

/// A kind of system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallKind {
    /// Opening a file or directory.
    Open,
    /// Closing one.
    Close,
    /// `stat`, `lstat`, `fstat`, `statvfs`, looking for holes.
    Stat,
    /// Reading of a file.
    Read,
    /// Writing of a file.
    Write,
    /// Reading entries of a directory: one per [`Dir::list`], since how many the kernel needs
    /// depends on the length of the names (64 KB of them each).
    List,
    /// Cutting, reserving or collapsing.
    Resize,
    /// `fsync`, `fdatasync`, of a file or directory; `syncfs`.
    Sync,
    /// Renaming, linking, unlinking, making directories.
    Name,
    /// Reading or writing an extended attribute.
    Xattr,
    /// Setting times.
    Times,
    /// Taking or releasing a kernel lock.
    Lock,
    /// Resolving a path to its canonical form, whatever number of calls that takes.
    Canonicalize,
}

/// What a layer does about calls.
pub(crate) trait Hook: Clone + Debug + Send + Sync + 'static {
    /// Sees a call; an error is the call's result, without it being made.
    fn before(&self, kind: CallKind, path: &Path) -> io::Result<Verdict>;

    /// Sees that bytes were read or written.
    fn moved(&self, _path: &Path, _read: usize, _written: usize) {}
}

/// What a hook lets a call do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is made.
    Make,
    /// A read or write is made with half of the bytes, one at least; other calls are made.
    Halve,
    /// A sync succeeds without being made; other calls are made.
    Skip,
}

impl Verdict {
    /// How many of `len` bytes a call may read or write.
    fn shorten(self, len: usize) -> usize {
        if self == Self::Halve { len.div_ceil(2) } else { len }
    }

    /// Makes a sync, or does not.
    fn sync(self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if self == Self::Skip { Ok(()) } else { sync() }
    }
}

/// A file system seen through a hook: [`crate::CountingVfs`] or [`crate::FaultVfs`]. Clones share
/// the hook.
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

    /// The wrapped file system.
    pub fn inner(&self) -> &V {
        &self.inner
    }
}

impl<V: Vfs, H: Hook> Vfs for Layer<V, H> {
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Box<dyn File>> {
        self.hook.before(CallKind::Open, path)?;
        let inner = self.inner.open(path, options)?;
        Ok(Box::new(LayerFile { inner, path: path.to_owned(), hook: self.hook.clone() }))
    }

    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn Dir>> {
        self.hook.before(CallKind::Open, path)?;
        let inner = self.inner.open_dir(path)?;
        Ok(Box::new(LayerDir { inner, path: path.to_owned(), hook: self.hook.clone() }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.hook.before(CallKind::Stat, path)?;
        self.inner.metadata(path)
    }

    fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.hook.before(CallKind::Stat, path)?;
        self.inner.symlink_metadata(path)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.hook.before(CallKind::Canonicalize, path)?;
        self.inner.canonicalize(path)
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.hook.before(CallKind::Name, path)?;
        self.inner.create_dir(path, mode)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.hook.before(CallKind::Name, from)?;
        self.inner.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.hook.before(CallKind::Name, from)?;
        self.inner.rename_new(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.hook.before(CallKind::Name, from)?;
        self.inner.hard_link(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.hook.before(CallKind::Name, path)?;
        self.inner.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.hook.before(CallKind::Name, path)?;
        self.inner.remove_dir(path)
    }

    /// Counts an open, a sync and a close.
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.hook.before(CallKind::Open, path)?;
        let verdict = self.hook.before(CallKind::Sync, path)?;
        self.hook.before(CallKind::Close, path)?;
        verdict.sync(|| self.inner.sync_dir(path))
    }

    fn xattr(&self, path: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.hook.before(CallKind::Xattr, path)?;
        self.inner.xattr(path, name)
    }

    fn set_xattr(&self, path: &Path, name: &str, value: &[u8]) -> io::Result<()> {
        self.hook.before(CallKind::Xattr, path)?;
        self.inner.set_xattr(path, name, value)
    }

    fn create_xattr(&self, path: &Path, name: &str, value: &[u8]) -> io::Result<()> {
        self.hook.before(CallKind::Xattr, path)?;
        self.inner.create_xattr(path, name, value)
    }

    fn remove_xattr(&self, path: &Path, name: &str) -> io::Result<()> {
        self.hook.before(CallKind::Xattr, path)?;
        self.inner.remove_xattr(path, name)
    }

    fn set_times(&self, path: &Path, accessed: Timestamp, modified: Timestamp) -> io::Result<()> {
        self.hook.before(CallKind::Times, path)?;
        self.inner.set_times(path, accessed, modified)
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        self.hook.before(CallKind::Stat, path)?;
        self.inner.free_space(path)
    }

    fn total_space(&self, path: &Path) -> io::Result<u64> {
        self.hook.before(CallKind::Stat, path)?;
        self.inner.total_space(path)
    }

    fn block_size(&self, path: &Path) -> io::Result<u64> {
        self.hook.before(CallKind::Stat, path)?;
        self.inner.block_size(path)
    }

    fn collapses(&self, path: &Path) -> bool {
        self.inner.collapses(path)
    }

    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    fn sleep(&self, duration: Duration) {
        self.inner.sleep(duration);
    }

    fn process(&self) -> Process {
        self.inner.process()
    }

    fn user(&self) -> u32 {
        self.inner.user()
    }

    fn process_alive(&self, pid: u32) -> bool {
        self.inner.process_alive(pid)
    }

    fn boot_time(&self) -> Option<Timestamp> {
        self.inner.boot_time()
    }

    fn is_local(&self, path: &Path) -> bool {
        self.inner.is_local(path)
    }

    fn watch(&self) -> io::Result<Box<dyn Watch>> {
        self.inner.watch()
    }

    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.inner.random(bytes)
    }
}

#[derive(Debug)]
struct LayerFile<H: Hook> {
    inner: Box<dyn File>,
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

    /// A hint changes nothing, and so is neither counted nor made to fail.
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
        // A close that fails tells nobody.
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
        let inner = self.inner.open(name, options)?;
        Ok(Box::new(LayerFile { inner, path, hook: self.hook.clone() }))
    }

    /// Counts an open, and if that worked a stat, a read and a close.
    fn read_head(&self, name: &[u8], buffer: &mut [u8]) -> io::Result<(Metadata, usize)> {
        let path = self.path_of(name);
        self.hook.before(CallKind::Open, &path)?;
        let (metadata, len) = self.inner.read_head(name, buffer)?;
        for kind in [CallKind::Stat, CallKind::Read, CallKind::Close] {
            self.hook.before(kind, &path)?;
        }
        self.hook.moved(&path, len, 0);
        Ok((metadata, len))
    }

    fn metadata(&self, name: &[u8]) -> io::Result<Metadata> {
        self.hook.before(CallKind::Stat, &self.path_of(name))?;
        self.inner.metadata(name)
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
        // A close that fails tells nobody.
        let _ = self.hook.before(CallKind::Close, &self.path);
    }
}
