//! The bounds of everything that mail or a damaged file could make large.

use std::time::Duration;

/// The longest token; longer ones are refused.
pub const TOKEN_LEN_MAX: usize = 1_023;
/// The length of a log above which it is merged into a table.
pub const LOG_LEN_MAX: u64 = 256 * 1024;
/// The length of a log above which nothing is added to it: merging has failed many times.
pub const LOG_LEN_FULL: u64 = 64 * 1024 * 1024;
/// The length of a table's hashed part up to which it is read at once.
pub const WHOLE_LEN_MAX: u64 = 128 * 1024;
/// The length of a hashed part up to which all of it is kept in memory by a handle that was asked
/// about most of it; it has room for 50 million tokens.
pub const KEPT_LEN_MAX: u64 = 512 * 1024 * 1024;
/// The length of a hashed part up to which all of it is fetched when the first block was slow.
pub const PREFETCH_LEN_MAX: u64 = 32 * 1024 * 1024;
/// A block that took longer to read was not in memory.
pub const COLD: Duration = Duration::from_micros(60);
/// The most tokens of a table.
pub const ENTRIES_MAX: u64 = 1 << 31;
/// A table of fewer tokens is always merged whole.
pub const SMALL_ENTRIES: u64 = 30_000;
/// A table of more tokens gets a delta table as long as that has fewer than this part of them.
pub const DELTA_PART: u64 = 4;
/// How often a table may be replaced while it is opened.
pub const OPENINGS_MAX: u32 = 1_000;
/// How often another seed is tried for two tokens of the same hash.
pub const SEEDS_MAX: u32 = 8;
/// How long a writer waits for others.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(120);
/// Bytes that are read or written at once when a whole table is.
pub const CHUNK_LEN: usize = 512 * 1024;
/// The longest line of a dump that is loaded; bogoutil's is 511.
pub const LINE_LEN_MAX: usize = 4_096;
/// Bytes of tokens that [`crate::load`] and [`crate::merge`] bring in with one batch.
pub const BATCH_LEN: usize = 256 * 1024 * 1024;
/// What is told of damage; more is counted by nobody.
pub const DAMAGE_MAX: usize = 100;
