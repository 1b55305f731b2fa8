//! New hashes.

use std::num::NonZeroU32;

use argon2::Algorithm;
use barid_vfs::Host;

use super::argon::ArgonHash;
use super::crypt::{BcryptHash, ShaCryptHash};
use super::digest::DigestHash;
use super::encode::to_base64;
use super::scram::{ScramHash, ScramKeys};
use super::{Scheme, SchemeError};
use crate::error::{Error, Result};

/// Iterations of new keys of SCRAM, the least that RFC 7677 §4 allows and the number of Dovecot:
/// phones compute them too.
const SCRAM_ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("because it is not 0");

/// Makes a hash of a password for a passwd-file, with `{SCHEME}` at its start.
///
/// # Errors
/// Returns [`Error::Random`], and [`Error::Setting`] for schemes of which no new hashes are made:
/// {PLAIN}, {CRYPT}, {PBKDF2} and those without salt.
pub fn make_hash(scheme: Scheme, password: &[u8], host: &dyn Host) -> Result<String> {
    let mut salt = [0; 16];
    host.random(&mut salt).map_err(Error::Random)?;
    let name = scheme.name();
    let text = match scheme {
        Scheme::Argon2id => ArgonHash::make(Algorithm::Argon2id, password, &salt),
        Scheme::Argon2i => ArgonHash::make(Algorithm::Argon2i, password, &salt),
        Scheme::Sha512Crypt | Scheme::Sha256Crypt => {
            let salt = salt.first_chunk().expect("because it is longer");
            ShaCryptHash::make(scheme == Scheme::Sha512Crypt, password, salt)
        }
        Scheme::BlfCrypt => BcryptHash::make(password, salt),
        Scheme::ScramSha256 => return make_scram(password, SCRAM_ITERATIONS, host),
        Scheme::Ssha512 | Scheme::Ssha256 | Scheme::Ssha => {
            let (algorithm, _) = scheme.digest().expect("because these are digests");
            to_base64(&DigestHash::make(algorithm, password, &salt[..8]))
        }
        _ => {
            let why = SchemeError::Unknown { scheme: name.to_owned() }.to_string();
            return Err(Error::Setting { setting: "scheme", why });
        }
    };
    Ok(format!("{{{name}}}{text}"))
}

/// Makes the keys of SCRAM-SHA-256 of a password for a passwd-file.
///
/// # Errors
/// Returns [`Error::Random`].
pub fn make_scram(password: &[u8], iterations: NonZeroU32, host: &dyn Host) -> Result<String> {
    Ok(format!("{{SCRAM-SHA-256}}{}", scram_keys(password, iterations, host)?.to_text()))
}

/// Computes keys of SCRAM-SHA-256 with a new salt.
pub(crate) fn scram_keys(
    password: &[u8],
    iterations: NonZeroU32,
    host: &dyn Host,
) -> Result<ScramKeys> {
    let mut salt = [0; 16];
    host.random(&mut salt).map_err(Error::Random)?;
    Ok(ScramKeys::derive(ScramHash::Sha256, password, &salt, iterations))
}
