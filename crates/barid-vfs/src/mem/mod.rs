//! A file system in memory.
//!
//! It has files, directories, hard links, symbolic links, extended attributes and locks. Its clock
//! advances only when set, or by a tick with each change. Used by `--no-cache` and by tests. No
//! user is privileged: a file or directory without any `w` bit cannot be written. Relative paths
//! start at `/`.

pub(crate) mod content;
mod file;
pub(crate) mod log;
pub(crate) mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use rustix::io::Errno;

use self::file::{MemDir, MemFile};
use self::log::Op;
use self::tree::{Directory, Meta, Node, ROOT, Tree};
use crate::api::{Dir, File, FileType, Metadata, OpenOptions, Timestamp, Vfs};
use crate::host::{Host, Process};
use crate::limits::BLOCK_LEN;

/// Initial time of the clock: 2025-06-15 15:06:40 UTC.
const START: Timestamp = Timestamp { unix_nanos: 1_750_000_000_000_000_000 };
/// Initial process id.
const PID: u32 = 4242;
/// Initial user id, which owns new files.
pub(crate) const USER: u32 = 1000;
/// The host name.
const HOST: &str = "memory";

/// A file system in memory; clones are handles of the same one.
#[derive(Clone, Debug)]
pub struct MemVfs {
    shared: Arc<Shared>,
    pid: u32,
    user: u32,
}

#[derive(Debug)]
struct Shared {
    tree: RwLock<Tree>,
    clock_nanos: AtomicI64,
    tick_nanos: AtomicI64,
    granularity_nanos: AtomicI64,
    next_handle: AtomicU64,
    random: AtomicU64,
    xattrs: AtomicBool,
    hard_links: AtomicBool,
    collapse: AtomicBool,
    syncs_file_system: AtomicBool,
    syncs_names: AtomicBool,
    local: AtomicBool,
    boot_nanos: AtomicI64,
    collapses: AtomicBool,
    /// Free bytes of the disk; `u64::MAX` is unlimited.
    free: AtomicU64,
    alive: Mutex<BTreeSet<u32>>,
    /// The log for [`crate::CrashVfs`]; `None` if nothing is recorded.
    log: Option<Mutex<Vec<Op>>>,
}

impl Default for MemVfs {
    fn default() -> Self {
        Self::new()
    }
}

impl MemVfs {
    /// Creates a file system that has only `/`.
    pub fn new() -> Self {
        Self::of_tree(Tree::new(START), START, false)
    }

    pub(crate) fn of_tree(tree: Tree, now: Timestamp, recording: bool) -> Self {
        let shared = Shared {
            tree: RwLock::new(tree),
            clock_nanos: AtomicI64::new(now.unix_nanos),
            tick_nanos: AtomicI64::new(1_000),
            granularity_nanos: AtomicI64::new(1),
            next_handle: AtomicU64::new(1),
            random: AtomicU64::new(now.unix_nanos as u64),
            xattrs: AtomicBool::new(true),
            hard_links: AtomicBool::new(true),
            collapse: AtomicBool::new(true),
            syncs_file_system: AtomicBool::new(true),
            syncs_names: AtomicBool::new(false),
            local: AtomicBool::new(true),
            boot_nanos: AtomicI64::new(now.unix_nanos),
            collapses: AtomicBool::new(true),
            free: AtomicU64::new(u64::MAX),
            alive: Mutex::new(BTreeSet::from([PID])),
            log: recording.then(Mutex::default),
        };
        Self { shared: Arc::new(shared), pid: PID, user: USER }
    }

    /// Returns an independent copy without locks. Bytes are shared until written, so the cost
    /// depends on the number of files, not on their size.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        self.with_tree(self.tree().snapshot())
    }

    /// Returns a new file system with the same settings and time, and the files of `tree`.
    pub(crate) fn with_tree(&self, tree: Tree) -> Self {
        self.settings_to(Self::of_tree(tree, self.now(), false))
    }

    /// Returns the same machine after a reboot, with the files of `tree`. Former processes are
    /// dead.
    pub(crate) fn rebooted(&self, tree: Tree) -> Self {
        let mut world = self.with_tree(tree);
        world.pid = self.pid + 1;
        *world.alive() = BTreeSet::from([world.pid]);
        world
    }

    /// Returns a snapshot that records all changes in its log.
    pub(crate) fn recording_copy(&self) -> Self {
        self.settings_to(Self::of_tree(self.tree().snapshot(), self.now(), true))
    }

    fn settings_to(&self, mut copy: Self) -> Self {
        (copy.pid, copy.user) = (self.pid, self.user);
        copy.alive().clone_from(&self.alive());
        for (to, from) in [
            (&copy.shared.tick_nanos, &self.shared.tick_nanos),
            (&copy.shared.granularity_nanos, &self.shared.granularity_nanos),
            (&copy.shared.boot_nanos, &self.shared.boot_nanos),
        ] {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        copy.shared.random.store(self.shared.random.load(Ordering::Relaxed), Ordering::Relaxed);
        copy.set_xattrs(self.shared.xattrs.load(Ordering::Relaxed));
        copy.set_hard_links(self.shared.hard_links.load(Ordering::Relaxed));
        copy.set_syncs_names(self.shared.syncs_names.load(Ordering::Relaxed));
        copy.set_local(self.shared.local.load(Ordering::Relaxed));
        copy.set_syncs_file_system(self.shared.syncs_file_system.load(Ordering::Relaxed));
        copy.set_collapse(self.shared.collapse.load(Ordering::Relaxed));
        copy.set_collapses(self.shared.collapses.load(Ordering::Relaxed));
        copy.shared.free.store(self.shared.free.load(Ordering::Relaxed), Ordering::Relaxed);
        copy
    }

    /// Sets the clock.
    pub fn set_now(&self, now: Timestamp) {
        self.shared.clock_nanos.store(now.unix_nanos, Ordering::Relaxed);
    }

    /// Sets the time by which each change of a file or directory advances the clock; initially 1
    /// µs.
    pub fn set_tick(&self, tick: Duration) {
        self.shared.tick_nanos.store(nanos(tick), Ordering::Relaxed);
    }

    /// Sets the granularity of file times, like that of the kernel's coarse clock (4 ms); initially
    /// 1 ns.
    pub fn set_granularity(&self, granularity: Duration) {
        self.shared.granularity_nanos.store(nanos(granularity).max(1), Ordering::Relaxed);
    }

    /// Sets whether extended attributes are supported; initially `true`.
    pub fn set_xattrs(&self, supported: bool) {
        self.shared.xattrs.store(supported, Ordering::Relaxed);
    }

    /// Sets whether hard links are supported; initially `true`. If not, `hard_link` fails with
    /// `EPERM`.
    pub fn set_hard_links(&self, supported: bool) {
        self.shared.hard_links.store(supported, Ordering::Relaxed);
    }

    /// Sets the result of [`Vfs::collapses`]; initially `true`.
    pub fn set_collapses(&self, known: bool) {
        self.shared.collapses.store(known, Ordering::Relaxed);
    }

    /// Sets whether [`File::collapse`] is supported, with blocks of 4,096 bytes; initially `true`.
    pub fn set_collapse(&self, supported: bool) {
        self.shared.collapse.store(supported, Ordering::Relaxed);
    }

    /// Sets whether [`Dir::sync_file_system`](crate::Dir::sync_file_system) is supported; initially
    /// `true`.
    pub fn set_syncs_file_system(&self, supported: bool) {
        self.shared.syncs_file_system.store(supported, Ordering::Relaxed);
    }

    /// Sets whether an `fsync` of a new file makes its name durable; initially `false`.
    pub fn set_syncs_names(&self, does: bool) {
        self.shared.syncs_names.store(does, Ordering::Relaxed);
    }

    /// Sets the free space of the disk in bytes; initially, and with `None`, it is unlimited.
    /// Writes that do not fit fail with `StorageFull`; truncating a file frees space.
    pub fn set_free_space(&self, bytes: Option<u64>) {
        self.shared.free.store(bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Subtracts the growth of a file from `before` to `after` bytes from the free space, or adds
    /// it back.
    fn charge(&self, before: u64, after: u64) -> io::Result<()> {
        let charged = |free: u64| match free {
            u64::MAX => Some(free),
            _ => free.saturating_add(before).checked_sub(after),
        };
        let free = &self.shared.free;
        let done = free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, charged);
        done.map(drop).map_err(|_| Errno::NOSPC.into())
    }

    /// Changes the permission bits of a file or directory, regardless of its owner.
    pub fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        let node = self.tree().find(ROOT, path, true)?.existing()?;
        self.change_meta(&node, |meta| meta.mode = mode);
        Ok(())
    }

    /// Sets permission bits; fails with `EPERM` unless the user is the owner or root.
    fn put_mode(&self, node: &Node, mode: u32) -> io::Result<()> {
        self.check_owner(node)?;
        self.change_meta(node, |meta| meta.mode = mode);
        Ok(())
    }

    fn check_owner(&self, node: &Node) -> io::Result<()> {
        match self.user != 0 && self.user != node.read().meta.uid {
            true => Err(Errno::PERM.into()),
            false => Ok(()),
        }
    }

    fn change_meta(&self, node: &Node, change: impl FnOnce(&mut Meta)) {
        let now = self.tick();
        let mut state = node.write();
        change(&mut state.meta);
        state.meta.changed = now;
        self.record_meta(node.number, &state.meta);
    }

    fn put_xattr(&self, node: &Node, name: &str, value: &[u8], new: bool) -> io::Result<()> {
        if !self.shared.xattrs.load(Ordering::Relaxed) {
            return Err(Errno::NOTSUP.into());
        }
        let now = self.tick();
        let mut state = node.write();
        if state.meta.mode & 0o222 == 0 {
            return Err(Errno::ACCESS.into());
        }
        if new && state.xattrs.contains_key(name) {
            return Err(Errno::EXIST.into());
        }
        state.xattrs.insert(name.to_owned(), value.to_vec());
        state.meta.changed = now;
        let inode = node.number;
        self.record(|| Op::Xattr { inode, name: name.to_owned(), value: Some(value.to_vec()) });
        Ok(())
    }

    fn get_xattr(&self, node: &Node, name: &str) -> Option<Vec<u8>> {
        let value = node.read().xattrs.get(name).cloned();
        value.filter(|_| self.shared.xattrs.load(Ordering::Relaxed))
    }

    fn drop_xattr(&self, node: &Node, name: &str) {
        let now = self.tick();
        let mut state = node.write();
        if state.xattrs.remove(name).is_some() {
            state.meta.changed = now;
            let inode = node.number;
            self.record(|| Op::Xattr { inode, name: name.to_owned(), value: None });
        }
    }

    fn put_times(&self, node: &Node, accessed: Timestamp, modified: Timestamp) -> io::Result<()> {
        self.check_owner(node)?;
        self.change_meta(node, |meta| (meta.accessed, meta.modified) = (accessed, modified));
        Ok(())
    }

    /// Creates a symbolic link; fails if the name exists.
    pub fn symlink(&self, target: &Path, path: &Path) -> io::Result<()> {
        use std::os::unix::ffi::OsStrExt;
        let mut tree = self.tree_mut();
        let found = tree.find(ROOT, path, false)?;
        found.vacant()?;
        tree.writable_dir(found.dir)?;
        let now = self.tick();
        let node = tree.create(FileType::Symlink, 0o777, now);
        node.write().meta.uid = self.user;
        let bytes: Arc<[u8]> = target.as_os_str().as_bytes().into();
        node.write().content.write(0, &bytes);
        self.record(|| Op::Create { inode: node.number, file_type: FileType::Symlink });
        self.record(|| Op::Write { inode: node.number, offset: 0, bytes });
        tree.link(found.dir, &found.name, &node, now)?;
        self.record(|| Op::Link { dir: found.dir, name: found.name, inode: node.number, at: now });
        Ok(())
    }

    /// Returns a handle of another process of the same host, which is alive until
    /// [`MemVfs::end_process`].
    #[must_use]
    pub fn as_process(&self, pid: u32) -> Self {
        self.alive().insert(pid);
        Self { shared: Arc::clone(&self.shared), pid, user: self.user }
    }

    /// Returns a handle of another user, who owns the files that it creates, and may set times and
    /// permission bits of own files only. Initially the user is 1000.
    #[must_use]
    pub fn as_user(&self, user: u32) -> Self {
        Self { shared: Arc::clone(&self.shared), pid: self.pid, user }
    }

    /// Sets the boot time to now. Processes and locks are not changed.
    pub fn set_booted_now(&self) {
        self.shared.boot_nanos.store(self.now().unix_nanos, Ordering::Relaxed);
    }

    /// Sets the result of [`Vfs::is_local`]; initially `true`.
    pub fn set_local(&self, local: bool) {
        self.shared.local.store(local, Ordering::Relaxed);
    }

    /// Makes [`crate::Host::process_alive`] return `false` for a process. Its handles stay open.
    pub fn end_process(&self, pid: u32) {
        self.alive().remove(&pid);
    }

    fn alive(&self) -> std::sync::MutexGuard<'_, BTreeSet<u32>> {
        self.shared.alive.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tree(&self) -> RwLockReadGuard<'_, Tree> {
        self.shared.tree.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn tree_mut(&self) -> RwLockWriteGuard<'_, Tree> {
        self.shared.tree.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Advances the clock by a tick and returns the new time, rounded to the granularity of file
    /// times.
    fn tick(&self) -> Timestamp {
        let tick = self.shared.tick_nanos.load(Ordering::Relaxed);
        let now = self.shared.clock_nanos.fetch_add(tick, Ordering::Relaxed) + tick;
        let granularity = self.shared.granularity_nanos.load(Ordering::Relaxed);
        Timestamp { unix_nanos: now - now.rem_euclid(granularity) }
    }

    /// Calls `read` with the log, which is empty if nothing is recorded.
    pub(crate) fn with_log<T>(&self, read: impl FnOnce(&[Op]) -> T) -> T {
        match &self.shared.log {
            Some(log) => read(&log.lock().unwrap_or_else(PoisonError::into_inner)),
            None => read(&[]),
        }
    }

    fn record(&self, op: impl FnOnce() -> Op) {
        if let Some(log) = &self.shared.log {
            log.lock().unwrap_or_else(PoisonError::into_inner).push(op());
        }
    }

    fn record_meta(&self, inode: u64, meta: &Meta) {
        self.record(|| Op::Meta { inode, meta: *meta });
    }

    fn open_from(
        &self,
        start: u64,
        path: &Path,
        options: OpenOptions,
    ) -> io::Result<Box<dyn File>> {
        let found = self.tree().find(start, path, !options.no_follow)?;
        let node = match (found.node, options.create) {
            (None, None) => return Err(Errno::NOENT.into()),
            (Some(_), Some(_)) if options.exclusive => return Err(Errno::EXIST.into()),
            (Some(node), _) => node,
            (None, Some(mode)) => {
                let mut tree = self.tree_mut();
                let found = tree.find(start, path, !options.no_follow)?;
                match found.node {
                    Some(_) if options.exclusive => return Err(Errno::EXIST.into()),
                    Some(node) => node,
                    None => {
                        tree.writable_dir(found.dir)?;
                        let now = self.tick();
                        let node = tree.create(FileType::File, mode, now);
                        node.write().meta.uid = self.user;
                        self.record(|| Op::Create {
                            inode: node.number,
                            file_type: FileType::File,
                        });
                        self.record_meta(node.number, &node.read().meta);
                        tree.link(found.dir, &found.name, &node, now)?;
                        let (dir, name) = (found.dir, found.name);
                        self.record(|| Op::Link { dir, name, inode: node.number, at: now });
                        return Ok(self.handle(node, options.write));
                    }
                }
            }
        };
        match node.file_type {
            FileType::Symlink => return Err(Errno::LOOP.into()),
            FileType::Dir if options.write => return Err(Errno::ISDIR.into()),
            _ => {}
        }
        if options.write && node.read().meta.mode & 0o222 == 0 {
            return Err(Errno::ACCESS.into());
        }
        let file = self.handle(node, options.write);
        if options.truncate {
            file.set_len(0)?;
        }
        Ok(file)
    }

    fn handle(&self, node: Arc<tree::Node>, write: bool) -> Box<dyn File> {
        let handle = self.shared.next_handle.fetch_add(1, Ordering::Relaxed);
        Box::new(MemFile { vfs: self.clone(), node, handle, write })
    }

    /// Returns the node of an existing path, following symbolic links.
    fn node(&self, path: &Path) -> io::Result<Arc<tree::Node>> {
        self.tree().find(ROOT, path, true)?.existing()
    }
}

impl Host for MemVfs {
    fn now(&self) -> Timestamp {
        Timestamp { unix_nanos: self.shared.clock_nanos.load(Ordering::Relaxed) }
    }

    /// Advances the clock; does not wait.
    fn sleep(&self, duration: Duration) {
        self.shared.clock_nanos.fetch_add(nanos(duration), Ordering::Relaxed);
    }

    fn process(&self) -> Process {
        Process { pid: self.pid, host: HOST.to_owned() }
    }

    fn user(&self) -> u32 {
        self.user
    }

    fn process_alive(&self, pid: u32) -> bool {
        self.alive().contains(&pid)
    }

    fn boot_time(&self) -> Option<Timestamp> {
        Some(Timestamp { unix_nanos: self.shared.boot_nanos.load(Ordering::Relaxed) })
    }

    /// Generates bytes by SplitMix64, from the same seed in every new file system.
    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        for chunk in bytes.chunks_mut(8) {
            let seed = self.shared.random.fetch_add(1, Ordering::Relaxed);
            let word = split_mix(seed);
            chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

impl Vfs for MemVfs {
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Box<dyn File>> {
        self.open_from(ROOT, path, options)
    }

    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn Dir>> {
        let node = self.node(path)?;
        match node.file_type {
            FileType::Dir => Ok(Box::new(MemDir { vfs: self.clone(), number: node.number })),
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        Ok(self.node(path)?.metadata())
    }

    fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
        Ok(self.tree().find(ROOT, path, false)?.existing()?.metadata())
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        use std::os::unix::ffi::OsStrExt;
        let tree = self.tree();
        let found = tree.find(ROOT, path, true)?;
        let node = found.node.as_ref().ok_or(Errno::NOENT)?;
        match node.file_type {
            FileType::Dir => tree.path_of(node.number),
            _ => Ok(tree.path_of(found.dir)?.join(std::ffi::OsStr::from_bytes(&found.name))),
        }
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        let mut tree = self.tree_mut();
        let found = tree.find(ROOT, path, false)?;
        found.vacant()?;
        tree.writable_dir(found.dir)?;
        let now = self.tick();
        let node = tree.create(FileType::Dir, mode, now);
        node.write().meta.uid = self.user;
        tree.dirs.insert(node.number, Directory { parent: found.dir, entries: BTreeMap::new() });
        self.record(|| Op::Create { inode: node.number, file_type: FileType::Dir });
        self.record_meta(node.number, &node.read().meta);
        tree.link(found.dir, &found.name, &node, now)?;
        self.record(|| Op::Link { dir: found.dir, name: found.name, inode: node.number, at: now });
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut tree = self.tree_mut();
        let from = tree.find(ROOT, from, false)?;
        let to = tree.find(ROOT, to, false)?;
        let node = from.node.ok_or(Errno::NOENT)?;
        if from.name.is_empty() || to.name.is_empty() {
            return Err(Errno::BUSY.into());
        }
        if tree.is_within(to.dir, node.number) {
            return Err(Errno::INVAL.into());
        }
        if let Some(replaced) = &to.node {
            if replaced.number == node.number {
                return Ok(());
            }
            if tree.is_within(from.dir, replaced.number) {
                return Err(Errno::NOTEMPTY.into());
            }
            match (node.file_type, replaced.file_type) {
                (FileType::Dir, FileType::Dir) => {
                    let empty =
                        tree.dirs.get(&replaced.number).is_none_or(|d| d.entries.is_empty());
                    if !empty {
                        return Err(Errno::NOTEMPTY.into());
                    }
                }
                (FileType::Dir, _) => return Err(Errno::NOTDIR.into()),
                (_, FileType::Dir) => return Err(Errno::ISDIR.into()),
                _ => {}
            }
        }
        tree.writable_dir(from.dir)?;
        tree.writable_dir(to.dir)?;
        let now = self.tick();
        tree.link(to.dir, &to.name, &node, now)?;
        tree.unlink(from.dir, &from.name, now)?;
        self.record(|| Op::Rename {
            from: (from.dir, from.name),
            to: (to.dir, to.name),
            inode: node.number,
            replaced: to.node.map(|node| node.number),
            at: now,
        });
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut tree = self.tree_mut();
        let node = tree.find(ROOT, from, false)?.existing()?;
        let to = tree.find(ROOT, to, false)?;
        to.vacant()?;
        if node.file_type == FileType::Dir || !self.shared.hard_links.load(Ordering::Relaxed) {
            return Err(Errno::PERM.into());
        }
        let now = self.tick();
        tree.link(to.dir, &to.name, &node, now)?;
        self.record(|| Op::Link { dir: to.dir, name: to.name, inode: node.number, at: now });
        Ok(())
    }

    fn symbolic_link(&self, target: &Path, path: &Path) -> io::Result<()> {
        self.symlink(target, path)
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        use std::os::unix::ffi::OsStrExt;
        let node = self.tree().find(ROOT, path, false)?.existing()?;
        if node.file_type != FileType::Symlink {
            return Err(Errno::INVAL.into());
        }
        let target = Arc::clone(&node.read().content.bytes);
        Ok(PathBuf::from(std::ffi::OsStr::from_bytes(&target)))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut tree = self.tree_mut();
        let found = tree.find(ROOT, path, false)?;
        let node = found.node.ok_or(Errno::NOENT)?;
        if node.file_type == FileType::Dir {
            return Err(Errno::ISDIR.into());
        }
        let now = self.tick();
        let inode = tree.unlink(found.dir, &found.name, now)?;
        self.record(|| Op::Unlink { dir: found.dir, name: found.name, inode, at: now });
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let mut tree = self.tree_mut();
        let found = tree.find(ROOT, path, false)?;
        let node = found.node.ok_or(Errno::NOENT)?;
        if !tree.dirs.get(&node.number).ok_or(Errno::NOTDIR)?.entries.is_empty() {
            return Err(Errno::NOTEMPTY.into());
        }
        let now = self.tick();
        let inode = tree.unlink(found.dir, &found.name, now)?;
        self.record(|| Op::Unlink { dir: found.dir, name: found.name, inode, at: now });
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let node = self.node(path)?;
        match node.file_type {
            FileType::Dir => self.record(|| Op::SyncDir { inode: node.number }),
            _ => return Err(Errno::NOTDIR.into()),
        }
        Ok(())
    }

    fn xattr(&self, path: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
        let node = self.node(path)?;
        Ok(self.get_xattr(&node, name))
    }

    fn set_xattr(&self, path: &Path, name: &str, value: &[u8]) -> io::Result<()> {
        let node = self.node(path)?;
        self.put_xattr(&node, name, value, false)
    }

    fn create_xattr(&self, path: &Path, name: &str, value: &[u8]) -> io::Result<()> {
        let node = self.node(path)?;
        self.put_xattr(&node, name, value, true)
    }

    fn remove_xattr(&self, path: &Path, name: &str) -> io::Result<()> {
        let node = self.node(path)?;
        self.drop_xattr(&node, name);
        Ok(())
    }

    fn set_times(&self, path: &Path, accessed: Timestamp, modified: Timestamp) -> io::Result<()> {
        let node = self.node(path)?;
        self.put_times(&node, accessed, modified)
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        self.node(path)?;
        Ok(self.shared.free.load(Ordering::Relaxed))
    }

    /// Returns the free space: used space is not counted.
    fn total_space(&self, path: &Path) -> io::Result<u64> {
        self.free_space(path)
    }

    fn block_size(&self, path: &Path) -> io::Result<u64> {
        self.node(path)?;
        Ok(BLOCK_LEN as u64)
    }

    fn collapses(&self, _path: &Path) -> bool {
        self.shared.collapses.load(Ordering::Relaxed)
    }

    fn is_local(&self, _path: &Path) -> bool {
        self.shared.local.load(Ordering::Relaxed)
    }
}

/// Returns the SplitMix64 hash of a seed.
pub(crate) fn split_mix(seed: u64) -> u64 {
    let mut word = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
