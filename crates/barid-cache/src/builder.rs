//! A new cache file, filled by a scan of the whole mailbox.
//!
//! Header records and file names are written to the file as they arrive. The columns, some 170
//! bytes per message, wait until the end: those of a small mailbox in memory, those of a larger one
//! in an unnamed file. The commit point is the rename at the end of [`Builder::finish`]; nothing is
//! fsynced. After a crash the path holds the old file, the new one, or one whose checksums fail.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use barid_mailbox::{ScanReport, ScanSink, Sinks};
use barid_state::Identity;
use barid_types::{FlagSet, KeywordMask, ModSeq, Uid};
use barid_vfs::{File, OpenOptions, Vfs};
use xxhash_rust::xxh3::xxh3_64;

use crate::base::Base;
use crate::column::{PackedColumns, align};
use crate::columns::{Chunks, Columns, Numbering};
use crate::error::{Error, Result};
use crate::header::{HEAD_LEN, Header, RecordsHead};
use crate::heap::{HeapStore, HeapTarget, HeapWriter};
use crate::limits::ROWS_HELD_LEN;
use crate::meta::Meta;
use crate::options::{CacheOptions, StoreKind};
use crate::pack::Packing;
use crate::random::random_u64;
use crate::records::{KvSink, KvWriter};
use crate::rows::{ChunkRows, ColumnChunk};
use crate::sink::BuilderSink;
use crate::snapshot::Snapshot;
use crate::spool::{Spool, temporary_path};

/// A function that returns the modseq that a message keeps from an earlier scan with these flags
/// and keywords; `None` if it is new or changed.
pub type KeepModSeq<'a> = &'a dyn Fn(Uid, FlagSet, KeywordMask) -> Option<ModSeq>;

/// Values that only the caller knows at the end of a scan.
#[derive(Clone, Copy)]
pub struct Finish<'a> {
    /// The identity of the mailbox.
    pub identity: &'a Identity,
    /// The name of its format.
    pub format: &'a str,
    /// The modseq of messages without one.
    pub modseq: ModSeq,
    /// The modseqs that messages keep.
    pub keep: Option<KeepModSeq<'a>>,
    /// The highest modseq if a whole cache is built in which every message keeps its modseq and
    /// none has vanished; `None` for `modseq` in that case, too.
    pub unchanged: Option<ModSeq>,
}

/// A cache file being built.
#[derive(Debug)]
pub struct Builder {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    temp: Temp,
    file: Box<dyn File>,
    generation: u64,
    pub(crate) seed: u64,
    options: CacheOptions,
    heap: HeapStore,
    /// The store of the records, unless they are in the heap.
    pub(crate) kv: Option<KvWriter>,
    /// The store of the replaced cache, if its header has been read.
    replaced: Option<Option<barid_kv::Store>>,
    chunks: Mutex<Chunks>,
    /// Bytes of the rows received so far.
    rows_len: AtomicU64,
    /// The file for rows that exceed the memory limit.
    spool: OnceLock<Spool>,
    writers: Mutex<Vec<Writers>>,
}

/// Partly filled buffers that wait for the next sink.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    pub(crate) records: HeapWriter,
    pub(crate) names: HeapWriter,
    pub(crate) packing: Option<Packing>,
    pub(crate) kv: KvSink,
}

impl Writers {
    fn new(options: &CacheOptions) -> Self {
        Self { packing: options.packing().map(Packing::new), ..Self::default() }
    }
}

/// The temporary file, removed unless it was renamed.
#[derive(Debug)]
struct Temp {
    vfs: Arc<dyn Vfs>,
    path: Option<PathBuf>,
}

impl Temp {
    fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new(""))
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // A remaining file is removed by the next `CacheDir::prune`.
            let _ = self.vfs.remove_file(path);
        }
    }
}

impl Builder {
    /// Starts a cache that will replace the one at `path`; its directory is created if missing.
    ///
    /// # Errors
    /// Errors of the file system, and of creating the store of header records.
    pub fn create(vfs: Arc<dyn Vfs>, path: &Path, options: &CacheOptions) -> Result<Self> {
        let mut builder = Self::with_seed(vfs, path, random_u64(), options)?;
        if let StoreKind::Kv(choice) = options.store {
            builder.kv = Some(KvWriter::create(&builder.vfs, path, options, choice)?);
        }
        Ok(builder)
    }

    /// Starts a cache as [`Builder::create`] does, as a replacement of `old` with its hash seed.
    pub(crate) fn instead_of(old: &Snapshot, options: &CacheOptions) -> Result<Self> {
        let (vfs, path) = (Arc::clone(&old.vfs), &old.base.path);
        let mut builder = Self::create(vfs, path, options)?;
        builder.seed = old.hash_seed();
        builder.replaced = Some(old.base.kv.as_ref().map(|kv| kv.store.clone()));
        Ok(builder)
    }

    /// Starts a cache as [`Builder::instead_of`] does, with the records in the store of `old`:
    /// `added` new ones are put, the others stay.
    pub(crate) fn beside_records_of(old: &Snapshot, added: u32) -> Result<Self> {
        let (vfs, base) = (Arc::clone(&old.vfs), &old.base);
        let options = &base.header.options;
        let mut builder = Self::with_seed(vfs, &base.path, old.hash_seed(), options)?;
        builder.replaced = Some(None);
        if let Some(kv) = &base.kv {
            // A writer waits for all readers, and this process may be one of them.
            old.release();
            let head = base.header.records;
            builder.kv = Some(KvWriter::update(&kv.store, options, head, added)?);
        }
        Ok(builder)
    }

    fn with_seed(
        vfs: Arc<dyn Vfs>,
        path: &Path,
        seed: u64,
        options: &CacheOptions,
    ) -> Result<Self> {
        let generation = random_u64();
        let temp_path = temporary_path(path, generation);
        let create = OpenOptions::create_new(0o600);
        let file = match vfs.open(&temp_path, create) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let parent = path.parent().unwrap_or(Path::new(""));
                vfs.create_dir_all(parent, 0o700).map_err(Error::at(parent))?;
                vfs.open(&temp_path, create)
            }
            result => result,
        };
        let file = file.map_err(Error::at(&temp_path))?;
        Ok(Self {
            temp: Temp { vfs: Arc::clone(&vfs), path: Some(temp_path) },
            vfs,
            path: path.to_owned(),
            file,
            generation,
            seed,
            options: options.effective(),
            heap: HeapStore::new(generation, HEAD_LEN as u64),
            kv: None,
            replaced: None,
            chunks: Mutex::default(),
            rows_len: AtomicU64::new(0),
            spool: OnceLock::new(),
            writers: Mutex::default(),
        })
    }

    /// Completes the file and renames it into place.
    ///
    /// Messages without a UID take the next of [`ScanReport::new_uids`].
    ///
    /// # Errors
    /// [`Error::Scan`] if the new UIDs do not fit; errors of the file system and of the store of
    /// header records.
    pub fn finish(self, report: &ScanReport, finish: &Finish<'_>) -> Result<Snapshot> {
        self.prepare(report, finish, &[])?.rename()
    }

    /// Completes the file as [`Builder::finish`] does, without renaming it. `earlier` are ascending
    /// UIDs of messages that were there before: [`PreparedCache::vanished`] returns those that are
    /// gone.
    ///
    /// # Errors
    /// As [`Builder::finish`].
    pub fn prepare(
        self,
        report: &ScanReport,
        finish: &Finish<'_>,
        earlier: &[Uid],
    ) -> Result<PreparedCache> {
        let meta = meta_of(report, finish, finish.modseq, self.generation);
        let mut numbering = Numbering::new(report, finish, earlier);
        self.complete_file(meta, finish.identity.id, &mut numbering)
    }

    /// Completes the file with rows that are already complete.
    pub(crate) fn replace(self, meta: &Meta, id: u128) -> Result<Snapshot> {
        let meta = Meta { generation: self.generation, ..meta.clone() };
        self.complete_file(meta, id, &mut Numbering::default())?.rename()
    }

    fn complete_file(
        self,
        mut meta: Meta,
        id: u128,
        numbering: &mut Numbering<'_>,
    ) -> Result<PreparedCache> {
        let Self { vfs, path, temp, file, generation, seed, options, heap, kv, .. } = self;
        let writers = self.writers.into_inner().unwrap_or_else(PoisonError::into_inner);
        let records = finish_records(&heap, &*file, kv.as_ref(), writers, temp.path())?;
        let (blocks, end) = heap.into_parts();
        let mut chunks = self.chunks.into_inner().unwrap_or_else(PoisonError::into_inner);
        let packed = options.packing().map(|packing| PackedColumns::new(Packing::new(packing)));
        let spool = self.spool.get();
        let path_now = temp.path();
        let mut columns = Columns { file: &*file, generation, end, path: path_now, packed, spool };
        let numbered = columns.write_core(&mut chunks, numbering)?;
        let header = Header {
            turn: 1,
            generation,
            seed,
            id,
            messages: numbered.core.rows as u32,
            built_messages: numbered.core.rows as u32,
            extents: [
                numbered.core,
                columns.write_thread(&mut chunks)?,
                columns.write_references(&mut chunks)?,
                columns.write_heap(&blocks)?,
                columns.write_first_uids(&numbered.first_uids)?,
            ],
            options,
            records,
            table: columns.write_table()?,
            ..Header::default()
        };
        let end = columns.end;
        (meta.recent, meta.unseen) = (numbered.recent, numbered.unseen);
        if let Some(unchanged) = numbering.unchanged() {
            meta.highest_modseq = unchanged;
        }
        meta.highest_modseq = meta.highest_modseq.max(numbering.highest);
        let header = write_header(&*file, header, &meta, end).map_err(Error::at(temp.path()))?;
        let replaced = match self.replaced {
            Some(replaced) => replaced,
            // A cache without its own store does not look for the store of another.
            None if kv.is_none() => None,
            None => Snapshot::store_at(&vfs, &path),
        };
        let vanished = std::mem::take(&mut numbering.vanished);
        Ok(PreparedCache { vfs, path, temp, file, header, meta, kv, replaced, vanished })
    }

    /// Removes records from the store, after the others are written.
    pub(crate) fn drop_records(&self, numbers: Vec<u32>) {
        if let Some(kv) = &self.kv {
            kv.delete(numbers);
        }
    }

    /// Returns the target of heap blocks.
    pub(crate) fn target<'a>(&'a self, packing: Option<&'a mut Packing>) -> HeapTarget<'a> {
        HeapTarget { store: &self.heap, file: &*self.file, packing }
    }

    /// Wraps an I/O error of the file.
    pub(crate) fn error(&self) -> impl FnOnce(std::io::Error) -> Error {
        Error::at(self.temp.path())
    }

    pub(crate) fn take_writers(&self) -> Writers {
        lock(&self.writers).pop().unwrap_or_else(|| Writers::new(&self.options))
    }

    pub(crate) fn keep_writers(&self, writers: Writers) {
        lock(&self.writers).push(writers);
    }

    /// Adds the rows of a complete chunk.
    pub(crate) fn complete(&self, number: u32, rows: ChunkRows) -> Result<()> {
        let len = rows.bytes_len();
        let chunk = match self.rows_len.fetch_add(len, Ordering::Relaxed) + len {
            ..=ROWS_HELD_LEN => rows.into_memory(),
            _ => self.put_aside(rows)?,
        };
        lock(&self.chunks).insert(number, chunk);
        Ok(())
    }

    fn put_aside(&self, rows: ChunkRows) -> Result<ColumnChunk> {
        let spool = match self.spool.get() {
            Some(spool) => spool,
            None => {
                // If two threads create one, the second is not needed.
                let spool = Spool::create(&*self.vfs, &self.path)?;
                self.spool.get_or_init(|| spool)
            }
        };
        rows.put_aside(spool)
    }
}

/// A complete cache file that is not in its place yet. Dropping it removes it.
#[derive(Debug)]
pub struct PreparedCache {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    temp: Temp,
    file: Box<dyn File>,
    header: Header,
    meta: Meta,
    kv: Option<KvWriter>,
    replaced: Option<barid_kv::Store>,
    vanished: Vec<Uid>,
}

impl PreparedCache {
    /// Returns the earlier UIDs that no message has, ascending.
    pub fn vanished(&self) -> &[Uid] {
        &self.vanished
    }

    /// Returns the highest modseq of the cache.
    pub fn highest_modseq(&self) -> ModSeq {
        self.meta.highest_modseq
    }

    /// Renames the file into place.
    ///
    /// # Errors
    /// Errors of the file system; the file is then removed.
    pub fn rename(self) -> Result<Snapshot> {
        let Self { vfs, path, mut temp, file, header, meta, kv, replaced, .. } = self;
        let inode = file.metadata().map_err(Error::at(temp.path()))?.inode;
        vfs.rename(temp.path(), &path).map_err(Error::at(&path))?;
        temp.path = None;
        if let Some(kv) = kv {
            kv.keep();
        }
        if let Some(replaced) = replaced {
            // A remaining store is removed by the next `CacheDir::prune`.
            let _ = replaced.remove();
        }
        let base = Base::new(&vfs, file, inode, &path, header);
        Ok(Snapshot::from_new_file(vfs, base, meta))
    }
}

impl Sinks for Builder {
    fn sink(&self, chunk: u32) -> Box<dyn ScanSink + '_> {
        Box::new(BuilderSink::new(self, chunk))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes the buffers that the sinks left partly filled.
fn finish_records(
    heap: &HeapStore,
    file: &dyn File,
    kv: Option<&KvWriter>,
    writers: Vec<Writers>,
    path: &Path,
) -> Result<RecordsHead> {
    let mut head = RecordsHead::default();
    let mut sinks = Vec::new();
    for mut writer in writers {
        let mut target = HeapTarget { store: heap, file, packing: writer.packing.as_mut() };
        writer.records.flush(&mut target).map_err(Error::at(path))?;
        writer.names.flush(&mut target).map_err(Error::at(path))?;
        head.raw_bytes += writer.records.raw_bytes;
        head.stored_bytes += writer.records.stored_bytes;
        sinks.push(writer.kv);
    }
    match kv {
        Some(kv) => kv.close(sinks),
        None => Ok(head),
    }
}

/// Returns the metadata of the mailbox from a report; counts are 0.
pub(crate) fn meta_of(
    report: &ScanReport,
    finish: &Finish<'_>,
    highest_modseq: ModSeq,
    generation: u64,
) -> Meta {
    Meta {
        path: finish.identity.path.clone(),
        inode: finish.identity.inode,
        format: finish.format.to_owned(),
        stamp: report.stamp,
        state: report.state.clone(),
        uidvalidity: report.uidvalidity,
        uidnext: report.uidnext,
        highest_modseq,
        keywords: report.keywords.clone(),
        recent: 0,
        unseen: 0,
        size_bytes: report.size_bytes,
        tail_verified: report.tail_verified,
        generation,
    }
}

/// Writes metadata and header page; the log will start after them.
pub(crate) fn write_header(
    file: &dyn File,
    mut header: Header,
    meta: &Meta,
    end: u64,
) -> std::io::Result<Header> {
    let meta = meta.encode();
    header.meta_len = meta.len() as u32;
    header.meta_checksum = xxh3_64(&meta);
    header.meta_start = Header::META_START;
    header.log_start = align(end);
    if !Header::holds(meta.len()) {
        header.meta_start = header.log_start;
        header.log_start = align(header.meta_start + meta.len() as u64);
        file.write_all_at(&meta, header.meta_start)?;
    }
    // A file without its end is detected by its size.
    file.set_len(header.log_start)?;
    if header.turn == 1 {
        header.built_len = header.log_start;
    }
    let page = header.encode(&meta);
    file.write_all_at(&page, header.page_start())?;
    Ok(header)
}
