//! QDBM's B+ tree.
//!
//! The library's transactions write pages in place at their end, so that they undo errors of the
//! program but not a kill: they are not used, and no batch is atomic.

use std::io::ErrorKind;

use crate::ffi::failure::{Failure, Outcome};
use crate::ffi::pairs::WritePairs as _;
use crate::ffi::qdbm::{self as ffi, Api, Handle, LIBRARY, Mode, Tuning};
use crate::stores::files::{self, Written};
use crate::stores::outside;
use crate::stores::session::Driver;
use crate::{Batch, Capabilities, Error, Library, Purpose, Result, StoreSpec};

/// See `docs/design/stores-tuning.md`.
const TUNING: Tuning =
    Tuning { leaf_records_max: 1024, node_children_max: 192, leaf_cache: 64, node_cache: 64 };
/// Buckets of the hash table that finds pages.
const BUCKETS: i32 = 1021;
/// The library counts the bytes of a file in an `int`, without a check for overflow.
const FILE_LEN_MAX: u64 = i32::MAX as u64;
/// Pages that wait in memory to be written: 64 leaves of 1,024 records of 4 KB.
const WAITING_LEN: u64 = 256 << 20;

/// The kind of store.
#[derive(Debug)]
pub(crate) struct Qdbm;

impl Driver for Qdbm {
    const NAME: &'static str = "qdbm";
    /// Debian builds it without LZO and bzip2.
    const CAPABILITIES: Capabilities =
        Capabilities { ordered: true, builtin: &["zlib"], ..outside::FILE };
    const LIBRARY: &'static Library = &LIBRARY;
    type Handle = Handle;

    fn version() -> Result<String> {
        Api::get().map(ffi::version)
    }
    fn read(place: &StoreSpec<'_>) -> Result<Handle> {
        let api = Api::get()?;
        check_head(place)?;
        open(api, place, Mode::Read)
    }
    fn write(place: &StoreSpec<'_>, purpose: Purpose) -> Result<(Handle, Written)> {
        let api = Api::get()?;
        let mode = match purpose {
            Purpose::Create => Mode::Create { deflate: place.builtin == Some("zlib") },
            Purpose::Update => {
                check_head(place)?;
                Mode::Update
            }
        };
        let file = Written::new(place, purpose)?;
        if purpose == Purpose::Create {
            let path = outside::c_path(place.path)?;
            ffi::prepare(api, &path, BUCKETS).map_err(Failure::at(place.path))?;
        }
        let mut handle = open(api, place, mode)?;
        if purpose == Purpose::Create {
            handle.pack().map_err(Failure::at(place.path))?;
        }
        Ok((handle, file))
    }
    fn apply(handle: &mut Handle, file: &mut Written, batch: &Batch) -> Outcome<()> {
        let needed = file.size()?.saturating_add(2 * batch.bytes_len() as u64);
        if needed.saturating_add(WAITING_LEN) > FILE_LEN_MAX {
            return Err(Failure::Io(ErrorKind::FileTooLarge.into()));
        }
        handle.apply_each(batch)?;
        if file.atomic() {
            handle.flush()?;
            file.sync()?;
        }
        Ok(())
    }
    fn close(handle: Handle, file: Written) -> Outcome<()> {
        handle.close()?;
        Ok(file.keep()?)
    }
}

fn open(api: &'static Api, place: &StoreSpec<'_>, mode: Mode) -> Result<Handle> {
    let path = outside::c_path(place.path)?;
    Handle::open(api, &path, mode, &TUNING).map_err(Failure::at(place.path))
}

/// Checks the head of the file (depot.c, `dpopen`), which the library does only if it locks.
fn check_head(place: &StoreSpec<'_>) -> Result<()> {
    let (head, _, len) = files::head::<48>(place)?;
    // The library writes numbers in the byte order of the machine.
    let big = cfg!(target_endian = "big");
    let magic = if big { b"[DEPOT]\n\x0c" } else { b"[depot]\n\x0c" };
    let number = if big { i32::from_be_bytes } else { i32::from_le_bytes };
    let number = |at: usize| head[at..].first_chunk().copied().map_or(-1, number);
    let (len_told, buckets, records) = (number(24), number(32), number(40));
    let whole = head.starts_with(magic)
        && u64::try_from(len_told) == Ok(len)
        && records > 0
        && buckets > 0
        && 48 + 4 * i64::from(buckets) <= i64::from(len_told);
    if whole { Ok(()) } else { Err(Error::damaged(place.path, "wrong head")) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use barid_vfs::{OpenOptions, OsVfs, Vfs};

    use super::*;
    use crate::Kv as _;
    use crate::stores::outside::tests;

    #[test]
    fn a_file_ends_before_the_library_cannot_count_its_bytes() {
        if !tests::available(&Qdbm) {
            return;
        }
        let folder = tests::Folder::new();
        let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
        let path = folder.path.join("store");
        let place = StoreSpec { vfs: &vfs, path: &path, builtin: None, durable: false };
        let mut writer = Qdbm.write(&place, Purpose::Create).unwrap();
        let mut batch = Batch::new();
        batch.put(b"a", b"1");
        writer.apply(&batch).unwrap();
        let file = vfs.open(&path, OpenOptions::WRITE).unwrap();
        file.set_len(FILE_LEN_MAX - WAITING_LEN).unwrap();
        let Err(Error::Io { source, .. }) = writer.apply(&batch) else { panic!("applied") };
        assert_eq!(source.kind(), ErrorKind::FileTooLarge);
    }

    #[test]
    fn round_trip() {
        tests::round_trip(&Qdbm);
    }
}
