//! Writing a snapshot as a new file without a log: compaction, and conversion to another store.

use std::path::Path;
use std::sync::Arc;

use barid_vfs::Vfs;

use crate::base::{Cursor, HeapCursor};
use crate::builder::Builder;
use crate::column::Kind;
use crate::core_row::{Core, HeapRef, Place};
use crate::error::{Damage, Error, Result};
use crate::limits::{KV_NUMBERS, REWRITE_ROWS};
use crate::options::CacheOptions;
use crate::records::{Read, Wanted};
use crate::sink::{BuilderSink, NewRow};
use crate::snapshot::{Opened, Snapshot, Stored};
use crate::thread_row::{IdHash, ThreadRow};

/// Writes the cache at `path` of the mailbox `id` in another store or with another compression,
/// without reading the mailbox; `None` if there is no cache of use, or if another process writes
/// it.
///
/// The rename of the new cache file is the commit point; then the store of the old one is removed.
/// Nothing is done if the cache is already as `options` say.
///
/// # Errors
/// What reading the old cache and writing the new one give; the old one is then still there.
pub fn convert(
    vfs: Arc<dyn Vfs>,
    path: &Path,
    id: u128,
    options: &CacheOptions,
) -> Result<Option<Snapshot>> {
    let Opened::Fresh(snapshot) = Snapshot::open(vfs, path, id)? else { return Ok(None) };
    snapshot.convert(options)
}

impl Snapshot {
    /// As [`convert`], of an open cache.
    ///
    /// # Errors
    /// As [`convert`].
    pub fn convert(&self, options: &CacheOptions) -> Result<Option<Self>> {
        let options = &options.effective();
        if self.options() == *options {
            return Ok(Some(self.clone()));
        }
        let Some(_lock) = self.lock()? else { return Ok(None) };
        let Some((file, len)) = self.open_same()? else { return Ok(None) };
        let is_stored = matches!(self.stored, Stored::Yes);
        if !is_stored || !self.is_last(&*file, len, self.log_end, self.link)? {
            return Ok(None);
        }
        let builder = Builder::instead_of(self, options)?;
        self.copy_to(builder, false).map(Some)
    }

    /// Writes a new file in place of the one with the long log and reads that from now on; physical
    /// rows are numbered anew. `false`, and nothing done, if the store of the records is in use or
    /// cannot be used here. If it fails otherwise the cache is removed, lest it grow for ever.
    pub(crate) fn compact(&mut self) -> Result<bool> {
        use barid_kv::Error as Store;
        match self.compacted() {
            Ok(Some(snapshot)) => *self = snapshot,
            Ok(None) => self.stored = Stored::Detached,
            Err(error) if error.is_damage() => return Err(error),
            Err(Error::Store(Store::Busy { .. } | Store::Unavailable { .. })) => return Ok(false),
            Err(error) => {
                let _ = self.discard();
                self.stored = Stored::Failed(Arc::new(error));
            }
        }
        Ok(true)
    }

    fn compacted(&self) -> Result<Option<Self>> {
        let Some(_lock) = self.lock()? else { return Ok(None) };
        if self.open_same()?.is_none() {
            return Ok(None);
        }
        let added = self.physical_len() - self.base_len();
        let numbers_left = u32::MAX - self.base.header.records.next;
        if self.base.kv.is_none() || numbers_left / 2 <= added + KV_NUMBERS {
            let builder = Builder::instead_of(self, &self.options())?;
            return self.copy_to(builder, false).map(Some);
        }
        let builder = Builder::beside_records_of(self, added)?;
        builder.drop_records(self.expunged_numbers()?);
        self.copy_to(builder, true).map(Some)
    }

    /// The numbers of the records of the columns that no row names any more.
    fn expunged_numbers(&self) -> Result<Vec<u32>> {
        let mut cores = Cursor::new(&self.base, Kind::Core);
        let gone = self.overlay.expunged().iter().take_while(|row| **row < self.base_len());
        gone.map(|row| Ok(crate::core_row::record_number(cores.row(*row)?))).collect()
    }

    /// Fills a new file with the rows that are there; with `keeps` those of the columns keep their
    /// records.
    fn copy_to(&self, builder: Builder, keeps: bool) -> Result<Self> {
        let mut sink = BuilderSink::new(&builder, 0);
        let mut source = Source::new(self);
        let mut physical = self.overlay.live(0);
        let mut cores = self.core_cursor();
        loop {
            let mut items = Vec::with_capacity(REWRITE_ROWS);
            for physical in physical.by_ref().take(REWRITE_ROWS) {
                items.push((physical, cores.get(physical)?));
            }
            if items.is_empty() {
                break;
            }
            source.copy(&items, keeps, &mut sink)?;
        }
        sink.complete();
        self.release();
        builder.replace(&self.meta, self.base.header.id)
    }
}

/// Where the parts of rows are read from.
struct Source<'a> {
    snapshot: &'a Snapshot,
    threads: Cursor<'a>,
    references: Cursor<'a>,
    names: HeapCursor<'a>,
    ids: Vec<IdHash>,
}

impl<'a> Source<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let base = &snapshot.base;
        Self {
            snapshot,
            threads: Cursor::new(base, Kind::Thread),
            references: Cursor::new(base, Kind::References),
            names: HeapCursor::bulk(base),
            ids: Vec::new(),
        }
    }

    /// Copies rows; the records of as many as can be held at once are read together.
    fn copy(
        &mut self,
        items: &[(u32, Core)],
        keeps: bool,
        sink: &mut BuilderSink<'_>,
    ) -> Result<()> {
        let snapshot = self.snapshot;
        let store = snapshot.base.records();
        if keeps {
            return items.iter().try_for_each(|(physical, core)| {
                let added = snapshot.overlay.added(*physical);
                let record = added.map(|added| snapshot.overlay.record(added));
                self.copy_row(*physical, core, record, sink)
            });
        }
        let mut rest = items;
        let mut window = items.len();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(window));
            let wanted: Vec<Wanted<'_>> =
                now.iter().map(|(physical, core)| wanted(snapshot, *physical, core.heap)).collect();
            let read = store.read(&wanted, false, &mut |index, record| {
                let (physical, core) = &now[index];
                self.copy_row(*physical, core, Some(record), sink)?;
                Ok(true)
            })?;
            match read {
                Read::TooMuch => window = (now.len() / 4).max(1),
                Read::Done | Read::Stopped => rest = later,
            }
        }
        Ok(())
    }

    /// Copies a row; without a record, the one that it has is kept.
    fn copy_row(
        &mut self,
        physical: u32,
        core: &Core,
        record: Option<&[u8]>,
        sink: &mut BuilderSink<'_>,
    ) -> Result<()> {
        let snapshot = self.snapshot;
        self.ids.clear();
        let thread = match snapshot.overlay.added(physical) {
            Some(added) => {
                self.ids.extend_from_slice(snapshot.overlay.references(added));
                added.thread
            }
            None => {
                let thread = ThreadRow::decode(self.threads.row(physical)?);
                snapshot.read_references(&thread, &mut self.references, &mut self.ids)?;
                thread
            }
        };
        let name = match (core.place, snapshot.overlay.name(physical)) {
            (Place::Span { .. }, _) => &[],
            (Place::File { .. }, Some(name)) => name,
            (Place::File { .. }, None) => snapshot.name_in(core, &mut self.names)?,
        };
        let row = NewRow { core: *core, thread, references: &self.ids, name };
        let Some(record) = record else { return sink.push_row(row, true) };
        if crate::record::Record::decode(record).is_none() {
            return Err(snapshot.base.damaged(0, Damage::Bounds));
        }
        sink.push(row, true, |out| {
            out.extend_from_slice(record);
            false
        })
    }
}

fn wanted(snapshot: &Snapshot, physical: u32, at: HeapRef) -> Wanted<'_> {
    match snapshot.overlay.added(physical) {
        Some(added) => Wanted::Here(snapshot.overlay.record(added)),
        None => Wanted::Stored(at),
    }
}
