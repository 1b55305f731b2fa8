//! The bounds of this crate.

use std::time::Duration;

/// Size in bytes of the largest batch that is written in one call, and of the tail that is read to
/// open a ledger. A batch that fits is verified by its checksum at every open; a longer one is made
/// durable before its footer is written. Part of the format: see `docs/formats/ledger.md`.
pub(crate) const TAIL_LEN: usize = 960;

/// The most entries in a ledger, so that the length of a batch fits in 32 bits.
pub(crate) const ENTRIES_MAX: usize = 1 << 28;

/// The most ranges of vanished UIDs that stay when a ledger is compacted; twice as many cause a
/// compaction. One commit records at most as many.
pub(crate) const VANISHED_MAX: usize = 8192;

/// The most ranges of vanished UIDs that are read from a ledger; none that was written by this
/// crate has more.
pub(crate) const VANISHED_READ_MAX: usize = 4 * VANISHED_MAX;

/// The longest path that is recorded, in bytes: `PATH_MAX` of Linux. A longer one is not recorded.
pub(crate) const PATH_LEN_MAX: usize = 4096;

/// Size of the buffer for reading a ledger from end to end, in bytes.
pub(crate) const SCAN_BUFFER_LEN: usize = 64 * 1024;

/// The most entries that stay in memory after a commit; more are read again when needed.
pub(crate) const ENTRIES_KEPT_MAX: usize = 4096;

/// Bytes of a batch that are read at once.
pub(crate) const LOAD_BUFFER_LEN: usize = 512 * 1024;

/// Minimum size in bytes of a ledger that is worth compacting.
pub(crate) const COMPACT_SIZE_MIN: u64 = 32 * 1024;

/// A ledger is compacted when it is this many times larger than its live entries.
pub(crate) const COMPACT_FACTOR: u64 = 3;

/// Time that a commit waits for the lock if the caller does not hold it.
pub(crate) const COMMIT_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest accepted value of the identity attribute, in bytes.
pub(crate) const IDENTITY_LEN_MAX: usize = 32 + 1 + 20 + 1 + PATH_LEN_MAX;

/// Size limit of the journal of pending changes, in bytes.
pub(crate) const PENDING_LEN_MAX: u64 = 64 << 20;

/// Size of the buffer for writing expunged messages, in bytes.
pub(crate) const EXPUNGED_BUFFER_LEN: usize = 1 << 20;

/// Size of the buffer for checking expunged messages, in bytes.
pub(crate) const EXPUNGED_CHECK_LEN: usize = 64 * 1024;

/// The largest kept message that is read into memory, in bytes; a larger one is read in pieces.
pub(crate) const EXPUNGED_WHOLE_LEN: u64 = 4 << 20;

/// Minimum number of links for which one `syncfs` replaces the fsync of each file.
pub(crate) const EXPUNGED_SYNC_FS_MIN: usize = 32;

/// The most names of the state folder that are searched for the kept expunges of other mailboxes.
pub(crate) const KEPT_FOLDERS_MAX: usize = 100_000;

/// Interval at which waiting for a lock checks for a request to stop.
pub(crate) const LOCK_SLICE: Duration = Duration::from_millis(250);
