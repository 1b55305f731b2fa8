//! The header pages (`docs/formats/cache.md`, "Header pages"). The file has two, so that one can be
//! written while the other is valid.

use barid_kv::Compression;
use barid_vfs::le::{LeReader, PutLe, u32_at, u64_at};
use xxhash_rust::xxh3::xxh3_64;

use crate::column::{COLUMN_COUNT, ColumnKind, Extent};
use crate::limits::META_LEN_MAX;
use crate::options::{CacheOptions, StoreKind};
use crate::pack::BlockTable;

/// Bytes of a page.
const PAGE_LEN: usize = 2048;
/// Bytes reserved for both pages.
pub(crate) const HEAD_LEN: usize = 2 * PAGE_LEN;
/// The layout version. Raise it also when the same header gives other rows, because barid-message
/// reads dates, ids or subjects differently.
pub(crate) const VERSION: u32 = 6;
const MAGIC: &[u8; 8] = b"BARIDHC\n";
const CHECKSUM_AT: usize = 16;
const META_AT: usize = 376;
/// Bytes of the text that names the compression, with its length.
const COMPRESSION_LEN: usize = 16;
/// Bytes of the text that names the store, with its length.
const STORE_LEN: usize = 48;
/// Bit for packed columns.
const BIT_PACKED: u32 = 1;

/// The header page, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    /// The number of the page: 1 for the first of a file, and one more for each after it.
    pub(crate) turn: u32,
    pub(crate) generation: u64,
    pub(crate) seed: u64,
    pub(crate) id: u128,
    pub(crate) log_start: u64,
    pub(crate) messages: u32,
    pub(crate) meta_start: u64,
    pub(crate) meta_len: u32,
    pub(crate) meta_checksum: u64,
    pub(crate) extents: [Extent; COLUMN_COUNT],
    /// The store of records, and their compression.
    pub(crate) options: CacheOptions,
    pub(crate) records: RecordsHead,
    /// Length in bytes of the file as it was built; the next field has its messages.
    pub(crate) built_len: u64,
    pub(crate) built_messages: u32,
    /// Position of the table of packed blocks, if the columns are packed.
    pub(crate) table: Option<u64>,
    /// The checksum of the page: the stem of the first log record.
    pub(crate) checksum: u64,
}

/// The part of the header about records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordsHead {
    /// The generation of the store beside the file; 0 without one.
    pub(crate) generation: u64,
    /// The lowest unassigned record number of the store.
    pub(crate) next: u32,
    /// Bytes of all records that were put.
    pub(crate) raw_bytes: u64,
    /// Their stored size in bytes.
    pub(crate) stored_bytes: u64,
}

impl Header {
    /// Returns `true` if metadata of this length fits into the page.
    pub(crate) fn holds(meta_len: usize) -> bool {
        meta_len <= PAGE_LEN - META_AT
    }

    /// Offset of metadata that is stored in the page, from the start of the page.
    pub(crate) const META_START: u64 = META_AT as u64;

    /// Returns the position of the page.
    pub(crate) fn page_start(&self) -> u64 {
        page_of_turn(self.turn) as u64
    }

    /// Encodes the page; sets [`Header::checksum`].
    pub(crate) fn encode(&mut self, meta: &[u8]) -> Vec<u8> {
        let mut page = Vec::with_capacity(PAGE_LEN);
        page.extend_from_slice(MAGIC);
        page.put_u32(VERSION);
        page.put_u32(self.turn);
        page.put_u64(0);
        page.put_u64(self.generation);
        page.put_u64(self.seed);
        page.extend_from_slice(&self.id.to_le_bytes());
        page.put_u64(self.log_start);
        page.put_u32(self.messages);
        page.put_u32(0);
        page.put_u64(self.meta_start);
        page.put_u32(self.meta_len);
        page.put_u32(0);
        page.put_u64(self.meta_checksum);
        for (kind, extent) in ColumnKind::ALL.iter().zip(&self.extents) {
            page.put_u64(extent.start);
            page.put_u64(extent.rows);
            page.put_u64(extent.generation);
            page.put_u32(kind.row_len() as u32);
            page.put_u32(0);
        }
        page.put_u64(self.records.generation);
        page.put_u32(if self.table.is_some() { BIT_PACKED } else { 0 });
        page.put_u32(self.records.next);
        page.put_u64(self.table.unwrap_or(0));
        page.put_u64(self.records.raw_bytes);
        page.put_u64(self.records.stored_bytes);
        page.put_u64(self.built_len);
        page.put_u32(self.built_messages);
        page.put_u32(0);
        if self.options != CacheOptions::default() {
            put_text(&mut page, &self.options.compression.to_string(), COMPRESSION_LEN);
            put_text(&mut page, &self.options.store.to_string(), STORE_LEN);
        }
        page.resize(META_AT, 0);
        if self.meta_start == Self::META_START {
            page.extend_from_slice(meta);
        }
        page.resize(PAGE_LEN, 0);
        self.checksum = xxh3_64(&page);
        page[CHECKSUM_AT..CHECKSUM_AT + 8].copy_from_slice(&self.checksum.to_le_bytes());
        page
    }

    /// Reads the pages of a file of `file_len` bytes, and puts the valid one in front; the error is
    /// a reason of one line.
    ///
    /// A page with a wrong checksum was being written when its writer was stopped: then the other
    /// one is valid.
    pub(crate) fn decode(pages: &mut Vec<u8>, file_len: u64) -> Result<Self, &'static str> {
        if pages.len() < HEAD_LEN {
            return Err("shorter than a header page");
        }
        if &pages[..8] != MAGIC {
            return Err("not a cache file");
        }
        // In a file of another version the second page may contain anything.
        if u32_at(pages, 8) != VERSION {
            return Err("written by another version");
        }
        let (first, second) = pages.split_at_mut(PAGE_LEN);
        let whole = [(0, first), (PAGE_LEN, second)].map(|(at, page)| Self::whole(page, at));
        let newest = whole.into_iter().flatten().max_by_key(|header| header.turn);
        let mut header = newest.ok_or("the header is damaged")?;
        pages.drain(..header.page_start() as usize);
        header.options = options_in(pages).ok_or("unknown store or compression")?;
        if file_len < header.log_start {
            return Err("truncated");
        }
        if !header.is_consistent() {
            return Err("the header is inconsistent");
        }
        Ok(header)
    }

    /// Returns the header of a page that is complete and in its place.
    fn whole(page: &mut [u8], at: usize) -> Option<Self> {
        let checksum = u64_at(page, CHECKSUM_AT);
        page[CHECKSUM_AT..CHECKSUM_AT + 8].fill(0);
        let is_whole = &page[..8] == MAGIC && u32_at(page, 8) == VERSION;
        let is_whole = is_whole && xxh3_64(page) == checksum;
        let header = if is_whole { Self::parse(page, checksum) } else { None };
        header.filter(|header| header.turn > 0 && page_of_turn(header.turn) == at)
    }

    /// Returns the store and compression that an unusable page seems to name. Use them only to
    /// rebuild the cache with the same options.
    pub(crate) fn options_guessed(page: &[u8]) -> Option<CacheOptions> {
        let is_one = page.len() >= PAGE_LEN && u32_at(page, 8) == VERSION;
        if is_one { options_in(page) } else { None }
    }

    fn parse(page: &[u8], checksum: u64) -> Option<Self> {
        let mut reader = LeReader(&page[24..]);
        let mut header = Self {
            turn: u32_at(page, 12),
            generation: reader.u64()?,
            seed: reader.u64()?,
            id: u128::from_le_bytes(reader.take(16)?.try_into().ok()?),
            log_start: reader.u64()?,
            messages: reader.u32()?,
            checksum,
            ..Self::default()
        };
        reader.u32()?;
        header.meta_start = reader.u64()?;
        header.meta_len = reader.u32()?;
        reader.u32()?;
        header.meta_checksum = reader.u64()?;
        for (kind, extent) in ColumnKind::ALL.iter().zip(&mut header.extents) {
            let (start, rows, generation) = (reader.u64()?, reader.u64()?, reader.u64()?);
            *extent = Extent { start, rows, generation };
            if reader.u32()? as usize != kind.row_len() {
                return None;
            }
            reader.u32()?;
        }
        header.records.generation = reader.u64()?;
        let packed = reader.u32()? & BIT_PACKED != 0;
        header.records.next = reader.u32()?;
        header.table = Some(reader.u64()?).filter(|_| packed);
        header.records.raw_bytes = reader.u64()?;
        header.records.stored_bytes = reader.u64()?;
        header.built_len = reader.u64()?;
        header.built_messages = reader.u32()?;
        Some(header)
    }

    fn is_consistent(&self) -> bool {
        let rows = |kind: ColumnKind| self.extents[kind.index()].rows;
        let core = &self.extents[ColumnKind::Core.index()];
        let countable = self.extents.iter().all(|extent| extent.rows <= u64::from(u32::MAX));
        let inside = || match self.table {
            None => ColumnKind::ALL
                .iter()
                .zip(&self.extents)
                .all(|(kind, extent)| extent.end(*kind).is_some_and(|end| end <= self.log_start)),
            Some(start) => {
                let end = start.checked_add(BlockTable::len_of(&self.extents));
                end.is_some_and(|end| end <= self.log_start)
                    && self.extents.iter().all(|extent| extent.start <= start)
            }
        };
        countable
            && inside()
            && self.table.is_some() == self.options.packing().is_some()
            && rows(ColumnKind::Core) == u64::from(self.messages)
            && rows(ColumnKind::Thread) == u64::from(self.messages)
            && rows(ColumnKind::FirstUids) == core.blocks(ColumnKind::Core)
            && self.meta_len as usize <= META_LEN_MAX
            && self
                .meta_start
                .checked_add(u64::from(self.meta_len))
                .is_some_and(|end| end <= self.log_start)
    }

    /// Returns the metadata, if it is stored in the page.
    pub(crate) fn meta_in<'a>(&self, page: &'a [u8]) -> Option<&'a [u8]> {
        let start = usize::try_from(self.meta_start).ok()?;
        page.get(start..start.checked_add(self.meta_len as usize)?)
    }
}

/// Returns the position of the page of a turn.
fn page_of_turn(turn: u32) -> usize {
    if turn.is_multiple_of(2) { PAGE_LEN } else { 0 }
}

/// Appends a text with a fixed size: its length in one byte, its bytes, and padding.
fn put_text(page: &mut Vec<u8>, text: &str, place: usize) {
    let end = page.len() + place;
    let len = text.len().min(place - 1);
    page.put_u8(len as u8);
    page.extend_from_slice(&text.as_bytes()[..len]);
    page.resize(end, 0);
}

/// Returns the store and compression named in a page; `None` if either is unknown.
fn options_in(page: &[u8]) -> Option<CacheOptions> {
    let at = META_AT - COMPRESSION_LEN - STORE_LEN;
    let text = |at: usize, place: usize| {
        let len = usize::from(page[at]);
        page[at + 1..at + place].get(..len).and_then(|text| std::str::from_utf8(text).ok())
    };
    let (compression, store) = (text(at, COMPRESSION_LEN)?, text(at + COMPRESSION_LEN, STORE_LEN)?);
    if compression.is_empty() && store.is_empty() {
        return Some(CacheOptions::default());
    }
    let options = CacheOptions {
        store: StoreKind::parse(store).ok()?,
        compression: Compression::parse(compression).ok()?,
    };
    Some(options.effective())
}
