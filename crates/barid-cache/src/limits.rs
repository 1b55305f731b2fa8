//! The bounds of everything that mail or a damaged file could make large.

/// Bytes kept of one header field; what is longer is cut and marked.
pub const FIELD_LEN_MAX: usize = 256 * 1024;
/// Bytes of a file name.
pub const NAME_LEN_MAX: usize = 4_096;
/// Bytes after which a heap block is closed.
pub const HEAP_BLOCK_LEN: usize = 64 * 1024;
/// The longest header record: every field at its bound, with its lengths.
pub const RECORD_LEN_MAX: usize = crate::record::FIELD_COUNT * (FIELD_LEN_MAX + 4) + 8;
/// The longest heap block: one that is nearly full and gets the longest record.
pub const HEAP_BLOCK_LEN_MAX: usize = HEAP_BLOCK_LEN + RECORD_LEN_MAX;
/// Bytes of meta data (path, format state, keywords).
pub const META_LEN_MAX: usize = 16 * 1024 * 1024;
/// Bytes of a log; a longer one is not believed. Compaction keeps it far below.
pub const LOG_LEN_MAX: u64 = 1 << 30;
/// A log longer than this and than a quarter of the columns is compacted,
pub const LOG_COMPACT_LEN: u64 = 1024 * 1024;
/// and one longer than this in any case: it is read whole when the cache is opened.
pub const LOG_COMPACT_LEN_MAX: u64 = 8 * 1024 * 1024;
/// Bytes of moved messages that are held while a change is followed; more are put aside, and then
/// the cache is written anew.
pub const FOLLOW_HELD_LEN: usize = 4_096 * crate::restate::RESTATED_LEN;
/// Expunged messages and stretches of the file that a change may have to be followed by a record of
/// the log; after a larger one the cache is written anew.
pub const FOLLOW_ROWS_MAX: usize = 4_096;
/// Bytes of rows that a build holds in memory; more of them are put aside in a file.
pub const ROWS_HELD_LEN: u64 = 1024 * 1024;
/// Blocks kept in memory by one open cache.
pub const CACHED_BLOCKS_MAX: usize = 64;
/// Bytes of them.
pub const CACHED_BYTES_MAX: usize = 5 * 1024 * 1024;
/// Messages of a cache.
pub const MESSAGES_MAX: u32 = u32::MAX - 1;
/// Bytes of a derived column file.
pub const DERIVED_LEN_MAX: u64 = 1 << 36;
/// Message ids kept of one message.
pub const REFERENCES_MAX: usize = 10_000;
/// Rows whose records are gathered at once when they are wanted in another order than the file's.
pub const GATHER_ROWS_MAX: usize = 16_384;
/// Bytes of such records held at once; fewer rows are gathered if they exceed it.
pub const GATHER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes of the name of a kind of derived column that stand in its file name.
pub const DERIVED_KIND_LEN_MAX: usize = 80;
/// Bytes of a batch of records after which it is given to a key-value store.
pub const KV_BATCH_LEN: usize = 512 * 1024;
/// Batches that wait for those whose numbers come before theirs.
pub const KV_BATCHES_WAITING: usize = 4;
/// Records of a store that are numbered in one stretch.
pub const KV_NUMBERS: u32 = 512;
/// Bytes of records that one thread holds until there is a dictionary, or none is waited for.
pub const KV_HELD_LEN: usize = 4 * 1024 * 1024;
/// Records that a writer which did not come to its end can have left in a store: a log of
/// [`LOG_LEN_MAX`] has fewer messages.
pub const KV_LEFT_BEHIND_MAX: u32 = 8 * 1024 * 1024;
/// Rows that are copied together when a cache is written anew.
pub const REWRITE_ROWS: usize = 4_096;
/// Folders within the folder of a store that are looked into.
pub const STORE_FOLDERS_DEEP: u32 = 2;
/// Records that are not what was written, of which a verification says which they are.
pub const FAULTS_LISTED_MAX: usize = 1_000;
