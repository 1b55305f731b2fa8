//! Bounds on what a repository can make its reader do.

/// The largest object that is decoded in memory, and the largest one that a delta is applied to, in
/// bytes: 64 MB. A larger message is read only if it is stored without deltas.
pub(crate) const OBJECT_LEN_MAX: u64 = 64 << 20;
/// The largest size that an object may claim, in bytes: 1 TB. Sums of some sizes cannot overflow.
pub(crate) const OBJECT_SIZE_MAX: u64 = 1 << 40;
/// Bytes of deltas and of their results that are decoded for one object: 1 GB.
pub(crate) const DECODED_BYTES_MAX: u64 = 1 << 30;
/// Number of damaged copies of an object after which no other copy is tried.
pub(crate) const DAMAGED_COPIES_MAX: usize = 4;
/// The longest chain of deltas; git itself makes at most 4095.
pub(crate) const CHAIN_MAX: usize = 4096;
/// The largest file of references or of shallow commits that is read, in bytes.
pub(crate) const REFS_LEN_MAX: u64 = 64 << 20;
/// The largest `HEAD` or loose reference, in bytes.
pub(crate) const REF_LEN_MAX: u64 = 4 << 10;
/// The longest chain of symbolic references, as in git.
pub(crate) const SYMREFS_MAX: usize = 5;
/// The largest list of alternates, in bytes.
pub(crate) const ALTERNATES_LEN_MAX: u64 = 1 << 20;
/// Number of object folders of one repository, its alternates included.
pub(crate) const OBJECT_DIRS_MAX: usize = 64;
/// Number of packs of one repository.
pub(crate) const PACKS_MAX: usize = 100_000;
/// Number of packs of all epochs of an archive whose two files are open at a time.
pub(crate) const PACKS_OPEN_MAX: usize = 64;
/// Bytes of a page of a pack or its index.
pub(crate) const PAGE_LEN: usize = 16 << 10;
/// Bytes of pages in one generation of the cache of a reader; there are two.
pub(crate) const PAGES_BYTES: usize = 4 << 20;
/// Bytes of decoded objects in one generation of the cache of a reader; there are two.
pub(crate) const OBJECTS_BYTES: usize = 8 << 20;
/// The largest object that is put into that cache, in bytes.
pub(crate) const CACHED_OBJECT_LEN_MAX: usize = 1 << 20;
/// Bytes of a loose object or of a window of a stream that are read at once.
pub(crate) const PIECE_LEN: usize = 64 << 10;
