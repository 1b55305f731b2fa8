//! Buffer sizes and limits on input.

/// The largest configuration file or user database that is read, in bytes.
pub(crate) const CONFIG_LEN_MAX: u64 = 16 * 1024 * 1024;

/// Bytes of messages read at once.
pub(crate) const BUFFER_LEN: usize = 64 * 1024;

/// Longer input may contain so many messages that threads read it.
pub(crate) const LONG_LEN: u64 = 256 * 1024;

/// Size limit of a message in bytes.
pub(crate) const MESSAGE_LEN_MAX: usize = 1024 * 1024 * 1024;

/// Bytes of the distinct tokens of messages that are registered together.
pub(crate) const BATCH_LEN: usize = 256 << 20;

/// Number of messages that are read ahead for each thread that makes words, and of messages whose
/// words are made ahead.
pub(crate) const AHEAD_MESSAGES: usize = 64;

/// Bytes of messages that are read ahead; one more message may come on top.
pub(crate) const AHEAD_LEN: usize = 32 << 20;

/// Maximum number of threads that make words ahead.
pub(crate) const AHEAD_THREADS_MAX: usize = 16;

/// Bytes of a message's buffer that is kept for another message.
pub(crate) const BUFFER_KEPT_LEN: usize = 4 << 20;
