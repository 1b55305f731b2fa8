//! The mailboxes below a folder.

use std::path::Path;

use barid_vfs::Vfs;

use crate::Result;

pub use barid_formats::{Folder, TreePlace, place_in_tree, resolve_name};

/// Finds the mailboxes below `root`: Maildirs, Maildir++ folders, mboxes.
///
/// # Errors
/// Errors of the file system for `root` itself.
pub fn folders(vfs: &dyn Vfs, root: &Path) -> Result<Vec<Folder>> {
    Ok(barid_formats::folders(vfs, root)?)
}
