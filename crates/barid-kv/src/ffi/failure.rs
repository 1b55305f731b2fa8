//! What a library says went wrong, before it is known where.

use std::io;
use std::path::Path;

use crate::Error;

/// The result of a call of a library.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// What a library says went wrong.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The file is not what was written.
    Damaged(String),
    /// Others have been using it for too long.
    Busy,
    /// The system refused.
    Io(io::Error),
    /// The library is not there.
    Unavailable(Error),
}

impl Failure {
    /// Adds where; to be used as `.map_err(Failure::at(path))`.
    pub(crate) fn at(path: &Path) -> impl FnOnce(Self) -> Error {
        move |failure| match failure {
            Self::Damaged(what) => Error::damaged(path, what),
            Self::Busy => Error::Busy { path: path.to_owned() },
            Self::Io(error) => Error::at(path)(error),
            Self::Unavailable(error) => error,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Unavailable(error)
    }
}
