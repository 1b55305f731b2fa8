//! The keys of SCRAM (RFC 5802 §3, RFC 7677), as Dovecot stores them: `{SCRAM-SHA-256}` and
//! `ITERATIONS,SALT,STORED-KEY,SERVER-KEY`.

use std::num::NonZeroU32;

use ring::{digest, hmac, pbkdf2};
use zeroize::Zeroizing;

use super::SchemeError;
use super::cost::Cost;
use super::encode::{from_base64, to_base64};
use crate::limits::{PBKDF2_ITERATIONS_MAX, SALT_LEN_MAX};
use crate::secret::{Secret, equal};

/// A hash function of SCRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScramHash {
    /// SHA-256.
    Sha256,
    /// SHA-1, for the example of RFC 5802; it is not offered.
    #[cfg(test)]
    Sha1,
}

impl ScramHash {
    /// Returns the length of keys and proofs in bytes.
    pub(crate) fn len(self) -> usize {
        self.digest().output_len()
    }

    fn digest(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            #[cfg(test)]
            Self::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        }
    }

    fn hmac(self) -> hmac::Algorithm {
        match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            #[cfg(test)]
            Self::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        }
    }

    fn pbkdf2(self) -> pbkdf2::Algorithm {
        match self {
            Self::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            #[cfg(test)]
            Self::Sha1 => pbkdf2::PBKDF2_HMAC_SHA1,
        }
    }

    /// H(bytes).
    pub(crate) fn hash(self, bytes: &[u8]) -> Vec<u8> {
        digest::digest(self.digest(), bytes).as_ref().to_vec()
    }

    /// HMAC(key, bytes).
    pub(crate) fn mac(self, key: &[u8], bytes: &[u8]) -> Vec<u8> {
        hmac::sign(&hmac::Key::new(self.hmac(), key), bytes).as_ref().to_vec()
    }
}

/// The keys that a server keeps of a user's password.
#[derive(Clone, Debug)]
pub(crate) struct ScramKeys {
    pub(crate) hash: ScramHash,
    pub(crate) iterations: NonZeroU32,
    pub(crate) salt: Vec<u8>,
    pub(crate) stored_key: Secret,
    pub(crate) server_key: Secret,
}

impl ScramKeys {
    /// Computes the keys of a password, after SASLprep (RFC 4013) unless that refuses it.
    pub(crate) fn derive(
        hash: ScramHash,
        password: &[u8],
        salt: &[u8],
        iterations: NonZeroU32,
    ) -> Self {
        let prepared = prepared(password);
        let password = prepared.as_ref().map_or(password, |text| text.as_bytes());
        Self::of_prepared(hash, password, salt, iterations)
    }

    fn of_prepared(hash: ScramHash, password: &[u8], salt: &[u8], iterations: NonZeroU32) -> Self {
        let mut salted = Zeroizing::new(vec![0; hash.len()]);
        pbkdf2::derive(hash.pbkdf2(), iterations, salt, password, &mut salted);
        let client_key = Zeroizing::new(hash.mac(&salted, b"Client Key"));
        Self {
            hash,
            iterations,
            salt: salt.to_vec(),
            stored_key: Secret::new(hash.hash(&client_key)),
            server_key: Secret::new(hash.mac(&salted, b"Server Key")),
        }
    }

    /// Parses the text after the scheme.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, SchemeError> {
        let scheme = "SCRAM-SHA-256";
        let form = "ITERATIONS,SALT,STORED-KEY,SERVER-KEY";
        let malformed = || SchemeError::Malformed { scheme, form };
        let fields: Vec<&[u8]> = text.split(|byte| *byte == b',').collect();
        let [iterations, salt, stored, server] = fields[..] else { return Err(malformed()) };
        let iterations = std::str::from_utf8(iterations).map_err(|_| malformed())?;
        let iterations: NonZeroU32 = iterations.parse().map_err(|_| malformed())?;
        SchemeError::bound(scheme, "iterations", iterations.get(), PBKDF2_ITERATIONS_MAX)?;
        let bytes = |text| from_base64(text).ok_or_else(malformed);
        let (salt, stored, server) = (bytes(salt)?, bytes(stored)?, bytes(server)?);
        let hash = ScramHash::Sha256;
        let is_len = stored.len() == hash.len() && server.len() == hash.len();
        if !is_len || salt.is_empty() || salt.len() > SALT_LEN_MAX {
            return Err(malformed());
        }
        let (stored_key, server_key) = (Secret::new(stored), Secret::new(server));
        Ok(Self { hash, iterations, salt, stored_key, server_key })
    }

    /// Returns the text that [`ScramKeys::parse`] reads.
    pub(crate) fn to_text(&self) -> String {
        format!(
            "{},{},{},{}",
            self.iterations,
            to_base64(&self.salt),
            to_base64(self.stored_key.expose()),
            to_base64(self.server_key.expose())
        )
    }

    /// Returns `true` if the keys are those of the password, as it is or after SASLprep.
    pub(crate) fn verify(&self, password: &[u8]) -> bool {
        let is_of = |password: &[u8]| {
            let keys = Self::of_prepared(self.hash, password, &self.salt, self.iterations);
            equal(keys.stored_key.expose(), self.stored_key.expose())
        };
        let prepared = prepared(password).filter(|text| text.as_bytes() != password);
        is_of(password) || prepared.is_some_and(|text| is_of(text.as_bytes()))
    }

    /// Returns keys of the same cost that no password has.
    pub(crate) fn dummy(&self) -> Self {
        let zero = || Secret::new(vec![0; self.hash.len()]);
        Self { stored_key: zero(), server_key: zero(), ..self.clone() }
    }

    pub(super) fn cost(&self) -> Cost {
        let salt_len = u32::try_from(self.salt.len()).unwrap_or(u32::MAX);
        Cost::new("SCRAM-SHA-256", self.iterations.get(), salt_len)
    }
}

/// Returns the password after SASLprep, or `None` if that refuses it.
fn prepared(password: &[u8]) -> Option<Zeroizing<String>> {
    let text = std::str::from_utf8(password).ok()?;
    stringprep::saslprep(text).ok().map(|text| Zeroizing::new(text.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(password: &str) -> ScramKeys {
        let iterations = NonZeroU32::new(4096).unwrap();
        ScramKeys::derive(ScramHash::Sha256, password.as_bytes(), b"saltsalt", iterations)
    }

    #[test]
    fn keys_are_written_and_read() {
        let text = keys("pencil").to_text();
        let read = ScramKeys::parse(text.as_bytes()).unwrap();
        assert_eq!(read.to_text(), text);
        assert!(read.verify(b"pencil"));
        assert!(!read.verify(b"pencils"));
        assert!(!read.dummy().verify(b"pencil"));
    }

    #[test]
    fn passwords_are_prepared() {
        // RFC 4013 §3: a soft hyphen is mapped to nothing, a feminine ordinal to its letter.
        assert!(keys("IX").verify("I\u{ad}X".as_bytes()));
        assert!(keys("a").verify("\u{aa}".as_bytes()));
        assert!(keys("\u{aa}").verify(b"a"));
        assert!(!keys("a").verify(b"A"));
        // Not UTF-8, and a control character that SASLprep refuses: compared as they are.
        assert!(keys("a\u{7}").verify(b"a\x07"));
        assert!(!keys("a").verify(b"a\xff"));
    }

    #[test]
    fn damaged_keys_are_refused() {
        let good = keys("pencil").to_text();
        for bad in [
            "".to_owned(),
            good.replace("4096", "0"),
            good.replace("4096", "x"),
            good.replace(',', ";"),
            format!("{good},x"),
            good[..good.len() - 8].to_owned(),
        ] {
            assert!(ScramKeys::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
