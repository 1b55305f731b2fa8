//! Making many new files durable together.

use std::io::ErrorKind;
use std::path::Path;

use barid_vfs::{Dir, File, OpenOptions, Vfs};

use crate::{Error, Result};

/// With this many files, one sync of the file system takes the place of one of each file.
pub(crate) const SYNC_FS_FILES_MIN: usize = 32;

/// New files of one folder that are to be durable before anything else is done with them.
#[derive(Debug)]
pub(crate) struct NewFiles<'a> {
    vfs: &'a dyn Vfs,
    path: &'a Path,
    /// The folder, if its file system is to be synced. Open before anything is written, so that it
    /// tells of everything that cannot be.
    dir: Option<Box<dyn Dir>>,
    barriers: u64,
}

impl<'a> NewFiles<'a> {
    /// Begins to write `count` files in the folder `path`.
    pub(crate) fn begin(vfs: &'a dyn Vfs, path: &'a Path, count: usize) -> Result<Self> {
        let dir = match count {
            SYNC_FS_FILES_MIN.. => Some(vfs.open_dir(path).map_err(Error::at(path))?),
            _ => None,
        };
        Ok(Self { vfs, path, dir, barriers: 0 })
    }

    /// A file is written; it need not stay open.
    pub(crate) fn written(&mut self, file: &dyn File) -> std::io::Result<()> {
        if self.dir.is_none() {
            file.sync_all()?;
            self.barriers += 1;
        }
        Ok(())
    }

    /// Makes the files and their names durable, `files` being all that were written; tells how
    /// often was waited for the disk for them.
    pub(crate) fn finish<'f>(mut self, files: impl Iterator<Item = &'f Path>) -> Result<u64> {
        if let Some(dir) = &self.dir {
            match dir.sync_file_system() {
                Ok(()) => return Ok(1),
                Err(error) if error.kind() == ErrorKind::Unsupported => {}
                Err(source) => return Err(Error::at(self.path)(source)),
            }
            for path in files {
                let file = self.vfs.open(path, OpenOptions::WRITE);
                file.and_then(|file| file.sync_all()).map_err(Error::at(path))?;
                self.barriers += 1;
            }
        }
        self.vfs.sync_dir(self.path).map_err(Error::at(self.path))?;
        Ok(self.barriers + 1)
    }
}
