//! Columns: rows of one length in checksummed blocks (`docs/formats/cache.md`, "Column blocks").

use barid_vfs::File;
use barid_vfs::le::{u32_at, u64_at};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::core_row::CORE_ROW_LEN;
use crate::error::Damage;
use crate::heap::HEAP_ROW_LEN;
use crate::pack::{PackedBlock, Packing};
use crate::thread_row::{REFERENCE_ROW_LEN, THREAD_ROW_LEN};

/// Bytes of a full block.
pub(crate) const BLOCK_LEN: usize = 64 * 1024;
/// Bytes before the rows.
pub(crate) const BLOCK_HEAD_LEN: usize = 16;
/// Number of columns.
pub(crate) const COLUMN_COUNT: usize = 5;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum ColumnKind {
    Core = 1,
    Thread = 2,
    References = 3,
    Heap = 4,
    FirstUids = 5,
}

impl ColumnKind {
    pub(crate) const ALL: [Self; COLUMN_COUNT] =
        [Self::Core, Self::Thread, Self::References, Self::Heap, Self::FirstUids];

    pub(crate) const fn row_len(self) -> usize {
        match self {
            Self::Core => CORE_ROW_LEN,
            Self::Thread => THREAD_ROW_LEN,
            Self::References => REFERENCE_ROW_LEN,
            Self::Heap => HEAP_ROW_LEN,
            Self::FirstUids => 4,
        }
    }

    pub(crate) const fn rows_per_block(self) -> u64 {
        ((BLOCK_LEN - BLOCK_HEAD_LEN) / self.row_len()) as u64
    }

    pub(crate) const fn index(self) -> usize {
        self as usize - 1
    }
}

/// Position and length of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) rows: u64,
    /// The generation that it was written in; its checksums are seeded with it.
    pub(crate) generation: u64,
}

impl Extent {
    pub(crate) fn blocks(&self, kind: ColumnKind) -> u64 {
        self.rows.div_ceil(kind.rows_per_block())
    }

    /// Returns the number of rows in block `index`, which exists.
    pub(crate) fn rows_in(&self, kind: ColumnKind, index: u64) -> u64 {
        (self.rows - index * kind.rows_per_block()).min(kind.rows_per_block())
    }

    /// Returns start and length of block `index`, which exists.
    pub(crate) fn block(&self, kind: ColumnKind, index: u64) -> (u64, usize) {
        let len = BLOCK_HEAD_LEN + self.rows_in(kind, index) as usize * kind.row_len();
        (self.start + index * BLOCK_LEN as u64, len)
    }

    /// Returns the end of the column; `None` for impossible numbers.
    pub(crate) fn end(&self, kind: ColumnKind) -> Option<u64> {
        let Some(last) = self.blocks(kind).checked_sub(1) else { return Some(self.start) };
        let before = last.checked_mul(BLOCK_LEN as u64)?;
        let len = self.rows_in(kind, last) * kind.row_len() as u64 + BLOCK_HEAD_LEN as u64;
        self.start.checked_add(before)?.checked_add(len)
    }
}

/// Checks a block as read from the file.
pub(crate) fn check_block(
    block: &[u8],
    generation: u64,
    kind: ColumnKind,
    index: u64,
) -> Result<(), Damage> {
    let checksum = xxh3_64_with_seed(&block[8..], generation);
    let labelled = u32_at(block, 8) == kind as u32 && u64::from(u32_at(block, 12)) == index;
    if checksum == u64_at(block, 0) && labelled { Ok(()) } else { Err(Damage::Checksum) }
}

/// A writer of columns, row by row.
pub(crate) struct ColumnWriter<'a> {
    file: &'a dyn File,
    kind: ColumnKind,
    extent: Extent,
    block: Vec<u8>,
    /// Position of the next block.
    end: u64,
    packed: Option<&'a mut PackedColumns>,
}

/// The packer of the blocks of columns, with their positions.
#[derive(Debug)]
pub(crate) struct PackedColumns {
    packing: Packing,
    block: Vec<u8>,
    /// `true` if the rows of the column are transposed, once decided.
    transpose: Option<bool>,
    pub(crate) blocks: Vec<PackedBlock>,
}

impl PackedColumns {
    pub(crate) fn new(packing: Packing) -> Self {
        Self { packing, block: Vec::new(), transpose: None, blocks: Vec::new() }
    }

    /// Packs rows after the 16 bytes of a head that is filled in later. The first block of a
    /// column decides whether to transpose its rows.
    fn pack(&mut self, kind: ColumnKind, rows: &[u8]) -> &mut Vec<u8> {
        let stride = kind.row_len() as u8;
        self.block.clear();
        self.block.resize(BLOCK_HEAD_LEN, 0);
        match self.transpose {
            Some(transpose) => {
                let stride = if transpose { stride } else { 0 };
                self.block.extend_from_slice(self.packing.pack(stride, rows));
            }
            None => {
                self.block.extend_from_slice(self.packing.pack(stride, rows));
                let plain = self.packing.pack(0, rows);
                let transpose = self.block.len() - BLOCK_HEAD_LEN < plain.len();
                if !transpose {
                    self.block.truncate(BLOCK_HEAD_LEN);
                    self.block.extend_from_slice(plain);
                }
                self.transpose = Some(transpose);
            }
        }
        &mut self.block
    }
}

impl<'a> ColumnWriter<'a> {
    /// Starts a column at `start`.
    pub(crate) fn new(
        file: &'a dyn File,
        generation: u64,
        kind: ColumnKind,
        start: u64,
        mut packed: Option<&'a mut PackedColumns>,
    ) -> Self {
        let mut block = Vec::with_capacity(BLOCK_LEN);
        block.resize(BLOCK_HEAD_LEN, 0);
        if let Some(packed) = &mut packed {
            packed.transpose = None;
        }
        let extent = Extent { start, rows: 0, generation };
        Self { file, kind, extent, block, end: start, packed }
    }

    /// Appends one row.
    pub(crate) fn push(&mut self, row: &[u8]) -> std::io::Result<()> {
        debug_assert_eq!(row.len(), self.kind.row_len());
        self.block.extend_from_slice(row);
        self.extent.rows += 1;
        if self.extent.rows.is_multiple_of(self.kind.rows_per_block()) {
            self.flush()?;
        }
        Ok(())
    }

    /// Appends rows, one after the other.
    pub(crate) fn push_all(&mut self, mut rows: &[u8]) -> std::io::Result<()> {
        let (row_len, per_block) = (self.kind.row_len(), self.kind.rows_per_block());
        debug_assert!(rows.len().is_multiple_of(row_len));
        while !rows.is_empty() {
            let room = (per_block - self.extent.rows % per_block) as usize * row_len;
            let (now, later) = rows.split_at(room.min(rows.len()));
            self.block.extend_from_slice(now);
            self.extent.rows += (now.len() / row_len) as u64;
            if now.len() == room {
                self.flush()?;
            }
            rows = later;
        }
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let index = (self.extent.rows - 1) / self.kind.rows_per_block();
        let Some(packed) = &mut self.packed else {
            seal(&mut self.block, self.extent.generation, self.kind, index);
            let start = self.extent.start + index * BLOCK_LEN as u64;
            self.file.write_all_at(&self.block, start)?;
            self.end = start + self.block.len() as u64;
            self.block.truncate(BLOCK_HEAD_LEN);
            return Ok(());
        };
        let block = packed.pack(self.kind, &self.block[BLOCK_HEAD_LEN..]);
        seal(block, self.extent.generation, self.kind, index);
        self.file.write_all_at(block, self.end)?;
        let len = block.len() as u32;
        packed.blocks.push(PackedBlock { start: self.end, len });
        self.end += u64::from(len);
        self.block.truncate(BLOCK_HEAD_LEN);
        Ok(())
    }

    /// Writes the remaining rows; returns the position of the column and its end.
    pub(crate) fn finish(mut self) -> std::io::Result<(Extent, u64)> {
        if self.block.len() > BLOCK_HEAD_LEN {
            self.flush()?;
        }
        Ok((self.extent, self.end))
    }
}

/// Writes the head of a block.
fn seal(block: &mut [u8], generation: u64, kind: ColumnKind, index: u64) {
    block[8..12].copy_from_slice(&(kind as u32).to_le_bytes());
    block[12..16].copy_from_slice(&(index as u32).to_le_bytes());
    let checksum = xxh3_64_with_seed(&block[8..], generation);
    block[..8].copy_from_slice(&checksum.to_le_bytes());
}

/// Returns the start of the next column after `end`: a multiple of the disk's page size.
pub(crate) fn align(end: u64) -> u64 {
    end.next_multiple_of(4096)
}
