//! What can go wrong with a store.

use std::path::{Path, PathBuf};

/// The result of this crate.
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
        /// Why, and what to install.
        why: String,
    },
    /// There is no store of this name, or it has no such compression.
    #[error("{0}")]
    Choice(String),
    /// Nothing is there.
    #[error("{}: no such store", path.display())]
    NotFound {
        /// Where.
        path: PathBuf,
    },
    /// What is there is not what was written.
    #[error("{}: damaged: {what}", path.display())]
    Damaged {
        /// Where.
        path: PathBuf,
        /// What is wrong, as the library puts it.
        what: String,
    },
    /// A key or value longer than the store can keep.
    #[error("{}: {what} of {len} bytes, at most {max} can be kept", path.display())]
    TooLong {
        /// Where.
        path: PathBuf,
        /// `key` or `value`.
        what: &'static str,
        /// Its length.
        len: usize,
        /// The most.
        max: usize,
    },
    /// Another process is using it.
    #[error("{}: in use by another process", path.display())]
    Busy {
        /// Where.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
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

    /// What a library says is wrong with the bytes it found.
    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into() }
    }
}
