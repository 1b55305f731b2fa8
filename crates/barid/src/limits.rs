//! The bounds of this crate.

use std::time::Duration;

/// The most items that are fetched of a message.
pub(crate) const FETCH_ITEMS_MAX: usize = 1000;

/// Bytes of the messages of one block of a fetch; a larger message is a block of its own.
pub(crate) const FETCH_BLOCK_LEN: u64 = 1 << 20;

/// Room for a message as it goes over the wire that a thread keeps for the next; more is given
/// back.
pub(crate) const FETCH_WIRE_KEPT_LEN: usize = 1 << 20;

/// Messages of one block of a fetch, at most.
pub(crate) const FETCH_BLOCK_ROWS: usize = 512;

/// Blocks that a thread of a fetch may be ahead.
pub(crate) const FETCH_BLOCKS_WAITING: usize = 2;

/// The most threads of a fetch.
pub(crate) const FETCH_THREADS_MAX: usize = 16;

/// How often a message that is not where it was is looked for anew in a fetch.
pub(crate) const FETCH_ATTEMPTS_MAX: u32 = 4;

/// Room for messages that a thread keeps from one block to the next; more is given back.
pub(crate) const READ_ROOM_KEPT_LEN: usize = 4 << 20;

/// Bytes of a large message that are read at once.
pub(crate) const PIECE_LEN: usize = 256 << 10;

/// Bytes of a message that are read before the mailbox is unlocked and somebody takes them.
pub(crate) const BLOCK_LEN: usize = 4 << 20;

/// The largest message that is copied, converted, kept for an undo or brought back in memory; a
/// larger one is read piece by piece, more than once.
pub(crate) const COPY_WHOLE_LEN_MAX: u64 = 4 << 20;

/// Bytes of a large kept message in which the end of its header is looked for.
pub(crate) const KEPT_HEADER_LEN_MAX: usize = 16 << 20;

/// The most memory that large messages take at once which several threads work on.
pub(crate) const LARGE_LEN_MAX: u64 = 16 << 20;

/// Bytes of the restart points of a compressed mailbox that are read.
pub(crate) const RESTART_POINTS_LEN_MAX: u64 = 64 << 20;

/// How many flag changes may be pending; more are written.
pub(crate) const PENDING_MAX: usize = 1000;

/// In a mailbox of up to so many messages those before a changed one are looked at for equals.
pub(crate) const ORDINAL_ROWS_MAX: u32 = 4096;

/// How often a change is begun anew when others change the mailbox.
pub(crate) const CHANGES_MAX: u32 = 5;

/// How often a scan is begun anew because a change that another process began is unfinished.
pub(crate) const RECOVERIES_MAX: u32 = 3;

/// How long to wait for another process that changes the mailbox or its pending changes.
pub(crate) const PENDING_LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// How long to wait for it before a request to stop is noticed.
pub(crate) const LOCK_SLICE: Duration = Duration::from_millis(500);

/// How long to wait for messages that another program is writing, and how often.
pub(crate) const ARRIVAL_PAUSE: Duration = Duration::from_millis(500);
pub(crate) const ARRIVAL_PAUSES_MAX: u32 = 6;

/// Bytes of kept expunges that a nearly full disk has room for, too, as long as they are no more
/// than a quarter of what is free.
pub(crate) const KEPT_SMALL_LEN: u64 = 64_000_000;

/// How many expunges of a mailbox are kept.
pub(crate) const KEPT_MAX: usize = 1024;

/// How many messages are named of an expunge that is not kept.
pub(crate) const LEFT_OUT_NAMED: usize = 16;

/// Bytes of messages that are brought back in one pass.
pub(crate) const UNDO_BATCH_LEN: u64 = 8 << 20;

/// How often the cache is healed and asked again after a change: a damaged one is made anew, then
/// the answer comes from memory.
pub(crate) const HEALINGS_MAX: u32 = 4;

/// How often a search is begun anew because messages are not where they were.
pub(crate) const SEARCHES_MAX: u32 = 5;

/// Length of a header below which no format cuts it.
pub(crate) const SEARCH_HEADER_LEN_SURE: u32 = 1 << 20;

/// Rows that a thread takes at once to search their header fields in the cache.
pub(crate) const SEARCH_FIELDS_ROWS: usize = 2048;

/// Messages that a thread takes at once to read and search them.
pub(crate) const SEARCH_MESSAGES_ROWS: usize = 32;

/// Bytes of a message from which on no two of them are searched at once.
pub(crate) const SEARCH_LARGE_LEN: u64 = 4 << 20;

/// Bytes of a buffer that a search keeps for the next message.
pub(crate) const SEARCH_BUFFER_KEPT_LEN: usize = 4 * 1024 * 1024;

/// How often a mailbox that is watched is looked at though nothing is told of it.
pub(crate) const WATCH_LOOK_INTERVAL: Duration = Duration::from_secs(30);

/// How long to wait for more after something happened to a mailbox: who changes one does more than
/// one thing to it. No mailbox is looked at more often.
pub(crate) const WATCH_SETTLE: Duration = Duration::from_millis(10);

/// Pause before the next look at a mailbox in which something may be under way unnoticed, such as a
/// message that is being written.
pub(crate) const WATCH_UNSETTLED: Duration = Duration::from_millis(200);

/// How long to wait at once for something to happen.
pub(crate) const WATCH_SLICE: Duration = Duration::from_millis(500);

/// Bytes of the structure of one message that are kept; one of more parts is read again.
pub(crate) const STRUCTURE_LEN_MAX: usize = 64 * 1024;

/// Bytes of structures that are kept of a mailbox, and that are held until they are.
pub(crate) const STRUCTURES_LEN_MAX: usize = 256 * 1024 * 1024;

/// Structures are written anew when one in so many is new.
pub(crate) const STRUCTURES_KEPT_PART: usize = 16;

/// Bytes of the messages of one block that is read for a copy; a larger message is a block of its
/// own.
pub(crate) const CONVERT_BLOCK_LEN: u64 = 1 << 20;

/// Messages of one such block, at most.
pub(crate) const CONVERT_BLOCK_ROWS: usize = 1024;

/// Blocks that the threads of a copy may be ahead together: so many that they need not wait while a
/// batch is made durable.
pub(crate) const CONVERT_BLOCKS_WAITING: usize = 16;

/// The most threads that read for a copy.
pub(crate) const CONVERT_THREADS_MAX: usize = 16;

/// How often a message that is not where it was is looked for anew in a copy.
pub(crate) const CONVERT_ATTEMPTS_MAX: u32 = 4;

/// Bytes of messages that are written together.
pub(crate) const CONVERT_BATCH_LEN: usize = 32 << 20;

/// Messages that are written together, at most.
pub(crate) const CONVERT_BATCH_MESSAGES: usize = 16_384;

/// How often an unfinished conversion is begun anew in one call.
pub(crate) const CONVERT_RESTARTS_MAX: u32 = 2;

/// Bytes of the note of an unfinished conversion.
pub(crate) const CONVERT_NOTE_LEN_MAX: u64 = 64 << 10;

/// Unfinished conversions to one place that may be put aside.
pub(crate) const CONVERT_ASIDE_MAX: u32 = 1000;

/// Messages that a thread takes at once to read them for the spam filter, where they are files.
pub(crate) const SPAM_CHUNK: usize = 8;

/// Such chunks that a thread may be ahead.
pub(crate) const SPAM_CHUNKS_WAITING: usize = 4;

/// The most threads that read messages for the spam filter.
pub(crate) const SPAM_THREADS_MAX: usize = 16;

/// Bytes of the tokens of messages that are taught together.
pub(crate) const SPAM_BATCH_LEN: usize = 64 << 20;

/// Messages that are taught together, at most.
pub(crate) const SPAM_BATCH_MESSAGES: usize = 65_536;

/// How often messages that others have taught meanwhile are taken out of a batch.
pub(crate) const SPAM_CONFLICTS_MAX: u32 = 100;

/// Tokens of all messages that parameters are chosen by: 12 bytes each.
pub(crate) const SPAM_TUNE_TOKENS_MAX: usize = 64 << 20;

/// Folds that messages are dealt into, at most.
pub(crate) const SPAM_TUNE_FOLDS_MAX: usize = 100;

/// Steps that a choice of parameters takes from the best of the grid.
pub(crate) const SPAM_TUNE_STEPS_MAX: usize = 12;

/// Bytes of a file of parameters that are read.
pub(crate) const SPAM_PARAMETERS_LEN_MAX: u64 = 64 << 10;

/// Bytes of a buffer that a thread keeps for the next message.
pub(crate) const SPAM_BUFFER_KEPT_LEN: usize = 4 << 20;

/// Bytes of the scores of a mailbox that are read.
pub(crate) const SPAM_SCORES_LEN_MAX: u64 = 512 << 20;

/// Bytes of the distinct tokens of messages that the drop-in for bogofilter registers together.
pub(crate) const DROPIN_BATCH_LEN: usize = 256 << 20;

/// Messages that the drop-in has read for each thread that makes words, and as many whose words are
/// made.
pub(crate) const DROPIN_AHEAD_MESSAGES: usize = 64;

/// Bytes of messages that the drop-in reads ahead; one more message may come on top.
pub(crate) const DROPIN_AHEAD_LEN: usize = 32 << 20;

/// Bytes of the lines of a request to the spam daemon.
pub(crate) const DAEMON_HEAD_LEN_MAX: usize = 64 * 1024;

/// Fields of a request to the spam daemon.
pub(crate) const DAEMON_FIELDS_MAX: usize = 100;

/// Bytes of an answer of the spam daemon that is read.
pub(crate) const DAEMON_ANSWER_LEN_MAX: usize = 256 * 1024 * 1024;
