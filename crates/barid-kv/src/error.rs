//! The errors of stores.

use std::path::{Path, PathBuf};

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store's library cannot be used here.
    #[error("{store}: {why}")]
    Unavailable {
        /// The store.
        store: &'static str,
        /// The reason, and what to install.
        why: String,
    },
    /// No store has this name, or it has no such compression.
    #[error("{0}")]
    Choice(String),
    /// The store does not exist.
    #[error("{}: no such store", path.display())]
    NotFound {
        /// Path of the store.
        path: PathBuf,
    },
    /// The stored bytes differ from those that were written.
    #[error("{}: damaged: {what}", path.display())]
    Damaged {
        /// Path of the store.
        path: PathBuf,
        /// The damage, as reported by the library.
        what: String,
    },
    /// A key or value that is too long for the store.
    #[error("{}: {what} of {len} bytes, the limit is {max}", path.display())]
    TooLong {
        /// Path of the store.
        path: PathBuf,
        /// `key` or `value`.
        what: &'static str,
        /// Its length.
        len: usize,
        /// The longest possible.
        max: usize,
    },
    /// Another process is using the store.
    #[error("{}: in use by another process", path.display())]
    Busy {
        /// Path of the store.
        path: PathBuf,
    },
    /// An operation of the file system failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the operation.
        path: PathBuf,
        /// The error of the file system.
        source: std::io::Error,
    },
}

impl Error {
    /// Wraps an I/O error; to be used as `.map_err(Error::at(path))`.
    pub(crate) fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| match source.kind() {
            std::io::ErrorKind::NotFound => Self::NotFound { path: path.to_owned() },
            _ => Self::Io { path: path.to_owned(), source },
        }
    }

    /// Creates an error from a library's report about the bytes that it read.
    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into() }
    }
}
