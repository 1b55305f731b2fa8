//! Additions to a derived column: bytes appended to its file, so that a few new values do not
//! rewrite all of it.
//!
//! They follow its blocks (`docs/formats/cache.md`, "Derived columns"). The checksum of each one
//! depends on the file and the offset. An addition that was written in part, or overwritten, does
//! not match its checksum and ends the additions; the caller recomputes the missing values.

use barid_vfs::OpenOptions;
use barid_vfs::le::{LeReader, PutLe};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::derived::Derived;
use crate::error::{Error, Result};
use crate::limits::ADDITIONS_LEN_MAX;
use crate::snapshot::{Snapshot, Stored};

/// Bytes before an addition: length u64, checksum u64.
const ADDITION_HEAD_LEN: usize = 16;

/// Lengths of a derived column with additions, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnLens {
    /// The content, without the additions.
    pub content: u64,
    /// All additions.
    pub additions: u64,
}

impl Derived {
    /// Returns the additions, oldest first.
    ///
    /// # Errors
    /// Returns an error of the file system.
    pub fn additions(&self) -> Result<Vec<Vec<u8>>> {
        let mut additions = Vec::new();
        self.scan_additions(&mut |addition| additions.push(addition.to_vec()))?;
        Ok(additions)
    }

    /// Visits the additions, oldest first; returns their end in the file.
    fn scan_additions(&self, visit: &mut dyn FnMut(&[u8])) -> Result<u64> {
        let start = self.content_end();
        let file_len = self.file.metadata().map_err(Error::at(&self.path))?.size;
        let mut bytes = vec![0; file_len.saturating_sub(start).min(ADDITIONS_LEN_MAX) as usize];
        let read = self.file.read_full_at(&mut bytes, start).map_err(Error::at(&self.path))?;
        bytes.truncate(read);
        let mut at = 0;
        while let Some(addition) = self.addition_at(&bytes[at..], start + at as u64) {
            at += ADDITION_HEAD_LEN + addition.len();
            visit(addition);
        }
        Ok(start + at as u64)
    }

    /// Returns the addition at the start of `bytes`, which were read at `offset` of the file.
    fn addition_at<'b>(&self, bytes: &'b [u8], offset: u64) -> Option<&'b [u8]> {
        let mut take = LeReader(bytes);
        let (len, checksum) = (take.u64()?, take.u64()?);
        let addition = take.take(usize::try_from(len).ok()?)?;
        (self.checksum_of_addition(addition, offset) == checksum).then_some(addition)
    }

    fn checksum_of_addition(&self, addition: &[u8], offset: u64) -> u64 {
        xxh3_64_with_seed(addition, self.head_checksum.wrapping_add(offset))
    }
}

impl Snapshot {
    /// Appends bytes to the derived column `kind`, whatever the state of the cache from which it
    /// was computed. Nothing is fsynced. Returns `None` and writes nothing if the column does not
    /// exist or is damaged, if its additions would be too long, or if the snapshot exists in this
    /// process only.
    ///
    /// Costs an open and a read of the earlier additions.
    ///
    /// # Errors
    /// Returns an error of the file system; the earlier additions still exist.
    pub fn append_derived(&self, kind: &str, bytes: &[u8]) -> Result<Option<ColumnLens>> {
        if !matches!(self.stored, Stored::Yes) {
            return Ok(None);
        }
        let column = Derived::open_with(&*self.vfs, &self.base.path, kind, OpenOptions::WRITE)?;
        let Some(column) = column else { return Ok(None) };
        let end = column.scan_additions(&mut |_| {})?;
        let additions = end - column.content_end() + (ADDITION_HEAD_LEN + bytes.len()) as u64;
        if additions > ADDITIONS_LEN_MAX {
            return Ok(None);
        }
        let mut out = Vec::with_capacity(ADDITION_HEAD_LEN + bytes.len());
        out.put_u64(bytes.len() as u64);
        out.put_u64(column.checksum_of_addition(bytes, end));
        out.extend_from_slice(bytes);
        column.file.write_all_at(&out, end).map_err(Error::at(&column.path))?;
        Ok(Some(ColumnLens { content: column.len(), additions }))
    }
}
