//! A place and its store: sessions under one lock rule for all.
//!
//! Each library has rules of its own for who may have a file open beside whom, some of them unsafe
//! (two handles in one process) and some none at all. So none of them is asked: `<path>.lock` is
//! locked (flock) by us, shared by readers and exclusively by a writer, and sessions are short.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use barid_vfs::{File, FileType, LockError, LockKind, LockMode, OpenOptions, Vfs, lock_file};

use crate::kv::Visit;
use crate::{Batch, Choice, Error, KvRead, KvWrite, Place, Purpose, Result};

/// How long a session waits for another to end.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// A place where a store keeps pairs. Opens nothing by itself.
#[derive(Clone, Debug)]
pub struct Store {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    choice: Choice,
    durable: bool,
}

/// A session of reading: the pairs as they were when it began.
#[derive(Debug)]
pub struct Reader {
    kv: Box<dyn KvRead>,
    _lock: Box<dyn File>,
}

/// A session of writing.
#[derive(Debug)]
pub struct Writer {
    kv: Box<dyn KvWrite>,
    _lock: Box<dyn File>,
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
    /// # Errors
    /// [`Error::NotFound`], [`Error::Damaged`], [`Error::Busy`], [`Error::Unavailable`],
    /// [`Error::Io`].
    pub fn read(&self) -> Result<Reader> {
        let lock = self.lock(LockMode::Shared)?;
        let kv = self.choice.kv.read(&self.place())?;
        Ok(Reader { kv, _lock: lock })
    }

    /// Makes a new store and begins to write it.
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn create(&self) -> Result<Writer> {
        self.writer(Purpose::Create)
    }

    /// Begins to write; waits for others to end, but not for long.
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn write(&self) -> Result<Writer> {
        self.writer(Purpose::Update)
    }

    fn writer(&self, purpose: Purpose) -> Result<Writer> {
        let lock = self.lock(LockMode::Exclusive)?;
        let kv = self.choice.kv.write(&self.place(), purpose)?;
        Ok(Writer { kv, _lock: lock })
    }

    fn lock(&self, mode: LockMode) -> Result<Box<dyn File>> {
        let path = self.beside(".lock");
        let file = self.vfs.open(&path, OpenOptions::create(0o600)).map_err(Error::at(&path))?;
        let how = (LockKind::Flock, mode);
        match lock_file(&*self.vfs, &*file, &path, how, LOCK_TIMEOUT) {
            Ok(()) => Ok(file),
            Err(LockError::Io { path, source }) => Err(Error::Io { path, source }),
            Err(_) => Err(Error::Busy { path: self.path.clone() }),
        }
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    }

    /// Removes it with all its files. Sessions that are open may fail from then on.
    ///
    /// # Errors
    /// What the file system says; what is gone already is none.
    pub fn remove(&self) -> Result<()> {
        let suffixes = self.choice.kv.companions().iter().copied();
        for suffix in suffixes.chain(["", ".lock"]) {
            remove(&*self.vfs, &self.beside(suffix))?;
        }
        Ok(())
    }
}

/// Removes a file, or a folder of files.
fn remove(vfs: &dyn Vfs, path: &Path) -> Result<()> {
    let gone = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(Error::at(path)(error)),
    };
    match vfs.symlink_metadata(path) {
        Ok(found) if found.file_type == FileType::Dir => {
            let mut names = Vec::new();
            let dir = vfs.open_dir(path).map_err(Error::at(path))?;
            dir.list(&mut |name, _| names.push(name.to_vec())).map_err(Error::at(path))?;
            for name in names {
                use std::os::unix::ffi::OsStrExt as _;
                vfs.remove_file(&path.join(std::ffi::OsStr::from_bytes(&name))).or_else(gone)?;
            }
            vfs.remove_dir(path).or_else(gone)
        }
        Ok(_) => vfs.remove_file(path).or_else(gone),
        Err(error) => gone(error),
    }
}

impl Reader {
    /// Shows the value of `key`; `false` if there is none.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Io`].
    pub fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.kv.get(key, visit)
    }

    /// Visits all pairs whose key begins with `prefix`, as [`KvRead::scan`].
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        self.kv.scan(prefix, visit)
    }
}

impl Writer {
    /// As [`Reader::get`]; sees what was written.
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.kv.get(key, visit)
    }

    /// As [`Reader::scan`]; sees what was written.
    ///
    /// # Errors
    /// As [`Reader::get`].
    pub fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        self.kv.scan(prefix, visit)
    }

    /// Does what the batch says, as [`KvWrite::apply`].
    ///
    /// # Errors
    /// As [`KvWrite::apply`].
    pub fn apply(&mut self, batch: &Batch) -> Result<()> {
        self.kv.apply(batch)
    }

    /// Ends the session; what a new store holds counts from now on.
    ///
    /// # Errors
    /// As [`KvWrite::close`].
    pub fn close(self) -> Result<()> {
        self.kv.close()
    }
}
