//! The bounds of everything that a caller or a damaged file could make large.

/// The longest key that every store keeps.
pub const KEY_LEN_MAX: usize = 1_023;
/// The longest value that every store keeps.
pub const VALUE_LEN_MAX: usize = 16 * 1024 * 1024;
