//! tdb: the hash database of Samba.
//!
//! A new file is written in place, and is complete only when closed. A batch of an update is one
//! transaction of the library: it stays in memory until it is committed, and what it overwrites is
//! stored in the file until the commit is done. The next opening of the file rolls back an
//! unfinished commit.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use barid_vfs::{LockKind, LockMode, OpenOptions, Vfs, lock_file};

use crate::ffi::failure::Failure;
use crate::ffi::tdb::{Api, LIBRARY, Mode, Tdb as Handle};
use crate::kv::Visit;
use crate::stores::outside;
use crate::{
    Batch, Capabilities, Error, Kv, KvRead, KvWrite, Library, Op, Purpose, Result, StoreSpec,
};

/// The library refuses to open a file twice in a process.
const CAPABILITIES: Capabilities = Capabilities { atomic: true, one_handle: true, ..outside::FILE };
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

#[derive(Debug)]
struct Open {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    handle: Handle,
    purpose: Option<Purpose>,
    durable: bool,
}

impl Kv for Tdb {
    fn name(&self) -> &'static str {
        "tdb"
    }
    fn capabilities(&self) -> &'static Capabilities {
        &CAPABILITIES
    }
    fn library(&self) -> Option<&'static Library> {
        Some(&LIBRARY)
    }
    /// Returns the version of the file name, since the library does not report one.
    fn version(&self) -> Result<String> {
        Api::get().map(|_| "1".to_owned())
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
        outside::expect(place, purpose)?;
        let (vfs, path, durable) = (Arc::clone(place.vfs), place.path.to_owned(), place.durable);
        let mode = match purpose {
            None => Mode::Read,
            Some(Purpose::Update) => Mode::Update { sync: durable },
            Some(Purpose::Create) => Mode::Create { hash_size: HASH_SIZE },
        };
        let c_path = outside::c_path(&path)?;
        let handle = match Handle::open(&c_path, mode) {
            Err(Failure::Damaged(what)) if mode == Mode::Read => {
                recover(place)?;
                Handle::open(&c_path, mode).map_err(|_| Error::damaged(&path, what))?
            }
            opened => opened.map_err(Failure::at(&path))?,
        };
        Ok(Self { vfs, path, handle, purpose, durable })
    }

    fn at(&self) -> impl FnOnce(Failure) -> Error + use<'_> {
        Failure::at(&self.path)
    }

    fn apply_each(&mut self, batch: &Batch) -> Result<()> {
        let done = batch.iter().try_for_each(|op| match op {
            Op::Put { key, value } => self.handle.put(key, value),
            Op::Delete { key } => self.handle.delete(key),
        });
        done.map_err(self.at())
    }
}

impl KvRead for Open {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.handle.get(key, visit).map_err(Failure::at(&self.path))
    }
    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        let mut visit = |key: &[u8], value: &[u8]| !key.starts_with(prefix) || visit(key, value);
        self.handle.scan(&mut visit).map_err(Failure::at(&self.path))
    }
}

impl KvWrite for Open {
    fn apply(&mut self, batch: &Batch) -> Result<()> {
        outside::check_lens(&self.path, &CAPABILITIES, batch)?;
        if self.purpose == Some(Purpose::Create) {
            return self.apply_each(batch);
        }
        self.handle.begin().map_err(self.at())?;
        if let Err(error) = self.apply_each(batch) {
            self.handle.cancel();
            return Err(error);
        }
        self.handle.commit().map_err(self.at())
    }
    fn close(self: Box<Self>) -> Result<()> {
        let Self { vfs, path, mut handle, purpose, durable } = *self;
        if purpose == Some(Purpose::Create) {
            punch(&*vfs, &path, &mut handle).map_err(Error::at(&path))?;
        }
        drop(handle);
        match durable && purpose == Some(Purpose::Create) {
            true => outside::sync(&*vfs, &path),
            false => Ok(()),
        }
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
    use barid_vfs::OsVfs;

    use super::*;

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
