//! What a cache takes.

use crate::error::{Error, Result};
use crate::options::CacheOptions;
use crate::snapshot::Snapshot;

/// What a cache takes, and what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// What it was made with.
    pub options: CacheOptions,
    /// The generation of its store; it stands in the names of the files. 0 for the native store.
    pub generation: u64,
    /// Bytes allocated for the cache file and its store.
    pub bytes: u64,
    /// Bytes of the header records.
    pub raw_bytes: u64,
    /// What they take, before the store adds to it.
    pub stored_bytes: u64,
    /// Records of messages that are gone; they are removed when the log is compacted.
    pub stale_records: u64,
    /// The ids of the dictionaries.
    pub dictionaries: Vec<u8>,
}

impl Snapshot {
    /// What the cache takes. Opens the store, and reads nothing of its records.
    ///
    /// # Errors
    /// What the file system says; what reading the store gives.
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

    /// As [`Snapshot::figures`], without what only the store can tell: the dictionaries, and the
    /// records of a writer that did not come to its end. Does not open the store.
    ///
    /// # Errors
    /// What the file system says.
    fn figures_without_store(&self) -> Result<Figures> {
        let path = &self.base.path;
        let records = &self.base.header.records;
        let mut bytes = self.vfs.metadata(path).map_err(Error::at(path))?.allocated;
        let header = &self.base.header;
        // Those that the columns no longer name, and those that the log takes away.
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
