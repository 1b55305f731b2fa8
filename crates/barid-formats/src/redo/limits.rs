//! Limits of a redo journal.

/// Length of a sector in bytes: a disk writes it completely or not at all.
pub(super) const SECTOR_LEN: u64 = 512;
/// Maximum length of the body of a journal. A larger change must be split.
pub(super) const BODY_LEN_MAX: u64 = 256 << 20;
/// Maximum number of files of one change.
pub(super) const FILES_MAX: usize = 64;
/// Maximum length of a file's name in bytes.
pub(super) const NAME_LEN_MAX: usize = 255;
/// Maximum number of bytes hashed at the end of a file that is cut.
pub(super) const CUT_HASH_LEN_MAX: u64 = 64 << 10;
/// The largest offset and size that is accepted.
pub(super) const OFFSET_MAX: u64 = 1 << 62;
