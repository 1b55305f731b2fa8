//! The log of changes and barriers that [`crate::CrashVfs`] replays.

use std::sync::Arc;

use super::tree::Meta;
use crate::api::{FileType, Timestamp};

/// One change of the file system, or one barrier, in the order they happened.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// An inode was created; it has no name yet.
    Create { inode: u64, file_type: FileType },
    /// Mode and times of an inode were set.
    Meta { inode: u64, meta: Meta },
    /// Bytes were written.
    Write { inode: u64, offset: u64, bytes: Arc<[u8]> },
    /// The size was set.
    SetLen { inode: u64, size: u64 },
    /// Whole blocks were removed by a collapse.
    Collapse { inode: u64, offset: u64, len: u64 },
    /// An attribute was set or removed.
    Xattr { inode: u64, name: String, value: Option<Vec<u8>> },
    /// A name was added.
    Link { dir: u64, name: Vec<u8>, inode: u64, at: Timestamp },
    /// A name was removed.
    Unlink { dir: u64, name: Vec<u8>, inode: u64, at: Timestamp },
    /// A file was renamed.
    Rename {
        from: (u64, Vec<u8>),
        to: (u64, Vec<u8>),
        inode: u64,
        replaced: Option<u64>,
        at: Timestamp,
    },
    /// `fdatasync`.
    SyncData { inode: u64 },
    /// `fsync` of a file.
    SyncAll { inode: u64 },
    /// The `fsync` of a new file made its name durable.
    SyncName { inode: u64 },
    /// `fsync` of a directory.
    SyncDir { inode: u64 },
    /// `syncfs`.
    SyncFileSystem,
}

impl Op {
    /// Returns `true` if a crash right after it can differ from one right before. Times belong to
    /// the operation before them, and a synced name to the `fsync` of its file.
    pub(crate) fn is_point(&self) -> bool {
        !matches!(self, Self::Meta { .. } | Self::SyncName { .. })
    }

    /// Returns `true` if it makes something durable.
    pub(crate) fn is_barrier(&self) -> bool {
        matches!(
            self,
            Self::SyncData { .. }
                | Self::SyncAll { .. }
                | Self::SyncName { .. }
                | Self::SyncDir { .. }
                | Self::SyncFileSystem
        )
    }

    /// Returns the inode that it changes or syncs; `None` for changes of names.
    pub(crate) fn inode(&self) -> Option<u64> {
        match self {
            Self::Create { inode, .. }
            | Self::Meta { inode, .. }
            | Self::Write { inode, .. }
            | Self::SetLen { inode, .. }
            | Self::Collapse { inode, .. }
            | Self::Xattr { inode, .. }
            | Self::SyncData { inode }
            | Self::SyncAll { inode }
            | Self::SyncName { inode }
            | Self::SyncDir { inode } => Some(*inode),
            Self::Link { .. }
            | Self::Unlink { .. }
            | Self::Rename { .. }
            | Self::SyncFileSystem => None,
        }
    }
}
