//! The locks under which an mbox is read and written.
//!
//! Reading takes what Dovecot's `mbox_read_locks` asks for, a shared `fcntl` lock, and c-client's
//! shared `flock` beside it; both are only tried, never waited for while the other is held.

use std::io;
use std::time::Duration;

use barid_vfs::{File, LockKind, LockMode};

use super::MboxMailbox;
use crate::{Error, Result};

/// How long to wait between attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// Takes the locks for reading; they are released with the file. A file system without locks is
/// read without.
pub(super) fn lock_for_reading(mailbox: &MboxMailbox, file: &dyn File) -> Result<()> {
    let start = mailbox.vfs.now();
    loop {
        let locked = try_kind(file, LockKind::Fcntl).and_then(|fcntl| {
            if !fcntl {
                return Ok(false);
            }
            let flock = try_kind(file, LockKind::Flock)?;
            if !flock {
                file.unlock(LockKind::Fcntl)?;
            }
            Ok(flock)
        });
        if locked.map_err(Error::at(&mailbox.path))? {
            return Ok(());
        }
        let waited = mailbox.vfs.now().unix_nanos.saturating_sub(start.unix_nanos);
        if u128::from(waited.unsigned_abs()) >= mailbox.options.lock_timeout.as_nanos() {
            return Err(Error::Locked {
                path: mailbox.path.clone(),
                holder: "another program".to_owned(),
                waited_ms: waited.unsigned_abs() / 1_000_000,
            });
        }
        mailbox.vfs.sleep(PAUSE);
    }
}

fn try_kind(file: &dyn File, kind: LockKind) -> io::Result<bool> {
    match file.try_lock(kind, LockMode::Shared) {
        Err(error) if is_unsupported(&error) => Ok(true),
        result => result,
    }
}

/// The file system has no such locks.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput)
        || matches!(error.raw_os_error(), Some(ENOLCK | EOPNOTSUPP | EBADF))
}

const ENOLCK: i32 = 37;
const EOPNOTSUPP: i32 = 95;
const EBADF: i32 = 9;
