//! Path and trustworthiness of a journal.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use barid_mailbox::{Error, Result};
use barid_vfs::{File, FileType, Metadata, OpenOptions, Vfs};

use super::encode::{BODY_AT, MAGIC};
use super::limits::BODY_LEN_MAX;

/// The permission of group and others to write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Path of the journal of a mailbox, and the folder of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JournalPath {
    /// The mailbox.
    pub(super) mailbox: PathBuf,
    /// The folder of its files.
    pub(super) folder: PathBuf,
    /// The journal.
    pub(super) journal: PathBuf,
}

/// Result of looking for a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JournalSearch {
    /// There is no file.
    Nothing,
    /// A redo journal, or the beginning of one.
    Redo,
    /// A journal of another kind.
    Other,
    /// A file that a stranger may have put there: it is not replayed.
    Strange,
}

impl JournalPath {
    /// Returns the place for a mailbox that is a folder: `.barid-journal` in it.
    pub(crate) fn inside(mailbox: &Path) -> Self {
        Self {
            mailbox: mailbox.to_owned(),
            folder: mailbox.to_owned(),
            journal: mailbox.join(".barid-journal"),
        }
    }

    /// Returns the place for a mailbox that is the file `NAME`, given without symbolic links:
    /// `.NAME.barid-journal` beside it.
    pub(crate) fn beside(mailbox: &Path) -> Self {
        let name = mailbox.file_name().unwrap_or_default().as_bytes();
        let journal = [b".", name, b".barid-journal"].concat();
        Self {
            mailbox: mailbox.to_owned(),
            folder: mailbox.parent().unwrap_or(Path::new("/")).to_owned(),
            journal: mailbox.with_file_name(OsStr::from_bytes(&journal)),
        }
    }

    /// Returns the path of the journal.
    pub(crate) fn journal(&self) -> &Path {
        &self.journal
    }

    /// Returns the path of the mailbox.
    pub(crate) fn mailbox_path(&self) -> &Path {
        &self.mailbox
    }

    /// Returns what is there. Costs a `stat`, and if something is there, a read of its first bytes.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn look(&self, vfs: &dyn Vfs) -> Result<JournalSearch> {
        match vfs.symlink_metadata(&self.journal) {
            Ok(found) if !self.trusts(vfs, &found)? => return Ok(JournalSearch::Strange),
            Ok(_) => {}
            Err(error) if is_missing(&error) => return Ok(JournalSearch::Nothing),
            Err(error) => return Err(Error::at(&self.journal)(error)),
        }
        let options = OpenOptions { no_follow: true, ..OpenOptions::READ };
        let mut magic = [0; MAGIC.len()];
        let read =
            vfs.open(&self.journal, options).and_then(|file| file.read_full_at(&mut magic, 0));
        match read {
            // A journal that was truncated by a crash may contain only zeros.
            Ok(len) if magic[..len] == MAGIC[..len] || magic == [0; MAGIC.len()] => {
                Ok(JournalSearch::Redo)
            }
            Ok(_) => Ok(JournalSearch::Other),
            Err(error) if is_missing(&error) => Ok(JournalSearch::Nothing),
            Err(error) => Err(Error::at(&self.journal)(error)),
        }
    }

    /// Opens the journal.
    ///
    /// # Errors
    /// [`Error::Unrecoverable`] if it may not be replayed, or is larger than any journal.
    pub(super) fn open(&self, vfs: &dyn Vfs) -> Result<Box<dyn File>> {
        let at = || Error::at(&self.journal);
        let options = OpenOptions { no_follow: true, ..OpenOptions::WRITE };
        let journal = vfs.open(&self.journal, options).map_err(at())?;
        let metadata = journal.metadata().map_err(at())?;
        if !self.trusts(vfs, &metadata)? || metadata.size > BODY_LEN_MAX + BODY_AT as u64 {
            let what = "was replaced, or is too large for a journal";
            return Err(self.unrecoverable(format!("{} {what}", self.journal.display())));
        }
        Ok(journal)
    }

    /// Returns `true` if a redo journal is there, where there may be one of another kind.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn is_redo(&self, vfs: &dyn Vfs) -> Result<bool> {
        let options = OpenOptions { no_follow: true, ..OpenOptions::READ };
        let mut magic = [0; MAGIC.len()];
        let read = vfs.open(&self.journal, options);
        match read.and_then(|file| file.read_full_at(&mut magic, 0)) {
            Ok(_) => Ok(magic == *MAGIC),
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(Error::at(&self.journal)(error)),
        }
    }

    /// Returns `true` if a journal may be replayed: in a folder that all may write anybody can put
    /// one.
    pub(super) fn trusts(&self, vfs: &dyn Vfs, found: &Metadata) -> Result<bool> {
        let is_private = found.file_type == FileType::File
            && found.links <= 1
            && found.mode & WRITABLE_BY_OTHERS == 0;
        if !is_private || found.uid == vfs.user() || found.uid == 0 {
            return Ok(is_private);
        }
        let mailbox = vfs.metadata(&self.mailbox).map_err(Error::at(&self.mailbox))?;
        Ok(found.uid == mailbox.uid)
    }

    /// Returns the path to which the journal `id` is put aside.
    pub(super) fn quarantine(&self, id: &[u8; 16]) -> PathBuf {
        let id = u128::from_be_bytes(*id);
        self.journal.with_file_name(format!(".barid-quarantined-{id:032x}"))
    }

    /// Returns the path of a new journal before it replaces another.
    pub(super) fn next_journal(&self) -> PathBuf {
        let name = self.journal.file_name().unwrap_or_default().as_bytes();
        self.journal.with_file_name(OsStr::from_bytes(&[name, b"-next"].concat()))
    }

    /// Returns the path of a file of the mailbox.
    pub(super) fn file(&self, name: &[u8]) -> PathBuf {
        self.folder.join(OsStr::from_bytes(name))
    }

    /// Returns the folder of the journal.
    pub(super) fn journal_folder(&self) -> &Path {
        self.journal.parent().unwrap_or(Path::new("/"))
    }

    pub(super) fn unfinished(&self, error: &io::Error) -> Error {
        let (path, journal) = (self.mailbox.clone(), self.journal.clone());
        Error::Unfinished { path, journal, what: error.to_string() }
    }

    pub(super) fn unrecoverable(&self, what: String) -> Error {
        Error::Unrecoverable { path: self.mailbox.clone(), what }
    }
}

pub(super) fn is_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | InvalidFilename)
}
