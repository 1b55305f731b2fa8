//! Operations that a format provides for its check and repair.

use std::any::Any;
use std::path::{Path, PathBuf};

use barid_mailbox::{Result, Storage};

use super::damage::Diagnosis;
use crate::redo::JournalPath;

/// Purpose for which a mailbox is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckPurpose {
    /// Reading.
    Look,
    /// Writing, and moving messages.
    Write,
}

/// A locked mailbox.
pub(crate) struct LockedMailbox {
    /// The folder to which all paths of a plan are relative.
    pub(crate) folder: PathBuf,
    /// Path of the redo journal.
    pub(crate) place: JournalPath,
    /// Permission bits of new files.
    pub(crate) mode: u32,
    /// The locks; dropping them releases them.
    pub(crate) _locks: Box<dyn Any>,
}

impl LockedMailbox {
    /// Makes the value for a mailbox that is a folder.
    pub(crate) fn folder(path: &Path, mode: u32, locks: impl Any) -> Self {
        let place = JournalPath::inside(path);
        Self { folder: path.to_owned(), place, mode, _locks: Box::new(locks) }
    }

    /// Makes the value for a mailbox that is a file, given without symbolic links.
    pub(crate) fn file(path: &Path, mode: u32, locks: impl Any) -> Self {
        let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
        Self { folder, place: JournalPath::beside(path), mode, _locks: Box::new(locks) }
    }
}

/// The operations of a format for check and repair.
pub(crate) trait Doctor: Storage {
    /// Takes the locks.
    fn hold(&self, purpose: CheckPurpose) -> Result<LockedMailbox>;

    /// Examines everything. The locks are held; nothing is written.
    fn diagnose(&self, held: &LockedMailbox) -> Result<Diagnosis>;
}
