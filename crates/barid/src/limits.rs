//! The bounds of this crate.

use std::time::Duration;

/// Maximum number of times that a scan is repeated because another process announced changes
/// meanwhile; after that the cache is rebuilt.
pub(crate) const OUTPACED_MAX: u32 = 16;

/// Number of messages from which on a shared mailbox without a cache is first opened from the names
/// of its messages.
pub(crate) const LISTED_MESSAGES_MIN: usize = 2_000;

/// Number of listed mailboxes that may wait until their headers are read; further ones are read at
/// once. The names of 100,000 messages are about 20 MB.
pub(crate) const LISTED_WAITING_MAX: usize = 4;

/// Bytes of the messages of one block of a fetch; a larger message is a block of its own.
pub(crate) const FETCH_BLOCK_LEN: u64 = 256 << 10;

/// Bytes of the buffer for a message in wire form that a thread keeps for the next one; more is
/// freed.
pub(crate) const FETCH_WIRE_KEPT_LEN: usize = 1 << 20;

/// Messages that a fetch from the facts of the cache answers at a time.
pub(crate) const FETCH_FACTS_ROWS: usize = 4096;

/// Rows for each wanted message from which on reading all facts between them costs more than
/// reading those of single rows.
pub(crate) const FETCH_FACTS_SPREAD: usize = 16;

/// Ranges of numbers up to which each is looked up on its own.
pub(crate) const FETCH_RANGES_FEW: usize = 16;

/// Messages up to which each is looked up on its own.
pub(crate) const FETCH_UIDS_FEW: usize = 64;

/// Maximum number of messages in one block of a fetch.
pub(crate) const FETCH_BLOCK_ROWS: usize = 512;

/// Number of blocks that a thread of a fetch may be ahead.
pub(crate) const FETCH_BLOCKS_WAITING: usize = 2;

/// Messages of one fetch up to which a preview is made even if it may be left out (RFC 8970 §3.2).
pub(crate) const FETCH_LAZY_PREVIEWS_MAX: usize = 100;

/// Lengths in bytes of the beginning of a message in which its text is looked for, one after the
/// other; text after the last is not in a preview.
pub(crate) const PREVIEW_START_LENS: [usize; 3] = [64 << 10, 1 << 20, 4 << 20];

/// Maximum number of threads of a fetch.
pub(crate) const FETCH_THREADS_MAX: usize = 16;

/// Bytes of the message buffer that a thread keeps from one block to the next; more is freed.
pub(crate) const READ_ROOM_KEPT_LEN: usize = 4 << 20;

/// Bytes of a large message that are read at once.
pub(crate) const PIECE_LEN: usize = 256 << 10;

/// Bytes of a message that are read before the mailbox is unlocked and the caller receives them.
pub(crate) const BLOCK_LEN: usize = 4 << 20;

/// The largest message that is copied, converted, kept for an undo or brought back in memory; a
/// larger one is read piece by piece, more than once.
pub(crate) const COPY_WHOLE_LEN_MAX: u64 = 4 << 20;

/// Bytes of a large message in a file that are searched for the end of its header.
pub(crate) const LARGE_HEADER_LEN_MAX: usize = 16 << 20;

/// Maximum memory for large messages on which several threads work at once.
pub(crate) const LARGE_LEN_MAX: u64 = 16 << 20;

/// Maximum size in bytes of the restart points of a compressed mailbox that are read.
pub(crate) const RESTART_POINTS_LEN_MAX: u64 = 64 << 20;

/// Maximum number of pending flag changes; further ones are written.
pub(crate) const PENDING_MAX: usize = 1000;

/// Number of rows at the start of a mailbox for which equal messages before a changed one are
/// counted.
pub(crate) const ORDINAL_ROWS_MAX: u32 = 4096;

/// Number of attempts at a change while others change the mailbox.
pub(crate) const CHANGES_MAX: u32 = 5;

/// Number of attempts at a scan while a change that another process began is unfinished.
pub(crate) const RECOVERIES_MAX: u32 = 3;

/// Timeout of waiting for another process that changes the mailbox or its pending changes.
pub(crate) const PENDING_LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Duration of one wait for that process, after which a request to stop is checked.
pub(crate) const LOCK_SLICE: Duration = Duration::from_millis(500);

/// Pause, and number of pauses, while another program is writing messages.
pub(crate) const ARRIVAL_PAUSE: Duration = Duration::from_millis(500);
pub(crate) const ARRIVAL_PAUSES_MAX: u32 = 6;

/// Bytes of kept expunges that fit even on a nearly full disk, as long as they are no more than a
/// quarter of the free space.
pub(crate) const KEPT_SMALL_LEN: u64 = 64_000_000;

/// Maximum number of kept expunges of a mailbox.
pub(crate) const KEPT_MAX: usize = 1024;

/// Number of messages that are listed by name when an expunge is not kept.
pub(crate) const LEFT_OUT_NAMED: usize = 16;

/// Bytes of messages that are restored in one pass.
pub(crate) const UNDO_BATCH_LEN: u64 = 8 << 20;

/// Number of times that the cache is healed and queried again after a change: a damaged cache is
/// made anew, then the answer comes from memory.
pub(crate) const HEALINGS_MAX: u32 = 4;

/// Maximum growth in bytes of a message that has moved: another header, as an mbox writes flags.
pub(crate) const FOLLOWED_GROWTH_MAX: u64 = 64 << 10;

/// Number of attempts to read a message that moves.
pub(crate) const FOLLOWS_MAX: u32 = 5;

/// Length below which no format cuts a header.
pub(crate) const SEARCH_HEADER_LEN_SURE: u32 = 1 << 20;

/// Rows that a thread takes at once to search their header fields in the cache.
pub(crate) const SEARCH_FIELDS_ROWS: usize = 2048;

/// Messages that a thread takes at once to read and search them.
pub(crate) const SEARCH_MESSAGES_ROWS: usize = 32;

/// Size in bytes above which messages are searched one at a time.
pub(crate) const SEARCH_LARGE_LEN: u64 = 4 << 20;

/// Bytes of a buffer that a search keeps for the next message.
pub(crate) const SEARCH_BUFFER_KEPT_LEN: usize = 4 * 1024 * 1024;

/// Time after which a request that waits for a shared mailbox notices that it was cancelled.
pub(crate) const CANCEL_SLICE: Duration = Duration::from_millis(20);

/// Interval at which a watched mailbox is checked even without an event.
pub(crate) const WATCH_LOOK_INTERVAL: Duration = Duration::from_secs(30);

/// Pause for further events after an event in a mailbox: a program that changes a mailbox makes
/// several changes. No mailbox is checked more often.
pub(crate) const WATCH_SETTLE: Duration = Duration::from_millis(10);

/// Pause after a check in which events cause no other, in times of its duration: a large mailbox
/// that changes all the time is not checked all the time.
pub(crate) const WATCH_REST_FACTOR: u32 = 3;
/// The longest such pause.
pub(crate) const WATCH_REST_MAX: Duration = Duration::from_secs(1);

/// Time after which a mailbox that is kept open is read again because its stamp was racy, in times
/// of the duration of the last scan.
pub(crate) const VERIFY_FACTOR: i64 = 10;

/// The longest time after which it is read again, in nanoseconds: such a stamp still counts as one
/// that will settle.
pub(crate) const VERIFY_NANOS_MAX: i64 = 1_900_000_000;

/// Pause before the next check of a mailbox in which a change may go on without events, such as a
/// message that is being written.
pub(crate) const WATCH_UNSETTLED: Duration = Duration::from_millis(200);

/// Maximum duration of one wait for events.
pub(crate) const WATCH_SLICE: Duration = Duration::from_millis(500);

/// Maximum bytes of the structure of one message that are kept; a message with more is read again.
pub(crate) const STRUCTURE_LEN_MAX: usize = 64 * 1024;

/// Maximum bytes of structures that are kept of a mailbox, and that wait in memory to be stored.
pub(crate) const STRUCTURES_LEN_MAX: usize = 256 * 1024 * 1024;

/// Maximum bytes of the identifiers of content that are kept of a mailbox: 2 million messages.
pub(crate) const EMAIL_IDS_LEN_MAX: usize = 40 * 1024 * 1024;

/// Fraction (1/n) of the stored values of messages that added values must exceed before all are
/// written anew. They must also exceed [`VALUES_ADDED_LEN_MIN`] or [`VALUES_ADDED_MIN`].
pub(crate) const VALUES_ADDED_PART: usize = 16;

/// Bytes of the values added to a file that never cause all to be written anew.
pub(crate) const VALUES_ADDED_LEN_MIN: u64 = 64 * 1024;

/// Number of the values added in memory that never cause all to be merged.
pub(crate) const VALUES_ADDED_MIN: usize = 2048;

/// Attempts to add values in memory while other threads add some; after the last one they are not
/// added, and are computed again when they are needed.
pub(crate) const VALUES_MERGES_MAX: u32 = 8;

/// Bytes of the messages of one block that is read for a copy; a larger message is a block of its
/// own.
pub(crate) const CONVERT_BLOCK_LEN: u64 = 1 << 20;

/// Maximum number of messages in such a block.
pub(crate) const CONVERT_BLOCK_ROWS: usize = 1024;

/// Number of blocks that the threads of a copy may be ahead together: enough that they need not
/// wait while a batch is made durable.
pub(crate) const CONVERT_BLOCKS_WAITING: usize = 16;

/// Maximum number of threads that read for a copy.
pub(crate) const CONVERT_THREADS_MAX: usize = 16;

/// Number of attempts of a copy to find a message that has moved.
pub(crate) const CONVERT_ATTEMPTS_MAX: u32 = 4;

/// Bytes of messages that are written together.
pub(crate) const CONVERT_BATCH_LEN: usize = 32 << 20;

/// Maximum number of messages that are written together.
pub(crate) const CONVERT_BATCH_MESSAGES: usize = 16_384;

/// Number of times that an unfinished conversion is begun anew in one call.
pub(crate) const CONVERT_RESTARTS_MAX: u32 = 2;

/// Maximum bytes of the note of an unfinished conversion.
pub(crate) const CONVERT_NOTE_LEN_MAX: u64 = 64 << 10;

/// Maximum number of ranges of UIDs in the note of an unfinished move.
pub(crate) const MOVE_NOTE_RANGES_MAX: usize = 1 << 20;

/// Maximum bytes of such a note: that many ranges, and its other fields.
pub(crate) const MOVE_NOTE_LEN_MAX: u64 = 9 << 20;

/// Maximum number of unfinished conversions to one place that may be put aside.
pub(crate) const CONVERT_ASIDE_MAX: u32 = 1000;

/// Most texts of a search program for which an index is asked.
pub(crate) const INDEXED_TEXTS_MAX: usize = 64;

/// Messages that a thread takes at once to index them.
pub(crate) const INDEX_ROWS: usize = 256;

/// Messages up to which one thread indexes alone: each thread writes a segment of its own.
pub(crate) const INDEX_ROWS_ALONE: usize = 2048;

/// Number of segments up to which none are merged.
pub(crate) const INDEX_SMALL_SEGMENTS_MAX: usize = 8;

/// Least number of segments that are merged.
pub(crate) const INDEX_MERGED_MIN: usize = 4;

/// Bytes of segments that are merged at once, which takes several times as much memory.
pub(crate) const INDEX_MERGED_BYTES_MAX: u64 = 16 << 20;

/// Rows of which one thread at a time finds out whether an index covers them.
pub(crate) const INDEX_COVERED_ROWS: u32 = 16_384;

/// Number of messages that an index does not cover, from which on a search adds some. Fewer are
/// read in a few milliseconds.
pub(crate) const INDEX_BEHIND_MIN: u32 = 256;

/// Number of messages of which a text index is asked; fewer are read.
pub(crate) const INDEX_ASKED_MIN: usize = 32;

/// Number of messages that one search adds, and their bytes: some tenths of a second.
pub(crate) const INDEX_ADDED_MESSAGES: u32 = 1024;
pub(crate) const INDEX_ADDED_BYTES: u64 = 32 << 20;

/// Length of quoted-printable without a line end from which it is decoded in pieces, in bytes.
pub(crate) const ENCODED_PIECE_LEN: usize = 64 * 1024;

/// Number of messages that a search reads from which on an index is worth its while.
pub(crate) const INDEX_WORTH_MIN: usize = 2048;
