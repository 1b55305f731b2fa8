//! Tokens that their issuer is asked about (RFC 7662).

use std::fmt;
use std::sync::Arc;

use barid_vfs::Host;
use base64ct::{Base64, Encoding as _};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::claims::TokenRules;
use super::http::{Endpoint, HttpFetcher, HttpRequest, body, form_value};
use super::{BearerToken, TokenCheck, TokenRefusal};
use crate::error::{Error, Result};
use crate::limits::TOKEN_LEN_MAX;
use crate::secret::Secret;

/// Settings of [`Introspection`].
#[derive(Clone, Debug)]
pub struct IntrospectionOptions {
    /// The address of the introspection endpoint.
    pub url: Endpoint,
    /// The identifier of this service at the issuer.
    pub client_id: String,
    /// The secret of this service at the issuer.
    pub client_secret: Secret,
    /// The rules of the claims; the answer need not repeat the issuer.
    pub rules: TokenRules,
}

/// A check of tokens by asking their issuer each time.
pub struct Introspection {
    options: IntrospectionOptions,
    fetcher: Arc<dyn HttpFetcher>,
    host: Arc<dyn Host>,
}

impl Introspection {
    /// Creates a check.
    #[must_use]
    pub fn new(
        options: IntrospectionOptions,
        fetcher: Arc<dyn HttpFetcher>,
        host: Arc<dyn Host>,
    ) -> Self {
        Self { options, fetcher, host }
    }

    fn request(&self, token: &str) -> Result<HttpRequest> {
        let IntrospectionOptions { url, client_id, client_secret, .. } = &self.options;
        let secret = std::str::from_utf8(client_secret.expose()).map_err(|_| Error::Setting {
            setting: "client secret",
            why: "not UTF-8".to_owned(),
        })?;
        // RFC 6749 §2.3.1: both are encoded as values of a form first.
        let pair = Zeroizing::new(format!("{}:{}", form_value(client_id), form_value(secret)));
        let pair = Zeroizing::new(Base64::encode_string(pair.as_bytes()));
        let form = format!("token={}&token_type_hint=access_token", form_value(token));
        Ok(HttpRequest {
            form: Some(Secret::new(form.into_bytes())),
            authorization: Some(Secret::new(format!("Basic {}", *pair).into_bytes())),
            ..HttpRequest::new(url)
        })
    }
}

impl TokenCheck for Introspection {
    fn check(&self, token: BearerToken<'_>) -> Result<std::result::Result<String, TokenRefusal>> {
        if token.0.len() > TOKEN_LEN_MAX {
            return Ok(Err(TokenRefusal::Malformed));
        }
        let bytes = body(&*self.fetcher, &self.request(token.0)?)?;
        let claims: Map<String, Value> = serde_json::from_slice(&bytes).map_err(|_| {
            Error::unavailable(self.options.url.as_str(), "the answer is not a JSON object")
        })?;
        if claims.get("active") != Some(&Value::Bool(true)) {
            return Ok(Err(TokenRefusal::Inactive));
        }
        let now = self.host.now().unix_seconds();
        Ok(self.options.rules.mailbox(&claims, now, true))
    }
}

impl fmt::Debug for Introspection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Introspection").field("url", &self.options.url).finish_non_exhaustive()
    }
}
