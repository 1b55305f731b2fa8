//! Modes of state files, and errors that opening them may return.

use std::io;

/// Permission bits of the state folder. Its files have `FILE_MODE`.
pub(crate) const DIR_MODE: u32 = 0o700;
pub(crate) const FILE_MODE: u32 = 0o600;

/// Returns `true` if the file does not exist.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// Returns `true` if the file may not be opened in this mode.
pub(crate) fn is_denied(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Returns `true` if opening without following links failed because the name is a symbolic link.
pub(crate) fn is_link(error: &io::Error) -> bool {
    const ELOOP: i32 = 40;
    error.raw_os_error() == Some(ELOOP)
}
