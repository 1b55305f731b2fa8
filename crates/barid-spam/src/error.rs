//! Errors of this crate, their kinds and their hints.

use std::path::{Path, PathBuf};

use barid::ErrorKind;

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the spam filter.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the mailbox.
    #[error(transparent)]
    Mailbox(#[from] barid::Error),
    /// An error of the word list.
    #[error(transparent)]
    WordList(#[from] barid_wordlist::Error),
    /// Too few messages of a class to choose parameters.
    #[error("too few messages: at least {least} of each class are needed to choose parameters")]
    TooFewSamples {
        /// Number of messages needed.
        least: usize,
    },
    /// Too many messages to choose parameters.
    #[error("too many messages to choose parameters: {messages}")]
    TooManySamples {
        /// Number of messages read.
        messages: usize,
    },
    /// The operation was stopped on request.
    #[error("interrupted")]
    Stopped,
    /// A file of parameters is malformed.
    #[error("{}: line {line}: {problem}", path.display())]
    Parameters {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem.
        problem: &'static str,
    },
    /// An error of the file system.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
}

impl Error {
    /// Returns the kind of the error, which shows who can resolve it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Mailbox(error) => error.kind(),
            Self::WordList(error) => of_word_list(error).0,
            Self::TooFewSamples { .. } | Self::TooManySamples { .. } | Self::Stopped => {
                ErrorKind::User
            }
            Self::Parameters { .. } => ErrorKind::Config,
            Self::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                ErrorKind::User
            }
            Self::Io { .. } => ErrorKind::Io,
        }
    }

    /// Returns a hint on what to try next, if one is known.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Mailbox(error) => return error.hint(),
            Self::WordList(error) => of_word_list(error).1?,
            Self::TooFewSamples { .. } => "give more of both, some hundred of each or more",
            Self::TooManySamples { .. } => "give fewer: the newest are the most useful",
            Self::Parameters { .. } => {
                "choose new ones with `barid spam tune --save`, or remove the file"
            }
            Self::Stopped | Self::Io { .. } => return None,
        };
        Some(hint.to_owned())
    }

    /// Wraps an error of the file system; to be used as `.map_err(Error::at(path))`.
    pub(crate) fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

/// Returns the kind of an error of a word list, and a hint on what to try next.
fn of_word_list(error: &barid_wordlist::Error) -> (ErrorKind, Option<&'static str>) {
    use barid_wordlist::Error as List;
    match error {
        List::NotFound { .. } => {
            (ErrorKind::User, Some("`barid spam train` creates one; --wordlist PATH names another"))
        }
        List::Damaged { .. } => {
            (ErrorKind::Corrupt, Some("move it away, and `barid spam load` a dump of it"))
        }
        List::Version { .. } | List::Unsupported { .. } => (ErrorKind::Config, None),
        List::Store(barid_kv::Error::Unavailable { .. }) => (
            ErrorKind::Config,
            Some("`bogoutil -d LIST | barid spam load` copies it into a list of barid"),
        ),
        List::Busy { .. } => {
            (ErrorKind::Io, Some("run it again when the other process has finished"))
        }
        List::Io { source, .. } => (ErrorKind::Io, of_the_system(source.kind())),
        List::Text { .. } | List::Refused { .. } | List::Conflicts(_) => (ErrorKind::User, None),
        _ => (ErrorKind::Io, None),
    }
}

/// Returns the hint for a list that the system does not allow to be read or written.
fn of_the_system(kind: std::io::ErrorKind) -> Option<&'static str> {
    use std::io::ErrorKind as Kind;
    match kind {
        Kind::PermissionDenied | Kind::ReadOnlyFilesystem => Some(
            "a list needs a folder in which files can be created: name a list in a folder of \
             yours with --wordlist PATH",
        ),
        Kind::StorageFull | Kind::QuotaExceeded => {
            Some("nothing was changed: make room and run it again")
        }
        _ => None,
    }
}
