//! The bounds of everything that mail or a damaged file could make large.

/// The most messages whose mod-sequences are all raised by a record of the log; for more of them
/// new columns are written.
pub(crate) const RAISE_LOGGED_MAX: u32 = 500;

/// Maximum number of bytes stored of one header field; a longer one is cut and marked.
pub const FIELD_LEN_MAX: usize = 256 * 1024;
/// Maximum length of a file name, in bytes.
pub const NAME_LEN_MAX: usize = 4_096;
/// Length in bytes at which a heap block is closed.
pub const HEAP_BLOCK_LEN: usize = 64 * 1024;
/// The longest header record: every field at its bound, with its lengths.
pub const RECORD_LEN_MAX: usize = crate::record::FIELD_COUNT * (FIELD_LEN_MAX + 4) + 8;
/// The longest heap block: one that is nearly full and gets the longest record.
pub const HEAP_BLOCK_LEN_MAX: usize = HEAP_BLOCK_LEN + RECORD_LEN_MAX;
/// Maximum length of the metadata (path, format state, keywords), in bytes.
pub const META_LEN_MAX: usize = 16 * 1024 * 1024;
/// Maximum length of a log, in bytes; a longer one is ignored. Compaction keeps it far below.
pub const LOG_LEN_MAX: u64 = 1 << 30;
/// Length in bytes at which a log is compacted, if it is also longer than a quarter of the columns.
pub const LOG_COMPACT_LEN: u64 = 1024 * 1024;
/// Length in bytes at which a log is compacted in any case: it is read whole when the cache is
/// opened.
pub const LOG_COMPACT_LEN_MAX: u64 = 8 * 1024 * 1024;
/// Maximum number of bytes of moved messages in memory while a change is followed; with more of
/// them the rest is written to a file, and the cache is rewritten.
pub const FOLLOW_HELD_LEN: usize = 4_096 * crate::restate::RESTATED_LEN;
/// Most expunged messages and parts of the file in a change that is followed by a log record; for a
/// larger one the cache is rewritten.
pub const FOLLOW_ROWS_MAX: usize = 4_096;
/// Maximum number of bytes of rows that a build keeps in memory; the rest is written to a file.
pub const ROWS_HELD_LEN: u64 = 1024 * 1024;
/// Maximum number of bytes of blocks that a process keeps in memory, of all its open caches.
pub const CACHED_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Expected number of these blocks.
pub const CACHED_BLOCKS: usize = 256;
/// Parts of these blocks, each with a lock and a share of the bytes.
pub const CACHED_SHARDS: usize = 4;
/// Maximum number of messages of a cache.
pub const MESSAGES_MAX: u32 = u32::MAX - 1;
/// Maximum length of a derived column file, in bytes.
pub const DERIVED_LEN_MAX: u64 = 1 << 36;
/// Maximum length of the additions to a derived column, in bytes.
pub const ADDITIONS_LEN_MAX: u64 = 32 * 1024 * 1024;
/// Maximum number of message ids stored for one message.
pub const REFERENCES_MAX: usize = 10_000;
/// Rows whose records are gathered at once if they are requested in another order than the file's.
pub const GATHER_ROWS_MAX: usize = 16_384;
/// Bytes of such records in memory at once; fewer rows are gathered if they exceed it.
pub const GATHER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Longest name of a kind of derived column in its file name, in bytes.
pub const DERIVED_KIND_LEN_MAX: usize = 80;
/// Bytes of a batch of records after which it is passed to a key-value store.
pub const KV_BATCH_LEN: usize = 512 * 1024;
/// Batches that wait for those with lower numbers.
pub const KV_BATCHES_WAITING: usize = 4;
/// Records of a store that are numbered in one go.
pub const KV_NUMBERS: u32 = 512;
/// Bytes of records that one thread stores until the dictionary is decided.
pub const KV_HELD_LEN: usize = 4 * 1024 * 1024;
/// Most records that an interrupted writer can have left in a store: a log of [`LOG_LEN_MAX`] has
/// fewer messages.
pub const KV_LEFT_BEHIND_MAX: u32 = 8 * 1024 * 1024;
/// Rows that are copied together when a cache is rewritten.
pub const REWRITE_ROWS: usize = 4_096;
/// Depth of folders within the folder of a store that are read.
pub const STORE_FOLDERS_DEEP: u32 = 2;
/// Most damaged records that a verification lists.
pub const FAULTS_LISTED_MAX: usize = 1_000;
