//! Lines for the system log.

use std::os::unix::net::UnixDatagram;

use barid_vfs::{Host as _, OsVfs};

/// Facility mail, severity informational.
const PRIORITY: u8 = 2 << 3 | 6;
/// The socket of the system log.
const LOG: &str = "/dev/log";

/// Writes a line, if there is a log.
pub(crate) fn write(line: &[u8]) {
    let pid = OsVfs.process().pid;
    let text = [format!("<{PRIORITY}>bogofilter[{pid}]: ").as_bytes(), line].concat();
    if let Ok(socket) = UnixDatagram::unbound() {
        // A missing log is not an error.
        drop(socket.send_to(&text, LOG));
    }
}
