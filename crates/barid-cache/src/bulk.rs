//! Reading many rows at once.

use std::ops::Range;

use crate::base::{Cursor, HeapCursor};
use crate::column::Kind;
use crate::core_row::Core;
use crate::error::Result;
use crate::heap::Record;
use crate::limits::{GATHER_BYTES_MAX, GATHER_ROWS_MAX};
use crate::snapshot::Snapshot;
use crate::thread_row::{IdHash, ThreadRow, ThreadView};

/// One in how many rows may lie in another block than the one before for rows to be read as they
/// come; if more do, they are gathered block by block first.
const SWITCHES_PER_ROWS: usize = 16;
/// So many rows are read past the blocks that are kept.
const BULK_ROWS_MIN: usize = 512;

impl Snapshot {
    /// Visits cores and header fields of rows in the order given.
    ///
    /// Rows may be in any order: where that would read the same blocks over and over, up to
    /// [`GATHER_ROWS_MAX`] of them are gathered in the order of the file first.
    pub fn records(
        &self,
        rows: &[u32],
        visit: &mut dyn FnMut(u32, &Core, &Record<'_>),
    ) -> Result<()> {
        let mut rest = rows;
        let mut window = GATHER_ROWS_MAX;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(window));
            let items = self.items(now)?;
            let switches = items.windows(2).filter(|two| two[0].block() != two[1].block()).count();
            if switches <= now.len() / SWITCHES_PER_ROWS {
                self.visit_items(&items, visit)?;
            } else if !self.gather(&items, visit)? {
                window = (now.len() / 4).max(1);
                continue;
            }
            rest = later;
        }
        Ok(())
    }

    /// As [`Snapshot::records`], until `visit` says `false`.
    pub fn records_while(
        &self,
        rows: &[u32],
        visit: &mut dyn FnMut(u32, &Core, &Record<'_>) -> bool,
    ) -> Result<()> {
        let mut go_on = true;
        for some in rows.chunks(GATHER_ROWS_MAX / 4) {
            self.records(some, &mut |row, core, record| {
                go_on = go_on && visit(row, core, record);
            })?;
            if !go_on {
                break;
            }
        }
        Ok(())
    }

    /// The cores of rows, read in ascending order.
    fn items(&self, rows: &[u32]) -> Result<Vec<Item>> {
        let mut cores = self.core_cursor();
        let mut item = |row: &u32| {
            let physical = self.check_row(*row)?;
            Ok(Item { row: *row, physical, core: cores.get(physical)? })
        };
        if rows.is_sorted() {
            return rows.iter().map(item).collect();
        }
        let mut order: Vec<u32> = (0..rows.len() as u32).collect();
        order.sort_unstable_by_key(|index| rows[*index as usize]);
        let mut items: Vec<(u32, Item)> = Vec::with_capacity(rows.len());
        for index in order {
            items.push((index, item(&rows[index as usize])?));
        }
        items.sort_unstable_by_key(|(index, _)| *index);
        Ok(items.into_iter().map(|(_, item)| item).collect())
    }

    fn heap_cursor(&self, rows: usize) -> HeapCursor<'_> {
        if rows > BULK_ROWS_MIN {
            HeapCursor::bulk(&self.base)
        } else {
            HeapCursor::new(&self.base)
        }
    }

    fn visit_items(
        &self,
        items: &[Item],
        visit: &mut dyn FnMut(u32, &Core, &Record<'_>),
    ) -> Result<()> {
        let mut heap = self.heap_cursor(items.len());
        for item in items {
            let bytes = self.record_bytes(item, &mut heap)?;
            let record = Record::decode(bytes).ok_or_else(|| self.bounds())?;
            visit(item.row, &item.core, &record);
        }
        Ok(())
    }

    /// Visits after collecting all records; `false`, and nothing visited, if they are too large.
    fn gather(
        &self,
        items: &[Item],
        visit: &mut dyn FnMut(u32, &Core, &Record<'_>),
    ) -> Result<bool> {
        let mut order: Vec<u32> = (0..items.len() as u32).collect();
        order.sort_unstable_by_key(|index| {
            let item = &items[*index as usize];
            (item.block(), item.core.heap.offset)
        });
        let mut bytes = Vec::new();
        let mut places = vec![0..0; items.len()];
        let mut heap = HeapCursor::bulk(&self.base);
        for index in order {
            let start = bytes.len();
            bytes.extend_from_slice(self.record_bytes(&items[index as usize], &mut heap)?);
            if bytes.len() > GATHER_BYTES_MAX && items.len() > 1 {
                return Ok(false);
            }
            places[index as usize] = start..bytes.len();
        }
        for (item, place) in items.iter().zip(places) {
            let record = Record::decode(&bytes[place]).ok_or_else(|| self.bounds())?;
            visit(item.row, &item.core, &record);
        }
        Ok(true)
    }

    fn record_bytes<'a>(&'a self, item: &Item, heap: &'a mut HeapCursor<'_>) -> Result<&'a [u8]> {
        if let Some(added) = self.overlay.added(item.physical) {
            return Ok(self.overlay.record(added));
        }
        let tail = heap.tail(item.core.heap.block, item.core.heap.offset)?;
        Record::bytes_of(tail).ok_or_else(|| self.bounds())
    }

    /// Visits what threading needs of a range of rows; reads each block once.
    pub fn thread_rows(
        &self,
        rows: Range<u32>,
        visit: &mut dyn FnMut(u32, &ThreadView<'_>),
    ) -> Result<()> {
        let mut threads = Cursor::new(&self.base, Kind::Thread);
        let mut references = Cursor::new(&self.base, Kind::References);
        let mut ids: Vec<IdHash> = Vec::new();
        self.for_rows(rows, |row, physical| {
            if let Some(added) = self.overlay.added(physical) {
                visit(row, &view(&added.thread, self.overlay.references(added)));
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

    /// The sent dates of all rows, in seconds since 1970 (RFC 5256 §2.2).
    pub fn sent_dates(&self) -> Result<Vec<i64>> {
        self.column(|core| core.sent_date.unix_seconds)
    }

    /// The internal dates of all rows, in seconds since 1970.
    pub fn internal_dates(&self) -> Result<Vec<i64>> {
        self.column(|core| core.internal_date.unix_seconds)
    }

    /// The UIDs of all rows.
    pub fn uids(&self) -> Result<Vec<u32>> {
        self.column(|core| core.uid.get())
    }

    /// The stored sizes of all rows.
    pub fn sizes(&self) -> Result<Vec<u64>> {
        self.column(|core| core.size)
    }

    fn column<T>(&self, value: impl Fn(&Core) -> T) -> Result<Vec<T>> {
        let mut values = Vec::with_capacity(self.len() as usize);
        self.cores(0..self.len(), &mut |_, core| values.push(value(core)))?;
        Ok(values)
    }
}

/// A row whose record is wanted.
struct Item {
    row: u32,
    physical: u32,
    core: Core,
}

impl Item {
    fn block(&self) -> u32 {
        self.core.heap.block
    }
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
