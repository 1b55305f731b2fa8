//! The hashes of crypt(3): SHA-crypt (`$5$`, `$6$`), bcrypt (`$2b$`) and yescrypt (`$y$`).

use base64ct::{Base64Bcrypt, Base64ShaCrypt, Encoding as _};
use sha_crypt::{PasswordHashRef, PasswordVerifier as _, ShaCrypt};
use yescrypt::Yescrypt;

use super::SchemeError;
use super::cost::Cost;
use crate::limits::{BCRYPT_COST_MAX, SHA_CRYPT_ROUNDS_MAX, YESCRYPT_MEMORY_KIB_MAX};
use crate::secret::{array, equal};
use zeroize::Zeroizing;

/// Characters of salts and hashes.
const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Number of rounds of SHA-crypt if a hash names none.
const SHA_ROUNDS: u32 = 5000;
/// Smallest number of rounds; crypt(3) rounds up.
const SHA_ROUNDS_MIN: u32 = 1000;
/// Characters of the salt of SHA-crypt that count.
const SHA_SALT_LEN: usize = 16;
/// Characters of a hash of yescrypt.
const YESCRYPT_HASH_LEN: usize = 43;
/// Bytes of a password that bcrypt uses, with the NUL at its end.
const BCRYPT_KEY_LEN: usize = 72;
/// Bytes of a hash of bcrypt that are stored.
const BCRYPT_HASH_LEN: usize = 23;
/// Cost of new hashes of bcrypt.
const BCRYPT_COST: u32 = 10;

/// A hash of SHA-256-crypt or SHA-512-crypt.
#[derive(Clone)]
pub(super) struct ShaCryptHash {
    text: String,
    /// Offset of the hash in the text.
    hash_at: usize,
    rounds: u32,
}

impl ShaCryptHash {
    /// Parses `$6$[rounds=N$]SALT$HASH`.
    pub(super) fn parse(text: &str) -> Result<Self, SchemeError> {
        let (scheme, hash_len) = match text.starts_with("$5$") {
            true => ("SHA256-CRYPT", 43),
            false => ("SHA512-CRYPT", 86),
        };
        let malformed = SchemeError::Malformed {
            scheme,
            form: "$6$SALT$HASH or $6$rounds=N$SALT$HASH, or $5$ for SHA-256",
        };
        let fields: Vec<&str> = text.split('$').collect();
        let (rounds, salt, hash) = match fields[..] {
            ["", "5" | "6", salt, hash] => (SHA_ROUNDS, salt, hash),
            ["", "5" | "6", rounds, salt, hash] => {
                let rounds = rounds.strip_prefix("rounds=").and_then(|text| text.parse().ok());
                (rounds.ok_or_else(|| malformed.clone())?, salt, hash)
            }
            _ => return Err(malformed),
        };
        let is_salt = !salt.is_empty() && !salt.starts_with("rounds=");
        if rounds < SHA_ROUNDS_MIN || !is_salt || hash.len() != hash_len || !is_crypt_base64(hash) {
            return Err(malformed);
        }
        SchemeError::bound(scheme, "rounds", rounds, SHA_CRYPT_ROUNDS_MAX)?;
        let hash_at = text.len() - hash_len;
        let parsed = Self { text: text.to_owned(), hash_at, rounds };
        if PasswordHashRef::new(&parsed.text).is_err() {
            return Err(malformed);
        }
        Ok(parsed)
    }

    /// Makes a hash of a password; `salt` has 12 random bytes.
    pub(super) fn make(is_sha512: bool, password: &[u8], salt: &[u8; 12]) -> String {
        let salt: String = salt_chars(salt);
        let params = sha_crypt::Params::RECOMMENDED;
        let (id, hash) = match is_sha512 {
            true => {
                let hash = sha_crypt::sha512_crypt(password, salt.as_bytes(), params);
                ("6", transposed(&hash, &SHA512_ORDER))
            }
            false => {
                let hash = sha_crypt::sha256_crypt(password, salt.as_bytes(), params);
                ("5", transposed(&hash, &SHA256_ORDER))
            }
        };
        format!("${id}${salt}${}", Base64ShaCrypt::encode_string(&hash))
    }

    /// Returns `true` if the password is right.
    pub(super) fn verify(&self, password: &[u8]) -> bool {
        ShaCrypt::default().verify_password(password, self.text.as_str()).is_ok()
    }

    /// Returns a hash of the same cost that no password has.
    pub(super) fn dummy(&self) -> Self {
        let hash = ".".repeat(self.text.len() - self.hash_at);
        let text = format!("{}{hash}", &self.text[..self.hash_at]);
        Self { text, ..*self }
    }

    pub(super) fn cost(&self) -> Cost {
        let function = if self.text.starts_with("$5$") { "SHA256-CRYPT" } else { "SHA512-CRYPT" };
        Cost::new(function, self.rounds, 0)
    }
}

/// A hash of yescrypt, the default of Debian's `passwd` and `mkpasswd`.
#[derive(Clone)]
pub(super) struct YescryptHash {
    text: String,
    /// Memory in KiB.
    memory: u32,
}

impl YescryptHash {
    /// Parses `$y$PARAMETERS$SALT$HASH` with the three parameters that crypt(3) writes: flavour, N
    /// and r.
    pub(super) fn parse(text: &str) -> Result<Self, SchemeError> {
        let (scheme, form) = ("CRYPT", "$y$PARAMETERS$SALT$HASH");
        let malformed = SchemeError::Malformed { scheme, form };
        let fields: Vec<&str> = text.split('$').collect();
        let ["", "y", parameters, salt, hash] = fields[..] else { return Err(malformed) };
        // Other parameters would repeat the work without a bound here.
        let is_usual =
            parameters.len() == 3 && parameters.starts_with('j') && (1..=86).contains(&salt.len());
        let is_valid = [salt, hash].iter().all(|text| is_crypt_base64(text));
        if !is_usual || !is_valid || hash.len() != YESCRYPT_HASH_LEN {
            return Err(malformed);
        }
        let parameters: yescrypt::Params = parameters.parse().map_err(|_| malformed.clone())?;
        let memory = parameters.n().saturating_mul(u64::from(parameters.r())) / 8;
        let memory = u32::try_from(memory).unwrap_or(u32::MAX);
        SchemeError::bound(scheme, "KiB of memory", memory, YESCRYPT_MEMORY_KIB_MAX)?;
        let text = text.to_owned();
        if PasswordHashRef::new(&text).is_err() {
            return Err(malformed);
        }
        Ok(Self { text, memory })
    }

    /// Returns `true` if the password is right.
    pub(super) fn verify(&self, password: &[u8]) -> bool {
        Yescrypt::default().verify_password(password, self.text.as_str()).is_ok()
    }

    /// Returns a hash of the same cost that no password has.
    pub(super) fn dummy(&self) -> Self {
        let kept = &self.text[..self.text.len() - YESCRYPT_HASH_LEN];
        Self { text: format!("{kept}{}", ".".repeat(YESCRYPT_HASH_LEN)), ..*self }
    }

    pub(super) fn cost(&self) -> Cost {
        Cost::new("YESCRYPT", self.memory, 0)
    }
}

/// A hash of bcrypt.
#[derive(Clone)]
pub(super) struct BcryptHash {
    cost: u32,
    salt: [u8; 16],
    hash: [u8; BCRYPT_HASH_LEN],
}

impl BcryptHash {
    /// Parses `$2b$COST$` with 22 characters of salt and 31 of the hash. `$2a$` and `$2y$` are
    /// computed alike; `$2x$`, a mistake of 2011, is not supported.
    pub(super) fn parse(text: &str) -> Result<Self, SchemeError> {
        let malformed =
            SchemeError::Malformed { scheme: "BLF-CRYPT", form: "$2b$COST$ and 53 characters" };
        let fields: Vec<&str> = text.split('$').collect();
        let ["", "2a" | "2b" | "2y", cost, rest] = fields[..] else { return Err(malformed) };
        let cost: u32 = cost.parse().map_err(|_| malformed.clone())?;
        SchemeError::bound("BLF-CRYPT", "a cost", cost, BCRYPT_COST_MAX)?;
        if cost < 4 || rest.len() != 53 || !rest.is_ascii() {
            return Err(malformed);
        }
        let salt = bcrypt_bytes(&rest[..22]).ok_or_else(|| malformed.clone())?;
        let hash = bcrypt_bytes(&rest[22..]).ok_or(malformed)?;
        Ok(Self { cost, salt: array(&salt), hash: array(&hash) })
    }

    /// Makes a hash of a password.
    pub(super) fn make(password: &[u8], salt: [u8; 16]) -> String {
        let hash = bcrypt::bcrypt(BCRYPT_COST, salt, &key(password));
        let (salt, hash) = (
            Base64Bcrypt::encode_string(&salt),
            Base64Bcrypt::encode_string(&hash[..BCRYPT_HASH_LEN]),
        );
        // The form that crypt(3) of every system knows.
        format!("$2y${BCRYPT_COST:02}${salt}{hash}")
    }

    /// Returns `true` if the password is right. Only its first 72 bytes count, as everywhere.
    pub(super) fn verify(&self, password: &[u8]) -> bool {
        let computed = bcrypt::bcrypt(self.cost, self.salt, &key(password));
        equal(&computed[..BCRYPT_HASH_LEN], &self.hash)
    }

    /// Returns a hash of the same cost that no password has.
    pub(super) fn dummy(&self) -> Self {
        Self { hash: [0; BCRYPT_HASH_LEN], ..*self }
    }

    pub(super) fn cost(&self) -> Cost {
        Cost::new("BLF-CRYPT", self.cost, 0)
    }
}

/// Returns `true` if a text is the Base64 of crypt(3); a hash that is not would fit no password.
fn is_crypt_base64(text: &str) -> bool {
    Base64ShaCrypt::decode_vec(text).is_ok()
}

/// Returns the key of bcrypt: the password with a NUL at its end, cut off.
fn key(password: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut key = Zeroizing::new(Vec::with_capacity(BCRYPT_KEY_LEN));
    key.extend(password.iter().copied().chain([0]).take(BCRYPT_KEY_LEN));
    key
}

/// Decodes bcrypt's Base64, in which the unused bits of the last character may have any value.
fn bcrypt_bytes(text: &str) -> Option<Vec<u8>> {
    const ORDER: &[u8; 64] = b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut len) = (0_u32, 0);
    for byte in text.bytes() {
        let value = ORDER.iter().position(|known| *known == byte)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        len += 6;
        if len >= 8 {
            len -= 8;
            bytes.push((bits >> len & 0xff) as u8);
        }
    }
    Some(bytes)
}

/// Returns 16 characters of salt from 12 random bytes.
fn salt_chars(bytes: &[u8; 12]) -> String {
    let group = |bytes: &[u8]| {
        let bits = u32::from(bytes[0]) << 16 | u32::from(bytes[1]) << 8 | u32::from(bytes[2]);
        [18, 12, 6, 0].map(|shift| char::from(ALPHABET[(bits >> shift & 63) as usize]))
    };
    let salt: String = bytes.chunks_exact(3).flat_map(group).collect();
    debug_assert_eq!(salt.len(), SHA_SALT_LEN);
    salt
}

/// Returns the bytes of a hash in the order in which SHA-crypt writes them.
fn transposed(hash: &[u8], order: &[u8]) -> Vec<u8> {
    order.iter().map(|at| hash[usize::from(*at)]).collect()
}

/// The order of the bytes of SHA-256-crypt.
const SHA256_ORDER: [u8; 32] = [
    20, 10, 0, 11, 1, 21, 2, 22, 12, 23, 13, 3, 14, 4, 24, 5, 25, 15, 26, 16, 6, 17, 7, 27, 8, 28,
    18, 29, 19, 9, 30, 31,
];

/// The order of the bytes of SHA-512-crypt.
const SHA512_ORDER: [u8; 64] = [
    42, 21, 0, 1, 43, 22, 23, 2, 44, 45, 24, 3, 4, 46, 25, 26, 5, 47, 48, 27, 6, 7, 49, 28, 29, 8,
    50, 51, 30, 9, 10, 52, 31, 32, 11, 53, 54, 33, 12, 13, 55, 34, 35, 14, 56, 57, 36, 15, 16, 58,
    37, 38, 17, 59, 60, 39, 18, 19, 61, 40, 41, 20, 62, 63,
];
