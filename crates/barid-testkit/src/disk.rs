//! The only place of the development crates that touches the disk: mail is written here for other
//! programs, which know no `Vfs`, and sources are read here.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "peers read real files, and the folders of tests are made for them"
)]

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub use std::fs::File;

/// Reads a whole file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path)
}

/// Reads a whole file as text; bytes that are not UTF-8 are replaced.
pub fn read_text(path: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

/// Writes a whole file.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::write(path, bytes)
}

/// Writes the files of a directory to the disk: from then on a file system with delayed allocation
/// reports the same number of blocks.
pub fn settle(dir: &Path) -> io::Result<()> {
    for path in list(dir)? {
        File::open(path)?.sync_all()?;
    }
    Ok(())
}

/// Creates a directory that must not exist yet.
pub fn create_dir(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
}

/// Creates a directory and its parents.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Removes a directory with everything in it.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    fs::remove_dir_all(path)
}

/// Removes a file.
pub fn remove_file(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

/// Renames a file or a directory.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Returns `true` if anything exists at a path.
pub fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Returns `true` if a path leads to a regular file, not a folder, socket or device.
pub fn is_file(path: &Path) -> bool {
    path.is_file()
}

/// Returns the paths in a directory, sorted by their names.
pub fn list(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(path)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Changes the owner of a tree; files that the user already owns are unchanged, so that their ctime
/// stays.
pub fn chown_tree(path: &Path, uid: u32, gid: u32) -> io::Result<()> {
    let mut folders = vec![path.to_path_buf()];
    while let Some(path) = folders.pop() {
        match chown_one(&path, uid, gid) {
            Ok(true) => folders.extend(list(&path)?),
            Ok(false) => {}
            // For example a lock file that existed when its folder was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Changes the owner of one file. Returns `true` if it is a folder.
fn chown_one(path: &Path, uid: u32, gid: u32) -> io::Result<bool> {
    let metadata = fs::symlink_metadata(path)?;
    if metadata.uid() != uid {
        lchown(path, Some(uid), Some(gid))?;
    }
    Ok(metadata.is_dir())
}

/// Opens a terminal for reading and writing.
pub fn open_read_write(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// Opens a file for appending, and creates it if it is missing.
pub fn open_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// Creates or empties a file for writing.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).open(path)
}

/// Sets the modification time of an open file, in seconds since 1970; 1970 for years before.
pub fn set_mtime(file: &File, unix_seconds: i64) -> io::Result<()> {
    let since = Duration::from_secs(u64::try_from(unix_seconds).unwrap_or(0));
    file.set_modified(SystemTime::UNIX_EPOCH + since)
}

/// Returns the files under a directory, at any depth, sorted by path.
pub fn list_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![path.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let into = if entry.file_type()?.is_dir() { &mut folders } else { &mut files };
            into.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the entries of a directory that are directories, sorted.
pub fn list_folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(list(path)?.into_iter().filter(|path| path.is_dir()).collect())
}

/// Copies a file with its permissions.
pub fn copy(from: &Path, to: &Path) -> io::Result<u64> {
    fs::copy(from, to)
}

/// Creates another name for a file.
pub fn hard_link(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to)
}

/// Creates a symbolic link to a target, replacing an existing one.
pub fn link_to(target: &Path, path: &Path) -> io::Result<()> {
    if exists(path) {
        remove_file(path)?;
    }
    symlink(target, path)
}

/// Copies a file with `text` inserted after its first `offset` bytes.
pub fn copy_with(from: &Path, to: &Path, offset: u64, text: &[u8]) -> io::Result<()> {
    let (mut from, mut to) = (File::open(from)?, create(to)?);
    io::copy(&mut io::Read::take(&mut from, offset), &mut to)?;
    io::Write::write_all(&mut to, text)?;
    io::copy(&mut from, &mut to).map(drop)
}

/// Returns the bytes that are free for this user on the file system of a path.
pub fn free(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail * stat.f_frsize)
}

/// Returns the size of a file in bytes.
pub fn size(path: &Path) -> io::Result<u64> {
    Ok(fs::metadata(path)?.len())
}

/// Returns the bytes that the file system has allocated for a tree, including its folders; 0 if it
/// does not exist.
pub fn allocated(path: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    let mut paths = vec![path.to_path_buf()];
    while let Some(path) = paths.pop() {
        let metadata = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        bytes += metadata.blocks() * 512;
        if metadata.is_dir() {
            paths.extend(list(&path)?);
        }
    }
    Ok(bytes)
}

/// Writes all pending changes of the file system of `path` to its disk.
pub fn sync_file_system(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(path)?)?)
}

/// Makes the kernel drop its clean pages and names of all file systems; changes must already be on
/// disk. Needs permission to write `/proc/sys/vm/drop_caches`.
pub fn drop_caches() -> io::Result<()> {
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3")
}

/// Appends to an existing file.
pub fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    io::Write::write_all(&mut OpenOptions::new().append(true).open(path)?, bytes)
}

/// Seconds since 1970.
pub fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Truncates or extends a file.
pub fn set_len(path: &Path, len: u64) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.set_len(len)
}

/// Opens a file for reading.
pub fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}
