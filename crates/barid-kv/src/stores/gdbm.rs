//! gdbm: the hash database of GNU.
//!
//! Every change is written at once, in place and piece by piece: a file whose writer was killed is
//! damaged.

use crate::ffi::failure::{Failure, Outcome};
use crate::ffi::gdbm::{self, Gdbm as Handle, LIBRARY, Options};
use crate::ffi::pairs::WritePairs as _;
use crate::stores::files::Written;
use crate::stores::outside;
use crate::stores::session::Driver;
use crate::{Batch, Capabilities, Library, Purpose, Result, StoreSpec};

/// Length of a block. A bucket of keys is one block, and is written whole with every record; unused
/// space at the end of the blocks of records is lost.
const BLOCK_LEN: u16 = 8_192;
/// Buckets in memory, at most; eight megabytes.
const CACHE_LEN: i32 = 1_024;

/// The kind of store.
#[derive(Debug)]
pub(crate) struct Gdbm;

impl Driver for Gdbm {
    const NAME: &'static str = "gdbm";
    const CAPABILITIES: Capabilities = outside::FILE;
    const LIBRARY: &'static Library = &LIBRARY;
    type Handle = Handle;

    fn version() -> Result<String> {
        gdbm::version()
    }
    fn read(place: &StoreSpec<'_>) -> Result<Handle> {
        outside::expect(place, None)?;
        open(place, None)
    }
    fn write(place: &StoreSpec<'_>, purpose: Purpose) -> Result<(Handle, Written)> {
        let file = Written::of_library(place, purpose)?;
        Ok((open(place, Some(purpose))?, file))
    }
    fn apply(handle: &mut Handle, file: &mut Written, batch: &Batch) -> Outcome<()> {
        handle.apply_each(batch)?;
        if file.atomic() { Ok(file.sync_with_name()?) } else { Ok(()) }
    }
    fn close(handle: Handle, file: Written) -> Outcome<()> {
        drop(handle);
        Ok(file.sync_with_name()?)
    }
}

fn open(place: &StoreSpec<'_>, purpose: Option<Purpose>) -> Result<Handle> {
    let create = (purpose == Some(Purpose::Create)).then_some(BLOCK_LEN);
    // A mapping would be recreated whenever the file grows.
    let (write, map) = (purpose.is_some(), purpose.is_none());
    let options = Options { write, create, cache_len: CACHE_LEN, map };
    Handle::open(&outside::c_path(place.path)?, options).map_err(Failure::at(place.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        outside::tests::round_trip(&Gdbm);
    }
}
