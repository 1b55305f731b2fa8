//! Random numbers for hash seeds and generations.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Returns a number that nobody outside of the process can predict: a SipHash with a key from the
/// operating system's generator.
pub(crate) fn random_u64() -> u64 {
    RandomState::new().build_hasher().finish()
}
