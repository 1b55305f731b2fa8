//! Kyoto Cabinet's B+ tree in a file.
//!
//! A transaction stores what it overwrites in `<path>.wal`; if the process was killed, the next
//! opening restores it.

use std::ffi::CString;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::OFlags;

use crate::ffi::failure::{Failure, Outcome};
use crate::ffi::kyotocabinet::{self as ffi, Api, Handle, LIBRARY, Mode};
use crate::ffi::pairs::WritePairs as _;
use crate::stores::files::{self, Written};
use crate::stores::outside;
use crate::stores::session::Driver;
use crate::{Batch, Capabilities, Error, Library, Purpose, Result, StoreSpec};

/// The suffix of the file of a transaction.
const WAL: &str = ".wal";

/// See `docs/design/stores-tuning.md`.
const TUNING: &str = "#type=kct#rcomp=lex#apow=4#fpow=8#bnum=1021#psiz=65536#msiz=0#pccap=16m";

/// The kind of store.
#[derive(Debug)]
pub(crate) struct KyotoCabinet;

impl Driver for KyotoCabinet {
    const NAME: &'static str = "kyotocabinet";
    const CAPABILITIES: Capabilities = Capabilities {
        ordered: true,
        atomic: true,
        // Its manual forbids the second opening.
        one_handle: true,
        builtin: &["zlib", "deflate", "gzip", "lzo", "lzma"],
        ..outside::FILE
    };
    const LIBRARY: &'static Library = &LIBRARY;
    const COMPANIONS: &'static [&'static str] = &[WAL];
    type Handle = Handle;

    fn version() -> Result<String> {
        Api::get().map(ffi::version)
    }
    fn read(place: &StoreSpec<'_>) -> Result<Handle> {
        let api = Api::get()?;
        recover(api, place)?;
        open(api, place, Mode::Read)
    }
    fn write(place: &StoreSpec<'_>, purpose: Purpose) -> Result<(Handle, Written)> {
        let api = Api::get()?;
        let mode = match purpose {
            Purpose::Create => Mode::Create,
            Purpose::Update => {
                recover(api, place)?;
                Mode::Update
            }
        };
        let file = Written::new(place, purpose)?;
        Ok((open(api, place, mode)?, file))
    }
    fn apply(handle: &mut Handle, file: &mut Written, batch: &Batch) -> Outcome<()> {
        // The other form of the name does not allow a file beside it.
        if !file.atomic() || has_another_name(file.path()) {
            return handle.apply_each(batch);
        }
        file.create_beside(WAL)?;
        handle.begin(file.durable())?;
        let applied = handle.apply_each(batch);
        let ended = handle.end(applied.is_ok());
        applied.and(ended)
    }
    fn close(handle: Handle, file: Written) -> Outcome<()> {
        handle.close()?;
        Ok(file.keep()?)
    }
}

fn open(api: &'static Api, place: &StoreSpec<'_>, mode: Mode) -> Result<Handle> {
    let (name, file) = name(place, mode)?;
    let handle = Handle::open(api, &name, mode).map_err(Failure::at(place.path));
    drop(file);
    handle
}

/// Returns `true` if the path contains the character that begins the tuning for the library.
fn has_another_name(path: &Path) -> bool {
    path.as_os_str().as_bytes().contains(&b'#')
}

/// Returns the name for the library to open, which is a path and the tuning, and a descriptor that
/// must stay open meanwhile.
fn name(place: &StoreSpec<'_>, mode: Mode) -> Result<(CString, Option<OwnedFd>)> {
    let at = || Error::at(place.path);
    let (mut name, file) = if has_another_name(place.path) {
        let access = if mode == Mode::Read { OFlags::RDONLY } else { OFlags::RDWR };
        let file = rustix::fs::open(place.path, access | OFlags::CLOEXEC, 0o600.into());
        let file = file.map_err(|errno| at()(errno.into()))?;
        (format!("/proc/self/fd/{}", file.as_raw_fd()).into_bytes(), Some(file))
    } else {
        (place.path.as_os_str().as_bytes().to_vec(), None)
    };
    name.extend_from_slice(TUNING.as_bytes());
    if let Some(method) = place.builtin {
        name.extend_from_slice(format!("#opts=c#zcomp={method}").as_bytes());
    }
    let name = CString::new(name).map_err(|error| at()(error.into()))?;
    Ok((name, file))
}

/// Checks the head of the file (kchashdb.h, `load_meta`), and rolls back the transaction of a
/// killed writer.
fn recover(api: &'static Api, place: &StoreSpec<'_>) -> Result<()> {
    let (head, file, _) = files::head::<64>(place)?;
    if !head.starts_with(b"KC\n\0") || head[8] != 0x31 {
        return Err(Error::damaged(place.path, "wrong head"));
    }
    // Set while a writer has the file open.
    if head[24] & 1 == 0 {
        return Ok(());
    }
    // Its batches were not transactions, so a partial last one cannot be detected.
    if has_another_name(place.path) {
        return Err(Error::damaged(place.path, "its last writer did not close it"));
    }
    files::lock_to_recover(place, &*file)?;
    let handle = open(api, place, Mode::Recover)?;
    handle.close().map_err(Failure::at(place.path))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use barid_vfs::{OpenOptions, OsVfs, Vfs};

    use super::*;
    use crate::Kv as _;
    use crate::stores::outside::tests;

    #[test]
    fn what_was_left_half_way_without_transactions_is_damaged() {
        if !tests::available(&KyotoCabinet) {
            return;
        }
        let folder = tests::Folder::new();
        let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
        let path = folder.path.join("a#b");
        let place = StoreSpec { vfs: &vfs, path: &path, builtin: None, durable: false };
        KyotoCabinet.write(&place, Purpose::Create).unwrap().close().unwrap();
        drop(KyotoCabinet.read(&place).unwrap());
        let file = vfs.open(&path, OpenOptions::WRITE).unwrap();
        let mut flags = [0];
        file.read_exact_at(&mut flags, 24).unwrap();
        file.write_all_at(&[flags[0] | 1], 24).unwrap();
        assert!(matches!(KyotoCabinet.read(&place).map(drop), Err(Error::Damaged { .. })));
    }

    #[test]
    fn round_trip() {
        tests::round_trip(&KyotoCabinet);
    }

    #[test]
    fn a_leftover_log_is_not_of_a_new_store() {
        let open = |place: &StoreSpec<'_>| open(Api::get().unwrap(), place, Mode::Update).unwrap();
        tests::leftover_log(&KyotoCabinet, WAL, open, |handle| {
            handle.begin(false).unwrap();
            handle.put(b"a", &[7; 999]).unwrap();
        });
    }
}
