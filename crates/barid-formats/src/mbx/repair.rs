//! Removal of a torn end: the bytes that an interrupted append left after the last whole message.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use barid_mailbox::{Error, Result, SyncFigures};
use barid_vfs::{File, Vfs, create_for_owner_of};

use super::MbxMailbox;
use super::journal::file_name;
use super::layout::COPY_LEN;
use super::lock::MbxWriteLocks;

/// Cuts the file to `end`, after the bytes after it have been copied durably to a file beside the
/// mailbox or, if that is not permitted, in the state folder. Zeros are not copied. Returns the
/// path of the copy. Requires the locks; the commit point is the `fsync` of the mailbox.
pub(super) fn cut_torn_end(
    mailbox: &MbxMailbox,
    locks: &MbxWriteLocks,
    (end, size): (u64, u64),
    state_dir: Option<&Path>,
    figures: &mut SyncFigures,
) -> Result<Option<PathBuf>> {
    let vfs = &*mailbox.vfs;
    let mut id = [0; 8];
    vfs.random(&mut id).map_err(Error::at(&locks.path))?;
    let id = u64::from_le_bytes(id);
    let name = [b".", file_name(&locks.path), format!(".barid-torn-{id:016x}").as_bytes()].concat();
    let beside = locks.path.parent().unwrap_or(Path::new("/"));
    let mut copied = None;
    if !is_zero(&*locks.file, end, size).map_err(Error::at(&locks.path))? {
        let mut result = copy(vfs, locks, (end, size), beside, OsStr::from_bytes(&name));
        if let (Err((_, error)), Some(state_dir)) = (&result, state_dir)
            && matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidFilename
            )
        {
            let name = format!("torn-{id:016x}.mbx");
            result = copy(vfs, locks, (end, size), state_dir, OsStr::new(&name));
        }
        figures.barriers += 2;
        copied = Some(result.map_err(|(path, source)| Error::Io { path, source })?);
    }
    let cut = locks.file.set_len(end).and_then(|()| locks.file.sync_all());
    cut.map_err(Error::at(&locks.path))?;
    figures.barriers += 1;
    Ok(copied)
}

fn is_zero(file: &dyn File, mut from: u64, size: u64) -> io::Result<bool> {
    let mut buffer = vec![0; COPY_LEN];
    while from < size {
        let len = (size - from).min(COPY_LEN as u64) as usize;
        file.read_exact_at(&mut buffer[..len], from)?;
        if buffer[..len].iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        from += len as u64;
    }
    Ok(true)
}

/// Copies a range to a new file in `folder`, with the owner of the mailbox.
fn copy(
    vfs: &dyn Vfs,
    locks: &MbxWriteLocks,
    (from, to): (u64, u64),
    folder: &Path,
    name: &OsStr,
) -> std::result::Result<PathBuf, (PathBuf, io::Error)> {
    let path = folder.join(name);
    let copy = || {
        let target = create_for_owner_of(vfs, &locks.path, &path, 0o600)?;
        let mut buffer = vec![0; COPY_LEN];
        let mut at = from;
        while at < to {
            let len = (to - at).min(COPY_LEN as u64) as usize;
            locks.file.read_exact_at(&mut buffer[..len], at)?;
            target.write_all_at(&buffer[..len], at - from)?;
            at += len as u64;
        }
        target.sync_all()?;
        vfs.sync_dir(folder)
    };
    match copy() {
        Ok(()) => Ok(path),
        Err(error) => {
            // An incomplete copy is useless.
            let _ = vfs.remove_file(&path);
            Err((path, error))
        }
    }
}
