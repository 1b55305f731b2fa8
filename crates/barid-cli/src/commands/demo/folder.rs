//! A temporary folder.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use barid::vfs::{FileType, OsVfs, Vfs as _};

/// Number of names that are tried for a folder.
const NAMES_MAX: u32 = 1000;

/// A new folder among the temporary files, removed with everything in it when dropped.
#[derive(Debug)]
pub(super) struct TemporaryFolder {
    path: PathBuf,
    is_kept: bool,
}

impl TemporaryFolder {
    /// Creates a folder with `label` in its name.
    pub(super) fn new(label: &str) -> io::Result<Self> {
        for number in 0..NAMES_MAX {
            let name = format!("barid-{label}-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match OsVfs.create_dir(&path, 0o700) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Self { path, is_kept: false }),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Returns the path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the folder where it is.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if !self.is_kept {
            // A folder that cannot be removed is litter, not a failure.
            let _ = remove_tree(&self.path);
        }
    }
}

/// Removes a folder with everything in it.
fn remove_tree(path: &Path) -> io::Result<()> {
    let mut folders = vec![path.to_owned()];
    let mut next = 0;
    // The list grows by the folders in each.
    while let Some(folder) = folders.get(next).cloned() {
        let (mut inside, mut files) = (Vec::new(), Vec::new());
        OsVfs.open_dir(&folder)?.list(&mut |name, file_type| {
            let path = folder.join(OsStr::from_bytes(name));
            match file_type {
                FileType::Dir => inside.push(path),
                _ => files.push(path),
            }
        })?;
        OsVfs.remove_files(&files).into_iter().collect::<io::Result<()>>()?;
        folders.extend(inside);
        next += 1;
    }
    folders.iter().rev().try_for_each(|folder| OsVfs.remove_dir(folder))
}
