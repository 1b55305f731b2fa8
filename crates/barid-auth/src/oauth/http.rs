//! The requests that the checks of tokens make.

use std::fmt;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::limits::{HTTP_ANSWER_LEN_MAX, HTTP_TIMEOUT};
use crate::secret::Secret;

/// The address of an authorization server: `https`, or `http` on the loopback interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(String);

impl Endpoint {
    /// Checks an address.
    ///
    /// # Errors
    /// Returns [`Error::Setting`] if tokens would cross a network in clear, or if it is no address.
    pub fn new(url: &str) -> Result<Self> {
        let setting = |why: &str| Error::Setting { setting: "url", why: why.to_owned() };
        let is_clean = url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if !is_clean {
            return Err(setting("an address has visible ASCII characters only, and no #"));
        }
        let (scheme, rest) = url.split_once("://").ok_or_else(|| setting("not an address"))?;
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        if authority.is_empty() || authority.contains('@') {
            return Err(setting("an address has a host, and no user"));
        }
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if port.parse::<u16>().is_ok() => host,
            _ => authority,
        };
        let is_loopback = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
        match scheme {
            "https" => Ok(Self(url.to_owned())),
            "http" if is_loopback => Ok(Self(url.to_owned())),
            _ => Err(setting("must be https, or http on the loopback interface")),
        }
    }

    /// Returns the address as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A request.
#[derive(Clone)]
pub struct HttpRequest {
    /// The address.
    pub url: Endpoint,
    /// The form to send by POST (`application/x-www-form-urlencoded`); `None` for GET.
    pub form: Option<Secret>,
    /// The value of the field `Authorization`.
    pub authorization: Option<Secret>,
    /// The value of the field `Accept`.
    pub accept: &'static str,
    /// The longest body of an answer in bytes; a longer one is an error.
    pub answer_len_max: usize,
    /// The time for the whole request.
    pub timeout: Duration,
}

impl HttpRequest {
    pub(super) fn new(url: &Endpoint) -> Self {
        Self {
            url: url.clone(),
            form: None,
            authorization: None,
            accept: "application/json",
            answer_len_max: HTTP_ANSWER_LEN_MAX,
            timeout: HTTP_TIMEOUT,
        }
    }
}

impl fmt::Debug for HttpRequest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("HttpRequest").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// A client of HTTP.
///
/// It verifies the certificates of servers, does not follow redirections, and keeps the limits of
/// the request.
pub trait HttpFetcher: fmt::Debug + Send + Sync {
    /// Sends a request and returns the answer, whatever its status is. Blocks.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if there is no answer within the limits.
    fn fetch(&self, request: &HttpRequest) -> Result<HttpResponse>;
}

/// Sends a request; returns the body of an answer with the status 200.
pub(super) fn body(fetcher: &dyn HttpFetcher, request: &HttpRequest) -> Result<Vec<u8>> {
    let HttpResponse { status, body } = fetcher.fetch(request)?;
    let url = request.url.as_str();
    if status != 200 {
        return Err(Error::unavailable(url, format!("the answer has the status {status}")));
    }
    if body.len() > request.answer_len_max {
        return Err(Error::unavailable(url, "the answer is too long"));
    }
    Ok(body)
}

/// Encodes the value of a form (RFC 3986 §2.3: all but unreserved characters).
pub(super) fn form_value(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_do_not_cross_a_network_in_clear() {
        for good in [
            "https://example.org/keys",
            "https://example.org:8443/keys?x=y",
            "http://127.0.0.1:8080/x",
            "http://[::1]/x",
            "http://localhost",
        ] {
            assert!(Endpoint::new(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "example.org",
            "http://example.org/",
            "http://localhost.example.org/",
            "http://127.0.0.1@example.org/",
            "https:///x",
            "ftp://example.org",
            "https://a b/",
            "https://example.org/#x",
            "https://user:password@example.org/",
            "http://localhost:x/",
        ] {
            assert!(Endpoint::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn forms_are_encoded() {
        assert_eq!(form_value("a-b_c.d~e+f/g=h&i"), "a-b_c.d~e%2Bf%2Fg%3Dh%26i");
    }
}
