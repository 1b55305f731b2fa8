//! Folders of stores with many files.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use barid_vfs::{FileType, Vfs};

use crate::limits::STORE_FOLDERS_DEEP;

/// Returns the bytes allocated for the files of a folder; unreadable files count as 0.
pub(super) fn bytes(vfs: &dyn Vfs, path: &Path) -> u64 {
    let mut sum = 0;
    let _ = walk(vfs, path, 0, &mut |path, file_type| {
        if file_type != FileType::Dir {
            sum += vfs.symlink_metadata(path).map_or(0, |metadata| metadata.allocated);
        }
        Ok(())
    });
    sum
}

/// Removes a folder with its files; returns the number of files.
pub(super) fn remove(vfs: &dyn Vfs, path: &Path) -> io::Result<u32> {
    let mut files = 0;
    walk(vfs, path, 0, &mut |path, file_type| {
        if file_type == FileType::Dir {
            return vfs.remove_dir(path);
        }
        files += 1;
        vfs.remove_file(path)
    })?;
    Ok(files)
}

/// Visits the content of a folder, and the folder after that.
fn walk(
    vfs: &dyn Vfs,
    path: &Path,
    depth: u32,
    visit: &mut dyn FnMut(&Path, FileType) -> io::Result<()>,
) -> io::Result<()> {
    let mut found: Vec<PathBuf> = Vec::new();
    vfs.open_dir(path)?.list(&mut |name, _| {
        found.push(path.join(std::ffi::OsStr::from_bytes(name)));
    })?;
    for path in found {
        let file_type = vfs.symlink_metadata(&path)?.file_type;
        if file_type == FileType::Dir && depth < STORE_FOLDERS_DEEP {
            walk(vfs, &path, depth + 1, visit)?;
        } else {
            visit(&path, file_type)?;
        }
    }
    visit(path, FileType::Dir)
}
