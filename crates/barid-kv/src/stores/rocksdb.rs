//! rocksdb: a log-structured merge tree in a folder.
//!
//! A new store is written without the library's log, and is complete only when closed. An update
//! writes each batch to the log, and closing writes it as a table. The library waits for the disk
//! at every table; that cannot be disabled.

use crate::ffi::failure::{Failure, Outcome};
use crate::ffi::rocksdb::{Api, Compression, LIBRARY, Mode, Options, Rocksdb as Handle};
use crate::files::sync_folder_of;
use crate::stores::files::Written;
use crate::stores::outside;
use crate::stores::session::Driver;
use crate::{Batch, Capabilities, Error, Library, Purpose, Result, StoreSpec};

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

impl Driver for Rocksdb {
    const NAME: &'static str = "rocksdb";
    const CAPABILITIES: Capabilities = Capabilities {
        ordered: true,
        atomic: true,
        folder: true,
        builtin: &["lz4", "zstd", "zlib", "snappy", "bzip2"],
        ..outside::FILE
    };
    const LIBRARY: &'static Library = &LIBRARY;
    type Handle = Handle;

    /// Returns the version of the file name, the only one that the library reveals.
    fn version() -> Result<String> {
        Api::get().map(|_| "7.8".to_owned())
    }
    fn read(place: &StoreSpec<'_>) -> Result<Handle> {
        Api::get()?;
        outside::expect(place, None)?;
        open(place, Mode::Read)
    }
    fn write(place: &StoreSpec<'_>, purpose: Purpose) -> Result<(Handle, Written)> {
        Api::get()?;
        let file = Written::of_library(place, purpose)?;
        let mode = match purpose {
            Purpose::Update => Mode::Update { sync: place.durable },
            Purpose::Create => {
                // The library would create it accessible to everybody.
                place.vfs.create_dir(place.path, 0o700).map_err(Error::at(place.path))?;
                Mode::Create
            }
        };
        Ok((open(place, mode)?, file))
    }
    fn apply(handle: &mut Handle, _: &mut Written, batch: &Batch) -> Outcome<()> {
        handle.write(batch)
    }
    fn close(mut handle: Handle, file: Written) -> Outcome<()> {
        handle.flush()?;
        if handle.tables_len() > TABLES_MAX {
            handle.compact();
        }
        drop(handle);
        match file.durable() {
            true => Ok(sync_folder_of(file.vfs(), file.path())?),
            false => Ok(()),
        }
    }
}

fn open(place: &StoreSpec<'_>, mode: Mode) -> Result<Handle> {
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
    Handle::open(&outside::c_path(place.path)?, options).map_err(Failure::at(place.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        outside::tests::round_trip(&Rocksdb);
    }
}
