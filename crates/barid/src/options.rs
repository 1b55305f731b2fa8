//! Where things go, and what may be written.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use barid_cache::{CacheOptions, StoreKind};
use barid_formats::{Format, MboxLock, MboxOptions};
use barid_kv::Compression;

/// What takes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
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
    /// Teaching messages to the spam filter.
    Train,
    /// Asking the spam filter.
    Classify,
    /// Trying parameters of the spam filter.
    Tune,
    /// Repairing a mailbox.
    Repair,
}

/// What progress is counted in.
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
    /// What a format counts its work in.
    pub(crate) fn of(format: Format) -> Self {
        if format.has_message_files() { Self::Messages } else { Self::Bytes }
    }
}

/// How far a long operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub work: Work,
    /// What it is counted in.
    pub unit: Unit,
    /// How much is done.
    pub done: u64,
    /// Out of how much.
    pub total: u64,
}

impl Progress {
    /// What a format is given to tell its progress to.
    pub(crate) fn teller(
        tell: &ProgressFn,
        work: Work,
        format: Format,
    ) -> impl Fn(u64, u64) + Sync + use<> {
        let (tell, unit) = (Arc::clone(tell), Unit::of(format));
        move |done, total| tell(Progress { work, unit, done, total })
    }
}

/// Told now and then how far a long operation is, from any thread.
pub type ProgressFn = Arc<dyn Fn(Progress) + Send + Sync>;

/// How to open a mailbox.
#[derive(Clone)]
pub struct OpenOptions {
    /// Where caches are kept; `None` keeps the cache in memory only.
    pub cache_dir: Option<PathBuf>,
    /// Where the UID ledgers are kept. They must survive: without them UIDs change.
    pub state_dir: PathBuf,
    /// What the cache is to be kept in. `None` leaves a cache where it is, and makes a new one in
    /// the native store. A cache that is elsewhere is moved, without reading the mailbox. Means
    /// nothing without [`OpenOptions::cache_dir`].
    pub store: Option<StoreKind>,
    /// How the cache is to be compressed. `None` leaves a cache as it is, and does not compress a
    /// new one. As [`OpenOptions::store`] otherwise.
    pub compression: Option<Compression>,
    /// Write nothing to the mailbox: no `dovecot-uidlist`, no attribute. Cache and state are
    /// written.
    pub read_only: bool,
    /// Believe no stamp: look at every message.
    pub full_check: bool,
    /// How many threads may work; 0 for as many as there are cores.
    pub threads: usize,
    /// How long to wait for other programs' locks of an mbox.
    pub lock_timeout: Duration,
    /// Which locks are taken to write an mbox, in this order.
    pub write_locks: Vec<MboxLock>,
    /// Once true, no lock of an mbox is waited for any longer.
    pub stop: Option<Arc<AtomicBool>>,
    /// Told how far a scan is.
    pub progress: Option<ProgressFn>,
}

impl OpenOptions {
    /// Options with everything but the folders at its default.
    pub fn new(cache_dir: Option<PathBuf>, state_dir: PathBuf) -> Self {
        Self {
            cache_dir,
            state_dir,
            store: None,
            compression: None,
            read_only: false,
            full_check: false,
            threads: 0,
            lock_timeout: MboxOptions::default().lock_timeout,
            write_locks: MboxLock::ALL.to_vec(),
            stop: None,
            progress: None,
        }
    }

    /// How an mbox is opened.
    pub(crate) fn mbox_options(&self) -> MboxOptions {
        MboxOptions {
            lock_timeout: self.lock_timeout,
            write_locks: self.write_locks.clone(),
            stop: self.stop.clone(),
            ..MboxOptions::default()
        }
    }

    /// What a cache that is in `now` is to be in.
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
            .field("threads", &self.threads)
            .field("lock_timeout", &self.lock_timeout)
            .field("write_locks", &self.write_locks)
            .finish_non_exhaustive()
    }
}

/// What a cache is in, in words: `lmdb, zstd:19`.
pub(crate) fn in_words(options: CacheOptions) -> String {
    match options.compression {
        Compression::NONE => options.store.to_string(),
        compression => format!("{}, {compression}", options.store),
    }
}
