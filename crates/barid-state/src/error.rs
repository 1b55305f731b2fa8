//! Errors of state files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use barid_types::Uid;

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a state file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call of the file system failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the call.
        source: std::io::Error,
    },
    /// Bytes that were once durable are damaged. A damaged ledger is lost: the mailbox needs a new
    /// UIDVALIDITY, which [`crate::Ledger::replace`] sets.
    #[error("{}: damaged at byte {offset}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Byte offset in the file at which the damage begins.
        offset: u64,
    },
    /// A later version of this program wrote the file.
    #[error("{}: written by a later version of barid (format {version})", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version that the header of the file names.
        version: u32,
    },
    /// Another process holds the lock.
    #[error("{}: locked by another process for {} s", path.display(), timeout.as_secs())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// Time spent waiting for the lock.
        timeout: Duration,
    },
    /// A pushed UID was not higher than all before it, perhaps because another process pushed UIDs
    /// in the meantime: lock the ledger before handing out UIDs.
    #[error("{}: UID {uid} is not above those before it", path.display())]
    NotAscending {
        /// The ledger.
        path: PathBuf,
        /// The first UID out of order.
        uid: Uid,
    },
    /// A write or fsync failed before; what is on the disk is unknown until the file is reopened.
    #[error("{}: unusable after a failed write", path.display())]
    Poisoned {
        /// The file.
        path: PathBuf,
    },
    /// The content exceeds the size limit of the file's format.
    #[error("{}: full", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
}

/// Converts an [`std::io::Error`] to [`Error::Io`] by adding the path.
pub(crate) trait At<T> {
    fn at(self, path: &Path) -> Result<T>;
}

impl<T> At<T> for std::io::Result<T> {
    fn at(self, path: &Path) -> Result<T> {
        self.map_err(|source| Error::Io { path: path.to_owned(), source })
    }
}
