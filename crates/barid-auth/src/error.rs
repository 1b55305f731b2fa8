//! The errors of authentication; that a client failed to authenticate is none of them.

use std::path::{Path, PathBuf};

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error that keeps users from being authenticated, and that an administrator can mend.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of users or secrets cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The error of the file system.
        source: std::io::Error,
    },
    /// The file of the server's secret has another length.
    #[error("{}: {len} bytes, a server secret has {expected}; remove the file", path.display())]
    SecretLen {
        /// Path of the file.
        path: PathBuf,
        /// Its length in bytes.
        len: usize,
        /// The right length.
        expected: usize,
    },
    /// A folder has more users than are supported.
    #[error("{}: more than {max} users", path.display())]
    TooManyUsers {
        /// Path of the folder.
        path: PathBuf,
        /// The greatest number.
        max: usize,
    },
    /// The system has no random bytes.
    #[error("random bytes: {0}")]
    Random(std::io::Error),
    /// A library or service that is needed does not work.
    #[error("{what}: {why}")]
    Unavailable {
        /// The library or service.
        what: String,
        /// The reason.
        why: String,
    },
    /// A setting that cannot work.
    #[error("{setting}: {why}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// The reason.
        why: String,
    },
}

impl Error {
    /// Wraps an I/O error; to be used as `.map_err(Error::at(path))`.
    pub(crate) fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    /// Creates an error of a library or service.
    pub(crate) fn unavailable(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Unavailable { what: what.into(), why: why.into() }
    }
}
