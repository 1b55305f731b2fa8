//! Making many new files durable together.

use std::path::Path;

use barid_mailbox::{Error, Result};
use barid_vfs::{Dir, File, Vfs};

/// With at least this many files, one sync of the file system replaces one of each file.
pub(crate) const SYNC_FS_FILES_MIN: usize = 32;

/// New files of one folder that are to be durable before anything else is done with them.
#[derive(Debug)]
pub(crate) struct NewFiles<'a> {
    vfs: &'a dyn Vfs,
    path: &'a Path,
    /// The folder, if its file system is to be synced. It is opened before anything is written, so
    /// that it reports every write error.
    dir: Option<Box<dyn Dir>>,
    barriers: u64,
}

impl<'a> NewFiles<'a> {
    /// Begins to write `count` files in the folder `path`.
    pub(crate) fn begin(vfs: &'a dyn Vfs, path: &'a Path, count: usize) -> Result<Self> {
        let mut new = Self { vfs, path, dir: None, barriers: 0 };
        if count >= SYNC_FS_FILES_MIN {
            let dir = vfs.open_dir(path).map_err(Error::at(path))?;
            // A file that is closed may have lost its error: files that cannot be synced together
            // are synced while they are open.
            let is_told = dir.syncs_file_system().map_err(Error::at(path))?;
            new.dir = is_told.then_some(dir);
        }
        Ok(new)
    }

    /// Records that a file is written; it need not stay open.
    pub(crate) fn written(&mut self, file: &dyn File) -> std::io::Result<()> {
        if self.dir.is_none() {
            file.sync_all()?;
            self.barriers += 1;
        }
        Ok(())
    }

    /// Makes the files and their names durable; returns the number of barriers used for them.
    pub(crate) fn finish(self) -> Result<u64> {
        let (vfs, path, is_named) = (self.vfs, self.path, self.dir.is_some());
        let barriers = self.finish_files()?;
        if is_named {
            return Ok(barriers);
        }
        vfs.sync_dir(path).map_err(Error::at(path))?;
        Ok(barriers + 1)
    }

    /// Makes the files durable, for names that they will have in another folder; returns the number
    /// of barriers used for them.
    pub(crate) fn finish_files(self) -> Result<u64> {
        let Some(dir) = &self.dir else { return Ok(self.barriers) };
        dir.sync_file_system().map_err(Error::at(self.path))?;
        Ok(1)
    }
}

#[cfg(test)]
mod tests {
    use barid_vfs::{CallKind, CrashVfs, Fault, FaultVfs, MemVfs, OpenOptions};

    use super::*;

    const FOLDER: &str = "/new";

    /// Writes so many files, closing each at once; returns the number of barriers.
    fn write(vfs: &dyn Vfs, count: usize) -> Result<u64> {
        let path = Path::new(FOLDER);
        let mut files = NewFiles::begin(vfs, path, count)?;
        for at in 0..count {
            let path = path.join(at.to_string());
            let file = vfs.open(&path, OpenOptions::create_new(0o600)).map_err(Error::at(&path))?;
            file.write_all_at(&[at as u8; 5000], 0).map_err(Error::at(&path))?;
            files.written(&*file).map_err(Error::at(&path))?;
        }
        files.finish()
    }

    fn disk(syncs_file_system: bool) -> MemVfs {
        let disk = MemVfs::new();
        disk.create_dir(Path::new(FOLDER), 0o700).unwrap();
        disk.set_syncs_file_system(syncs_file_system);
        disk
    }

    #[test]
    fn all_files_are_durable() {
        let check = |count: usize, syncs: bool, barriers: u64| {
            let world = CrashVfs::new(&disk(syncs));
            let vfs = world.vfs();
            vfs.set_syncs_file_system(syncs);
            assert_eq!(write(&vfs, count).unwrap(), barriers, "{count} {syncs}");
            let left = world.crash_at(world.points(), 0);
            for at in 0..count {
                let found = left.read(&Path::new(FOLDER).join(at.to_string()), 9999).unwrap();
                assert_eq!(found, [at as u8; 5000], "{count} {syncs}");
            }
        };
        check(3, true, 4);
        check(3, false, 4);
        check(SYNC_FS_FILES_MIN, true, 1);
        check(SYNC_FS_FILES_MIN, false, SYNC_FS_FILES_MIN as u64 + 1);
    }

    /// The kernel may report an error only to those who had the file open then.
    #[test]
    fn no_file_is_closed_before_it_is_durable_or_told_of() {
        for (syncs, count) in [(false, 3), (false, SYNC_FS_FILES_MIN), (true, SYNC_FS_FILES_MIN)] {
            let fault = Fault::nth(u64::MAX).of(CallKind::Open).under(FOLDER);
            let opens = FaultVfs::new(disk(syncs), fault);
            write(&opens, count).unwrap();
            // The folder is opened if the file system may be synced, and again if the folder itself
            // is.
            let folder = u64::from(count >= SYNC_FS_FILES_MIN) + u64::from(!syncs);
            assert_eq!(opens.calls(), count as u64 + folder, "{syncs} {count}");
            for nth in 0..=count as u64 {
                let fault = Fault::nth(nth).of(CallKind::Sync).under(FOLDER);
                let result = write(&FaultVfs::new(disk(syncs), fault), count);
                assert_eq!(result.is_err(), !syncs || nth == 0, "{syncs} {count} {nth}");
            }
        }
    }
}
