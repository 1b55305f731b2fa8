//! Replacing files atomically, and creating directories durably.

use std::io;
use std::path::{Path, PathBuf};

use crate::api::{File, OpenOptions, Vfs};
use crate::owner::Ownership;

/// Prefix and suffix of the names of temporary files.
const TEMPORARY: (&str, &str) = (".barid-", ".tmp");

/// Replaces or creates the file `path` atomically by one that `write` fills: readers see the old
/// file or the whole new one. Returns the new file, still open.
///
/// The new content is written to a temporary file in the same directory (see [`is_temporary`]) with
/// permission bits `mode` (before umask), which is renamed over `path`. The rename is the commit
/// point. With `durable` the order is: write, fsync of the file, rename, fsync of the directory;
/// after a crash `path` is the old file or the whole new one, and once this returned it is the new
/// one. Without `durable` a crash may leave `path` empty or torn: for caches. A crash before the
/// rename may leave the temporary file behind.
///
/// Costs four calls besides those of `write`, with `durable` two more (and the open and close of
/// the directory).
///
/// # Errors
/// Errors of the file system or of `write`. The temporary file is removed then, and `path` is
/// unchanged, unless the last step failed, the fsync of the directory: then `path` is replaced,
/// perhaps not durably.
pub fn atomic_replace(
    vfs: &dyn Vfs,
    path: &Path,
    mode: u32,
    durable: bool,
    write: impl FnOnce(&dyn File) -> io::Result<()>,
) -> io::Result<Box<dyn File>> {
    let temporary = temporary_beside(vfs, path)?;
    let file = vfs.open(&temporary, OpenOptions::create_new(mode))?;
    put(vfs, (&temporary, path), file, durable, write)
}

/// Replaces or creates a file as [`atomic_replace`] does, durably, with the owner, group and
/// permission bits of `ownership`, regardless of the umask.
///
/// # Errors
/// As [`atomic_replace`] and [`Ownership::create`].
pub fn replace_as(
    vfs: &dyn Vfs,
    path: &Path,
    ownership: &Ownership,
    write: impl FnOnce(&dyn File) -> io::Result<()>,
) -> io::Result<Box<dyn File>> {
    let temporary = temporary_beside(vfs, path)?;
    let file = ownership.create(vfs, &temporary)?;
    put(vfs, (&temporary, path), file, true, write)
}

/// Fills the file `temporary` and renames it to `path`.
fn put(
    vfs: &dyn Vfs,
    (temporary, path): (&Path, &Path),
    file: Box<dyn File>,
    durable: bool,
    write: impl FnOnce(&dyn File) -> io::Result<()>,
) -> io::Result<Box<dyn File>> {
    let filled = write(file.as_ref())
        .and_then(|()| if durable { file.sync_all() } else { Ok(()) })
        .and_then(|()| vfs.rename(temporary, path));
    if let Err(error) = filled {
        // The first error is the one to report.
        let _ = vfs.remove_file(temporary);
        return Err(error);
    }
    if durable {
        vfs.sync_dir(parent_of(path))?;
    }
    Ok(file)
}

/// Creates a directory and its missing parents with permission bits `mode`, each durable before
/// the next. Costs one call where the directory exists.
///
/// # Errors
/// Errors of the file system. Directories that exist are not an error.
pub fn create_dir_durable(vfs: &dyn Vfs, path: &Path, mode: u32) -> io::Result<()> {
    let mut missing = Vec::new();
    let mut current = path;
    loop {
        match create_and_sync(vfs, current, mode) {
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                missing.push(current);
                let parent = current.parent().filter(|parent| !parent.as_os_str().is_empty());
                current = parent.ok_or(error)?;
            }
            Err(error) => return Err(error),
        }
    }
    missing.into_iter().rev().try_for_each(|path| create_and_sync(vfs, path, mode))
}

fn create_and_sync(vfs: &dyn Vfs, path: &Path, mode: u32) -> io::Result<()> {
    match vfs.create_dir(path, mode) {
        Ok(()) => vfs.sync_dir(parent_of(path)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns `true` if the name is that of a temporary file of [`atomic_replace`]. One that is older
/// than about a day was left behind by a crash.
pub fn is_temporary(name: &[u8]) -> bool {
    name.starts_with(TEMPORARY.0.as_bytes()) && name.ends_with(TEMPORARY.1.as_bytes())
}

/// Returns the directory of `path`.
pub(crate) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => path,
    }
}

/// Returns a random temporary name in the directory of `path`.
fn temporary_beside(vfs: &dyn Vfs, path: &Path) -> io::Result<PathBuf> {
    let mut random = [0; 8];
    vfs.random(&mut random)?;
    let (begin, end) = TEMPORARY;
    Ok(path.with_file_name(format!("{begin}{:016x}{end}", u64::from_le_bytes(random))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::MemVfs;

    fn names(vfs: &MemVfs, dir: &str) -> Vec<String> {
        let mut names = Vec::new();
        let dir = vfs.open_dir(Path::new(dir)).unwrap();
        dir.list(&mut |name, _| names.push(String::from_utf8_lossy(name).into_owned())).unwrap();
        names.sort();
        names
    }

    #[test]
    fn a_failure_leaves_the_old_file_alone() {
        let vfs = MemVfs::new();
        let path = Path::new("/f");
        atomic_replace(&vfs, path, 0o600, true, |file| file.write_all_at(b"old", 0)).unwrap();
        let mut seen = Vec::new();
        let failed = atomic_replace(&vfs, path, 0o600, true, |file| {
            file.write_all_at(b"new", 0)?;
            seen = names(&vfs, "/");
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(seen.iter().filter(|name| is_temporary(name.as_bytes())).count(), 1);
        assert_eq!(names(&vfs, "/"), ["f"]);
        assert_eq!(vfs.read(path, 9).unwrap(), b"old");
        let file =
            atomic_replace(&vfs, path, 0o640, false, |file| file.write_all_at(b"new", 0)).unwrap();
        assert_eq!(file.metadata().unwrap().inode, vfs.metadata(path).unwrap().inode);
        assert_eq!(vfs.metadata(path).unwrap().mode, 0o640);
        assert_eq!(vfs.read(path, 9).unwrap(), b"new");
    }

    #[test]
    fn directories_are_created_with_their_parents() {
        let vfs = MemVfs::new();
        create_dir_durable(&vfs, Path::new("/a/b/c"), 0o700).unwrap();
        create_dir_durable(&vfs, Path::new("/a/b/c"), 0o700).unwrap();
        assert_eq!(vfs.metadata(Path::new("/a/b/c")).unwrap().mode, 0o700);
        assert_eq!(parent_of(Path::new("x")), Path::new("."));
        assert_eq!(parent_of(Path::new("/x")), Path::new("/"));
    }
}
