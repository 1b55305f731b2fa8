//! Options for opening a mailbox: folders, cache, locks, progress.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use barid_cache::{CacheOptions, StoreKind};
use barid_formats::{MboxLock, MboxOptions};
use barid_kv::Compression;
use barid_mailbox::Format;
use barid_vfs::cores;

use crate::attachments::AttachmentReader;

/// A long operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongOperation {
    /// Reading the mailbox.
    Scan,
    /// Completing a change that was interrupted.
    Recover,
    /// Keeping messages that are about to be expunged.
    Keep,
    /// Changing the mailbox.
    Change,
    /// Copying messages to another mailbox.
    Convert,
    /// Training the spam filter.
    Train,
    /// Classifying messages with the spam filter.
    Classify,
    /// Trying parameters of the spam filter.
    Tune,
    /// Repairing a mailbox.
    Repair,
    /// Building a text index.
    Index,
}

/// The unit of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of a file.
    Bytes,
    /// Messages.
    Messages,
    /// Sets of parameters.
    Trials,
    /// Files that are written, removed or renamed.
    Steps,
}

impl Unit {
    /// Returns the unit of progress for a format.
    pub(crate) fn of(format: Format) -> Self {
        if format.has_message_files() { Self::Messages } else { Self::Bytes }
    }
}

/// Progress of a long operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The operation.
    pub work: LongOperation,
    /// Unit of `done` and `total`.
    pub unit: Unit,
    /// Units done so far.
    pub done: u64,
    /// Units in all.
    pub total: u64,
}

impl Progress {
    /// Returns the progress callback for a format.
    pub(crate) fn callback(
        tell: &ProgressFn,
        work: LongOperation,
        format: Format,
    ) -> impl Fn(u64, u64) + Sync + use<> {
        let (tell, unit) = (Arc::clone(tell), Unit::of(format));
        move |done, total| tell(Progress { work, unit, done, total })
    }
}

/// Called now and then, from any thread, with the progress of a long operation.
pub type ProgressFn = Arc<dyn Fn(Progress) + Send + Sync>;

/// Options for opening a mailbox.
#[derive(Clone)]
pub struct OpenOptions {
    /// Folder of the caches; `None` keeps the cache in memory only.
    pub cache_dir: Option<PathBuf>,
    /// Folder of spill files, which have no names and store the text of a compressed mailbox once a
    /// reader goes back in it. If `None`, the text is decompressed again instead.
    pub spill_dir: Option<PathBuf>,
    /// Folder of the UID ledgers. They must survive: without them UIDs change.
    pub state_dir: PathBuf,
    /// Store for the cache. `None` leaves a cache where it is, and makes a new one in the native
    /// store. A cache in another store is moved, without reading the mailbox. Has no effect without
    /// [`OpenOptions::cache_dir`].
    pub store: Option<StoreKind>,
    /// Compression of the cache. `None` leaves a cache as it is, and does not compress a new one.
    /// Otherwise as [`OpenOptions::store`].
    pub compression: Option<Compression>,
    /// `true` to write nothing to the mailbox: no `dovecot-uidlist`, no attribute. Cache and state
    /// are written.
    pub read_only: bool,
    /// `true` to trust no stamp and read every message.
    pub full_check: bool,
    /// `true` for a mailbox that is refreshed again and again. A refresh then costs less, but a
    /// change by another program within a few milliseconds of it may be missing until the next one.
    /// Always `true` for a mailbox of [`crate::Mailboxes`].
    pub is_kept_open: bool,
    /// `true` to answer searches for texts from the text index, where there is one. The answers are
    /// the same without it.
    pub use_index: bool,
    /// Reader of the texts of attachments, which searches with `attachment:` then compare, and
    /// indexes have. Without it, file names alone are compared.
    pub attachments: Option<Arc<dyn AttachmentReader>>,
    /// Number of threads that may work; 0 for one per core.
    pub threads: usize,
    /// Timeout of waiting for other programs' locks of an mbox.
    pub lock_timeout: Duration,
    /// Locks that are taken to write an mbox, in this order.
    pub write_locks: Vec<MboxLock>,
    /// Once `true`, the library stops waiting for locks of an mbox, building an index, and reading
    /// attachments.
    pub stop: Option<Arc<AtomicBool>>,
    /// Called with the progress of a scan.
    pub progress: Option<ProgressFn>,
}

impl OpenOptions {
    /// Creates options with everything but the folders at its default.
    pub fn new(cache_dir: Option<PathBuf>, state_dir: PathBuf) -> Self {
        Self {
            spill_dir: cache_dir.clone(),
            cache_dir,
            state_dir,
            store: None,
            compression: None,
            read_only: false,
            full_check: false,
            is_kept_open: false,
            use_index: true,
            attachments: None,
            threads: 0,
            lock_timeout: MboxOptions::default().lock_timeout,
            write_locks: MboxLock::ALL.to_vec(),
            stop: None,
            progress: None,
        }
    }

    /// Returns the identity of the programs that read attachments; `None` if none do.
    pub(crate) fn attachment_reader_id(&self) -> Option<u32> {
        self.attachments.as_ref().map(|reader| reader.id())
    }

    /// Returns the number of threads that may work.
    pub(crate) fn thread_count(&self) -> usize {
        if self.threads == 0 { cores() } else { self.threads }
    }

    /// Returns the options for opening an mbox.
    pub(crate) fn mbox_options(&self) -> MboxOptions {
        MboxOptions {
            lock_timeout: self.lock_timeout,
            write_locks: self.write_locks.clone(),
            stop: self.stop.clone(),
            spill_dir: self.spill_dir.clone(),
            ..MboxOptions::default()
        }
    }

    /// Returns the options for a cache that now has the options `now`.
    pub(crate) fn cache_options(&self, now: CacheOptions) -> CacheOptions {
        let options = CacheOptions {
            store: self.store.unwrap_or(now.store),
            compression: self.compression.unwrap_or(now.compression),
        };
        options.effective()
    }
}

impl fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenOptions")
            .field("cache_dir", &self.cache_dir)
            .field("state_dir", &self.state_dir)
            .field("store", &self.store)
            .field("compression", &self.compression)
            .field("read_only", &self.read_only)
            .field("full_check", &self.full_check)
            .field("is_kept_open", &self.is_kept_open)
            .field("use_index", &self.use_index)
            .field("attachments", &self.attachments)
            .field("threads", &self.threads)
            .field("lock_timeout", &self.lock_timeout)
            .field("write_locks", &self.write_locks)
            .finish_non_exhaustive()
    }
}

/// Formats the store and compression of a cache: `lmdb, zstd:19`.
pub(crate) fn in_words(options: CacheOptions) -> String {
    match options.compression {
        Compression::NONE => options.store.to_string(),
        compression => format!("{}, {compression}", options.store),
    }
}
