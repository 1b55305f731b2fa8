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
use crate::limits::JWKS_RETRY_TIME;

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
/// once a minute if a token has a key that is not among them.
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
    /// The time of the last attempt to fetch them.
    tried: Option<Timestamp>,
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
    /// Returns [`Error::Unavailable`] if there is no answer, or if it is not a key set.
    pub fn refresh(&self) -> Result<()> {
        self.fetch(self.host.now()).map(drop)
    }

    fn state(&self) -> MutexGuard<'_, KeyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches the keys; nothing is locked meanwhile.
    fn fetch(&self, now: Timestamp) -> Result<Arc<KeySet>> {
        self.state().tried = Some(now);
        let bytes = body(&*self.fetcher, &HttpRequest::new(&self.options.url))?;
        let keys = KeySet::parse(&bytes)
            .map_err(|error| Error::unavailable(self.options.url.as_str(), error.to_string()))?;
        let keys = Arc::new(keys);
        self.state().keys = Some((Arc::clone(&keys), now));
        Ok(keys)
    }

    /// Returns the keys, fetched again if they are old.
    fn keys(&self, now: Timestamp) -> Result<Arc<KeySet>> {
        let (known, has_tried_lately) = self.known(now);
        let Some((keys, fetched)) = known else { return self.fetch(now) };
        if is_within(fetched, now, self.options.refresh) {
            return Ok(keys);
        }
        let is_usable = is_within(fetched, now, self.options.stale);
        if has_tried_lately && is_usable {
            return Ok(keys);
        }
        match self.fetch(now) {
            Err(_) if is_usable => Ok(keys),
            fetched => fetched,
        }
    }

    /// Returns the keys and the time of their arrival, and `true` if they were tried to be fetched
    /// lately.
    fn known(&self, now: Timestamp) -> (Option<(Arc<KeySet>, Timestamp)>, bool) {
        let state = self.state();
        let has_tried_lately =
            state.tried.is_some_and(|tried| is_within(tried, now, JWKS_RETRY_TIME));
        (state.keys.clone(), has_tried_lately)
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
            Err(TokenRefusal::UnknownKey) if !self.known(now).1 => Ok(validate(&*self.fetch(now)?)),
            validated => Ok(validated),
        }
    }
}

impl fmt::Debug for Jwks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Jwks").field("url", &self.options.url).finish_non_exhaustive()
    }
}

/// Returns `true` if `now` is less than `time` after `since`, and not before it.
fn is_within(since: Timestamp, now: Timestamp, time: Duration) -> bool {
    let age = u64::try_from(now.unix_nanos.saturating_sub(since.unix_nanos));
    age.is_ok_and(|age| Duration::from_nanos(age) < time)
}
