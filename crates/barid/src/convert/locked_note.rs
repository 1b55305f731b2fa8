//! A file in the state folder that notes unfinished work, and the lock of the process that does it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use barid_vfs::le::{LeReader, PutLe as _};
use barid_vfs::{File, LockKind, LockMode, OpenOptions, Vfs, atomic_replace};
use xxhash_rust::xxh3::xxh3_64;

use crate::{Error, Result};

/// Returns the bytes of a note: magic, version, what `write` appends, and the checksum of all
/// before.
pub(super) fn sealed(magic: &[u8; 8], version: u32, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = magic.to_vec();
    out.put_u32(version);
    write(&mut out);
    out.put_u64(xxh3_64(&out));
    out
}

/// Returns a reader of what [`sealed`] had appended; `None` if the bytes are of another kind or
/// version, or damaged.
pub(super) fn opened<'b>(bytes: &'b [u8], magic: &[u8; 8], version: u32) -> Option<LeReader<'b>> {
    let (body, sum) = bytes.split_last_chunk::<8>()?;
    if xxh3_64(body) != u64::from_le_bytes(*sum) {
        return None;
    }
    let mut rest = LeReader(body.strip_prefix(magic)?);
    (rest.u32()? == version).then_some(rest)
}

/// Location of a note. It is locked as long as this value exists.
#[derive(Debug)]
pub(super) struct LockedNote<'a> {
    vfs: &'a dyn Vfs,
    dir: PathBuf,
    path: PathBuf,
    lock_path: PathBuf,
    /// The lock, released when this is dropped.
    _lock: Box<dyn File>,
}

impl<'a> LockedNote<'a> {
    /// Locates the note with a name in a folder, and locks it; `None` if another process has it
    /// locked.
    pub(super) fn lock(vfs: &'a dyn Vfs, dir: &Path, name: &str) -> Result<Option<Self>> {
        barid_vfs::create_dir_durable(vfs, dir, 0o700).map_err(Error::at(dir))?;
        let path = dir.join(name);
        let lock_path = dir.join(format!("{name}.lock"));
        let take = || {
            let lock = vfs.open(&lock_path, OpenOptions::create(0o600))?;
            let is_mine = lock.try_lock(LockKind::Flock, LockMode::Exclusive)?
                // The process that held the lock has removed the file.
                && vfs.metadata(&lock_path)?.inode == lock.metadata()?.inode;
            Ok(is_mine.then_some(lock))
        };
        let lock = take().map_err(Error::at(&lock_path))?;
        Ok(lock.map(|lock| Self { vfs, dir: dir.to_owned(), path, lock_path, _lock: lock }))
    }

    /// Loads the note; `None` if there is none.
    pub(super) fn read(&self, len_max: u64) -> Result<Option<Vec<u8>>> {
        match self.vfs.read(&self.path, len_max) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::at(&self.path)(source)),
        }
    }

    /// Writes the note. Durable when this returns.
    pub(super) fn write(&self, bytes: &[u8]) -> Result<()> {
        let write = |file: &dyn File| file.write_all_at(bytes, 0);
        let written = atomic_replace(self.vfs, &self.path, 0o600, true, write);
        written.map(drop).map_err(Error::at(&self.path))
    }

    /// Removes the note, durably.
    pub(super) fn remove(&self) -> Result<()> {
        // Removed first, before another process can create it anew.
        let _ = self.vfs.remove_file(&self.lock_path);
        match self.vfs.remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::at(&self.path)(error)),
            _ => self.vfs.sync_dir(&self.dir).map_err(Error::at(&self.dir)),
        }
    }
}
