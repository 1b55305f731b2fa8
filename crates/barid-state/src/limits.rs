//! The bounds of this crate.

use std::time::Duration;

/// The largest batch that is written at once, and how much is read to open a ledger. A batch that
/// fits is verified by its checksum at every open; a longer one is made durable before its footer
/// is written. Part of the format: see `docs/formats/ledger.md`.
pub(crate) const TAIL_LEN: usize = 960;

/// The most entries in a ledger: what keeps a batch's length in 32 bits.
pub(crate) const ENTRIES_MAX: usize = 1 << 28;

/// The longest path recorded, as Linux has it; a longer one is not recorded.
pub(crate) const PATH_LEN_MAX: usize = 4096;

/// The buffer for reading a ledger from end to end.
pub(crate) const SCAN_BUFFER_LEN: usize = 64 * 1024;

/// Entries that stay in memory after a commit; more are read again when they are wanted.
pub(crate) const ENTRIES_KEPT_MAX: usize = 4096;

/// Bytes of a batch that are read at once.
pub(crate) const LOAD_BUFFER_LEN: usize = 512 * 1024;

/// A ledger smaller than this is not worth compacting.
pub(crate) const COMPACT_SIZE_MIN: u64 = 32 * 1024;

/// A ledger is compacted when it is this many times larger than what is alive in it.
pub(crate) const COMPACT_FACTOR: u64 = 3;

/// How long a commit without a lock waits for other processes' commits.
pub(crate) const COMMIT_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest value of the identity attribute that is believed.
pub(crate) const IDENTITY_LEN_MAX: usize = 32 + 1 + 20 + 1 + PATH_LEN_MAX;

/// The longest journal of pending changes.
pub(crate) const PENDING_LEN_MAX: u64 = 64 << 20;

/// The buffer for writing expunged messages.
pub(crate) const EXPUNGED_BUFFER_LEN: usize = 1 << 20;

/// The buffer for checking expunged messages.
pub(crate) const EXPUNGED_CHECK_LEN: usize = 64 * 1024;

/// Bytes of a kept message that are read into memory; a larger one is left where it is.
pub(crate) const EXPUNGED_WHOLE_LEN: u64 = 4 << 20;

/// With this many links, one sync of the file system takes the place of one of each file.
pub(crate) const EXPUNGED_SYNC_FS_MIN: usize = 32;

/// How many names of the state folder are looked at for what a replaced mailbox left.
pub(crate) const KEPT_FOLDERS_MAX: usize = 100_000;

/// Time for which a lock is waited for before a request to stop is noticed.
pub(crate) const LOCK_SLICE: Duration = Duration::from_millis(250);
