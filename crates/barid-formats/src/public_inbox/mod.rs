//! Archives of public-inbox, version 2 (public-inbox-v2-format(5)): each message is a commit of a
//! git repository, one repository for each epoch. They can only be read.
//!
//! The messages are those that `git log` shows as added, in the order of commits and epochs,
//! without those that a later commit deletes; a blob counts once. A message is its blob: the
//! location is its name, UIDs are in the ledger by a hash of it, and so histories that are
//! rewritten, as a purge does, change no UID of another message. All messages are \Seen, and
//! arrived when they were committed. Nothing is written. Indexes of public-inbox (SQLite, Xapian)
//! are neither needed nor read.
//!
//! They are detected only when a path is opened (`docs/design/public-inbox.md`).

mod check;
mod epochs;
mod format;
mod git;
mod history;
mod layout;
mod plan;
mod read;
mod scan;
mod state;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use barid_mailbox::{
    Caps, ChangeSet, Error, Format, Known, Location, NewMessage, OpenMessage, ReadAs, Result,
    ScanContext, ScanReport, Sinks, Stamp, Storage, SyncContext, SyncReport,
};
use barid_types::Keyword;
use barid_vfs::Vfs;

use self::epochs::Epoch;
pub(crate) use self::format::FORMATS;
use self::git::limits::DAMAGED_COPIES_MAX;
use self::git::{GitObjects, ObjectError, ObjectReader, ObjectResult, Oid, OpenPacks, Repository};
use crate::file_stamps::FileStamps;
use crate::files::header_end;

const READ_ONLY: &str = "archives of public-inbox can only be read";

/// An archive of public-inbox.
#[derive(Debug)]
pub(crate) struct PublicInbox {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    /// The epochs that were read last, with their objects.
    open: Mutex<Arc<[OpenEpoch]>>,
    open_packs: Arc<OpenPacks>,
    readers: Mutex<Vec<ObjectReader>>,
}

/// An epoch and its objects.
#[derive(Debug)]
struct OpenEpoch {
    epoch: Epoch,
    store: GitObjects,
}

impl PublicInbox {
    /// Makes the mailbox of the archive at `path`; reads nothing yet.
    pub(crate) fn new(vfs: Arc<dyn Vfs>, path: PathBuf) -> Self {
        let open = Mutex::new(Vec::new().into());
        Self { vfs, path, open, open_packs: Arc::default(), readers: Mutex::default() }
    }

    fn file_stamps(&self) -> Result<FileStamps> {
        epochs::file_stamps(&*self.vfs, &self.path)
    }

    /// Returns the epochs that were listed last; lists them the first time, or with `anew`.
    fn epochs(&self, anew: bool) -> Result<Arc<[OpenEpoch]>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.is_empty() || anew {
            let epochs = epochs::list(&*self.vfs, &self.path)?;
            if !open.iter().map(|open| &open.epoch).eq(&epochs) {
                let open_epoch = |epoch: Epoch| {
                    let store = GitObjects::new(&epoch.git_dir, Arc::clone(&self.open_packs));
                    OpenEpoch { epoch, store }
                };
                *open = epochs.into_iter().map(open_epoch).collect();
            }
        }
        Ok(Arc::clone(&open))
    }

    fn repository<'a>(&'a self, epoch: &'a OpenEpoch) -> Repository<'a> {
        Repository { vfs: &*self.vfs, store: &epoch.store }
    }

    /// Runs `work` with a reader, whose caches are kept for the next call.
    fn with_reader<T>(&self, work: impl FnOnce(&mut ObjectReader) -> T) -> T {
        let kept = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut reader = kept.unwrap_or_else(ObjectReader::new);
        let result = work(&mut reader);
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.len() < layout::READERS_MAX {
            readers.push(reader);
        }
        result
    }

    /// Reads something of a blob: from the epoch `first`, where it was seen, or else from any other
    /// one, as `all.git` of public-inbox does.
    fn in_epochs<T>(
        &self,
        epochs: &[OpenEpoch],
        first: u32,
        mut work: impl FnMut(Repository<'_>) -> ObjectResult<T>,
    ) -> ObjectResult<T> {
        let is_first = |open: &&OpenEpoch| open.epoch.number == first;
        let others = epochs.iter().filter(|open| !is_first(open));
        let (mut missing, mut damage, mut damaged) = (None, None, 0);
        for open in epochs.iter().filter(is_first).chain(others) {
            match work(self.repository(open)) {
                Err(error @ ObjectError::Missing { .. }) => {
                    missing.get_or_insert(error);
                }
                Err(error) if !error.is_ours() => {
                    damage.get_or_insert(error);
                    damaged += 1;
                    if damaged == DAMAGED_COPIES_MAX {
                        break;
                    }
                }
                result => return result,
            }
        }
        let nowhere = || ObjectError::Missing { path: self.path.clone() };
        Err(damage.or(missing).unwrap_or_else(nowhere))
    }

    /// Reads something of the message at a location.
    fn of_message<T>(
        &self,
        location: &Location<'_>,
        mut work: impl FnMut(&mut ObjectReader, Repository<'_>, Oid) -> ObjectResult<T>,
    ) -> Result<T> {
        let name = location.message_name();
        let Some((oid, epoch)) = name.and_then(|name| Some((Oid::parse(name.name)?, name.mark)))
        else {
            return Err(Error::MessageGone { path: self.path.clone(), offset: 0 });
        };
        let epochs = self.epochs(false)?;
        let found = self.with_reader(|reader| {
            self.in_epochs(&epochs, epoch, |repository| work(reader, repository, oid))
        });
        found.map_err(|error| error.of(oid))
    }
}

impl Storage for PublicInbox {
    fn format(&self) -> Format {
        format::FORMAT
    }

    crate::on_files::storage_on_files!();

    /// Returns the folders of the epochs and of the refs of the newest one. An older epoch that
    /// changes is noticed when the mailbox is checked anyway.
    fn watched_folders(&self) -> Vec<PathBuf> {
        let epochs = self.epochs(true).unwrap_or_default();
        let Some(newest) = epochs.last() else { return Vec::new() };
        let mut folders = vec![self.path.join(layout::EPOCHS)];
        let refs = git::ref_paths(&*self.vfs, &newest.epoch.git_dir);
        folders.extend(refs.iter().filter_map(|path| path.parent()).map(Path::to_path_buf));
        folders.sort_unstable();
        folders.dedup();
        folders
    }

    fn caps(&self) -> Caps {
        Caps::default()
    }

    fn can_hold_keyword(&self, _keyword: &Keyword) -> bool {
        false
    }

    /// The name of a blob is a hash of the message.
    fn names_messages(&self) -> bool {
        true
    }

    fn has_unread(&self, state: &[u8]) -> bool {
        state::ArchiveState::from_bytes(state).is_some_and(|state| state.has_unread())
    }

    fn scan(
        &self,
        known: &dyn Known,
        sinks: &dyn Sinks,
        context: &mut ScanContext<'_>,
    ) -> Result<ScanReport> {
        scan::scan(self, known, sinks, context)
    }

    /// Reads the blob; its bytes are the same in all forms.
    fn read(
        &self,
        location: &Location<'_>,
        _read_as: ReadAs,
        buffer: &mut Vec<u8>,
    ) -> Result<usize> {
        self.of_message(location, |reader, repository, oid| {
            let mut blob = reader.open(repository, oid)?;
            if blob.len() > barid_mailbox::WHOLE_LEN_MAX {
                return Ok(Err(blob.len()));
            }
            let from = buffer.len();
            buffer.resize(from + blob.len() as usize, 0);
            if let Err(error) = blob.read_at(&mut buffer[from..], 0) {
                buffer.truncate(from);
                return Err(error);
            }
            let text = &buffer[from..];
            Ok(Ok(header_end(text).map_or(text.len(), |end| end.len)))
        })?
        .or_else(|size| Error::check_size(&self.path, 0, size).map(|()| 0))
    }

    fn open_message(&self, location: &Location<'_>, _stamp: &Stamp) -> Result<OpenMessage<'_>> {
        let (mut blob, oid) = self.of_message(location, |reader, repository, oid| {
            Ok((reader.open(repository, oid)?, oid))
        })?;
        Ok(OpenMessage::new(0, blob.len(), move |buffer, offset| {
            blob.read_at(buffer, offset).map_err(|error| error.of(oid))
        }))
    }

    fn sync(
        &self,
        _changes: &ChangeSet,
        _appends: &[NewMessage<'_>],
        _context: &mut SyncContext<'_>,
    ) -> Result<SyncReport> {
        Err(Error::Unsupported { path: self.path.clone(), what: READ_ONLY })
    }
}
