//! Writing of a snapshot without a log: compaction, conversion to another store, and following a
//! change of many messages. Rows stream from the old file to the new one, unless new columns
//! suffice (`refresh.rs`).

use std::path::Path;
use std::sync::Arc;

use barid_vfs::{File, Vfs};

use crate::base::{Cursor, HeapCursor};
use crate::builder::Builder;
use crate::column::ColumnKind;
use crate::core_row::{Core, HeapRef, RowLocation};
use crate::error::{Damage, Error, Result};
use crate::limits::{KV_NUMBERS, REWRITE_ROWS};
use crate::meta::Meta;
use crate::options::CacheOptions;
use crate::records::{Read, Wanted};
use crate::sink::{BuilderSink, NewRow};
use crate::snapshot::{Opened, Snapshot, Stored};
use crate::thread_row::{IdHash, ThreadRow};

/// Rewrites the cache at `path` of the mailbox `id` in another store or with another compression,
/// without reading the mailbox; `None` if there is no usable cache, or if another process is
/// writing it.
///
/// The rename of the new cache file is the commit point; afterwards the store of the old one is
/// removed. Nothing is done if the cache already has these `options`.
///
/// # Errors
/// Returns an error of reading the old cache or writing the new one; the old one then still exists.
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
    /// Rewrites this open cache as the function [`convert`] does.
    ///
    /// # Errors
    /// As for [`convert`].
    pub fn convert(&self, options: &CacheOptions) -> Result<Option<Self>> {
        let options = &options.effective();
        if self.options() == *options {
            return Ok(Some(self.clone()));
        }
        let Some(_lock) = self.lock_as_last()? else { return Ok(None) };
        let builder = Builder::instead_of(self, options)?;
        self.copy_to(builder, false, &mut Nothing).map(Some)
    }

    /// Takes the writers' lock if the file has exactly the state of the snapshot.
    fn lock_as_last(&self) -> Result<Option<Locked>> {
        if !matches!(self.stored, Stored::Yes) {
            return Ok(None);
        }
        let Some(lock) = self.lock()? else { return Ok(None) };
        let Some((file, len)) = self.open_same()? else { return Ok(None) };
        let is_last = self.is_last(&*file, len, self.log_end, self.link)?;
        Ok(is_last.then_some((lock, file, len)))
    }

    /// Rewrites the cache with the rows of `revision`, of which `gone` are removed; `None` if
    /// another process has changed the file, or is changing it.
    pub(crate) fn revised(&self, gone: u32, revision: &mut dyn Revision) -> Result<Option<Self>> {
        let Some((_lock, file, len)) = self.lock_as_last()? else { return Ok(None) };
        self.rewritten((file, len), gone, revision).map(Some)
    }

    /// Writes new columns, or a new file in place of the one with the long log, and reads those
    /// from now on; physical rows are renumbered. Returns `false`, without any change, if the store
    /// of the records is in use or unavailable. If another process has the lock or has replaced the
    /// file, the snapshot is detached. Damage is returned as an error; after any other error the
    /// cache is removed, so that it does not grow for ever.
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
        let Some((file, len)) = self.open_same()? else { return Ok(None) };
        if !self.is_headed_so(&*file, len)? {
            return Ok(None);
        }
        self.rewritten((file, len), 0, &mut Nothing).map(Some)
    }

    /// Writes new columns in the file, or a new file; the caller has the writers' lock. Records
    /// stay in their store.
    fn rewritten(
        &self,
        (file, file_len): (Box<dyn File>, u64),
        gone: u32,
        revision: &mut dyn Revision,
    ) -> Result<Self> {
        if self.can_refresh(file_len, gone)? {
            return self.refreshed(file, file_len, revision);
        }
        drop(file);
        let added = self.physical_len() - self.base_len();
        let numbers_left = u32::MAX - self.base.header.records.next;
        if self.base.kv.is_none() || numbers_left / 2 <= added + KV_NUMBERS {
            let builder = Builder::instead_of(self, &self.options())?;
            return self.copy_to(builder, false, revision);
        }
        let builder = Builder::beside_records_of(self, added)?;
        builder.drop_records(self.expunged_numbers()?);
        self.copy_to(builder, true, revision)
    }

    /// Returns the numbers of the records of the columns whose rows are expunged.
    fn expunged_numbers(&self) -> Result<Vec<u32>> {
        let mut cores = Cursor::new(&self.base, ColumnKind::Core);
        let gone = self.overlay.expunged().iter().take_while(|row| **row < self.base_len());
        gone.map(|row| Ok(crate::core_row::record_number(cores.row(*row)?))).collect()
    }

    /// Fills a new file with the live rows; with `keeps` those of the columns keep their records.
    fn copy_to(&self, builder: Builder, keeps: bool, revision: &mut dyn Revision) -> Result<Self> {
        let mut source = RowCursors::new(self);
        let mut rows = self.overlay.live(0);
        let mut cores = self.core_cursor();
        let mut items = Vec::with_capacity(REWRITE_ROWS);
        for chunk in 0.. {
            items.clear();
            let mut seen = 0;
            let mut dropped = Vec::new();
            for physical in rows.by_ref().take(REWRITE_ROWS) {
                seen += 1;
                let mut core = cores.get(physical)?;
                if revision.revise(&mut core)? {
                    items.push((physical, core));
                } else if keeps && physical < self.base_len() {
                    dropped.push(core.heap.block);
                }
            }
            if seen == 0 {
                break;
            }
            builder.drop_records(dropped);
            let mut sink = BuilderSink::new(&builder, chunk);
            source.copy(&items, keeps, &mut sink)?;
            sink.complete()?;
        }
        let meta = revision.finish(&self.meta)?;
        self.release();
        builder.replace(&meta, self.base.header.id)
    }
}

/// The writers' lock, the file, and its length.
type Locked = (Box<dyn File>, Box<dyn File>, u64);

/// The changes to apply during a rewrite.
pub(crate) trait Revision {
    /// Changes the facts of the next message; `false` if it is gone.
    fn revise(&mut self, core: &mut Core) -> Result<bool>;

    /// Returns the metadata of the mailbox, after all messages were passed; the counts are
    /// recomputed.
    fn finish(&mut self, meta: &Meta) -> Result<Meta>;
}

/// A revision without changes.
struct Nothing;

impl Revision for Nothing {
    fn revise(&mut self, _: &mut Core) -> Result<bool> {
        Ok(true)
    }

    fn finish(&mut self, meta: &Meta) -> Result<Meta> {
        Ok(meta.clone())
    }
}

/// Cursors over the parts of rows.
struct RowCursors<'a> {
    snapshot: &'a Snapshot,
    threads: Cursor<'a>,
    references: Cursor<'a>,
    names: HeapCursor<'a>,
    ids: Vec<IdHash>,
}

impl<'a> RowCursors<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let base = &snapshot.base;
        Self {
            snapshot,
            threads: Cursor::new(base, ColumnKind::Thread),
            references: Cursor::new(base, ColumnKind::References),
            names: HeapCursor::bulk(base),
            ids: Vec::new(),
        }
    }

    /// Copies rows; records are read together, as many as fit into memory at once.
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
                let record = added.map(|added| &*added.record);
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

    /// Copies a row; without a record, the row keeps its stored one.
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
                self.ids.extend_from_slice(&added.references);
                added.thread
            }
            None => {
                let thread = ThreadRow::decode(self.threads.row(physical)?);
                snapshot.read_references(&thread, &mut self.references, &mut self.ids)?;
                thread
            }
        };
        let name = match (core.location, snapshot.overlay.name(physical)) {
            (RowLocation::Extent(_), _) => &[],
            (RowLocation::Name { .. }, Some(name)) => name,
            (RowLocation::Name { .. }, None) => snapshot.name_in(core, &mut self.names)?,
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
        Some(added) => Wanted::Here(&added.record),
        None => Wanted::Stored(at),
    }
}
