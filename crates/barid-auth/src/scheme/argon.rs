//! Argon2 (RFC 9106) in the form of its reference program:
//! `$argon2id$v=19$m=65536,t=3,p=1$SALT$HASH`.

use argon2::{Algorithm, Argon2, Params, Version};
use base64ct::{Base64Unpadded, Encoding as _};

use super::SchemeError;
use super::cost::Cost;
use crate::limits::{
    ARGON2_HASH_LEN_MAX, ARGON2_LANES_MAX, ARGON2_MEMORY_KIB_MAX, ARGON2_PASSES_MAX, SALT_LEN_MAX,
};
use crate::secret::equal;

/// Memory in KiB, passes and lanes of new hashes, as Dovecot makes them.
const MEMORY_KIB: u32 = 64 * 1024;
const PASSES: u32 = 3;
const LANES: u32 = 1;
/// Length of new hashes in bytes.
const HASH_LEN: usize = 32;

/// A hash of Argon2i or Argon2id.
#[derive(Clone)]
pub(super) struct ArgonHash {
    algorithm: Algorithm,
    version: Version,
    params: Params,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

impl ArgonHash {
    /// Parses the text after the scheme.
    pub(super) fn parse(text: &[u8]) -> Result<Self, SchemeError> {
        let malformed = SchemeError::Malformed {
            scheme: "ARGON2ID",
            form: "$argon2id$v=19$m=..,t=..,p=..$SALT$HASH",
        };
        let text = std::str::from_utf8(text).map_err(|_| malformed.clone())?;
        let fields: Vec<&str> = text.split('$').collect();
        let ["", algorithm, version, costs, salt, hash] = fields[..] else {
            return Err(malformed);
        };
        let algorithm = match algorithm {
            "argon2id" => Algorithm::Argon2id,
            "argon2i" => Algorithm::Argon2i,
            _ => return Err(malformed),
        };
        let version = match version {
            "v=19" => Version::V0x13,
            "v=16" => Version::V0x10,
            _ => return Err(malformed),
        };
        let costs: Vec<&str> = costs.split(',').collect();
        let [memory, passes, lanes] = costs[..] else { return Err(malformed) };
        let number = |text: &str, key| text.strip_prefix(key)?.parse::<u32>().ok();
        let (Some(memory), Some(passes), Some(lanes)) =
            (number(memory, "m="), number(passes, "t="), number(lanes, "p="))
        else {
            return Err(malformed);
        };
        let scheme = "ARGON2ID";
        SchemeError::bound(scheme, "memory in KiB", memory, ARGON2_MEMORY_KIB_MAX)?;
        SchemeError::bound(scheme, "passes", passes, ARGON2_PASSES_MAX)?;
        SchemeError::bound(scheme, "lanes", lanes, ARGON2_LANES_MAX)?;
        let salt = Base64Unpadded::decode_vec(salt).map_err(|_| malformed.clone())?;
        let hash = Base64Unpadded::decode_vec(hash).map_err(|_| malformed.clone())?;
        if salt.len() < argon2::MIN_SALT_LEN
            || salt.len() > SALT_LEN_MAX
            || hash.len() > ARGON2_HASH_LEN_MAX
        {
            return Err(malformed);
        }
        let params = Params::new(memory, passes, lanes, Some(hash.len()));
        let params = params.map_err(|_| malformed)?;
        Ok(Self { algorithm, version, params, salt, hash })
    }

    /// Makes a hash of a password.
    pub(super) fn make(algorithm: Algorithm, password: &[u8], salt: &[u8]) -> String {
        let params = Params::new(MEMORY_KIB, PASSES, LANES, Some(HASH_LEN))
            .expect("because the parameters are within their limits");
        let version = Version::V0x13;
        let hash = vec![0; HASH_LEN];
        let mut made = Self { algorithm, version, params, salt: salt.to_vec(), hash };
        made.hash = made.compute(password).expect("because salt and parameters are valid");
        format!(
            "${}$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${}${}",
            algorithm.as_str(),
            Base64Unpadded::encode_string(salt),
            Base64Unpadded::encode_string(&made.hash)
        )
    }

    fn compute(&self, password: &[u8]) -> Option<Vec<u8>> {
        let mut computed = vec![0; self.hash.len()];
        Argon2::new(self.algorithm, self.version, self.params.clone())
            .hash_password_into(password, &self.salt, &mut computed)
            .ok()?;
        Some(computed)
    }

    /// Returns `true` if the password is right.
    pub(super) fn verify(&self, password: &[u8]) -> bool {
        self.compute(password).is_some_and(|computed| equal(&computed, &self.hash))
    }

    /// Returns a hash of the same cost that no password has.
    pub(super) fn dummy(&self) -> Self {
        Self { hash: vec![0; self.hash.len()], ..self.clone() }
    }

    pub(super) fn cost(&self) -> Cost {
        Cost::new("ARGON2", self.params.m_cost(), self.params.t_cost())
    }
}
