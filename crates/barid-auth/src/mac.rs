//! HMAC-SHA-256 over parts that cannot run into each other.

use ring::hmac;

use crate::secret::array;

/// A key of HMAC-SHA-256, which `Debug` output does not show.
#[derive(Clone)]
pub(crate) struct MacKey(hmac::Key);

impl MacKey {
    /// Creates a key from 32 secret bytes.
    pub(crate) fn new(bytes: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// Returns the MAC of `parts`, each preceded by its length.
    pub(crate) fn of(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        array(context.sign().as_ref())
    }
}

impl std::fmt::Debug for MacKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("MacKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_into_each_other() {
        let key = MacKey::new(&[7; 32]);
        assert_ne!(key.of(&[b"ab", b"c"]), key.of(&[b"a", b"bc"]));
        assert_ne!(key.of(&[b"ab"]), key.of(&[b"ab", b""]));
        assert_eq!(key.of(&[b"ab"]), key.of(&[b"ab"]));
    }
}
