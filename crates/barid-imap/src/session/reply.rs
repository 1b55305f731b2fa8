//! A buffer for the responses of one command.

use std::fmt::{self, Write as _};

use barid_types::Uid;

use super::Done;
use crate::backend::{Output, Refusal};
use crate::fetch::{number, string};

/// Bytes that are collected before they are passed on.
const BUFFER_LEN: usize = 32 * 1024;

/// The responses of one command.
pub(crate) struct Reply<'o> {
    out: &'o mut dyn Output,
    buffer: Vec<u8>,
    is_client_gone: bool,
}

impl<'o> Reply<'o> {
    pub(crate) fn new(out: &'o mut dyn Output) -> Self {
        Self { out, buffer: Vec::new(), is_client_gone: false }
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, line: fmt::Arguments<'_>) {
        let _ = self.write_fmt(line);
        self.end_line();
    }

    pub(crate) fn end_line(&mut self) {
        self.buffer.extend_from_slice(b"\r\n");
        if self.buffer.len() >= BUFFER_LEN {
            self.flush();
        }
    }

    /// Notes that a command runs of which nothing has been written yet.
    pub(crate) fn begin_command(&mut self, tag: &str) {
        self.flush();
        self.out.begin_command(tag);
    }

    /// Returns the buffer, to append to it.
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    pub(crate) fn push(&mut self, text: &str) {
        self.buffer.extend_from_slice(text.as_bytes());
    }

    pub(crate) fn number(&mut self, value: u64) {
        number(value, &mut self.buffer);
    }

    /// Writes a string, quoted or as a literal; UTF-8 stays quoted if `utf8`.
    pub(crate) fn string(&mut self, text: &str, utf8: bool) {
        let is_plain = |byte: u8| !matches!(byte, b'\r' | b'\n' | 0);
        if !utf8 || text.is_ascii() || !text.bytes().all(is_plain) {
            return string(text.as_bytes(), &mut self.buffer);
        }
        self.buffer.push(b'"');
        for byte in text.bytes() {
            if matches!(byte, b'"' | b'\\') {
                self.buffer.push(b'\\');
            }
            self.buffer.push(byte);
        }
        self.buffer.push(b'"');
    }

    /// Writes the start of FETCH, or of UIDFETCH if `uid_only` is the UID (RFC 9586 §3.3).
    pub(crate) fn fetch_start(&mut self, uid_only: Option<Uid>, number: u32) {
        self.push("* ");
        self.number(uid_only.map_or(number, Uid::get).into());
        self.push(if uid_only.is_some() { " UIDFETCH (" } else { " FETCH (" });
    }

    pub(crate) fn ok(&mut self, tag: &str, done: &Done) {
        match &done.code {
            Some(code) => self.line(format_args!("{tag} OK [{code}] {}", done.text)),
            None => self.line(format_args!("{tag} OK {}", done.text)),
        }
    }

    pub(crate) fn no(&mut self, tag: &str, refusal: &Refusal) {
        let kind = if refusal.is_bad() { "BAD" } else { "NO" };
        let code = refusal.code.filter(|code| *code != Refusal::BAD);
        self.refuse(Some(tag), kind, code, &refusal.text);
    }

    pub(crate) fn refuse(&mut self, tag: Option<&str>, kind: &str, code: Option<&str>, text: &str) {
        let tag = tag.unwrap_or("*");
        // A text never ends the line early, whatever is in a file name.
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let text = if text.is_empty() { "Error" } else { &text };
        match code {
            Some(code) => self.line(format_args!("{tag} {kind} [{code}] {text}")),
            None => self.line(format_args!("{tag} {kind} {text}")),
        }
    }

    /// Passes everything on; returns `false` if the client is gone.
    pub(crate) fn flush(&mut self) -> bool {
        if !self.is_client_gone && !self.buffer.is_empty() {
            self.is_client_gone = !self.out.write(&self.buffer);
        }
        self.buffer.clear();
        !self.is_client_gone
    }

    /// Passes everything on, and returns the output for a long response.
    pub(crate) fn output(&mut self) -> &mut dyn Output {
        self.flush();
        self.out
    }

    pub(crate) fn finish(mut self) -> bool {
        self.flush()
    }
}

impl Drop for Reply<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

impl fmt::Write for Reply<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text);
        Ok(())
    }
}

impl Refusal {
    /// The code of a refusal that is answered with BAD.
    pub(crate) const BAD: &'static str = "BAD";
    /// The code for sequence numbers after ENABLE UIDONLY, answered with BAD (RFC 9586 §3.4).
    pub(crate) const UID_REQUIRED: &'static str = "UIDREQUIRED";

    /// The code for too many messages of a command (RFC 9738 §3.1), completed by the session.
    pub(crate) const MESSAGE_LIMIT: &'static str = "MESSAGELIMIT";

    /// Returns `true` if it is answered with BAD.
    pub(crate) fn is_bad(&self) -> bool {
        matches!(self.code, Some(Self::BAD | Self::UID_REQUIRED))
    }

    /// Creates a refusal that is answered with BAD.
    pub fn bad(text: &str) -> Self {
        Self::new(Self::BAD, text)
    }
}
