//! Bounds on what mail can make this program do.

/// Branches drawn before a node of a tree; what is deeper shows how much deeper it is.
pub(crate) const TREE_DEPTH_MAX: usize = 32;

/// Bytes of output collected before they are written.
pub(crate) const OUTPUT_BUFFER_LEN: usize = 256 * 1024;

/// Bytes that a pipe is to hold when much is written to it; the most that Linux gives to everybody.
pub(crate) const PIPE_LEN: usize = 1024 * 1024;

/// Lines that one thread writes before it hands them over.
pub(crate) const LINES_PER_BLOCK: usize = 8192;

/// Blocks of lines that may wait to be written, for each thread.
pub(crate) const BLOCKS_WAITING_MAX: usize = 2;

/// Addresses of one field that a JSON line lists.
pub(crate) const ADDRESSES_MAX: usize = 4096;

/// Threads that write lines; more do not make the pipe faster.
pub(crate) const WRITERS_MAX: usize = 4;

/// How often a command is done once more after an error of the cache.
pub(crate) const RECOVERIES_MAX: usize = 5;

/// Damaged records of a cache that `barid cache verify` names.
pub(crate) const RECORDS_SHOWN: usize = 10;

/// Bytes of messages that are appended at once.
pub(crate) const APPEND_BATCH_LEN: usize = 32 * 1024 * 1024;

/// The largest message that is appended from a file.
pub(crate) const MESSAGE_LEN_MAX: usize = 1024 * 1024 * 1024;

/// Messages of a mailbox looked up at once to be appended to another.
pub(crate) const INCOMING_ROWS: u32 = 1024;

/// Messages that are not there, each reported.
pub(crate) const MISSING_SHOWN: usize = 20;

/// Ranges of UIDs in the line that tells what was done.
pub(crate) const UID_RANGES_SHOWN: usize = 8;

/// Changes of a watched mailbox that are told at once.
pub(crate) const WATCH_ROWS: usize = 256;

/// Messages that could not be copied, each reported.
pub(crate) const FAILED_SHOWN: usize = 20;

/// The largest file beginning with a From_ line that is looked through for a second message.
pub(crate) const ONE_MESSAGE_LEN_MAX: u64 = 4 * 1024 * 1024;

/// Bytes of a packet of a mail server: its chunks of a body have 64 KB, and its longest header
/// fields some more.
pub(crate) const MILTER_PACKET_LEN_MAX: usize = 1024 * 1024;

/// Tokens whose counts the daemon is asked for at once.
pub(crate) const DAEMON_TOKENS_MAX: usize = 1 << 20;

/// Messages whose subjects are looked up at once.
pub(crate) const SUBJECT_ROWS: usize = 4096;

/// Bytes of what the kernel tells of this process.
pub(crate) const PROCESS_STATUS_LEN_MAX: usize = 8 * 1024;
