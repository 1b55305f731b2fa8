//! Columns computed from a cache and kept beside it: sort orders, threads.
//!
//! Each kind is a file of its own (`docs/formats/cache.md`, "Derived columns"), tied to one
//! generation of the cache. It is replaced as a whole by a rename, never fsynced, and may vanish at
//! any moment. What lies in it is the caller's; the blocks it lies in are checked when read.

use std::ops::Range;
use std::path::{Path, PathBuf};

use barid_vfs::{File, OpenOptions, Vfs, atomic_replace};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::codec::{Put, Reader, u64_at};
use crate::error::{Damage, Error, Result};
use crate::limits::{DERIVED_KIND_LEN_MAX, DERIVED_LEN_MAX};

const MAGIC: &[u8; 8] = b"BARIDHD\n";
const VERSION: u32 = 1;
const HEAD_LEN: usize = 64;
const CHECKSUM_AT: usize = 56;
const BLOCK_LEN: u64 = 64 * 1024;
const BLOCK_HEAD_LEN: u64 = 8;
/// Bytes of the caller's in a full block.
const PAYLOAD_LEN: u64 = BLOCK_LEN - BLOCK_HEAD_LEN;

/// What was read of a derived column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DerivedData {
    /// Physical rows from this one on came later.
    pub rows_covered: u32,
    /// The caller's bytes.
    pub bytes: Vec<u8>,
}

/// An open derived column.
#[derive(Debug)]
pub struct Derived {
    file: Box<dyn File>,
    path: PathBuf,
    generation: u64,
    rows_covered: u32,
    len: u64,
}

impl Derived {
    /// Opens the column `kind` of the cache at `cache_path`.
    ///
    /// `None` if there is none, if it is of another generation, or if it is damaged. Costs an open
    /// and a read.
    pub fn open(
        vfs: &dyn Vfs,
        cache_path: &Path,
        kind: &str,
        generation: u64,
    ) -> Result<Option<Self>> {
        let path = derived_path(cache_path, kind);
        let file = match vfs.open(&path, OpenOptions::READ) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            result => result.map_err(Error::at(&path))?,
        };
        let mut head = [0; HEAD_LEN];
        let len = file.read_full_at(&mut head, 0).map_err(Error::at(&path))?;
        if len < HEAD_LEN || xxh3_64(&head[..CHECKSUM_AT]) != u64_at(&head, CHECKSUM_AT) {
            return Ok(None);
        }
        Ok(parse_head(&head, kind, generation).map(|(rows_covered, len)| Self {
            file,
            path,
            generation,
            rows_covered,
            len,
        }))
    }

    /// Physical rows from this one on came later.
    pub fn rows_covered(&self) -> u32 {
        self.rows_covered
    }

    /// The caller's bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads a range of the caller's bytes, cut to what there is; only the blocks it lies in.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a block is not what was written.
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
        match checksum(block, self.generation, index) == u64_at(block, 0) {
            true => Ok(()),
            false => Err(Error::damaged(&self.path, start, Damage::Checksum)),
        }
    }

    /// Reads a whole column; `None` where [`Derived::open`] says so or a block is damaged.
    pub fn load(
        vfs: &dyn Vfs,
        cache_path: &Path,
        kind: &str,
        generation: u64,
    ) -> Result<Option<DerivedData>> {
        Self::load_tail(vfs, cache_path, kind, generation, u64::MAX)
    }

    /// Reads the last `len` bytes of a column, as [`Derived::load`].
    pub fn load_tail(
        vfs: &dyn Vfs,
        cache_path: &Path,
        kind: &str,
        generation: u64,
        len: u64,
    ) -> Result<Option<DerivedData>> {
        let Some(derived) = Self::open(vfs, cache_path, kind, generation)? else { return Ok(None) };
        let start = derived.len.saturating_sub(len);
        match derived.read(start..derived.len) {
            Ok(bytes) => Ok(Some(DerivedData { rows_covered: derived.rows_covered, bytes })),
            Err(error) if error.is_damage() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the column `kind`; the rename is the commit point, nothing is fsynced.
    ///
    /// # Errors
    /// What the file system says; the old column is then still there.
    pub fn store(
        vfs: &dyn Vfs,
        cache_path: &Path,
        kind: &str,
        generation: u64,
        data: &DerivedData,
    ) -> Result<()> {
        let path = derived_path(cache_path, kind);
        let write = |file: &dyn File| write(file, kind, generation, data);
        atomic_replace(vfs, &path, 0o600, false, write).map_err(Error::at(&path))?;
        Ok(())
    }

    /// Removes the column `kind`, if there is one.
    pub fn remove(vfs: &dyn Vfs, cache_path: &Path, kind: &str) -> Result<()> {
        let path = derived_path(cache_path, kind);
        match vfs.remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::at(&path)(error))
            }
            _ => Ok(()),
        }
    }
}

/// The file of a column. What a kind has beyond letters, digits and dashes, or beyond
/// [`DERIVED_KIND_LEN_MAX`] bytes, is told apart by a hash.
pub(crate) fn derived_path(cache_path: &Path, kind: &str) -> PathBuf {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    let mut path = cache_path.as_os_str().to_owned();
    path.push(".");
    let is_plain = kind.as_bytes().iter().all(|byte| plain(byte)) && !kind.is_empty();
    if is_plain && kind.len() <= DERIVED_KIND_LEN_MAX && kind != "lock" {
        path.push(kind);
    } else {
        path.push(format!("kind-{:016x}", xxh3_64(kind.as_bytes())));
    }
    PathBuf::from(path)
}

fn parse_head(head: &[u8], kind: &str, generation: u64) -> Option<(u32, u64)> {
    let mut reader = Reader(head);
    let known = reader.take(8)? == MAGIC && reader.u32()? == VERSION;
    reader.u32()?;
    let current = reader.u64()? == generation;
    let rows_covered = reader.u32()?;
    reader.u32()?;
    let len = reader.u64()?;
    let same_kind = reader.u64()? == xxh3_64(kind.as_bytes());
    (known && current && same_kind && len <= DERIVED_LEN_MAX).then_some((rows_covered, len))
}

fn checksum(block: &[u8], generation: u64, index: u64) -> u64 {
    xxh3_64_with_seed(&block[BLOCK_HEAD_LEN as usize..], generation.wrapping_add(index))
}

fn write(file: &dyn File, kind: &str, generation: u64, data: &DerivedData) -> std::io::Result<()> {
    let mut out = Vec::with_capacity(HEAD_LEN + data.bytes.len().min(BLOCK_LEN as usize) + 8);
    out.extend_from_slice(MAGIC);
    out.put_u32(VERSION);
    out.put_u32(0);
    out.put_u64(generation);
    out.put_u32(data.rows_covered);
    out.put_u32(0);
    out.put_u64(data.bytes.len() as u64);
    out.put_u64(xxh3_64(kind.as_bytes()));
    out.put_u64(0);
    let head_checksum = xxh3_64(&out);
    out.put_u64(head_checksum);
    let mut written = 0;
    for (index, payload) in data.bytes.chunks(PAYLOAD_LEN as usize).enumerate() {
        let start = out.len();
        out.put_u64(0);
        out.extend_from_slice(payload);
        let checksum = checksum(&out[start..], generation, index as u64);
        out[start..start + 8].copy_from_slice(&checksum.to_le_bytes());
        file.write_all_at(&out, written)?;
        written += out.len() as u64;
        out.clear();
    }
    file.write_all_at(&out, written)
}

#[cfg(test)]
mod tests {
    use barid_vfs::MemVfs;

    use super::*;

    fn check(len: usize) {
        let vfs = MemVfs::new();
        vfs.create_dir(Path::new("/c"), 0o700).unwrap();
        let cache = Path::new("/c/x.bhc");
        let bytes: Vec<u8> = (0..len).map(|n| (n * 7 % 251) as u8).collect();
        let data = DerivedData { rows_covered: 9, bytes: bytes.clone() };
        Derived::store(&vfs, cache, "sort-date", 5, &data).unwrap();
        assert_eq!(Derived::load(&vfs, cache, "sort-date", 5).unwrap(), Some(data));
        assert_eq!(Derived::load(&vfs, cache, "sort-date", 6).unwrap(), None);
        assert_eq!(Derived::load(&vfs, cache, "sort-size", 5).unwrap(), None);
        let tail = Derived::load_tail(&vfs, cache, "sort-date", 5, 200).unwrap().unwrap();
        assert_eq!(tail.bytes, bytes[len.saturating_sub(200)..]);
        let derived = Derived::open(&vfs, cache, "sort-date", 5).unwrap().unwrap();
        for (start, end) in [(0, 10), (65_520, 65_540), (len as u64 / 2, len as u64), (70, 70)] {
            let (from, to) = (len.min(start as usize), len.min(end as usize));
            assert_eq!(derived.read(start..end).unwrap(), bytes[from..to]);
        }
    }

    #[test]
    fn bytes_come_back() {
        [0, 1, 65_527, 65_528, 65_529, 200_000].into_iter().for_each(check);
    }

    #[test]
    fn damage_is_as_if_it_were_absent() {
        let vfs = MemVfs::new();
        vfs.create_dir(Path::new("/c"), 0o700).unwrap();
        let cache = Path::new("/c/x.bhc");
        let data = DerivedData { rows_covered: 9, bytes: vec![7; 100_000] };
        Derived::store(&vfs, cache, "threads", 5, &data).unwrap();
        let path = derived_path(cache, "threads");
        let whole = vfs.read(&path, u64::MAX).unwrap();
        for at in (0..whole.len()).step_by(977) {
            let file = vfs.open(&path, OpenOptions::WRITE).unwrap();
            file.write_all_at(&[whole[at] ^ 1], at as u64).unwrap();
            assert_eq!(Derived::load(&vfs, cache, "threads", 5).unwrap(), None, "byte {at}");
            file.write_all_at(&[whole[at]], at as u64).unwrap();
        }
        for len in (0..whole.len() as u64).step_by(977) {
            let file = vfs.open(&path, OpenOptions::WRITE).unwrap();
            file.set_len(len).unwrap();
            assert_eq!(Derived::load(&vfs, cache, "threads", 5).unwrap(), None, "cut at {len}");
            file.write_all_at(&whole, 0).unwrap();
        }
        assert_eq!(Derived::load(&vfs, cache, "threads", 5).unwrap(), Some(data));
    }

    #[test]
    fn every_kind_has_a_file_name() {
        let name = |kind| derived_path(Path::new("/c/x.bhc"), kind);
        assert_eq!(name("sort-date"), Path::new("/c/x.bhc.sort-date"));
        for odd in ["lock", "", "a/b", "a.tmp", &"sort-".repeat(100)] {
            assert!(name(odd).to_string_lossy().starts_with("/c/x.bhc.kind-"), "{odd}");
        }
    }
}
