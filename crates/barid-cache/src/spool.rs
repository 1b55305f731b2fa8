//! Bytes stored for later in an unnamed file.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use barid_vfs::{File, OpenOptions, Vfs};

use crate::error::{Error, Result};
use crate::random::random_u64;

/// A file in the folder of a cache that is removed when it is closed.
#[derive(Debug)]
pub(crate) struct Spool {
    file: Box<dyn File>,
    path: PathBuf,
    end: AtomicU64,
}

/// Returns the name of a file that becomes the cache at `path`, or is needed only while one is
/// built; after a crash `CacheDir::prune` removes it.
pub(crate) fn temporary_path(path: &Path, number: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".tmp{number:016x}"));
    PathBuf::from(name)
}

impl Spool {
    /// Creates a spool for the cache at `cache`, whose folder must exist.
    pub(crate) fn create(vfs: &dyn Vfs, cache: &Path) -> Result<Self> {
        let path = temporary_path(cache, random_u64());
        let file = vfs.open(&path, OpenOptions::create_new(0o600)).map_err(Error::at(&path))?;
        vfs.remove_file(&path).map_err(Error::at(&path))?;
        Ok(Self { file, path, end: AtomicU64::new(0) })
    }

    /// Reserves `len` bytes, and returns their offset.
    pub(crate) fn reserve(&self, len: u64) -> u64 {
        self.end.fetch_add(len, Ordering::Relaxed)
    }

    /// Writes into reserved bytes.
    pub(crate) fn write(&self, bytes: &[u8], at: u64) -> Result<()> {
        self.file.write_all_at(bytes, at).map_err(Error::at(&self.path))
    }

    /// Returns the number of reserved bytes.
    pub(crate) fn len(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    /// Fills a buffer with the bytes written at `at`.
    pub(crate) fn read(&self, buffer: &mut [u8], at: u64) -> Result<()> {
        self.file.read_exact_at(buffer, at).map_err(Error::at(&self.path))
    }
}
