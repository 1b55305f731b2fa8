//! OAUTHBEARER (RFC 7628) and XOAUTH2: a bearer token of OAuth 2.
//!
//! A refused token is answered with a challenge that has the reason in JSON; the client answers
//! with an empty or dummy message, and the exchange fails.

use serde_json::json;

use super::scram_message::{BindingFlag, Gs2Header};
use super::{Context, Conversation, Failure, Step};
use crate::limits::{OAUTH_PAIRS_MAX, TOKEN_LEN_MAX};
use crate::oauth::{BearerToken, TokenRefusal};

/// The separator of pairs.
const SEPARATOR: u8 = 1;

/// The form of the messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BearerForm {
    /// `n,a=user,^Aauth=Bearer TOKEN^A^A`; the user may be left out.
    Rfc7628,
    /// `user=NAME^Aauth=Bearer TOKEN^A^A`.
    Xoauth2,
}

/// A conversation with a token.
pub(super) struct Bearer {
    form: BearerForm,
    /// The failure that follows the client's answer to the challenge with the reason.
    refused: Option<Failure>,
}

/// The content of a message.
#[derive(Debug, PartialEq, Eq)]
struct BearerMessage<'a> {
    target: Option<Vec<u8>>,
    token: &'a str,
}

impl Bearer {
    pub(super) fn new(form: BearerForm) -> Self {
        Self { form, refused: None }
    }

    fn check(&self, context: &mut Context<'_>, message: &[u8]) -> Result<Step, Failure> {
        let message = match self.form {
            BearerForm::Rfc7628 => BearerMessage::parse_rfc7628(message)?,
            BearerForm::Xoauth2 => BearerMessage::parse_xoauth2(message)?,
        };
        let Some(tokens) = context.service.tokens.as_deref() else {
            return Err(Failure::NotOffered);
        };
        let claimed = tokens.check(BearerToken(message.token))??;
        let name = context.named(claimed.as_bytes()).map_err(|failure| match failure {
            // The token is valid, and its mailbox cannot exist.
            Failure::Credentials(_) => Failure::Token(TokenRefusal::Mailbox),
            other => other,
        })?;
        let user = context.service.base.user(&name, context.channel.peer)??;
        Ok(context.service.authorize(context, user, message.target.as_deref()))
    }

    /// Returns the reason of a failure for the client; `None` if the client must not wait for one.
    fn reason(&self, failure: &Failure) -> Option<serde_json::Value> {
        let status = match failure {
            Failure::Malformed(_) => "invalid_request",
            Failure::Token(TokenRefusal::Scope) => "insufficient_scope",
            Failure::Token(_) | Failure::Credentials(_) | Failure::Authorization => "invalid_token",
            _ => return None,
        };
        Some(match self.form {
            BearerForm::Rfc7628 => json!({ "status": status, "scope": "mail" }),
            BearerForm::Xoauth2 => {
                let status = match status {
                    "invalid_request" => "400",
                    "insufficient_scope" => "403",
                    _ => "401",
                };
                json!({ "status": status, "schemes": "bearer", "scope": "mail" })
            }
        })
    }
}

impl Conversation for Bearer {
    fn respond(&mut self, context: &mut Context<'_>, message: &[u8]) -> Step {
        if let Some(failure) = self.refused.take() {
            return Step::Failed(failure);
        }
        match self.check(context, message) {
            Ok(Step::Failed(failure)) | Err(failure) => match self.reason(&failure) {
                Some(reason) => {
                    self.refused = Some(failure);
                    Step::Challenge(reason.to_string().into_bytes())
                }
                None => Step::Failed(failure),
            },
            Ok(step) => step,
        }
    }
}

impl<'a> BearerMessage<'a> {
    fn parse_rfc7628(message: &'a [u8]) -> Result<Self, Failure> {
        let header = Gs2Header::parse(message)?;
        if matches!(header.flag, BindingFlag::Used(_)) {
            return Err(Failure::Malformed("channel binding in OAUTHBEARER"));
        }
        let malformed = Failure::Malformed("a message of OAUTHBEARER without its separators");
        let Some(pairs) = header.rest.strip_prefix(&[SEPARATOR]) else { return Err(malformed) };
        let token = token(pairs)?;
        Ok(Self { target: header.target, token })
    }

    fn parse_xoauth2(message: &'a [u8]) -> Result<Self, Failure> {
        let malformed = Failure::Malformed("a message of XOAUTH2 without user= or separators");
        let Some(rest) = message.strip_prefix(b"user=") else { return Err(malformed) };
        let end = rest.iter().position(|byte| *byte == SEPARATOR);
        let Some((target, pairs)) = end.map(|end| (&rest[..end], &rest[end + 1..])) else {
            return Err(malformed);
        };
        Ok(Self { target: Some(target.to_vec()), token: token(pairs)? })
    }
}

/// Returns the token in `*(key "=" value ^A) ^A`.
fn token(pairs: &[u8]) -> Result<&str, Failure> {
    let malformed = || Failure::Malformed("a message with a token in another form");
    let pairs = pairs.strip_suffix(&[SEPARATOR, SEPARATOR]).ok_or_else(malformed)?;
    let mut found = None;
    for (number, pair) in pairs.split(|byte| *byte == SEPARATOR).enumerate() {
        let at = pair.iter().position(|byte| *byte == b'=').ok_or_else(malformed)?;
        let (key, value) = (&pair[..at], &pair[at + 1..]);
        let is_key = !key.is_empty() && key.iter().all(u8::is_ascii_alphabetic);
        if number >= OAUTH_PAIRS_MAX || !is_key || value.contains(&0) {
            return Err(malformed());
        }
        if key == b"auth" && found.replace(value).is_some() {
            return Err(malformed());
        }
    }
    let value = found.ok_or(Failure::Token(TokenRefusal::Missing))?;
    let scheme = value.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
    let token = if scheme { value[7..].trim_ascii_start() } else { b"" };
    // RFC 6750 §2.1: 1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"="
    let body = token.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    let is_char = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(byte);
    if body == 0 || token.len() > TOKEN_LEN_MAX || !token[..body].iter().all(is_char) {
        return Err(Failure::Token(TokenRefusal::Malformed));
    }
    std::str::from_utf8(token).map_err(|_| malformed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_rfc_7628_are_parsed() {
        // RFC 7628 §4.1
        let message = b"n,a=user@example.com,\x01host=server.example.com\x01port=143\x01auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01\x01";
        let parsed = BearerMessage::parse_rfc7628(message).unwrap();
        assert_eq!(parsed.target.as_deref(), Some(&b"user@example.com"[..]));
        assert_eq!(parsed.token, "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==");
        let parsed = BearerMessage::parse_rfc7628(b"n,,\x01auth=bearer  x.y\x01\x01").unwrap();
        assert_eq!(parsed, BearerMessage { target: None, token: "x.y" });
    }

    #[test]
    fn messages_of_xoauth2_are_parsed() {
        let parsed =
            BearerMessage::parse_xoauth2(b"user=ann@example.org\x01auth=Bearer tok\x01\x01");
        let parsed = parsed.unwrap();
        assert_eq!(parsed.target.as_deref(), Some(&b"ann@example.org"[..]));
        assert_eq!(parsed.token, "tok");
    }

    #[test]
    fn other_messages_are_refused() {
        let many = format!("n,,\x01auth=Bearer x{}\x01\x01", "\x01a=b".repeat(20));
        let long = format!("n,,\x01auth=Bearer {}\x01\x01", "x".repeat(TOKEN_LEN_MAX + 1));
        for bad in [
            &b""[..],
            b"n,,",
            b"n,,\x01",
            b"n,,\x01\x01",
            b"n,,\x01auth=Bearer x\x01",
            b"n,,\x01auth=Bearer x",
            b"p=tls-exporter,,\x01auth=Bearer x\x01\x01",
            b"n,,auth=Bearer x\x01\x01",
            b"n,,\x01auth=Basic x\x01\x01",
            b"n,,\x01auth=Bearer \x01\x01",
            b"n,,\x01auth=Bearer ==\x01\x01",
            b"n,,\x01auth=Bearer a b\x01\x01",
            b"n,,\x01host=x\x01\x01",
            b"n,,\x01auth=Bearer x\x01auth=Bearer y\x01\x01",
            b"n,,\x01auth=Bearer x\x01\x01\x01",
            b"n,,\x01auth=Bearer x\x01\x01trailing",
            many.as_bytes(),
            long.as_bytes(),
        ] {
            let result = BearerMessage::parse_rfc7628(bad);
            assert!(result.is_err(), "{:?}", bad.escape_ascii().to_string());
        }
        for bad in [&b""[..], b"user=x", b"auth=Bearer x\x01\x01", b"user=x\x01\x01"] {
            let result = BearerMessage::parse_xoauth2(bad);
            assert!(result.is_err(), "{:?}", bad.escape_ascii().to_string());
        }
    }
}
