//! What a crash leaves of the bytes, size, times and attributes of one inode.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::choices::{Choices, Flush};
use super::log::Op;
use crate::limits::SECTOR_LEN;
use crate::mem::tree::{Meta, NodeState};

/// An inode: what is durable, and what came after the last barrier.
#[derive(Debug)]
pub(super) struct Inode<'a> {
    bytes: Vec<u8>,
    meta: Option<Meta>,
    xattrs: BTreeMap<String, Vec<u8>>,
    pending: Vec<Change<'a>>,
    pending_xattrs: Vec<(&'a str, Option<&'a [u8]>)>,
}

/// A change of content, or the times that came with it.
#[derive(Debug)]
enum Change<'a> {
    Write { offset: usize, bytes: &'a [u8] },
    SetLen { len: usize },
    Meta(Meta),
}

impl<'a> Inode<'a> {
    /// An inode that was there, or a new one.
    pub(super) fn new(durable: Option<&NodeState>) -> Self {
        Self {
            bytes: durable.map(|state| state.bytes.to_vec()).unwrap_or_default(),
            meta: durable.map(|state| state.meta),
            xattrs: durable.map(|state| state.xattrs.clone()).unwrap_or_default(),
            pending: Vec::new(),
            pending_xattrs: Vec::new(),
        }
    }

    /// Takes the next operation on this inode. The first mode and times of an inode are there as
    /// soon as it is.
    pub(super) fn take(&mut self, op: &'a Op) {
        match op {
            Op::Meta { meta, .. } if self.meta.is_none() => self.meta = Some(*meta),
            Op::Meta { meta, .. } => self.pending.push(Change::Meta(*meta)),
            Op::Write { offset, bytes, .. } => {
                self.pending.push(Change::Write { offset: *offset as usize, bytes });
            }
            Op::SetLen { size, .. } => self.pending.push(Change::SetLen { len: *size as usize }),
            Op::Xattr { name, value, .. } => self.pending_xattrs.push((name, value.as_deref())),
            Op::SyncData { .. } => self.sync_data(),
            Op::SyncAll { .. } | Op::SyncDir { .. } => self.sync_all(),
            Op::Create { .. } | Op::Link { .. } | Op::Unlink { .. } | Op::Rename { .. } => {}
        }
    }

    /// Makes everything durable.
    pub(super) fn sync_all(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            change.apply(&mut self.bytes);
            if let Change::Meta(meta) = change {
                self.meta = Some(meta);
            }
        }
        let xattrs = std::mem::take(&mut self.pending_xattrs);
        self.keep_xattrs(&xattrs);
    }

    /// Makes bytes and size durable; times only if the size changed, and no attributes.
    fn sync_data(&mut self) {
        let len = self.bytes.len();
        let mut last_meta = None;
        for change in std::mem::take(&mut self.pending) {
            change.apply(&mut self.bytes);
            if let Change::Meta(meta) = change {
                last_meta = Some(meta);
            }
        }
        match last_meta {
            Some(meta) if self.bytes.len() == len => self.pending.push(Change::Meta(meta)),
            Some(meta) => self.meta = Some(meta),
            None => {}
        }
    }

    fn keep_xattrs(&mut self, changes: &[(&str, Option<&[u8]>)]) {
        for (name, value) in changes {
            match value {
                Some(value) => self.xattrs.insert((*name).to_owned(), value.to_vec()),
                None => self.xattrs.remove(*name),
            };
        }
    }

    /// Crashes: puts what the disk then holds into `state`.
    pub(super) fn crash(mut self, choices: &mut Choices, state: &mut NodeState) {
        let xattrs = std::mem::take(&mut self.pending_xattrs);
        self.keep_xattrs(&xattrs[..choices.xattrs(xattrs.len())]);
        let (bytes, meta) = crash_content(self.bytes, &self.pending, choices);
        state.bytes = Arc::new(bytes);
        state.xattrs = self.xattrs;
        state.meta = meta.or(self.meta).unwrap_or(state.meta);
    }
}

impl Change<'_> {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Change::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if end > content.len() {
                    content.resize(end, 0);
                }
                content[*offset..end].copy_from_slice(bytes);
            }
            Change::SetLen { len } => content.resize(*len, 0),
            Change::Meta(_) => {}
        }
    }

    fn sectors(&self) -> std::ops::Range<usize> {
        match self {
            Change::Write { offset, bytes } => {
                offset / SECTOR_LEN..(offset + bytes.len()).div_ceil(SECTOR_LEN)
            }
            Change::SetLen { .. } | Change::Meta(_) => 0..0,
        }
    }
}

/// Replays `pending` on the page cache's image while sectors of it reach the disk at moments of the
/// crash's choosing; size and times reach it at one moment, as an inode is written in one piece.
fn crash_content(
    durable: Vec<u8>,
    pending: &[Change<'_>],
    choices: &mut Choices,
) -> (Vec<u8>, Option<Meta>) {
    let flush = choices.flush(pending.len());
    let inode_at = choices.inode(pending.len());
    let mut page = durable.clone();
    let mut disk = durable;
    let mut size = disk.len();
    let mut meta = None;
    let mut dirty = BTreeSet::new();
    for (index, change) in pending.iter().enumerate() {
        change.apply(&mut page);
        dirty.extend(change.sectors());
        if index < inode_at {
            size = page.len();
            match change {
                // What was cut off does not come back as old bytes when the file grows again.
                Change::SetLen { len } => disk.truncate(*len),
                Change::Meta(new) => meta = Some(*new),
                Change::Write { .. } => {}
            }
        }
        let all = match flush {
            Flush::Until(moment) if index == moment => {
                dirty.retain(|_| choices.coin());
                true
            }
            Flush::Until(moment) => index < moment,
            Flush::SomeWrites => choices.coin(),
            _ => false,
        };
        if all {
            write_sectors(&std::mem::take(&mut dirty), &page, &mut disk);
        } else if flush == Flush::SomeWrites {
            dirty.clear();
        }
    }
    match flush {
        Flush::Everything => write_sectors(&dirty, &page, &mut disk),
        Flush::SomeSectors => {
            dirty.retain(|_| choices.coin());
            write_sectors(&dirty, &page, &mut disk);
        }
        _ => {}
    }
    disk.resize(size, 0);
    (disk, meta)
}

fn write_sectors(sectors: &BTreeSet<usize>, page: &[u8], disk: &mut Vec<u8>) {
    for sector in sectors {
        let start = sector * SECTOR_LEN;
        let end = (start + SECTOR_LEN).min(page.len());
        if start < end {
            if disk.len() < end {
                disk.resize(end, 0);
            }
            disk[start..end].copy_from_slice(&page[start..end]);
        }
    }
}
