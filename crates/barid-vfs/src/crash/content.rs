//! What a crash leaves of the bytes, size, times and attributes of one inode.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::choices::{Choices, Flush};
use super::log::Op;
use crate::limits::{BLOCK_LEN, SECTOR_LEN};
use crate::mem::content::Content;
use crate::mem::tree::{Meta, NodeState};

/// An inode: what is durable, and what came after the last barrier.
#[derive(Clone, Debug)]
pub(super) struct Inode {
    content: Content,
    meta: Option<Meta>,
    xattrs: BTreeMap<String, Vec<u8>>,
    pending: Vec<Change>,
    pending_xattrs: Vec<(String, Option<Vec<u8>>)>,
}

/// A change of content, or the times that came with it.
#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Arc<[u8]> },
    SetLen { len: usize },
    Collapse { offset: usize, len: usize },
    Meta(Meta),
}

impl Inode {
    /// An inode that was there, or a new one.
    pub(super) fn new(durable: Option<&NodeState>) -> Self {
        Self {
            content: durable.map(|state| state.content.clone()).unwrap_or_default(),
            meta: durable.map(|state| state.meta),
            xattrs: durable.map(|state| state.xattrs.clone()).unwrap_or_default(),
            pending: Vec::new(),
            pending_xattrs: Vec::new(),
        }
    }

    /// Takes the next operation on this inode. The first mode and times of an inode are there as
    /// soon as it is.
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

    /// Makes everything durable.
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

    /// Makes bytes and size durable; times only if the size changed, and no attributes.
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

    /// Crashes: puts what the disk then holds into `state`.
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
    fn apply(&self, content: &mut Content) {
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

/// Replays pending changes on the page cache's image while sectors of it reach the disk at moments
/// of the crash's choosing; size and times reach it at one moment, as an inode is written in one
/// piece.
struct Crash<'a> {
    choices: &'a mut Choices,
    flush: Flush,
    page: Content,
    disk: Content,
    /// Sectors of the page cache that differ from the disk's.
    dirty: BTreeSet<usize>,
    /// Collapses that the disk knows nothing of, or but half: where the hole stands, and its
    /// length. What is written behind that place lands in blocks that did not move.
    displaced: Vec<(usize, usize)>,
}

impl Crash<'_> {
    fn run(durable: Content, pending: &[Change], choices: &mut Choices) -> (Content, Option<Meta>) {
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
                // What was cut off does not come back as old bytes when the file grows again.
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

    /// Writes what reaches the disk right after change `index`.
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

    /// Writes what reaches the disk at the end, if at all.
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

    /// The kernel writes out what is dirty before it collapses; without a barrier that may come to
    /// nothing. Then the disk has all of the collapse, with the size, or none, or the hole is on
    /// its way.
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
