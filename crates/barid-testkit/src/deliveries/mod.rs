//! Deliveries by other programs, as the calls that these programs make.
//!
//! None of them waits for the disk, and none knows what another program has left unfinished.

mod folders;
mod mbx;
mod mix;

pub use folders::{deliver_to_listed_maildir, deliver_to_maildir, deliver_to_mh, deliver_with_nmh};
pub use mbx::{deliver_to_mbx, deliver_to_mbx_with_uid};
pub use mix::deliver_to_mix;

use std::io;
use std::path::Path;

use barid_vfs::{OpenOptions, Vfs};

/// Delivers a message to a mailbox. Returns `false` if the program refuses the mailbox as it is.
///
/// # Errors
/// Errors of the file system.
pub type Deliver = fn(&dyn Vfs, &Path, &[u8]) -> io::Result<bool>;

/// Replaces the content of a file in place.
fn overwrite(vfs: &dyn Vfs, path: &Path, content: &[u8]) -> io::Result<()> {
    let file = vfs.open(path, OpenOptions::create(0o600))?;
    file.write_all_at(content, 0)?;
    file.set_len(content.len() as u64)
}

/// Reads a hexadecimal number, which is all of `digits`.
fn hex(digits: &str) -> Option<u32> {
    u32::from_str_radix(digits, 16).ok()
}
