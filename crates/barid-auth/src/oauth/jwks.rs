//! Signed tokens, checked by keys that are fetched from their issuer.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use barid_vfs::{Host, Timestamp};

use super::claims::TokenRules;
use super::http::{Endpoint, HttpFetcher, HttpRequest, body};
use super::jwt::Jwt;
use super::keys::{Algorithm, KeySet};
use super::{BearerToken, TokenCheck, TokenRefusal};
use crate::error::{Error, Result};
use crate::limits::{JWKS_FAILURE_TIME, JWKS_RETRY_TIME};

/// Settings of [`Jwks`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwksOptions {
    /// The address of the key set.
    pub url: Endpoint,
    /// The rules of the claims.
    pub rules: TokenRules,
    /// The algorithms that are allowed.
    pub algorithms: Vec<Algorithm>,
    /// Time after which the key set is fetched again.
    pub refresh: Duration,
    /// Time for which a key set is used that could not be fetched again.
    pub stale: Duration,
}

impl JwksOptions {
    /// Creates settings that allow all algorithms, fetch the keys once an hour, and use them for
    /// a day if the issuer does not answer.
    #[must_use]
    pub fn new(url: Endpoint, rules: TokenRules) -> Self {
        let hour = Duration::from_secs(3600);
        let algorithms = Algorithm::ALL.to_vec();
        Self { url, rules, algorithms, refresh: hour, stale: hour * 24 }
    }
}

/// A check of signed tokens. It fetches the issuer's keys when it needs them, and again at most
/// once a minute, or 10 seconds after a failure, if a token has a key that is not among them.
///
/// Anybody can invent a token with an unknown key. One thread at a time fetches keys; while it
/// does, and for [`JWKS_FAILURE_TIME`] after it has failed, tokens that need keys other than the
/// known ones are refused temporarily, so that no more threads wait for an issuer that does not
/// answer.
pub struct Jwks {
    options: JwksOptions,
    fetcher: Arc<dyn HttpFetcher>,
    host: Arc<dyn Host>,
    state: Mutex<KeyState>,
}

/// The keys that were fetched last.
#[derive(Default)]
struct KeyState {
    keys: Option<(Arc<KeySet>, Timestamp)>,
    /// Time at which the last attempt to fetch them ended.
    tried: Option<Timestamp>,
    /// `true` if that attempt failed.
    has_failed: bool,
    /// `true` while a thread fetches them.
    is_fetching: bool,
}

/// An attempt to fetch the keys; there is one at a time.
struct Fetching<'a>(&'a Jwks);

impl Drop for Fetching<'_> {
    fn drop(&mut self) {
        self.0.state().is_fetching = false;
    }
}

impl Jwks {
    /// Creates a check that has fetched nothing yet.
    #[must_use]
    pub fn new(options: JwksOptions, fetcher: Arc<dyn HttpFetcher>, host: Arc<dyn Host>) -> Self {
        Self { options, fetcher, host, state: Mutex::default() }
    }

    /// Fetches the keys. A server does this when it starts, so that mistakes of the configuration
    /// show at once.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if there is no answer, if it is not a key set, or if the keys
    /// are being fetched already.
    pub fn refresh(&self) -> Result<()> {
        self.fetch().map(drop)
    }

    fn state(&self) -> MutexGuard<'_, KeyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches the keys, unless another thread does; nothing is locked meanwhile.
    fn fetch(&self) -> Result<Arc<KeySet>> {
        let _fetching = {
            let mut state = self.state();
            if state.is_fetching {
                return Err(self.unavailable("the keys are being fetched"));
            }
            state.is_fetching = true;
            Fetching(self)
        };
        let bytes = body(&*self.fetcher, &HttpRequest::new(&self.options.url));
        let keys = bytes.and_then(|bytes| {
            KeySet::parse(&bytes).map_err(|error| self.unavailable(&error.to_string()))
        });
        let now = self.host.now();
        let mut state = self.state();
        (state.tried, state.has_failed) = (Some(now), keys.is_err());
        let keys = Arc::new(keys?);
        state.keys = Some((Arc::clone(&keys), now));
        Ok(keys)
    }

    /// Fetches the keys because the known ones do not suffice, unless an attempt failed lately.
    fn fetch_again(&self, now: Timestamp) -> Result<Arc<KeySet>> {
        let has_failed = self.state().has_failed_within(now, JWKS_FAILURE_TIME);
        if has_failed {
            return Err(self.unavailable("fetching the keys failed a few seconds ago"));
        }
        self.fetch()
    }

    fn unavailable(&self, why: &str) -> Error {
        Error::unavailable(self.options.url.as_str(), why)
    }

    /// Returns the keys, fetched again if they are old.
    fn keys(&self, now: Timestamp) -> Result<Arc<KeySet>> {
        let (known, is_busy) = {
            let state = self.state();
            let is_busy = state.is_fetching || state.has_tried_within(now, JWKS_RETRY_TIME);
            (state.keys.clone(), is_busy)
        };
        let Some((keys, fetched)) = known else { return self.fetch_again(now) };
        if fetched.is_within(self.options.refresh, now) {
            return Ok(keys);
        }
        let is_usable = fetched.is_within(self.options.stale, now);
        if is_busy && is_usable {
            return Ok(keys);
        }
        match self.fetch_again(now) {
            Err(_) if is_usable => Ok(keys),
            fetched => fetched,
        }
    }

    /// Fetches the keys again, because the issuer may have added some; returns `None` if it has
    /// answered lately.
    fn newer_keys(&self, now: Timestamp) -> Result<Option<Arc<KeySet>>> {
        let has_answered = {
            let state = self.state();
            !state.has_failed && state.has_tried_within(now, JWKS_RETRY_TIME)
        };
        if has_answered { Ok(None) } else { self.fetch_again(now).map(Some) }
    }
}

impl KeyState {
    fn has_tried_within(&self, now: Timestamp, time: Duration) -> bool {
        self.tried.is_some_and(|tried| tried.is_within(time, now))
    }

    fn has_failed_within(&self, now: Timestamp, time: Duration) -> bool {
        self.has_failed && self.has_tried_within(now, time)
    }
}

impl TokenCheck for Jwks {
    fn check(&self, token: BearerToken<'_>) -> Result<std::result::Result<String, TokenRefusal>> {
        let jwt = match Jwt::parse(token) {
            Ok(jwt) => jwt,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let now = self.host.now();
        let JwksOptions { rules, algorithms, .. } = &self.options;
        let validate = |keys: &KeySet| jwt.validate(keys, algorithms, rules, now.unix_seconds());
        let keys = self.keys(now)?;
        match validate(&keys) {
            // The issuer may have new keys.
            Err(TokenRefusal::UnknownKey) => {
                let newer = self.newer_keys(now)?;
                Ok(newer.map_or(Err(TokenRefusal::UnknownKey), |keys| validate(&keys)))
            }
            validated => Ok(validated),
        }
    }
}

impl fmt::Debug for Jwks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Jwks").field("url", &self.options.url).finish_non_exhaustive()
    }
}
