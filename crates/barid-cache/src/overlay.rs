//! The changes of the log to the columns: messages added, changed and expunged.

use std::collections::BTreeMap;

use barid_types::{FlagSet, KeywordMask, ModSeq, Uid};

use crate::core_row::{Core, Place};
use crate::log::{ChangedPlace, ChangedRow, LogRecord};
use crate::shifts::Shifts;
use crate::thread_row::{IdHash, REFERENCE_ROW_LEN, ThreadRow};

/// A range of an arena.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slice {
    start: usize,
    len: usize,
}

/// A message of the log.
#[derive(Clone, Debug)]
pub(crate) struct Added {
    /// The core with the changes of later records, except for its position, which
    /// [`Overlay::added_core`] returns.
    core: Core,
    pub(crate) thread: ThreadRow,
    references: Slice,
    name: Slice,
    record: Slice,
}

/// The changes of a message of the columns.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    flags: FlagSet,
    keywords: KeywordMask,
    modseq: ModSeq,
    file: Option<(Slice, bool)>,
}

/// The state after all log records.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay {
    base_rows: u32,
    expunged: Vec<u32>,
    changed: BTreeMap<u32, Change>,
    sizes: BTreeMap<u32, u64>,
    /// Rows of the columns with individual positions, before [`Overlay::shifts`] are added.
    places: BTreeMap<u32, ChangedPlace>,
    shifts: Shifts,
    added: Vec<Added>,
    bytes: Vec<u8>,
    references: Vec<IdHash>,
}

impl Overlay {
    pub(crate) fn new(base_rows: u32) -> Self {
        Self { base_rows, ..Self::default() }
    }

    /// Returns the number of all physical rows, including expunged ones.
    pub(crate) fn physical_rows(&self) -> u32 {
        self.base_rows + self.added.len() as u32
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> u32 {
        self.physical_rows() - self.expunged.len() as u32
    }

    /// Returns the expunged physical rows, ascending.
    pub(crate) fn expunged(&self) -> &[u32] {
        &self.expunged
    }

    /// Returns the physical row of row `row`; O(log expunged).
    pub(crate) fn physical(&self, row: u32) -> u32 {
        // The k-th expunged row has `expunged[k] - k` live rows before it.
        let (mut low, mut high) = (0, self.expunged.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.expunged[middle] - middle as u32 <= row {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        row + low as u32
    }

    /// Returns the row of a physical row, unless it is expunged; O(log expunged).
    pub(crate) fn row_of(&self, physical: u32) -> Option<u32> {
        match self.expunged.binary_search(&physical) {
            Ok(_) => None,
            Err(before) => Some(physical - before as u32),
        }
    }

    /// Returns the physical rows that are not expunged, from the one of `row` on.
    pub(crate) fn live(&self, row: u32) -> impl Iterator<Item = u32> {
        let first = if row < self.len() { self.physical(row) } else { self.physical_rows() };
        let mut gone = &self.expunged[self.expunged.partition_point(|gone| *gone < first)..];
        (first..self.physical_rows()).filter(move |physical| match gone.split_first() {
            Some((next, rest)) if next == physical => {
                gone = rest;
                false
            }
            _ => true,
        })
    }

    /// Returns the message of the log with a physical row.
    pub(crate) fn added(&self, physical: u32) -> Option<&Added> {
        self.added.get(physical.checked_sub(self.base_rows)? as usize)
    }

    /// Returns the core of a message of the log.
    #[inline]
    pub(crate) fn added_core(&self, physical: u32) -> Option<Core> {
        let mut core = self.added(physical)?.core;
        self.shift(physical, &mut core);
        Some(core)
    }

    /// Returns the UID of a message of the log.
    pub(crate) fn added_uid(&self, physical: u32) -> Option<Uid> {
        Some(self.added(physical)?.core.uid)
    }

    /// Returns the first physical row of the log whose UID is at least `uid`.
    pub(crate) fn added_from(&self, uid: u32) -> u32 {
        self.base_rows + self.added.partition_point(|added| added.core.uid.get() < uid) as u32
    }

    pub(crate) fn has_changes(&self) -> bool {
        !self.changed.is_empty()
            || !self.sizes.is_empty()
            || !self.places.is_empty()
            || !self.shifts.is_empty()
    }

    /// Returns `true` if the log changes only the cores of existing messages.
    pub(crate) fn is_of_cores(&self) -> bool {
        self.added.is_empty() && self.changed.values().all(|change| change.file.is_none())
    }

    /// Updates a core of the columns.
    pub(crate) fn update(&self, physical: u32, core: &mut Core) {
        if let Some(size) = self.sizes.get(&physical) {
            core.rfc822_size = Some(*size);
        }
        if let Some(change) = self.changed.get(&physical) {
            core.flags = change.flags;
            core.keywords = change.keywords;
            core.modseq = change.modseq;
            if let (Some((_, in_new)), Place::File { mark, .. }) = (change.file, core.place) {
                core.place = Place::File { in_new, mark };
            }
        }
        if let Some(place) = self.places.get(&physical) {
            place.state_in(core);
        }
        self.shift(physical, core);
    }

    fn shift(&self, physical: u32, core: &mut Core) {
        if let Place::Span { offset, .. } = &mut core.place {
            *offset = offset.wrapping_add(self.shifts.by(physical));
        }
    }

    /// Returns the file name of a physical row, if the log contains it.
    pub(crate) fn name(&self, physical: u32) -> Option<&[u8]> {
        let slice = match self.added(physical) {
            Some(added) => added.name,
            None => self.changed.get(&physical)?.file?.0,
        };
        Some(self.bytes_of(slice))
    }

    /// Returns the header record of a message of the log.
    pub(crate) fn record(&self, added: &Added) -> &[u8] {
        self.bytes_of(added.record)
    }

    /// Returns the references of a message of the log.
    pub(crate) fn references(&self, added: &Added) -> &[IdHash] {
        &self.references[added.references.start..added.references.start + added.references.len]
    }

    fn bytes_of(&self, slice: Slice) -> &[u8] {
        &self.bytes[slice.start..slice.start + slice.len]
    }

    fn keep(&mut self, bytes: &[u8]) -> Slice {
        let slice = Slice { start: self.bytes.len(), len: bytes.len() };
        self.bytes.extend_from_slice(bytes);
        slice
    }

    /// Applies a record; `false`, without any change, if it is invalid.
    pub(crate) fn apply(&mut self, record: &LogRecord<'_>) -> bool {
        let known = self.physical_rows();
        let here = |row: u32| row < known && self.expunged.binary_search(&row).is_err();
        let room = known.checked_add(record.added.len() as u32);
        let fits = record.expunged.iter().all(|row| here(*row))
            && record.expunged.is_sorted_by(|a, b| a < b)
            && record.changed.iter().all(|row| row.physical < known)
            && record.changed.iter().all(|row| ModSeq::new(row.modseq).is_some())
            && record.sizes.iter().all(|(row, _)| *row < known)
            && record.places.iter().all(|place| place.physical < known)
            && Shifts::are_sound(&record.shifts, known)
            && room.is_some();
        if !fits {
            return false;
        }
        for row in &record.changed {
            self.change(row);
        }
        for (row, size) in &record.sizes {
            match row.checked_sub(self.base_rows) {
                Some(row) => self.added[row as usize].core.rfc822_size = Some(*size),
                None => drop(self.sizes.insert(*row, *size)),
            }
        }
        self.shifts.add(&record.shifts);
        for place in &record.places {
            self.place(place);
        }
        if !record.expunged.is_empty() {
            self.expunged.extend_from_slice(&record.expunged);
            self.expunged.sort_unstable();
        }
        for row in &record.added {
            let references = Slice {
                start: self.references.len(),
                len: row.references.len() / REFERENCE_ROW_LEN,
            };
            let ids = row.references.chunks_exact(REFERENCE_ROW_LEN).map(IdHash::decode);
            self.references.extend(ids);
            let (name, record) = (self.keep(row.name), self.keep(row.record));
            let (core, thread) = (row.core, row.thread);
            self.added.push(Added { core, thread, references, name, record });
        }
        true
    }

    fn place(&mut self, place: &ChangedPlace) {
        let mut place = *place;
        place.offset = place.offset.wrapping_sub(self.shifts.by(place.physical));
        match place.physical.checked_sub(self.base_rows) {
            Some(row) => place.state_in(&mut self.added[row as usize].core),
            None => drop(self.places.insert(place.physical, place)),
        }
    }

    fn change(&mut self, row: &ChangedRow) {
        let file = row.file.as_ref().map(|(name, in_new)| (self.keep(name), *in_new));
        let flags = FlagSet::from_bits(row.flags);
        let keywords = KeywordMask(row.keywords);
        let modseq = ModSeq::new(row.modseq).unwrap_or_default();
        if row.physical < self.base_rows {
            let before = self.changed.get(&row.physical).and_then(|change| change.file);
            let file = file.or(before);
            self.changed.insert(row.physical, Change { flags, keywords, modseq, file });
            return;
        }
        let added = &mut self.added[(row.physical - self.base_rows) as usize];
        (added.core.flags, added.core.keywords, added.core.modseq) = (flags, keywords, modseq);
        if let (Some((name, in_new)), Place::File { mark, .. }) = (file, added.core.place) {
            added.name = name;
            added.core.name_len = name.len as u32;
            added.core.place = Place::File { in_new, mark };
        }
    }
}
