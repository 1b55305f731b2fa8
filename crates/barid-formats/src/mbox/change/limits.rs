//! Bounds of a change, and what a caller may set of them.

/// How a change of an mbox is cut into pieces. The defaults are for mailboxes of any size; tests
/// set them so low that small files take every path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WritingOptions {
    /// Bytes that one unit of a change writes; a large file has larger ones, at most 16,384 or so.
    pub unit_len: u64,
    /// Bytes between two changes that are better left alone than counted to one unit.
    pub stay_len: u64,
    /// Bytes that go through the journal at once.
    pub window_len: u64,
    /// From how many bytes on it is worth a barrier to write them without the journal.
    pub direct_len_min: u64,
    /// Bytes written between two barriers at most.
    pub direct_len_max: u64,
    /// Bytes read or written at once.
    pub buffer_len: usize,
    /// Bytes of a journal that is still kept in memory to be written at once.
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

/// A large file is cut into about this many units, so that their table is bounded.
pub(super) const UNITS_MAX: u64 = 16 * 1024;

/// Bytes beside a change that stay and are remembered, to tell this file from another.
pub(super) const CONTEXT_LEN: u64 = 64;

/// Bytes left out at once that are still read and hashed; part of the journal's format.
pub(super) const SKIP_HASHED_MAX: u64 = 4096;

/// Bytes of a script at which its unit ends.
pub(super) const SCRIPT_LEN_MAX: usize = 256 * 1024;

/// The longest script of a unit that a journal may claim to hold.
pub(super) const SCRIPT_RAW_MAX: usize = 256 * 1024 * 1024;

/// Bytes of a script from which on it is compressed.
pub(super) const SCRIPT_COMPRESSED_MIN: usize = 128;

/// The level of compression of scripts: they are alike, so that little is gained by more.
pub(super) const SCRIPT_LEVEL: i32 = -1;

/// Bytes of scripts written to the journal at once.
pub(super) const SCRIPTS_WRITE_LEN: usize = 128 * 1024;

/// Units and collapses up to which their old bytes are read by the planner's thread.
pub(super) const READ_ALONE_MAX: usize = 32;

/// Units that wait to be read.
pub(super) const READ_QUEUE_LEN: usize = 4;

/// Ranges collapsed in one change at most.
pub(super) const COLLAPSES_MAX: usize = 1024;

/// Units that a journal may claim to hold.
pub(super) const UNITS_CLAIMED_MAX: u64 = 1 << 22;

/// The largest size or offset that a journal may claim.
pub(super) const OFFSET_MAX: u64 = 1 << 60;

/// The longest window or direct step that a journal may claim to be made for.
pub(super) const STEP_LEN_MAX: u64 = 1 << 40;

/// Bytes of the path of a mailbox that a journal has room for; a longer one is left out.
pub(super) const ORIGIN_PATH_LEN: usize = 256;

/// Bytes of the end of the file that tell whether it was cut or moved.
pub(super) const TAIL_LEN_MAX: u64 = 64 * 1024;

/// Places at which mail that a journal holds is compared with what a mailbox has there.
pub(super) const FOREIGN_TRIED_MAX: u32 = 64;

/// Bytes that are appended up to which their journal holds them; of more it holds hashes.
pub(super) const APPEND_BYTES_MAX: usize = 256 * 1024;

/// Bytes of an interrupted append compared at once.
pub(super) const CLAIM_READ_LEN: u64 = 1024 * 1024;

/// What a disk writes at once.
pub(super) const SECTOR_LEN: u64 = 512;

/// Pieces of the bytes that are written at once that wait to be written.
pub(super) const PIECES_AHEAD: usize = 2;

/// Bytes read at once where they are only copied elsewhere: what stays in the processor's cache.
pub(super) const SOURCE_LEN: usize = 256 * 1024;

/// Bytes of scripts read at once when the units of a step are written.
pub(super) const SCRIPTS_READ_LEN: u64 = 64 * 1024;

/// Bytes of a page that planner and reader share.
pub(super) const PAGE_LEN: usize = 256 * 1024;

/// Pages kept at most.
pub(super) const PAGES_MAX: usize = 16;

/// Pages read ahead of the planner.
pub(super) const PAGES_AHEAD: u64 = 4;

/// Buffers of pages kept to be used again.
pub(super) const PAGES_FREE_MAX: usize = 4;

/// Bytes first read at a place; doubled as long as reading goes on there.
pub(super) const READ_LEN_MIN: usize = 4096;
