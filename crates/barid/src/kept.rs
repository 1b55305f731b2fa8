//! Derived snapshots of a mailbox: results computed from a cache and stored beside it.

use barid_cache::{ColumnLens, Derived, Snapshot};

use crate::Window;
use crate::opening::CachePlace;

/// A derived snapshot is rewritten when one row in this number is not covered by it.
const UNCOVERED_PART: u32 = 16;
/// Number of uncovered rows up to which a derived snapshot is never rewritten.
const UNCOVERED_ROWS: usize = 1024;
/// Bytes of a row number in a stored order.
const ROW_LEN: u64 = 4;

/// Returns `true` if this number of rows beyond those covered is a reason to write anew.
pub(crate) fn worth_storing(uncovered: usize, covered: u32) -> bool {
    uncovered > UNCOVERED_ROWS.max((covered / UNCOVERED_PART) as usize)
}

/// Bytes that were stored at once, and those that were appended.
pub(crate) type LoadedValues = (Option<Vec<u8>>, Vec<Vec<u8>>);

/// One derived snapshot. It may vanish at any moment: one that cannot be read or written is treated
/// as missing.
pub(crate) struct DerivedSnapshot<'a> {
    place: &'a CachePlace,
    snapshot: &'a Snapshot,
    kind: String,
}

impl<'a> DerivedSnapshot<'a> {
    pub(crate) fn new(place: &'a CachePlace, snapshot: &'a Snapshot, kind: String) -> Self {
        Self { place, snapshot, kind }
    }

    /// Loads all bytes.
    pub(crate) fn load(&self) -> Option<Vec<u8>> {
        let derived = self.open()?;
        derived.read(0..derived.len()).ok()
    }

    /// Loads all bytes, and those that were appended since, oldest first, whatever the state of the
    /// cache when they were stored; `None` if there are more than `len_max`. The first bytes are
    /// `None` if they are damaged.
    pub(crate) fn load_with_additions(&self, len_max: u64) -> Option<LoadedValues> {
        let derived = self.open_lasting(len_max)?;
        let content = derived.read(0..derived.len()).ok();
        Some((content, derived.additions().unwrap_or_default()))
    }

    /// Removes the bytes; they are computed again.
    pub(crate) fn remove(&self) {
        if self.place.on_disk {
            let _ = self.snapshot.remove_derived(&self.kind);
        }
    }

    /// Appends bytes, whatever the state of the cache when the others were stored; `None` if
    /// there are none, or nothing can be appended.
    pub(crate) fn append(&self, bytes: &[u8]) -> Option<ColumnLens> {
        if !self.place.on_disk {
            return None;
        }
        self.snapshot.append_derived(&self.kind, bytes).ok()?
    }

    /// Opens the bytes, whatever the state of the cache when they were stored; `None` if there are
    /// more than `len_max`.
    pub(crate) fn open_lasting(&self, len_max: u64) -> Option<Derived> {
        if !self.place.on_disk {
            return None;
        }
        let derived = self.snapshot.derived_of_any_state(&self.kind).ok()??;
        (derived.len() <= len_max).then_some(derived)
    }

    /// Stores bytes that cover all rows of the snapshot. The answer does not depend on them, so a
    /// failure only means that they are computed again.
    pub(crate) fn store(&self, bytes: Vec<u8>) {
        if !self.place.on_disk {
            return;
        }
        let _ = self.snapshot.store_derived(&self.kind, &bytes);
    }

    /// Opens a stored order of physical rows.
    pub(crate) fn order(&self) -> Option<KeptOrder<'a>> {
        Some(KeptOrder { derived: self.open()?, snapshot: self.snapshot })
    }

    fn open(&self) -> Option<Derived> {
        if !self.place.on_disk {
            return None;
        }
        self.snapshot.derived(&self.kind).ok()?
    }
}

/// A stored order: physical rows, of which some may be expunged by now.
pub(crate) struct KeptOrder<'a> {
    derived: Derived,
    snapshot: &'a Snapshot,
}

impl KeptOrder<'_> {
    /// Returns the rows that came after the order was stored.
    pub(crate) fn new_rows(&self) -> std::ops::Range<u32> {
        let covered = self.covered();
        let gone = self.snapshot.expunged_rows().partition_point(|row| *row < covered);
        covered - gone as u32..self.snapshot.len()
    }

    /// Returns the number of physical rows in the order.
    pub(crate) fn covered(&self) -> u32 {
        self.derived.rows_covered()
    }

    /// Returns the rows of a window that still exist, in order; at its inner end there may be more
    /// than asked for. `None` if the file is damaged.
    pub(crate) fn rows(&self, window: Window) -> Option<Vec<u32>> {
        let total = self.derived.len() / ROW_LEN;
        let gone = self.snapshot.expunged_rows().len() as u64;
        let range = match window {
            Window::All => 0..total,
            Window::First(count) => 0..total.min(u64::from(count) + gone),
            Window::Last(count) => total.saturating_sub(u64::from(count) + gone)..total,
        };
        let bytes = self.derived.read(range.start * ROW_LEN..range.end * ROW_LEN).ok()?;
        let (words, _) = bytes.as_chunks::<4>();
        let physical = words.iter().map(|word| u32::from_le_bytes(*word));
        Some(physical.filter_map(|row| self.snapshot.row_of_physical(row)).collect())
    }
}
