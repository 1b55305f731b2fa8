//! Errors of objects.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use barid_mailbox::Error;

use super::oid::Oid;

pub(crate) type ObjectResult<T> = Result<T, ObjectError>;

/// An error of an object, or of the files that contain it.
#[derive(Debug)]
pub(crate) enum ObjectError {
    /// The file system returned an error.
    Io { path: PathBuf, source: io::Error },
    /// No pack and no loose file has the object.
    Missing { path: PathBuf },
    /// The file that contains it is damaged, or the object is not of the expected form.
    Damaged { path: PathBuf, problem: &'static str },
    /// The object is too large to be decoded in memory.
    TooLarge { path: PathBuf, size: u64 },
}

impl ObjectError {
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    pub(crate) fn damaged(path: &Path, problem: &'static str) -> Self {
        Self::Damaged { path: path.to_owned(), problem }
    }

    /// Returns `true` if the error concerns this process rather than the repository.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self, Self::Io { source, .. } if crate::files::is_ours(source))
    }

    /// Returns the error of the mailbox, about the object `oid`.
    pub(crate) fn of(self, oid: Oid) -> Error {
        let object = oid.to_string();
        match self {
            Self::Io { path, source } => Error::Io { path, source },
            Self::Missing { path } => Error::Object { path, object, problem: "is missing" },
            Self::Damaged { path, problem } => Error::Object { path, object, problem },
            Self::TooLarge { path, size } => {
                let most = super::limits::OBJECT_LEN_MAX;
                Error::MessageTooLarge { path, offset: 0, size, most }
            }
        }
    }
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Missing { path } => write!(f, "is missing in {}", path.display()),
            Self::Damaged { path, problem } => write!(f, "{problem} in {}", path.display()),
            Self::TooLarge { path, size } => {
                write!(f, "is too large ({size} bytes) in {}", path.display())
            }
        }
    }
}
