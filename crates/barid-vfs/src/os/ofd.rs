//! Locks of open file descriptions, which `rustix` does not have: its `fcntl_lock` takes those of
//! the process, which are lost when any descriptor of the file is closed.

#![expect(unsafe_code, reason = "a call of the C library")]

use std::ffi::{c_int, c_short};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use libc::{F_OFD_SETLK, F_RDLCK, F_UNLCK, F_WRLCK, SEEK_SET};

use crate::api::LockMode;

/// Tries to lock a whole file (`F_OFD_SETLK`). Returns `false` if others have locked it. An
/// exclusive lock requires a file opened for writing.
pub(super) fn try_lock(file: &OwnedFd, mode: LockMode) -> io::Result<bool> {
    let kind = match mode {
        LockMode::Shared => F_RDLCK,
        LockMode::Exclusive => F_WRLCK,
    };
    match set(file, kind) {
        Ok(()) => Ok(true),
        Err(error) if is_refusal(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Ends the lock.
pub(super) fn unlock(file: &OwnedFd) -> io::Result<()> {
    set(file, F_UNLCK)
}

/// Returns `true` if an error means that others have the lock.
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES))
}

fn set(file: &OwnedFd, kind: c_int) -> io::Result<()> {
    let lock = libc::flock {
        l_type: kind as c_short,
        l_whence: SEEK_SET as c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    loop {
        // SAFETY: the descriptor is open, and the lock is only read.
        if unsafe { libc::fcntl(file.as_raw_fd(), F_OFD_SETLK, &raw const lock) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
