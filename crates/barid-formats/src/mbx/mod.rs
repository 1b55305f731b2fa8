//! mbx: c-client's mailbox of one file, with flags and UIDs in place.
//!
//! A header of 2,048 bytes, then before each message a line with its date, its size, and its
//! keywords, flags and UID in hexadecimal digits (`layout.rs`). Text has CRLF line ends, so the
//! size of a message is its RFC822.SIZE. Everything that c-client's sessions rely on is kept: its
//! locks (`lock.rs`), its detection of changes (`scan.rs`) and its bytes.

mod append;
mod check;
mod create;
mod date;
mod expunge;
mod format;
mod headers;
mod journal;
mod layout;
mod lock;
mod number;
mod plan;
mod read;
mod repair;
mod scan;
mod sync;
mod walk;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_mailbox::{
    Caps, ChangeSet, Error, Format, Known, Location, NewMessage, OpenMessage, ReadAs, ReadMessage,
    Recovered, Result, ScanContext, ScanReport, Sinks, Stamp, Storage, SyncContext, SyncReport,
    Unfinished,
};
use barid_types::UidValidity;
use barid_vfs::{FileStamp, OpenOptions, Vfs};

pub(crate) use self::format::FORMATS;
use self::layout::{HEADER_LEN, KEYWORD_LEN_MAX, KEYWORDS_MAX, MbxHeader, MbxScanState};
use crate::file_stamps::FileStamps;
use crate::{MboxOptions, spans};

/// An mbx mailbox.
#[derive(Debug)]
pub(crate) struct MbxMailbox {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    /// Lock timeout, and the folder of the lock files.
    options: MboxOptions,
}

impl MbxMailbox {
    /// Creates the mailbox at `path` without reading anything.
    pub(crate) fn new(vfs: Arc<dyn Vfs>, path: PathBuf, options: MboxOptions) -> Self {
        Self { vfs, path, options }
    }

    fn stamp_of(&self, file: FileStamp) -> FileStamps {
        let mut stamp = FileStamps { taken: self.vfs.now(), ..FileStamps::default() };
        stamp.files[0] = file;
        stamp
    }
}

impl MbxMailbox {
    /// Takes the stamp; costs one `stat` call.
    pub(crate) fn file_stamps(&self) -> Result<FileStamps> {
        let metadata = self.vfs.metadata(&self.path).map_err(Error::at(&self.path))?;
        Ok(self.stamp_of((&metadata).into()))
    }
}

impl Storage for MbxMailbox {
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
            keywords_beyond_ascii: false,
            uids: true,
            delays: false,
            appends_unseen: false,
            message_len_max: None,
            needs_header: false,
        }
    }

    fn stored_uidvalidity(&self) -> Result<Option<UidValidity>> {
        let read = || {
            let file = self.vfs.open(&self.path, OpenOptions::READ)?;
            let mut bytes = vec![0; HEADER_LEN as usize];
            let len = file.read_full_at(&mut bytes, 0)?;
            bytes.truncate(len);
            Ok(MbxHeader::parse(&bytes))
        };
        let header = read().map_err(Error::at(&self.path))?;
        Ok(header.and_then(|header| UidValidity::new(header.uidvalidity)))
    }

    /// Returns `true` after a torn end, so that the next scan reports it again.
    fn has_unread(&self, state: &[u8]) -> bool {
        MbxScanState::from_bytes(state).is_some_and(|notes| notes.is_torn)
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
        read::read(self, location, read_as, None, buffer)
    }

    fn read_known(
        &self,
        location: &Location<'_>,
        read_as: ReadAs,
        stamp: &Stamp,
        buffer: &mut Vec<u8>,
    ) -> Result<usize> {
        read::read(self, location, read_as, Some(&FileStamps::of(stamp).files[0]), buffer)
    }

    fn open_message(&self, location: &Location<'_>, stamp: &Stamp) -> Result<OpenMessage<'_>> {
        read::open(self, location, &FileStamps::of(stamp).files[0])
    }

    fn read_many(
        &self,
        locations: &[Location<'_>],
        read_as: ReadAs,
        stamp: &Stamp,
        buffer: &mut Vec<u8>,
    ) -> Vec<Result<ReadMessage>> {
        let file = FileStamps::of(stamp).files[0];
        let files = read::MbxBatch::open(self, &file);
        spans::read_many(self, files, locations, (read_as, stamp), buffer)
    }

    /// `sync.rs` describes the order of writing and the state that a crash leaves.
    fn sync(
        &self,
        changes: &ChangeSet,
        appends: &[NewMessage<'_>],
        context: &mut SyncContext<'_>,
    ) -> Result<SyncReport> {
        sync::sync(self, changes, appends, context)
    }

    fn unfinished(&self, _state_dir: Option<&Path>) -> Result<Option<Unfinished>> {
        journal::unfinished(self)
    }

    fn recover(&self, context: &mut SyncContext<'_>) -> Result<Recovered> {
        journal::recover(self, context)
    }
}
