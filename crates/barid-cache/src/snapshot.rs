//! An open cache: the state of a mailbox at one stamp.
//!
//! Rows are in mailbox order and counted from 0, so the sequence number of a row is one more.
//! *Physical* rows keep their numbers within a generation; a row is the rank of a physical row
//! among those not expunged. Everything is read on demand and verified when read; after an
//! [`Error::Damaged`] the cache must be removed ([`Snapshot::discard`]) and built again.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use barid_mailbox::{Location, MessageName};
use barid_types::Uid;
use barid_vfs::le::u32_at;
use barid_vfs::{File, OpenOptions, Vfs};

use crate::base::{Base, Cursor, HeapCursor};
use crate::column::{BLOCK_HEAD_LEN, ColumnKind};
use crate::core_row::{Core, RowLocation, UID_AT};
use crate::error::{Damage, Error, Result};
use crate::header::{HEAD_LEN, Header};
use crate::limits::LOG_LEN_MAX;
use crate::log::{self, Link};
use crate::meta::Meta;
use crate::options::CacheOptions;
use crate::overlay::Overlay;
use crate::record::Record;
use crate::records::Wanted;
use crate::shared::Pages;

/// The result of [`Snapshot::open`].
#[expect(clippy::large_enum_variant, reason = "it is taken apart where it is returned")]
#[derive(Debug)]
pub enum Opened {
    /// A valid cache.
    Fresh(Snapshot),
    /// The file does not exist.
    Absent,
    /// An unusable file; build the cache again.
    Discarded {
        /// The reason, for one line of a report.
        reason: &'static str,
        /// The options it was created with, if they can still be read.
        options: Option<CacheOptions>,
    },
}

/// An open cache.
///
/// A copy shares the file, its cached blocks, and most of what was read of the log.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) base: Arc<Base>,
    pub(crate) meta: Meta,
    pub(crate) overlay: Overlay,
    /// Position of the next log record.
    pub(crate) log_end: u64,
    pub(crate) link: Link,
    /// The stems of all states since the file was built.
    pub(crate) stems: Pages<u64>,
    pub(crate) stored: Stored,
}

/// The relation of the file to the snapshot. Nothing is appended to the file unless they are equal.
#[derive(Clone, Debug)]
pub(crate) enum Stored {
    /// The file has the state of the snapshot.
    Yes,
    /// Another process wrote first, or the owner disabled writing.
    Detached,
    /// Writing failed.
    Failed(Arc<Error>),
}

/// A reusable buffer for [`Snapshot::record`].
#[derive(Clone, Debug, Default)]
pub struct RecordBuf(Vec<u8>);

impl Snapshot {
    /// Opens the cache at `path` of the mailbox `id`.
    ///
    /// Costs an open, a stat, and a read each of the header pages and, if present, the log. Returns
    /// an error only if the file system fails; an unusable file is [`Opened::Discarded`].
    pub fn open(vfs: Arc<dyn Vfs>, path: &Path, id: u128) -> Result<Opened> {
        match Self::open_any(vfs, path)? {
            Opened::Fresh(snapshot) if snapshot.base.header.id != id => {
                Ok(Opened::Discarded { reason: "it belongs to another mailbox", options: None })
            }
            opened => Ok(opened),
        }
    }

    /// Opens the cache at `path`, of any mailbox.
    pub(crate) fn open_any(vfs: Arc<dyn Vfs>, path: &Path) -> Result<Opened> {
        let file = match vfs.open(path, OpenOptions::READ) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Opened::Absent);
            }
            Err(error) => return Err(Error::at(path)(error)),
        };
        let mut page = vec![0; HEAD_LEN];
        let len = file.read_full_at(&mut page, 0).map_err(Error::at(path))?;
        page.truncate(len);
        // Afterwards: the file is extended before the page with its length is written.
        let metadata = file.metadata().map_err(Error::at(path))?;
        let file_len = metadata.size;
        let header = match Header::decode(&mut page, file_len) {
            Ok(header) => header,
            Err(reason) => {
                let options = Header::options_guessed(&page);
                return Ok(Opened::Discarded { reason, options });
            }
        };
        let options = Some(header.options);
        let Some(meta) = read_meta(&*file, &header, &page).map_err(Error::at(path))? else {
            return Ok(Opened::Discarded { reason: "the metadata is damaged", options });
        };
        let base = Base::new(&vfs, file, metadata.inode, path, header);
        let mut snapshot = Self::from_new_file(vfs, base, meta);
        snapshot.read_log(file_len)?;
        if snapshot.meta_is_consistent() {
            Ok(Opened::Fresh(snapshot))
        } else {
            Ok(Opened::Discarded { reason: "the metadata is inconsistent", options })
        }
    }

    pub(crate) fn from_new_file(vfs: Arc<dyn Vfs>, base: Base, meta: Meta) -> Self {
        let header = &base.header;
        Self {
            vfs,
            meta,
            overlay: Overlay::new(header.messages),
            stems: Pages::from_iter([header.checksum]),
            log_end: header.log_start,
            link: Link { sequence: 0, stem: header.checksum },
            base: Arc::new(base),
            stored: Stored::Yes,
        }
    }

    fn meta_is_consistent(&self) -> bool {
        self.meta.recent <= self.len() && self.meta.unseen <= self.len()
    }

    /// Applies records up to the first that is incomplete, not next in the chain, or invalid.
    fn read_log(&mut self, file_len: u64) -> Result<()> {
        let len = file_len.saturating_sub(self.log_end).min(LOG_LEN_MAX) as usize;
        if len == 0 {
            return Ok(());
        }
        let mut log = vec![0; len];
        let read = self.base.file.read_full_at(&mut log, self.log_end);
        log.truncate(read.map_err(Error::at(&self.base.path))?);
        let mut rest = &log[..];
        while let Some((record, link)) = log::next(rest, self.link) {
            if !self.take_record(record, link) {
                break;
            }
            rest = &rest[record.len()..];
        }
        Ok(())
    }

    /// Applies the bytes of the next record in the chain.
    pub(crate) fn take_record(&mut self, bytes: &[u8], link: Link) -> bool {
        let Some(record) = log::decode(bytes, self.meta.generation) else { return false };
        if !self.overlay.apply(&record) {
            return false;
        }
        self.meta = record.meta;
        self.link = link;
        self.stems.push(link.stem);
        self.log_end += bytes.len() as u64;
        true
    }

    /// Returns the number of messages.
    pub fn len(&self) -> u32 {
        self.overlay.len()
    }

    /// Returns `true` if there are no messages.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the data about the mailbox as a whole.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Returns the path of the cache file.
    pub fn path(&self) -> &Path {
        &self.base.path
    }

    /// Returns the seed of every [`crate::IdHash`] of this cache.
    pub fn hash_seed(&self) -> u64 {
        self.base.header.seed
    }

    /// Returns the options that the cache was created with.
    pub fn options(&self) -> CacheOptions {
        self.base.header.options
    }

    /// Ends the read session in the store of header records, so that writers need not wait for this
    /// process; the next read of a record starts another.
    pub fn release(&self) {
        self.base.records().release();
    }

    /// Returns the length of the cache file in bytes, without a torn record at its end.
    pub fn file_len(&self) -> u64 {
        self.log_end
    }

    /// Returns the highest physical row plus one.
    pub fn physical_len(&self) -> u32 {
        self.overlay.physical_rows()
    }

    /// Returns the number of rows of the columns; physical rows from here on are in the log.
    pub fn base_len(&self) -> u32 {
        self.base.rows()
    }

    /// Returns the generation of the column of the facts. In each cache that has the same one and
    /// the same [`Snapshot::base_len`], a physical row below that is the same message: its UID,
    /// header and length are. `None` if the log changes the lengths of messages.
    pub fn columns_generation(&self) -> Option<u64> {
        let generation = self.base.header.extents[ColumnKind::Core.index()].generation;
        (!self.overlay.has_places()).then_some(generation)
    }

    /// Returns the expunged physical rows, ascending.
    pub fn expunged_rows(&self) -> &[u32] {
        self.overlay.expunged()
    }

    /// Returns the physical row of a row; O(log expunged). `row` is below [`Snapshot::len`].
    pub fn physical_row(&self, row: u32) -> u32 {
        self.overlay.physical(row)
    }

    /// Returns the row of a physical row, unless that is expunged; O(log expunged).
    pub fn row_of_physical(&self, physical: u32) -> Option<u32> {
        (physical < self.physical_len()).then(|| self.overlay.row_of(physical)).flatten()
    }

    /// Returns the first row whose physical row is at least `physical`; [`Snapshot::len`] if there
    /// is none.
    pub fn row_from_physical(&self, physical: u32) -> u32 {
        let physical = physical.min(self.physical_len());
        physical - self.overlay.expunged().partition_point(|gone| *gone < physical) as u32
    }

    /// Returns the physical rows that are not expunged, ascending, from the one of `row` on.
    pub fn physical_rows(&self, row: u32) -> impl Iterator<Item = u32> {
        self.overlay.live(row)
    }

    /// Returns the error that prevented the last change from being written to the file, if any:
    /// only this process then has that change.
    pub fn store_error(&self) -> Option<&Error> {
        match &self.stored {
            Stored::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Disables all writing to the file; changes stay in this process.
    pub fn detach(&mut self) {
        self.stored = Stored::Detached;
    }

    /// Removes the cache; open files of it stay readable. A cache with a store for its records is
    /// not removed if another cache has replaced it.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn discard(&self) -> Result<()> {
        let path = &self.base.path;
        if let Some(kv) = &self.base.kv {
            self.release();
            match self.vfs.metadata(path) {
                Ok(found) if found.inode != self.base.inode => return Ok(()),
                _ => drop(kv.store.remove()),
            }
        }
        match self.vfs.remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::at(path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Returns the store that the cache at `path` names, if any.
    pub(crate) fn store_at(vfs: &Arc<dyn Vfs>, path: &Path) -> Option<barid_kv::Store> {
        match Self::open_any(Arc::clone(vfs), path) {
            Ok(Opened::Fresh(snapshot)) => snapshot.base.kv.as_ref().map(|kv| kv.store.clone()),
            _ => None,
        }
    }

    pub(crate) fn check_row(&self, row: u32) -> Result<u32> {
        match self.len() {
            len if row >= len => Err(Error::NoSuchRow { row, len }),
            _ => Ok(self.overlay.physical(row)),
        }
    }

    pub(crate) fn bounds(&self) -> Error {
        self.base.damaged(0, Damage::Bounds)
    }

    /// Returns the fixed-size facts of one message.
    ///
    /// # Errors
    /// [`Error::NoSuchRow`]; a damaged cache; errors of the file system.
    pub fn core(&self, row: u32) -> Result<Core> {
        let physical = self.check_row(row)?;
        self.core_of(physical)
    }

    pub(crate) fn core_of(&self, physical: u32) -> Result<Core> {
        if let Some(core) = self.overlay.added_core(physical) {
            return Ok(core);
        }
        let core = self.base.row(ColumnKind::Core, physical, Core::decode)?;
        let mut core = core.ok_or_else(|| self.bounds())?;
        self.overlay.update(physical, &mut core);
        Ok(core)
    }

    /// Visits the fixed-size facts of a range of rows; reads each block once.
    ///
    /// # Errors
    /// As for [`Snapshot::core`].
    pub fn cores(&self, rows: Range<u32>, visit: &mut dyn FnMut(u32, &Core)) -> Result<()> {
        let mut cores = self.core_cursor();
        self.for_rows(rows, |row, physical| {
            visit(row, &cores.get(physical)?);
            Ok(())
        })
    }

    /// Calls `each` with every row of the range and its physical row.
    pub(crate) fn for_rows(
        &self,
        rows: Range<u32>,
        mut each: impl FnMut(u32, u32) -> Result<()>,
    ) -> Result<()> {
        let end = rows.end.min(self.len());
        for (row, physical) in (rows.start..end).zip(self.overlay.live(rows.start)) {
            each(row, physical)?;
        }
        Ok(())
    }

    pub(crate) fn core_cursor(&self) -> CoreCursor<'_> {
        CoreCursor { snapshot: self, rows: Cursor::new(&self.base, ColumnKind::Core) }
    }

    /// Returns the position of a message; `name` receives the bytes of its file name.
    ///
    /// # Errors
    /// As for [`Snapshot::core`].
    pub fn location<'a>(&self, row: u32, name: &'a mut Vec<u8>) -> Result<Location<'a>> {
        let physical = self.check_row(row)?;
        let core = self.core_of(physical)?;
        name.clear();
        if matches!(core.location, RowLocation::Name { .. }) {
            match self.overlay.name(physical) {
                Some(bytes) => name.extend_from_slice(bytes),
                None => {
                    name.extend_from_slice(self.name_in(&core, &mut HeapCursor::new(&self.base))?)
                }
            }
        }
        Ok(location_of(&core, name))
    }

    /// Returns the file name of a message of the columns.
    pub(crate) fn name_in<'a>(
        &self,
        core: &Core,
        heap: &'a mut HeapCursor<'_>,
    ) -> Result<&'a [u8]> {
        let tail = heap.tail(core.name.block, core.name.offset)?;
        tail.get(..core.name_len as usize).ok_or_else(|| self.bounds())
    }

    /// Returns the header fields of one message.
    ///
    /// # Errors
    /// As for [`Snapshot::core`], and errors of the store of header records.
    pub fn record<'a>(&self, row: u32, buffer: &'a mut RecordBuf) -> Result<Record<'a>> {
        let physical = self.check_row(row)?;
        buffer.0.clear();
        match self.overlay.added(physical) {
            Some(added) => buffer.0.extend_from_slice(&added.record),
            None => {
                let wanted = [Wanted::Stored(self.core_of(physical)?.heap)];
                self.base.records().read(&wanted, true, &mut |_, record| {
                    buffer.0.extend_from_slice(record);
                    Ok(true)
                })?;
            }
        }
        Record::decode(&buffer.0).ok_or_else(|| self.bounds())
    }

    /// Returns the row with a UID; reads at most two blocks.
    ///
    /// # Errors
    /// A damaged cache; errors of the file system.
    pub fn row_of_uid(&self, uid: Uid) -> Result<Option<u32>> {
        Ok(self.physical_of_uid(uid)?.and_then(|physical| self.overlay.row_of(physical)))
    }

    /// Returns the first row whose UID is at least `uid`; [`Snapshot::len`] if there is none.
    ///
    /// # Errors
    /// A damaged cache; errors of the file system.
    pub fn row_from_uid(&self, uid: Uid) -> Result<u32> {
        Ok(self.row_from_physical(self.physical_from_uid(uid)?))
    }

    /// Returns the physical row with a UID, expunged or not.
    pub(crate) fn physical_of_uid(&self, uid: Uid) -> Result<Option<u32>> {
        let physical = self.physical_from_uid(uid)?;
        if physical >= self.physical_len() {
            return Ok(None);
        }
        let found = match self.overlay.added_uid(physical) {
            Some(uid) => uid.get(),
            None => self.base.row(ColumnKind::Core, physical, |row| u32_at(row, UID_AT))?,
        };
        Ok((found == uid.get()).then_some(physical))
    }

    /// Returns the first physical row whose UID is at least `uid`.
    fn physical_from_uid(&self, uid: Uid) -> Result<u32> {
        let uid = uid.get();
        // Finds the last block whose first UID is not above `uid`.
        let (mut low, mut high) = (0, self.base.header.extents[ColumnKind::FirstUids.index()].rows);
        while low < high {
            let middle = low + (high - low) / 2;
            let first =
                self.base.row(ColumnKind::FirstUids, middle as u32, |row| u32_at(row, 0))?;
            if first <= uid {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let Some(index) = low.checked_sub(1) else {
            // Below every UID of the columns, or the columns are empty.
            return Ok(if self.base.rows() > 0 { 0 } else { self.overlay.added_from(uid) });
        };
        let block = self.base.block(ColumnKind::Core, index)?;
        let rows = block.get(BLOCK_HEAD_LEN..).unwrap_or_default();
        let row_len = ColumnKind::Core.row_len();
        let (mut low, mut high) = (0, rows.len() / row_len);
        while low < high {
            let middle = low + (high - low) / 2;
            if u32_at(rows, middle * row_len + UID_AT) < uid {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let physical = index * ColumnKind::Core.rows_per_block() + low as u64;
        Ok(match physical as u32 {
            physical if physical < self.base.rows() => physical,
            _ => self.overlay.added_from(uid),
        })
    }
}

/// A cursor over cores in ascending order.
pub(crate) struct CoreCursor<'a> {
    snapshot: &'a Snapshot,
    rows: Cursor<'a>,
}

impl CoreCursor<'_> {
    #[inline]
    pub(crate) fn get(&mut self, physical: u32) -> Result<Core> {
        let overlay = &self.snapshot.overlay;
        if let Some(core) = overlay.added_core(physical) {
            return Ok(core);
        }
        let core = Core::decode(self.rows.row(physical)?);
        let mut core = core.ok_or_else(|| self.snapshot.bounds())?;
        if overlay.has_changes() {
            overlay.update(physical, &mut core);
        }
        Ok(core)
    }
}

/// Returns the location of a message, with the file name `name` if it has one.
pub(crate) fn location_of<'a>(core: &Core, name: &'a [u8]) -> Location<'a> {
    match core.location {
        RowLocation::Name { in_new, mark } => Location::from(MessageName { name, in_new, mark }),
        RowLocation::Extent(extent) => extent.into(),
    }
}

fn read_meta(file: &dyn File, header: &Header, page: &[u8]) -> std::io::Result<Option<Meta>> {
    let mut outside = Vec::new();
    let bytes = if header.meta_start == Header::META_START {
        header.meta_in(page)
    } else {
        outside.resize(header.meta_len as usize, 0);
        let len = file.read_full_at(&mut outside, header.meta_start)?;
        outside.get(..len)
    };
    let intact = bytes.filter(|bytes| log::meta_checksum(bytes) == header.meta_checksum);
    Ok(intact.and_then(|bytes| Meta::decode(bytes, header.generation)))
}
