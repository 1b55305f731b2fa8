//! Folders and files of a bench.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use barid_testkit::disk;

use crate::limits::READ_BUFFER_LEN;

/// A folder that is removed with its contents on drop.
pub(crate) struct Litter(pub(crate) PathBuf);

impl Litter {
    pub(crate) fn new(folder: PathBuf) -> Result<Self> {
        disk::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self(folder))
    }
}

impl Drop for Litter {
    fn drop(&mut self) {
        // A folder that cannot be removed stays behind; that is not a failure.
        drop(disk::remove_tree(&self.0));
    }
}

/// Makes a new folder for a bench, or uses the named one, which must be empty or not exist.
pub(crate) fn make_folder(name: &str, out: Option<&Path>) -> Result<PathBuf> {
    let (parent, process) = (std::env::temp_dir(), std::process::id());
    let numbered = (0..).map(|n| parent.join(format!("barid-bench-{name}-{process}-{n}")));
    let mut candidates = numbered.take_while(|_| out.is_none());
    let folder = match out {
        Some(folder) => {
            let is_free = !disk::exists(folder) || disk::list(folder).is_ok_and(|l| l.is_empty());
            ensure!(is_free, "{}: not an empty folder", folder.display());
            std::path::absolute(folder)?
        }
        None => candidates.find(|path| !disk::exists(path)).context("no name is free")?,
    };
    match disk::create_dir_all(&folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            bail!("{}: {error}", folder.display())
        }
        other => other.with_context(|| folder.display().to_string())?,
    }
    Ok(folder)
}

/// Replaces `path` with an empty folder.
pub(crate) fn fresh_folder(path: &Path) -> Result<()> {
    if disk::exists(path) {
        disk::remove_tree(path).map_err(|error| anyhow!("{}: {error}", path.display()))?;
    }
    disk::create_dir_all(path).map_err(|error| anyhow!("{}: {error}", path.display()))
}

/// Checks that the disk of a folder has room for `needed` bytes.
pub(crate) fn ensure_room(folder: &Path, needed: u64) -> Result<()> {
    let (free, needed) = (disk::free(folder)? / 1_000_000, needed / 1_000_000);
    ensure!(free > needed, "{needed} MB are needed in {} and {free} are free", folder.display());
    Ok(())
}

/// Waits until earlier writes to the file system of a folder are on the disk.
pub(crate) fn settle(folder: &Path) -> Result<()> {
    disk::sync_file_system(folder).with_context(|| folder.display().to_string())
}

/// Drops the kernel's page cache.
pub(crate) fn drop_caches() -> Result<()> {
    disk::drop_caches().context(
        "the kernel's caches cannot be dropped: that takes the right to write \
         /proc/sys/vm/drop_caches, usually root's",
    )
}

/// Reads all files below some paths, so that they are in memory.
pub(crate) fn read_all(paths: &[PathBuf]) -> Result<()> {
    let mut waiting = paths.to_vec();
    let mut buffer = vec![0; READ_BUFFER_LEN];
    while let Some(path) = waiting.pop() {
        match disk::list(&path) {
            Ok(entries) => waiting.extend(entries),
            Err(_) if !disk::is_file(&path) => {}
            Err(_) => {
                let mut file = disk::open(&path).with_context(|| path.display().to_string())?;
                while file.read(&mut buffer).with_context(|| path.display().to_string())? > 0 {}
            }
        }
    }
    Ok(())
}
