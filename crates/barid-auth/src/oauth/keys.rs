//! The public keys of an issuer (JWKS, RFC 7517, RFC 7518 §6, RFC 8037).

use base64ct::{Base64UrlUnpadded, Encoding as _};
use ring::signature;
use serde_json::Value;

use super::TokenRefusal;
use crate::limits::JWKS_KEYS_MAX;

/// An algorithm of signatures. There are none with a shared secret, and there is no `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// RS256: RSA with PKCS #1 v1.5 and SHA-256, of 2048 bits or more.
    Rs256,
    /// ES256: ECDSA on P-256 with SHA-256.
    Es256,
    /// EdDSA on Ed25519.
    EdDsa,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Self; 3] = [Self::Rs256, Self::Es256, Self::EdDsa];

    /// Returns the registered name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }

    /// Returns the algorithm with a name, which is case-sensitive.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

/// A key set that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeySetError {
    /// Not a JSON object with an array `keys`.
    #[error("not a key set in JSON")]
    Malformed,
    /// Too many keys.
    #[error("more than {JWKS_KEYS_MAX} keys")]
    TooMany,
    /// No key is for signatures by a supported algorithm.
    #[error("no key for RS256, ES256 or EdDSA")]
    Empty,
}

/// The keys of an issuer that can verify signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySet(Vec<Key>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    id: Option<String>,
    material: Material,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Material {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl KeySet {
    /// Parses a key set. Keys of other types or for other uses are left out.
    ///
    /// # Errors
    /// Returns a [`KeySetError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, KeySetError> {
        let value: Value = serde_json::from_slice(bytes).map_err(|_| KeySetError::Malformed)?;
        let keys = value.get("keys").and_then(Value::as_array).ok_or(KeySetError::Malformed)?;
        if keys.len() > JWKS_KEYS_MAX {
            return Err(KeySetError::TooMany);
        }
        let keys: Vec<Key> = keys.iter().filter_map(Key::parse).collect();
        if keys.is_empty() { Err(KeySetError::Empty) } else { Ok(Self(keys)) }
    }

    /// Verifies the signature of a message by the key with an id; without an id, by the only key of
    /// the algorithm.
    pub(super) fn verify(
        &self,
        algorithm: Algorithm,
        id: Option<&str>,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), TokenRefusal> {
        let is_fit = |key: &&Key| {
            key.material.algorithm() == algorithm && (id.is_none() || key.id.as_deref() == id)
        };
        let mut fit = self.0.iter().filter(is_fit);
        match (fit.next(), fit.next()) {
            (Some(key), None) if key.material.verify(message, signature) => Ok(()),
            (Some(_), None) => Err(TokenRefusal::Signature),
            _ => Err(TokenRefusal::UnknownKey),
        }
    }
}

impl Key {
    fn parse(value: &Value) -> Option<Self> {
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        let bytes = |name: &str| Base64UrlUnpadded::decode_vec(text(name)?).ok();
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => {
                let unsigned = |bytes: Vec<u8>| {
                    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
                    bytes[zeros..].to_vec()
                };
                Material::Rsa { modulus: unsigned(bytes("n")?), exponent: unsigned(bytes("e")?) }
            }
            ("EC", Some("P-256")) => {
                let (x, y) = (bytes("x")?, bytes("y")?);
                let is_valid = x.len() == 32 && y.len() == 32;
                is_valid.then(|| Material::P256([&[4], &x[..], &y].concat()))?
            }
            ("OKP", Some("Ed25519")) => Material::Ed25519(bytes("x").filter(|x| x.len() == 32)?),
            _ => return None,
        };
        let is_for_signatures = value.get("use").is_none_or(|usage| usage == "sig");
        let operations = value.get("key_ops").map(|operations| operations.as_array());
        let may_verify = operations.is_none_or(|operations| {
            operations.is_some_and(|list| list.iter().any(|operation| operation == "verify"))
        });
        let is_of_algorithm =
            value.get("alg").is_none_or(|algorithm| algorithm == material.algorithm().name());
        let id = text("kid").map(str::to_owned);
        (is_for_signatures && may_verify && is_of_algorithm).then_some(Self { id, material })
    }
}

impl Material {
    fn algorithm(&self) -> Algorithm {
        match self {
            Self::Rsa { .. } => Algorithm::Rs256,
            Self::P256(_) => Algorithm::Es256,
            Self::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match self {
            Self::Rsa { modulus, exponent } => {
                signature::RsaPublicKeyComponents { n: modulus, e: exponent }.verify(
                    &signature::RSA_PKCS1_2048_8192_SHA256,
                    message,
                    signature,
                )
            }
            Self::P256(point) => {
                signature::UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point)
                    .verify(message, signature)
            }
            Self::Ed25519(key) => signature::UnparsedPublicKey::new(&signature::ED25519, key)
                .verify(message, signature),
        };
        verified.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected: Result<usize, KeySetError>) {
        assert_eq!(KeySet::parse(json.as_bytes()).map(|keys| keys.0.len()), expected, "{json}");
    }

    #[test]
    fn only_keys_for_signatures_are_taken() {
        let okp =
            r#""kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo""#;
        check(&format!(r#"{{"keys":[{{{okp}}}]}}"#), Ok(1));
        check(&format!(r#"{{"keys":[{{{okp},"use":"sig","alg":"EdDSA","kid":"1"}}]}}"#), Ok(1));
        check(&format!(r#"{{"keys":[{{{okp},"key_ops":["verify"]}}]}}"#), Ok(1));
        for other in
            [r#""use":"enc""#, r#""alg":"RS256""#, r#""key_ops":["sign"]"#, r#""key_ops":"verify""#]
        {
            check(&format!(r#"{{"keys":[{{{okp},{other}}}]}}"#), Err(KeySetError::Empty));
        }
        for other in [
            r#"{"kty":"oct","k":"AAAA"}"#,
            r#"{"kty":"EC","crv":"P-384","x":"AA","y":"AA"}"#,
            r#"{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}"#,
            r#"{"kty":"OKP","crv":"Ed25519","x":"AA"}"#,
            r#"{"kty":"RSA","n":"*","e":"AQAB"}"#,
            "7",
            "null",
        ] {
            check(&format!(r#"{{"keys":[{other}]}}"#), Err(KeySetError::Empty));
        }
        for bad in ["", "[]", "{}", r#"{"keys":{}}"#, "{\"keys\":["] {
            check(bad, Err(KeySetError::Malformed));
        }
        let many = vec!["{}"; JWKS_KEYS_MAX + 1].join(",");
        check(&format!(r#"{{"keys":[{many}]}}"#), Err(KeySetError::TooMany));
    }
}
