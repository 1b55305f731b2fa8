//! Sockets that a service manager has passed (`sd_listen_fds(3)`).

#![expect(unsafe_code, reason = "descriptors by number belong to nobody known to the compiler")]

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd as _, OwnedFd};

use rustix::io::FdFlags;

/// The first descriptor that is passed.
const FIRST: i32 = 3;
/// Sockets that are taken at most.
const SOCKETS_MAX: i32 = 64;

/// Takes the sockets, of which there are `count` from descriptor 3 on; programs that are started
/// later do not inherit them. To be called once, before anything else opens a descriptor.
///
/// # Errors
/// A number that is not open, or too many.
pub(crate) fn sockets(count: i32) -> io::Result<Vec<OwnedFd>> {
    if !(0..=SOCKETS_MAX).contains(&count) {
        let text = format!("{count} sockets were passed, at most {SOCKETS_MAX} are used");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let mut all = Vec::new();
    for number in FIRST..FIRST + count {
        // SAFETY: the descriptor is only asked for its flags, which fails if it is not open.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        rustix::io::fcntl_setfd(fd, FdFlags::CLOEXEC)?;
        // SAFETY: the descriptor is open, and the protocol of the service manager makes it this
        // process's own; the caller calls this once.
        all.push(unsafe { OwnedFd::from_raw_fd(number) });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_numbers_are_refused() {
        assert!(sockets(-1).is_err());
        assert!(sockets(SOCKETS_MAX + 1).is_err());
        assert!(sockets(0).unwrap().is_empty());
    }
}
