//! The changes of the log to the columns: messages added, changed and expunged.

use std::sync::Arc;

use barid_mailbox::Extent;
use barid_types::{FlagSet, KeywordMask, ModSeq, Uid};

use crate::core_row::{Core, RowLocation};
use crate::log::{ChangedPlace, ChangedRow, LogRecord};
use crate::shared::{Pages, SharedMap};
use crate::shifts::Shifts;
use crate::thread_row::{IdHash, REFERENCE_ROW_LEN, ThreadRow};

/// A message of the log.
#[derive(Clone, Debug)]
pub(crate) struct Added {
    /// The core with the changes of later records, except for its position, which
    /// [`Overlay::added_core`] returns.
    core: Core,
    pub(crate) thread: ThreadRow,
    pub(crate) references: Arc<[IdHash]>,
    name: Arc<[u8]>,
    /// The header record.
    pub(crate) record: Arc<[u8]>,
}

/// The changes of a message of the columns.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    flags: FlagSet,
    keywords: KeywordMask,
    modseq: ModSeq,
    file: Option<(Arc<[u8]>, bool)>,
}

/// The state after all log records.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay {
    base_rows: u32,
    expunged: Arc<Vec<u32>>,
    changed: SharedMap<Change>,
    sizes: SharedMap<u64>,
    /// Rows of the columns with individual positions, before [`Overlay::shifts`] are added.
    places: SharedMap<ChangedPlace>,
    shifts: Shifts,
    added: Pages<Added>,
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

    /// Returns the cores of the messages of the log that are not expunged, ascending.
    pub(crate) fn live_added(&self) -> impl Iterator<Item = &Core> {
        let physical = |at: usize| self.base_rows + at as u32;
        let all = self.added.iter().enumerate();
        let live = all.filter(move |(at, _)| self.row_of(physical(*at)).is_some());
        live.map(|(_, added)| &added.core)
    }

    /// Returns the rows of the columns whose flags, keywords or modseq may differ from those in
    /// `before`, ascending.
    pub(crate) fn rows_changed_since(&self, before: &Self) -> Vec<u32> {
        let facts = |change: &Change| (change.flags, change.keywords, change.modseq);
        let differs =
            |row: &u32| self.changed.get(row).map(facts) != before.changed.get(row).map(facts);
        let mut rows = self.changed.rows_since(&before.changed);
        rows.retain(differs);
        rows
    }

    /// Returns the modseq of a row of the columns, if the log changed the row.
    pub(crate) fn changed_modseq(&self, physical: u32) -> Option<ModSeq> {
        self.changed.get(&physical).map(|change| change.modseq)
    }

    pub(crate) fn has_changes(&self) -> bool {
        !self.changed.is_empty()
            || !self.sizes.is_empty()
            || !self.places.is_empty()
            || !self.shifts.is_empty()
    }

    /// Returns `true` if the log changes the size or the length of the header of messages.
    pub(crate) fn has_places(&self) -> bool {
        !self.places.is_empty()
    }

    /// Returns `true` if the log changes only the cores of existing messages.
    pub(crate) fn is_of_cores(&self) -> bool {
        self.added.is_empty() && self.changed.values_ever().all(|change| change.file.is_none())
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
            if let (Some((_, in_new)), RowLocation::Name { mark, .. }) =
                (&change.file, core.location)
            {
                core.location = RowLocation::Name { in_new: *in_new, mark };
            }
        }
        if let Some(place) = self.places.get(&physical) {
            place.state_in(core);
        }
        self.shift(physical, core);
    }

    fn shift(&self, physical: u32, core: &mut Core) {
        if let RowLocation::Extent(Extent { offset, .. }) = &mut core.location {
            *offset = offset.wrapping_add(self.shifts.by(physical));
        }
    }

    /// Returns the file name of a physical row, if the log contains it.
    pub(crate) fn name(&self, physical: u32) -> Option<&[u8]> {
        match self.added(physical) {
            Some(added) => Some(&added.name),
            None => Some(&self.changed.get(&physical)?.file.as_ref()?.0),
        }
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
                Some(row) => {
                    if let Some(added) = self.added.get_mut(row as usize) {
                        added.core.rfc822_size = Some(*size);
                    }
                }
                None => self.sizes.insert(*row, *size),
            }
        }
        self.shifts.add(&record.shifts);
        for place in &record.places {
            self.place(place);
        }
        if !record.expunged.is_empty() {
            let expunged = Arc::make_mut(&mut self.expunged);
            expunged.extend_from_slice(&record.expunged);
            expunged.sort_unstable();
        }
        for row in &record.added {
            let ids = row.references.chunks_exact(REFERENCE_ROW_LEN).map(IdHash::decode);
            self.added.push(Added {
                core: row.core,
                thread: row.thread,
                references: ids.collect(),
                name: row.name.into(),
                record: row.record.into(),
            });
        }
        true
    }

    fn place(&mut self, place: &ChangedPlace) {
        let mut place = *place;
        place.offset = place.offset.wrapping_sub(self.shifts.by(place.physical));
        match place.physical.checked_sub(self.base_rows) {
            Some(row) => {
                if let Some(added) = self.added.get_mut(row as usize) {
                    place.state_in(&mut added.core);
                }
            }
            None => self.places.insert(place.physical, place),
        }
    }

    fn change(&mut self, row: &ChangedRow) {
        let file = row.file.as_ref().map(|(name, in_new)| (Arc::from(&name[..]), *in_new));
        let flags = FlagSet::from_bits(row.flags);
        let keywords = KeywordMask(row.keywords);
        let modseq = ModSeq::new(row.modseq).unwrap_or_default();
        if row.physical < self.base_rows {
            let before = || self.changed.get(&row.physical)?.file.clone();
            let file = file.or_else(before);
            self.changed.insert(row.physical, Change { flags, keywords, modseq, file });
            return;
        }
        let Some(added) = self.added.get_mut((row.physical - self.base_rows) as usize) else {
            return;
        };
        (added.core.flags, added.core.keywords, added.core.modseq) = (flags, keywords, modseq);
        if let (Some((name, in_new)), RowLocation::Name { mark, .. }) = (file, added.core.location)
        {
            added.core.name_len = name.len() as u32;
            added.name = name;
            added.core.location = RowLocation::Name { in_new, mark };
        }
    }
}
