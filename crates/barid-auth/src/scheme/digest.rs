//! Digests of passwords with a salt after the digest ({SSHA256}) or without one ({SHA256}), and
//! Dovecot's {PBKDF2}.

use std::num::NonZeroU32;

use ring::{digest, pbkdf2};

use super::SchemeError;
use super::cost::Cost;
use super::encode::from_hex;
use crate::limits::{PBKDF2_ITERATIONS_MAX, SALT_LEN_MAX};
use crate::secret::equal;

/// A digest of a password and a salt.
#[derive(Clone)]
pub(super) struct DigestHash {
    algorithm: &'static digest::Algorithm,
    hash: Vec<u8>,
    salt: Vec<u8>,
}

impl DigestHash {
    /// Takes the digest and, if `is_salted`, the salt after it from decoded bytes.
    pub(super) fn parse(
        algorithm: &'static digest::Algorithm,
        is_salted: bool,
        bytes: &[u8],
    ) -> Option<Self> {
        let (hash, salt) = bytes.split_at_checked(algorithm.output_len())?;
        let is_valid = salt.is_empty() != is_salted && salt.len() <= SALT_LEN_MAX;
        is_valid.then(|| Self { algorithm, hash: hash.to_vec(), salt: salt.to_vec() })
    }

    /// Makes a hash of a password: the digest and the salt.
    pub(super) fn make(
        algorithm: &'static digest::Algorithm,
        password: &[u8],
        salt: &[u8],
    ) -> Vec<u8> {
        let mut made = Self { algorithm, hash: Vec::new(), salt: salt.to_vec() };
        made.hash = made.compute(password).as_ref().to_vec();
        made.hash.extend_from_slice(salt);
        made.hash
    }

    fn compute(&self, password: &[u8]) -> digest::Digest {
        let mut context = digest::Context::new(self.algorithm);
        context.update(password);
        context.update(&self.salt);
        context.finish()
    }

    /// Returns `true` if the password is right.
    pub(super) fn verify(&self, password: &[u8]) -> bool {
        equal(self.compute(password).as_ref(), &self.hash)
    }

    /// Returns a hash of the same cost that no password has.
    pub(super) fn dummy(&self) -> Self {
        Self { hash: vec![0; self.hash.len()], ..self.clone() }
    }

    pub(super) fn cost(&self) -> Cost {
        Cost::new("SSHA", u32::try_from(self.hash.len()).unwrap_or(u32::MAX), 0)
    }
}

/// PBKDF2 with HMAC-SHA-1, as Dovecot's scheme {PBKDF2} has it: `$1$SALT$ROUNDS$HEX`.
#[derive(Clone)]
pub(super) struct Pbkdf2Hash {
    iterations: NonZeroU32,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

impl Pbkdf2Hash {
    /// Parses the text after the scheme.
    pub(super) fn parse(text: &[u8]) -> Result<Self, SchemeError> {
        let malformed = SchemeError::Malformed { scheme: "PBKDF2", form: "$1$SALT$ROUNDS$HEX" };
        let text = std::str::from_utf8(text).map_err(|_| malformed.clone())?;
        let fields: Vec<&str> = text.split('$').collect();
        let ["", "1", salt, iterations, hash] = fields[..] else { return Err(malformed) };
        let iterations: NonZeroU32 = iterations.parse().map_err(|_| malformed.clone())?;
        SchemeError::bound("PBKDF2", "rounds", iterations.get(), PBKDF2_ITERATIONS_MAX)?;
        let hash = from_hex(hash.as_bytes()).ok_or_else(|| malformed.clone())?;
        if hash.len() != digest::SHA1_OUTPUT_LEN || salt.len() > SALT_LEN_MAX {
            return Err(malformed);
        }
        Ok(Self { iterations, salt: salt.as_bytes().to_vec(), hash })
    }

    /// Returns `true` if the password is right.
    pub(super) fn verify(&self, password: &[u8]) -> bool {
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA1;
        pbkdf2::verify(algorithm, self.iterations, &self.salt, password, &self.hash).is_ok()
    }

    /// Returns a hash of the same cost that no password has.
    pub(super) fn dummy(&self) -> Self {
        Self { hash: vec![0; self.hash.len()], ..self.clone() }
    }

    pub(super) fn cost(&self) -> Cost {
        Cost::new("PBKDF2", self.iterations.get(), 0)
    }
}
