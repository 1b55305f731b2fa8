//! The bounds of checking and repairing.

/// Damages that a report names; more are only counted.
pub(crate) const DAMAGES_MAX: usize = 10_000;
/// Bytes of a file that a repair writes anew; where it takes more, it is refused.
pub(crate) const EDIT_LEN_MAX: u64 = 200 << 20;
/// Bytes read at once where a file is hashed.
pub(super) const READ_LEN: usize = 256 << 10;
/// Bytes of a message that are looked at for zeros at once.
pub(super) const VOID_READ_LEN: usize = 4096;
/// Bytes of a file that is replaced or removed whole.
pub(super) const FILE_LEN_MAX: u64 = 256 << 20;
/// Bytes of a manifest.
pub(super) const MANIFEST_LEN_MAX: u64 = 256 << 20;
/// Bytes of what was kept.
pub(super) const KEPT_LEN_MAX: u64 = 1 << 30;
/// Steps of one repair.
pub(super) const STEPS_MAX: u32 = 1 << 20;
/// How often a mailbox is looked at again in one repair, since what is mended may show more.
pub(super) const ROUNDS_MAX: u32 = 4;
