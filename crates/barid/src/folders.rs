//! The mailboxes below a folder.

use std::path::Path;

use barid_vfs::Vfs;

use crate::Result;

pub use barid_formats::{Folder, FolderSearch, TreePlace, detect, place_in_tree, resolve_name};

/// Finds the mailboxes below `root`: Maildirs, Maildir++ folders, mboxes.
///
/// # Errors
/// Errors of the file system for `root` itself.
pub fn folders(vfs: &dyn Vfs, root: &Path) -> Result<Vec<Folder>> {
    Ok(barid_formats::folders(vfs, root)?)
}

/// Finds the mailboxes below `root` as [`folders`] does, within the extent of `search`.
///
/// # Errors
/// As [`folders`].
pub fn folders_with(vfs: &dyn Vfs, root: &Path, search: FolderSearch) -> Result<Vec<Folder>> {
    Ok(barid_formats::folders_with(vfs, root, search)?)
}
