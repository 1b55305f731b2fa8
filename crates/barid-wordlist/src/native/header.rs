//! The headers of tables and logs.

use barid_vfs::le::{u32_at, u64_at};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::hashed::{FREQUENT_BLOCKS_MAX, Region};

/// The first bytes of a table.
const TABLE_MAGIC: [u8; 8] = *b"baridWRD";
/// The first bytes of a log.
const LOG_MAGIC: [u8; 8] = *b"baridWLG";
/// The version of both formats.
const VERSION: u32 = 1;
/// Length of a table's header in bytes. A copy of it is at the end of the file.
pub(crate) const HEADER_LEN: usize = 128;
/// Byte offset of a table's first block.
pub(crate) const BLOCKS_OFFSET: u64 = 4096;
/// Upper bound of generations and sequence numbers.
pub(crate) const NUMBER_MAX: u64 = 1 << 62;
/// Length of a log's header in bytes.
pub(crate) const LOG_HEADER_LEN: usize = 64;

/// The header of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    /// The generation of this table and of its log.
    pub(crate) generation: u64,
    /// The generation of the base table, which this one overrides; 0 if there is none.
    pub(crate) base: u64,
    /// The sequence number of the last change in it.
    pub(crate) sequence: u64,
    /// The seed of the hashes of tokens.
    pub(crate) seed: u64,
    pub(crate) entries: u64,
    pub(crate) sorted_blocks: u32,
    pub(crate) hashed_blocks: u32,
    /// Number of hashed blocks that are homes: the others take the overflow of the last home.
    pub(crate) homes: u32,
    /// Number of hashed blocks with only the most frequent tokens, which follow the others; 0 if
    /// the table is small.
    pub(crate) frequent_blocks: u32,
    pub(crate) frequent_homes: u32,
    /// Byte offset of the hashed part; the sorted part begins at [`BLOCKS_OFFSET`].
    pub(crate) hashed_offset: u64,
    /// The day since 1970-01-01 from which dates are counted.
    pub(crate) day: u32,
    /// The random id of the list, the same in all generations.
    pub(crate) id: [u8; 16],
}

/// The error of parsing a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoHeader {
    Damaged,
    Version(u32),
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..8].copy_from_slice(&TABLE_MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(HEADER_LEN as u32).to_le_bytes());
        let numbers = [
            self.generation,
            self.base,
            self.sequence,
            self.seed,
            self.entries,
            u64::from(self.sorted_blocks) | u64::from(self.hashed_blocks) << 32,
            self.hashed_offset,
            u64::from(self.day) | u64::from(self.homes) << 32,
        ];
        for (place, number) in bytes[16..80].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes[80..96].copy_from_slice(&self.id);
        bytes[96..100].copy_from_slice(&self.frequent_blocks.to_le_bytes());
        bytes[100..104].copy_from_slice(&self.frequent_homes.to_le_bytes());
        finish(&mut bytes);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Self, NoHeader> {
        check(bytes, TABLE_MAGIC)?;
        let mut id = [0; 16];
        id.copy_from_slice(&bytes[80..96]);
        let header = Self {
            generation: u64_at(bytes, 16),
            base: u64_at(bytes, 24),
            sequence: u64_at(bytes, 32),
            seed: u64_at(bytes, 40),
            entries: u64_at(bytes, 48),
            sorted_blocks: u32_at(bytes, 56),
            hashed_blocks: u32_at(bytes, 60),
            hashed_offset: u64_at(bytes, 64),
            day: u32_at(bytes, 72),
            homes: u32_at(bytes, 76),
            frequent_blocks: u32_at(bytes, 96),
            frequent_homes: u32_at(bytes, 100),
            id,
        };
        let sorted = u64::from(header.sorted_blocks) * super::sorted::BLOCK_LEN as u64;
        let fits = header.hashed_offset == BLOCKS_OFFSET + sorted
            && header.homes <= header.hashed_blocks
            && header.frequent_homes <= header.frequent_blocks
            && header.frequent_blocks <= FREQUENT_BLOCKS_MAX
            && header.generation.max(header.base).max(header.sequence) < NUMBER_MAX;
        if fits { Ok(header) } else { Err(NoHeader::Damaged) }
    }

    /// Returns the length of the file in bytes.
    pub(crate) fn file_len(&self) -> u64 {
        self.frequent_offset() + self.region(Part::Frequent).len() + HEADER_LEN as u64
    }

    /// Returns the byte offset of the blocks of the most frequent tokens.
    pub(crate) fn frequent_offset(&self) -> u64 {
        self.hashed_offset + self.region(Part::Hashed).len()
    }

    /// Returns the hashed blocks of a part.
    pub(crate) fn region(&self, part: Part) -> Region {
        let (blocks, homes) = match part {
            Part::Frequent => (self.frequent_blocks, self.frequent_homes),
            Part::Sorted | Part::Hashed => (self.hashed_blocks, self.homes),
        };
        Region { part, blocks, homes }
    }

    /// Returns the header of the log of this table.
    pub(crate) fn log(&self) -> LogHeader {
        LogHeader { generation: self.generation, sequence: self.sequence, id: self.id }
    }

    /// Returns the seed of the checksum of a block, so that a block is valid in its place only.
    pub(crate) fn block_seed(&self, part: Part, block: u32) -> u64 {
        self.generation.rotate_left(33) ^ u64::from(block) << 1 ^ part as u64
    }
}

/// A part of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Sorted = 0,
    Hashed = 1,
    Frequent = 1 << 30,
}

/// The header of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogHeader {
    pub(crate) generation: u64,
    /// The sequence number of the last change before the log.
    pub(crate) sequence: u64,
    pub(crate) id: [u8; 16],
}

impl LogHeader {
    pub(crate) fn encode(&self) -> [u8; LOG_HEADER_LEN] {
        let mut bytes = [0; LOG_HEADER_LEN];
        bytes[..8].copy_from_slice(&LOG_MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(LOG_HEADER_LEN as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.generation.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[32..48].copy_from_slice(&self.id);
        finish(&mut bytes);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, NoHeader> {
        let bytes = bytes.get(..LOG_HEADER_LEN).ok_or(NoHeader::Damaged)?;
        check(bytes, LOG_MAGIC)?;
        let mut id = [0; 16];
        id.copy_from_slice(&bytes[32..48]);
        Ok(Self { generation: u64_at(bytes, 16), sequence: u64_at(bytes, 24), id })
    }

    /// Returns the seed of the checksums of its records, so that a record is valid in its own log
    /// only.
    pub(crate) fn salt(&self) -> u64 {
        xxh3_64_with_seed(&self.id, self.generation)
    }
}

/// Writes the checksum to the last eight bytes.
fn finish(bytes: &mut [u8]) {
    let at = bytes.len() - 8;
    let sum = xxh3_64_with_seed(&bytes[..at], 0);
    bytes[at..].copy_from_slice(&sum.to_le_bytes());
}

fn check(bytes: &[u8], magic: [u8; 8]) -> Result<(), NoHeader> {
    let at = bytes.len() - 8;
    if bytes[..8] != magic || u64_at(bytes, at) != xxh3_64_with_seed(&bytes[..at], 0) {
        return Err(NoHeader::Damaged);
    }
    match u32_at(bytes, 8) {
        VERSION => Ok(()),
        version => Err(NoHeader::Version(version)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_and_no_byte_may_change() {
        let (id, hashed_offset) = ([7; 16], BLOCKS_OFFSET);
        let header = Header { generation: 3, base: 2, id, hashed_offset, ..Header::default() };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Ok(header.clone()));
        for forged in [
            Header { hashed_offset: u64::MAX, ..header.clone() },
            Header { sorted_blocks: u32::MAX, ..header.clone() },
            Header { homes: 1, ..header.clone() },
            Header { generation: u64::MAX, ..header.clone() },
            Header { sequence: u64::MAX, ..header.clone() },
        ] {
            assert_eq!(Header::decode(&forged.encode()), Err(NoHeader::Damaged));
        }
        let log = LogHeader { generation: 4, sequence: 5, id: [8; 16] };
        assert_eq!(LogHeader::decode(&log.encode()), Ok(log.clone()));
        for at in 0..HEADER_LEN {
            let mut bytes = bytes;
            bytes[at] ^= 1;
            assert_eq!(Header::decode(&bytes), Err(NoHeader::Damaged));
        }
        let mut later = bytes;
        later[8] = 2;
        finish(&mut later);
        assert_eq!(Header::decode(&later), Err(NoHeader::Version(2)));
        assert_eq!(LogHeader::decode(&log.encode()[..63]), Err(NoHeader::Damaged));
    }
}
