//! Inputs that failed once: files that are written, and repeated.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use barid_vfs::{OpenOptions, OsVfs, Vfs};

use crate::Target;
use crate::limits::INPUT_FILE_LEN_MAX;

/// Writes an input to `<folder>/<name>-<number>`, and returns this path.
///
/// # Errors
/// Errors of the file system.
pub fn save(name: &str, number: u64, bytes: &[u8], folder: &Path) -> io::Result<PathBuf> {
    OsVfs.create_dir_all(folder, 0o777)?;
    let path = folder.join(format!("{name}-{number}"));
    let file = OsVfs.open(&path, OpenOptions::create(0o666))?;
    file.set_len(0)?;
    file.write_all_at(bytes, 0)?;
    Ok(path)
}

/// Runs a target on the content of a file, or of each file of a folder. Returns the number of
/// inputs, and the files on which it panicked.
///
/// # Errors
/// Errors of the file system. A path that does not exist holds no inputs.
pub fn replay(target: &Target, path: &Path) -> io::Result<(usize, Vec<PathBuf>)> {
    let mut files = vec![path.to_owned()];
    match OsVfs.metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((0, Vec::new())),
        Err(error) => return Err(error),
        Ok(_) => {
            if let Ok(folder) = OsVfs.open_dir(path) {
                files.clear();
                folder.list(&mut |name, _| {
                    files.extend(std::str::from_utf8(name).ok().map(|name| path.join(name)));
                })?;
            }
        }
    }
    files.sort();
    let count = files.len();
    let mut failed = Vec::new();
    for file in files {
        let bytes = OsVfs.read(&file, INPUT_FILE_LEN_MAX)?;
        if catch_unwind(AssertUnwindSafe(|| (target.run)(&bytes))).is_err() {
            failed.push(file);
        }
    }
    Ok((count, failed))
}
