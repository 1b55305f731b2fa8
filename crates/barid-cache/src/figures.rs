//! Sizes and counts of a cache.

use crate::error::{Error, Result};
use crate::options::CacheOptions;
use crate::snapshot::Snapshot;

/// Sizes and counts of a cache and its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// The options it was created with.
    pub options: CacheOptions,
    /// The generation of its store, which is part of the file names. 0 for the native store.
    pub generation: u64,
    /// Bytes allocated for the cache file and its store.
    pub bytes: u64,
    /// Bytes of the header records.
    pub raw_bytes: u64,
    /// Their stored size in bytes, without overhead of the store.
    pub stored_bytes: u64,
    /// Number of records of messages that are gone; compaction of the log removes them.
    pub stale_records: u64,
    /// The ids of the dictionaries.
    pub dictionaries: Vec<u8>,
}

impl Snapshot {
    /// Returns the sizes and counts of the cache. Opens the store, but reads none of its records.
    ///
    /// # Errors
    /// Returns errors of the file system and of reading the store.
    pub fn figures(&self) -> Result<Figures> {
        let mut figures = self.figures_without_store()?;
        if let Some(kv) = &self.base.kv {
            let promised = kv.promised()?;
            let left_behind = promised.next.saturating_sub(self.base.header.records.next);
            figures.stale_records += u64::from(left_behind);
            figures.dictionaries = promised.dictionaries;
        }
        Ok(figures)
    }

    /// Returns the sizes and counts as [`Snapshot::figures`] does, without those that only the
    /// store has: the dictionaries, and the records of an interrupted writer. Does not open the
    /// store.
    ///
    /// # Errors
    /// Returns an error of the file system.
    fn figures_without_store(&self) -> Result<Figures> {
        let path = &self.base.path;
        let records = &self.base.header.records;
        let mut bytes = self.vfs.metadata(path).map_err(Error::at(path))?.allocated;
        let header = &self.base.header;
        // Records that the columns no longer name, and those that the log removes.
        let dropped = header.built_messages.saturating_sub(header.messages);
        let gone = self.expunged_rows().partition_point(|row| *row < self.base_len());
        let stale_records = u64::from(dropped) + gone as u64;
        if let Some(kv) = &self.base.kv {
            bytes += kv.store.space()?.allocated;
        }
        Ok(Figures {
            options: self.options(),
            generation: records.generation,
            bytes,
            raw_bytes: records.raw_bytes,
            stored_bytes: records.stored_bytes,
            stale_records,
            dictionaries: Vec::new(),
        })
    }
}
