//! Reads, decodes and converts physical lines one at a time, when the scanner needs more text.
//!
//! The moment of reading matters: the decoding of a line depends on the header fields that the
//! scanner has seen by then, and a boundary line makes the scanner match the current text again.

use super::charset::{Bounds, Charset};
use super::decode;
use super::mime::{Encoding, PartType};
use super::scan::Scan;
use crate::limits::LINE_PIECE_LEN;
use crate::options::WordEncoding;

/// Fill of bogofilter's buffer, in bytes, below which it never cuts long words.
const WINDOW_EASY_LEN: usize = 1000;
/// Least length of a line of letters alone of which bogofilter keeps only the end when its buffer
/// runs full.
const LONG_WORD_LEN: usize = 60;

impl<'a> Scan<'a> {
    /// Adds the next line to the text. Returns `false` at the end of the message.
    pub(super) fn fill(&mut self) -> bool {
        if self.is_ended {
            return false;
        }
        let (used, size) = self.text.begin_read();
        let start = self.text.end().len();
        let is_easy = used < WINDOW_EASY_LEN || used < size.saturating_mul(10);
        while self.read_line(start, size) && !is_easy {
            let text = self.text.end();
            if text.len() - start < LONG_WORD_LEN || !is_long_word(&text[start..]) {
                break;
            }
            let kept = self.options.token_len_bound().min(text.len() - start);
            text.drain(start..text.len() - kept);
        }
        let part = self.parts.part();
        if self.options.replace_non_ascii && !(part.is_opaque && part.has_disposition) {
            for byte in &mut self.text.end()[start..] {
                if byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n') {
                    *byte = b' ';
                }
            }
        }
        let len = self.text.end().len() - start;
        self.text.end_read(len);
        self.is_ended = len == 0;
        len > 0
    }

    /// Reads, decodes and converts a line to the end of the text. `start` is the index of the text
    /// that is added by this fill, `size` the room for it in bogofilter's buffer. Returns `false`
    /// at the end of the message.
    fn read_line(&mut self, start: usize, size: usize) -> bool {
        let is_opaque = self.parts.part().is_opaque;
        let is_raw = is_opaque || self.options.word_encoding == WordEncoding::Raw;
        let room = size.saturating_sub(self.text.end().len() - start);
        let limit = if is_raw { room } else { LINE_PIECE_LEN };
        let Some(line) = self.next_line(limit) else { return false };
        let mut scratch = std::mem::take(self.line);
        let is_decoded = !self.in_header && !is_opaque && self.decode(line, &mut scratch);
        let bytes = if is_decoded { &scratch[..] } else { line };
        if is_raw {
            self.text.end().extend_from_slice(bytes);
        } else {
            self.convert(bytes, room);
        }
        *self.line = scratch;
        let text = self.text.end();
        if text[start..].ends_with(b"\r\n") {
            text.truncate(text.len() - 2);
            text.push(b'\n');
        }
        true
    }

    /// Returns the next physical line, or a piece of one of at most `limit` bytes. Header lines
    /// that begin with `spam_header_name` are skipped.
    fn next_line(&mut self, limit: usize) -> Option<&'a [u8]> {
        let mut start = self.at;
        let mut line = self.piece(limit)?;
        if line.len() > 2 && line.starts_with(b"--") && self.parts.take_boundary(line) {
            self.begin_header();
            self.is_interrupted = true;
            if self.is_modern() {
                self.charset = self.charset_default;
            }
        }
        let own = self.options.spam_header_name.as_bytes();
        while self.in_header
            && self.parts.parent_type().is_none()
            && !own.is_empty()
            && line.starts_with(own)
        {
            let next = self.after_own_line(limit);
            let end = self.at - next.map_or(0, <[u8]>::len);
            self.facts.add_own_lines(start..end);
            start = end;
            line = next?;
        }
        Some(line)
    }

    /// Returns the line after a skipped header line and its continuation lines.
    fn after_own_line(&mut self, limit: usize) -> Option<&'a [u8]> {
        loop {
            let line = self.piece(limit)?;
            if !matches!(line.first(), Some(b' ' | b'\t')) {
                return Some(line);
            }
        }
    }

    fn piece(&mut self, limit: usize) -> Option<&'a [u8]> {
        let rest = &self.message[self.at..];
        let rest = &rest[..rest.len().min(limit)];
        let len = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        self.at += len;
        (len > 0).then_some(&rest[..len])
    }

    /// Decodes a line of a body into `to`. Returns `false` if the line is used as it is.
    fn decode(&self, line: &[u8], to: &mut Vec<u8>) -> bool {
        to.clear();
        let part = self.parts.part();
        let is_decoded = match part.encoding {
            _ if part.part_type == PartType::Unknown => false,
            Encoding::Identity => false,
            Encoding::QuotedPrintable if memchr::memchr(b'=', line).is_none() => false,
            Encoding::QuotedPrintable => {
                decode::quoted_printable(line, false, to);
                true
            }
            Encoding::Base64 => line.len() > 4 && decode::base64(line, to),
            Encoding::Uuencode => decode::uuencode(line, to),
        };
        if is_decoded && to.is_empty() && part.encoding != Encoding::QuotedPrintable {
            // What decodes to nothing stays, but for a NUL at the start.
            to.push(0);
            to.extend_from_slice(&line[1..]);
        }
        is_decoded && !to.is_empty()
    }

    fn convert(&mut self, line: &[u8], room: usize) {
        let bounds = Bounds { room, replacement: self.options.replace_non_ascii.then_some(b'?') };
        if self.is_modern()
            && !line.is_ascii()
            && self.may_be_utf8()
            && std::str::from_utf8(line).is_ok()
        {
            return Charset::Utf8.convert(line, self.text.end(), bounds);
        }
        self.charset.convert(line, self.text.end(), bounds);
    }

    /// Returns `true` if text that is valid UTF-8 is read as UTF-8: in headers, and in parts that
    /// declare no known charset.
    fn may_be_utf8(&self) -> bool {
        self.in_header || !self.parts.part().has_charset
    }
}

/// Returns `true` if text has only letters, digits, `_` and bytes from 0x80 on, up to the first
/// NUL.
fn is_long_word(text: &[u8]) -> bool {
    text.iter()
        .take_while(|byte| **byte != 0)
        .all(|&byte| byte == b'_' || byte >= 0x80 || byte.is_ascii_alphanumeric())
}
