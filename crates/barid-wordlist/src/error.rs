//! Errors of word lists.

use std::path::{Path, PathBuf};

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a word list.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The list does not exist.
    #[error("{}: no such word list", path.display())]
    NotFound {
        /// The path of the list.
        path: PathBuf,
    },
    /// A call of the file system failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the call.
        source: std::io::Error,
    },
    /// The file is damaged and cannot be used.
    #[error("{}: damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Description of the damage.
        what: &'static str,
    },
    /// A later version of this program wrote the file.
    #[error("{}: written by a later version of barid (format {version})", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version in the header of the file.
        version: u32,
    },
    /// Another process held the lock for longer than [`crate::limits::LOCK_TIMEOUT`].
    #[error("{}: in use by another process", path.display())]
    Busy {
        /// The locked file.
        path: PathBuf,
    },
    /// A write or fsync failed before: what is on the disk is unknown until the list is reopened.
    #[error("{}: unusable after a failed write", path.display())]
    Poisoned {
        /// The list.
        path: PathBuf,
    },
    /// A token is empty, too long, or has a NUL; or a batch or a list has too many tokens.
    #[error("{what}")]
    Refused {
        /// The reason.
        what: &'static str,
    },
    /// Receipts contradict the batch, which has [`crate::Conflicts::Refuse`]. Nothing was changed.
    #[error("{} of the messages were already trained, or never", .0.len())]
    Conflicts(Vec<crate::Conflict>),
    /// A malformed line of a dump.
    #[error("line {line}: {what}")]
    Text {
        /// The number of the line, from 1.
        line: u64,
        /// The reason.
        what: &'static str,
    },
    /// The list does not support the operation.
    #[error("{}: {what}", path.display())]
    Unsupported {
        /// The list.
        path: PathBuf,
        /// The reason, and what to do instead if there is something.
        what: &'static str,
    },
    /// Two tokens have the same hash with every seed that was tried, which is extremely improbable.
    #[error("two tokens have one hash")]
    Collision,
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] barid_kv::Error),
    /// An error of the output or input of a dump.
    #[error("{0}")]
    Stream(std::io::Error),
}

/// A damaged part of a list, which is skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Byte offset in the file at which the damage begins.
    pub offset: u64,
    /// Name of the damaged part.
    pub what: &'static str,
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
