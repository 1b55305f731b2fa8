//! mbox: many messages in one file, in any of its variants, and MMDF.
//!
//! [`MboxMailbox`] reads a file in one pass, whatever its size, with as many threads as are allowed
//! (`scan.rs`, `parallel.rs`); when the file only grew, it reads no more than what was appended
//! (`tail.rs`). Where messages begin and end is defined in `walk.rs`, what separates them in
//! `from_line.rs`. UIDs come from `X-UID` and `X-IMAPbase` where these are credible, else from the
//! ledger (`uids.rs`).

mod append;
mod change;
mod check;
mod compressed;
mod from_line;
mod holder;
mod layout;
mod lock;
mod parallel;
mod read;
mod scan;
mod session;
mod status;
mod tail;
mod uids;
mod walk;
mod window;
mod zone;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use barid_types::KeywordTable;
use barid_vfs::{FileStamp, Vfs};
use jiff::tz::TimeZone;

pub use self::append::write_message;
pub use self::change::WritingOptions;
use self::compressed::SharedText;
pub use self::from_line::FromProfile;
use self::layout::{CHUNK_LEN_MAX, CHUNK_LEN_MIN, KEYWORD_LEN_MAX, KEYWORDS_MAX, WINDOW_LEN};
pub use self::lock::MboxLock;
use self::status::Separators;
pub use self::zone::local_zone_minutes;
use crate::{
    Caps, ChangeSet, Error, Format, Known, Location, Mailbox, NewMessage, OpenMessage, ReadAs,
    ReadKept, ReadMessage, Recovered, Result, ScanContext, ScanReport, Sinks, Stamp, SyncContext,
    SyncReport, Unfinished, spans,
};

/// How an mbox guards its bodies against being taken for From_ lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// `From ` at the start of a line became `>From `, for good.
    Mboxo,
    /// `From `, `>From `, ... got one more `>`, which reading takes away.
    Mboxrd,
    /// Like [`Variant::Mboxo`], with a `Content-Length`.
    Mboxcl,
    /// Nothing is quoted: `Content-Length` tells where a body ends.
    Mboxcl2,
    /// Not an mbox: the separators are lines of four control characters.
    Mmdf,
}

impl Variant {
    /// All variants.
    pub const ALL: [Self; 5] = [Self::Mboxo, Self::Mboxrd, Self::Mboxcl, Self::Mboxcl2, Self::Mmdf];

    /// The format.
    pub const fn format(self) -> Format {
        match self {
            Self::Mboxo => Format::Mboxo,
            Self::Mboxrd => Format::Mboxrd,
            Self::Mboxcl => Format::Mboxcl,
            Self::Mboxcl2 => Format::Mboxcl2,
            Self::Mmdf => Format::Mmdf,
        }
    }
}

/// How an mbox is to be read.
#[derive(Clone, Debug)]
pub struct MboxOptions {
    /// Which lines separate messages.
    pub profile: FromProfile,
    /// The zone of From_ lines that name none; the system's if `None`, looked up when needed.
    pub zone: Option<TimeZone>,
    /// How long to wait for another program's lock.
    pub lock_timeout: Duration,
    /// Once true, no lock is waited for any longer.
    pub stop: Option<Arc<AtomicBool>>,
    /// Which locks are taken for writing, in this order.
    pub write_locks: Vec<MboxLock>,
    /// The folder of c-client's session locks.
    pub session_dir: PathBuf,
    /// Bytes that one sink takes; chosen by the size of the file if `None`.
    pub chunk_len: Option<u64>,
    /// Bytes read at once.
    pub window_len: usize,
    /// How changes are cut into pieces.
    pub writing: WritingOptions,
}

impl Default for MboxOptions {
    /// Thirty seconds for a lock, all locks, session locks in `/tmp`.
    fn default() -> Self {
        Self {
            profile: FromProfile::default(),
            zone: None,
            lock_timeout: Duration::from_secs(30),
            stop: None,
            write_locks: MboxLock::ALL.to_vec(),
            session_dir: PathBuf::from("/tmp"),
            chunk_len: None,
            window_len: WINDOW_LEN,
            writing: WritingOptions::default(),
        }
    }
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
}

impl MboxMailbox {
    /// Opens a mailbox: nothing is looked at yet. What is called `*.gz`, `*.bz2`, `*.xz` or `*.zst`
    /// is decompressed, and can only be read.
    ///
    /// `variant` is what is known of the quoting; with `None` the file is read as mboxo whose
    /// lengths are believed where they are true.
    pub fn open(vfs: Arc<dyn Vfs>, path: &Path, variant: Option<Variant>) -> Result<Self> {
        Self::open_with(vfs, path, variant, MboxOptions::default())
    }

    /// [`MboxMailbox::open`] with options.
    pub fn open_with(
        vfs: Arc<dyn Vfs>,
        path: &Path,
        variant: Option<Variant>,
        options: MboxOptions,
    ) -> Result<Self> {
        let compressed = SharedText::of(path);
        let zone = options.zone.clone().map(OnceLock::from).unwrap_or_default();
        Ok(Self { vfs, path: path.to_owned(), variant, options, compressed, zone })
    }

    /// The zone of From_ lines that name none.
    fn zone(&self) -> &TimeZone {
        self.zone.get_or_init(|| zone::local(&*self.vfs))
    }

    fn separators(&self) -> Separators {
        match self.variant {
            Some(Variant::Mmdf) => Separators::Mmdf,
            _ => Separators::From(self.options.profile),
        }
    }

    /// Bytes that one sink takes of a file of `size` bytes.
    fn chunk_len(&self, size: u64, threads: usize) -> u64 {
        self.options.chunk_len.unwrap_or_else(|| {
            (size / (threads.max(1) as u64 * 16)).clamp(CHUNK_LEN_MIN, CHUNK_LEN_MAX)
        })
    }

    fn stamp_of(&self, file: FileStamp) -> Stamp {
        let mut stamp = Stamp { taken: self.vfs.now(), ..Stamp::default() };
        stamp.files[0] = file;
        stamp
    }
}

impl Mailbox for MboxMailbox {
    fn format(&self) -> Format {
        self.variant.unwrap_or(Variant::Mboxo).format()
    }

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
        }
    }

    fn has_unread(&self, state: &[u8]) -> bool {
        self.compressed.is_some() && state.is_empty()
    }

    fn path(&self) -> &Path {
        &self.path
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

    /// Those of `X-IMAPbase`.
    fn listed_keywords(&self, known: &dyn Known) -> Result<KeywordTable> {
        append::listed_keywords(self, known)
    }

    fn stamp(&self) -> Result<Stamp> {
        let metadata = self.vfs.metadata(&self.path).map_err(Error::at(&self.path))?;
        Ok(self.stamp_of((&metadata).into()))
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
        read::read(self, location, read_as, Some(&stamp.files[0]), buffer)
    }

    fn open_message(&self, location: &Location<'_>, stamp: &Stamp) -> Result<OpenMessage<'_>> {
        read::open(self, location, &stamp.files[0])
    }

    fn read_many(
        &self,
        locations: &[Location<'_>],
        read_as: ReadAs,
        stamp: &Stamp,
        buffer: &mut Vec<u8>,
    ) -> Vec<Result<ReadMessage>> {
        let files = read::Together::open(self, read_as, &stamp.files[0]);
        spans::read_many(self, files, locations, (read_as, stamp), buffer)
    }

    fn is_quoted(&self, text: &[u8]) -> bool {
        read::is_quoted(self, text)
    }

    fn unquote(&self, buffer: &mut Vec<u8>, header_len: usize) -> usize {
        read::unquote(self, buffer, 0, header_len)
    }

    /// The commit point is the COMMIT of the journal; of a change within one sector of the disk it
    /// is the `fsync` of the file, and for appends see `append/mod.rs`. The order of writing, and
    /// what a crash leaves: `change/run.rs`.
    fn sync(
        &mut self,
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

    fn recover(&mut self, context: &mut SyncContext<'_>) -> Result<Recovered> {
        change::recover_mailbox(self, context)
    }
}

#[cfg(test)]
mod tests;
