//! A path and its store, with the same session rules for all stores.
//!
//! Each library has its own rules for concurrent access to a file; some are unsafe (two handles in
//! one process) and some libraries have none. So none of them is used: barid locks `<path>.lock`,
//! shared by readers and exclusively by a writer, and sessions are short. Nor is a library trusted
//! with a file that it did not close itself: see `docs/design/stores.md`.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_vfs::{FileType, LockMode, Timestamp, Vfs};

use crate::files::{self, StoreFile, beside};
use crate::kv::Visit;
use crate::lock::Lock;
use crate::probe::{opening, probe};
use crate::seal::{self, Known};
use crate::{Batch, Choice, Error, KvRead, KvWrite, Op, Purpose, Result, StoreSpec};

/// Suffix of a store's lock.
const LOCK: &[u8] = b".lock";
/// Suffix of the copy of a store while it is written.
const COPY: &[u8] = b".copy";
/// Bytes of pairs that are copied in one batch.
const COPY_BATCH_LEN: usize = 256 * 1024;

/// A path where a store keeps pairs. Creating it opens nothing.
#[derive(Clone, Debug)]
pub struct Store {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    choice: Choice,
    durable: bool,
}

/// The disk space of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes of all its files.
    pub size: u64,
    /// Bytes of the blocks allocated for them.
    pub allocated: u64,
}

/// A read session: the pairs in their state at its beginning.
#[derive(Debug)]
pub struct Reader {
    kv: Closing<dyn KvRead>,
    key_len_max: usize,
    _lock: Lock,
}

/// A write session.
#[derive(Debug)]
pub struct Writer {
    kv: Closing<dyn KvWrite>,
    store: Store,
    /// `true` if the store rolls back a failed batch.
    takes_back: bool,
    /// `true` if a part of a batch may have been applied.
    torn: bool,
    _lock: Lock,
}

impl Store {
    /// Returns the store of `choice` at `path`.
    pub fn new(vfs: Arc<dyn Vfs>, path: PathBuf, choice: Choice) -> Self {
        Self { vfs, path, choice, durable: false }
    }

    /// Makes commits wait for stable storage before they are acknowledged.
    pub fn durable(self) -> Self {
        Self { durable: true, ..self }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its kind and compression.
    pub fn choice(&self) -> Choice {
        self.choice
    }

    fn place(&self) -> StoreSpec<'_> {
        let Self { vfs, path, choice, durable } = self;
        StoreSpec { vfs, path, builtin: choice.builtin, durable: *durable }
    }

    /// Begins to read; waits some seconds for a writer to end.
    ///
    /// A store that was not closed cleanly, or was changed since, is first read completely in a
    /// child; a successful result is stored in the seal.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Damaged`], [`Error::Busy`], [`Error::Unavailable`],
    /// [`Error::Io`].
    pub fn read(&self) -> Result<Reader> {
        // A look-up of a missing store leaves nothing behind.
        self.vfs.symlink_metadata(&self.path).map_err(Error::at(&self.path))?;
        let lock = self.lock(LockMode::Shared)?;
        self.vouch_for_reading()?;
        let kv = opening(|| self.choice.kv.read(&self.place()))?;
        let key_len_max = self.choice.kv.capabilities().key_len_max;
        Ok(Reader { kv: Closing(Some(kv)), key_len_max, _lock: lock })
    }

    /// Creates a new store and begins to write it.
    ///
    /// # Errors
    /// As [`Store::read`]; also if the store exists.
    pub fn create(&self) -> Result<Writer> {
        self.writer(Purpose::Create)
    }

    /// Begins to write; waits some seconds for others to end.
    ///
    /// A store that was not closed cleanly, or was changed since, is probed as for [`Store::read`],
    /// and replaced by a copy.
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn write(&self) -> Result<Writer> {
        self.vfs.symlink_metadata(&self.path).map_err(Error::at(&self.path))?;
        self.writer(Purpose::Update)
    }

    fn writer(&self, purpose: Purpose) -> Result<Writer> {
        let lock = self.lock(LockMode::Exclusive)?;
        let (vfs, path) = (&*self.vfs, &*self.path);
        match purpose {
            Purpose::Update => self.vouch_for_writing()?,
            Purpose::Create => match vfs.symlink_metadata(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    // A library would apply the log of an earlier store to the new one.
                    files::remove_companion_files(vfs, path, self.choice.kv.companions())?;
                    self.remove_unfinished()?;
                }
                Err(error) => return Err(Error::at(path)(error)),
                Ok(_) => return Err(Error::at(path)(ErrorKind::AlreadyExists.into())),
            },
        }
        seal::begin(vfs, path, purpose)?;
        let opened = opening(|| self.choice.kv.write(&self.place(), purpose));
        let kv = opened.inspect_err(|_| drop(seal::remove(vfs, path)))?;
        let atomic = self.choice.kv.capabilities().atomic;
        let takes_back = atomic && purpose == Purpose::Update;
        let (kv, store) = (Closing(Some(kv)), self.clone());
        Ok(Writer { kv, store, takes_back, torn: false, _lock: lock })
    }

    fn lock(&self, mode: LockMode) -> Result<Lock> {
        let alone = self.choice.kv.capabilities().one_handle;
        Lock::take(&*self.vfs, &self.path, &beside(&self.path, LOCK), mode, alone)
    }

    /// Makes sure that the library can read the store: by the seal, or by a probe, whose result is
    /// stored in the seal. A reader's lock is sufficient: a probe only reads.
    fn vouch_for_reading(&self) -> Result<()> {
        let looks = self.look()?;
        if self.sealed(&looks).is_none() {
            self.was_finished()?;
            probe(self.choice.kv, &self.place(), looks.size)?;
            // A change meanwhile would be sealed with it.
            let describe = |looks: &Looks| self.describe(looks, Known::Readable);
            if describe(&self.look()?) == describe(&looks) {
                self.seal(&looks, Known::Readable);
            }
        }
        Ok(())
    }

    /// Makes sure that the library can write the store. Reading does not check free lists and the
    /// like, so a store that is only known to be readable is copied.
    fn vouch_for_writing(&self) -> Result<()> {
        let looks = self.look()?;
        let known = self.sealed(&looks);
        if known.is_none() {
            self.was_finished()?;
            probe(self.choice.kv, &self.place(), looks.size)?;
        }
        if known == Some(Known::Closed) || self.choice.kv.trusted() {
            return Ok(());
        }
        self.copy()
    }

    /// Rejects a store whose writer did not finish, unless the library rolls back half a batch.
    fn was_finished(&self) -> Result<()> {
        let what = match seal::unfinished(&*self.vfs, &self.path) {
            Some(Purpose::Create) => "it was never closed",
            Some(Purpose::Update) if !self.choice.kv.capabilities().atomic => {
                "its last writer did not close it"
            }
            _ => return Ok(()),
        };
        Err(Error::damaged(&self.path, what))
    }

    /// Replaces the store by a new one with the same pairs.
    fn copy(&self) -> Result<()> {
        let (vfs, companions) = (&*self.vfs, self.choice.kv.companions());
        let copy = Self { path: beside(&self.path, COPY), ..self.clone() };
        copy.remove_files()?;
        self.copy_to(&copy).inspect_err(|_| drop(copy.remove_files()))?;
        seal::remove(vfs, &self.path)?;
        files::replace(vfs, &copy.path, &self.path, companions)?;
        match self.durable {
            true => files::sync_folder_of(vfs, &self.path),
            false => Ok(()),
        }
    }

    fn copy_to(&self, copy: &Self) -> Result<()> {
        let kv = self.choice.kv;
        let mut from = Closing(Some(opening(|| kv.read(&self.place()))?));
        let mut to = Closing(Some(opening(|| kv.write(&copy.place(), Purpose::Create))?));
        let mut batch = Batch::new();
        let mut applied = Ok(());
        from.get_mut().scan(b"", &mut |key, value| {
            batch.put(key, value);
            if batch.bytes_len() >= COPY_BATCH_LEN {
                applied = to.get_mut().apply(&batch);
                batch.clear();
            }
            applied.is_ok()
        })?;
        applied?;
        to.get_mut().apply(&batch)?;
        let to = to.0.take().expect("because nothing else takes it");
        opening(|| to.close())
    }

    /// Returns the state that the seal confirms.
    fn sealed(&self, looks: &Looks) -> Option<Known> {
        seal::read(&*self.vfs, &self.path, self.choice.kv.name(), &looks.found)
    }

    fn describe(&self, looks: &Looks, known: Known) -> Vec<u8> {
        seal::describe(&*self.vfs, self.choice.kv.name(), known, &looks.found)
    }

    /// Seals files in this state. If that fails the next session probes.
    fn seal(&self, looks: &Looks, known: Known) {
        let seal = self.describe(looks, known);
        // A store that detects damage itself need not show when it changed.
        let newest = looks.found.iter().map(|found| found.metadata.changed).max();
        let newest = newest.filter(|_| !self.choice.kv.trusted());
        let newest = newest.unwrap_or(Timestamp { unix_nanos: i64::MIN });
        if seal::write(&*self.vfs, &self.path, &seal, newest).is_err() {
            let _ = seal::remove(&*self.vfs, &self.path);
        }
    }

    /// Returns the state of the files now.
    fn look(&self) -> Result<Looks> {
        let found = files::list(&*self.vfs, &self.path, self.choice.kv.companions())?;
        let files = found.iter().filter(|found| found.metadata.file_type != FileType::Dir);
        let size = files.map(|found| found.metadata.size).sum();
        Ok(Looks { found, size })
    }

    /// Returns its disk space; 0 if it does not exist. Its lock and seal do not count.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn space(&self) -> Result<Space> {
        let found = files::list(&*self.vfs, &self.path, self.choice.kv.companions())?;
        let files = found.iter().map(|found| found.metadata);
        let files = files.filter(|metadata| metadata.file_type != FileType::Dir);
        Ok(files.fold(Space::default(), |sum, metadata| Space {
            size: sum.size + metadata.size,
            allocated: sum.allocated + metadata.allocated,
        }))
    }

    /// Removes the store with all its files. Open sessions may fail from then on.
    ///
    /// # Errors
    /// Returns an error of the file system; files that are already gone are not an error.
    pub fn remove(&self) -> Result<()> {
        let (vfs, path) = (&*self.vfs, &*self.path);
        seal::remove(vfs, path)?;
        self.remove_files()?;
        Self { path: beside(path, COPY), ..self.clone() }.remove_files()?;
        let lock = beside(path, LOCK);
        files::gone(&lock, vfs.remove_file(&lock))
    }

    /// Removes all files of the store itself, also those of a creation that was killed.
    fn remove_files(&self) -> Result<()> {
        files::remove(&*self.vfs, &self.path, self.choice.kv.companions())?;
        self.remove_unfinished()
    }

    /// Removes the file that a killed process left when it created the store.
    fn remove_unfinished(&self) -> Result<()> {
        let Some(prefix) = self.choice.kv.unfinished_prefix() else { return Ok(()) };
        let Some(name) = self.path.file_name() else { return Ok(()) };
        let mut unfinished = OsString::from(prefix);
        unfinished.push(name);
        let at = self.path.with_file_name(unfinished);
        files::gone(&at, self.vfs.remove_file(&at))
    }
}

/// The state of a store's files.
struct Looks {
    found: Vec<StoreFile>,
    size: u64,
}

impl Reader {
    /// Passes the value of `key` to `visit`; `false` if there is none.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Io`].
    pub fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if key.is_empty() || key.len() > self.key_len_max {
            return Ok(false);
        }
        self.kv.get_mut().get(key, visit)
    }

    /// Visits all pairs whose key begins with `prefix`, as [`KvRead::scan`] does.
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        if prefix.len() > self.key_len_max {
            return Ok(());
        }
        self.kv.get_mut().scan(prefix, visit)
    }
}

impl Writer {
    /// Passes the value of `key` to `visit` as [`Reader::get`] does, including the session's own
    /// writes.
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if key.is_empty() || key.len() > self.store.choice.kv.capabilities().key_len_max {
            return Ok(false);
        }
        self.kv.get_mut().get(key, visit)
    }

    /// Visits pairs as [`Reader::scan`] does, including the session's own writes.
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        if prefix.len() > self.store.choice.kv.capabilities().key_len_max {
            return Ok(());
        }
        self.kv.get_mut().scan(prefix, visit)
    }

    /// Applies a batch, as [`KvWrite::apply`] does.
    ///
    /// # Errors
    /// As [`KvWrite::apply`]; with [`Error::TooLong`] nothing of the batch is applied.
    pub fn apply(&mut self, batch: &Batch) -> Result<()> {
        self.check(batch)?;
        let applied = self.kv.get_mut().apply(batch);
        self.torn |= applied.is_err() && !self.takes_back;
        applied
    }

    fn check(&self, batch: &Batch) -> Result<()> {
        let can = self.store.choice.kv.capabilities();
        let too_long = |what, len, max| {
            let path = self.store.path.clone();
            Err(Error::TooLong { path, what, len, max })
        };
        for op in batch.iter() {
            let (key, value_len) = match op {
                Op::Put { key, value } => (key, value.len()),
                Op::Delete { key } => (key, 0),
            };
            if key.is_empty() {
                let source = std::io::Error::other("an empty key");
                return Err(Error::Io { path: self.store.path.clone(), source });
            }
            if key.len() > can.key_len_max {
                return too_long("key", key.len(), can.key_len_max);
            }
            if value_len > can.value_len_max {
                return too_long("value", value_len, can.value_len_max);
            }
        }
        Ok(())
    }

    /// Ends the session and commits a new store. If the session is dropped instead, a new store is
    /// damaged, as is one without [`crate::Capabilities::atomic`]; any other is probed before it is
    /// opened again.
    ///
    /// # Errors
    /// As [`KvWrite::close`]; [`Error::Damaged`] if a batch failed that the store does not roll
    /// back: the session then ends as if dropped.
    pub fn close(self) -> Result<()> {
        if self.torn {
            return Err(Error::damaged(&self.store.path, "a batch was not written whole"));
        }
        let Self { mut kv, store, _lock, .. } = self;
        let kv = kv.0.take().expect("because nothing else takes it");
        opening(|| kv.close())?;
        store.seal(&store.look()?, Known::Closed);
        Ok(())
    }
}

/// An open handle; it is closed while no child is created.
#[derive(Debug)]
struct Closing<T: ?Sized>(Option<Box<T>>);

impl<T: ?Sized> Closing<T> {
    fn get_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("because it is there until it is closed")
    }
}

impl<T: ?Sized> Drop for Closing<T> {
    fn drop(&mut self) {
        if let Some(kv) = self.0.take() {
            opening(|| drop(kv));
        }
    }
}

#[cfg(test)]
mod tests;
