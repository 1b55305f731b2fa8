//! MH: one file per message, named by a number; flags and keywords in `.mh_sequences`.
//!
//! A number is not an identity, since nmh renumbers messages (`sortm`, `folder -pack`): UIDs are in
//! the ledger, by message key, and a message that was renumbered keeps its UID
//! (`docs/design/mh.md`). Reading writes nothing into the folder.

mod append;
mod before;
mod check;
mod create;
mod format;
mod layout;
mod list;
mod name;
mod naming;
mod ranges;
mod read;
mod scan;
mod sequences;
mod sync;
mod uids;

#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_mailbox::{
    Caps, ChangeSet, Error, Format, Known, Location, NewMessage, OpenMessage, ReadAs, Result,
    ScanContext, ScanReport, Sinks, Stamp, Storage, SyncContext, SyncReport,
};
use barid_types::{Keyword, KeywordTable};
use barid_vfs::{Dir, File, FileStamp, Metadata, OpenOptions, Ownership, Vfs};

pub(crate) use self::format::FORMATS;
use self::layout::{SEQUENCE_NAME_LEN_MAX, SEQUENCES};
use self::name::{Number, parse_place};
use self::naming::Naming;
pub(crate) use self::naming::{EML, is_saved_name};
use crate::file_stamps::FileStamps;

/// An MH folder, or saved messages, which are read by the same code.
#[derive(Debug)]
pub(crate) struct MhFolder {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    sequences: PathBuf,
    format: Format,
    naming: Naming,
}

impl MhFolder {
    /// Makes the mailbox of the folder at `path`; reads nothing yet.
    pub(crate) fn new(vfs: Arc<dyn Vfs>, path: PathBuf) -> Self {
        let sequences = path.join(SEQUENCES);
        Self { vfs, path, sequences, format: format::FORMAT, naming: Naming::Numbers }
    }

    /// Makes the mailbox of saved messages: a folder of files whose names end with `.eml`, or with
    /// `is_file` one file of any name. Reads nothing yet; nothing is ever written.
    pub(crate) fn saved(
        vfs: Arc<dyn Vfs>,
        path: PathBuf,
        (format, is_file): (Format, bool),
    ) -> Self {
        let name = path.file_name().unwrap_or_default().as_bytes().to_vec();
        let naming = Naming::saved(is_file.then_some(name));
        Self { format, naming, ..Self::new(vfs, path) }
    }

    /// Returns the folder of the messages: the path itself, or the folder of a single message.
    fn dir_path(&self) -> &Path {
        match (self.naming.is_file(), self.path.parent()) {
            (false, _) => &self.path,
            (true, Some(parent)) if !parent.as_os_str().is_empty() => parent,
            (true, _) => Path::new("."),
        }
    }

    fn open_dir(&self) -> std::io::Result<Box<dyn Dir>> {
        self.vfs.open_dir(self.dir_path())
    }

    /// Returns the path of a message of the last listing.
    fn listed_path(&self, number: Number) -> PathBuf {
        self.dir_path().join(OsStr::from_bytes(&self.naming.listed_name(number)))
    }

    /// Returns the permission bits of files that are made in it.
    fn file_mode(&self) -> Result<u32> {
        Ok(self.ownership()?.mode())
    }

    /// Returns the ownership of new messages: the owner of the folder, with the permission bits of
    /// the sequences if these exist.
    fn ownership(&self) -> Result<Ownership> {
        let folder = self.vfs.metadata(&self.path).map_err(Error::at(&self.path))?;
        let mode = self.vfs.metadata(&self.sequences).map_or(folder.mode, |file| file.mode);
        Ok(Ownership::in_folder(&Metadata { mode, ..folder }))
    }
}

impl MhFolder {
    /// Takes the stamp, with two `stat` calls.
    pub(crate) fn file_stamps(&self) -> Result<FileStamps> {
        let taken = self.vfs.now();
        let folder = self.vfs.metadata(&self.path).map_err(Error::at(&self.path))?;
        let sequences = match self.vfs.metadata(&self.sequences) {
            _ if self.naming.is_saved() => FileStamp::default(),
            Ok(metadata) => FileStamp::from(&metadata),
            Err(error) if error.kind() == ErrorKind::NotFound => FileStamp::default(),
            Err(source) => return Err(Error::at(&self.sequences)(source)),
        };
        let none = FileStamp::default();
        Ok(FileStamps { files: [FileStamp::from(&folder), sequences, none, none], taken })
    }
}

impl Storage for MhFolder {
    fn format(&self) -> Format {
        self.format
    }

    crate::on_files::storage_on_files!();

    fn caps(&self) -> Caps {
        if self.naming.is_saved() {
            return Caps::default();
        }
        Caps {
            append: true,
            flags: true,
            expunge: true,
            keywords_max: KeywordTable::SLOTS_MAX as u32,
            keyword_len_max: SEQUENCE_NAME_LEN_MAX as u32,
            keywords_beyond_ascii: true,
            uids: false,
            delays: false,
            appends_unseen: false,
            message_len_max: None,
            needs_header: false,
        }
    }

    /// Returns `true` if the keyword can be the name of a sequence.
    fn can_hold_keyword(&self, keyword: &Keyword) -> bool {
        !self.naming.is_saved() && sequences::can_hold(keyword)
    }

    fn names_messages(&self) -> bool {
        true
    }

    fn has_unread(&self, state: &[u8]) -> bool {
        before::MhState::from_bytes(state).is_some_and(|state| state.has_unread)
    }

    fn scan(
        &self,
        known: &dyn Known,
        sinks: &dyn Sinks,
        context: &mut ScanContext<'_>,
    ) -> Result<ScanReport> {
        scan::scan(self, known, sinks, context)
    }

    /// Reads the file, if it is still the one that was scanned; its bytes are the same in all
    /// forms.
    fn read(
        &self,
        location: &Location<'_>,
        _read_as: ReadAs,
        buffer: &mut Vec<u8>,
    ) -> Result<usize> {
        let (path, file, size) = self.open_file(location)?;
        crate::files::read_message(&path, &*file, size, buffer)
    }

    fn open_message(&self, location: &Location<'_>, _stamp: &Stamp) -> Result<OpenMessage<'_>> {
        let (path, file, size) = self.open_file(location)?;
        Ok(crate::files::open_message(path, file, size))
    }

    fn message_file(&self, location: &Location<'_>) -> Option<PathBuf> {
        let (number, _) = location.message_name().and_then(|name| parse_place(name.name))?;
        Some(self.listed_path(number))
    }

    /// Links the file if it has no other name: `anno` and `refile -link` of nmh leave links, and
    /// `anno` changes a file in place.
    fn link(&self, location: &Location<'_>, to: &Path) -> Result<Option<Metadata>> {
        // Other programs may change a saved message in place.
        if self.naming.is_saved() {
            return Ok(None);
        }
        let place = location.message_name().and_then(|name| parse_place(name.name));
        let Some((number, mark)) = place else { return Ok(None) };
        let path = path_of(&self.path, number);
        let Some(found) = crate::files::link(&*self.vfs, &path, to)? else { return Ok(None) };
        if name::mark(&found) == mark && found.links == 2 {
            return Ok(Some(found));
        }
        crate::files::remove_link(&*self.vfs, to).map_err(Error::at(to))?;
        match name::mark(&found) == mark {
            true => Ok(None),
            false => Err(Error::MessageGone { path, offset: 0 }),
        }
    }

    fn sync(
        &self,
        changes: &ChangeSet,
        appends: &[NewMessage<'_>],
        context: &mut SyncContext<'_>,
    ) -> Result<SyncReport> {
        if self.naming.is_saved() {
            let what = "saved messages can only be read";
            return Err(Error::Unsupported { path: self.path.clone(), what });
        }
        sync::sync(self, changes, appends, context)
    }
}

impl MhFolder {
    /// Opens the file of a message, if it is still the one that was scanned; returns its size.
    fn open_file(&self, location: &Location<'_>) -> Result<(PathBuf, Box<dyn File>, u64)> {
        let place = location.message_name().and_then(|name| parse_place(name.name));
        let Some((number, mark)) = place else {
            return Err(Error::MessageGone { path: self.path.clone(), offset: 0 });
        };
        let name = self.naming.file_name(number, &|| self.open_dir());
        let Some(name) = name.map_err(Error::at(&self.path))? else {
            return Err(Error::MessageGone { path: self.path.clone(), offset: 0 });
        };
        let path = self.dir_path().join(OsStr::from_bytes(&name));
        let file = match self.vfs.open(&path, OpenOptions::READ) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(Error::MessageGone { path, offset: 0 });
            }
            Err(source) => return Err(Error::at(&path)(source)),
        };
        let metadata = file.metadata().map_err(Error::at(&path))?;
        if name::mark(&metadata) != mark {
            return Err(Error::MessageGone { path, offset: 0 });
        }
        Ok((path, file, metadata.size))
    }
}

/// Returns the path of a message.
fn path_of(dir: &Path, number: Number) -> PathBuf {
    dir.join(OsStr::from_bytes(&name::file_name(number)))
}
