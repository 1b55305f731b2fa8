//! The name space of [`super::MemVfs`]: nodes by inode number, and the entries of directories.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rustix::io::Errno;

use super::USER;
use super::content::FileContent;
use crate::api::{FileType, LockKind, LockMode, Metadata, Timestamp};
use crate::limits::{NAME_LEN_MAX, SYMLINK_HOPS_MAX};

/// The inode number of `/`.
pub(crate) const ROOT: u64 = 1;

/// The device number of all files.
const DEVICE: u64 = 7;

/// A file, directory or symbolic link.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) number: u64,
    pub(crate) file_type: FileType,
    state: RwLock<NodeState>,
}

/// The mutable state of a node. Its bytes are shared with snapshots until one side writes.
#[derive(Clone, Debug)]
pub(crate) struct NodeState {
    /// The content of a file, the target of a symbolic link.
    pub(crate) content: FileContent,
    pub(crate) meta: Meta,
    pub(crate) links: u64,
    pub(crate) xattrs: BTreeMap<String, Vec<u8>>,
    pub(crate) locks: Vec<HeldLock>,
}

/// Mode and times of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) modified: Timestamp,
    pub(crate) changed: Timestamp,
    pub(crate) accessed: Timestamp,
}

/// A lock and the handle that holds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldLock {
    pub(crate) handle: u64,
    pub(crate) kind: LockKind,
    pub(crate) mode: LockMode,
}

/// The entries of one directory.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    pub(crate) parent: u64,
    pub(crate) entries: BTreeMap<Vec<u8>, u64>,
}

/// All nodes.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) nodes: HashMap<u64, Arc<Node>>,
    pub(crate) dirs: HashMap<u64, Directory>,
    pub(crate) next_number: u64,
}

/// The result of resolving a path.
#[derive(Debug)]
pub(crate) struct ResolvedPath {
    /// The directory of the last component, which need not exist.
    pub(crate) dir: u64,
    /// The last component; empty for `/` and for paths that end in `..`.
    pub(crate) name: Vec<u8>,
    /// The node of that name, if it exists.
    pub(crate) node: Option<Arc<Node>>,
}

impl Node {
    pub(crate) fn new(number: u64, file_type: FileType, state: NodeState) -> Self {
        Self { number, file_type, state: RwLock::new(state) }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, NodeState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, NodeState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn metadata(&self) -> Metadata {
        let state = self.read();
        let size = state.content.len() as u64;
        Metadata {
            file_type: self.file_type,
            inode: self.number,
            device: DEVICE,
            links: state.links,
            size,
            mode: state.meta.mode,
            uid: state.meta.uid,
            gid: 0,
            modified: state.meta.modified,
            changed: state.meta.changed,
            accessed: state.meta.accessed,
            allocated: state.content.allocated(),
        }
    }
}

impl NodeState {
    pub(crate) fn new(mode: u32, now: Timestamp, links: u64) -> Self {
        Self {
            content: FileContent::default(),
            meta: Meta { mode, uid: USER, modified: now, changed: now, accessed: now },
            links,
            xattrs: BTreeMap::new(),
            locks: Vec::new(),
        }
    }
}

impl ResolvedPath {
    /// Returns the node; fails with `ENOENT` if it does not exist.
    pub(crate) fn existing(self) -> io::Result<Arc<Node>> {
        self.node.ok_or(Errno::NOENT.into())
    }

    /// Fails with `EEXIST` if the name exists.
    pub(crate) fn vacant(&self) -> io::Result<()> {
        match self.node.is_some() || self.name.is_empty() {
            true => Err(Errno::EXIST.into()),
            false => Ok(()),
        }
    }
}

impl Tree {
    /// Creates a tree that has only `/`.
    pub(crate) fn new(now: Timestamp) -> Self {
        let root = Node::new(ROOT, FileType::Dir, NodeState::new(0o755, now, 2));
        let dir = Directory { parent: ROOT, entries: BTreeMap::new() };
        Self {
            nodes: HashMap::from([(ROOT, Arc::new(root))]),
            dirs: HashMap::from([(ROOT, dir)]),
            next_number: ROOT + 1,
        }
    }

    /// Returns a copy with its own nodes. Bytes are shared until written; locks are not copied.
    pub(crate) fn snapshot(&self) -> Self {
        let copy = |node: &Arc<Node>| {
            let state = NodeState { locks: Vec::new(), ..node.read().clone() };
            Arc::new(Node::new(node.number, node.file_type, state))
        };
        Self {
            nodes: self.nodes.iter().map(|(number, node)| (*number, copy(node))).collect(),
            dirs: self.dirs.clone(),
            next_number: self.next_number,
        }
    }

    /// Adds a node that has no name yet; the caller links it.
    pub(crate) fn create(&mut self, file_type: FileType, mode: u32, now: Timestamp) -> Arc<Node> {
        let number = self.next_number;
        self.next_number += 1;
        let links = if file_type == FileType::Dir { 1 } else { 0 };
        let node = Arc::new(Node::new(number, file_type, NodeState::new(mode, now, links)));
        self.nodes.insert(number, Arc::clone(&node));
        node
    }

    /// Resolves a path from `start`, following at most [`SYMLINK_HOPS_MAX`] symbolic links; that of
    /// the last component only with `follow`.
    pub(crate) fn find(&self, start: u64, path: &Path, follow: bool) -> io::Result<ResolvedPath> {
        let mut dir = if path.is_absolute() { ROOT } else { start };
        let mut ahead = components(path.as_os_str().as_bytes());
        let mut hops = 0;
        while let Some(name) = ahead.pop() {
            let directory = self.dirs.get(&dir).ok_or(Errno::NOTDIR)?;
            if name == b".." {
                dir = directory.parent;
                continue;
            }
            if name.len() > NAME_LEN_MAX {
                return Err(Errno::NAMETOOLONG.into());
            }
            let node = directory.entries.get(&name).and_then(|number| self.nodes.get(number));
            let last = ahead.is_empty();
            match node {
                Some(node) if node.file_type == FileType::Symlink && (follow || !last) => {
                    hops += 1;
                    if hops > SYMLINK_HOPS_MAX {
                        return Err(Errno::LOOP.into());
                    }
                    let target = Arc::clone(&node.read().content.bytes);
                    if target.starts_with(b"/") {
                        dir = ROOT;
                    }
                    ahead.extend(components(&target));
                }
                _ if last => return Ok(ResolvedPath { dir, name, node: node.cloned() }),
                Some(node) if node.file_type == FileType::Dir => dir = node.number,
                Some(_) => return Err(Errno::NOTDIR.into()),
                None => return Err(Errno::NOENT.into()),
            }
        }
        if path.as_os_str().is_empty() {
            return Err(Errno::NOENT.into());
        }
        let parent = self.dirs.get(&dir).ok_or(Errno::NOTDIR)?.parent;
        Ok(ResolvedPath { dir: parent, name: Vec::new(), node: self.nodes.get(&dir).cloned() })
    }

    /// Returns the path of a directory, by walking up to the root.
    pub(crate) fn path_of(&self, mut dir: u64) -> io::Result<PathBuf> {
        let mut names: Vec<&[u8]> = Vec::new();
        while dir != ROOT {
            let parent = self.dirs.get(&dir).ok_or(Errno::NOENT)?.parent;
            let entries = &self.dirs.get(&parent).ok_or(Errno::NOENT)?.entries;
            let name = entries.iter().find(|(_, number)| **number == dir).ok_or(Errno::NOENT)?.0;
            names.push(name);
            dir = parent;
        }
        let mut path = PathBuf::from("/");
        path.extend(names.iter().rev().map(|name| std::ffi::OsStr::from_bytes(name)));
        Ok(path)
    }

    /// Returns `true` if `dir` is `ancestor` or below it.
    pub(crate) fn is_within(&self, mut dir: u64, ancestor: u64) -> bool {
        while dir != ancestor && dir != ROOT {
            dir = self.dirs.get(&dir).map_or(ROOT, |directory| directory.parent);
        }
        dir == ancestor
    }

    /// Returns a directory for writing; fails with `EACCES` if it has no `w` bit, with `ENOENT` if
    /// it was removed.
    pub(crate) fn writable_dir(&mut self, dir: u64) -> io::Result<&mut Directory> {
        let node = self.nodes.get(&dir).ok_or(Errno::NOENT)?;
        if node.read().meta.mode & 0o222 == 0 {
            return Err(Errno::ACCESS.into());
        }
        Ok(self.dirs.get_mut(&dir).ok_or(Errno::NOTDIR)?)
    }

    /// Links a node to a name, replacing another node of that name, and updates the times of the
    /// directory and the node.
    pub(crate) fn link(
        &mut self,
        dir: u64,
        name: &[u8],
        node: &Arc<Node>,
        now: Timestamp,
    ) -> io::Result<()> {
        let replaced = self.writable_dir(dir)?.entries.insert(name.to_vec(), node.number);
        {
            let mut state = node.write();
            state.links += 1;
            state.meta.changed = now;
        }
        if let Some(replaced) = replaced {
            self.drop_link(replaced, now);
        }
        if let Some(directory) = self.dirs.get_mut(&node.number) {
            directory.parent = dir;
        }
        self.touch(dir, now);
        Ok(())
    }

    /// Removes a name, and the node if that was its last name; open handles keep it alive. Returns
    /// the node's number.
    pub(crate) fn unlink(&mut self, dir: u64, name: &[u8], now: Timestamp) -> io::Result<u64> {
        let number = self.writable_dir(dir)?.entries.remove(name).ok_or(Errno::NOENT)?;
        self.drop_link(number, now);
        self.touch(dir, now);
        Ok(number)
    }

    fn drop_link(&mut self, number: u64, now: Timestamp) {
        let Some(node) = self.nodes.get(&number) else { return };
        let links_kept = if node.file_type == FileType::Dir { 1 } else { 0 };
        let gone = {
            let mut state = node.write();
            state.links = state.links.saturating_sub(1);
            state.meta.changed = now;
            state.links == links_kept
        };
        if gone {
            self.nodes.remove(&number);
            self.dirs.remove(&number);
        }
    }

    fn touch(&self, dir: u64, now: Timestamp) {
        if let Some(node) = self.nodes.get(&dir) {
            let mut state = node.write();
            state.meta.modified = now;
            state.meta.changed = now;
        }
    }
}

/// Returns the components of a path in reverse order, without `.` and empty ones.
fn components(path: &[u8]) -> Vec<Vec<u8>> {
    let parts = path.split(|byte| *byte == b'/').rev();
    parts.filter(|part| !part.is_empty() && *part != b".").map(<[u8]>::to_vec).collect()
}
