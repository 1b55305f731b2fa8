//! LMDB: a B+ tree in one file that is mapped into memory.
//!
//! The library is built in, with keys as long as a page allows. Pages are filled completely if keys
//! ascend. Readers of one process share the map of a file, since the library allows each file to be
//! open only once.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barid_vfs::{OpenOptions, Vfs};
use heed::types::Bytes;
use heed::{CommitOrAbort, Env, MdbError, PutFlags, RoTxn, WithoutTls};
use rustix::io::Errno;

use crate::ffi::lmdb::{Mode, open, resize};
use crate::kv::Visit;
use crate::stores::outside;
use crate::{
    Batch, Capabilities, Error, Kv, KvRead, KvWrite, Library, Op, Purpose, Result, StoreSpec,
};

const CAPABILITIES: Capabilities = Capabilities { ordered: true, atomic: true, ..outside::FILE };
/// A unit that every page size of Linux divides.
const MAP_UNIT: usize = 64 * 1024;
/// The map of a new store; only address space, which is doubled when it is used up.
const MAP_SIZE_MIN: usize = 256 * 1024 * 1024;

type Database = heed::Database<'static, Bytes, Bytes>;

/// The kind of store.
#[derive(Debug)]
pub(crate) struct Lmdb;

impl Kv for Lmdb {
    fn name(&self) -> &'static str {
        "lmdb"
    }
    fn capabilities(&self) -> &'static Capabilities {
        &CAPABILITIES
    }
    fn library(&self) -> Option<&'static Library> {
        None
    }
    fn version(&self) -> Result<String> {
        let version = heed::lmdb_version();
        Ok(format!("{}.{}.{}", version.major, version.minor, version.patch))
    }
    fn read(&self, place: &StoreSpec<'_>) -> Result<Box<dyn KvRead>> {
        Ok(Box::new(Reader::open(place)?))
    }
    fn write(&self, place: &StoreSpec<'_>, purpose: Purpose) -> Result<Box<dyn KvWrite>> {
        Ok(Box::new(Writer::open(place, purpose, MAP_SIZE_MIN)?))
    }
}

/// The environments that are open for reading in this process.
static SHARED: Mutex<Option<HashMap<PathBuf, Shared>>> = Mutex::new(None);

struct Shared {
    inode: u64,
    readers: usize,
    database: Database,
    env: Env<WithoutTls>,
}

fn shared() -> MutexGuard<'static, Option<HashMap<PathBuf, Shared>>> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Reader {
    path: PathBuf,
    /// The key of the file in [`SHARED`].
    name: PathBuf,
    database: Database,
    /// `None` only while this is dropped: the environment is closed under the lock of [`SHARED`].
    txn: Option<RoTxn<'static, WithoutTls>>,
}

impl Reader {
    fn open(place: &StoreSpec<'_>) -> Result<Self> {
        let path = place.path;
        let found = place.vfs.metadata(path).map_err(Error::at(path))?;
        if found.size == 0 {
            return Err(Error::damaged(path, "an empty file"));
        }
        let name = place.vfs.canonicalize(path).map_err(Error::at(path))?;
        let mut shared = shared();
        let all = shared.get_or_insert_default();
        let (env, database) = match all.get_mut(&name) {
            // The file was replaced while somebody reads the old one.
            Some(shared) if shared.inode != found.inode => {
                return Err(Error::Busy { path: path.to_owned() });
            }
            Some(shared) => {
                shared.readers += 1;
                (shared.env.clone(), shared.database)
            }
            None => {
                let env = open(path, Mode::Read, map_size(found.size)).map_err(failed(path))?;
                let database = database(&env).map_err(failed(path))?;
                let inode = found.inode;
                all.insert(name.clone(), Shared { inode, readers: 1, database, env: env.clone() });
                (env, database)
            }
        };
        let mut reader = Self { path: path.to_owned(), name, database, txn: None };
        drop(shared);
        reader.txn = Some(env.static_read_txn().map_err(failed(path))?);
        Ok(reader)
    }

    fn txn(&self) -> &RoTxn<'static, WithoutTls> {
        self.txn.as_ref().expect("because it is there until this is dropped")
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut shared = shared();
        self.txn = None;
        let Some(all) = shared.as_mut() else { return };
        if let Some(env) = all.get_mut(&self.name) {
            env.readers -= 1;
            if env.readers == 0 {
                all.remove(&self.name);
            }
        }
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Reader").field("path", &self.path).finish_non_exhaustive()
    }
}

impl KvRead for Reader {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        get(self.database, self.txn(), key, visit).map_err(failed(&self.path))
    }
    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        scan(self.database, self.txn(), prefix, visit).map_err(failed(&self.path))
    }
}

struct Writer {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    database: Database,
    env: Env<WithoutTls>,
    map_size: usize,
    /// No key is greater.
    greatest: Vec<u8>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Writer").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Writer {
    fn open(place: &StoreSpec<'_>, purpose: Purpose, map_size_min: usize) -> Result<Self> {
        let path = place.path;
        let size = match (place.vfs.metadata(path), purpose) {
            (Ok(_), Purpose::Create) => {
                let source = ErrorKind::AlreadyExists.into();
                return Err(Error::Io { path: path.to_owned(), source });
            }
            (Err(error), Purpose::Create) if error.kind() == ErrorKind::NotFound => 0,
            (found, _) => found.map_err(Error::at(path))?.size,
        };
        let mode = if place.durable { Mode::Durable } else { Mode::Write };
        let map_size = map_size(size.saturating_mul(2)).max(map_size_min);
        let begin = || {
            let env = open(path, mode, map_size)?;
            let database = database(&env)?;
            let txn = env.read_txn()?;
            let greatest = database.last(&txn)?.map_or(Vec::new(), |(key, _)| key.to_vec());
            drop(txn);
            let (vfs, path) = (Arc::clone(place.vfs), path.to_owned());
            Ok(Self { vfs, path, database, env, map_size, greatest })
        };
        begin().map_err(failed(path))
    }

    fn try_apply(&mut self, batch: &Batch) -> heed::Result<()> {
        let mut txn = self.env.write_txn()?;
        for op in batch.iter() {
            match op {
                Op::Put { key, value } if key > &self.greatest[..] => {
                    self.database.put_with_flags(&mut txn, PutFlags::APPEND, key, value)?;
                    self.greatest.clear();
                    self.greatest.extend_from_slice(key);
                }
                Op::Put { key, value } => self.database.put(&mut txn, key, value)?,
                Op::Delete { key } => drop(self.database.delete(&mut txn, key)?),
            }
        }
        txn.commit()
    }

    /// Enlarges the map after a batch that failed.
    fn grow(&mut self, batch: &Batch) -> heed::Result<()> {
        let needed = self.map_size.saturating_add(batch.bytes_len().saturating_mul(2));
        self.map_size = map_size(needed.max(self.map_size.saturating_mul(2)) as u64);
        resize(&mut self.env, self.map_size)?;
        self.find_greatest()
    }

    /// Returns the cause of an error. The library reports a partial write on a full disk as an
    /// unspecific error.
    fn cause(&self, error: heed::Error, batch: &Batch) -> heed::Error {
        let too_large = || {
            let file = self.vfs.open(&self.path, OpenOptions::WRITE).ok()?;
            let size = file.metadata().ok()?.size;
            let reserved = file.allocate(size, (batch.bytes_len() + MAP_UNIT) as u64);
            let _ = file.set_len(size);
            let error = reserved.err()?;
            let full = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded].contains(&error.kind());
            full.then_some(heed::Error::Io(error))
        };
        match &error {
            heed::Error::Io(source) if source.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
                too_large().unwrap_or(error)
            }
            _ => error,
        }
    }

    fn find_greatest(&mut self) -> heed::Result<()> {
        let txn = self.env.read_txn()?;
        self.greatest.clear();
        self.greatest.extend(self.database.last(&txn)?.iter().flat_map(|(key, _)| *key));
        Ok(())
    }
}

impl KvRead for Writer {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut read = || get(self.database, &self.env.read_txn()?, key, visit);
        read().map_err(failed(&self.path))
    }
    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        let mut read = || scan(self.database, &self.env.read_txn()?, prefix, visit);
        read().map_err(failed(&self.path))
    }
}

impl KvWrite for Writer {
    fn apply(&mut self, batch: &Batch) -> Result<()> {
        let applied = loop {
            match self.try_apply(batch) {
                Err(heed::Error::Mdb(MdbError::MapFull)) => {
                    self.grow(batch).map_err(failed(&self.path))?;
                }
                done => break done,
            }
        };
        if applied.is_err() {
            // The first error is the one to report.
            let _ = self.find_greatest();
        }
        applied.map_err(|error| self.cause(error, batch)).map_err(failed(&self.path))
    }
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Returns the one database of a file, the unnamed one.
fn database(env: &Env<WithoutTls>) -> heed::Result<Database> {
    let opened = env.open_databases_and_commit(env.read_txn()?, |opener, txn| {
        let database = opener.open_database::<Bytes, Bytes>(txn, None)?;
        Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(database))
    })?;
    opened.commit().flatten().ok_or(heed::Error::Mdb(MdbError::NotFound))
}

fn get(
    database: Database,
    txn: &RoTxn<'_, WithoutTls>,
    key: &[u8],
    visit: &mut dyn FnMut(&[u8]),
) -> heed::Result<bool> {
    let value = database.get(txn, key)?;
    value.into_iter().for_each(visit);
    Ok(value.is_some())
}

fn scan(
    database: Database,
    txn: &RoTxn<'_, WithoutTls>,
    prefix: &[u8],
    visit: &mut Visit<'_>,
) -> heed::Result<()> {
    if prefix.is_empty() {
        for pair in database.iter(txn)? {
            let (key, value) = pair?;
            if !visit(key, value) {
                break;
            }
        }
        return Ok(());
    }
    for pair in database.prefix_iter(txn, prefix)? {
        let (key, value) = pair?;
        if !visit(key, value) {
            break;
        }
    }
    Ok(())
}

fn map_size(size: u64) -> usize {
    (size as usize).max(1).next_multiple_of(MAP_UNIT)
}

fn failed(path: &Path) -> impl FnOnce(heed::Error) -> Error {
    move |error| match error {
        heed::Error::Io(source) => Error::Io { path: path.to_owned(), source },
        heed::Error::Mdb(error) => Error::damaged(path, error.to_string()),
        heed::Error::EnvAlreadyOpened => Error::Busy { path: path.to_owned() },
        error => Error::damaged(path, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use barid_vfs::OsVfs;
    use std::collections::BTreeMap;

    use super::*;
    use crate::limits::{KEY_LEN_MAX, VALUE_LEN_MAX};

    type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

    fn compare(reader: &mut dyn KvRead, model: &Pairs, rng: &mut fastrand::Rng) {
        for prefix in [vec![], vec![rng.u8(..)], vec![255, 255]] {
            let mut expected = model.iter().filter(|(key, _)| key.starts_with(&prefix));
            let mut visit = |key: &[u8], value: &[u8]| {
                let (expected_key, expected_value) = expected.next().unwrap();
                assert_eq!((key, value.len()), (&expected_key[..], expected_value.len()));
                assert!(value == expected_value);
                true
            };
            reader.scan(&prefix, &mut visit).unwrap();
            assert_eq!(expected.next(), None);
        }
        for (key, expected) in model {
            let mut found = false;
            assert!(reader.get(key, &mut |value| found = value == expected).unwrap() && found);
        }
    }

    #[test]
    fn a_small_map_grows_and_keys_come_in_any_order() {
        let rng = &mut fastrand::Rng::with_seed(1);
        let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
        let path = std::env::temp_dir().join(format!("barid-lmdb-{}", std::process::id()));
        let place = StoreSpec { vfs: &vfs, path: &path, builtin: None, durable: false };
        let mut model = Pairs::new();
        for purpose in [Purpose::Create, Purpose::Update] {
            let mut writer = Writer::open(&place, purpose, MAP_UNIT).unwrap();
            for round in 0..20_u32 {
                let mut batch = Batch::new();
                for _ in 0..rng.usize(..60) {
                    let len = *rng.choice(&[1, 2, 9, 511, 512, KEY_LEN_MAX]).unwrap();
                    let first = if rng.bool() { 255 } else { rng.u8(..) };
                    let key: Vec<u8> =
                        std::iter::repeat_n(first, len - 1).chain([rng.u8(..)]).collect();
                    if rng.u8(..) < 60 {
                        let known = model.keys().next_back().cloned().unwrap_or(key);
                        batch.delete(&known);
                        model.remove(&known);
                    } else {
                        let value =
                            vec![rng.u8(..); *rng.choice(&[0, 1, 500, 3_000, 20_000]).unwrap()];
                        batch.put(&key, &value);
                        model.insert(key, value);
                    }
                }
                if round == 7 {
                    batch.put(b"large", &vec![7; VALUE_LEN_MAX]);
                    model.insert(b"large".to_vec(), vec![7; VALUE_LEN_MAX]);
                }
                writer.apply(&batch).unwrap();
                compare(&mut writer, &model, rng);
            }
            assert!(writer.map_size > VALUE_LEN_MAX);
            Box::new(writer).close().unwrap();
            compare(&mut Reader::open(&place).unwrap(), &model, rng);
        }
        assert!(Lmdb.write(&place, Purpose::Create).is_err());
        vfs.remove_file(&path).unwrap();
        assert!(matches!(Lmdb.read(&place).map(drop), Err(Error::NotFound { .. })));
        assert!(matches!(
            Lmdb.write(&place, Purpose::Update).map(drop),
            Err(Error::NotFound { .. })
        ));
    }
}
