//! Bounds of a change, some of which a caller may set.

/// Bounds on the pieces into which a change of an mbox is split. The defaults suit mailboxes of any
/// size; tests set them so low that small files take every path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WritingOptions {
    /// Bytes that one unit of a change writes. Large files get longer units, so that there are at
    /// most about 16,384.
    pub unit_len: u64,
    /// Bytes between two changes beyond which they go into separate units.
    pub stay_len: u64,
    /// Bytes that go through the journal at once.
    pub window_len: u64,
    /// The least number of bytes for which a barrier is better than writing them to the journal
    /// too.
    pub direct_len_min: u64,
    /// The most bytes written between two barriers.
    pub direct_len_max: u64,
    /// Bytes read or written at once.
    pub buffer_len: usize,
    /// The longest journal that is kept in memory and written in one go.
    pub image_len: u64,
}

impl Default for WritingOptions {
    fn default() -> Self {
        Self {
            unit_len: 128 * 1024,
            stay_len: 4096,
            window_len: 32 * 1024 * 1024,
            direct_len_min: 512 * 1024,
            direct_len_max: 128 * 1024 * 1024,
            buffer_len: 1024 * 1024,
            image_len: 512 * 1024,
        }
    }
}

/// Number of units into which a large file is split, so that their table is bounded.
pub(super) const UNITS_MAX: u64 = 16 * 1024;

/// Unchanged bytes beside a change that are hashed, to distinguish this file from another.
pub(super) const CONTEXT_LEN: u64 = 64;

/// Longest run of removed bytes that is still read and hashed; part of the journal's format.
pub(super) const SKIP_HASHED_MAX: u64 = 4096;

/// Length of a script at which its unit ends.
pub(super) const SCRIPT_LEN_MAX: usize = 256 * 1024;

/// The longest script of a unit that is accepted from a journal.
pub(super) const SCRIPT_RAW_MAX: usize = 256 * 1024 * 1024;

/// The shortest script that is compressed.
pub(super) const SCRIPT_COMPRESSED_MIN: usize = 128;

/// Zstandard level for scripts: they are so similar that more gains little.
pub(super) const SCRIPT_LEVEL: i32 = -1;

/// Bytes of scripts written to the journal at once.
pub(super) const SCRIPTS_WRITE_LEN: usize = 128 * 1024;

/// Units and collapses whose old bytes the planner's thread reads itself.
pub(super) const READ_ALONE_MAX: usize = 32;

/// Units that wait to be read.
pub(super) const READ_QUEUE_LEN: usize = 4;

/// The most ranges collapsed in one change.
pub(super) const COLLAPSES_MAX: usize = 1024;

/// The most units accepted from a journal.
pub(super) const UNITS_CLAIMED_MAX: u64 = 1 << 22;

/// The largest size or offset accepted from a journal.
pub(super) const OFFSET_MAX: u64 = 1 << 60;

/// The longest window or direct step accepted from a journal.
pub(super) const STEP_LEN_MAX: u64 = 1 << 40;

/// Bytes for the path of a mailbox in a journal; a longer path is left out.
pub(super) const ORIGIN_PATH_LEN: usize = 256;

/// Bytes of the end of the file whose hash shows if it was cut or moved.
pub(super) const TAIL_LEN_MAX: u64 = 64 * 1024;

/// Positions in a mailbox at which saved mail is compared in full.
pub(super) const FOREIGN_TRIED_MAX: u32 = 64;

/// The longest append whose journal holds its bytes; that of a longer one holds hashes.
pub(super) const APPEND_BYTES_MAX: usize = 256 * 1024;

/// Bytes of an interrupted append compared at once.
pub(super) const CLAIM_READ_LEN: u64 = 1024 * 1024;

/// Unit that a disk writes whole or not at all.
pub(super) const SECTOR_LEN: u64 = 512;

/// Assembled pieces that wait for the writer.
pub(super) const PIECES_AHEAD: usize = 2;

/// Bytes read at once for copying: small enough to stay in the processor's cache.
pub(super) const SOURCE_LEN: usize = 256 * 1024;

/// Bytes of scripts read at once when the units of a step are written.
pub(super) const SCRIPTS_READ_LEN: u64 = 64 * 1024;

/// Bytes of a page that planner and reader share.
pub(super) const PAGE_LEN: usize = 256 * 1024;

/// The most pages kept.
pub(super) const PAGES_MAX: usize = 16;

/// Pages read ahead of the planner.
pub(super) const PAGES_AHEAD: u64 = 4;

/// Buffers of pages kept for reuse.
pub(super) const PAGES_FREE_MAX: usize = 4;

/// Bytes first read at a position; doubled while reading continues there.
pub(super) const READ_LEN_MIN: usize = 4096;
