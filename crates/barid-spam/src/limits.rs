//! The bounds of this crate.

/// Messages that a thread takes at once to read them, if each is a file.
pub(crate) const CHUNK: usize = 8;

/// Number of such chunks that a thread may be ahead.
pub(crate) const CHUNKS_WAITING: usize = 4;

/// Maximum number of threads that read messages.
pub(crate) const THREADS_MAX: usize = 16;

/// Bytes of the tokens of messages that are trained together.
pub(crate) const BATCH_LEN: usize = 64 << 20;

/// Maximum number of messages that are trained together.
pub(crate) const BATCH_MESSAGES: usize = 65_536;

/// Number of times that messages which others have trained meanwhile are removed from a batch.
pub(crate) const CONFLICTS_MAX: u32 = 100;

/// Maximum number of tokens of all messages in a choice of parameters: 16 bytes each.
pub(crate) const TUNE_TOKENS_MAX: usize = 64 << 20;

/// Maximum number of folds into which messages are divided.
pub(crate) const TUNE_FOLDS_MAX: usize = 100;

/// Maximum number of steps of a choice of parameters away from the best point of the grid.
pub(crate) const TUNE_STEPS_MAX: usize = 12;

/// Maximum bytes of a file of parameters that are read.
pub(crate) const PARAMETERS_LEN_MAX: u64 = 64 << 10;

/// Bytes of a buffer that a thread keeps for the next message.
pub(crate) const BUFFER_KEPT_LEN: usize = 4 << 20;

/// Maximum bytes of the scores of a mailbox that are read.
pub(crate) const SCORES_LEN_MAX: u64 = 512 << 20;
