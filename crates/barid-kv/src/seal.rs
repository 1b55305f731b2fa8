//! The seal of a store: what its files looked like when the last writer closed it.
//!
//! While somebody writes, `<path>.seal` only says so. A store whose files are as the seal says was
//! closed cleanly, or read whole without harm, and not touched since. Any other is probed first.
//! Nothing of a store is ever synced, so a seal counts only until the machine is started again.
//! `docs/formats/kv-seal.md` has the bytes.

use std::path::Path;
use std::time::Duration;

use barid_vfs::{FileType, OpenOptions, Timestamp, Vfs};
use xxhash_rust::xxh3::xxh3_64;

use crate::files::{Found, beside, gone};
use crate::limits::SEAL_LEN_MAX;
use crate::{Error, Purpose, Result};

const MAGIC: &[u8; 8] = b"baridSEA";
const VERSION: u32 = 1;
const SUFFIX: &[u8] = b".seal";
/// What stands there while a new store is written, and while an old one is.
const CREATING: &[u8] = b"baridNEW";
const UPDATING: &[u8] = b"baridUPD";
/// Tells one start of the machine from another. File systems that do not have it do not need it.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// How often the clock of the file system is looked at until it has moved on; with pauses of
/// [`TICK_PAUSE`] longer than every tick of Linux (10 ms at most).
const TICK_TRIES: usize = 20;
const TICK_PAUSE: Duration = Duration::from_millis(1);

/// What is known of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The library closed them when it had written: it may read and write them.
    Closed = 1,
    /// The library has read all that is in them: it may read them again.
    Readable = 2,
}

/// The seal that says this of the files of the store `name`.
pub(crate) fn describe(vfs: &dyn Vfs, name: &str, known: Known, files: &[Found]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128 + 64 * files.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&(files.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&boot(vfs).to_le_bytes());
    bytes.extend_from_slice(&(known as u32).to_le_bytes());
    put(&mut bytes, name.as_bytes());
    for Found { suffix, metadata } in files {
        put(&mut bytes, suffix);
        bytes.extend_from_slice(&metadata.inode.to_le_bytes());
        // The size of a folder is the file system's affair.
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

/// What the seal of `path` says of its `files`, as they are now; `None` if it says nothing of them.
pub(crate) fn read(vfs: &dyn Vfs, path: &Path, name: &str, files: &[Found]) -> Option<Known> {
    let bytes = vfs.read(&beside(path, SUFFIX), SEAL_LEN_MAX).ok()?;
    let says = |known: &Known| describe(vfs, name, *known, files) == bytes;
    [Known::Closed, Known::Readable].into_iter().find(says)
}

/// Makes `described` the seal of `path`, whose files last changed at `newest`; `false` if they
/// could change again without showing it.
///
/// A change shows in the times of a file only if the clock that the file system stamps files with
/// has moved on. The time of the seal itself tells.
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
    // What is written in part is no seal, so nothing is renamed into place.
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

/// Puts in place of the seal that somebody writes, until [`write`] or [`remove`].
pub(crate) fn begin(vfs: &dyn Vfs, path: &Path, purpose: Purpose) -> Result<()> {
    let seal = beside(path, SUFFIX);
    let options = OpenOptions { truncate: true, ..OpenOptions::create(0o600) };
    let says = if purpose == Purpose::Create { CREATING } else { UPDATING };
    let file = vfs.open(&seal, options).map_err(Error::at(&seal))?;
    file.write_all_at(says, 0).map_err(Error::at(&seal))
}

/// What a writer was about that neither closed the store nor said that it failed.
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
