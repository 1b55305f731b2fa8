//! Blocks of header records and of file names (`docs/formats/cache.md`, "Heap blocks").

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use barid_vfs::File;
use barid_vfs::le::{u32_at, u64_at};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::core_row::HeapRef;
use crate::limits::{HEAP_BLOCK_LEN, HEAP_BLOCK_LEN_MAX};
use crate::pack::Packing;

/// Bytes of a row of the heap directory.
pub(crate) const HEAP_ROW_LEN: usize = 24;

/// Position of a heap block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeapBlock {
    pub(crate) start: u64,
    pub(crate) len: u32,
    /// Its length before packing; 0 if it is not packed.
    pub(crate) raw_len: u32,
    pub(crate) checksum: u64,
}

impl HeapBlock {
    pub(crate) fn encode(&self) -> [u8; HEAP_ROW_LEN] {
        let mut row = [0; HEAP_ROW_LEN];
        row[0..8].copy_from_slice(&self.start.to_le_bytes());
        row[8..12].copy_from_slice(&self.len.to_le_bytes());
        row[12..16].copy_from_slice(&self.raw_len.to_le_bytes());
        row[16..24].copy_from_slice(&self.checksum.to_le_bytes());
        row
    }

    /// Reads a directory row; `None` if the length is longer than a block can be.
    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let (len, raw_len) = (u32_at(row, 8), u32_at(row, 12));
        let block = Self { start: u64_at(row, 0), len, raw_len, checksum: u64_at(row, 16) };
        (len.max(raw_len) as usize <= HEAP_BLOCK_LEN_MAX).then_some(block)
    }
}

/// Returns the checksum of heap block `number`.
pub(crate) fn heap_checksum(generation: u64, number: u32, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, generation.wrapping_add(u64::from(number)))
}

/// The heap of a file that is being written, by any number of [`HeapWriter`]s.
#[derive(Debug)]
pub(crate) struct HeapStore {
    generation: u64,
    end: AtomicU64,
    blocks: Mutex<Vec<HeapBlock>>,
}

impl HeapStore {
    pub(crate) fn new(generation: u64, start: u64) -> Self {
        Self { generation, end: AtomicU64::new(start), blocks: Mutex::default() }
    }

    /// Returns the directory and the end of the heap.
    pub(crate) fn into_parts(self) -> (Vec<HeapBlock>, u64) {
        let blocks = self.blocks.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        (blocks, self.end.into_inner())
    }

    fn blocks(&self) -> std::sync::MutexGuard<'_, Vec<HeapBlock>> {
        self.blocks.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn reserve(&self) -> u32 {
        let mut blocks = self.blocks();
        blocks.push(HeapBlock::default());
        (blocks.len() - 1) as u32
    }

    /// Writes a whole block under a reserved number; `raw_len` is its length before packing, 0 if
    /// it is not packed.
    fn write(
        &self,
        file: &dyn File,
        number: u32,
        bytes: &[u8],
        raw_len: u32,
    ) -> std::io::Result<()> {
        let start = self.end.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let checksum = heap_checksum(self.generation, number, bytes);
        file.write_all_at(bytes, start)?;
        let len = bytes.len() as u32;
        self.blocks()[number as usize] = HeapBlock { start, len, raw_len, checksum };
        Ok(())
    }
}

/// A writer that fills heap blocks, one at a time.
#[derive(Debug, Default)]
pub(crate) struct HeapWriter {
    number: Option<u32>,
    bytes: Vec<u8>,
    /// Bytes of the blocks written so far; the next field has their stored size.
    pub(crate) raw_bytes: u64,
    pub(crate) stored_bytes: u64,
}

/// The destination of blocks, and how they are packed.
pub(crate) struct HeapTarget<'a> {
    pub(crate) store: &'a HeapStore,
    pub(crate) file: &'a dyn File,
    pub(crate) packing: Option<&'a mut Packing>,
}

impl HeapWriter {
    /// Appends the bytes that `fill` appends, which never span blocks.
    pub(crate) fn append<T>(
        &mut self,
        target: &mut HeapTarget<'_>,
        fill: impl FnOnce(&mut Vec<u8>) -> T,
    ) -> std::io::Result<(HeapRef, T)> {
        let number = *self.number.get_or_insert_with(|| target.store.reserve());
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(HEAP_BLOCK_LEN + 4096);
        }
        let heap = HeapRef { block: number, offset: self.bytes.len() as u32 };
        let value = fill(&mut self.bytes);
        if self.bytes.len() >= HEAP_BLOCK_LEN {
            self.flush(target)?;
        }
        Ok((heap, value))
    }

    /// Writes the current block.
    pub(crate) fn flush(&mut self, target: &mut HeapTarget<'_>) -> std::io::Result<()> {
        let Some(number) = self.number.take() else { return Ok(()) };
        let (store, file, raw_len) = (target.store, target.file, self.bytes.len());
        let stored_len = match &mut target.packing {
            None => {
                store.write(file, number, &self.bytes, 0)?;
                raw_len
            }
            Some(packing) => {
                let packed = packing.pack(0, &self.bytes);
                store.write(file, number, packed, raw_len as u32)?;
                packed.len()
            }
        };
        self.bytes.clear();
        // A writer waits with its buffer for the next sink.
        self.bytes.shrink_to(2 * HEAP_BLOCK_LEN);
        self.raw_bytes += raw_len as u64;
        self.stored_bytes += stored_len as u64;
        Ok(())
    }
}
