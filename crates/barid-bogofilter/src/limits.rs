//! Buffer sizes and limits on input.

/// The largest configuration file or user database that is read, in bytes.
pub(crate) const CONFIG_LEN_MAX: u64 = 16 * 1024 * 1024;

/// Bytes of messages read at once.
pub(crate) const BUFFER_LEN: usize = 64 * 1024;

/// Longer input may contain so many messages that threads read it.
pub(crate) const LONG_LEN: u64 = 256 * 1024;

/// Size limit of a message in bytes.
pub(crate) const MESSAGE_LEN_MAX: usize = 1024 * 1024 * 1024;
