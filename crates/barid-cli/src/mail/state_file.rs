//! Small files in the state folder.

use std::io;
use std::path::Path;

use barid::vfs::{File, Vfs, atomic_replace, create_dir_durable};

/// Replaces a file of the state folder durably, by a rename, and creates the folder if it is
/// missing.
///
/// # Errors
///
/// Errors of the file system; then the file is as before, or replaced but perhaps not durably.
pub(crate) fn write_state(vfs: &dyn Vfs, path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        create_dir_durable(vfs, dir, 0o700)?;
    }
    atomic_replace(vfs, path, 0o600, true, |file: &dyn File| file.write_all_at(bytes, 0)).map(drop)
}
