//! A new cache file, filled by a scan of the whole mailbox.
//!
//! Header records and file names go to the file as they come; only the columns stay in memory until
//! the end, some 170 bytes a message. The commit point is the rename at the end of
//! [`Builder::finish`]; nothing is fsynced. After a crash the path holds the file that was there
//! before, the new one, or one whose checksums fail.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barid_formats::{ScanReport, ScanSink, Sinks};
use barid_state::Identity;
use barid_types::{FlagSet, KeywordMask, ModSeq, Uid};
use barid_vfs::{File, OpenOptions, Vfs};

use crate::base::Base;
use crate::codec::{u32_at, u64_at};
use crate::column::{ColumnWriter, Extent, Kind, align};
use crate::core_row::{MODSEQ_AT, UID_AT};
use crate::error::{Error, Result, ScanFault};
use crate::header::{Header, PAGE_LEN};
use crate::heap::{HeapBlock, HeapStore, HeapWriter};
use crate::meta::Meta;
use crate::options::CacheOptions;
use crate::random::random_u64;
use crate::rows::ChunkRows;
use crate::sink::BuilderSink;
use crate::snapshot::Snapshot;
use crate::thread_row::ThreadRow;
use xxhash_rust::xxh3::xxh3_64;

/// Says which modseq a message keeps that was there before with these flags and keywords; `None` if
/// it is new or changed.
pub type KeepModSeq<'a> = &'a dyn Fn(Uid, FlagSet, KeywordMask) -> Option<ModSeq>;

/// What only the caller knows at the end of a scan.
#[derive(Clone, Copy)]
pub struct Finish<'a> {
    /// Who the mailbox is.
    pub identity: &'a Identity,
    /// The name of its format.
    pub format: &'a str,
    /// The modseq of messages that have none yet.
    pub modseq: ModSeq,
    /// Which messages keep the modseq they had.
    pub keep: Option<KeepModSeq<'a>>,
}

/// A cache file being built.
#[derive(Debug)]
pub struct Builder {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    temp: Temp,
    pub(crate) file: Box<dyn File>,
    generation: u64,
    pub(crate) seed: u64,
    pub(crate) heap: HeapStore,
    chunks: Mutex<BTreeMap<u32, ChunkRows>>,
    writers: Mutex<Vec<Writers>>,
}

/// The half-filled heap blocks that wait for the next sink.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    pub(crate) records: HeapWriter,
    pub(crate) names: HeapWriter,
}

/// The temporary file, removed unless it got its place.
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
            // A file that stays behind is removed by the next `CacheDir::prune`.
            let _ = self.vfs.remove_file(path);
        }
    }
}

impl Builder {
    /// Starts a cache that will replace the one at `path`; its directory is created if missing.
    pub fn create(vfs: Arc<dyn Vfs>, path: &Path, options: &CacheOptions) -> Result<Self> {
        let _ = options;
        Self::with_seed(vfs, path, random_u64())
    }

    /// As [`Builder::create`], with the hash seed of an older cache of the mailbox.
    pub(crate) fn with_seed(vfs: Arc<dyn Vfs>, path: &Path, seed: u64) -> Result<Self> {
        let generation = random_u64();
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".tmp{generation:016x}"));
        let temp_path = PathBuf::from(name);
        let options = OpenOptions::create_new(0o600);
        let file = match vfs.open(&temp_path, options) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let parent = path.parent().unwrap_or(Path::new(""));
                vfs.create_dir_all(parent, 0o700).map_err(Error::at(parent))?;
                vfs.open(&temp_path, options)
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
            heap: HeapStore::new(generation, PAGE_LEN as u64),
            chunks: Mutex::default(),
            writers: Mutex::default(),
        })
    }

    /// Completes the file and gives it its name.
    ///
    /// Messages without a UID take the next of [`ScanReport::new_uids`]. Fails with
    /// [`Error::Scan`] if those do not fit, and with what the file system says.
    pub fn finish(self, report: &ScanReport, finish: &Finish<'_>) -> Result<Snapshot> {
        let meta = meta_of(report, finish, finish.modseq, self.generation);
        let mut numbering = Numbering::new(report, finish);
        self.complete_file(meta, finish.identity.id, &mut numbering)
    }

    /// Completes the file with rows that have everything already.
    pub(crate) fn replace(self, meta: &Meta, id: u128) -> Result<Snapshot> {
        let meta = Meta { generation: self.generation, ..meta.clone() };
        self.complete_file(meta, id, &mut Numbering::default())
    }

    fn complete_file(
        self,
        mut meta: Meta,
        id: u128,
        numbering: &mut Numbering<'_>,
    ) -> Result<Snapshot> {
        let Self { vfs, path, mut temp, file, generation, seed, heap, chunks, writers } = self;
        let io = |error| Error::at(temp.path())(error);
        for mut writer in writers.into_inner().unwrap_or_else(PoisonError::into_inner) {
            writer.records.flush(&heap, &*file).map_err(io)?;
            writer.names.flush(&heap, &*file).map_err(io)?;
        }
        let (blocks, heap_end) = heap.into_parts();
        let mut chunks = chunks.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut columns = Columns { file: &*file, generation, end: heap_end, path: temp.path() };
        let numbered = columns.write_core(&mut chunks, numbering)?;
        let header = Header {
            generation,
            seed,
            id,
            messages: numbered.core.rows as u32,
            extents: [
                numbered.core,
                columns.write_thread(&mut chunks)?,
                columns.write_references(&mut chunks)?,
                columns.write_heap(&blocks)?,
                columns.write_first_uids(&numbered.first_uids)?,
            ],
            ..Header::default()
        };
        let end = columns.end;
        (meta.recent, meta.unseen) = (numbered.recent, numbered.unseen);
        meta.highest_modseq = meta.highest_modseq.max(numbering.highest);
        let header = write_header(&*file, header, &meta, end).map_err(io)?;
        vfs.rename(temp.path(), &path).map_err(Error::at(&path))?;
        temp.path = None;
        let inode = file.metadata().map_err(Error::at(&path))?.inode;
        Ok(Snapshot::from_new_file(vfs, Base::new(file, inode, &path, header), meta))
    }

    pub(crate) fn take_writers(&self) -> Writers {
        lock(&self.writers).pop().unwrap_or_default()
    }

    pub(crate) fn keep_writers(&self, writers: Writers) {
        lock(&self.writers).push(writers);
    }

    /// Takes the rows of a complete chunk.
    pub(crate) fn complete(&self, chunk: u32, mut rows: ChunkRows) {
        rows.shrink();
        lock(&self.chunks).insert(chunk, rows);
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

/// What a report says of the mailbox; counts are left at 0.
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

/// Writes meta data and header page; the log will start behind them.
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
    // So that a file whose end is missing is known by its size.
    file.set_len(header.log_start)?;
    let page = header.encode(&meta);
    file.write_all_at(&page, 0)?;
    Ok(header)
}

/// What writing the core column found.
struct Numbered {
    core: Extent,
    first_uids: Vec<Uid>,
    recent: u32,
    unseen: u32,
}

/// Writes the columns, one after the other, and frees what is written.
struct Columns<'a> {
    file: &'a dyn File,
    generation: u64,
    end: u64,
    path: &'a Path,
}

type Chunks = BTreeMap<u32, ChunkRows>;

impl<'a> Columns<'a> {
    fn start(&self, kind: Kind) -> ColumnWriter<'a> {
        ColumnWriter::new(self.file, self.generation, kind, align(self.end))
    }

    fn end(&mut self, writer: ColumnWriter<'_>) -> Result<Extent> {
        let (extent, end) = writer.finish().map_err(Error::at(self.path))?;
        self.end = end;
        Ok(extent)
    }

    fn write_core(
        &mut self,
        chunks: &mut Chunks,
        numbering: &mut Numbering<'_>,
    ) -> Result<Numbered> {
        let mut writer = self.start(Kind::Core);
        let (mut recent, mut unseen, mut rows) = (0, 0, 0u64);
        let mut first_uids = Vec::new();
        for chunk in chunks.values_mut() {
            for row in chunk.core.iter_mut() {
                let uid = numbering.number(row)?;
                if rows.is_multiple_of(Kind::Core.rows_per_block()) {
                    first_uids.push(uid);
                }
                rows += 1;
                writer.push(row).map_err(Error::at(self.path))?;
            }
            recent += chunk.recent;
            unseen += chunk.unseen;
            chunk.core = Default::default();
        }
        if rows > u64::from(crate::limits::MESSAGES_MAX) {
            return Err(Error::Scan(ScanFault::TooMany));
        }
        numbering.finish()?;
        Ok(Numbered { core: self.end(writer)?, first_uids, recent, unseen })
    }

    fn write_thread(&mut self, chunks: &mut Chunks) -> Result<Extent> {
        let mut writer = self.start(Kind::Thread);
        let mut references_start = 0u32;
        for chunk in chunks.values_mut() {
            for row in chunk.thread.iter() {
                let mut thread = ThreadRow::decode(row);
                thread.references_start = thread.references_start.saturating_add(references_start);
                writer.push(&thread.encode()).map_err(Error::at(self.path))?;
            }
            let count = chunk.references.rows();
            references_start =
                references_start.checked_add(count).ok_or(Error::Scan(ScanFault::TooMany))?;
            chunk.thread = Default::default();
        }
        self.end(writer)
    }

    fn write_references(&mut self, chunks: &mut Chunks) -> Result<Extent> {
        let mut writer = self.start(Kind::References);
        for chunk in chunks.values_mut() {
            for row in chunk.references.iter() {
                writer.push(row).map_err(Error::at(self.path))?;
            }
            chunk.references = Default::default();
        }
        self.end(writer)
    }

    fn write_heap(&mut self, blocks: &[HeapBlock]) -> Result<Extent> {
        let mut writer = self.start(Kind::Heap);
        for block in blocks {
            writer.push(&block.encode()).map_err(Error::at(self.path))?;
        }
        self.end(writer)
    }

    fn write_first_uids(&mut self, uids: &[Uid]) -> Result<Extent> {
        let mut writer = self.start(Kind::FirstUids);
        for uid in uids {
            writer.push(&uid.get().to_le_bytes()).map_err(Error::at(self.path))?;
        }
        self.end(writer)
    }
}

/// Gives rows their UIDs and modseqs; the default finds that they have them.
#[derive(Default)]
struct Numbering<'a> {
    new_uids: std::slice::Iter<'a, Uid>,
    previous: u32,
    modseq: Option<ModSeq>,
    highest: ModSeq,
    keep: Option<KeepModSeq<'a>>,
}

impl<'a> Numbering<'a> {
    fn new(report: &'a ScanReport, finish: &Finish<'a>) -> Self {
        Self {
            new_uids: report.new_uids.iter(),
            modseq: Some(finish.modseq),
            keep: finish.keep,
            ..Self::default()
        }
    }

    fn number(&mut self, row: &mut [u8]) -> Result<Uid> {
        let uid = match Uid::new(u32_at(row, UID_AT)) {
            Some(uid) => uid,
            None => *self.new_uids.next().ok_or(Error::Scan(ScanFault::UidCount))?,
        };
        if uid.get() <= self.previous {
            return Err(Error::Scan(ScanFault::UidOrder));
        }
        self.previous = uid.get();
        row[UID_AT..UID_AT + 4].copy_from_slice(&uid.get().to_le_bytes());
        if let Some(modseq) = self.modseq {
            let (flags, keywords) = (FlagSet::from_bits(row[4]), KeywordMask(u64_at(row, 32)));
            let kept = self.keep.and_then(|keep| keep(uid, flags, keywords));
            let modseq = kept.unwrap_or(modseq);
            self.highest = self.highest.max(modseq);
            row[MODSEQ_AT..MODSEQ_AT + 8].copy_from_slice(&modseq.get().to_le_bytes());
        }
        Ok(uid)
    }

    fn finish(&mut self) -> Result<()> {
        match self.new_uids.next() {
            Some(_) => Err(Error::Scan(ScanFault::UidCount)),
            None => Ok(()),
        }
    }
}
