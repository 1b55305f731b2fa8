//! The lines of IMAP's AUTHENTICATE (RFC 9051 §6.2.2, RFC 4959) and their decoded messages.

use base64ct::{Base64, Encoding as _};
use zeroize::Zeroizing;

use crate::limits::MESSAGE_LEN_MAX;

/// A line that is not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// The client cancels the exchange with `*`; the answer is BAD.
    #[error("the client cancelled the authentication")]
    Cancelled,
    /// Not Base64 with padding.
    #[error("not Base64")]
    NotBase64,
    /// Longer than any message.
    #[error("the line is too long")]
    TooLong,
}

/// Decodes the initial response of a command, in which `=` stands for an empty message.
///
/// # Errors
/// Returns a [`LineError`].
pub fn decode_initial(text: &[u8]) -> Result<Zeroizing<Vec<u8>>, LineError> {
    if text == b"=" { Ok(Zeroizing::new(Vec::new())) } else { decode(text) }
}

/// Decodes a line, without its CRLF, that answers a challenge.
///
/// # Errors
/// Returns a [`LineError`].
pub fn decode_line(line: &[u8]) -> Result<Zeroizing<Vec<u8>>, LineError> {
    if line == b"*" { Err(LineError::Cancelled) } else { decode(line) }
}

/// Decodes Base64 in constant time.
fn decode(text: &[u8]) -> Result<Zeroizing<Vec<u8>>, LineError> {
    if text.len() / 4 * 3 > MESSAGE_LEN_MAX + 2 {
        return Err(LineError::TooLong);
    }
    let text = std::str::from_utf8(text).map_err(|_| LineError::NotBase64)?;
    Base64::decode_vec(text).map(Zeroizing::new).map_err(|_| LineError::NotBase64)
}

/// Encodes a challenge, which follows `+ ` in IMAP.
#[must_use]
pub fn encode(challenge: &[u8]) -> String {
    Base64::encode_string(challenge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_decoded() {
        let line = |text: &[u8]| decode_line(text).map(|bytes| bytes.to_vec());
        assert_eq!(line(b"AGFubgBzZWNyZXQ="), Ok(b"\0ann\0secret".to_vec()));
        assert_eq!(line(b""), Ok(Vec::new()));
        assert_eq!(line(b"*"), Err(LineError::Cancelled));
        for bad in [&b"="[..], b"A", b"AA", b"AA=", b"AA==\r", b"A A=", b"\xff\xff==", b"AGFu=bgB"]
        {
            assert_eq!(line(bad), Err(LineError::NotBase64), "{bad:?}");
        }
        assert_eq!(line(&[b'A'; 30_000]), Err(LineError::TooLong));
        assert_eq!(decode_initial(b"=").map(|bytes| bytes.len()), Ok(0));
        assert_eq!(decode_initial(b"*"), Err(LineError::NotBase64));
        assert_eq!(encode(b"Username:"), "VXNlcm5hbWU6");
        assert_eq!(encode(b""), "");
    }
}
