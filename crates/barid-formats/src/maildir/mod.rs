//! Maildir: one file per message, with its flags in the name; UIDs and keywords in Dovecot's side
//! files.
//! Names, order of UIDs and the side files are those of Dovecot 2.3, so that both may use one
//! Maildir at the same time (see `docs/design/maildir.md`). Reading renames nothing; it writes
//! `dovecot-uidlist`, which makes UIDs durable, or the ledger where it cannot.

mod append;
mod arriving;
mod before;
mod check;
mod create;
mod expected;
mod format;
mod keywords;
mod layout;
mod list;
mod name;
mod read;
mod relist;
mod renamed;
mod scan;
mod state;
mod sync;
mod table;
mod twins;
mod uidlist;
mod uids;
mod unread;
mod validity;
mod written;

#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_mailbox::{
    Caps, ChangeSet, Error, Format, Known, Location, MessageName, NewMessage, OpenMessage, ReadAs,
    Result, ScanContext, ScanReport, Sinks, Stamp, Storage, SyncContext, SyncReport,
};
use barid_types::{Keyword, KeywordTable, UidValidity};
use barid_vfs::{Dir, File, FileStamp, Metadata, OpenOptions, Ownership, Vfs};

pub(crate) use self::format::FORMATS;
use self::layout::{CUR, KEYWORDS, LETTERS, NEW, TMP, UIDLIST};
use crate::file_stamps::FileStamps;

/// A Maildir.
#[derive(Debug)]
pub(crate) struct Maildir {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    paths: Paths,
}

/// The paths of the parts.
#[derive(Debug)]
struct Paths {
    new: PathBuf,
    cur: PathBuf,
    tmp: PathBuf,
    uidlist: PathBuf,
    keywords: PathBuf,
}

/// `new` and `cur`, open.
#[derive(Debug)]
struct Dirs {
    vfs: Arc<dyn Vfs>,
    handles: [Box<dyn Dir>; 2],
    paths: [PathBuf; 2],
}

impl Maildir {
    /// Makes the Maildir at `path`; reads nothing yet.
    pub(crate) fn new(vfs: Arc<dyn Vfs>, path: PathBuf) -> Self {
        let paths = Paths {
            new: path.join(NEW),
            cur: path.join(CUR),
            tmp: path.join(TMP),
            uidlist: path.join(UIDLIST),
            keywords: path.join(KEYWORDS),
        };
        Self { vfs, path, paths }
    }

    fn open_dirs(&self) -> Result<Dirs> {
        let open = |path: &Path| self.vfs.open_dir(path).map_err(Error::at(path));
        Ok(Dirs {
            vfs: Arc::clone(&self.vfs),
            handles: [open(&self.paths.new)?, open(&self.paths.cur)?],
            paths: [self.paths.new.clone(), self.paths.cur.clone()],
        })
    }
}

impl Dirs {
    /// Returns the stamps of both.
    fn stamps(&self) -> Result<[FileStamp; 2]> {
        let stamp = |path: &Path| -> Result<FileStamp> {
            let metadata = self.vfs.metadata(path).map_err(Error::at(path))?;
            Ok(FileStamp::from(&metadata))
        };
        Ok([stamp(&self.paths[0])?, stamp(&self.paths[1])?])
    }

    /// Returns the stamps of both, with the time at which they were taken.
    fn file_stamps(&self) -> Result<FileStamps> {
        let taken = self.vfs.now();
        let [new, cur] = self.stamps()?;
        Ok(FileStamps { files: [new, cur, FileStamp::default(), FileStamp::default()], taken })
    }
}

impl Maildir {
    /// Opens the file of a message.
    fn open_file(&self, location: &Location<'_>) -> Result<(PathBuf, Box<dyn File>)> {
        // A cache that is damaged may name anything.
        let message = location.message_name();
        let is_file = |name: &[u8]| !name.is_empty() && name[0] != b'.' && !name.contains(&b'/');
        let Some(MessageName { name, in_new, .. }) = message.filter(|found| is_file(found.name))
        else {
            return Err(Error::MessageGone { path: self.path.clone(), offset: 0 });
        };
        let path = path_of(if in_new { &self.paths.new } else { &self.paths.cur }, name);
        match self.vfs.open(&path, OpenOptions::READ) {
            Ok(file) => Ok((path, file)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(Error::MessageGone { path, offset: 0 })
            }
            Err(source) => Err(Error::at(&path)(source)),
        }
    }
}

impl Maildir {
    /// Takes the stamp, with four `stat` calls.
    pub(crate) fn file_stamps(&self) -> Result<FileStamps> {
        let taken = self.vfs.now();
        let stamp = |path: &Path, required: bool| match self.vfs.metadata(path) {
            Ok(metadata) => Ok(FileStamp::from(&metadata)),
            Err(error) if !required && error.kind() == std::io::ErrorKind::NotFound => {
                Ok(FileStamp::default())
            }
            Err(source) => Err(Error::at(path)(source)),
        };
        let files = [
            stamp(&self.paths.new, true)?,
            stamp(&self.paths.cur, true)?,
            stamp(&self.paths.uidlist, false)?,
            stamp(&self.paths.keywords, false)?,
        ];
        Ok(FileStamps { files, taken })
    }
}

impl Storage for Maildir {
    fn format(&self) -> Format {
        format::FORMAT
    }

    crate::on_files::storage_on_files!();

    fn caps(&self) -> Caps {
        Caps {
            append: true,
            flags: true,
            expunge: true,
            keywords_max: LETTERS as u32,
            keyword_len_max: Keyword::LEN_MAX as u32,
            keywords_beyond_ascii: true,
            uids: true,
            delays: false,
            appends_unseen: true,
            message_len_max: None,
            needs_header: false,
        }
    }

    fn stored_uidvalidity(&self) -> Result<Option<UidValidity>> {
        validity::stored(&*self.vfs, &self.path)
    }

    /// Replaces the first line of `dovecot-uidlist`, under its lock.
    fn set_uidvalidity(&self, uidvalidity: UidValidity) -> Result<bool> {
        validity::renumber(&self.vfs, &self.path, uidvalidity)
    }

    fn listed_keywords(&self, _known: &dyn Known) -> Result<KeywordTable> {
        Ok(keywords::Keywords::read(&*self.vfs, &self.paths.keywords)?.names().cloned().collect())
    }

    fn names_messages(&self) -> bool {
        true
    }

    fn has_unread(&self, state: &[u8]) -> bool {
        state::MaildirState::has_unread(state)
    }

    fn scan(
        &self,
        known: &dyn Known,
        sinks: &dyn Sinks,
        context: &mut ScanContext<'_>,
    ) -> Result<ScanReport> {
        scan::scan(self, known, sinks, context)
    }

    /// Reads the file; its bytes are the same in all forms. If its name tells its size, it is not
    /// asked for.
    fn read(
        &self,
        location: &Location<'_>,
        _read_as: ReadAs,
        buffer: &mut Vec<u8>,
    ) -> Result<usize> {
        let (path, file) = self.open_file(location)?;
        let noted = location.message_name().and_then(|found| name::size_field(found.name, b'S'));
        if let Some(noted) = noted
            && let Some(header_len) = crate::files::read_noted(&path, &*file, noted, buffer)?
        {
            return Ok(header_len);
        }
        let size = file.metadata().map_err(Error::at(&path))?.size;
        crate::files::read_message(&path, &*file, size, buffer)
    }

    fn open_message(&self, location: &Location<'_>, _stamp: &Stamp) -> Result<OpenMessage<'_>> {
        let (path, file) = self.open_file(location)?;
        let size = file.metadata().map_err(Error::at(&path))?.size;
        Ok(crate::files::open_message(path, file, size))
    }

    fn message_file(&self, location: &Location<'_>) -> Option<PathBuf> {
        let MessageName { name, in_new, .. } = location.message_name()?;
        Some(path_of(if in_new { &self.paths.new } else { &self.paths.cur }, name))
    }

    /// Links the file: nobody changes files of a Maildir in place.
    fn link(&self, location: &Location<'_>, to: &Path) -> Result<Option<Metadata>> {
        match self.message_file(location) {
            Some(path) => crate::files::link(&*self.vfs, &path, to),
            None => Ok(None),
        }
    }

    fn sync(
        &self,
        changes: &ChangeSet,
        appends: &[NewMessage<'_>],
        context: &mut SyncContext<'_>,
    ) -> Result<SyncReport> {
        sync::sync(self, changes, appends, context)
    }
}

/// Opens an empty file that is to replace a list. It has the owner of the list; without a list,
/// everybody who may use the Maildir may use the file. An existing file is a leftover, since the
/// lock is held.
fn open_beside(
    vfs: &dyn Vfs,
    dir: &Path,
    list: &Path,
    beside: &Path,
) -> std::io::Result<Box<dyn File>> {
    match vfs.remove_file(beside) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mode = vfs.metadata(dir)?.mode & 0o666;
    Ownership::replacing(vfs, list, mode)?.create(vfs, beside)
}

/// Returns the path of a file.
fn path_of(dir: &Path, name: &[u8]) -> PathBuf {
    dir.join(OsStr::from_bytes(name))
}

/// Returns `true` if a file is the same in two stamps, and was old enough at the earlier one for
/// that to prove that it is unchanged.
fn settled(before: &FileStamps, now: &FileStamps, at: usize) -> bool {
    before.files[at] == now.files[at] && before.is_settled(at)
}
