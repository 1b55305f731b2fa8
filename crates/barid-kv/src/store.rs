//! A place and its store: sessions under one rule for all.
//!
//! Each library has rules of its own for who may have a file open beside whom, some of them unsafe
//! (two handles in one process) and some none at all. So none of them is asked: `<path>.lock` is
//! locked by us, shared by readers and exclusively by a writer, and sessions are short. Nor is a
//! library trusted with a file that it did not close itself: see `docs/design/stores.md`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_vfs::{FileType, LockMode, Timestamp, Vfs};

use crate::files::{self, Found, beside};
use crate::kv::Visit;
use crate::lock::Lock;
use crate::probe::{opening, probe};
use crate::seal::{self, Known};
use crate::{Batch, Choice, Error, KvRead, KvWrite, Op, Place, Purpose, Result};

/// What a store's lock is called, after its path.
const LOCK: &[u8] = b".lock";
/// What a copy of it is called while it is made.
const COPY: &[u8] = b".copy";
/// Bytes of pairs that are copied at once.
const COPY_BATCH_LEN: usize = 256 * 1024;

/// A place where a store keeps pairs. Opens nothing by itself.
#[derive(Clone, Debug)]
pub struct Store {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    choice: Choice,
    durable: bool,
}

/// What a store takes on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes of all its files.
    pub size: u64,
    /// Bytes of the blocks that are allocated for them.
    pub allocated: u64,
}

/// A session of reading: the pairs as they were when it began.
#[derive(Debug)]
pub struct Reader {
    kv: Closing<dyn KvRead>,
    key_len_max: usize,
    _lock: Lock,
}

/// A session of writing.
#[derive(Debug)]
pub struct Writer {
    kv: Closing<dyn KvWrite>,
    store: Store,
    /// Whether a batch that could not be applied left nothing behind.
    takes_back: bool,
    /// Whether there may be a part of a batch.
    torn: bool,
    _lock: Lock,
}

impl Store {
    /// The store of `choice` at `path`.
    pub fn new(vfs: Arc<dyn Vfs>, path: PathBuf, choice: Choice) -> Self {
        Self { vfs, path, choice, durable: false }
    }

    /// As [`Store::new`], with commits that are on stable storage before they are acknowledged.
    pub fn durable(self) -> Self {
        Self { durable: true, ..self }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is.
    pub fn choice(&self) -> Choice {
        self.choice
    }

    fn place(&self) -> Place<'_> {
        let Self { vfs, path, choice, durable } = self;
        Place { vfs, path, builtin: choice.builtin, durable: *durable }
    }

    /// Begins to read; waits for a writer to end, but not for long.
    ///
    /// Whatever was not closed cleanly, or was touched since, is read whole in a child first; that
    /// it can be read so is remembered.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Damaged`], [`Error::Busy`], [`Error::Unavailable`],
    /// [`Error::Io`].
    pub fn read(&self) -> Result<Reader> {
        // Looking for what is not there leaves nothing behind.
        self.vfs.symlink_metadata(&self.path).map_err(Error::at(&self.path))?;
        let lock = self.lock(LockMode::Shared)?;
        self.vouch_for_reading()?;
        let kv = opening(|| self.choice.kv.read(&self.place()))?;
        let key_len_max = self.choice.kv.capabilities().key_len_max;
        Ok(Reader { kv: Closing(Some(kv)), key_len_max, _lock: lock })
    }

    /// Makes a new store and begins to write it.
    ///
    /// # Errors
    /// As [`Store::read`]; also if something is there.
    pub fn create(&self) -> Result<Writer> {
        self.writer(Purpose::Create)
    }

    /// Begins to write; waits for others to end, but not for long.
    ///
    /// Whatever was not closed cleanly, or was touched since, is probed as for [`Store::read`], and
    /// a copy of it takes its place.
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
            Purpose::Create if vfs.symlink_metadata(path).is_err() => {}
            Purpose::Create => return Err(Error::at(path)(ErrorKind::AlreadyExists.into())),
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

    /// Makes sure that the library may read what is there: by the seal, or by a probe, which is
    /// remembered. A reader's lock is enough: a probe only reads.
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

    /// Makes sure that the library may write what is there. Lists of free space and the like are
    /// followed by nobody who reads, so what can only be read is copied.
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

    /// Refuses what a writer left half way, unless the library takes half a batch back.
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

    /// Replaces what is there by a new store of the same pairs.
    fn copy(&self) -> Result<()> {
        let (vfs, companions) = (&*self.vfs, self.choice.kv.companions());
        let copy = Self { path: beside(&self.path, COPY), ..self.clone() };
        files::remove(vfs, &copy.path, companions)?;
        self.copy_to(&copy).inspect_err(|_| drop(files::remove(vfs, &copy.path, companions)))?;
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

    /// What the seal says.
    fn sealed(&self, looks: &Looks) -> Option<Known> {
        seal::read(&*self.vfs, &self.path, self.choice.kv.name(), &looks.found)
    }

    fn describe(&self, looks: &Looks, known: Known) -> Vec<u8> {
        seal::describe(&*self.vfs, self.choice.kv.name(), known, &looks.found)
    }

    /// Seals what looks so. Where that cannot be done the next session probes.
    fn seal(&self, looks: &Looks, known: Known) {
        let seal = self.describe(looks, known);
        // A store that finds damage by itself need not show when it was done.
        let newest = looks.found.iter().map(|found| found.metadata.changed).max();
        let newest = newest.filter(|_| !self.choice.kv.trusted());
        let newest = newest.unwrap_or(Timestamp { unix_nanos: i64::MIN });
        if seal::write(&*self.vfs, &self.path, &seal, newest).is_err() {
            let _ = seal::remove(&*self.vfs, &self.path);
        }
    }

    /// What the files look like now.
    fn look(&self) -> Result<Looks> {
        let found = files::list(&*self.vfs, &self.path, self.choice.kv.companions())?;
        let files = found.iter().filter(|found| found.metadata.file_type != FileType::Dir);
        let size = files.map(|found| found.metadata.size).sum();
        Ok(Looks { found, size })
    }

    /// What it takes on the disk; nothing if it is not there. Its lock and seal do not count.
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

    /// Removes it with all its files. Sessions that are open may fail from then on.
    ///
    /// # Errors
    /// What the file system says; what is gone already is none.
    pub fn remove(&self) -> Result<()> {
        let (vfs, path) = (&*self.vfs, &*self.path);
        seal::remove(vfs, path)?;
        for path in [path, &beside(path, COPY)] {
            files::remove(vfs, path, self.choice.kv.companions())?;
        }
        let lock = beside(path, LOCK);
        files::gone(&lock, vfs.remove_file(&lock))
    }
}

/// What the files of a store look like.
struct Looks {
    found: Vec<Found>,
    size: u64,
}

impl Reader {
    /// Shows the value of `key`; `false` if there is none.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Io`].
    pub fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if key.is_empty() || key.len() > self.key_len_max {
            return Ok(false);
        }
        self.kv.get_mut().get(key, visit)
    }

    /// Visits all pairs whose key begins with `prefix`, as [`KvRead::scan`].
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
    /// As [`Reader::get`]; sees what was written.
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if key.is_empty() || key.len() > self.store.choice.kv.capabilities().key_len_max {
            return Ok(false);
        }
        self.kv.get_mut().get(key, visit)
    }

    /// As [`Reader::scan`]; sees what was written.
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        if prefix.len() > self.store.choice.kv.capabilities().key_len_max {
            return Ok(());
        }
        self.kv.get_mut().scan(prefix, visit)
    }

    /// Does what the batch says, as [`KvWrite::apply`].
    ///
    /// # Errors
    /// As [`KvWrite::apply`]; [`Error::TooLong`], and then nothing of the batch is done.
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

    /// Ends the session; what a new store holds counts from now on. Dropped without it, a new
    /// store is damaged, as is one without [`crate::Capabilities::atomic`], and any other is probed
    /// before it is opened again.
    ///
    /// # Errors
    /// As [`KvWrite::close`]; [`Error::Damaged`] if a batch failed that the store does not take
    /// back, and then it is as if this was dropped.
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

/// What is open; it is closed while no child is made.
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
