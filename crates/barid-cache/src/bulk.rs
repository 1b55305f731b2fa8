//! Reading many rows at once.

use std::ops::Range;

use crate::base::Cursor;
use crate::column::ColumnKind;
use crate::core_row::Core;
use crate::error::Result;
use crate::record::Record;
use crate::records::{Read, Wanted};
use crate::snapshot::Snapshot;
use crate::thread_row::{IdHash, ThreadRow, ThreadView};

/// Minimum number of rows for which reads bypass the block cache.
const BULK_ROWS_MIN: usize = 512;

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
        self.column(|core| core.uid.get())
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
