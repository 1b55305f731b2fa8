//! Listing what repairs have stored, and deleting it.

use std::io;
use std::path::{Path, PathBuf};

use barid_mailbox::{Error, Result};
use barid_vfs::{Timestamp, Vfs};

use super::keep::{self, KEPT, MANIFEST, UNDONE};

/// A repair with stored bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRepair {
    /// Its number; a later repair has a higher one.
    pub number: u64,
    /// Time of the repair; `None` if it never began.
    pub time: Option<Timestamp>,
    /// Number of files and names that it changed.
    pub files: u64,
    /// Number of bytes stored.
    pub bytes: u64,
    /// State of the repair.
    pub state: KeptRepairState,
    /// Its folders, those of later rounds last.
    pub folders: Vec<PathBuf>,
}

/// State of a repair, as far as an undo is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptRepairState {
    /// It can be undone, once all later ones are undone.
    Kept,
    /// It has been undone.
    Undone,
    /// It was interrupted before it changed anything.
    NotBegun,
}

/// Returns the repairs of a mailbox that are stored in `side_dir`, the last one first.
///
/// # Errors
/// Errors of the file system.
pub fn kept_repairs(vfs: &dyn Vfs, side_dir: &Path) -> Result<Vec<KeptRepair>> {
    let mut all: Vec<KeptRepair> = Vec::new();
    for number in keep::numbers(vfs, side_dir)? {
        let folder = side_dir.join(number.to_string());
        let bytes = [KEPT, MANIFEST, UNDONE].map(|name| size(vfs, &folder.join(name)));
        let bytes = bytes.into_iter().sum::<Result<u64>>()?;
        let (manifest, state) = match keep::manifest(vfs, &folder.join(MANIFEST))? {
            Some(manifest) => (Some(manifest), KeptRepairState::Kept),
            None => (keep::manifest(vfs, &folder.join(UNDONE))?, KeptRepairState::Undone),
        };
        let Some(manifest) = manifest else {
            let (state, folders) = (KeptRepairState::NotBegun, vec![folder]);
            all.push(KeptRepair { number, time: None, files: 0, bytes, state, folders });
            continue;
        };
        let files = manifest.entries.len() as u64;
        match all.last_mut().filter(|_| manifest.goes_on) {
            Some(first) if first.time.is_some() => {
                (first.files, first.bytes) = (first.files + files, first.bytes + bytes);
                first.folders.push(folder);
            }
            _ => {
                let (time, folders) = (Some(manifest.time), vec![folder]);
                all.push(KeptRepair { number, time, files, bytes, state, folders });
            }
        }
    }
    all.reverse();
    Ok(all)
}

/// Deletes everything that repairs of a mailbox stored in `side_dir`, the first one first; returns
/// the number of repairs deleted. After a crash, those that are not deleted yet can still be
/// undone.
///
/// # Errors
/// Errors of the file system.
pub fn discard_repairs(vfs: &dyn Vfs, side_dir: &Path) -> Result<u64> {
    let mut all = kept_repairs(vfs, side_dir)?;
    all.reverse();
    for folder in all.iter().flat_map(|repair| repair.folders.iter().rev()) {
        remove(vfs, &folder.join(MANIFEST))?;
        remove(vfs, &folder.join(UNDONE))?;
        // A manifest without its bytes could not be undone; without a manifest there is no repair.
        vfs.sync_dir(folder).map_err(Error::at(folder))?;
        remove(vfs, &folder.join(KEPT))?;
        vfs.remove_dir(folder).map_err(Error::at(folder))?;
        vfs.sync_dir(side_dir).map_err(Error::at(side_dir))?;
    }
    Ok(all.len() as u64)
}

fn remove(vfs: &dyn Vfs, path: &Path) -> Result<()> {
    match vfs.remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::at(path)(error)),
        _ => Ok(()),
    }
}

fn size(vfs: &dyn Vfs, path: &Path) -> Result<u64> {
    match vfs.metadata(path) {
        Ok(metadata) => Ok(metadata.size),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(Error::at(path)(error)),
    }
}
