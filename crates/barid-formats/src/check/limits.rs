//! Limits of checks and repairs.

/// Damages that a report lists; more are only counted.
pub(crate) const DAMAGES_MAX: usize = 10_000;
/// Maximum number of bytes of a file that a repair rewrites; a larger repair is refused.
pub(crate) const EDIT_LEN_MAX: u64 = 200 << 20;
/// Bytes read at once when a file is hashed.
pub(super) const READ_LEN: usize = 256 << 10;
/// Bytes of a message that are tested for zeros at once.
pub(super) const VOID_READ_LEN: usize = 4096;
/// Maximum size of a file that is replaced or removed, in bytes.
pub(super) const FILE_LEN_MAX: u64 = 256 << 20;
/// Maximum size of a manifest, in bytes.
pub(super) const MANIFEST_LEN_MAX: u64 = 256 << 20;
/// Maximum size of the stored bytes.
pub(super) const KEPT_LEN_MAX: u64 = 1 << 30;
/// Maximum number of steps of one repair.
pub(super) const STEPS_MAX: u32 = 1 << 20;
/// Maximum number of rounds of one repair, since one round may reveal more damage.
pub(super) const ROUNDS_MAX: u32 = 4;
