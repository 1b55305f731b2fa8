//! Stored passwords in the forms that Dovecot reads: `{SCHEME}` and a hash.
//!
//! [`Password::parse`] checks everything that a hash says when the file is loaded, so that
//! [`Password::verify`] cannot fail later; costs are bounded by `limits.rs`. Verification compares
//! in constant time.

mod argon;
mod cost;
mod crypt;
mod digest;
pub(crate) mod encode;
mod make;
pub(crate) mod scram;

use std::fmt;

use ring::digest as ring_digest;

use self::argon::ArgonHash;
pub(crate) use self::cost::Cost;
use self::crypt::{BcryptHash, ShaCryptHash, YescryptHash};
use self::digest::{DigestHash, Pbkdf2Hash};
pub(crate) use self::make::scram_keys;
pub use self::make::{make_hash, make_scram};
use self::scram::ScramKeys;
use crate::limits::PASSWORD_LEN_MAX;
use crate::secret::{array, equal, sha256};

/// A way to store passwords.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scheme {
    /// The password in clear: {PLAIN}, {CLEAR}, {CLEARTEXT}.
    Plain,
    /// One of the hashes of crypt(3), known by its beginning.
    Crypt,
    /// {SHA512-CRYPT}, `$6$`.
    Sha512Crypt,
    /// {SHA256-CRYPT}, `$5$`.
    Sha256Crypt,
    /// {BLF-CRYPT}, bcrypt.
    BlfCrypt,
    /// {ARGON2ID}.
    Argon2id,
    /// {ARGON2I}.
    Argon2i,
    /// {SCRAM-SHA-256}, which both SCRAM and PLAIN can use.
    ScramSha256,
    /// {SSHA512}.
    Ssha512,
    /// {SSHA256}.
    Ssha256,
    /// {SSHA}.
    Ssha,
    /// {SHA512}, without salt.
    Sha512,
    /// {SHA256}, without salt.
    Sha256,
    /// {SHA} and {SHA1}, without salt.
    Sha1,
    /// {PBKDF2}, with SHA-1.
    Pbkdf2,
}

/// Names of the schemes.
const NAMES: &[(&str, Scheme)] = &[
    ("PLAIN", Scheme::Plain),
    ("CLEARTEXT", Scheme::Plain),
    ("CLEAR", Scheme::Plain),
    ("CRYPT", Scheme::Crypt),
    ("SHA512-CRYPT", Scheme::Sha512Crypt),
    ("SHA256-CRYPT", Scheme::Sha256Crypt),
    ("BLF-CRYPT", Scheme::BlfCrypt),
    ("BCRYPT", Scheme::BlfCrypt),
    ("ARGON2ID", Scheme::Argon2id),
    ("ARGON2I", Scheme::Argon2i),
    ("SCRAM-SHA-256", Scheme::ScramSha256),
    ("SSHA512", Scheme::Ssha512),
    ("SSHA256", Scheme::Ssha256),
    ("SSHA", Scheme::Ssha),
    ("SHA512", Scheme::Sha512),
    ("SHA256", Scheme::Sha256),
    ("SHA", Scheme::Sha1),
    ("SHA1", Scheme::Sha1),
    ("PBKDF2", Scheme::Pbkdf2),
];

/// Schemes of Dovecot that are too weak to be read.
const WEAK: &[&str] = &[
    "MD5",
    "MD5-CRYPT",
    "PLAIN-MD5",
    "LDAP-MD5",
    "SMD5",
    "PLAIN-MD4",
    "DES-CRYPT",
    "CRAM-MD5",
    "HMAC-MD5",
    "DIGEST-MD5",
    "OTP",
    "PLAIN-TRUNC",
];

impl Scheme {
    /// Returns the scheme with a name, without braces, in any case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let mut names = NAMES.iter();
        names.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, scheme)| *scheme)
    }

    /// Returns the name of the scheme, without braces.
    #[must_use]
    pub fn name(self) -> &'static str {
        let mut names = NAMES.iter();
        names.find(|(_, scheme)| *scheme == self).map_or("", |(name, _)| name)
    }

    /// Returns the digest of the schemes that are one, and `true` if they have a salt.
    fn digest(self) -> Option<(&'static ring_digest::Algorithm, bool)> {
        match self {
            Self::Ssha512 => Some((&ring_digest::SHA512, true)),
            Self::Ssha256 => Some((&ring_digest::SHA256, true)),
            Self::Ssha => Some((&ring_digest::SHA1_FOR_LEGACY_USE_ONLY, true)),
            Self::Sha512 => Some((&ring_digest::SHA512, false)),
            Self::Sha256 => Some((&ring_digest::SHA256, false)),
            Self::Sha1 => Some((&ring_digest::SHA1_FOR_LEGACY_USE_ONLY, false)),
            _ => None,
        }
    }
}

/// A stored password cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemeError {
    /// No such scheme.
    #[error(
        "unknown password scheme {{{scheme}}}; use {{ARGON2ID}}, {{SHA512-CRYPT}} or {{SCRAM-SHA-256}}"
    )]
    Unknown {
        /// Its name.
        scheme: String,
    },
    /// A scheme of Dovecot that is too weak.
    #[error("the password scheme {{{scheme}}} is too weak and not supported; set a new password")]
    Weak {
        /// Its name.
        scheme: &'static str,
    },
    /// A hash of crypt(3) that is not supported.
    #[error(
        "no supported hash of crypt(3): $6$, $5$, $y$, $2a$, $2b$ and $2y$ are; name the scheme of others, such as {{PLAIN}}"
    )]
    Crypt,
    /// The text is not a hash of its scheme.
    #[error("not a hash of {{{scheme}}}, which has the form {form}")]
    Malformed {
        /// The scheme.
        scheme: &'static str,
        /// The form that it has.
        form: &'static str,
    },
    /// Verification would take too long or too much memory.
    #[error("{{{scheme}}} with {value} {what}; at most {max} are supported")]
    TooCostly {
        /// The scheme.
        scheme: &'static str,
        /// The parameter.
        what: &'static str,
        /// Its value.
        value: u32,
        /// The greatest value.
        max: u32,
    },
}

impl SchemeError {
    fn bound(
        scheme: &'static str,
        what: &'static str,
        value: u32,
        max: u32,
    ) -> Result<(), SchemeError> {
        if value > max { Err(Self::TooCostly { scheme, what, value, max }) } else { Ok(()) }
    }
}

/// A stored password.
#[derive(Clone)]
pub struct Password {
    kind: Kind,
    /// Distinguishes this stored password from another one of the same user.
    fingerprint: [u8; 16],
}

#[derive(Clone)]
enum Kind {
    /// No password is right.
    Locked,
    /// The digest of a password in clear.
    Clear([u8; 32]),
    ShaCrypt(ShaCryptHash),
    Bcrypt(BcryptHash),
    Yescrypt(YescryptHash),
    Argon(ArgonHash),
    Digest(DigestHash),
    Pbkdf2(Pbkdf2Hash),
    Scram(ScramKeys),
}

/// An encoding named after the scheme, as in {SSHA512.hex}.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Usual,
    Base64,
    Hex,
}

/// A stored password that names its scheme.
struct Named<'a> {
    scheme: Scheme,
    encoding: Encoding,
    rest: &'a [u8],
}

impl Password {
    /// Parses `{SCHEME}hash`, or a hash of the scheme `default` if no scheme is named.
    ///
    /// An empty text and the locks of `/etc/shadow` (`*`, `!`, `x`) are passwords that nobody has.
    ///
    /// # Errors
    /// Returns a [`SchemeError`]; it has nothing of the hash.
    pub fn parse(text: &[u8], default: Scheme) -> Result<Self, SchemeError> {
        let fingerprint = array(&sha256(text)[..16]);
        let kind = match named_scheme(text)? {
            Some(named) => Kind::parse(named.scheme, named.encoding, named.rest)?,
            None if is_lock(text) => Kind::Locked,
            None if text.starts_with(b"$argon2") => Kind::Argon(ArgonHash::parse(text)?),
            None => Kind::parse(default, Encoding::Usual, text)?,
        };
        Ok(Self { kind, fingerprint })
    }

    /// Returns `true` if `password` is right. An empty or too long one never is.
    ///
    /// The time depends on the scheme and on the length of `password` only.
    #[must_use]
    pub fn verify(&self, password: &[u8]) -> bool {
        if password.is_empty() || password.len() > PASSWORD_LEN_MAX {
            return false;
        }
        match &self.kind {
            Kind::Locked => false,
            Kind::Clear(stored) => equal(&sha256(password), stored),
            Kind::ShaCrypt(hash) => hash.verify(password),
            Kind::Bcrypt(hash) => hash.verify(password),
            Kind::Yescrypt(hash) => hash.verify(password),
            Kind::Argon(hash) => hash.verify(password),
            Kind::Digest(hash) => hash.verify(password),
            Kind::Pbkdf2(hash) => hash.verify(password),
            Kind::Scram(keys) => keys.verify(password),
        }
    }

    /// Returns a stored password of the same cost that nobody has.
    pub(crate) fn dummy(&self) -> Self {
        let kind = match &self.kind {
            Kind::Locked => Kind::Locked,
            Kind::Clear(_) => Kind::Clear([0; 32]),
            Kind::ShaCrypt(hash) => Kind::ShaCrypt(hash.dummy()),
            Kind::Bcrypt(hash) => Kind::Bcrypt(hash.dummy()),
            Kind::Yescrypt(hash) => Kind::Yescrypt(hash.dummy()),
            Kind::Argon(hash) => Kind::Argon(hash.dummy()),
            Kind::Digest(hash) => Kind::Digest(hash.dummy()),
            Kind::Pbkdf2(hash) => Kind::Pbkdf2(hash.dummy()),
            Kind::Scram(keys) => Kind::Scram(keys.dummy()),
        };
        Self { kind, fingerprint: [0; 16] }
    }

    /// Returns the cost of verification; `None` if the account is locked.
    pub(crate) fn cost(&self) -> Option<Cost> {
        match &self.kind {
            Kind::Locked => None,
            Kind::Clear(_) => Some(Cost::new("PLAIN", 0, 0)),
            Kind::ShaCrypt(hash) => Some(hash.cost()),
            Kind::Bcrypt(hash) => Some(hash.cost()),
            Kind::Yescrypt(hash) => Some(hash.cost()),
            Kind::Argon(hash) => Some(hash.cost()),
            Kind::Digest(hash) => Some(hash.cost()),
            Kind::Pbkdf2(hash) => Some(hash.cost()),
            Kind::Scram(keys) => Some(keys.cost()),
        }
    }

    /// Returns `true` if no password is right.
    pub(crate) fn is_locked(&self) -> bool {
        matches!(self.kind, Kind::Locked)
    }

    /// Returns `true` if verification takes longer than looking up a remembered one.
    pub(crate) fn is_slow(&self) -> bool {
        !matches!(self.kind, Kind::Locked | Kind::Clear(_) | Kind::Digest(_))
    }

    /// Returns the keys of SCRAM, if it is stored so.
    pub(crate) fn scram(&self) -> Option<&ScramKeys> {
        match &self.kind {
            Kind::Scram(keys) => Some(keys),
            _ => None,
        }
    }

    pub(crate) fn fingerprint(&self) -> &[u8; 16] {
        &self.fingerprint
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Password(..)")
    }
}

impl Kind {
    fn parse(scheme: Scheme, encoding: Encoding, text: &[u8]) -> Result<Self, SchemeError> {
        if let Some((algorithm, is_salted)) = scheme.digest() {
            let bytes = digest_bytes(algorithm, is_salted, encoding, text);
            let hash = bytes.and_then(|bytes| DigestHash::parse(algorithm, is_salted, &bytes));
            let form = "the digest and its salt in Base64 or hexadecimal digits";
            let malformed = SchemeError::Malformed { scheme: scheme.name(), form };
            return hash.map(Self::Digest).ok_or(malformed);
        }
        let form = "the form named in the scheme: Base64 or hexadecimal digits";
        let malformed = SchemeError::Malformed { scheme: scheme.name(), form };
        let decoded = match encoding {
            Encoding::Usual => text.to_vec(),
            Encoding::Base64 => encode::from_base64(text).ok_or(malformed)?,
            Encoding::Hex => encode::from_hex(text).ok_or(malformed)?,
        };
        let text = zeroize::Zeroizing::new(decoded);
        match scheme {
            Scheme::Plain => Ok(Self::plain(&text)),
            Scheme::Argon2id | Scheme::Argon2i => Ok(Self::Argon(ArgonHash::parse(&text)?)),
            Scheme::ScramSha256 => Ok(Self::Scram(ScramKeys::parse(&text)?)),
            Scheme::Pbkdf2 => Ok(Self::Pbkdf2(Pbkdf2Hash::parse(&text)?)),
            _ => Self::crypt(scheme, &text),
        }
    }

    fn plain(text: &[u8]) -> Self {
        let is_possible = !text.is_empty() && text.len() <= PASSWORD_LEN_MAX;
        if is_possible { Self::Clear(sha256(text)) } else { Self::Locked }
    }

    fn crypt(scheme: Scheme, text: &[u8]) -> Result<Self, SchemeError> {
        if is_lock(text) {
            return Ok(Self::Locked);
        }
        let text = std::str::from_utf8(text).map_err(|_| SchemeError::Crypt)?;
        // Dovecot hands all of these to crypt(3), so {SHA512-CRYPT} may hold a hash of SHA-256.
        if text.starts_with("$5$") || text.starts_with("$6$") {
            return Ok(Self::ShaCrypt(ShaCryptHash::parse(text)?));
        }
        if text.starts_with("$2") || scheme == Scheme::BlfCrypt {
            return Ok(Self::Bcrypt(BcryptHash::parse(text)?));
        }
        if text.starts_with("$y$") {
            return Ok(Self::Yescrypt(YescryptHash::parse(text)?));
        }
        if text.starts_with("$1$") {
            return Err(SchemeError::Weak { scheme: "MD5-CRYPT" });
        }
        Err(SchemeError::Crypt)
    }
}

/// Splits a stored password after the scheme that it names; `None` if it names none.
fn named_scheme(text: &[u8]) -> Result<Option<Named<'_>>, SchemeError> {
    let Some(inner) = text.strip_prefix(b"{") else { return Ok(None) };
    let end = inner.iter().position(|byte| *byte == b'}');
    // What stands there may be a password by mistake: it is shown only if it looks like a name.
    let unknown = || SchemeError::Unknown { scheme: "...".to_owned() };
    let (name, rest) = inner.split_at(end.ok_or_else(unknown)?);
    let name = std::str::from_utf8(name).map_err(|_| unknown())?;
    let (name, encoding) = match name.split_once('.') {
        None => (name, Encoding::Usual),
        Some((name, suffix)) => match suffix.to_ascii_lowercase().as_str() {
            "b64" | "base64" => (name, Encoding::Base64),
            "hex" => (name, Encoding::Hex),
            _ => return Err(unknown()),
        },
    };
    if let Some(scheme) = Scheme::named(name) {
        return Ok(Some(Named { scheme, encoding, rest: &rest[1..] }));
    }
    if let Some(scheme) = WEAK.iter().find(|weak| weak.eq_ignore_ascii_case(name)) {
        return Err(SchemeError::Weak { scheme });
    }
    let looks_like_name = name.len() <= 20
        && name.bytes().all(|byte| byte.is_ascii_uppercase() || b"-0123456789".contains(&byte));
    match looks_like_name {
        true => Err(SchemeError::Unknown { scheme: name.to_owned() }),
        false => Err(unknown()),
    }
}

/// Returns `true` for the texts that lock an account in `/etc/shadow`.
fn is_lock(text: &[u8]) -> bool {
    text.is_empty() || text == b"x" || text.starts_with(b"!") || text.starts_with(b"*")
}

/// Returns the bytes of a digest; without a named encoding, a digest without salt that is twice as
/// long as its bytes is hexadecimal, as Dovecot guesses.
fn digest_bytes(
    algorithm: &ring_digest::Algorithm,
    is_salted: bool,
    encoding: Encoding,
    text: &[u8],
) -> Option<Vec<u8>> {
    let looks_hex = !is_salted && text.len() == 2 * algorithm.output_len();
    match encoding {
        Encoding::Hex => encode::from_hex(text),
        Encoding::Usual if looks_hex => {
            encode::from_hex(text).or_else(|| encode::from_base64(text))
        }
        Encoding::Base64 | Encoding::Usual => encode::from_base64(text),
    }
}

#[cfg(test)]
mod tests;
