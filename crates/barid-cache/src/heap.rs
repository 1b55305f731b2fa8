//! Header records and the blocks they lie in (`docs/formats/cache.md`, "Heap blocks").

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use barid_message::HeaderFields;
use barid_vfs::File;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::codec::{Put, Reader, u32_at, u64_at};
use crate::core_row::HeapRef;
use crate::limits::{FIELD_LEN_MAX, HEAP_BLOCK_LEN, HEAP_BLOCK_LEN_MAX};

/// How many header fields a record can hold.
pub(crate) const FIELD_COUNT: usize = 11;
/// Bytes of a record before its field lengths.
const RECORD_HEAD_LEN: usize = 8;

/// The header fields of one message: raw bodies, still folded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record<'a> {
    /// `Date`.
    pub date: Option<&'a [u8]>,
    /// `From`.
    pub from: Option<&'a [u8]>,
    /// `Sender`.
    pub sender: Option<&'a [u8]>,
    /// `Reply-To`.
    pub reply_to: Option<&'a [u8]>,
    /// `To`.
    pub to: Option<&'a [u8]>,
    /// `Cc`.
    pub cc: Option<&'a [u8]>,
    /// `Bcc`.
    pub bcc: Option<&'a [u8]>,
    /// `Subject`.
    pub subject: Option<&'a [u8]>,
    /// `Message-ID`.
    pub message_id: Option<&'a [u8]>,
    /// `In-Reply-To`.
    pub in_reply_to: Option<&'a [u8]>,
    /// `References`.
    pub references: Option<&'a [u8]>,
    /// Whether some field is longer in the message than here.
    pub cut: bool,
}

impl<'a> From<&HeaderFields<'a>> for Record<'a> {
    fn from(fields: &HeaderFields<'a>) -> Self {
        Self {
            date: fields.date,
            from: fields.from,
            sender: fields.sender,
            reply_to: fields.reply_to,
            to: fields.to,
            cc: fields.cc,
            bcc: fields.bcc,
            subject: fields.subject,
            message_id: fields.message_id,
            in_reply_to: fields.in_reply_to,
            references: fields.references,
            cut: false,
        }
    }
}

impl<'a> Record<'a> {
    fn fields(&self) -> [Option<&'a [u8]>; FIELD_COUNT] {
        [
            self.date,
            self.from,
            self.sender,
            self.reply_to,
            self.to,
            self.cc,
            self.bcc,
            self.subject,
            self.message_id,
            self.in_reply_to,
            self.references,
        ]
    }

    /// Appends the record to `out`; tells whether a field had to be cut.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> bool {
        let fields = self.fields();
        let start = out.len();
        let (mut present, mut cut) = (0u16, 0u16);
        out.extend_from_slice(&[0; RECORD_HEAD_LEN]);
        for (index, field) in fields.iter().enumerate() {
            let Some(field) = field else { continue };
            present |= 1 << index;
            if field.len() > FIELD_LEN_MAX {
                cut |= 1 << index;
            }
            out.put_varint(field.len().min(FIELD_LEN_MAX));
        }
        for field in fields.iter().flatten() {
            out.extend_from_slice(&field[..field.len().min(FIELD_LEN_MAX)]);
        }
        let len = (out.len() - start) as u32;
        out[start..start + 4].copy_from_slice(&len.to_le_bytes());
        out[start + 4..start + 6].copy_from_slice(&present.to_le_bytes());
        out[start + 6..start + 8].copy_from_slice(&cut.to_le_bytes());
        cut != 0
    }

    /// Reads the record at the front of `bytes`.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(Self::bytes_of(bytes)?);
        reader.u32()?;
        let (present, cut) = (reader.u16()?, reader.u16()?);
        let mut lens = [0; FIELD_COUNT];
        for (index, len) in lens.iter_mut().enumerate() {
            if present >> index & 1 == 1 {
                *len = reader.varint()?;
            }
        }
        let mut fields = [None; FIELD_COUNT];
        for (index, field) in fields.iter_mut().enumerate() {
            if present >> index & 1 == 1 {
                *field = Some(reader.take(lens[index])?);
            }
        }
        let [date, from, sender, reply_to, to, cc, bcc, subject, id, in_reply_to, references] =
            fields;
        Some(Self {
            date,
            from,
            sender,
            reply_to,
            to,
            cc,
            bcc,
            subject,
            message_id: id,
            in_reply_to,
            references,
            cut: cut != 0,
        })
    }

    /// The bytes of the record at the front of `bytes`.
    pub(crate) fn bytes_of(bytes: &[u8]) -> Option<&[u8]> {
        let len = u32_at(bytes.get(..4)?, 0) as usize;
        bytes.get(..len).filter(|record| record.len() >= RECORD_HEAD_LEN)
    }
}

/// Bytes of a row of the heap directory.
pub(crate) const HEAP_ROW_LEN: usize = 24;

/// Where a heap block is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeapBlock {
    pub(crate) start: u64,
    pub(crate) len: u32,
    pub(crate) checksum: u64,
}

impl HeapBlock {
    pub(crate) fn encode(&self) -> [u8; HEAP_ROW_LEN] {
        let mut row = [0; HEAP_ROW_LEN];
        row[0..8].copy_from_slice(&self.start.to_le_bytes());
        row[8..12].copy_from_slice(&self.len.to_le_bytes());
        row[16..24].copy_from_slice(&self.checksum.to_le_bytes());
        row
    }

    /// Reads a directory row; `None` if the length is beyond what a block can have.
    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let len = u32_at(row, 8);
        let block = Self { start: u64_at(row, 0), len, checksum: u64_at(row, 16) };
        (len as usize <= HEAP_BLOCK_LEN_MAX).then_some(block)
    }
}

/// The checksum of heap block `number`.
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

    /// The directory and the end of the heap.
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

    /// Writes a whole block under a reserved number.
    fn write(&self, file: &dyn File, number: u32, bytes: &[u8]) -> std::io::Result<()> {
        let start = self.end.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let checksum = heap_checksum(self.generation, number, bytes);
        file.write_all_at(bytes, start)?;
        self.blocks()[number as usize] = HeapBlock { start, len: bytes.len() as u32, checksum };
        Ok(())
    }
}

/// Fills heap blocks, one at a time.
#[derive(Debug, Default)]
pub(crate) struct HeapWriter {
    number: Option<u32>,
    bytes: Vec<u8>,
}

impl HeapWriter {
    /// Appends what `fill` appends, which never spans blocks.
    pub(crate) fn append<T>(
        &mut self,
        store: &HeapStore,
        file: &dyn File,
        fill: impl FnOnce(&mut Vec<u8>) -> T,
    ) -> std::io::Result<(HeapRef, T)> {
        let number = *self.number.get_or_insert_with(|| store.reserve());
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(HEAP_BLOCK_LEN + 4096);
        }
        let heap = HeapRef { block: number, offset: self.bytes.len() as u32 };
        let value = fill(&mut self.bytes);
        if self.bytes.len() >= HEAP_BLOCK_LEN {
            self.flush(store, file)?;
        }
        Ok((heap, value))
    }

    /// Writes the block that is being filled.
    pub(crate) fn flush(&mut self, store: &HeapStore, file: &dyn File) -> std::io::Result<()> {
        if let Some(number) = self.number.take() {
            store.write(file, number, &self.bytes)?;
            self.bytes.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(record: Record<'_>) {
        let mut bytes = b"before".to_vec();
        let cut = record.encode(&mut bytes);
        bytes.extend_from_slice(b"after");
        let decoded = Record::decode(&bytes[6..]).unwrap();
        assert_eq!(decoded.cut, cut);
        for (got, put) in decoded.fields().iter().zip(record.fields()) {
            assert_eq!(*got, put.map(|body| &body[..body.len().min(FIELD_LEN_MAX)]));
        }
        for len in 6..bytes.len() - 5 {
            assert_eq!(Record::decode(&bytes[6..len]), None, "cut at {len}");
        }
    }

    #[test]
    fn records_come_back() {
        check(Record::default());
        check(Record { date: Some(b""), references: Some(b"<a@b> <c@d>"), ..Record::default() });
        check(Record { subject: Some(&[b'x'; 300]), to: Some(b"a"), ..Record::default() });
    }

    #[test]
    fn a_huge_field_is_cut_and_marked() {
        let huge = vec![b'x'; FIELD_LEN_MAX + 1];
        let record = Record { cc: Some(&huge), bcc: Some(b"b"), ..Record::default() };
        let mut bytes = Vec::new();
        assert!(record.encode(&mut bytes));
        let decoded = Record::decode(&bytes).unwrap();
        assert_eq!(decoded.cc.map(<[u8]>::len), Some(FIELD_LEN_MAX));
        assert_eq!((decoded.bcc, decoded.cut), (Some(&b"b"[..]), true));
    }
}
