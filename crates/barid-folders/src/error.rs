//! Errors of a tree of mailboxes, and the response codes that tell a client of them.

use std::path::{Path, PathBuf};

use barid_imap::backend::Refusal;

use crate::limits::{METADATA_ENTRIES_MAX, METADATA_VALUE_LEN_MAX};

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a tree of mailboxes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No mailbox has this name.
    #[error("{name}: no such mailbox")]
    NoSuchMailbox {
        /// The name.
        name: String,
    },
    /// Something of this name exists.
    #[error("{name}: exists already")]
    AlreadyExists {
        /// The name.
        name: String,
    },
    /// The request is not possible for this name.
    #[error("{name}: {why}")]
    Cannot {
        /// The name.
        name: String,
        /// The reason.
        why: &'static str,
    },
    /// The name has mailboxes below it and is not a mailbox itself.
    #[error("{name}: has mailboxes below it")]
    HasChildren {
        /// The name.
        name: String,
    },
    /// A special use is unknown, cannot be set, or another mailbox has it (RFC 6154 §3).
    #[error("{special_use}: {why}")]
    SpecialUse {
        /// The special use.
        special_use: String,
        /// The reason.
        why: &'static str,
    },
    /// No deleted mailbox of this name is kept.
    #[error("{name}: no deleted mailbox of this name is kept")]
    NotKept {
        /// The name.
        name: String,
    },
    /// There would be too many metadata entries, or too many bytes of them.
    #[error("too much metadata: at most {METADATA_ENTRIES_MAX} entries of a mailbox are stored")]
    TooMuchMetadata,
    /// A value of metadata is too long.
    #[error("{entry}: longer than {METADATA_VALUE_LEN_MAX} bytes")]
    MetadataTooLong {
        /// The entry.
        entry: String,
    },
    /// The name of a metadata entry is invalid.
    #[error("{entry}: {why}")]
    MetadataName {
        /// The entry.
        entry: String,
        /// The reason.
        why: &'static str,
    },
    /// Another process has locked the tree or a mailbox.
    #[error("{}: locked by {holder}", path.display())]
    Locked {
        /// The locked file.
        path: PathBuf,
        /// The holder, as far as known.
        holder: String,
    },
    /// A change was begun and can neither be completed nor be undone now. Its journal is kept, and
    /// every later change tries again.
    #[error("{}: the change is unfinished: {why}", journal.display())]
    Unfinished {
        /// The journal, which must be kept.
        journal: PathBuf,
        /// The reason.
        why: String,
    },
    /// A state file is damaged or was written by a later version.
    #[error("{}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        what: &'static str,
    },
    /// An error of a mailbox.
    #[error(transparent)]
    Mailbox(#[from] barid::Error),
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
    /// Wraps an I/O error; to be used as `.map_err(Error::at(path))`.
    pub(crate) fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    /// Returns the kind of the I/O error that caused this one.
    pub(crate) fn io_kind(&self) -> Option<std::io::ErrorKind> {
        let mut error: &(dyn std::error::Error + 'static) = self;
        loop {
            if let Some(error) = error.downcast_ref::<std::io::Error>() {
                return Some(error.kind());
            }
            error = error.source()?;
        }
    }

    /// Returns the response code (RFC 5530, RFC 6154, RFC 5464), without brackets.
    pub fn code(&self) -> Option<&'static str> {
        use std::io::ErrorKind as Kind;
        Some(match self {
            Self::NoSuchMailbox { .. } | Self::NotKept { .. } => "NONEXISTENT",
            Self::AlreadyExists { .. } => "ALREADYEXISTS",
            Self::Cannot { .. } | Self::MetadataName { .. } => "CANNOT",
            Self::HasChildren { .. } => "HASCHILDREN",
            Self::SpecialUse { .. } => "USEATTR",
            Self::TooMuchMetadata => "METADATA TOOMANY",
            Self::MetadataTooLong { .. } => METADATA_TOO_LONG,
            Self::Locked { .. } => "INUSE",
            Self::Damaged { .. } => "CORRUPTION",
            Self::Unfinished { .. } => "UNAVAILABLE",
            Self::Io { .. } | Self::Mailbox(_) => match self.io_kind()? {
                Kind::PermissionDenied | Kind::ReadOnlyFilesystem => "NOPERM",
                Kind::StorageFull | Kind::QuotaExceeded => "OVERQUOTA",
                Kind::AlreadyExists => "ALREADYEXISTS",
                _ => return None,
            },
        })
    }
}

/// The code for a value that is too long; the number is [`METADATA_VALUE_LEN_MAX`].
const METADATA_TOO_LONG: &str = "METADATA MAXSIZE 65536";

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let text: String = error.to_string();
        let text = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Self { code: error.code(), text, is_fatal: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_rfcs() {
        let check = |error: Error, code: Option<&str>, text: &str| {
            let refusal = Refusal::from(error);
            assert_eq!((refusal.code, refusal.text.as_str()), (code, text));
        };
        let name = || "a\r\nb".to_owned();
        check(Error::NoSuchMailbox { name: name() }, Some("NONEXISTENT"), "a  b: no such mailbox");
        let full = std::io::ErrorKind::StorageFull.into();
        let full: Error = Error::at(Path::new("/f"))(full);
        assert_eq!(full.code(), Some("OVERQUOTA"));
        let too_long = Error::MetadataTooLong { entry: name() };
        let most = format!("METADATA MAXSIZE {METADATA_VALUE_LEN_MAX}");
        assert_eq!(too_long.code(), Some(most.as_str()));
    }
}
