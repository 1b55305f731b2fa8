//! Limits on everything that mail or a damaged file could make large.

use std::time::Duration;

/// The longest token, in bytes; longer ones are refused.
pub const TOKEN_LEN_MAX: usize = 1_023;
/// The length of a log, in bytes, above which it is merged into a table.
pub const LOG_LEN_MAX: u64 = 256 * 1024;
/// The length of a log, in bytes, above which nothing is appended, because merging must have failed
/// many times.
pub const LOG_LEN_FULL: u64 = 64 * 1024 * 1024;
/// The length of a table's hashed part, in bytes, up to which it is read as a whole.
pub const WHOLE_LEN_MAX: u64 = 128 * 1024;
/// The length of a hashed part, in bytes, up to which a handle that has read most of it keeps all
/// of it in memory; room for 50 million tokens.
pub const KEPT_LEN_MAX: u64 = 512 * 1024 * 1024;
/// The length of a hashed part, in bytes, up to which all of it is prefetched if the first block
/// was slow to read.
pub const PREFETCH_LEN_MAX: u64 = 32 * 1024 * 1024;
/// Time above which a block is assumed to have come from the disk, not from the page cache.
pub const COLD: Duration = Duration::from_micros(60);
/// The most tokens of a table.
pub const ENTRIES_MAX: u64 = 1 << 31;
/// A table of fewer tokens than this is always merged into a new one.
pub const SMALL_ENTRIES: u64 = 30_000;
/// A larger table gets a delta table, until that has more than one in this number of its tokens.
pub const DELTA_PART: u64 = 4;
/// The most times that opening a list is repeated because its table was replaced meanwhile.
pub const OPENINGS_MAX: u32 = 1_000;
/// The most hash seeds that are tried to avoid two tokens of the same hash.
pub const SEEDS_MAX: u32 = 8;
/// Time for which a writer waits for other writers.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(120);
/// Bytes per call when a whole table is read or written.
pub const CHUNK_LEN: usize = 512 * 1024;
/// The longest line of a dump that is loaded, in bytes; bogoutil's limit is 511.
pub const LINE_LEN_MAX: usize = 4_096;
/// Bytes of tokens after which [`crate::load`] and [`crate::merge`] apply a batch.
pub const BATCH_LEN: usize = 256 * 1024 * 1024;
/// The most places of damage that are reported for a file or a list.
pub const DAMAGE_MAX: usize = 100;
/// Maximum bytes of the lines of a request to the spam daemon.
pub(crate) const DAEMON_HEAD_LEN_MAX: usize = 64 * 1024;
/// Maximum number of fields of a request to the spam daemon.
pub(crate) const DAEMON_FIELDS_MAX: usize = 100;
/// Maximum bytes of an answer of the spam daemon that are read.
pub(crate) const DAEMON_ANSWER_LEN_MAX: usize = 256 * 1024 * 1024;
