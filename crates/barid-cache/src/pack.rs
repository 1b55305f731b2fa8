//! Packed blocks, and the table of the blocks of packed columns.

use barid_kv::Compression;
use barid_kv::compress::{Packer, Unpacker};
use barid_vfs::File;
use barid_vfs::le::{PutLe, u32_at, u64_at};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::column::{BLOCK_HEAD_LEN, BLOCK_LEN, COLUMN_COUNT, ColumnKind, Extent};

/// Bytes of the buffer for packed blocks that a thread keeps for the next one.
const PACKED_KEPT_LEN: usize = 256 * 1024;

/// A packer of blocks for one thread.
#[derive(Debug)]
pub(crate) struct Packing {
    packer: Packer,
    packed: Vec<u8>,
}

impl Packing {
    pub(crate) fn new(compression: Compression) -> Self {
        Self { packer: Packer::new(compression), packed: Vec::new() }
    }

    /// Returns the packed bytes, which are in a buffer that the next call reuses.
    pub(crate) fn pack(&mut self, stride: u8, raw: &[u8]) -> &[u8] {
        self.packed.clear();
        self.packed.shrink_to(PACKED_KEPT_LEN);
        self.packer.pack(stride, raw, &mut self.packed);
        &self.packed
    }
}

/// An unpacker of blocks, with its buffers.
#[derive(Debug, Default)]
pub(crate) struct Unpacking {
    unpacker: Unpacker,
    /// Buffer into which the caller reads packed bytes.
    pub(crate) packed: Vec<u8>,
}

impl Unpacking {
    /// Unpacks [`Unpacking::packed`] from `from` on and appends the bytes; `false` unless they are
    /// `raw_len` bytes.
    pub(crate) fn unpack(&mut self, from: usize, raw_len: usize, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let packed = self.packed.get(from..).unwrap_or_default();
        let unpacked = self.unpacker.unpack(packed, raw_len, out);
        unpacked.is_ok() && out.len() - start == raw_len
    }
}

/// Position of a packed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackedBlock {
    pub(crate) start: u64,
    /// Length in bytes, head included.
    pub(crate) len: u32,
}

const CHECKSUM_LEN: usize = 8;
const ENTRY_LEN: usize = 12;

/// Positions of the blocks of packed columns.
#[derive(Debug)]
pub(crate) struct BlockTable {
    blocks: Vec<PackedBlock>,
    first: [usize; COLUMN_COUNT],
}

impl BlockTable {
    /// Returns the length of the table of these columns in bytes.
    pub(crate) fn len_of(extents: &[Extent; COLUMN_COUNT]) -> u64 {
        let blocks: u64 =
            ColumnKind::ALL.iter().map(|kind| extents[kind.index()].blocks(*kind)).sum();
        CHECKSUM_LEN as u64 + blocks * ENTRY_LEN as u64
    }

    /// Encodes a table of blocks that are sorted by column.
    pub(crate) fn encode(generation: u64, blocks: &[PackedBlock]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(CHECKSUM_LEN + blocks.len() * ENTRY_LEN);
        bytes.put_u64(0);
        for block in blocks {
            bytes.put_u64(block.start);
            bytes.put_u32(block.len);
        }
        let checksum = xxh3_64_with_seed(&bytes[CHECKSUM_LEN..], generation);
        bytes[..CHECKSUM_LEN].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the table at `start`; `None` if it differs from what was written.
    pub(crate) fn read(
        file: &dyn File,
        generation: u64,
        start: u64,
        extents: &[Extent; COLUMN_COUNT],
    ) -> std::io::Result<Option<Self>> {
        let mut bytes = vec![0; Self::len_of(extents) as usize];
        if file.read_full_at(&mut bytes, start)? < bytes.len() {
            return Ok(None);
        }
        let (checksum, entries) = bytes.split_at(CHECKSUM_LEN);
        if xxh3_64_with_seed(entries, generation) != u64_at(checksum, 0) {
            return Ok(None);
        }
        let entries = entries.chunks_exact(ENTRY_LEN);
        let block = |row| PackedBlock { start: u64_at(row, 0), len: u32_at(row, 8) };
        let blocks: Vec<PackedBlock> = entries.map(block).collect();
        let fits = |block: &PackedBlock| {
            let end = block.start.checked_add(u64::from(block.len));
            end.is_some_and(|end| end <= start)
                && (BLOCK_HEAD_LEN..=2 * BLOCK_LEN).contains(&(block.len as usize))
        };
        if !blocks.iter().all(fits) {
            return Ok(None);
        }
        let mut first = [0; COLUMN_COUNT];
        let mut next = 0;
        for kind in ColumnKind::ALL {
            first[kind.index()] = next;
            next += extents[kind.index()].blocks(kind) as usize;
        }
        Ok(Some(Self { blocks, first }))
    }

    /// Returns block `index` of a column.
    pub(crate) fn block(&self, kind: ColumnKind, index: u64) -> Option<PackedBlock> {
        let index = usize::try_from(index).ok()?;
        self.blocks.get(self.first[kind.index()].checked_add(index)?).copied()
    }
}
