//! The keys and values in a store of records (`docs/formats/cache.md`, "Stores").

use std::path::{Path, PathBuf};

use barid_kv::compress::RatioWatch;
use barid_vfs::le::{LeReader, PutLe};

use crate::header::RecordsHead;
use crate::options::CacheOptions;

/// The key of the store's description.
pub(crate) const ABOUT: &[u8] = b"m";
/// The layout of a store.
const VERSION: u32 = 1;
/// The highest id of a dictionary.
pub(crate) const DICTIONARY_MAX: u8 = u8::MAX;

/// Returns the key of a record.
pub(crate) fn record_key(number: u32) -> [u8; 5] {
    let [a, b, c, d] = number.to_be_bytes();
    [b'r', a, b, c, d]
}

/// Returns the number in the key of a record.
pub(crate) fn number_in(key: &[u8]) -> Option<u32> {
    let (b'r', number) = key.split_first()? else { return None };
    number.try_into().ok().map(u32::from_be_bytes)
}

/// Returns the key of a dictionary.
pub(crate) fn dictionary_key(id: u8) -> [u8; 2] {
    [b'd', id]
}

/// Returns the seed of a record's checksum: a record with another number, generation or salt fails
/// the check.
pub(crate) fn seed(generation: u64, number: u32, salt: u32) -> u64 {
    (generation ^ (u64::from(salt) << 32 | u64::from(number))).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns the path of a store.
pub(crate) fn store_path(cache: &Path, generation: u64, options: &CacheOptions) -> PathBuf {
    let mut path = cache.as_os_str().to_owned();
    path.push(format!(".{generation:016x}.{}", options.store.name()));
    PathBuf::from(path)
}

/// The description that a store contains of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) generation: u64,
    /// The lowest unassigned record number. It may be higher than that of the cache file: an
    /// interrupted writer put the records between them.
    pub(crate) next: u32,
    /// The highest id of a dictionary; ids start at 1.
    pub(crate) dictionary: u8,
    /// The records that were compressed right after the last training.
    pub(crate) at_training: RatioWatch,
    /// The records compressed since then.
    pub(crate) since: RatioWatch,
}

impl About {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(80);
        out.put_u32(VERSION);
        out.put_u64(self.generation);
        out.put_u32(self.next);
        out.put_u8(self.dictionary);
        for watch in [self.at_training, self.since] {
            out.put_u64(watch.records);
            out.put_u64(watch.raw);
            out.put_u64(watch.stored);
        }
        let checksum = xxhash_rust::xxh3::xxh3_64(&out);
        out.put_u64(checksum);
        out
    }

    /// Returns `true` if the store belongs to the cache file with the header `head`, and is not an
    /// older state of it, which a power failure may bring back.
    pub(crate) fn belongs_to(&self, head: &RecordsHead) -> bool {
        self.generation == head.generation && self.next >= head.next
    }

    /// Decodes a description; `None` if it has another version or differs from what was written.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, checksum) = bytes.split_at_checked(bytes.len().checked_sub(8)?)?;
        (LeReader(checksum).u64()? == xxhash_rust::xxh3::xxh3_64(body)).then_some(())?;
        let mut reader = LeReader(body);
        (reader.u32()? == VERSION).then_some(())?;
        let (generation, next, dictionary) = (reader.u64()?, reader.u32()?, reader.u8()?);
        let mut watch = || {
            Some(RatioWatch { records: reader.u64()?, raw: reader.u64()?, stored: reader.u64()? })
        };
        let (at_training, since) = (watch()?, watch()?);
        reader.0.is_empty().then_some(Self { generation, next, dictionary, at_training, since })
    }
}

/// Returns the stored form of a dictionary: with a checksum, since many records depend on it.
pub(crate) fn dictionary_value(generation: u64, id: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 8);
    out.put_u64(dictionary_checksum(generation, id, bytes));
    out.extend_from_slice(bytes);
    out
}

/// Returns the bytes of a dictionary; `None` if they differ from what was written.
pub(crate) fn dictionary_in(generation: u64, id: u8, value: &[u8]) -> Option<&[u8]> {
    let mut reader = LeReader(value);
    let checksum = reader.u64()?;
    (checksum == dictionary_checksum(generation, id, reader.0)).then_some(reader.0)
}

fn dictionary_checksum(generation: u64, id: u8, bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(bytes, generation.wrapping_add(u64::from(id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        let watch = RatioWatch { records: 1, raw: 2, stored: 3 };
        let about =
            About { generation: 4, next: 5, dictionary: 6, at_training: watch, since: watch };
        let bytes = about.encode();
        assert_eq!(About::decode(&bytes), Some(about));
        for len in 0..bytes.len() {
            assert_eq!(About::decode(&bytes[..len]), None);
        }
        assert_eq!(number_in(&record_key(0x0102_0304)), Some(0x0102_0304));
        assert_eq!((number_in(b"r123"), number_in(b"m"), number_in(b"")), (None, None, None));
        let value = dictionary_value(7, 1, b"words");
        assert_eq!(dictionary_in(7, 1, &value), Some(&b"words"[..]));
        assert_eq!((dictionary_in(7, 2, &value), dictionary_in(8, 1, &value)), (None, None));
    }
}
