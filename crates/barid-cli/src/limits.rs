//! Limits on resources that mail can consume.

use std::time::Duration;

/// Branches drawn before a node of a tree; deeper nodes show the number of omitted levels.
pub(crate) const TREE_DEPTH_MAX: usize = 32;

/// Bytes of output collected before they are written.
pub(crate) const OUTPUT_BUFFER_LEN: usize = 256 * 1024;

/// Pipe size in bytes for large output; the most that Linux allows everybody.
pub(crate) const PIPE_LEN: usize = 1024 * 1024;

/// Lines that a thread formats before it hands them over.
pub(crate) const LINES_PER_BLOCK: usize = 8192;

/// Blocks of lines that may wait to be written, for each thread.
pub(crate) const BLOCKS_WAITING_MAX: usize = 2;

/// Addresses of one field that a JSON line lists.
pub(crate) const ADDRESSES_MAX: usize = 4096;

/// Threads that format lines; more do not make the pipe faster.
pub(crate) const WRITERS_MAX: usize = 4;

/// Number of retries of a command after errors of the cache.
pub(crate) const RECOVERIES_MAX: usize = 5;

/// Damaged records of a cache that `barid cache verify` lists.
pub(crate) const RECORDS_SHOWN: usize = 10;

/// Bytes of messages that are appended at once.
pub(crate) const APPEND_BATCH_LEN: u64 = 32 * 1024 * 1024;

/// Largest input that is read into memory, in bytes: a message to append, or all of standard input.
pub(crate) const INPUT_WHOLE_LEN_MAX: usize = 4 * 1024 * 1024;

/// Bytes of a larger standard input that are read at once.
pub(crate) const INPUT_PIECE_LEN: u64 = 256 * 1024;

/// A large standard input takes at most one part in this number of the free space.
pub(crate) const SPOOL_FREE_PART: u64 = 2;

/// Messages of a mailbox looked up at once for appending to another.
pub(crate) const INCOMING_ROWS: u32 = 1024;

/// Most bytes of the file in a folder of links that names their messages: about a million of them.
pub(crate) const LINKS_FILE_LEN_MAX: u64 = 64 * 1024 * 1024;

/// Missing messages that are reported one by one.
pub(crate) const MISSING_SHOWN: usize = 20;

/// Ranges of UIDs in the line that reports a change.
pub(crate) const UID_RANGES_SHOWN: usize = 8;

/// Changes of a watched mailbox that are reported at once.
pub(crate) const WATCH_ROWS: usize = 256;

/// Messages that could not be copied and are reported one by one.
pub(crate) const FAILED_SHOWN: usize = 20;

/// Largest file beginning with a From_ line that is searched for a second message, in bytes.
pub(crate) const ONE_MESSAGE_LEN_MAX: u64 = 4 * 1024 * 1024;

/// Most bytes of a packet of a mail server: chunks of a body have 64 KB, and the longest header
/// fields somewhat more.
pub(crate) const MILTER_PACKET_LEN_MAX: usize = 1024 * 1024;

/// Tokens whose counts are requested from the daemon at once.
pub(crate) const DAEMON_TOKENS_MAX: usize = 1 << 20;

/// Messages whose subjects are looked up at once.
pub(crate) const SUBJECT_ROWS: usize = 4096;

/// Most bytes of the kernel's status of this process.
pub(crate) const PROCESS_STATUS_LEN_MAX: usize = 8 * 1024;

/// Longest name of a file that is made for an attachment, in bytes; file systems allow 255, and a
/// number may be added.
pub(crate) const FILE_NAME_LEN_MAX: usize = 200;

/// Most names that are tried for one attachment.
pub(crate) const FILE_NAMES_MAX: usize = 10_000;

/// Attachments whose texts are extracted before any of them is printed.
pub(crate) const TEXTS_AT_ONCE: usize = 64;

/// Bytes of attachments from which on their texts are extracted at once.
pub(crate) const TEXTS_AT_ONCE_LEN: usize = 64 * 1024 * 1024;

/// Most ids in References of an answer: the nearest ones count.
pub(crate) const DRAFT_REFERENCES_MAX: usize = 20;

/// Most bytes of a draft that was edited.
pub(crate) const DRAFT_LEN_MAX: u64 = 16 * 1024 * 1024;

/// Time between looks for further mailboxes in the trees that are watched.
pub(crate) const WATCH_TREE_INTERVAL: Duration = Duration::from_secs(5);

/// New messages of a watched mailbox from which on some are indexed.
pub(crate) const WATCH_INDEXED: usize = 256;

/// Messages that are indexed then, at most.
pub(crate) const WATCH_INDEXED_MESSAGES: u32 = 1024;

/// Bytes of messages after which no other is indexed then.
pub(crate) const WATCH_INDEXED_BYTES: u64 = 32 * 1024 * 1024;
