//! Tokyo Cabinet's B+ tree.
//!
//! A transaction stores what it overwrites in `<path>.wal`; if the process was killed, the next
//! opening restores it.

use std::io::ErrorKind;

use crate::ffi::failure::{Failure, Outcome};
use crate::ffi::pairs::WritePairs as _;
use crate::ffi::tokyocabinet::{self as ffi, Api, Handle, LIBRARY, Mode, Tuning};
use crate::stores::files::{self, Written};
use crate::stores::outside;
use crate::stores::session::Driver;
use crate::{Batch, Capabilities, Error, Library, Purpose, Result, StoreSpec};

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

impl Driver for TokyoCabinet {
    const NAME: &'static str = "tokyocabinet";
    const CAPABILITIES: Capabilities = Capabilities {
        ordered: true,
        atomic: true,
        // The library keeps a table of open paths, and rejects a second opening.
        one_handle: true,
        // tcbs writes 2 MB/s at best, and takes minutes for long runs of one byte.
        builtin: &["deflate", "bzip2", "tcbs"],
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
        if purpose == Purpose::Update {
            recover(api, place)?;
        }
        let file = Written::new(place, purpose)?;
        let mode = if place.durable { Mode::WriteDurable } else { Mode::Write };
        Ok((open(api, place, mode)?, file))
    }
    fn apply(handle: &mut Handle, file: &mut Written, batch: &Batch) -> Outcome<()> {
        if !file.atomic() {
            return handle.apply_each(batch);
        }
        check_room(file, batch)?;
        file.create_beside(WAL)?;
        handle.begin()?;
        let applied = handle.apply_each(batch).and_then(|()| handle.commit());
        if applied.is_err() {
            // The first error is more informative than its consequences.
            drop(handle.abort());
        }
        applied
    }
    fn close(handle: Handle, file: Written) -> Outcome<()> {
        handle.close()?;
        Ok(file.keep()?)
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
    files::lock_to_recover(place, &*file)?;
    // A reader restores what the transaction overwrote, but continues with the head that it read
    // before; so it is opened only for that.
    drop(open(api, place, Mode::Read));
    if Head::read(place)?.0.open {
        let handle = open(api, place, Mode::Write)?;
        handle.close().map_err(Failure::at(place.path))?;
    }
    let wal = files::beside(place.path, WAL);
    match place.vfs.remove_file(&wal) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::at(&wal)(error)),
        _ => Ok(()),
    }
}

/// Checks that a transaction has room. The library ignores a failure to save a bucket that it
/// overwrites, and then cannot restore it.
fn check_room(file: &Written, batch: &Batch) -> Outcome<()> {
    let disk = rustix::fs::statvfs(file.path()).map_err(|errno| Failure::Io(errno.into()))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    // Each change may rewrite a page, and save its old content.
    let pages = batch.len() as u64 * u64::from(TUNING.leaf_len_max);
    let needed = 2 * (pages.min(file.size()?) + batch.bytes_len() as u64) + ROOM;
    if free < needed { Err(Failure::Io(ErrorKind::StorageFull.into())) } else { Ok(()) }
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
