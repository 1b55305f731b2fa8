//! rocksdb: a log-structured merge tree in a folder.
//!
//! A new store is written without the library's log, and is complete only when closed. An update
//! writes each batch to the log, and closing writes it as a table. The library waits for the disk
//! at every table; that cannot be disabled.

use std::path::PathBuf;
use std::sync::Arc;

use barid_vfs::Vfs;

use crate::ffi::failure::Failure;
use crate::ffi::rocksdb::{Api, Compression, LIBRARY, Mode, Options, Rocksdb as Handle};
use crate::files::sync_folder_of;
use crate::kv::Visit;
use crate::stores::outside;
use crate::{Batch, Capabilities, Error, Kv, KvRead, KvWrite, Library, Purpose, Result, StoreSpec};

const CAPABILITIES: Capabilities = Capabilities {
    ordered: true,
    atomic: true,
    folder: true,
    builtin: &["lz4", "zstd", "zlib", "snappy", "bzip2"],
    ..outside::FILE
};
/// Bytes of a block.
const BLOCK_LEN: usize = 16 << 10;
/// Bytes of a block before compression.
const PACKED_BLOCK_LEN: usize = 32 << 10;
/// Memory for blocks.
const CACHE_LEN: usize = 8 << 20;
/// Memory for records before they are written as a table; there are two such buffers.
const BUFFER_LEN: usize = 16 << 20;
/// Most unmerged tables when an update ends.
const TABLES_MAX: u64 = 32;

/// The kind of store.
#[derive(Debug)]
pub(crate) struct Rocksdb;

#[derive(Debug)]
struct Open {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    handle: Handle,
    durable: bool,
}

impl Kv for Rocksdb {
    fn name(&self) -> &'static str {
        "rocksdb"
    }
    fn capabilities(&self) -> &'static Capabilities {
        &CAPABILITIES
    }
    fn library(&self) -> Option<&'static Library> {
        Some(&LIBRARY)
    }
    /// Returns the version of the file name, the only one that the library reveals.
    fn version(&self) -> Result<String> {
        Api::get().map(|_| "7.8".to_owned())
    }
    fn read(&self, place: &StoreSpec<'_>) -> Result<Box<dyn KvRead>> {
        Ok(Box::new(Open::new(place, None)?))
    }
    fn write(&self, place: &StoreSpec<'_>, purpose: Purpose) -> Result<Box<dyn KvWrite>> {
        Ok(Box::new(Open::new(place, Some(purpose))?))
    }
}

impl Open {
    fn new(place: &StoreSpec<'_>, purpose: Option<Purpose>) -> Result<Self> {
        Api::get()?;
        outside::expect(place, purpose)?;
        let (vfs, path, durable) = (Arc::clone(place.vfs), place.path.to_owned(), place.durable);
        let mode = match purpose {
            None => Mode::Read,
            Some(Purpose::Update) => Mode::Update { sync: durable },
            Some(Purpose::Create) => Mode::Create,
        };
        if mode == Mode::Create {
            // The library would create it accessible to everybody.
            vfs.create_dir(&path, 0o700).map_err(Error::at(&path))?;
        }
        let compression = match place.builtin {
            Some("lz4") => Compression::Lz4,
            Some("zstd") => Compression::Zstd,
            Some("zlib") => Compression::Zlib,
            Some("snappy") => Compression::Snappy,
            Some("bzip2") => Compression::Bzip2,
            _ => Compression::None,
        };
        let plain = compression == Compression::None;
        let options = Options {
            mode,
            compression,
            block_len: if plain { BLOCK_LEN } else { PACKED_BLOCK_LEN },
            cache_len: CACHE_LEN,
            buffer_len: BUFFER_LEN,
        };
        let handle = Handle::open(&outside::c_path(&path)?, options).map_err(Failure::at(&path))?;
        Ok(Self { vfs, path, handle, durable })
    }
}

impl KvRead for Open {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.handle.get(key, visit).map_err(Failure::at(&self.path))
    }
    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        self.handle.scan(prefix, visit).map_err(Failure::at(&self.path))
    }
}

impl KvWrite for Open {
    fn apply(&mut self, batch: &Batch) -> Result<()> {
        outside::check_lens(&self.path, &CAPABILITIES, batch)?;
        self.handle.write(batch).map_err(Failure::at(&self.path))
    }
    fn close(self: Box<Self>) -> Result<()> {
        let Self { vfs, path, mut handle, durable } = *self;
        handle.flush().map_err(Failure::at(&path))?;
        if handle.tables_len() > TABLES_MAX {
            handle.compact();
        }
        drop(handle);
        match durable {
            true => sync_folder_of(&*vfs, &path),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        outside::tests::round_trip(&Rocksdb);
    }
}
