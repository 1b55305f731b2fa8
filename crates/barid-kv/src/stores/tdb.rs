//! tdb: the hash database of Samba.
//!
//! A new file is written in place, and is complete only when closed. A batch of an update is one
//! transaction of the library: it stays in memory until it is committed, and what it overwrites is
//! stored in the file until the commit is done. The next opening of the file rolls back an
//! unfinished commit.

use std::io;
use std::path::Path;
use std::time::Duration;

use barid_vfs::{LockKind, LockMode, OpenOptions, Vfs, lock_file};

use crate::ffi::failure::{Failure, Outcome};
use crate::ffi::pairs::WritePairs as _;
use crate::ffi::tdb::{Api, LIBRARY, Mode, Tdb as Handle};
use crate::stores::files::Written;
use crate::stores::outside;
use crate::stores::session::Driver;
use crate::{Batch, Capabilities, Error, Library, Purpose, Result, StoreSpec};

/// Chains that keys are spread over, a prime: 128 KB, and three records in each at 100,000.
const HASH_SIZE: u16 = 32_771;
/// The longest time that a reader waits for another that rolls back a killed writer's transaction.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Offset of the position of the first free record, in 4 bytes.
const FREE_LIST_AT: u64 = 168;
/// The most free records that are read.
const FREE_RECORDS_MAX: usize = 10_000;
/// Length of the head of a record, with 4 bytes each: the next one, its length without this head,
/// the key's, the value's, the key's hash, a magic number. Free records end with their whole
/// length.
const HEAD_LEN: u64 = 24;
const FREE_MAGIC: u32 = 0xd9fe_e666;
/// The page size, in which file systems allocate.
const PAGE_LEN: u64 = 4_096;

/// The kind of store.
#[derive(Debug)]
pub(crate) struct Tdb;

impl Driver for Tdb {
    const NAME: &'static str = "tdb";
    /// The library refuses to open a file twice in a process.
    const CAPABILITIES: Capabilities =
        Capabilities { atomic: true, one_handle: true, ..outside::FILE };
    const LIBRARY: &'static Library = &LIBRARY;
    type Handle = Handle;

    /// Returns the version of the file name, since the library does not report one.
    fn version() -> Result<String> {
        Api::get().map(|_| "1".to_owned())
    }
    fn read(place: &StoreSpec<'_>) -> Result<Handle> {
        outside::expect(place, None)?;
        let path = outside::c_path(place.path)?;
        match Handle::open(&path, Mode::Read) {
            Err(Failure::Damaged(what)) => {
                recover(place)?;
                Handle::open(&path, Mode::Read).map_err(|_| Error::damaged(place.path, what))
            }
            opened => opened.map_err(Failure::at(place.path)),
        }
    }
    fn write(place: &StoreSpec<'_>, purpose: Purpose) -> Result<(Handle, Written)> {
        let file = Written::of_library(place, purpose)?;
        let mode = match purpose {
            Purpose::Update => Mode::Update { sync: place.durable },
            Purpose::Create => Mode::Create { hash_size: HASH_SIZE },
        };
        let handle = Handle::open(&outside::c_path(place.path)?, mode);
        Ok((handle.map_err(Failure::at(place.path))?, file))
    }
    fn apply(handle: &mut Handle, file: &mut Written, batch: &Batch) -> Outcome<()> {
        if !file.atomic() {
            return handle.apply_each(batch);
        }
        handle.begin()?;
        handle.apply_each(batch).inspect_err(|_| handle.cancel())?;
        handle.commit()
    }
    fn close(mut handle: Handle, file: Written) -> Outcome<()> {
        if file.atomic() {
            return Ok(());
        }
        punch(file.vfs(), file.path(), &mut handle).map_err(Error::at(file.path()))?;
        drop(handle);
        Ok(file.sync_with_name()?)
    }
}

/// Lets the library roll back a killed writer's transaction, which it does only if it may write.
fn recover(place: &StoreSpec<'_>) -> Result<()> {
    let StoreSpec { vfs, path, .. } = *place;
    let file = vfs.open(path, OpenOptions::READ).map_err(Error::at(path))?;
    let how = (LockKind::Flock, LockMode::Exclusive);
    lock_file(&**vfs, &*file, path, how, RECOVERY_TIMEOUT)
        .map_err(|_| Error::Busy { path: path.to_owned() })?;
    // If the file is damaged otherwise, the next opening reports it.
    drop(Handle::open(&outside::c_path(path)?, Mode::Update { sync: false }));
    Ok(())
}

/// Returns free space to the file system: the library extends a file by a quarter at a time, and
/// fills new space from its end. It reads only the two ends of a free record.
fn punch(vfs: &dyn Vfs, path: &Path, handle: &mut Handle) -> io::Result<()> {
    let file = vfs.open(path, OpenOptions::READ)?;
    let size = file.metadata()?.size;
    let read = |offset: u64, len: usize| {
        let mut bytes = [0; HEAD_LEN as usize];
        file.read_exact_at(&mut bytes[..len], offset).map(|()| bytes)
    };
    let number = |bytes: &[u8; HEAD_LEN as usize], at: usize| {
        u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    };
    let mut start = u64::from(number(&read(FREE_LIST_AT, 4)?, 0));
    for _ in 0..FREE_RECORDS_MAX {
        if start == 0 || start + HEAD_LEN > size {
            break;
        }
        let head = read(start, HEAD_LEN as usize)?;
        let end = start + HEAD_LEN + u64::from(number(&head, 4));
        // Fails in a file of the other byte order.
        if number(&head, 20) != FREE_MAGIC || end > size {
            break;
        }
        let from = (start + HEAD_LEN).next_multiple_of(PAGE_LEN);
        let to = (end - 4) / PAGE_LEN * PAGE_LEN;
        if from < to {
            handle.punch(from, to - from);
        }
        start = u64::from(number(&head, 0));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use barid_vfs::OsVfs;

    use super::*;
    use crate::Kv as _;

    /// A number in the record of a transaction marks it as unfinished.
    #[test]
    fn readers_take_back_what_a_killed_writer_left() {
        const MAGIC: u32 = 0xf53b_c0e7;
        if !outside::tests::available(&Tdb) {
            return;
        }
        let folder = outside::tests::Folder::new();
        let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
        let path = folder.path.join("store");
        let place = StoreSpec { vfs: &vfs, path: &path, builtin: None, durable: false };
        let mut batch = Batch::new();
        for (purpose, value) in [(Purpose::Create, b"old"), (Purpose::Update, b"new")] {
            let mut writer = Tdb.write(&place, purpose).unwrap();
            batch.clear();
            (0..100_u8).for_each(|number| batch.put(&[number], value));
            writer.apply(&batch).unwrap();
            writer.close().unwrap();
        }
        let check = |expected: &[u8]| {
            let mut reader = Tdb.read(&place).unwrap();
            for number in 0..100 {
                assert!(reader.get(&[number], &mut |value| assert_eq!(value, expected)).unwrap());
            }
        };
        check(b"new");
        let file = vfs.open(&path, OpenOptions::WRITE).unwrap();
        let mut start = [0; 4];
        file.read_exact_at(&mut start, 44).unwrap();
        let magic_at = u64::from(u32::from_le_bytes(start)) + 20;
        file.write_all_at(&MAGIC.to_le_bytes(), magic_at).unwrap();
        check(b"old");
    }

    #[test]
    fn free_space_of_a_new_file_is_given_back() {
        if !outside::tests::available(&Tdb) {
            return;
        }
        let folder = outside::tests::Folder::new();
        let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
        let path = folder.path.join("store");
        let place = StoreSpec { vfs: &vfs, path: &path, builtin: None, durable: false };
        let allocated = || vfs.metadata(&path).unwrap().allocated;
        let mut writer = Tdb.write(&place, Purpose::Create).unwrap();
        let mut batch = Batch::new();
        (0..2_000_u32).for_each(|number| batch.put(&number.to_be_bytes(), &[b'v'; 500]));
        writer.apply(&batch).unwrap();
        let before = allocated();
        writer.close().unwrap();
        assert!(allocated() < before);

        // Returned space is used again.
        let mut writer = Tdb.write(&place, Purpose::Update).unwrap();
        (0..2_000_u32).for_each(|number| batch.put(&number.to_le_bytes(), &[b'v'; 500]));
        writer.apply(&batch).unwrap();
        writer.close().unwrap();
        let (mut seen, mut reader) = (0, Tdb.read(&place).unwrap());
        let mut visit = |_: &[u8], value: &[u8]| {
            assert_eq!(value, [b'v'; 500]);
            seen += 1;
            true
        };
        reader.scan(b"", &mut visit).unwrap();
        // Zero is the same in both orders.
        assert_eq!(seen, 3_999);
    }

    #[test]
    fn round_trip() {
        outside::tests::round_trip(&Tdb);
    }
}
