//! Random numbers for hash seeds and generations.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A number that nobody outside of the process can foresee: a SipHash under a key that the
/// operating system's generator gave.
pub(crate) fn random_u64() -> u64 {
    RandomState::new().build_hasher().finish()
}
