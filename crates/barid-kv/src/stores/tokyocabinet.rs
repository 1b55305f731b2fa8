//! Tokyo Cabinet's B+ tree.
//!
//! A transaction stores what it overwrites in `<path>.wal`; if the process was killed, the next
//! opening restores it.

use std::path::Path;

use barid_vfs::{LockKind, LockMode};

use crate::ffi::failure::{Failure, Outcome};
use crate::ffi::tokyocabinet::{self as ffi, Api, Handle, LIBRARY, Mode, Tuning};
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
    // The library keeps a table of open paths, and rejects a second opening.
    one_handle: true,
    folder: false,
    key_len_max: KEY_LEN_MAX,
    value_len_max: VALUE_LEN_MAX,
    // tcbs writes 2 MB/s at best, and takes minutes for long runs of one byte.
    builtin: &["deflate", "bzip2", "tcbs"],
};

/// The suffix of the file of a transaction.
const WAL: &str = ".wal";

/// See `docs/design/stores-tuning.md`.
const TUNING: Tuning = Tuning {
    leaf_records_max: 1024,
    leaf_len_max: 60_000,
    node_children_max: 256,
    buckets: 1021,
    align_pow: 4,
    free_pow: 8,
    options: 0,
    leaf_cache: 64,
    node_cache: 64,
};

/// Bytes that a transaction needs in addition to its pages.
const ROOM: u64 = 1 << 20;

/// The kind of store.
#[derive(Debug)]
pub(crate) struct TokyoCabinet;

#[derive(Debug)]
struct Reading {
    handle: Handle,
    path: Box<Path>,
}

#[derive(Debug)]
struct Writing {
    handle: Handle,
    file: Written,
    /// `true` if the file for transactions exists.
    wal: bool,
}

impl Kv for TokyoCabinet {
    fn name(&self) -> &'static str {
        "tokyocabinet"
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
        if purpose == Purpose::Update {
            recover(api, place)?;
        }
        let file = Written::new(place, purpose)?;
        let mode = if place.durable { Mode::WriteDurable } else { Mode::Write };
        let handle = open(api, place, mode)?;
        Ok(Box::new(Writing { handle, file, wal: false }))
    }
    fn companions(&self) -> &'static [&'static str] {
        &[WAL]
    }
}

fn open(api: &'static Api, place: &StoreSpec<'_>, mode: Mode) -> Result<Handle> {
    // tcbdb.h, `BDBTDEFLATE` and so on; later openings read it from the file.
    let options = match place.builtin {
        Some("deflate") => 1 << 1,
        Some("bzip2") => 1 << 2,
        Some("tcbs") => 1 << 3,
        _ => 0,
    };
    let path = outside::c_path(place.path)?;
    let tuning = Tuning { options, ..TUNING };
    Handle::open(api, &path, mode, &tuning).map_err(Failure::at(place.path))
}

/// The relevant fields in the head of a file (tchdb.c, `tchdbloadmeta`).
struct Head {
    /// `true` if the last writer did not close it.
    open: bool,
}

impl Head {
    /// Bytes before the buckets.
    const LEN: usize = 256;

    /// Parses a head; `None` if the library would read beyond the file, or it is not such a file.
    fn parse(head: &[u8; Self::LEN], file_len: u64) -> Option<Self> {
        // Debian builds it with --enable-swab.
        let orders = [u64::from_be_bytes, u64::from_le_bytes];
        orders.into_iter().find_map(|number| Self::parse_as(number, head, file_len))
    }

    fn parse_as(number: fn([u8; 8]) -> u64, head: &[u8; Self::LEN], file_len: u64) -> Option<Self> {
        let number = |at: usize| head.get(at..)?.first_chunk().copied().map(number);
        let [kind, flags, align_pow, free_pow, options] = *head.get(32..)?.first_chunk()?;
        let (buckets, len, first) = (number(40)?, number(56)?, number(64)?);
        let bucket_len = if options & 1 == 0 { 4 } else { 8 };
        let buckets_end = buckets.checked_mul(bucket_len)?.checked_add(Self::LEN as u64)?;
        let whole = head.starts_with(b"ToKyO CaBiNeT\n")
            && kind == 1
            && align_pow <= 16
            && free_pow <= 20
            && buckets > 0
            && buckets_end < first
            && first <= len
            && len <= file_len;
        whole.then_some(Self { open: flags & 1 != 0 })
    }

    fn read(place: &StoreSpec<'_>) -> Result<(Self, Box<dyn barid_vfs::File>)> {
        let (bytes, file, len) = files::head(place)?;
        let head = Self::parse(&bytes, len);
        let head = head.ok_or_else(|| Error::damaged(place.path, "wrong head"))?;
        Ok((head, file))
    }
}

/// Checks the head of the file, and rolls back the transaction of a killed writer.
fn recover(api: &'static Api, place: &StoreSpec<'_>) -> Result<()> {
    let (head, file) = Head::read(place)?;
    if !head.open {
        return Ok(());
    }
    // Several readers may get here at the same time.
    let locked = file.try_lock(LockKind::Flock, LockMode::Exclusive);
    if !locked.map_err(Error::at(place.path))? {
        return Err(Error::Busy { path: place.path.to_owned() });
    }
    // A reader restores what the transaction overwrote, but continues with the head that it read
    // before; so it is opened only for that.
    drop(open(api, place, Mode::Read));
    if Head::read(place)?.0.open {
        let handle = open(api, place, Mode::Write)?;
        handle.close().map_err(Failure::at(place.path))?;
    }
    let wal = files::beside(place.path, WAL);
    match place.vfs.remove_file(&wal) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::at(&wal)(error)),
        _ => Ok(()),
    }
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
    /// Checks that a transaction has room. The library ignores a failure to save a bucket that it
    /// overwrites, and then cannot restore it.
    fn check_room(&self, batch: &Batch) -> Result<()> {
        let at = || Error::at(self.file.path());
        let disk = rustix::fs::statvfs(self.file.path()).map_err(|errno| at()(errno.into()))?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        // Each change may rewrite a page, and save its old content.
        let pages = batch.len() as u64 * u64::from(TUNING.leaf_len_max);
        let file_len = self.file.size()?;
        let needed = 2 * (pages.min(file_len) + batch.bytes_len() as u64) + ROOM;
        if free < needed { Err(at()(std::io::ErrorKind::StorageFull.into())) } else { Ok(()) }
    }

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
        if !self.file.atomic() {
            return self.apply_all(batch).map_err(Failure::at(self.file.path()));
        }
        self.check_room(batch)?;
        if !self.wal {
            self.file.create_beside(WAL)?;
            self.wal = true;
        }
        self.handle.begin().map_err(Failure::at(self.file.path()))?;
        let applied = self.apply_all(batch).and_then(|()| self.handle.commit());
        if applied.is_err() {
            // The first error is more informative than its consequences.
            drop(self.handle.abort());
        }
        applied.map_err(Failure::at(self.file.path()))
    }
    fn close(self: Box<Self>) -> Result<()> {
        let Self { handle, file, .. } = *self;
        handle.close().map_err(Failure::at(file.path()))?;
        file.keep()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::outside::tests;

    #[test]
    fn round_trip() {
        tests::round_trip(&TokyoCabinet);
    }

    #[test]
    fn a_leftover_log_is_not_of_a_new_store() {
        let open = |place: &StoreSpec<'_>| open(Api::get().unwrap(), place, Mode::Write).unwrap();
        tests::leftover_log(&TokyoCabinet, WAL, open, |handle| {
            handle.begin().unwrap();
            handle.put(b"a", &[7; 999]).unwrap();
        });
    }
}
