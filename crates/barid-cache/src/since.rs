//! The differences between two snapshots of one cache file.

use std::cmp::Ordering;

use barid_types::{FlagSet, KeywordMask, ModSeq, Uid};

use crate::error::Result;
use crate::overlay::Overlay;
use crate::snapshot::Snapshot;

/// Messages in which a snapshot differs from an earlier one; each list is ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Since {
    /// Messages that only the earlier one has.
    pub expunged: Vec<Uid>,
    /// Messages of both whose flags, keywords or modseq may differ.
    pub changed: Vec<Uid>,
    /// Messages that only the later one has.
    pub added: Vec<Uid>,
}

impl Snapshot {
    /// Returns the differences since an earlier snapshot; `None` if the file was built anew in
    /// between, so that all messages must be compared. O(changes in the log of the file).
    ///
    /// # Errors
    /// A damaged cache.
    pub fn since(&self, before: &Self) -> Result<Option<Since>> {
        let columns = |snapshot: &Self| (snapshot.base.inode, snapshot.base.header.generation);
        let returned = |row: &&u32| self.overlay.expunged().binary_search(row).is_err();
        let rows = self.base_len();
        let gone_before = below(before.overlay.expunged(), rows);
        if columns(self) != columns(before) || gone_before.iter().find(returned).is_some() {
            return Ok(None);
        }
        let mut since = Since::default();
        for row in below(self.overlay.expunged(), rows) {
            if gone_before.binary_search(row).is_err() {
                since.expunged.push(self.core_of(*row)?.uid);
            }
        }
        for row in self.overlay.rows_changed_since(&before.overlay) {
            if self.overlay.row_of(row).is_some() {
                since.changed.push(self.core_of(row)?.uid);
            }
        }
        compare_added(&before.overlay, &self.overlay, &mut since);
        Ok(Some(since))
    }
}

/// Returns the rows of the columns among physical rows.
fn below(physical: &[u32], rows: u32) -> &[u32] {
    &physical[..physical.partition_point(|row| *row < rows)]
}

/// Compares the messages of two logs, whose rows may have other numbers: their UIDs are later than
/// those of the columns.
fn compare_added(before: &Overlay, now: &Overlay, since: &mut Since) {
    let (mut before, mut now) = (live(before).peekable(), live(now).peekable());
    loop {
        let order = match (before.peek(), now.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((before, ..)), Some((now, ..))) => before.cmp(now),
        };
        let old = if order.is_le() { before.next() } else { None };
        let new = if order.is_ge() { now.next() } else { None };
        match (old, new) {
            (Some((uid, ..)), None) => since.expunged.push(uid),
            (None, Some((uid, ..))) => since.added.push(uid),
            (old, new) if old != new => since.changed.extend(new.map(|(uid, ..)| uid)),
            _ => {}
        }
    }
}

fn live(overlay: &Overlay) -> impl Iterator<Item = (Uid, FlagSet, KeywordMask, ModSeq)> {
    overlay.live_added().map(|core| (core.uid, core.flags, core.keywords, core.modseq))
}
