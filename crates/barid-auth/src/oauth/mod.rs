//! Bearer tokens of OAuth 2 (RFC 6750): validated by the keys of their issuer ([`Jwks`], RFC 7519,
//! RFC 7517), or by asking it ([`Introspection`], RFC 7662).
//!
//! Everything that could weaken the check is pinned by the configuration: the issuer, the audience,
//! the algorithms and the address of the keys. What a token says of its keys (`jku`, `x5u`, `jwk`,
//! `x5c`) is ignored, `alg: none` and algorithms with a shared secret do not exist, and a token
//! without an expiry is refused. The mailbox comes from one configured claim.
//!
//! Nothing here opens a socket: the caller supplies an [`HttpFetcher`].

mod claims;
mod http;
mod introspection;
mod jwks;
mod jwt;
mod keys;

use std::fmt;

pub use self::claims::TokenRules;
pub use self::http::{Endpoint, HttpFetcher, HttpRequest, HttpResponse};
pub use self::introspection::{Introspection, IntrospectionOptions};
pub use self::jwks::{Jwks, JwksOptions};
pub use self::jwt::validate;
pub use self::keys::{Algorithm, KeySet, KeySetError};
use crate::error::Result;

/// A bearer token, which `Debug` output does not show.
#[derive(Clone, Copy)]
pub struct BearerToken<'a>(pub &'a str);

impl fmt::Debug for BearerToken<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("BearerToken(..)")
    }
}

/// A check of bearer tokens.
pub trait TokenCheck: fmt::Debug + Send + Sync {
    /// Returns the mailbox that a valid token gives access to, as the token names it.
    ///
    /// May block: the issuer may be asked.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`](crate::Error::Unavailable) if the issuer cannot be asked.
    fn check(&self, token: BearerToken<'_>) -> Result<std::result::Result<String, TokenRefusal>>;
}

/// The reason for which a token is refused, for the log of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenRefusal {
    /// The message has none.
    #[error("missing")]
    Missing,
    /// Not a token, or not a JWT.
    #[error("malformed")]
    Malformed,
    /// An algorithm that is not allowed, such as `none`.
    #[error("its algorithm is not allowed")]
    Algorithm,
    /// It has an extension that must be understood (`crit`).
    #[error("it has a critical extension")]
    Critical,
    /// No key of the issuer has its key id.
    #[error("its key is not among the issuer's")]
    UnknownKey,
    /// Signed by somebody else, or changed.
    #[error("its signature is wrong")]
    Signature,
    /// The issuer says that it is not valid.
    #[error("the issuer says that it is not active")]
    Inactive,
    /// Made by another issuer.
    #[error("it has another issuer")]
    Issuer,
    /// Made for another service.
    #[error("it is for another audience")]
    Audience,
    /// Its time is over.
    #[error("expired")]
    Expired,
    /// It does not say when its time is over.
    #[error("it does not expire")]
    NoExpiry,
    /// Its time has not come.
    #[error("not valid yet")]
    NotYet,
    /// Its holder may not read mail.
    #[error("it lacks the scope")]
    Scope,
    /// It does not name a mailbox that can exist.
    #[error("it names no mailbox, or one that cannot exist")]
    Mailbox,
    /// The issuer has not verified the address that it names.
    #[error("its e-mail address is not verified")]
    Unverified,
}
