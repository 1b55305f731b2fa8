//! Columns computed from a cache and stored beside it: sort orders, threads.
//!
//! Each kind is a separate file (`docs/formats/cache.md`, "Derived columns"), tied to one
//! generation of the cache and to the log record after which it was computed: a log that lost its
//! end in a crash and continued differently numbers other messages. It is replaced as a whole by a
//! rename, never fsynced, and may vanish at any moment. The caller defines its content; its blocks
//! are checked when read.

use std::ops::Range;
use std::path::{Path, PathBuf};

use barid_vfs::le::{LeReader, PutLe, u64_at};
use barid_vfs::{File, OpenOptions, Vfs, atomic_replace};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::error::{Damage, Error, Result};
use crate::limits::{DERIVED_KIND_LEN_MAX, DERIVED_LEN_MAX};
use crate::snapshot::{Snapshot, Stored};

const MAGIC: &[u8; 8] = b"BARIDHD\n";
const VERSION: u32 = 2;
const HEAD_LEN: usize = 64;
const CHECKSUM_AT: usize = 56;
const BLOCK_LEN: u64 = 64 * 1024;
const BLOCK_HEAD_LEN: u64 = 8;
/// Bytes of content in a full block.
const PAYLOAD_LEN: u64 = BLOCK_LEN - BLOCK_HEAD_LEN;

/// An open derived column.
#[derive(Debug)]
pub struct Derived {
    pub(crate) file: Box<dyn File>,
    pub(crate) path: PathBuf,
    source: ColumnSource,
    rows_covered: u32,
    len: u64,
    /// The checksum of the header.
    pub(crate) head_checksum: u64,
}

/// The state of the cache from which a column was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ColumnSource {
    generation: u64,
    /// The checksum of the last log record, or of the header page.
    stem: u64,
}

impl Snapshot {
    /// Opens the derived column `kind`.
    ///
    /// Returns `None` if it does not exist, does not belong to this cache or a past state of it, or
    /// is damaged. Costs an open and a read.
    ///
    /// # Errors
    /// Returns an error of the file system.
    pub fn derived(&self, kind: &str) -> Result<Option<Derived>> {
        let derived = Derived::open(&*self.vfs, &self.base.path, kind)?;
        Ok(derived.filter(|derived| {
            derived.source.generation == self.base.header.generation
                && self.stems.iter().any(|stem| *stem == derived.source.stem)
        }))
    }

    /// Opens the derived column `kind` from any state of the cache, for content that can verify
    /// itself. [`Derived::rows_covered`] is then meaningless.
    ///
    /// # Errors
    /// Returns an error of the file system.
    pub fn derived_of_any_state(&self, kind: &str) -> Result<Option<Derived>> {
        Derived::open(&*self.vfs, &self.base.path, kind)
    }

    /// Replaces the derived column `kind` by one that covers all rows. The rename is the commit
    /// point; nothing is fsynced. A snapshot that lives in this process only stores nothing.
    ///
    /// # Errors
    /// Returns an error of the file system; the old column then still exists.
    pub fn store_derived(&self, kind: &str, bytes: &[u8]) -> Result<()> {
        if !matches!(self.stored, Stored::Yes) {
            return Ok(());
        }
        let source = ColumnSource { generation: self.base.header.generation, stem: self.link.stem };
        let path = derived_path(&self.base.path, kind);
        let write = |file: &dyn File| write(file, kind, source, self.physical_len(), bytes);
        atomic_replace(&*self.vfs, &path, 0o600, false, write).map_err(Error::at(&path))?;
        Ok(())
    }

    /// Removes the derived column `kind`, if it exists.
    ///
    /// # Errors
    /// Returns an error of the file system.
    pub fn remove_derived(&self, kind: &str) -> Result<()> {
        let path = derived_path(&self.base.path, kind);
        match self.vfs.remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::at(&path)(error))
            }
            _ => Ok(()),
        }
    }
}

impl Derived {
    fn open(vfs: &dyn Vfs, cache_path: &Path, kind: &str) -> Result<Option<Self>> {
        Self::open_with(vfs, cache_path, kind, OpenOptions::READ)
    }

    pub(crate) fn open_with(
        vfs: &dyn Vfs,
        cache_path: &Path,
        kind: &str,
        options: OpenOptions,
    ) -> Result<Option<Self>> {
        let path = derived_path(cache_path, kind);
        let file = match vfs.open(&path, options) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            result => result.map_err(Error::at(&path))?,
        };
        let mut head = [0; HEAD_LEN];
        let len = file.read_full_at(&mut head, 0).map_err(Error::at(&path))?;
        if len < HEAD_LEN || xxh3_64(&head[..CHECKSUM_AT]) != u64_at(&head, CHECKSUM_AT) {
            return Ok(None);
        }
        Ok(parse_head(&head, kind).map(|(source, rows_covered, len)| Self {
            file,
            path,
            source,
            rows_covered,
            len,
            head_checksum: u64_at(&head, CHECKSUM_AT),
        }))
    }

    /// Returns the offset in the file at which the content ends.
    pub(crate) fn content_end(&self) -> u64 {
        HEAD_LEN as u64 + self.len + self.len.div_ceil(PAYLOAD_LEN) * BLOCK_HEAD_LEN
    }

    /// Returns the number of physical rows that it covers; later rows were added afterwards.
    pub fn rows_covered(&self) -> u32 {
        self.rows_covered
    }

    /// Returns the length of the content in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns `true` if the content is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads a range of the content, limited to its length; reads only the blocks of that range.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if a block differs from what was written.
    pub fn read(&self, range: Range<u64>) -> Result<Vec<u8>> {
        let (start, end) = (range.start.min(self.len), range.end.min(self.len));
        let mut bytes = Vec::with_capacity(end.saturating_sub(start) as usize);
        let mut block = Vec::new();
        let mut at = start;
        while at < end {
            let index = at / PAYLOAD_LEN;
            self.read_block(index, &mut block)?;
            let from = (at - index * PAYLOAD_LEN + BLOCK_HEAD_LEN) as usize;
            let to = (end - index * PAYLOAD_LEN + BLOCK_HEAD_LEN).min(block.len() as u64);
            bytes.extend_from_slice(&block[from..to as usize]);
            at = (index + 1) * PAYLOAD_LEN;
        }
        Ok(bytes)
    }

    fn read_block(&self, index: u64, block: &mut Vec<u8>) -> Result<()> {
        let payload = (self.len - index * PAYLOAD_LEN).min(PAYLOAD_LEN);
        let start = HEAD_LEN as u64 + index * BLOCK_LEN;
        block.resize((BLOCK_HEAD_LEN + payload) as usize, 0);
        self.file.read_exact_at(block, start).map_err(Error::at(&self.path))?;
        match checksum(block, self.source.generation, index) == u64_at(block, 0) {
            true => Ok(()),
            false => Err(Error::damaged(&self.path, start, Damage::Checksum)),
        }
    }
}

/// Returns the file of a column. A hash replaces a kind with characters other than letters, digits
/// and dashes, or with more than [`DERIVED_KIND_LEN_MAX`] bytes.
pub(crate) fn derived_path(cache_path: &Path, kind: &str) -> PathBuf {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    let mut path = cache_path.as_os_str().to_owned();
    path.push(".");
    let is_plain = kind.as_bytes().iter().all(plain) && !kind.is_empty();
    if is_plain && kind.len() <= DERIVED_KIND_LEN_MAX && kind != "lock" {
        path.push(kind);
    } else {
        path.push(format!("kind-{:016x}", xxh3_64(kind.as_bytes())));
    }
    PathBuf::from(path)
}

fn parse_head(head: &[u8], kind: &str) -> Option<(ColumnSource, u32, u64)> {
    let mut reader = LeReader(head);
    let known = reader.take(8)? == MAGIC && reader.u32()? == VERSION;
    reader.u32()?;
    let generation = reader.u64()?;
    let rows_covered = reader.u32()?;
    reader.u32()?;
    let len = reader.u64()?;
    let same_kind = reader.u64()? == xxh3_64(kind.as_bytes());
    let source = ColumnSource { generation, stem: reader.u64()? };
    (known && same_kind && len <= DERIVED_LEN_MAX).then_some((source, rows_covered, len))
}

fn checksum(block: &[u8], generation: u64, index: u64) -> u64 {
    xxh3_64_with_seed(&block[BLOCK_HEAD_LEN as usize..], generation.wrapping_add(index))
}

fn write(
    file: &dyn File,
    kind: &str,
    source: ColumnSource,
    rows_covered: u32,
    bytes: &[u8],
) -> std::io::Result<()> {
    let mut out = Vec::with_capacity(HEAD_LEN + bytes.len().min(BLOCK_LEN as usize) + 8);
    out.extend_from_slice(MAGIC);
    out.put_u32(VERSION);
    out.put_u32(0);
    out.put_u64(source.generation);
    out.put_u32(rows_covered);
    out.put_u32(0);
    out.put_u64(bytes.len() as u64);
    out.put_u64(xxh3_64(kind.as_bytes()));
    out.put_u64(source.stem);
    let head_checksum = xxh3_64(&out);
    out.put_u64(head_checksum);
    let mut written = 0;
    for (index, payload) in bytes.chunks(PAYLOAD_LEN as usize).enumerate() {
        let start = out.len();
        out.put_u64(0);
        out.extend_from_slice(payload);
        let checksum = checksum(&out[start..], source.generation, index as u64);
        out[start..start + 8].copy_from_slice(&checksum.to_le_bytes());
        file.write_all_at(&out, written)?;
        written += out.len() as u64;
        out.clear();
    }
    file.write_all_at(&out, written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_file_name() {
        let name = |kind| derived_path(Path::new("/c/x.bhc"), kind);
        assert_eq!(name("sort-date"), Path::new("/c/x.bhc.sort-date"));
        for odd in ["lock", "", "a/b", "a.tmp", &"sort-".repeat(100)] {
            assert!(name(odd).to_string_lossy().starts_with("/c/x.bhc.kind-"), "{odd}");
        }
    }
}
