//! Signed tokens (JWT, RFC 7519, in the compact form of RFC 7515).
//!
//! The crate jsonwebtoken is not used: without aws-lc-rs it brings second versions of sha2 and
//! digest, and its choice of algorithms is wider than the one that is wanted here.

use base64ct::{Base64UrlUnpadded, Encoding as _};
use serde_json::{Map, Value};

use super::claims::TokenRules;
use super::keys::{Algorithm, KeySet};
use super::{BearerToken, TokenRefusal};
use crate::limits::TOKEN_LEN_MAX;

/// Types of tokens (`typ`) that are accepted; a token may have none.
const TYPES: [&str; 4] = ["JWT", "at+jwt", "application/jwt", "application/at+jwt"];

/// A parsed token, nothing of which is verified.
pub(super) struct Jwt<'a> {
    pub(super) algorithm: Algorithm,
    pub(super) key_id: Option<String>,
    /// Header and claims, as they are signed.
    signed: &'a str,
    claims: &'a str,
    signature: Vec<u8>,
}

impl<'a> Jwt<'a> {
    pub(super) fn parse(token: BearerToken<'a>) -> Result<Self, TokenRefusal> {
        let token = token.0;
        let malformed = TokenRefusal::Malformed;
        if token.len() > TOKEN_LEN_MAX {
            return Err(malformed);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(malformed)?;
        if claims.contains('.') {
            return Err(malformed);
        }
        let header = object(header)?;
        let name = header.get("alg").and_then(Value::as_str).ok_or(malformed)?;
        let algorithm = Algorithm::named(name).ok_or(TokenRefusal::Algorithm)?;
        if header.contains_key("crit") {
            return Err(TokenRefusal::Critical);
        }
        let is_type = |value: &Value| {
            let value = value.as_str();
            value.is_some_and(|value| TYPES.iter().any(|known| known.eq_ignore_ascii_case(value)))
        };
        if !header.get("typ").is_none_or(is_type) {
            return Err(malformed);
        }
        let key_id = match header.get("kid") {
            None => None,
            Some(Value::String(id)) => Some(id.clone()),
            Some(_) => return Err(malformed),
        };
        let signature = Base64UrlUnpadded::decode_vec(signature).map_err(|_| malformed)?;
        Ok(Self { algorithm, key_id, signed, claims, signature })
    }

    /// Verifies the signature, and then the claims; returns the mailbox.
    pub(super) fn validate(
        &self,
        keys: &KeySet,
        algorithms: &[Algorithm],
        rules: &TokenRules,
        now: i64,
    ) -> Result<String, TokenRefusal> {
        if !algorithms.contains(&self.algorithm) {
            return Err(TokenRefusal::Algorithm);
        }
        let key_id = self.key_id.as_deref();
        keys.verify(self.algorithm, key_id, self.signed.as_bytes(), &self.signature)?;
        rules.mailbox(&object(self.claims)?, now, false)
    }
}

/// Returns the mailbox that a signed token gives access to. `now` is in seconds of Unix time.
///
/// # Errors
/// Returns the reason for which the token is refused.
pub fn validate(
    token: BearerToken<'_>,
    keys: &KeySet,
    algorithms: &[Algorithm],
    rules: &TokenRules,
    now: i64,
) -> Result<String, TokenRefusal> {
    Jwt::parse(token)?.validate(keys, algorithms, rules, now)
}

/// Decodes a part of a token that is a JSON object.
fn object(part: &str) -> Result<Map<String, Value>, TokenRefusal> {
    let bytes = Base64UrlUnpadded::decode_vec(part).map_err(|_| TokenRefusal::Malformed)?;
    serde_json::from_slice(&bytes).map_err(|_| TokenRefusal::Malformed)
}

#[cfg(test)]
mod tests;
