//! A file system in memory.
//!
//! Holds files, directories, hard links, symbolic links, extended attributes and locks; its clock
//! moves only when told, or by a tick with each change. Serves `--no-cache` and the tests.
//! Permissions are those of a world where nobody is privileged: a file or directory without any
//! `w` bit cannot be written. Relative paths start at `/`.

pub(crate) mod content;
mod file;
pub(crate) mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use rustix::io::Errno;

use self::file::{MemDir, MemFile};
use self::tree::{Directory, Meta, Node, ROOT, Tree};
use crate::api::{Dir, File, FileType, Metadata, OpenOptions, Process, Timestamp, Vfs};
use crate::crash::Op;
use crate::limits::BLOCK_LEN;

/// The time a new world starts at: 2025-06-15 15:06:40 UTC.
const START: Timestamp = Timestamp { unix_nanos: 1_750_000_000_000_000_000 };
/// The process id of a new world.
const PID: u32 = 4242;
/// The user id of a new world's process, and of the owner of what it makes.
pub(crate) const USER: u32 = 1000;
/// The host name of every world.
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
    /// What is left of the disk; `u64::MAX` is no bound.
    free: AtomicU64,
    alive: Mutex<BTreeSet<u32>>,
    /// What happened, for the crash world.
    log: Option<Mutex<Vec<Op>>>,
}

impl Default for MemVfs {
    fn default() -> Self {
        Self::new()
    }
}

impl MemVfs {
    /// An empty file system: just `/`.
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

    /// An independent copy as it is now, without its locks. Bytes are shared until written, so it
    /// costs the number of files, not their size.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        self.with_tree(self.tree().snapshot())
    }

    /// Another world of the same settings and time, but of other files.
    pub(crate) fn with_tree(&self, tree: Tree) -> Self {
        self.settings_to(Self::of_tree(tree, self.now(), false))
    }

    /// The same machine after a reboot, with these files: the process that was is dead.
    pub(crate) fn rebooted(&self, tree: Tree) -> Self {
        let mut world = self.with_tree(tree);
        world.pid = self.pid + 1;
        *world.alive() = BTreeSet::from([world.pid]);
        world
    }

    /// A snapshot that records what happens to it.
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
        copy.set_collapse(self.shared.collapse.load(Ordering::Relaxed));
        copy.set_collapses(self.shared.collapses.load(Ordering::Relaxed));
        copy.shared.free.store(self.shared.free.load(Ordering::Relaxed), Ordering::Relaxed);
        copy
    }

    /// Sets the clock.
    pub fn set_now(&self, now: Timestamp) {
        self.shared.clock_nanos.store(now.unix_nanos, Ordering::Relaxed);
    }

    /// Sets how far each change of a file or directory moves the clock; at first 1 us.
    pub fn set_tick(&self, tick: Duration) {
        self.shared.tick_nanos.store(nanos(tick), Ordering::Relaxed);
    }

    /// Sets the granularity of the times of files, as the kernel's coarse clock has one (4 ms);
    /// at first 1 ns.
    pub fn set_granularity(&self, granularity: Duration) {
        self.shared.granularity_nanos.store(nanos(granularity).max(1), Ordering::Relaxed);
    }

    /// Sets whether there are extended attributes; at first there are.
    pub fn set_xattrs(&self, supported: bool) {
        self.shared.xattrs.store(supported, Ordering::Relaxed);
    }

    /// Sets whether hard links can be made; at first they can. Without, `hard_link` is `EPERM`.
    pub fn set_hard_links(&self, supported: bool) {
        self.shared.hard_links.store(supported, Ordering::Relaxed);
    }

    /// Sets what [`Vfs::collapses`] answers; at first that it does.
    pub fn set_collapses(&self, known: bool) {
        self.shared.collapses.store(known, Ordering::Relaxed);
    }

    /// Sets whether [`File::collapse`] works; at first it does, in blocks of 4,096 bytes.
    pub fn set_collapse(&self, supported: bool) {
        self.shared.collapse.store(supported, Ordering::Relaxed);
    }

    /// Sets whether [`Dir::sync_file_system`](crate::Dir::sync_file_system) works; at first it
    /// does.
    pub fn set_syncs_file_system(&self, supported: bool) {
        self.shared.syncs_file_system.store(supported, Ordering::Relaxed);
    }

    /// Sets whether an `fsync` of a new file makes its name durable; at first it does not.
    pub fn set_syncs_names(&self, does: bool) {
        self.shared.syncs_names.store(does, Ordering::Relaxed);
    }

    /// Sets what is left of the disk, in bytes; at first, and with `None`, there is no bound. What
    /// does not fit fails with `StorageFull`; cutting gives back what it cuts.
    pub fn set_free_space(&self, bytes: Option<u64>) {
        self.shared.free.store(bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Takes the blocks by which a file grows from what is left, or gives back.
    fn charge(&self, before: u64, after: u64) -> io::Result<()> {
        let charged = |free: u64| match free {
            u64::MAX => Some(free),
            _ => free.saturating_add(before).checked_sub(after),
        };
        let free = &self.shared.free;
        let done = free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, charged);
        done.map(drop).map_err(|_| Errno::NOSPC.into())
    }

    /// Changes the permission bits of a file or directory, whoever owns it.
    pub fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        let node = self.tree().find(ROOT, path, true)?.existing()?;
        self.change_meta(&node, |meta| meta.mode = mode);
        Ok(())
    }

    /// Sets permission bits, as only the owner and the superuser may.
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

    /// Makes a symbolic link; fails if the name exists.
    pub fn symlink(&self, target: &Path, path: &Path) -> io::Result<()> {
        use std::os::unix::ffi::OsStrExt;
        let mut tree = self.tree_mut();
        let found = tree.find(ROOT, path, false)?;
        found.vacant()?;
        tree.writable_dir(found.dir)?;
        let now = self.tick();
        let node = tree.create(FileType::Symlink, 0o777, now);
        let bytes: Arc<[u8]> = target.as_os_str().as_bytes().into();
        node.write().content.write(0, &bytes);
        self.record(|| Op::Create { inode: node.number, file_type: FileType::Symlink });
        self.record(|| Op::Write { inode: node.number, offset: 0, bytes });
        tree.link(found.dir, &found.name, &node, now)?;
        self.record(|| Op::Link { dir: found.dir, name: found.name, inode: node.number, at: now });
        Ok(())
    }

    /// The same world seen by another process of the same host, which lives until
    /// [`MemVfs::end_process`].
    #[must_use]
    pub fn as_process(&self, pid: u32) -> Self {
        self.alive().insert(pid);
        Self { shared: Arc::clone(&self.shared), pid, user: self.user }
    }

    /// The same world seen by a process of another user: what it makes is that user's, and only of
    /// its own files may it set times and permission bits. At first the user is 1000.
    #[must_use]
    pub fn as_user(&self, user: u32) -> Self {
        Self { shared: Arc::clone(&self.shared), pid: self.pid, user }
    }

    /// Starts the machine anew now, but nothing else happens: processes and locks stay.
    pub fn set_booted_now(&self) {
        self.shared.boot_nanos.store(self.now().unix_nanos, Ordering::Relaxed);
    }

    /// What [`Vfs::is_local`] answers.
    pub fn set_local(&self, local: bool) {
        self.shared.local.store(local, Ordering::Relaxed);
    }

    /// Makes [`Vfs::process_alive`] answer that the process is dead. Its handles stay open.
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

    /// Moves the clock by a tick and returns the time as files get it.
    fn tick(&self) -> Timestamp {
        let tick = self.shared.tick_nanos.load(Ordering::Relaxed);
        let now = self.shared.clock_nanos.fetch_add(tick, Ordering::Relaxed) + tick;
        let granularity = self.shared.granularity_nanos.load(Ordering::Relaxed);
        Timestamp { unix_nanos: now - now.rem_euclid(granularity) }
    }

    /// The log of the crash world, empty where nothing is recorded.
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

    /// The node of an existing path, for a change of its attributes.
    fn node(&self, path: &Path) -> io::Result<Arc<tree::Node>> {
        self.tree().find(ROOT, path, true)?.existing()
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

    /// What is left of the disk: what was written counts for nothing.
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

    fn now(&self) -> Timestamp {
        Timestamp { unix_nanos: self.shared.clock_nanos.load(Ordering::Relaxed) }
    }

    /// Moves the clock; does not wait.
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

    fn is_local(&self, _path: &Path) -> bool {
        self.shared.local.load(Ordering::Relaxed)
    }

    /// SplitMix64, from the same seed in every new world.
    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        for chunk in bytes.chunks_mut(8) {
            let seed = self.shared.random.fetch_add(1, Ordering::Relaxed);
            let word = split_mix(seed);
            chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

/// SplitMix64: the number that belongs to a seed.
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
