//! Errors reported by a library, before the path is known.

use std::io;
use std::path::Path;

use crate::Error;

/// The result of a call of a library.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// A failure reported by a library.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The file differs from what was written.
    Damaged(String),
    /// Others have used the file for too long.
    Busy,
    /// A system call failed.
    Io(io::Error),
    /// An error that needs no path, or has one.
    Complete(Error),
}

impl Failure {
    /// Adds the path; to be used as `.map_err(Failure::at(path))`.
    pub(crate) fn at(path: &Path) -> impl FnOnce(Self) -> Error {
        move |failure| match failure {
            Self::Damaged(what) => Error::damaged(path, what),
            Self::Busy => Error::Busy { path: path.to_owned() },
            Self::Io(error) => Error::at(path)(error),
            Self::Complete(error) => error,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Complete(error)
    }
}
