//! How much is read at once, and at most.

/// The largest configuration file of bogofilter's, and list of users, that is read.
pub(crate) const CONFIG_LEN_MAX: u64 = 16 * 1024 * 1024;

/// Bytes of messages that are read at once.
pub(crate) const BUFFER_LEN: usize = 64 * 1024;

/// A file that is longer may have so many messages that threads read them.
pub(crate) const LONG_LEN: u64 = 256 * 1024;

/// The largest message.
pub(crate) const MESSAGE_LEN_MAX: usize = 1024 * 1024 * 1024;
