//! A limit on the threads that wait for the issuer of tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use barid_auth::oauth::{BearerToken, TokenCheck, TokenRefusal};
use barid_auth::{Error, Result};

use crate::limits::TOKEN_CHECKS_MAX;

/// A check of tokens of which at most [`TOKEN_CHECKS_MAX`] run at once; more are refused
/// temporarily. Anybody can send tokens, and an issuer may not answer.
#[derive(Debug)]
pub(super) struct LimitedTokenCheck {
    check: Arc<dyn TokenCheck>,
    running: AtomicUsize,
}

impl LimitedTokenCheck {
    pub(super) fn new(check: Arc<dyn TokenCheck>) -> Self {
        Self { check, running: AtomicUsize::new(0) }
    }
}

/// A check that runs.
struct Running<'a>(&'a AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl TokenCheck for LimitedTokenCheck {
    fn check(&self, token: BearerToken<'_>) -> Result<std::result::Result<String, TokenRefusal>> {
        let more = |count| (count < TOKEN_CHECKS_MAX).then_some(count + 1);
        if self.running.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_err() {
            return Err(Error::Unavailable {
                what: "tokens".to_owned(),
                why: format!("{TOKEN_CHECKS_MAX} are being checked already"),
            });
        }
        let _running = Running(&self.running);
        self.check.check(token)
    }
}
