//! The files of a store: its own, those beside it, those in its folder.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use barid_vfs::{FileType, Metadata, Vfs};

use crate::limits::STORE_FILES_MAX;
use crate::{Error, Result};

/// A file of a store.
#[derive(Clone, Debug)]
pub(crate) struct StoreFile {
    /// The rest of its path after the store's: empty, a suffix, or `/` and a name.
    pub(crate) suffix: Vec<u8>,
    pub(crate) metadata: Metadata,
}

/// Returns `path` with `suffix` appended.
pub(crate) fn beside(path: &Path, suffix: &[u8]) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(OsStr::from_bytes(suffix));
    PathBuf::from(name)
}

/// Returns all files of the store `path`, in the order of their suffixes; a folder precedes its
/// content. Folders in the store's folder are listed too; deeper ones are an error.
///
/// # Errors
/// Returns [`Error::Io`]; missing files are not an error.
pub(crate) fn list(vfs: &dyn Vfs, path: &Path, companions: &[&str]) -> Result<Vec<StoreFile>> {
    let mut found = Vec::new();
    let mut folders = Vec::new();
    for suffix in [""].iter().chain(companions) {
        let at = beside(path, suffix.as_bytes());
        match vfs.symlink_metadata(&at) {
            Ok(metadata) => {
                if metadata.file_type == FileType::Dir {
                    folders.push(suffix.as_bytes().to_vec());
                }
                found.push(StoreFile { suffix: suffix.as_bytes().to_vec(), metadata });
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Error::at(&at)(error)),
        }
    }
    for _ in 0..2 {
        for folder in std::mem::take(&mut folders) {
            list_folder(vfs, path, &folder, &mut found, &mut folders)?;
        }
    }
    if let Some(folder) = folders.first() {
        return Err(refused(&beside(path, folder), "a folder too deep in the store"));
    }
    found.sort_unstable_by(|a, b| a.suffix.cmp(&b.suffix));
    Ok(found)
}

fn list_folder(
    vfs: &dyn Vfs,
    path: &Path,
    folder: &[u8],
    found: &mut Vec<StoreFile>,
    folders: &mut Vec<Vec<u8>>,
) -> Result<()> {
    let at = beside(path, folder);
    let dir = vfs.open_dir(&at).map_err(Error::at(&at))?;
    let mut names = Vec::new();
    let mut too_many = false;
    let list = dir.list(&mut |name, _| {
        too_many |= found.len() + names.len() >= STORE_FILES_MAX;
        if !too_many {
            names.push(name.to_vec());
        }
    });
    list.map_err(Error::at(&at))?;
    if too_many {
        return Err(refused(&at, "too many files in the store"));
    }
    for name in names {
        let suffix = [folder, b"/", &name].concat();
        match dir.metadata(&name) {
            Ok(metadata) => {
                if metadata.file_type == FileType::Dir {
                    folders.push(suffix.clone());
                }
                found.push(StoreFile { suffix, metadata });
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Error::at(&beside(path, &suffix))(error)),
        }
    }
    Ok(())
}

fn refused(path: &Path, why: &'static str) -> Error {
    Error::Io { path: path.to_owned(), source: std::io::Error::other(why) }
}

/// Removes all files of the store `path`.
///
/// # Errors
/// Returns [`Error::Io`]; files that are already gone are not an error.
pub(crate) fn remove(vfs: &dyn Vfs, path: &Path, companions: &[&str]) -> Result<()> {
    // The content of a folder precedes the folder.
    for found in list(vfs, path, companions)?.iter().rev() {
        let at = beside(path, &found.suffix);
        let removed = match found.metadata.file_type {
            FileType::Dir => vfs.remove_dir(&at),
            _ => vfs.remove_file(&at),
        };
        gone(&at, removed)?;
    }
    Ok(())
}

/// Removes the regular files beside a store that does not exist, which an earlier store left.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn remove_companion_files(
    vfs: &dyn Vfs,
    path: &Path,
    companions: &[&str],
) -> Result<()> {
    for suffix in companions {
        let at = beside(path, suffix.as_bytes());
        if vfs.symlink_metadata(&at).is_ok_and(|found| found.file_type == FileType::File) {
            gone(&at, vfs.remove_file(&at))?;
        }
    }
    Ok(())
}

/// Renames the files of the store `from` to those of `to`, which are removed. A store of one file
/// exists at every moment, in its old or its new state.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn replace(vfs: &dyn Vfs, from: &Path, to: &Path, companions: &[&str]) -> Result<()> {
    for old in list(vfs, to, companions)?.iter().rev() {
        let at = beside(to, &old.suffix);
        match old.metadata.file_type {
            FileType::Dir => gone(&at, vfs.remove_dir(&at))?,
            _ if old.suffix.is_empty() => {}
            _ => gone(&at, vfs.remove_file(&at))?,
        }
    }
    let new = list(vfs, from, companions)?;
    // The content of a folder is renamed with it.
    for new in new.iter().filter(|new| !new.suffix.contains(&b'/')) {
        let (from, to) = (beside(from, &new.suffix), beside(to, &new.suffix));
        vfs.rename(&from, &to).map_err(Error::at(&to))?;
    }
    Ok(())
}

/// Returns the folder of `path`.
pub(crate) fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Writes the name `path` to stable storage.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn sync_folder_of(vfs: &dyn Vfs, path: &Path) -> Result<()> {
    let folder = folder_of(path);
    vfs.sync_dir(folder).map_err(Error::at(folder))
}

/// Returns the result of a removal; a file that is already gone is not an error.
pub(crate) fn gone(path: &Path, removed: std::io::Result<()>) -> Result<()> {
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::at(path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use barid_vfs::{MemVfs, OpenOptions};

    use super::*;

    fn vfs(files: &[&str]) -> Arc<dyn Vfs> {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        for file in files {
            let path = Path::new(file);
            vfs.create_dir_all(path.parent().unwrap(), 0o700).unwrap();
            vfs.open(path, OpenOptions::create(0o600)).unwrap();
        }
        vfs
    }

    #[test]
    fn files_beside_and_within_are_found_and_removed() {
        let files = ["/d/s", "/d/s-log", "/d/s.other", "/d/f/1", "/d/f/in/2", "/d/f/in/3"];
        let vfs = vfs(&files);
        let check = |path: &str, expected: &[&str], left: &[&str]| {
            let path = Path::new(path);
            let found = list(&*vfs, path, &["-log", "-none"]).unwrap();
            let suffixes: Vec<&[u8]> = found.iter().map(|found| &found.suffix[..]).collect();
            let expected: Vec<&[u8]> = expected.iter().map(|suffix| suffix.as_bytes()).collect();
            assert_eq!(suffixes, expected);
            for _ in 0..2 {
                remove(&*vfs, path, &["-log", "-none"]).unwrap();
                assert!(list(&*vfs, path, &["-log", "-none"]).unwrap().is_empty());
            }
            for path in left {
                vfs.symlink_metadata(Path::new(path)).unwrap();
            }
        };
        check("/d/s", &["", "-log"], &["/d/s.other", "/d/f/in/3"]);
        check("/d/f", &["", "/1", "/in", "/in/2", "/in/3"], &["/d/s.other"]);
        check("/d/none", &[], &["/d/s.other"]);
    }

    #[test]
    fn a_store_takes_the_place_of_another() {
        let vfs = vfs(&["/d/s", "/d/s-log", "/d/s.copy-old", "/d/f/1", "/d/f/in/2", "/d/f.copy/3"]);
        let check = |path: &str, expected: &[&str]| {
            let (path, copy) = (Path::new(path), beside(Path::new(path), b".copy"));
            replace(&*vfs, &copy, path, &["-log", "-old"]).unwrap();
            let found = list(&*vfs, path, &["-log", "-old"]).unwrap();
            let suffixes = found.iter().map(|found| str::from_utf8(&found.suffix).unwrap());
            assert_eq!(suffixes.collect::<Vec<_>>(), expected);
            assert!(list(&*vfs, &copy, &["-log", "-old"]).unwrap().is_empty());
        };
        check("/d/s", &["", "-old"]);
        check("/d/f", &["", "/3"]);
    }

    #[test]
    fn a_name_alone_is_in_the_folder_that_one_is_in() {
        let check = |path, expected| assert_eq!(folder_of(Path::new(path)), Path::new(expected));
        check("s", ".");
        check("d/s", "d");
        check("/s", "/");
    }

    #[test]
    fn what_no_store_makes_is_not_followed() {
        let vfs = vfs(&["/d/f/in/deep/1"]);
        assert!(remove(&*vfs, Path::new("/d/f"), &[]).is_err());
        vfs.symlink_metadata(Path::new("/d/f/in/deep/1")).unwrap();
    }
}
