//! mbox: many messages in one file, in any of its variants, and MMDF.
//!
//! [`MboxMailbox`] reads a file in one pass, whatever its size, with as many threads as are allowed
//! (`scan.rs`, `parallel.rs`); when the file only grew, it reads only the appended messages
//! (`tail.rs`). `walk.rs` defines where messages begin and end, `from_line.rs` the lines that
//! separate them. UIDs come from `X-UID` and `X-IMAPbase` where these are credible, else from the
//! ledger (`uids.rs`).

mod append;
mod change;
mod check;
mod compressed;
mod file_end;
mod format;
mod from_line;
mod holder;
mod layout;
mod lock;
mod options;
mod parallel;
mod read;
mod scan;
mod session;
mod status;
mod tail;
mod uids;
mod walk;
mod window;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use barid_mailbox::{
    Caps, ChangeSet, Error, Format, Known, Location, NewMessage, OpenMessage, ReadAs, ReadKept,
    ReadMessage, Recovered, Result, ScanContext, ScanReport, Sinks, Stamp, Storage, SyncContext,
    SyncReport, Unfinished,
};
use barid_types::{KeywordTable, Uid, UidValidity};
use barid_vfs::{FileStamp, Vfs, local_zone};
use jiff::tz::TimeZone;

use self::append::UnseenAppends;
pub use self::append::write_message;
pub use self::change::WritingOptions;
use self::compressed::SharedText;
pub(crate) use self::format::{DEFAULT_FORMAT, FORMATS};
pub use self::from_line::FromProfile;
use self::layout::{CHUNK_LEN_MIN, CHUNKS_LEN_MAX, KEYWORD_LEN_MAX, KEYWORDS_MAX, LARGE_LEN_MAX};
pub use self::lock::MboxLock;
pub use self::options::MboxOptions;
use self::status::Separators;
use crate::file_stamps::FileStamps;
use crate::spans;

/// Quoting of body lines that would otherwise be read as From_ lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// `From ` at the start of a body line is stored as `>From ` and stays so when it is read.
    Mboxo,
    /// Every line of `>`s and `From ` is stored with one more `>`, which reading removes.
    Mboxrd,
    /// Like [`Variant::Mboxo`], with a `Content-Length`.
    Mboxcl,
    /// Nothing is quoted: `Content-Length` gives the end of a body.
    Mboxcl2,
    /// MMDF, not an mbox: the separators are lines of four control characters.
    Mmdf,
}

impl Variant {
    /// All variants.
    pub const ALL: [Self; 5] = [Self::Mboxo, Self::Mboxrd, Self::Mboxcl, Self::Mboxcl2, Self::Mmdf];
}

/// An mbox or MMDF mailbox.
#[derive(Debug)]
pub struct MboxMailbox {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
    variant: Option<Variant>,
    options: MboxOptions,
    compressed: Option<SharedText>,
    zone: OnceLock<TimeZone>,
    unseen: Mutex<Option<UnseenAppends>>,
}

impl MboxMailbox {
    /// Opens a mailbox without touching the disk. A file named `*.gz`, `*.bz2`, `*.xz` or `*.zst`
    /// is decompressed while it is read, and cannot be written.
    ///
    /// `variant` is the quoting, where it is known. With `None` the file is read as mboxo, and a
    /// `Content-Length` that leads to a separator is believed.
    pub fn open(vfs: Arc<dyn Vfs>, path: &Path, variant: Option<Variant>) -> Result<Self> {
        Self::open_with(vfs, path, variant, MboxOptions::default())
    }

    /// Opens a mailbox as [`MboxMailbox::open`] does, with options.
    pub fn open_with(
        vfs: Arc<dyn Vfs>,
        path: &Path,
        variant: Option<Variant>,
        options: MboxOptions,
    ) -> Result<Self> {
        let compressed = SharedText::of(path, options.spill_dir.clone());
        let zone = options.zone.clone().map(OnceLock::from).unwrap_or_default();
        let (path, unseen) = (path.to_owned(), Mutex::default());
        Ok(Self { vfs, path, variant, options, compressed, zone, unseen })
    }

    /// Returns the zone of From_ lines that name none.
    fn zone(&self) -> &TimeZone {
        self.zone.get_or_init(|| local_zone(&*self.vfs))
    }

    fn unseen(&self) -> Option<UnseenAppends> {
        *self.unseen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the lowest UID that was never told to anybody, as far as it is known.
    fn told_uidnext(&self, known: &dyn Known) -> Option<Uid> {
        let unseen = self.unseen().and_then(|unseen| unseen.uidnext_under(known.uidvalidity()));
        known.uidnext().max(unseen)
    }

    fn set_unseen(&self, unseen: UnseenAppends) {
        *self.unseen.lock().unwrap_or_else(PoisonError::into_inner) = Some(unseen);
    }

    fn separators(&self) -> Separators {
        match self.variant {
            Some(Variant::Mmdf) => Separators::Mmdf,
            _ => Separators::From(self.options.profile),
        }
    }

    /// Returns the number of bytes that one sink gets of a file of `size` bytes.
    fn chunk_len(&self, size: u64, threads: usize) -> u64 {
        self.options.chunk_len.unwrap_or_else(|| {
            // Each thread has the chunk that it reads, and one that may have to wait.
            let most = (CHUNKS_LEN_MAX / (threads as u64 * 2)).max(CHUNK_LEN_MIN);
            (size / (threads as u64 * 16)).clamp(CHUNK_LEN_MIN, most)
        })
    }

    fn stamp_of(&self, file: FileStamp) -> FileStamps {
        let mut stamp = FileStamps { taken: self.vfs.now(), ..FileStamps::default() };
        stamp.files[0] = file;
        stamp
    }
}

impl MboxMailbox {
    /// Takes the stamp.
    pub(crate) fn file_stamps(&self) -> Result<FileStamps> {
        let metadata = self.vfs.metadata(&self.path).map_err(Error::at(&self.path))?;
        Ok(self.stamp_of((&metadata).into()))
    }
}

impl Storage for MboxMailbox {
    fn format(&self) -> Format {
        self.variant.map_or(DEFAULT_FORMAT, Variant::format)
    }

    crate::on_files::storage_on_files!();

    fn caps(&self) -> Caps {
        if self.compressed.is_some() {
            return Caps::default();
        }
        Caps {
            append: true,
            flags: true,
            expunge: true,
            keywords_max: KEYWORDS_MAX as u32,
            keyword_len_max: KEYWORD_LEN_MAX as u32,
            keywords_beyond_ascii: false,
            uids: false,
            delays: true,
            appends_unseen: true,
            message_len_max: Some(LARGE_LEN_MAX),
            needs_header: true,
        }
    }

    fn left_unseen(&self, known: &Stamp) -> Option<Stamp> {
        UnseenAppends::stamp_since(self, known)
    }

    fn has_unread(&self, state: &[u8]) -> bool {
        self.compressed.is_some() && state.is_empty()
    }

    /// Reads the header of the first message, if it is not longer than what a scan of new messages
    /// reads of it.
    fn stored_uidvalidity(&self) -> Result<Option<UidValidity>> {
        if self.compressed.is_some() {
            return Ok(None);
        }
        tail::stored_base(self).map(|base| base.map(|base| base.validity))
    }

    fn take_restart_points(&self, len: u64, kept: Box<ReadKept>) {
        if let Some(text) = &self.compressed {
            text.take_points(len, kept);
        }
    }

    fn restart_points_to_keep(&self) -> Option<Vec<u8>> {
        self.compressed.as_ref()?.points_to_keep()
    }

    fn has_restart_points(&self) -> bool {
        self.compressed.is_some()
    }

    /// Returns the keywords of `X-IMAPbase`.
    fn listed_keywords(&self, known: &dyn Known) -> Result<KeywordTable> {
        append::listed_keywords(self, known)
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
        let files = read::MboxBatch::open(self, read_as, &file);
        spans::read_many(self, files, locations, (read_as, stamp), buffer)
    }

    fn is_quoted(&self, text: &[u8]) -> bool {
        read::is_quoted(self, text)
    }

    fn unquote(&self, buffer: &mut Vec<u8>, header_len: usize) -> usize {
        read::unquote(self, buffer, 0, header_len)
    }

    /// The commit point is the COMMIT of the journal. For a change within one disk sector it is the
    /// `fsync` of the file; for appends see `append/mod.rs`. The order of writes, and the state
    /// that a crash leaves, are described in `change/run.rs`.
    fn sync(
        &self,
        changes: &ChangeSet,
        appends: &[NewMessage<'_>],
        context: &mut SyncContext<'_>,
    ) -> Result<SyncReport> {
        if self.compressed.is_some() {
            let what = "a compressed mailbox can only be read";
            return Err(Error::Unsupported { path: self.path.clone(), what });
        }
        change::sync(self, changes, appends, context)
    }

    fn unfinished(&self, state_dir: Option<&Path>) -> Result<Option<Unfinished>> {
        change::unfinished(self, state_dir)
    }

    fn abandoned(&self, state_dir: Option<&Path>) -> Result<Option<Unfinished>> {
        change::abandoned(self, state_dir)
    }

    fn recover(&self, context: &mut SyncContext<'_>) -> Result<Recovered> {
        change::recover_mailbox(self, context)
    }
}

#[cfg(test)]
mod tests;
