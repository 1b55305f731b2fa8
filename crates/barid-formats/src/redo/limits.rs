//! The bounds of a redo journal.

/// Bytes of a sector: what a disk writes whole or not at all.
pub(super) const SECTOR_LEN: u64 = 512;
/// Bytes of the body of a journal. Who has more to change does it in several changes.
pub(super) const BODY_LEN_MAX: u64 = 256 << 20;
/// Files of one change.
pub(super) const FILES_MAX: usize = 64;
/// Bytes of a file's name.
pub(super) const NAME_LEN_MAX: usize = 255;
/// Bytes at the end of a file that is cut which are hashed.
pub(super) const CUT_HASH_LEN_MAX: u64 = 64 << 10;
/// The largest offset and size that is believed.
pub(super) const OFFSET_MAX: u64 = 1 << 62;
