//! Open files and directories of [`MemVfs`].

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::io::Errno;

use super::MemVfs;
use super::content::FileContent;
use super::log::Op;
use super::tree::{HeldLock, Node, NodeState};
use crate::api::{Dir, File, FileType, LockKind, LockMode, Metadata, OpenOptions, Timestamp};
use crate::limits::BLOCK_LEN;

/// The largest size of a file, in bytes.
const LEN_MAX: u64 = 1 << 46;

/// An open file.
#[derive(Debug)]
pub(super) struct MemFile {
    pub(super) vfs: MemVfs,
    pub(super) node: Arc<Node>,
    pub(super) handle: u64,
    pub(super) write: bool,
}

/// An open directory.
#[derive(Debug)]
pub(super) struct MemDir {
    pub(super) vfs: MemVfs,
    pub(super) number: u64,
}

impl MemFile {
    /// Changes the content under the node's lock, updates its times, and records the operation.
    /// `end` is the offset to which the content extends afterwards, at least.
    fn change(
        &self,
        end: u64,
        change: impl FnOnce(&mut FileContent) -> io::Result<()>,
        op: impl FnOnce(u64) -> Op,
    ) -> io::Result<()> {
        if !self.write {
            return Err(Errno::BADF.into());
        }
        if end > LEN_MAX {
            return Err(Errno::FBIG.into());
        }
        let mut state = self.node.write();
        let now = self.vfs.tick();
        let before = state.content.allocated();
        self.vfs.charge(before, before.max(end.next_multiple_of(BLOCK_LEN as u64)))?;
        let changed = change(&mut state.content);
        let after = state.content.allocated();
        self.vfs.charge(before.max(end.next_multiple_of(BLOCK_LEN as u64)), after)?;
        changed?;
        state.meta.modified = now;
        state.meta.changed = now;
        self.vfs.record(|| op(self.node.number));
        self.vfs.record_meta(self.node.number, &state.meta);
        Ok(())
    }
}

impl File for MemFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.node.file_type != FileType::File {
            return Err(Errno::ISDIR.into());
        }
        let state = self.node.read();
        Ok(copy_head(&state.content.bytes, offset, buffer))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let end = offset.saturating_add(bytes.len() as u64);
        let change = |content: &mut FileContent| {
            content.write(offset as usize, bytes);
            Ok(())
        };
        self.change(end, change, |inode| Op::Write { inode, offset, bytes: bytes.into() })?;
        Ok(bytes.len())
    }

    fn metadata(&self) -> io::Result<Metadata> {
        Ok(self.node.metadata())
    }

    fn set_len(&self, size: u64) -> io::Result<()> {
        let change = |content: &mut FileContent| {
            content.set_len(size as usize);
            Ok(())
        };
        self.change(size, change, |inode| Op::SetLen { inode, size })
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let end = offset.checked_add(len).ok_or(Errno::FBIG)?;
        match end > self.node.metadata().size {
            true => self.set_len(end),
            false => Ok(()),
        }
    }

    fn collapse(&self, offset: u64, len: u64) -> io::Result<()> {
        if !self.vfs.shared.collapse.load(Ordering::Relaxed) {
            return Err(Errno::OPNOTSUPP.into());
        }
        let change = |content: &mut FileContent| {
            let aligned = [offset, len].iter().all(|at| at.is_multiple_of(BLOCK_LEN as u64));
            let end = offset.checked_add(len).filter(|end| *end < content.len() as u64);
            if !aligned || len == 0 || end.is_none() {
                return Err(Errno::INVAL.into());
            }
            content.collapse(offset as usize, len as usize);
            Ok(())
        };
        self.change(0, change, |inode| Op::Collapse { inode, offset, len })
    }

    fn first_hole(&self, from: u64) -> io::Result<Option<u64>> {
        Ok(self.node.read().content.first_hole(from))
    }

    fn set_times(&self, accessed: Timestamp, modified: Timestamp) -> io::Result<()> {
        self.vfs.put_times(&self.node, accessed, modified)
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.vfs.put_mode(&self.node, mode)
    }

    fn xattr(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.vfs.get_xattr(&self.node, name))
    }

    fn set_xattr(&self, name: &str, value: &[u8]) -> io::Result<()> {
        self.vfs.put_xattr(&self.node, name, value, false)
    }

    fn remove_xattr(&self, name: &str) -> io::Result<()> {
        self.vfs.drop_xattr(&self.node, name);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.vfs.record(|| Op::SyncData { inode: self.node.number });
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        let inode = self.node.number;
        self.vfs.record(|| Op::SyncAll { inode });
        if self.syncs_name()? {
            self.vfs.record(|| Op::SyncName { inode });
        }
        Ok(())
    }

    fn syncs_name(&self) -> io::Result<bool> {
        Ok(self.vfs.shared.syncs_names.load(Ordering::Relaxed))
    }

    fn try_lock(&self, kind: LockKind, mode: LockMode) -> io::Result<bool> {
        if kind == LockKind::Fcntl && mode == LockMode::Exclusive && !self.write {
            return Err(Errno::BADF.into());
        }
        let mut state = self.node.write();
        let blocks = |held: &HeldLock| {
            held.kind == kind
                && held.handle != self.handle
                && (held.mode == LockMode::Exclusive || mode == LockMode::Exclusive)
        };
        if state.locks.iter().any(blocks) {
            return Ok(false);
        }
        state.locks.retain(|held| held.kind != kind || held.handle != self.handle);
        state.locks.push(HeldLock { handle: self.handle, kind, mode });
        Ok(true)
    }

    fn unlock(&self, kind: LockKind) -> io::Result<()> {
        let mut state = self.node.write();
        state.locks.retain(|held| held.kind != kind || held.handle != self.handle);
        Ok(())
    }
}

impl Drop for MemFile {
    fn drop(&mut self) {
        let holds = |state: &NodeState| state.locks.iter().any(|held| held.handle == self.handle);
        if holds(&self.node.read()) {
            self.node.write().locks.retain(|held| held.handle != self.handle);
        }
    }
}

impl Dir for MemDir {
    /// Visits entries in the order of a hash of their names, which is neither alphabetical nor that
    /// of creation.
    fn list(&self, visit: &mut dyn FnMut(&[u8], FileType)) -> io::Result<()> {
        let mut entries: Vec<(u64, Vec<u8>, FileType)> = {
            let tree = self.vfs.tree();
            let Some(directory) = tree.dirs.get(&self.number) else { return Ok(()) };
            let file_type =
                |number| tree.nodes.get(number).map_or(FileType::Other, |node| node.file_type);
            let entries = directory.entries.iter();
            entries.map(|(name, node)| (scatter(name), name.clone(), file_type(node))).collect()
        };
        entries.sort_unstable_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        for (_, name, file_type) in &entries {
            visit(name, *file_type);
        }
        Ok(())
    }

    fn open(&self, name: &[u8], options: OpenOptions) -> io::Result<Box<dyn File>> {
        self.vfs.open_from(self.number, path_of(name), options)
    }

    fn read_head(&self, name: &[u8], buffer: &mut [u8]) -> io::Result<(Metadata, usize)> {
        let node = self.vfs.tree().find(self.number, path_of(name), true)?.existing()?;
        let metadata = node.metadata();
        let len = copy_head(&node.read().content.bytes, 0, buffer);
        Ok((metadata, len))
    }

    fn metadata(&self, name: &[u8]) -> io::Result<Metadata> {
        let node = self.vfs.tree().find(self.number, path_of(name), false)?.existing()?;
        Ok(node.metadata())
    }

    fn syncs_file_system(&self) -> io::Result<bool> {
        Ok(self.vfs.shared.syncs_file_system.load(Ordering::Relaxed))
    }

    fn sync_file_system(&self) -> io::Result<()> {
        if !self.syncs_file_system()? {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.vfs.record(|| Op::SyncFileSystem);
        Ok(())
    }
}

fn path_of(name: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(name))
}

fn copy_head(bytes: &[u8], offset: u64, buffer: &mut [u8]) -> usize {
    let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or(&[]);
    let len = rest.len().min(buffer.len());
    buffer[..len].copy_from_slice(&rest[..len]);
    len
}

/// Returns the FNV-1a hash of a name.
fn scatter(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
