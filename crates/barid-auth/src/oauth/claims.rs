//! The claims of a token, whether signed or told by the issuer.

use std::time::Duration;

use serde_json::{Map, Value};

use super::TokenRefusal;
use crate::error::{Error, Result};

/// The rules that the claims of a token must keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRules {
    /// The issuer (`iss`), exactly.
    pub issuer: String,
    /// The audience (`aud`): the identifier of this service at the issuer.
    pub audience: String,
    /// The claim that names the mailbox, such as `email` or `preferred_username`.
    pub mailbox_claim: String,
    /// A scope that the token must have, such as `mail`.
    pub scope: Option<String>,
    /// Tolerated difference of clocks.
    pub leeway: Duration,
}

/// Longest claim that names a mailbox, in bytes.
const MAILBOX_LEN_MAX: usize = 1024;

impl TokenRules {
    /// Creates rules without a scope that tolerate a difference of clocks of one minute.
    ///
    /// # Errors
    /// Returns [`Error::Setting`] if one of them is empty.
    pub fn new(issuer: &str, audience: &str, mailbox_claim: &str) -> Result<Self> {
        let settings =
            [("issuer", issuer), ("audience", audience), ("mailbox claim", mailbox_claim)];
        if let Some((setting, _)) = settings.into_iter().find(|(_, value)| value.is_empty()) {
            return Err(Error::Setting { setting, why: "is empty".to_owned() });
        }
        Ok(Self {
            issuer: issuer.to_owned(),
            audience: audience.to_owned(),
            mailbox_claim: mailbox_claim.to_owned(),
            scope: None,
            leeway: Duration::from_secs(60),
        })
    }

    /// Returns the mailbox that the claims name. `now` is in seconds of Unix time. Claims of the
    /// issuer's own answer (`is_told`) need not repeat the issuer.
    pub(super) fn mailbox(
        &self,
        claims: &Map<String, Value>,
        now: i64,
        is_told: bool,
    ) -> std::result::Result<String, TokenRefusal> {
        match claims.get("iss") {
            Some(Value::String(issuer)) if *issuer == self.issuer => {}
            None if is_told => {}
            _ => return Err(TokenRefusal::Issuer),
        }
        let is_ours = |value: &Value| value.as_str() == Some(&self.audience);
        match claims.get("aud") {
            Some(Value::Array(audiences)) if audiences.iter().any(is_ours) => {}
            Some(audience) if is_ours(audience) => {}
            _ => return Err(TokenRefusal::Audience),
        }
        self.time(claims, now)?;
        if let Some(scope) = &self.scope {
            let scopes = claims.get("scope").or_else(|| claims.get("scp"));
            let has_scope = match scopes {
                Some(Value::String(scopes)) => scopes.split(' ').any(|found| found == scope),
                Some(Value::Array(scopes)) => {
                    scopes.iter().any(|found| found.as_str() == Some(scope))
                }
                _ => false,
            };
            if !has_scope {
                return Err(TokenRefusal::Scope);
            }
        }
        // Some issuers write a string.
        let is_verified = match claims.get("email_verified") {
            None | Some(Value::Bool(true)) => true,
            Some(Value::String(text)) => text == "true",
            Some(_) => false,
        };
        if self.mailbox_claim == "email" && !is_verified {
            return Err(TokenRefusal::Unverified);
        }
        let mailbox = claims.get(&self.mailbox_claim).and_then(Value::as_str);
        let mailbox = mailbox.filter(|name| !name.is_empty() && name.len() <= MAILBOX_LEN_MAX);
        mailbox.map(str::to_owned).ok_or(TokenRefusal::Mailbox)
    }

    fn time(&self, claims: &Map<String, Value>, now: i64) -> std::result::Result<(), TokenRefusal> {
        let (now, leeway) = (now as f64, self.leeway.as_secs_f64());
        let time = |claim: &str| match claims.get(claim) {
            None => Ok(None),
            Some(value) => value.as_f64().map(Some).ok_or(TokenRefusal::Malformed),
        };
        match time("exp")? {
            None => return Err(TokenRefusal::NoExpiry),
            Some(expiry) if now >= expiry + leeway => return Err(TokenRefusal::Expired),
            Some(_) => {}
        }
        for claim in ["nbf", "iat"] {
            if time(claim)?.is_some_and(|start| now + leeway < start) {
                return Err(TokenRefusal::NotYet);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: i64 = 1_700_000_000;

    fn rules() -> TokenRules {
        TokenRules::new("https://id.example.org", "imap", "email").unwrap()
    }

    /// Checks good claims in which `claim` has another value, or is removed.
    fn check(claim: &str, value: Value, expected: std::result::Result<&str, TokenRefusal>) {
        let mut claims = json!({
            "iss": "https://id.example.org", "aud": "imap", "exp": NOW + 60, "iat": NOW,
            "email": "ann@example.org", "scope": "openid mail",
        });
        match value {
            Value::Null => _ = claims.as_object_mut().unwrap().remove(claim),
            _ => claims[claim] = value,
        }
        let rules = TokenRules { scope: Some("mail".to_owned()), ..rules() };
        let found = rules.mailbox(claims.as_object().unwrap(), NOW, false);
        assert_eq!(found.as_deref().map_err(|refusal| *refusal), expected, "{claim}: {claims}");
    }

    #[test]
    fn claims_keep_the_rules() {
        let good = Ok("ann@example.org");
        check("x", json!("y"), good);
        check("iss", json!("https://id.example.org/"), Err(TokenRefusal::Issuer));
        check("iss", json!(["https://id.example.org"]), Err(TokenRefusal::Issuer));
        check("iss", Value::Null, Err(TokenRefusal::Issuer));
        check("aud", json!(["web", "imap"]), good);
        check("aud", json!(["web"]), Err(TokenRefusal::Audience));
        check("aud", json!("imap2"), Err(TokenRefusal::Audience));
        check("aud", json!([]), Err(TokenRefusal::Audience));
        check("aud", Value::Null, Err(TokenRefusal::Audience));
        check("exp", json!(NOW - 59), good);
        check("exp", json!(NOW - 60), Err(TokenRefusal::Expired));
        check("exp", json!(1.5), Err(TokenRefusal::Expired));
        check("exp", json!("never"), Err(TokenRefusal::Malformed));
        check("exp", Value::Null, Err(TokenRefusal::NoExpiry));
        check("nbf", json!(NOW + 60), good);
        check("nbf", json!(NOW + 61), Err(TokenRefusal::NotYet));
        check("iat", json!(NOW + 3600), Err(TokenRefusal::NotYet));
        check("scope", json!("openid email"), Err(TokenRefusal::Scope));
        check("scope", json!(["mail"]), good);
        check("scope", Value::Null, Err(TokenRefusal::Scope));
        check("email", json!(""), Err(TokenRefusal::Mailbox));
        check("email", json!(7), Err(TokenRefusal::Mailbox));
        check("email", json!("x".repeat(2000)), Err(TokenRefusal::Mailbox));
        check("email", Value::Null, Err(TokenRefusal::Mailbox));
        check("email_verified", json!(true), good);
        check("email_verified", json!(false), Err(TokenRefusal::Unverified));
    }

    #[test]
    fn rules_are_not_empty() {
        assert!(TokenRules::new("", "imap", "email").is_err());
        assert!(TokenRules::new("https://id", "", "email").is_err());
        assert!(TokenRules::new("https://id", "imap", "").is_err());
    }
}
