//! Reading many rows at once.

use std::ops::Range;

use barid_state::MessageKey;
use barid_vfs::le::u32_at;

use crate::base::{Base, Cursor};
use crate::column::ColumnKind;
use crate::core_row::{Core, UID_AT, identity_of};
use crate::error::Result;
use crate::record::Record;
use crate::records::{Read, Wanted};
use crate::snapshot::Snapshot;
use crate::thread_row::{IdHash, ThreadRow, ThreadView};

/// Minimum number of rows for which reads bypass the block cache.
const BULK_ROWS_MIN: usize = 512;

/// Consecutive rows up to which single rows cost less than their blocks.
const SINGLE_ROWS_MAX: usize = 8;

impl Snapshot {
    /// Visits cores and header fields of rows in the order given.
    ///
    /// Rows may be in any order: if that would read the same blocks repeatedly, up to
    /// [`crate::limits::GATHER_ROWS_MAX`] of them are first gathered in the order of the store.
    ///
    /// # Errors
    /// A damaged cache; errors of the file system and of the store.
    pub fn records(
        &self,
        rows: &[u32],
        visit: &mut dyn FnMut(u32, &Core, &Record<'_>),
    ) -> Result<()> {
        let window = self.base.records().windows().1;
        self.visit_records(rows, window, &mut |row, core, record| {
            visit(row, core, record);
            true
        })
    }

    /// Visits rows as [`Snapshot::records`] does, until `visit` returns `false`; the amount read
    /// ahead is proportional to the rows visited.
    ///
    /// # Errors
    /// As for [`Snapshot::records`].
    pub fn records_while(
        &self,
        rows: &[u32],
        visit: &mut dyn FnMut(u32, &Core, &Record<'_>) -> bool,
    ) -> Result<()> {
        self.visit_records(rows, self.base.records().windows().0, visit)
    }

    fn visit_records(
        &self,
        rows: &[u32],
        mut window: usize,
        visit: &mut dyn FnMut(u32, &Core, &Record<'_>) -> bool,
    ) -> Result<()> {
        let store = self.base.records();
        let mut window_max = store.windows().1;
        let mut rest = rows;
        let mut wanted: Vec<Wanted<'_>> = Vec::new();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(window));
            let items = self.items(now)?;
            wanted.clear();
            wanted.extend(items.iter().map(|item| self.wanted(item)));
            let few = now.len() <= BULK_ROWS_MIN;
            let read = store.read(&wanted, few, &mut |index, record| {
                let item = &items[index];
                let record = Record::decode(record).ok_or_else(|| self.bounds())?;
                Ok(visit(item.row, &item.core, &record))
            })?;
            match read {
                Read::Stopped => break,
                Read::TooMuch => {
                    window_max = (now.len() / 4).max(1);
                    window = window_max;
                }
                Read::Done => {
                    rest = later;
                    window = (window * 4).min(window_max);
                }
            }
        }
        Ok(())
    }

    /// Visits the fixed-size facts of rows in the order given; reads each block once if the rows
    /// ascend.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchRow`]; a damaged cache; errors of the file system.
    pub fn cores_of(&self, rows: &[u32], visit: &mut dyn FnMut(u32, &Core)) -> Result<()> {
        if !rows.is_sorted() || rows.len() <= SINGLE_ROWS_MAX {
            return rows.iter().try_for_each(|row| {
                visit(*row, &self.core(*row)?);
                Ok(())
            });
        }
        let mut cores = self.core_cursor();
        rows.iter().try_for_each(|row| {
            visit(*row, &cores.get(self.check_row(*row)?)?);
            Ok(())
        })
    }

    fn wanted(&self, item: &BulkRow) -> Wanted<'_> {
        match self.overlay.added(item.physical) {
            Some(added) => Wanted::Here(&added.record),
            None => Wanted::Stored(item.core.heap),
        }
    }

    /// Returns the cores of rows, read in ascending order.
    fn items(&self, rows: &[u32]) -> Result<Vec<BulkRow>> {
        let mut cores = self.core_cursor();
        let mut item = |row: &u32| {
            let physical = self.check_row(*row)?;
            Ok(BulkRow { row: *row, physical, core: cores.get(physical)? })
        };
        if rows.is_sorted() {
            return rows.iter().map(item).collect();
        }
        let mut order: Vec<u32> = (0..rows.len() as u32).collect();
        order.sort_unstable_by_key(|index| rows[*index as usize]);
        let mut items: Vec<(u32, BulkRow)> = Vec::with_capacity(rows.len());
        for index in order {
            items.push((index, item(&rows[index as usize])?));
        }
        items.sort_unstable_by_key(|(index, _)| *index);
        Ok(items.into_iter().map(|(_, item)| item).collect())
    }

    /// Visits the threading data of a range of rows; reads each block once.
    ///
    /// # Errors
    /// A damaged cache; errors of the file system.
    pub fn thread_rows(
        &self,
        rows: Range<u32>,
        visit: &mut dyn FnMut(u32, &ThreadView<'_>),
    ) -> Result<()> {
        let mut threads = Cursor::new(&self.base, ColumnKind::Thread);
        let mut references = Cursor::new(&self.base, ColumnKind::References);
        let mut ids: Vec<IdHash> = Vec::new();
        self.for_rows(rows, |row, physical| {
            if let Some(added) = self.overlay.added(physical) {
                visit(row, &view(&added.thread, &added.references));
                return Ok(());
            }
            let thread = ThreadRow::decode(threads.row(physical)?);
            ids.clear();
            self.read_references(&thread, &mut references, &mut ids)?;
            visit(row, &view(&thread, &ids));
            Ok(())
        })
    }

    /// Appends the references of a message of the columns to `ids`.
    pub(crate) fn read_references(
        &self,
        thread: &ThreadRow,
        references: &mut Cursor<'_>,
        ids: &mut Vec<IdHash>,
    ) -> Result<()> {
        for index in 0..u32::from(thread.references_count) {
            let number = thread.references_start.checked_add(index);
            ids.push(IdHash::decode(references.row(number.ok_or_else(|| self.bounds())?)?));
        }
        Ok(())
    }

    /// Returns the sent dates of all rows, in seconds since 1970 (RFC 5256 §2.2).
    ///
    /// # Errors
    /// A damaged cache; errors of the file system.
    pub fn sent_dates(&self) -> Result<Vec<i64>> {
        self.column(|core| core.sent_date.unix_seconds)
    }

    /// Returns the internal dates of all rows, in seconds since 1970.
    ///
    /// # Errors
    /// A damaged cache; errors of the file system.
    pub fn internal_dates(&self) -> Result<Vec<i64>> {
        self.column(|core| core.internal_date.unix_seconds)
    }

    /// Returns the UIDs of all rows.
    ///
    /// # Errors
    /// A damaged cache; errors of the file system.
    pub fn uids(&self) -> Result<Vec<u32>> {
        self.uids_in(0..self.len())
    }

    /// Returns the UIDs of a range of rows; what is beyond the last row is left out.
    pub fn uids_in(&self, rows: Range<u32>) -> Result<Vec<u32>> {
        let mut uids =
            Vec::with_capacity(rows.end.min(self.len()).saturating_sub(rows.start) as usize);
        if rows.len() <= SINGLE_ROWS_MAX {
            // The block cache has the blocks of rows that are looked at one by one.
            for row in rows.start..rows.end.min(self.len()) {
                uids.push(self.core(row)?.uid.get());
            }
            return Ok(uids);
        }
        // Nothing that the log changes of a message is its UID.
        let mut column = UidCursor::new(&self.base);
        self.for_rows(rows, |_, physical| {
            uids.push(match self.overlay.added_uid(physical) {
                Some(uid) => uid.get(),
                None => column.uid(physical)?,
            });
            Ok(())
        })?;
        Ok(uids)
    }

    /// Visits the UIDs of a range of rows, and what their messages are: the message key, and the
    /// length of the body as stored. Reads each block once, and decodes nothing else.
    ///
    /// # Errors
    /// A damaged cache; errors of the file system.
    pub fn identities(
        &self,
        rows: Range<u32>,
        visit: &mut dyn FnMut(u32, MessageKey, u64),
    ) -> Result<()> {
        let body_len = |size: u64, header_len: u32| size.saturating_sub(header_len.into());
        if self.overlay.has_places() {
            return self.cores(rows, &mut |_, core| {
                visit(core.uid.get(), core.key, body_len(core.size, core.header_len));
            });
        }
        let mut cursor = Cursor::new(&self.base, ColumnKind::Core);
        self.for_rows(rows, |_, physical| {
            if let Some(core) = self.overlay.added_core(physical) {
                visit(core.uid.get(), core.key, body_len(core.size, core.header_len));
                return Ok(());
            }
            let (uid, key, size, header_len) = identity_of(cursor.row(physical)?);
            visit(uid, key, body_len(size, header_len));
            Ok(())
        })
    }

    /// Returns the stored sizes of all rows, in bytes.
    ///
    /// # Errors
    /// A damaged cache; errors of the file system.
    pub fn sizes(&self) -> Result<Vec<u64>> {
        self.column(|core| core.size)
    }

    fn column<T>(&self, value: impl Fn(&Core) -> T) -> Result<Vec<T>> {
        let mut values = Vec::with_capacity(self.len() as usize);
        self.cores(0..self.len(), &mut |_, core| values.push(value(core)))?;
        Ok(values)
    }
}

/// A cursor over the UIDs of the columns, ascending. A block whose UIDs follow each other without a
/// gap, by the first UIDs of it and of the next one, is not read.
struct UidCursor<'a> {
    base: &'a Base,
    cores: Cursor<'a>,
    /// The physical rows of a block without gaps, and what their UIDs are more than they.
    gapless: Range<u32>,
    distance: u32,
}

impl<'a> UidCursor<'a> {
    fn new(base: &'a Base) -> Self {
        let cores = Cursor::new(base, ColumnKind::Core);
        Self { base, cores, gapless: 0..0, distance: 0 }
    }

    #[inline]
    fn uid(&mut self, physical: u32) -> Result<u32> {
        if self.gapless.contains(&physical) {
            return Ok(physical.wrapping_add(self.distance));
        }
        self.uid_of_other_block(physical)
    }

    fn uid_of_other_block(&mut self, physical: u32) -> Result<u32> {
        if !self.cores.has(physical) {
            self.find_gapless(physical)?;
            if self.gapless.contains(&physical) {
                return Ok(physical.wrapping_add(self.distance));
            }
        }
        Ok(u32_at(self.cores.row(physical)?, UID_AT))
    }

    /// Sets the rows without gaps to those of the block of a row, if it has none. UIDs ascend, so
    /// that as many as there are rows between two first UIDs have no gap.
    fn find_gapless(&mut self, physical: u32) -> Result<()> {
        let per_block = ColumnKind::Core.rows_per_block() as u32;
        let block = physical / per_block;
        if u64::from(block) + 1 >= self.base.header.extents[ColumnKind::FirstUids.index()].rows {
            return Ok(());
        }
        let first = |block| self.base.row(ColumnKind::FirstUids, block, |row| u32_at(row, 0));
        let (own, next) = (first(block)?, first(block + 1)?);
        if next.checked_sub(own) == Some(per_block) {
            let start = block * per_block;
            self.gapless = start..start + per_block;
            self.distance = own.wrapping_sub(start);
        }
        Ok(())
    }
}

/// A row whose record is requested.
struct BulkRow {
    row: u32,
    physical: u32,
    core: Core,
}

fn view<'a>(thread: &ThreadRow, references: &'a [IdHash]) -> ThreadView<'a> {
    ThreadView {
        message_id: thread.message_id,
        subject: thread.subject,
        is_reply: thread.is_reply,
        date: thread.date,
        references,
    }
}
