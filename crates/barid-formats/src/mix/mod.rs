//! mix: the directory format of UW c-client (2007f), byte for byte.
//!
//! `.mixmeta` stores UIDVALIDITY, the last UID and the keywords; `.mixindex` the unchanging
//! properties of each message; `.mixstatus` its flags; and `.mix` with a hexadecimal number the
//! messages, with CRLF, and a line before each. UIDs and keywords are the mailbox's own. All files
//! are written in place, since c-client holds them open, and through a redo journal (`redo/`).

mod append;
mod burp;
mod check;
mod create;
mod data;
mod format;
mod held;
mod layout;
mod lock;
mod read;
mod rebuild;
mod record;
mod scan;
mod snapshot;
mod sync;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use barid_mailbox::{
    Caps, ChangeSet, Error, Format, Known, Location, NewMessage, OpenMessage, ReadAs, ReadMessage,
    Recovered, Result, ScanContext, ScanReport, Sinks, Stamp, Storage, SyncContext, SyncReport,
    Unfinished,
};
use barid_types::UidValidity;
use barid_vfs::{FileStamp, Vfs};

pub(crate) use self::format::FORMATS;
use self::layout::{INDEX, KEYWORD_LEN_MAX, KEYWORDS_MAX, META, META_LEN_MAX, STATUS};
use self::lock::{Locks, MixLockPurpose};
use crate::file_stamps::FileStamps;
use crate::redo::{self, JournalPath, JournalSearch, Mend};
use crate::spans;

/// A mix mailbox: a directory with a `.mixmeta`, as UW c-client 2007f writes it.
#[derive(Debug)]
pub struct MixMailbox {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    held: held::OpenFiles,
    stop: Option<Arc<AtomicBool>>,
}

impl MixMailbox {
    /// Makes the mailbox at `path`; reads nothing yet.
    pub fn new(vfs: Arc<dyn Vfs>, path: PathBuf) -> Self {
        Self { vfs, path, held: held::OpenFiles::default(), stop: None }
    }

    /// Ends every wait for a lock once `stop` is `true`.
    #[must_use]
    pub fn stopped_by(mut self, stop: Option<Arc<AtomicBool>>) -> Self {
        self.stop = stop;
        self
    }

    /// Rewrites an index that is missing or damaged: from its readable records, and after these
    /// from the messages in the data files that the status lists or that are newer. Returns the
    /// number of messages found in this way; an intact index is not written.
    ///
    /// Costs one pass over the data files; one change of the redo journal.
    ///
    /// # Errors
    /// [`Error::Damaged`] if `.mixmeta` cannot be read; [`Error::Locked`]; as for
    /// [`Storage::sync`].
    pub fn repair_index(&mut self) -> Result<u32> {
        sync::repair_index(self)
    }

    fn place(&self) -> JournalPath {
        JournalPath::inside(&self.path)
    }

    /// Returns `true` if a change was begun and not finished.
    fn is_unfinished(&self) -> Result<bool> {
        Ok(matches!(self.place().look(&*self.vfs)?, JournalSearch::Redo | JournalSearch::Strange))
    }

    /// Returns `true` if the unfinished change moves messages in data files.
    fn is_half_moved(&self) -> Result<bool> {
        let journal = redo::summary(&*self.vfs, &self.place())?;
        Ok(journal.names.iter().any(|name| data::data_number(name).is_some()))
    }

    /// Completes an unfinished change, under the locks that it requires.
    fn recover_with(&self, context: &mut SyncContext<'_>) -> Result<Recovered> {
        let place = self.place();
        let mut purpose = MixLockPurpose::Write;
        loop {
            if place.look(&*self.vfs)? == JournalSearch::Nothing {
                return Ok(Recovered::default());
            }
            let locks = Locks::acquire(self, purpose)?;
            // Only now is it certain what the journal contains.
            if purpose == MixLockPurpose::Write && self.is_half_moved()? {
                purpose = MixLockPurpose::Move;
                continue;
            }
            let drop_pending = context.drop_pending.as_deref_mut().map(|drop| drop as _);
            let mut mend = |names: &[&[u8]]| rebuild::reposition(self, &locks, names);
            let is_moved = |name: &[u8]| data::data_number(name).is_some();
            let mend = Mend { is_moved, mend: &mut mend };
            return redo::recover(&*self.vfs, &place, drop_pending, Some(mend));
        }
    }
}

impl MixMailbox {
    /// Takes the stamp, with three `stat` calls: for index, status and meta.
    pub(crate) fn file_stamps(&self) -> Result<FileStamps> {
        let mut stamp = FileStamps { taken: self.vfs.now(), ..FileStamps::default() };
        for (name, file) in [INDEX, STATUS, META].into_iter().zip(&mut stamp.files) {
            let path = self.path.join(name);
            match self.vfs.metadata(&path) {
                Ok(metadata) => *file = FileStamp::from(&metadata),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && name != META => {}
                Err(source) => return Err(Error::at(&path)(source)),
            }
        }
        Ok(stamp)
    }
}

impl Storage for MixMailbox {
    fn format(&self) -> Format {
        format::FORMAT
    }

    crate::on_files::storage_on_files!();

    fn caps(&self) -> Caps {
        Caps {
            append: true,
            flags: true,
            expunge: true,
            keywords_max: KEYWORDS_MAX as u32,
            keyword_len_max: KEYWORD_LEN_MAX as u32,
            keywords_beyond_ascii: true,
            uids: true,
            delays: false,
            appends_unseen: false,
            message_len_max: Some(append::LEN_MAX),
            needs_header: false,
        }
    }

    fn stored_uidvalidity(&self) -> Result<Option<UidValidity>> {
        let path = self.path.join(META);
        let text = self.vfs.read(&path, META_LEN_MAX).map_err(Error::at(&path))?;
        let meta = record::parse_meta(&text).ok();
        Ok(meta.and_then(|meta| UidValidity::new(meta.uidvalidity)))
    }

    fn has_unread(&self, state: &[u8]) -> bool {
        scan::MixState::from_bytes(state).is_some_and(|state| state.has_unread)
    }

    fn scan(
        &self,
        known: &dyn Known,
        sinks: &dyn Sinks,
        context: &mut ScanContext<'_>,
    ) -> Result<ScanReport> {
        scan::scan(self, known, sinks, context)
    }

    fn read(
        &self,
        location: &Location<'_>,
        read_as: ReadAs,
        buffer: &mut Vec<u8>,
    ) -> Result<usize> {
        read::read(self, location, read_as, buffer)
    }

    fn read_known(
        &self,
        location: &Location<'_>,
        read_as: ReadAs,
        _stamp: &Stamp,
        buffer: &mut Vec<u8>,
    ) -> Result<usize> {
        read::read_unmoved(self, location, read_as, buffer)
    }

    fn open_message(&self, location: &Location<'_>, _stamp: &Stamp) -> Result<OpenMessage<'_>> {
        read::open(self, location)
    }

    fn read_many(
        &self,
        locations: &[Location<'_>],
        read_as: ReadAs,
        stamp: &Stamp,
        buffer: &mut Vec<u8>,
    ) -> Vec<Result<ReadMessage>> {
        let files = read::ReadDataFiles::enter(self);
        spans::read_many(self, files, locations, (read_as, stamp), buffer)
    }

    /// The commit point of changes is the journal, that of appends the journal that adds them to
    /// the index; see `sync.rs`.
    fn sync(
        &self,
        changes: &ChangeSet,
        appends: &[NewMessage<'_>],
        context: &mut SyncContext<'_>,
    ) -> Result<SyncReport> {
        sync::sync(self, changes, appends, context)
    }

    fn unfinished(&self, _state_dir: Option<&Path>) -> Result<Option<Unfinished>> {
        let place = self.place();
        let journal = match place.look(&*self.vfs)? {
            JournalSearch::Nothing | JournalSearch::Other => return Ok(None),
            JournalSearch::Redo => Some(place.journal().to_owned()),
            JournalSearch::Strange => None,
        };
        Ok(Some(Unfinished { journal, what: "a change of messages".to_owned() }))
    }

    fn recover(&self, context: &mut SyncContext<'_>) -> Result<Recovered> {
        self.recover_with(context)
    }
}
