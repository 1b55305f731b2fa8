//! Functions shared by the stores whose library opens a file by its name.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_vfs::{File, FileType, LockKind, LockMode, OpenOptions, Vfs};

use crate::ffi::failure::Failure;
use crate::files::sync_folder_of;
use crate::stores::outside;
use crate::{Error, Purpose, Result, StoreSpec};

/// Returns the last system error if it means that nothing more can be written. Libraries report it
/// as damage when they later miss what they could not write.
pub(crate) fn full() -> Option<Failure> {
    let last = io::Error::last_os_error();
    let full = matches!(
        last.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    );
    full.then_some(Failure::Io(last))
}

/// Returns the path with a suffix appended.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Returns the first `N` bytes of a store's file, the file, and its size.
///
/// Libraries that are opened without their locks do not check that the file is theirs.
///
/// # Errors
/// Returns [`Error::NotFound`] or [`Error::Io`]; [`Error::Damaged`] if the file is shorter.
pub(crate) fn head<const N: usize>(place: &StoreSpec<'_>) -> Result<([u8; N], Box<dyn File>, u64)> {
    let path = place.path;
    let file = place.vfs.open(path, OpenOptions::READ).map_err(Error::at(path))?;
    let metadata = file.metadata().map_err(Error::at(path))?;
    if metadata.file_type != FileType::File {
        return Err(Error::damaged(path, "not a regular file"));
    }
    let mut bytes = [0; N];
    if file.read_full_at(&mut bytes, 0).map_err(Error::at(path))? < N {
        return Err(Error::damaged(path, "too short"));
    }
    Ok((bytes, file, metadata.size))
}

/// Takes the lock under which a reader lets the library roll back a killed writer's transaction:
/// several readers may do so at the same time. It ends with `file`.
///
/// # Errors
/// Returns [`Error::Busy`] if another has it; [`Error::Io`].
pub(crate) fn lock_to_recover(place: &StoreSpec<'_>, file: &dyn File) -> Result<()> {
    match file.try_lock(LockKind::Flock, LockMode::Exclusive).map_err(Error::at(place.path))? {
        true => Ok(()),
        false => Err(Error::Busy { path: place.path.to_owned() }),
    }
}

/// Creates the empty file that a library will fill, readable for its owner only.
///
/// # Errors
/// Returns [`Error::Io`], also if the file exists.
pub(crate) fn create(place: &StoreSpec<'_>) -> Result<()> {
    let made = place.vfs.open(place.path, OpenOptions::create_new(0o600));
    made.map(drop).map_err(Error::at(place.path))
}

/// The file of a store that is being written.
#[derive(Debug)]
pub(crate) struct Written {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    durable: bool,
    purpose: Purpose,
    /// `true` if the file must be removed when this is dropped.
    void: bool,
    /// `true` if the file beside it was created.
    has_beside: bool,
}

impl Written {
    /// Returns the file of a place; with [`Purpose::Create`] creates it.
    ///
    /// # Errors
    /// As [`create`].
    pub(crate) fn new(place: &StoreSpec<'_>, purpose: Purpose) -> Result<Self> {
        let void = purpose == Purpose::Create;
        if void {
            create(place)?;
        }
        Ok(Self::with(place, purpose, void))
    }

    /// Returns the file of a place for a library that creates it itself. An incomplete one stays
    /// when this is dropped.
    ///
    /// # Errors
    /// As [`outside::expect`].
    pub(crate) fn of_library(place: &StoreSpec<'_>, purpose: Purpose) -> Result<Self> {
        outside::expect(place, Some(purpose))?;
        Ok(Self::with(place, purpose, false))
    }

    fn with(place: &StoreSpec<'_>, purpose: Purpose, void: bool) -> Self {
        let StoreSpec { vfs, path, durable, .. } = *place;
        let (vfs, path) = (Arc::clone(vfs), path.to_owned());
        Self { vfs, path, durable, purpose, void, has_beside: false }
    }

    /// Returns its file system.
    pub(crate) fn vfs(&self) -> &dyn Vfs {
        &*self.vfs
    }

    /// Returns its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its length in bytes.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn size(&self) -> Result<u64> {
        let metadata = self.vfs.metadata(&self.path).map_err(Error::at(&self.path))?;
        Ok(metadata.size)
    }

    /// Returns `true` if each batch must be applied completely or not at all.
    pub(crate) fn atomic(&self) -> bool {
        self.purpose == Purpose::Update
    }

    /// Returns `true` if batches must be on stable storage.
    pub(crate) fn durable(&self) -> bool {
        self.durable
    }

    /// Writes the file to stable storage, if requested.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn sync(&self) -> Result<()> {
        if !self.durable {
            return Ok(());
        }
        let at = || Error::at(&self.path);
        let file = self.vfs.open(&self.path, OpenOptions::WRITE).map_err(at())?;
        file.sync_all().map_err(at())
    }

    /// Writes the file and its name to stable storage, if requested.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn sync_with_name(&self) -> Result<()> {
        if self.durable { outside::sync(&*self.vfs, &self.path) } else { Ok(()) }
    }

    /// Creates an empty file beside it, readable for its owner only, for a library to write to, at
    /// the first call; one that exists is emptied.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn create_beside(&mut self, suffix: &str) -> Result<()> {
        if self.has_beside {
            return Ok(());
        }
        let path = beside(&self.path, suffix);
        let made = self.vfs.open(&path, OpenOptions::create(0o600));
        made.and_then(|file| file.set_len(0)).map_err(Error::at(&path))?;
        self.has_beside = true;
        Ok(())
    }

    /// Commits the file, after the library has closed it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn keep(mut self) -> Result<()> {
        self.sync()?;
        if self.durable && self.void {
            sync_folder_of(&*self.vfs, &self.path)?;
        }
        self.void = false;
        Ok(())
    }

    /// Keeps the file, whatever its content.
    pub(crate) fn leave(mut self) {
        self.void = false;
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        if self.void {
            // A file that cannot be removed was never closed, so the next creation fails.
            drop(self.vfs.remove_file(&self.path));
        }
    }
}

#[cfg(test)]
mod tests {
    use barid_vfs::MemVfs;

    use super::*;

    #[test]
    fn a_leftover_beside_is_emptied() {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        let left = vfs.open(Path::new("/store.wal"), OpenOptions::create(0o600)).unwrap();
        left.write_all_at(b"of another store", 0).unwrap();
        let path = Path::new("/store");
        let place = StoreSpec { vfs: &vfs, path, builtin: None, durable: false };
        let mut file = Written::new(&place, Purpose::Create).unwrap();
        file.create_beside(".wal").unwrap();
        assert_eq!(left.metadata().unwrap().size, 0);
    }
}
