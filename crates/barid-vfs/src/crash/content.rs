//! State of an inode after a crash: bytes, size, times and attributes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::choices::{Choices, Flush};
use crate::limits::{BLOCK_LEN, SECTOR_LEN};
use crate::mem::content::FileContent;
use crate::mem::log::Op;
use crate::mem::tree::{Meta, NodeState};

/// An inode: its durable state, and the changes since the last barrier.
#[derive(Clone, Debug)]
pub(super) struct Inode {
    content: FileContent,
    meta: Option<Meta>,
    xattrs: BTreeMap<String, Vec<u8>>,
    pending: Vec<Change>,
    pending_xattrs: Vec<(String, Option<Vec<u8>>)>,
}

/// A change of content, or of the times that a change of content sets.
#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Arc<[u8]> },
    SetLen { len: usize },
    Collapse { offset: usize, len: usize },
    Meta(Meta),
}

impl Inode {
    /// Creates an inode with its durable state, or a new one.
    pub(super) fn new(durable: Option<&NodeState>) -> Self {
        Self {
            content: durable.map(|state| state.content.clone()).unwrap_or_default(),
            meta: durable.map(|state| state.meta),
            xattrs: durable.map(|state| state.xattrs.clone()).unwrap_or_default(),
            pending: Vec::new(),
            pending_xattrs: Vec::new(),
        }
    }

    /// Applies the next operation on this inode. The initial mode and times of a new inode are
    /// durable with it.
    pub(super) fn take(&mut self, op: &Op) {
        match op {
            Op::Meta { meta, .. } if self.meta.is_none() => self.meta = Some(*meta),
            Op::Meta { meta, .. } => self.pending.push(Change::Meta(*meta)),
            Op::Write { offset, bytes, .. } => {
                let bytes = Arc::clone(bytes);
                self.pending.push(Change::Write { offset: *offset as usize, bytes });
            }
            Op::SetLen { size, .. } => self.pending.push(Change::SetLen { len: *size as usize }),
            Op::Collapse { offset, len, .. } => {
                let (offset, len) = (*offset as usize, *len as usize);
                self.pending.push(Change::Collapse { offset, len });
            }
            Op::Xattr { name, value, .. } => {
                self.pending_xattrs.push((name.clone(), value.clone()));
            }
            Op::SyncData { .. } => self.sync_data(),
            Op::SyncAll { .. } | Op::SyncDir { .. } => self.sync_all(),
            Op::Create { .. }
            | Op::Link { .. }
            | Op::SyncName { .. }
            | Op::Unlink { .. }
            | Op::Rename { .. }
            | Op::SyncFileSystem => {}
        }
    }

    /// Makes all changes durable.
    pub(super) fn sync_all(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            change.apply(&mut self.content);
            if let Change::Meta(meta) = change {
                self.meta = Some(meta);
            }
        }
        let xattrs = std::mem::take(&mut self.pending_xattrs);
        keep_xattrs(&mut self.xattrs, &xattrs);
    }

    /// Makes bytes and size durable, times only if the size changed, and no attributes.
    fn sync_data(&mut self) {
        let len = self.content.len();
        let mut last_meta = None;
        for change in std::mem::take(&mut self.pending) {
            change.apply(&mut self.content);
            if let Change::Meta(meta) = change {
                last_meta = Some(meta);
            }
        }
        match last_meta {
            Some(meta) if self.content.len() == len => self.pending.push(Change::Meta(meta)),
            Some(meta) => self.meta = Some(meta),
            None => {}
        }
    }

    /// Crashes: stores the state of the inode on the disk in `state`.
    pub(super) fn crash(&self, choices: &mut Choices, state: &mut NodeState) {
        let kept = choices.xattrs(self.pending_xattrs.len());
        state.xattrs.clone_from(&self.xattrs);
        keep_xattrs(&mut state.xattrs, &self.pending_xattrs[..kept]);
        let (content, meta) = Crash::run(self.content.clone(), &self.pending, choices);
        state.content = content;
        state.meta = meta.or(self.meta).unwrap_or(state.meta);
    }
}

fn keep_xattrs(xattrs: &mut BTreeMap<String, Vec<u8>>, changes: &[(String, Option<Vec<u8>>)]) {
    for (name, value) in changes {
        match value {
            Some(value) => xattrs.insert(name.clone(), value.clone()),
            None => xattrs.remove(name),
        };
    }
}

impl Change {
    fn apply(&self, content: &mut FileContent) {
        match self {
            Self::Write { offset, bytes } => content.write(*offset, bytes),
            Self::SetLen { len } => content.set_len(*len),
            Self::Collapse { offset, len } => content.collapse(*offset, *len),
            Self::Meta(_) => {}
        }
    }

    fn sectors(&self) -> std::ops::Range<usize> {
        match self {
            Self::Write { offset, bytes } => {
                offset / SECTOR_LEN..(offset + bytes.len()).div_ceil(SECTOR_LEN)
            }
            _ => 0..0,
        }
    }
}

/// A replay of pending changes on an image of the page cache, of which sectors reach the disk at
/// randomly chosen moments. Size and times reach it together, because an inode is written as a
/// unit.
struct Crash<'a> {
    choices: &'a mut Choices,
    flush: Flush,
    page: FileContent,
    disk: FileContent,
    /// Sectors of the page cache that differ from those on the disk.
    dirty: BTreeSet<usize>,
    /// Collapses that are not, or only partly, on the disk: offset of the hole and its length.
    /// Later writes after that offset go to blocks that did not move.
    displaced: Vec<(usize, usize)>,
}

impl Crash<'_> {
    fn run(
        durable: FileContent,
        pending: &[Change],
        choices: &mut Choices,
    ) -> (FileContent, Option<Meta>) {
        let flush = choices.flush(pending.len());
        let inode_at = choices.inode(pending.len());
        let (page, disk) = (durable.clone(), durable);
        let mut size = disk.len();
        let mut crash =
            Crash { choices, flush, page, disk, dirty: BTreeSet::new(), displaced: Vec::new() };
        let mut meta = None;
        for (index, change) in pending.iter().enumerate() {
            let inode_written = index < inode_at;
            match change {
                Change::Collapse { offset, len } => {
                    crash.collapse(*offset, *len, size, inode_written);
                }
                // Truncated bytes must not reappear when the file grows again.
                Change::SetLen { len } if inode_written => {
                    crash.disk.set_len(crash.disk.len().min(*len));
                }
                Change::Meta(new) if inode_written => meta = Some(*new),
                _ => {}
            }
            change.apply(&mut crash.page);
            crash.dirty.extend(change.sectors());
            if inode_written {
                size = crash.page.len();
            }
            crash.flush_at(index);
        }
        crash.flush_rest();
        crash.disk.set_len(size);
        (crash.disk, meta)
    }

    /// Writes the sectors that reach the disk right after change `index`.
    fn flush_at(&mut self, index: usize) {
        let all = match self.flush {
            Flush::Until(moment) if index == moment => {
                let choices = &mut *self.choices;
                self.dirty.retain(|_| choices.coin());
                true
            }
            Flush::Until(moment) => index < moment,
            Flush::SomeWrites => self.choices.coin(),
            _ => false,
        };
        if all {
            self.write_dirty();
        } else if self.flush == Flush::SomeWrites {
            self.dirty.clear();
        }
    }

    /// Writes the sectors that reach the disk at the end.
    fn flush_rest(&mut self) {
        match self.flush {
            Flush::Everything => self.write_dirty(),
            Flush::SomeSectors => {
                let choices = &mut *self.choices;
                self.dirty.retain(|_| choices.coin());
                self.write_dirty();
            }
            _ => self.dirty.clear(),
        }
    }

    /// Applies a collapse. The kernel writes dirty pages before it collapses, but without a barrier
    /// they may not reach the disk. The disk then has the whole collapse, with the size, or nothing
    /// of it, or a hole that has moved part of the way.
    fn collapse(&mut self, offset: usize, len: usize, size: usize, inode_written: bool) {
        self.flush_rest();
        if inode_written {
            self.disk.set_len(size);
            self.disk.collapse(offset, len);
            return;
        }
        let blocks = size.div_ceil(BLOCK_LEN);
        let first = offset / BLOCK_LEN;
        let mut hole = offset;
        if self.displaced.is_empty() && blocks * BLOCK_LEN > offset + len {
            let moves = blocks - len / BLOCK_LEN - first;
            if let Some(moved) = self.choices.collapse(moves) {
                hole += moved * BLOCK_LEN;
                self.disk.set_len(size);
                self.disk.collapse_halfway(offset, len, hole);
            }
        }
        self.displaced.push((hole, len));
    }

    fn write_dirty(&mut self) {
        for sector in std::mem::take(&mut self.dirty) {
            let start = sector * SECTOR_LEN;
            let end = (start + SECTOR_LEN).min(self.page.len());
            if start < end {
                let displace = |at: usize, (hole, len): &(usize, usize)| match at < *hole {
                    true => at,
                    false => at + len,
                };
                let at = self.displaced.iter().rev().fold(start, displace);
                self.disk.write(at, &self.page.bytes[start..end]);
            }
        }
    }
}
