//! The seal of a store: a description of its files when the last writer closed it.
//!
//! During a write, `<path>.seal` contains only a mark of the write. A store whose files match the
//! seal was closed cleanly, or read completely without harm, and has not been changed since. Any
//! other store is probed first. A store is never synced, so a seal is valid only until the machine
//! restarts. `docs/formats/kv-seal.md` has the bytes.

use std::path::Path;
use std::time::Duration;

use barid_vfs::{FileType, OpenOptions, Timestamp, Vfs};
use xxhash_rust::xxh3::xxh3_64;

use crate::files::{StoreFile, beside, gone};
use crate::limits::SEAL_LEN_MAX;
use crate::{Error, Purpose, Result};

const MAGIC: &[u8; 8] = b"baridSEA";
const VERSION: u32 = 1;
const SUFFIX: &[u8] = b".seal";
/// The content of the seal while a new store is written, and while an existing one is.
const CREATING: &[u8] = b"baridNEW";
const UPDATING: &[u8] = b"baridUPD";
/// The file that identifies a start of the machine. File systems without it do not need it.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Number of checks of the file system's clock until it has advanced; with pauses of [`TICK_PAUSE`]
/// longer than every tick of Linux (10 ms at most).
const TICK_TRIES: usize = 20;
const TICK_PAUSE: Duration = Duration::from_millis(1);

/// The verified state of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The library closed them after writing: it may read and write them.
    Closed = 1,
    /// The library has read all of their content: it may read them again.
    Readable = 2,
}

/// Returns the seal for this state of the files of the store `name`.
pub(crate) fn describe(vfs: &dyn Vfs, name: &str, known: Known, files: &[StoreFile]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128 + 64 * files.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&(files.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&boot(vfs).to_le_bytes());
    bytes.extend_from_slice(&(known as u32).to_le_bytes());
    put(&mut bytes, name.as_bytes());
    for StoreFile { suffix, metadata } in files {
        put(&mut bytes, suffix);
        bytes.extend_from_slice(&metadata.inode.to_le_bytes());
        // The size of a folder depends on the file system.
        let is_dir = metadata.file_type == FileType::Dir;
        let size = if is_dir { u64::MAX } else { metadata.size };
        bytes.extend_from_slice(&size.to_le_bytes());
        bytes.extend_from_slice(&metadata.modified.unix_nanos.to_le_bytes());
        bytes.extend_from_slice(&metadata.changed.unix_nanos.to_le_bytes());
    }
    let checksum = xxh3_64(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

fn put(bytes: &mut Vec<u8>, text: &[u8]) {
    bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
    bytes.extend_from_slice(text);
}

fn boot(vfs: &dyn Vfs) -> u64 {
    let mut id = [0; 64];
    let file = vfs.open(Path::new(BOOT_ID), OpenOptions::READ);
    let len = file.and_then(|file| file.read_full_at(&mut id, 0)).unwrap_or(0);
    xxh3_64(&id[..len])
}

/// Returns the state that the seal of `path` confirms for its `files` as they are now; `None` if it
/// does not match them.
pub(crate) fn read(vfs: &dyn Vfs, path: &Path, name: &str, files: &[StoreFile]) -> Option<Known> {
    let bytes = vfs.read(&beside(path, SUFFIX), SEAL_LEN_MAX).ok()?;
    let says = |known: &Known| describe(vfs, name, *known, files) == bytes;
    [Known::Closed, Known::Readable].into_iter().find(says)
}

/// Writes `described` as the seal of `path`, whose files last changed at `newest`; returns `false`,
/// without a seal, if another change could go unnoticed.
///
/// A change shows in the times of a file only if the clock of the file system has advanced. The
/// time of the seal itself shows that.
pub(crate) fn write(
    vfs: &dyn Vfs,
    path: &Path,
    described: &[u8],
    newest: Timestamp,
) -> Result<bool> {
    if described.len() as u64 > SEAL_LEN_MAX {
        remove(vfs, path)?;
        return Ok(false);
    }
    let seal = beside(path, SUFFIX);
    let options = OpenOptions { truncate: true, ..OpenOptions::create(0o600) };
    let file = vfs.open(&seal, options).map_err(Error::at(&seal))?;
    // A partly written seal is invalid, so no rename is needed.
    for _ in 0..TICK_TRIES {
        file.write_all_at(&[0], 0).map_err(Error::at(&seal))?;
        if file.metadata().map_err(Error::at(&seal))?.changed > newest {
            file.write_all_at(described, 0).map_err(Error::at(&seal))?;
            return Ok(true);
        }
        vfs.sleep(TICK_PAUSE);
    }
    remove(vfs, path)?;
    Ok(false)
}

/// Replaces the seal with the mark of a write, until [`write`] or [`remove`].
pub(crate) fn begin(vfs: &dyn Vfs, path: &Path, purpose: Purpose) -> Result<()> {
    let seal = beside(path, SUFFIX);
    let options = OpenOptions { truncate: true, ..OpenOptions::create(0o600) };
    let says = if purpose == Purpose::Create { CREATING } else { UPDATING };
    let file = vfs.open(&seal, options).map_err(Error::at(&seal))?;
    file.write_all_at(says, 0).map_err(Error::at(&seal))
}

/// Returns the purpose of a writer that neither closed the store nor reported a failure.
pub(crate) fn unfinished(vfs: &dyn Vfs, path: &Path) -> Option<Purpose> {
    match &vfs.read(&beside(path, SUFFIX), SEAL_LEN_MAX).ok()?[..] {
        CREATING => Some(Purpose::Create),
        UPDATING => Some(Purpose::Update),
        _ => None,
    }
}

/// Removes the seal of `path`, if there is one.
pub(crate) fn remove(vfs: &dyn Vfs, path: &Path) -> Result<()> {
    let seal = beside(path, SUFFIX);
    gone(&seal, vfs.remove_file(&seal))
}
