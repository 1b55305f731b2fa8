//! The part of a cache file that never changes: blocks read and checked on demand.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use barid_vfs::{File, Vfs};

use crate::blocks::{Block, FileBlocks};
use crate::column::{BLOCK_HEAD_LEN, ColumnKind, check_block};
use crate::error::{Damage, Error, Result};
use crate::header::Header;
use crate::heap::{HeapBlock, heap_checksum};
use crate::pack::{BlockTable, PackedBlock, Unpacking};
use crate::records::{KvRecords, RecordStore};

/// The file and its recently read blocks.
#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) file: Box<dyn File>,
    pub(crate) inode: u64,
    pub(crate) path: PathBuf,
    pub(crate) header: Header,
    blocks: FileBlocks,
    /// Positions of the blocks of packed columns, after the first one was requested.
    table: OnceLock<BlockTable>,
    unpacking: Mutex<Unpacking>,
    /// The records, unless they are in the file.
    pub(crate) kv: Option<KvRecords>,
}

impl Base {
    pub(crate) fn new(
        vfs: &Arc<dyn Vfs>,
        file: Box<dyn File>,
        inode: u64,
        path: &Path,
        header: Header,
    ) -> Self {
        Self {
            file,
            inode,
            path: path.to_owned(),
            kv: KvRecords::of(vfs, path, &header),
            header,
            blocks: FileBlocks::new(),
            table: OnceLock::new(),
            unpacking: Mutex::default(),
        }
    }

    /// Returns the store of the header records.
    pub(crate) fn records(&self) -> &dyn RecordStore {
        match &self.kv {
            None => self,
            Some(kv) => kv,
        }
    }

    pub(crate) fn rows(&self) -> u32 {
        self.header.messages
    }

    pub(crate) fn damaged(&self, offset: u64, kind: Damage) -> Error {
        Error::damaged(&self.path, offset, kind)
    }

    fn read_at(&self, buffer: &mut Vec<u8>, start: u64, len: usize) -> Result<()> {
        buffer.resize(len, 0);
        match self.file.read_full_at(buffer, start) {
            Ok(read) if read == len => Ok(()),
            Ok(_) => Err(self.damaged(start, Damage::Truncated)),
            Err(error) => Err(Error::at(&self.path)(error)),
        }
    }

    /// Reads block `index` of a column, head included, without caching it.
    pub(crate) fn read_block(
        &self,
        kind: ColumnKind,
        index: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        let (start, len) = self.header.extents[kind.index()].block(kind, index);
        if let Some(table) = self.header.table {
            let packed = self.packed_block(table, kind, index)?;
            return self.read_packed_block(kind, index, packed, len, buffer);
        }
        self.read_at(buffer, start, len)?;
        check_block(buffer, self.header.extents[kind.index()].generation, kind, index)
            .map_err(|damage| self.damaged(start, damage))
    }

    /// Returns the position of block `index` of a packed column; reads the table at `start` if
    /// necessary.
    pub(crate) fn packed_block(
        &self,
        start: u64,
        kind: ColumnKind,
        index: u64,
    ) -> Result<PackedBlock> {
        let damaged = || self.damaged(start, Damage::Checksum);
        let table = match self.table.get() {
            Some(table) => table,
            None => {
                let Header { generation, extents, .. } = &self.header;
                let read = BlockTable::read(&*self.file, *generation, start, extents);
                let read = read.map_err(Error::at(&self.path))?.ok_or_else(damaged)?;
                self.table.get_or_init(|| read)
            }
        };
        table.block(kind, index).ok_or_else(damaged)
    }

    fn read_packed_block(
        &self,
        kind: ColumnKind,
        index: u64,
        packed: PackedBlock,
        len: usize,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        let mut unpacking = self.unpacking();
        self.read_at(&mut unpacking.packed, packed.start, packed.len as usize)?;
        let damaged = |damage| self.damaged(packed.start, damage);
        let generation = self.header.extents[kind.index()].generation;
        check_block(&unpacking.packed, generation, kind, index).map_err(damaged)?;
        buffer.clear();
        buffer.extend_from_slice(&unpacking.packed[..BLOCK_HEAD_LEN]);
        match unpacking.unpack(BLOCK_HEAD_LEN, len - BLOCK_HEAD_LEN, buffer) {
            true => Ok(()),
            false => Err(damaged(Damage::Bounds)),
        }
    }

    fn unpacking(&self) -> MutexGuard<'_, Unpacking> {
        self.unpacking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cached_block(
        &self,
        start: u64,
        read: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<Block> {
        self.blocks.get_or_read(start, || {
            let mut bytes = Vec::new();
            read(&mut bytes)?;
            Ok(Arc::new(bytes))
        })
    }

    /// Returns block `index` of a column, head included.
    pub(crate) fn block(&self, kind: ColumnKind, index: u64) -> Result<Block> {
        let start = match self.header.table {
            None => self.header.extents[kind.index()].block(kind, index).0,
            Some(table) => self.packed_block(table, kind, index)?.start,
        };
        self.cached_block(start, |bytes| self.read_block(kind, index, bytes))
    }

    /// Passes one row of a column to `see`.
    pub(crate) fn row<T>(
        &self,
        kind: ColumnKind,
        row: u32,
        see: impl FnOnce(&[u8]) -> T,
    ) -> Result<T> {
        let (index, at) = locate(kind, u64::from(row));
        if u64::from(row) >= self.header.extents[kind.index()].rows {
            return Err(self.damaged(0, Damage::Bounds));
        }
        let block = self.block(kind, index)?;
        // A damaged table may lead two columns to one block, which was cached for the other.
        let row = block.get(at..at + kind.row_len());
        row.map(see).ok_or_else(|| self.damaged(0, Damage::Bounds))
    }

    /// Returns the directory entry of a heap block.
    pub(crate) fn heap_entry(&self, number: u32) -> Result<HeapBlock> {
        let entry = self.row(ColumnKind::Heap, number, HeapBlock::decode)?;
        let start =
            self.header.table.unwrap_or(self.header.extents[ColumnKind::Heap.index()].start);
        let entry = entry.filter(|block| {
            block.start.checked_add(u64::from(block.len)).is_some_and(|end| end <= start)
        });
        entry.ok_or_else(|| self.damaged(start, Damage::Bounds))
    }

    /// Reads a heap block without caching it.
    pub(crate) fn read_heap_block(&self, number: u32, buffer: &mut Vec<u8>) -> Result<()> {
        let entry = self.heap_entry(number)?;
        // The heap and its directory are written together.
        let generation = self.header.extents[ColumnKind::Heap.index()].generation;
        let is_sound = |bytes: &[u8]| heap_checksum(generation, number, bytes) == entry.checksum;
        if entry.raw_len == 0 {
            self.read_at(buffer, entry.start, entry.len as usize)?;
            return match is_sound(buffer) {
                true => Ok(()),
                false => Err(self.damaged(entry.start, Damage::Checksum)),
            };
        }
        let mut unpacking = self.unpacking();
        self.read_at(&mut unpacking.packed, entry.start, entry.len as usize)?;
        buffer.clear();
        let sound = is_sound(&unpacking.packed);
        match sound && unpacking.unpack(0, entry.raw_len as usize, buffer) {
            true => Ok(()),
            false => Err(self.damaged(entry.start, Damage::Checksum)),
        }
    }

    /// Returns a heap block.
    pub(crate) fn heap_block(&self, number: u32) -> Result<Block> {
        let entry = self.heap_entry(number)?;
        self.cached_block(entry.start, |bytes| self.read_heap_block(number, bytes))
    }
}

/// Returns the block of a row and the offset of the row in it.
pub(crate) fn locate(kind: ColumnKind, row: u64) -> (u64, usize) {
    let per_block = kind.rows_per_block();
    (row / per_block, BLOCK_HEAD_LEN + (row % per_block) as usize * kind.row_len())
}

/// A cursor over the rows of a column with its own buffer.
pub(crate) struct Cursor<'a> {
    base: &'a Base,
    kind: ColumnKind,
    index: Option<u64>,
    block: Vec<u8>,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(base: &'a Base, kind: ColumnKind) -> Self {
        Self { base, kind, index: None, block: Vec::new() }
    }

    /// Returns `true` if a row is in the block that was read last.
    pub(crate) fn has(&self, row: u32) -> bool {
        self.index == Some(locate(self.kind, u64::from(row)).0)
    }

    /// Returns the bytes of a row; reads a block if the row is not in the last one.
    #[inline]
    pub(crate) fn row(&mut self, row: u32) -> Result<&[u8]> {
        let (index, at) = locate(self.kind, u64::from(row));
        if self.index != Some(index) {
            self.load(index)?;
        }
        let bytes = self.block.get(at..at + self.kind.row_len());
        bytes.ok_or_else(|| self.base.damaged(0, Damage::Bounds))
    }

    #[cold]
    fn load(&mut self, index: u64) -> Result<()> {
        self.index = None;
        if index >= self.base.header.extents[self.kind.index()].blocks(self.kind) {
            return Err(self.base.damaged(0, Damage::Bounds));
        }
        self.base.read_block(self.kind, index, &mut self.block)?;
        self.index = Some(index);
        Ok(())
    }
}

/// A cursor over pieces of heap blocks, which stores the last block.
pub(crate) struct HeapCursor<'a> {
    base: &'a Base,
    number: Option<u32>,
    block: Held,
}

/// A cached block, or one in a buffer of the cursor.
enum Held {
    Kept(Block),
    Own(Vec<u8>),
}

impl<'a> HeapCursor<'a> {
    /// Creates a cursor for a few pieces, which uses the block cache.
    pub(crate) fn new(base: &'a Base) -> Self {
        Self { base, number: None, block: Held::Kept(Block::default()) }
    }

    /// Creates a cursor for many pieces in the order of the file, which does not cache blocks.
    pub(crate) fn bulk(base: &'a Base) -> Self {
        Self { base, number: None, block: Held::Own(Vec::new()) }
    }

    /// Returns the block `number` from `offset` on.
    #[inline]
    pub(crate) fn tail(&mut self, number: u32, offset: u32) -> Result<&[u8]> {
        if self.number != Some(number) {
            self.load(number)?;
        }
        let block = match &self.block {
            Held::Kept(block) => block,
            Held::Own(block) => block,
        };
        block.get(offset as usize..).ok_or_else(|| self.base.damaged(0, Damage::Bounds))
    }

    #[cold]
    fn load(&mut self, number: u32) -> Result<()> {
        self.number = None;
        match &mut self.block {
            Held::Kept(block) => *block = self.base.heap_block(number)?,
            Held::Own(block) => self.base.read_heap_block(number, block)?,
        }
        self.number = Some(number);
        Ok(())
    }
}
