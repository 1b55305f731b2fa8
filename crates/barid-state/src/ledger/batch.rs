//! Building and writing a batch.

use std::io;

use barid_types::Uid;
use barid_vfs::File;

use super::layout::{
    BATCH_HEAD_LEN, BATCH_MAGIC, ENTRIES, ENTRY_LEN, EXPUNGED, FOOTER_LEN, LedgerFooter, PATH,
    RECORD_HEAD_LEN, REPLACED, Summary, VANISHED, VANISHED_LEN, hash, hasher,
};
use super::vanished::ranges;
use super::{LedgerEntry, Vanished, twice};
use crate::limits::{PATH_LEN_MAX, SCAN_BUFFER_LEN, TAIL_LEN};

/// The records of a batch that is to be written.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    /// Its offset in the stream.
    offset: u64,
    is_replacement: bool,
    entries: &'a [LedgerEntry],
    /// Ranges of UIDs, first and last.
    expunged: Vec<(Uid, Uid)>,
    vanished: &'a [Vanished],
    path: Option<&'a [u8]>,
}

impl<'a> Batch<'a> {
    /// Begins a batch at `offset` of the stream.
    pub(super) fn new(offset: u64) -> Self {
        Self {
            offset,
            is_replacement: false,
            entries: &[],
            expunged: Vec::new(),
            vanished: &[],
            path: None,
        }
    }

    /// Adds the record that voids everything before this batch.
    pub(super) fn replaced(&mut self) {
        self.is_replacement = true;
    }

    /// Sets the entries to add.
    pub(super) fn entries(&mut self, entries: &'a [LedgerEntry]) {
        self.entries = entries;
    }

    /// Sets the expunged UIDs, which ascend.
    pub(super) fn expunged(&mut self, uids: &[Uid]) {
        self.expunged = ranges(uids);
    }

    /// Sets the vanished UIDs to record.
    pub(super) fn vanished(&mut self, vanished: &'a [Vanished]) {
        self.vanished = vanished;
    }

    /// Adds the mailbox's path, and its position to `summary`. Must be the last record added.
    pub(super) fn path(&mut self, path: &'a [u8], summary: &mut Summary) {
        if path.len() > PATH_LEN_MAX {
            return;
        }
        self.path = Some(path);
        summary.path_hash = hash(path);
        summary.path_offset =
            self.offset + (BATCH_HEAD_LEN + self.payload_len() - path.len()) as u64;
        summary.path_len = path.len() as u32;
    }

    fn payload_len(&self) -> usize {
        let record = |is_there: bool, len: usize| if is_there { RECORD_HEAD_LEN + len } else { 0 };
        record(self.is_replacement, 0)
            + record(!self.entries.is_empty(), self.entries.len() * ENTRY_LEN)
            + record(!self.expunged.is_empty(), self.expunged.len() * 8)
            + record(!self.vanished.is_empty(), self.vanished.len() * VANISHED_LEN)
            + self.path.map_or(0, |path| record(true, path.len()))
    }

    /// Returns the length of the batch in bytes, footer included.
    pub(super) fn len(&self) -> u64 {
        (BATCH_HEAD_LEN + self.payload_len() + FOOTER_LEN) as u64
    }

    /// Writes `before`, the bytes that precede the batch, and the batch. With `durable`, the footer
    /// cannot reach the disk unnoticed before the body: a batch of up to 960 bytes, which readers
    /// verify whole, is written in one call; of a longer one the body is made durable first.
    ///
    /// Memory use does not depend on the number of entries.
    pub(super) fn write(
        &self,
        file: &dyn File,
        before: Vec<u8>,
        id: u128,
        summary: &Summary,
        durable: bool,
    ) -> io::Result<()> {
        let at = self.offset - before.len() as u64;
        let start = before.len();
        let mut out = Output { file, at, bytes: before, hashed: start, hasher: hasher() };
        self.write_body(&mut out)?;
        out.hash();
        let footer = LedgerFooter {
            summary: *summary,
            batch_offset: self.offset,
            payload_len: self.payload_len() as u32,
            payload_hash: out.hasher.digest(),
        };
        if durable && self.len() > TAIL_LEN as u64 {
            out.flush()?;
            file.sync_data()?;
        }
        out.bytes.extend(footer.encode(id));
        out.flush()?;
        if durable { file.sync_data() } else { Ok(()) }
    }

    fn write_body(&self, out: &mut Output<'_>) -> io::Result<()> {
        out.bytes.extend(BATCH_MAGIC);
        out.bytes.extend((self.payload_len() as u32).to_le_bytes());
        if self.is_replacement {
            out.record(REPLACED, 0);
        }
        if !self.entries.is_empty() {
            out.record(ENTRIES, self.entries.len());
        }
        for entry in self.entries {
            out.bytes.extend(entry.uid.get().to_le_bytes());
            out.bytes.extend({ entry.key }.0.to_le_bytes());
            out.flush_if_long()?;
        }
        if !self.expunged.is_empty() {
            out.record(EXPUNGED, self.expunged.len());
        }
        for (first, last) in &self.expunged {
            out.bytes.extend(first.get().to_le_bytes());
            out.bytes.extend(last.get().to_le_bytes());
            out.flush_if_long()?;
        }
        if !self.vanished.is_empty() {
            out.record(VANISHED, self.vanished.len());
        }
        for Vanished { modseq, first, last } in self.vanished {
            out.bytes.extend(modseq.get().to_le_bytes());
            out.bytes.extend(first.get().to_le_bytes());
            out.bytes.extend(last.get().to_le_bytes());
            out.flush_if_long()?;
        }
        if let Some(path) = self.path {
            out.record(PATH, path.len());
            out.bytes.extend(path);
        }
        Ok(())
    }
}

/// A buffered writer that hashes what it writes.
struct Output<'a> {
    file: &'a dyn File,
    /// Offset in the stream at which `bytes` will be written.
    at: u64,
    bytes: Vec<u8>,
    /// Number of `bytes` that were hashed already or are not hashed.
    hashed: usize,
    hasher: xxhash_rust::xxh3::Xxh3,
}

impl Output<'_> {
    fn record(&mut self, kind: u32, count: usize) {
        self.bytes.extend(kind.to_le_bytes());
        self.bytes.extend((count as u32).to_le_bytes());
    }

    fn hash(&mut self) {
        self.hasher.update(&self.bytes[self.hashed..]);
        self.hashed = self.bytes.len();
    }

    fn flush_if_long(&mut self) -> io::Result<()> {
        if self.bytes.len() < SCAN_BUFFER_LEN {
            return Ok(());
        }
        self.hash();
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        twice::write_at(self.file, &self.bytes, self.at)?;
        self.at += self.bytes.len() as u64;
        self.bytes.clear();
        self.hashed = 0;
        Ok(())
    }
}
