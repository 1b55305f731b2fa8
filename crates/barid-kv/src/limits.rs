//! The bounds of everything that a caller or a damaged file could make large.

/// The longest key that every store keeps.
pub const KEY_LEN_MAX: usize = 1_023;
/// The longest value that every store keeps.
pub const VALUE_LEN_MAX: usize = 16 * 1024 * 1024;
/// The longest record that is encoded or decoded; the longest header record has 2.8 MB.
pub const RECORD_LEN_MAX: usize = 4 * 1024 * 1024;
/// The longest dictionary.
pub const DICTIONARY_LEN_MAX: usize = 110 * 1024;
/// Bytes of records that a dictionary is trained from.
pub const TRAINING_LEN_MAX: usize = 1536 * 1024;
