//! The bounds of everything that a caller or a damaged file could make large.

use std::time::Duration;

/// The longest key that every store accepts, in bytes.
pub const KEY_LEN_MAX: usize = 1_023;
/// The longest value that every store accepts, in bytes.
pub const VALUE_LEN_MAX: usize = 16 * 1024 * 1024;
/// The longest record that is encoded or decoded, in bytes; the longest header record has 2.8 MB.
pub const RECORD_LEN_MAX: usize = 4 * 1024 * 1024;
/// The longest dictionary, in bytes.
pub const DICTIONARY_LEN_MAX: usize = 256 * 1024;
/// Bytes of records that a dictionary is trained from.
pub const TRAINING_LEN_MAX: usize = 2 * 1024 * 1024;
/// The most files in the folder of a store.
pub const STORE_FILES_MAX: usize = 10_000;
/// The longest seal of a store, in bytes.
pub const SEAL_LEN_MAX: u64 = 1024 * 1024;
/// Number of attempts to lock a lock file that is removed or replaced meanwhile.
pub const LOCK_FILES_MAX: usize = 100;
/// The waiting time of the probe of a store for each second of processor time that it may use:
/// Tokyo Cabinet yields the processor at each step, and gets it back late on a loaded machine.
pub const PROBE_WAIT_FACTOR: u32 = 12;
/// The shortest limit of processor time for the probe of a store, for small ones.
pub const PROBE_TIME_MIN: Duration = Duration::from_secs(5);
/// The longest time that a session of SQLite waits for others, such as bogofilter.
pub const SQLITE_WAIT_MAX: Duration = Duration::from_secs(120);
/// The slowest acceptable speed of a probe.
pub const PROBE_BYTES_PER_SECOND: u64 = 20_000_000;
/// Address space in bytes that a library may use beyond twice the size of the store.
pub const PROBE_SLACK_LEN: u64 = 2 << 30;
/// Factor by which the time limit of a probe grows if the store compresses.
pub const PROBE_BUILTIN_FACTOR: u32 = 8;
/// Bytes of keys that a probe keeps in memory for look-ups.
pub const PROBE_KEYS_LEN_MAX: usize = 64 * 1024 * 1024;
