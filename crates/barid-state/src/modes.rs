//! What all state files have in common.

use std::io;

/// Permission bits of the state folder and of what is in it.
pub(crate) const DIR_MODE: u32 = 0o700;
pub(crate) const FILE_MODE: u32 = 0o600;

/// Whether the file is not there.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// Whether the file may not be opened so.
pub(crate) fn is_denied(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Returns `true` if a symbolic link has the name of a file that was opened without following one.
pub(crate) fn is_link(error: &io::Error) -> bool {
    const ELOOP: i32 = 40;
    error.raw_os_error() == Some(ELOOP)
}
