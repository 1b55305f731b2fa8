//! Telling what repairs keep, and forgetting it.

use std::io;
use std::path::{Path, PathBuf};

use barid_vfs::{Timestamp, Vfs};

use super::keep::{self, KEPT, MANIFEST, UNDONE};
use crate::{Error, Result};

/// A repair of which something is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRepair {
    /// Its number: of two the later has the higher.
    pub number: u64,
    /// When it was made; `None` if it never was.
    pub time: Option<Timestamp>,
    /// Files and names that it changed.
    pub files: u64,
    /// Bytes that are kept.
    pub bytes: u64,
    /// What there is to undo.
    pub state: KeptRepairState,
    /// The folders, those of later rounds behind.
    pub folders: Vec<PathBuf>,
}

/// What of a repair there is to undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptRepairState {
    /// It can be undone, once those behind it are.
    Kept,
    /// It is undone.
    Undone,
    /// It was interrupted before it changed anything.
    NotBegun,
}

/// What repairs of a mailbox keep in `side_dir`, the last first.
///
/// # Errors
/// What the file system says.
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

/// Forgets all that repairs of a mailbox keep in `side_dir`, the first one first; returns how many
/// repairs that were. Those that are not forgotten yet after a crash can still be undone.
///
/// # Errors
/// What the file system says.
pub fn discard_repairs(vfs: &dyn Vfs, side_dir: &Path) -> Result<u64> {
    let mut all = kept_repairs(vfs, side_dir)?;
    all.reverse();
    for folder in all.iter().flat_map(|repair| repair.folders.iter().rev()) {
        remove(vfs, &folder.join(MANIFEST))?;
        remove(vfs, &folder.join(UNDONE))?;
        // A manifest without what it tells of could not be undone; without one there is no repair.
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
