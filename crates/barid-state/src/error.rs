//! What can go wrong with state files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use barid_types::Uid;

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a state file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Bytes that were once durable are damaged. A ledger counts as lost: give the mailbox a new
    /// UIDVALIDITY by [`crate::Ledger::replace`].
    #[error("{}: damaged at byte {offset}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damaged part begins.
        offset: u64,
    },
    /// A later version of this program wrote the file.
    #[error("{}: version {version} of its format is not known here", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version it claims.
        version: u32,
    },
    /// Another process holds the lock.
    #[error("{}: locked by another process for {} s", path.display(), timeout.as_secs())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// How long we waited.
        timeout: Duration,
    },
    /// A pushed UID was not above all before it, maybe because another process pushed meanwhile:
    /// lock first, then hand out UIDs.
    #[error("{}: UID {uid} is not above those before it", path.display())]
    NotAscending {
        /// The ledger.
        path: PathBuf,
        /// The UID.
        uid: Uid,
    },
    /// A write or fsync failed before; what is on the disk is unknown until the file is reopened.
    #[error("{}: unusable after a failed write", path.display())]
    Poisoned {
        /// The file.
        path: PathBuf,
    },
    /// More than such a file holds.
    #[error("{}: more than it can hold", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
}

/// Adds the path to an [`std::io::Error`].
pub(crate) trait At<T> {
    fn at(self, path: &Path) -> Result<T>;
}

impl<T> At<T> for std::io::Result<T> {
    fn at(self, path: &Path) -> Result<T> {
        self.map_err(|source| Error::Io { path: path.to_owned(), source })
    }
}
