//! What can go wrong with a word list.

use std::path::{Path, PathBuf};

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a word list.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing is there.
    #[error("{}: no such word list", path.display())]
    NotFound {
        /// Where.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Nothing can be made of what is there.
    #[error("{}: damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A later version of this program wrote the file.
    #[error("{}: version {version} of its format is not known here", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version it claims.
        version: u32,
    },
    /// Others have been writing for too long.
    #[error("{}: in use by another process", path.display())]
    Busy {
        /// The lock.
        path: PathBuf,
    },
    /// A write or fsync failed before: what is on the disk is unknown until the list is reopened.
    #[error("{}: unusable after a failed write", path.display())]
    Poisoned {
        /// The list.
        path: PathBuf,
    },
    /// A token that is empty, too long, or has a NUL; or a batch of too many.
    #[error("{what}")]
    Refused {
        /// What is wrong.
        what: &'static str,
    },
    /// Receipts say otherwise, and the batch asked for their word. Nothing was changed.
    #[error("{} of the messages were trained before, or never", .0.len())]
    Conflicts(Vec<crate::Conflict>),
    /// A line of a dump that is none.
    #[error("line {line}: {what}")]
    Text {
        /// Counted from 1.
        line: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The list cannot do that.
    #[error("{}: {what}", path.display())]
    Unsupported {
        /// The list.
        path: PathBuf,
        /// What it cannot do, and what to do instead.
        what: &'static str,
    },
    /// Two tokens have one hash, whatever they are hashed with; that does not happen.
    #[error("two tokens have one hash")]
    Collision,
    /// The store refused.
    #[error(transparent)]
    Store(#[from] barid_kv::Error),
    /// Where a dump was to be written, or read from.
    #[error("{0}")]
    Stream(std::io::Error),
}

/// A part of a list that was found damaged and is passed by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where the damaged part begins.
    pub offset: u64,
    /// What it is.
    pub what: &'static str,
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
