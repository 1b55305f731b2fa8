//! What can go wrong with a cache.

use std::path::{Path, PathBuf};

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a cache file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A block of the file is not what was written; the cache is to be removed and built again.
    #[error("{}: damaged at offset {offset}: {kind}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What is wrong there.
        kind: Damage,
    },
    /// The cache cannot be opened ([`crate::Opened::Discarded`]); it is to be built again.
    #[error("{}: no use: {reason}", path.display())]
    NoUse {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: &'static str,
    },
    /// The store of the header records is damaged, or cannot be used here or now.
    #[error(transparent)]
    Store(#[from] barid_kv::Error),
    /// The row does not exist.
    #[error("row {row} of {len}")]
    NoSuchRow {
        /// The row asked for.
        row: u32,
        /// How many there are.
        len: u32,
    },
    /// Another process has changed the cache, or is changing it: what this one knows of the mailbox
    /// is not to be stored. The cache is to be opened and the mailbox scanned.
    #[error("{}: another process writes the cache", path.display())]
    Overtaken {
        /// The file.
        path: PathBuf,
    },
    /// What the scan reported does not fit what it handed over or what is known.
    #[error("the scan contradicts itself: {0}")]
    Scan(ScanFault),
}

/// How a part of a cache file is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The file ends too early.
    #[error("the file ends too early")]
    Truncated,
    /// It does not begin as a cache file does.
    #[error("not a cache file")]
    Magic,
    /// The checksum does not match.
    #[error("wrong checksum")]
    Checksum,
    /// A value points outside of what it may point to.
    #[error("a value is out of bounds")]
    Bounds,
    /// The store of the header records is not what was written, or is gone.
    #[error("the store of the header records is not what was written")]
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

/// How a scan report can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScanFault {
    /// There are fewer or more new UIDs than messages without one.
    #[error("the new UIDs do not match the new messages")]
    UidCount,
    /// UIDs do not ascend.
    #[error("UIDs do not ascend")]
    UidOrder,
    /// A UID was reported as gone or changed that is not known.
    #[error("an unknown UID was reported as gone or changed")]
    UnknownUid,
    /// A message was told to be in another place that is no stretch of a file.
    #[error("a message moved that is not a stretch of a file")]
    NoSpan,
    /// More messages than rows can be numbered.
    #[error("too many messages")]
    TooMany,
    /// A file name is too long.
    #[error("a file name is too long")]
    NameLen,
    /// More has changed at once than a log record can hold: the mailbox is to be scanned from
    /// nothing, into a [`crate::Builder`].
    #[error("too much has changed at once")]
    TooLarge,
    /// The report says that nothing known holds: such a scan goes into a [`crate::Builder`].
    #[error("nothing known holds")]
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

    /// A store that is not what was written.
    pub(crate) fn damaged_store(path: &Path, kind: Damage) -> Self {
        let what = kind.to_string();
        Self::Store(barid_kv::Error::Damaged { path: path.to_owned(), what })
    }

    /// Whether the cache is to be removed and built again: its file or its store is not what was
    /// written, or the store is gone.
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
