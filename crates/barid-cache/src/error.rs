//! The errors of caches.

use std::path::{Path, PathBuf};

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a cache file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation of the file system failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the file system.
        source: std::io::Error,
    },
    /// A block of the file differs from what was written; remove the cache and build it again.
    #[error("{}: damaged at offset {offset}: {kind}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Offset of the damaged part.
        offset: u64,
        /// The kind of damage.
        kind: Damage,
    },
    /// The cache cannot be opened ([`crate::Opened::Discarded`]); build it again.
    #[error("{}: cannot be used: {reason}", path.display())]
    NoUse {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: &'static str,
    },
    /// The store of the header records is damaged, or cannot be used here or now.
    #[error(transparent)]
    Store(#[from] barid_kv::Error),
    /// The row does not exist.
    #[error("row {row} of {len}")]
    NoSuchRow {
        /// The requested row.
        row: u32,
        /// Number of rows.
        len: u32,
    },
    /// Another process has changed the cache, or is changing it: this process must not store its
    /// state of the mailbox. Open the cache again and scan the mailbox.
    #[error("{}: another process is writing the cache", path.display())]
    Overtaken {
        /// The file.
        path: PathBuf,
    },
    /// The scan report does not fit the messages that the scan passed, or the known state.
    #[error("the scan is inconsistent: {0}")]
    Scan(ScanFault),
}

/// A kind of damage of a cache file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The file ends too early.
    #[error("the file ends too early")]
    Truncated,
    /// The file does not begin like a cache file.
    #[error("not a cache file")]
    Magic,
    /// The checksum does not match.
    #[error("wrong checksum")]
    Checksum,
    /// A value is out of its range.
    #[error("a value is out of bounds")]
    Bounds,
    /// The store of the header records differs from what was written, or is missing.
    #[error("the store of the header records differs from what was written")]
    Store,
    /// A header record is not in the store.
    #[error("a header record is missing")]
    Missing,
    /// A header record was compressed with a dictionary that is not in the store.
    #[error("a dictionary is missing")]
    Dictionary,
}

impl From<barid_kv::compress::Defect> for Damage {
    fn from(defect: barid_kv::compress::Defect) -> Self {
        use barid_kv::compress::Defect;
        match defect {
            Defect::Truncated => Self::Truncated,
            Defect::Checksum => Self::Checksum,
            Defect::Dictionary { .. } => Self::Dictionary,
            _ => Self::Bounds,
        }
    }
}

/// An inconsistency of a scan report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScanFault {
    /// The number of new UIDs differs from that of messages without one.
    #[error("the new UIDs do not match the new messages")]
    UidCount,
    /// UIDs do not ascend.
    #[error("UIDs do not ascend")]
    UidOrder,
    /// An unknown UID was reported as gone or changed.
    #[error("an unknown UID was reported as expunged or changed")]
    UnknownUid,
    /// A message that is not a part of a file was reported as moved within one.
    #[error("a message that is not a part of a file was reported as moved within one")]
    NoSpan,
    /// More messages than rows can be numbered.
    #[error("too many messages")]
    TooMany,
    /// A file name is too long.
    #[error("a file name is too long")]
    NameLen,
    /// More changes at once than fit into a log record: scan the mailbox from scratch, into a
    /// [`crate::Builder`].
    #[error("too much has changed at once")]
    TooLarge,
    /// The report discards the known state: such a scan needs a [`crate::Builder`].
    #[error("the report discards the known state")]
    Reset,
}

impl Error {
    /// Wraps an I/O error; to be used as `.map_err(Error::at(path))`.
    pub(crate) fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| match source.kind() {
            std::io::ErrorKind::UnexpectedEof => Self::damaged(path, 0, Damage::Truncated),
            _ => Self::Io { path: path.to_owned(), source },
        }
    }

    pub(crate) fn damaged(path: &Path, offset: u64, kind: Damage) -> Self {
        Self::Damaged { path: path.to_owned(), offset, kind }
    }

    /// Creates the error of a store that differs from what was written.
    pub(crate) fn damaged_store(path: &Path, kind: Damage) -> Self {
        let what = kind.to_string();
        Self::Store(barid_kv::Error::Damaged { path: path.to_owned(), what })
    }

    /// Returns `true` if the cache must be removed and built again: its file or its store differs
    /// from what was written, or the store is missing.
    pub fn is_damage(&self) -> bool {
        use barid_kv::Error as Store;
        matches!(
            self,
            Self::Damaged { .. }
                | Self::NoUse { .. }
                | Self::Store(Store::Damaged { .. } | Store::NotFound { .. })
        )
    }
}
