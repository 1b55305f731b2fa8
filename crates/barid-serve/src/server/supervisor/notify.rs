//! Messages to the service manager (`sd_notify(3)`).

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;

use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

/// Tells the service manager a state, if it wants to know.
///
/// # Errors
/// Errors of the system.
pub(super) fn notify(socket: Option<&OsStr>, state: &str) -> io::Result<()> {
    let Some(name) = socket else { return Ok(()) };
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddrUnix::new_abstract_name(name)?,
        None => SocketAddrUnix::new(name)?,
    };
    let (family, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(family, SocketType::DGRAM, flags, None)?;
    rustix::net::sendto(&socket, state.as_bytes(), SendFlags::NOSIGNAL, &address)?;
    Ok(())
}

/// Returns the state that tells that a reload begins.
pub(super) fn reloading() -> String {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
    format!("RELOADING=1\nMONOTONIC_USEC={micros}")
}
