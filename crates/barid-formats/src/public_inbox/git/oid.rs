//! The name of an object.

use std::fmt;

/// The name of a git object: the SHA-1 of its content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Oid(pub(crate) [u8; Oid::LEN]);

impl Oid {
    /// Number of bytes.
    pub(crate) const LEN: usize = 20;
    /// Number of hexadecimal digits.
    pub(crate) const HEX_LEN: usize = 40;
    /// The blob without content, by which public-inbox replaces a purged message.
    pub(crate) const EMPTY_BLOB: Self = Self(
        *b"\xe6\x9d\xe2\x9b\xb2\xd1\xd6\x43\x4b\x8b\
        \x29\xae\x77\x5a\xd8\xc2\xe4\x8c\x53\x91",
    );

    /// Reads the first 20 bytes.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(*bytes.first_chunk()?))
    }

    /// Parses exactly 40 hexadecimal digits.
    pub(crate) fn parse(hex: &[u8]) -> Option<Self> {
        if hex.len() != Self::HEX_LEN {
            return None;
        }
        let mut bytes = [0; Self::LEN];
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Some(Self(bytes))
    }

    /// Returns the hexadecimal digits.
    pub(crate) fn to_hex(self) -> [u8; Self::HEX_LEN] {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = [0; Self::HEX_LEN];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        hex
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_hex().iter().try_for_each(|digit| write!(f, "{}", char::from(*digit)))
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_back() {
        let hex = b"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391";
        assert_eq!(Oid::parse(hex), Some(Oid::EMPTY_BLOB));
        assert_eq!(&Oid::EMPTY_BLOB.to_hex(), hex);
        for none in [&hex[1..], b"", &[b'g'; 40], &[b'a'; 64]] {
            assert_eq!(Oid::parse(none), None);
        }
    }
}
