//! bdb: the B+ tree of Berkeley DB.
//!
//! Without an environment and its log, pages are written in place when the cache is full, and at
//! the end: a file whose writer was killed is damaged.

use crate::ffi::bdb::{self, Bdb as Handle, LIBRARY, Options};
use crate::ffi::failure::{Failure, Outcome};
use crate::ffi::pairs::WritePairs as _;
use crate::stores::files::Written;
use crate::stores::outside;
use crate::stores::session::Driver;
use crate::{Batch, Capabilities, Library, Purpose, Result, StoreSpec};

/// Length of a page; longer records than a quarter of it take pages of their own.
const PAGE_LEN: u32 = 32_768;
/// Memory for pages.
const CACHE_LEN: u32 = 4 << 20;

/// The kind of store.
#[derive(Debug)]
pub(crate) struct Bdb;

impl Driver for Bdb {
    const NAME: &'static str = "bdb";
    const CAPABILITIES: Capabilities = Capabilities { ordered: true, ..outside::FILE };
    const LIBRARY: &'static Library = &LIBRARY;
    const UNFINISHED_PREFIX: Option<&'static str> = Some("__db.");
    type Handle = Handle;

    fn version() -> Result<String> {
        bdb::version()
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
        if file.durable() && file.atomic() {
            handle.flush()?;
            file.sync_with_name()?;
        }
        Ok(())
    }
    fn close(handle: Handle, file: Written) -> Outcome<()> {
        handle.close()?;
        Ok(file.sync_with_name()?)
    }
}

fn open(place: &StoreSpec<'_>, purpose: Option<Purpose>) -> Result<Handle> {
    let create = (purpose == Some(Purpose::Create)).then_some(PAGE_LEN);
    let options = Options { write: purpose.is_some(), create, cache_len: CACHE_LEN };
    Handle::open(&outside::c_path(place.path)?, options).map_err(Failure::at(place.path))
}

#[cfg(test)]
mod tests {
    use barid_vfs::OpenOptions;

    use super::*;
    use crate::Choice;

    #[test]
    fn round_trip() {
        outside::tests::round_trip(&Bdb);
    }

    /// The library itself refuses to create the store then.
    #[test]
    fn what_a_killed_process_left_of_a_creation_is_removed() {
        if !outside::tests::available(&Bdb) {
            return;
        }
        let folder = outside::tests::Folder::new();
        let store = folder.store("store", Choice { kv: &Bdb, builtin: None });
        let [unfinished, of_copy] =
            ["__db.store", "__db.store.copy"].map(|name| store.path().with_file_name(name));
        let leave = |path| folder.vfs.open(path, OpenOptions::create(0o600)).map(drop).unwrap();
        leave(&unfinished);
        store.create().unwrap().close().unwrap();
        store.read().unwrap();
        leave(&of_copy);
        let mut batch = Batch::new();
        batch.put(b"a", b"b");
        let mut writer = store.write().unwrap();
        writer.apply(&batch).unwrap();
        writer.close().unwrap();
        leave(&unfinished);
        store.remove().unwrap();
        for path in [&unfinished, &of_copy] {
            assert!(folder.vfs.symlink_metadata(path).is_err(), "{}", path.display());
        }
    }
}
