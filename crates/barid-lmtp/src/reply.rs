//! Replies.

use crate::limits::REPLY_TEXT_LEN_MAX;

/// A reply of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LmtpReply {
    /// The code, such as 250.
    pub code: u16,
    /// The enhanced status code (RFC 3463), such as `2.0.0`.
    pub status: &'static str,
    /// The text. Characters that are not printable ASCII are replaced when it is sent.
    pub text: String,
}

impl LmtpReply {
    /// Creates a reply.
    #[must_use]
    pub fn new(code: u16, status: &'static str, text: impl Into<String>) -> Self {
        Self { code, status, text: text.into() }
    }

    /// Returns `true` if the reply means success.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.code < 400
    }

    /// Appends the line.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("{} {} ", self.code, self.status).as_bytes());
        let plain =
            |char: char| if char == ' ' || char.is_ascii_graphic() { char as u8 } else { b'?' };
        out.extend(self.text.chars().map(plain).take(REPLY_TEXT_LEN_MAX));
        out.extend_from_slice(b"\r\n");
    }
}
