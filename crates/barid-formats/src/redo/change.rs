//! Content of a change.

use std::io;

use barid_vfs::File;
use xxhash_rust::xxh3::xxh3_64;

use super::limits::{CUT_HASH_LEN_MAX, SECTOR_LEN};

/// Changes of several files that are to happen together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// The files, in the order in which they are written.
    pub(super) files: Vec<FileChange>,
    /// Sequence number of the last pending change among these.
    pub(super) pending_through: Option<u64>,
}

/// Changes of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileChange {
    /// Its name in the folder of the mailbox.
    pub(super) name: Vec<u8>,
    /// Its size before the change, in bytes.
    pub(super) old_size: u64,
    /// Its size after the change, in bytes.
    pub(super) new_size: u64,
    /// Number of bytes hashed of those cut off.
    pub(super) cut_len: u64,
    /// Hash of these bytes.
    pub(super) cut_hash: u64,
    /// Writes, ascending; they do not overlap.
    pub(super) writes: Vec<RedoWrite>,
    /// Hashes of the old bytes, for each piece of a sector that is written.
    pub(super) hashes: Vec<u64>,
    /// The bytes of all writes.
    pub(super) bytes: Vec<u8>,
}

/// A write. Its offsets into `hashes` and `bytes` follow from the writes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RedoWrite {
    pub(super) offset: u64,
    pub(super) len: u32,
    /// `true` if nothing is written: these bytes only have to be there.
    pub(super) is_evidence: bool,
}

impl Change {
    /// Makes an empty change.
    pub(crate) fn new(pending_through: Option<u64>) -> Self {
        Self { files: Vec::new(), pending_through }
    }

    /// Adds the change of a file, unless it is empty.
    pub(crate) fn add(&mut self, file: FileChange) {
        if !file.is_empty() {
            self.files.push(file);
        }
    }

    /// Returns `true` if nothing is to be changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the number of bytes written in place.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.files.iter().map(FileChange::bytes_written).sum()
    }
}

impl FileChange {
    /// Makes an empty change of the file `name`, which has `size` bytes.
    pub(crate) fn new(name: &[u8], size: u64) -> Self {
        Self { name: name.to_vec(), old_size: size, new_size: size, ..Self::default() }
    }

    /// Returns `true` if the file stays as it is.
    pub(crate) fn is_empty(&self) -> bool {
        self.old_size == self.new_size && self.writes.iter().all(|write| write.is_evidence)
    }

    /// Writes `new` at `offset`, where `old` is now. `old` is shorter than `new` where that extends
    /// beyond the end; then the file grows. Old bytes that do not change are evidence that the file
    /// is still the same, so a range may well include more than the changed bytes. Offsets must
    /// ascend.
    pub(crate) fn write(&mut self, offset: u64, old: &[u8], new: &[u8]) {
        debug_assert_eq!(
            old.len() as u64,
            self.old_size.saturating_sub(offset).min(new.len() as u64),
            "because what was there is known"
        );
        self.push(offset, old, new.len(), false);
        self.bytes.extend_from_slice(new);
        self.new_size = self.new_size.max(offset + new.len() as u64);
    }

    /// Requires `bytes` to be at `offset`. Offsets must ascend.
    pub(crate) fn expect(&mut self, offset: u64, bytes: &[u8]) {
        self.push(offset, bytes, bytes.len(), true);
    }

    /// Cuts `file`, the file of this change, to `size` bytes after all writes, which must end
    /// before that.
    pub(crate) fn cut(&mut self, size: u64, file: &dyn File) -> io::Result<()> {
        let written = self.writes.last().map_or(0, RedoWrite::end);
        debug_assert!(written <= size && size <= self.old_size, "because a cut is behind all else");
        self.new_size = size;
        self.cut_len = (self.old_size - size).min(CUT_HASH_LEN_MAX);
        self.cut_hash = self.hash_of_cut(file)?;
        Ok(())
    }

    /// Returns the hash of the bytes to be cut off, as the file is now: of the first ones, which
    /// are overwritten if others append after the cut, and of the last ones.
    pub(super) fn hash_of_cut(&self, file: &dyn File) -> io::Result<u64> {
        let mut bytes = vec![0; self.cut_len as usize];
        let (first, last) = bytes.split_at_mut(self.cut_len as usize / 2);
        file.read_exact_at(first, self.new_size)?;
        file.read_exact_at(last, self.old_size - last.len() as u64)?;
        Ok(xxh3_64(&bytes))
    }

    /// Adapts the change to a file that was cut, and to which others have then appended, so that it
    /// has `size` bytes now.
    pub(super) fn leave_end(&mut self, size: u64) {
        (self.old_size, self.new_size, self.cut_len) = (size, size, 0);
    }

    /// Adapts the change to a file to which others appended before it was cut, so that it has
    /// `size` bytes now: the appended bytes are moved to the new end.
    pub(super) fn move_end(&mut self, size: u64, file: &dyn File) -> io::Result<()> {
        let (from, to) = (self.old_size, self.new_size);
        self.old_size = size;
        let mut new = vec![0; (size - from) as usize];
        file.read_exact_at(&mut new, from)?;
        let mut old = vec![0; new.len()];
        file.read_exact_at(&mut old, to)?;
        self.write(to, &old, &new);
        self.cut(to + new.len() as u64, file)
    }

    fn push(&mut self, offset: u64, old: &[u8], len: usize, is_evidence: bool) {
        debug_assert!(
            self.writes.last().is_none_or(|last| last.end() <= offset),
            "because writes ascend"
        );
        let write = RedoWrite { offset, len: len as u32, is_evidence };
        for piece in write.pieces() {
            let at = (piece.0 - offset) as usize;
            let end = (at + piece.1).min(old.len());
            self.hashes.push(xxh3_64(old.get(at..end).unwrap_or_default()));
        }
        self.writes.push(write);
    }

    fn bytes_written(&self) -> u64 {
        self.bytes.len() as u64
    }
}

impl RedoWrite {
    pub(super) const fn end(&self) -> u64 {
        self.offset + self.len as u64
    }

    /// Returns the pieces of sectors that it covers: offset in the file, and length.
    pub(super) fn pieces(self) -> impl Iterator<Item = (u64, usize)> {
        let mut at = self.offset;
        std::iter::from_fn(move || {
            if at >= self.end() {
                return None;
            }
            let end = ((at / SECTOR_LEN + 1) * SECTOR_LEN).min(self.end());
            let piece = (at, (end - at) as usize);
            at = end;
            Some(piece)
        })
    }

    /// Returns the number of pieces.
    pub(super) fn piece_count(&self) -> usize {
        match self.len {
            0 => 0,
            _ => ((self.end() - 1) / SECTOR_LEN - self.offset / SECTOR_LEN + 1) as usize,
        }
    }
}
