//! Kyoto Cabinet's B+ tree in a file.
//!
//! A transaction stores what it overwrites in `<path>.wal`; if the process was killed, the next
//! opening restores it.

use std::ffi::CString;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use barid_vfs::{LockKind, LockMode};
use rustix::fs::OFlags;

use crate::ffi::failure::{Failure, Outcome};
use crate::ffi::kyotocabinet::{self as ffi, Api, Handle, LIBRARY, Mode};
use crate::kv::Visit;
use crate::limits::{KEY_LEN_MAX, VALUE_LEN_MAX};
use crate::stores::files::{self, Written};
use crate::stores::outside;
use crate::{
    Batch, Capabilities, Error, Kv, KvRead, KvWrite, Library, Op, Purpose, Result, StoreSpec,
};

static CAPABILITIES: Capabilities = Capabilities {
    ordered: true,
    atomic: true,
    // Its manual forbids the second opening.
    one_handle: true,
    folder: false,
    key_len_max: KEY_LEN_MAX,
    value_len_max: VALUE_LEN_MAX,
    builtin: &["zlib", "deflate", "gzip", "lzo", "lzma"],
};

/// The suffix of the file of a transaction.
const WAL: &str = ".wal";

/// See `docs/design/stores-tuning.md`.
const TUNING: &str = "#type=kct#rcomp=lex#apow=4#fpow=8#bnum=1021#psiz=65536#msiz=0#pccap=16m";

/// The kind of store.
#[derive(Debug)]
pub(crate) struct KyotoCabinet;

#[derive(Debug)]
struct Reading {
    handle: Handle,
    path: Box<Path>,
}

#[derive(Debug)]
struct Writing {
    handle: Handle,
    file: Written,
    /// `true` if batches must be transactions.
    atomic: bool,
    /// `true` if the file for transactions exists.
    wal: bool,
}

impl Kv for KyotoCabinet {
    fn name(&self) -> &'static str {
        "kyotocabinet"
    }
    fn capabilities(&self) -> &'static Capabilities {
        &CAPABILITIES
    }
    fn library(&self) -> Option<&'static Library> {
        Some(&LIBRARY)
    }
    fn version(&self) -> Result<String> {
        Api::get().map(ffi::version)
    }
    fn read(&self, place: &StoreSpec<'_>) -> Result<Box<dyn KvRead>> {
        let api = Api::get()?;
        recover(api, place)?;
        let handle = open(api, place, Mode::Read)?;
        Ok(Box::new(Reading { handle, path: place.path.into() }))
    }
    fn write(&self, place: &StoreSpec<'_>, purpose: Purpose) -> Result<Box<dyn KvWrite>> {
        let api = Api::get()?;
        let mode = match purpose {
            Purpose::Create => Mode::Create,
            Purpose::Update => {
                recover(api, place)?;
                Mode::Update
            }
        };
        let file = Written::new(place, purpose)?;
        let handle = open(api, place, mode)?;
        // The other form of the name does not allow a file beside it.
        let atomic = file.atomic() && !has_another_name(place.path);
        Ok(Box::new(Writing { handle, file, atomic, wal: false }))
    }
    fn companions(&self) -> &'static [&'static str] {
        &[WAL]
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
    // Several readers may get here at the same time.
    let locked = file.try_lock(LockKind::Flock, LockMode::Exclusive);
    if !locked.map_err(Error::at(place.path))? {
        return Err(Error::Busy { path: place.path.to_owned() });
    }
    let handle = open(api, place, Mode::Recover)?;
    handle.close().map_err(Failure::at(place.path))
}

impl KvRead for Reading {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.handle.get(key, visit).map_err(Failure::at(&self.path))
    }
    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        self.handle.scan(prefix, visit).map_err(Failure::at(&self.path))
    }
}

impl KvRead for Writing {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.handle.get(key, visit).map_err(Failure::at(self.file.path()))
    }
    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        self.handle.scan(prefix, visit).map_err(Failure::at(self.file.path()))
    }
}

impl Writing {
    fn apply_all(&mut self, batch: &Batch) -> Outcome<()> {
        batch.iter().try_for_each(|op| match op {
            Op::Put { key, value } => self.handle.put(key, value),
            Op::Delete { key } => self.handle.delete(key),
        })
    }
}

impl KvWrite for Writing {
    fn apply(&mut self, batch: &Batch) -> Result<()> {
        outside::check_lens(self.file.path(), &CAPABILITIES, batch)?;
        if !self.atomic {
            return self.apply_all(batch).map_err(Failure::at(self.file.path()));
        }
        if !self.wal {
            self.file.create_beside(WAL)?;
            self.wal = true;
        }
        let begun = self.handle.begin(self.file.durable());
        begun.map_err(Failure::at(self.file.path()))?;
        let applied = self.apply_all(batch);
        let ended = self.handle.end(applied.is_ok());
        applied.and(ended).map_err(Failure::at(self.file.path()))
    }
    fn close(self: Box<Self>) -> Result<()> {
        let Self { handle, file, .. } = *self;
        handle.close().map_err(Failure::at(file.path()))?;
        file.keep()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use barid_vfs::{OpenOptions, OsVfs, Vfs};

    use super::*;
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
