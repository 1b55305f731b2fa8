//! Bytes that nobody else may see.

use std::fmt;

use ring::digest;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Bytes that are overwritten when they are dropped, and left out of `Debug` output.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes over the bytes.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Returns the bytes.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Secret {
    fn from(bytes: &[u8]) -> Self {
        Self::new(bytes.to_vec())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret(..)")
    }
}

/// Returns `true` if two byte strings are equal, in a time that depends on their lengths only.
pub(crate) fn equal(left: &[u8], right: &[u8]) -> bool {
    left.ct_eq(right).into()
}

/// Returns the SHA-256 digest of `bytes`: passwords in clear are compared by their digests, so that
/// the time does not depend on the length of the stored one.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    array(digest::digest(&digest::SHA256, bytes).as_ref())
}

/// Copies a slice of known length.
pub(crate) fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("because the caller knows the length")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_has_no_secret() {
        assert_eq!(format!("{:?}", Secret::from(&b"tanstaaf"[..])), "Secret(..)");
    }

    #[test]
    fn equality_is_of_all_bytes() {
        assert!(equal(b"abc", b"abc"));
        assert!(!equal(b"abc", b"abd"));
        assert!(!equal(b"abc", b"abcd"));
        assert!(equal(b"", b""));
    }
}
