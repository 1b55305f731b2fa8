//! The bounds of everything that a caller or a damaged file could make large.

use std::time::Duration;

/// The longest key that every store keeps.
pub const KEY_LEN_MAX: usize = 1_023;
/// The longest value that every store keeps.
pub const VALUE_LEN_MAX: usize = 16 * 1024 * 1024;
/// The longest record that is encoded or decoded; the longest header record has 2.8 MB.
pub const RECORD_LEN_MAX: usize = 4 * 1024 * 1024;
/// The longest dictionary.
pub const DICTIONARY_LEN_MAX: usize = 256 * 1024;
/// Bytes of records that a dictionary is trained from.
pub const TRAINING_LEN_MAX: usize = 2 * 1024 * 1024;
/// The most files in the folder of a store.
pub const STORE_FILES_MAX: usize = 10_000;
/// The longest seal of a store.
pub const SEAL_LEN_MAX: u64 = 1024 * 1024;
/// How often a lock file may be gone, or another, when it is locked.
pub const LOCK_FILES_MAX: usize = 100;
/// How long the probe of a store may take, however small it is.
pub const PROBE_TIME_MIN: Duration = Duration::from_secs(5);
/// How long a session of SQLite waits for others, bogofilter among them.
pub const SQLITE_WAIT_MAX: Duration = Duration::from_secs(120);
/// How much of a store a probe reads in a second at the least.
pub const PROBE_BYTES_PER_SECOND: u64 = 20_000_000;
/// Address space that a library may use beyond twice the size of the store.
pub const PROBE_SLACK_LEN: u64 = 2 << 30;
/// How many times as long a probe may take where the store compresses.
pub const PROBE_BUILTIN_FACTOR: u32 = 8;
/// Bytes of the keys that a probe keeps in memory to look them up.
pub const PROBE_KEYS_LEN_MAX: usize = 64 * 1024 * 1024;
