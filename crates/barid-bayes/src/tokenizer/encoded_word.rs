//! Encoded words (RFC 2047 §2): they are decoded, and the decoded text is scanned in their place.

use super::charset::{Bounds, Charset};
use super::classes::{self, ALNUM, BLANK};
use super::decode;
use super::scan::{Scan, TokenKind};
use crate::options::WordEncoding;

impl Scan<'_> {
    /// Matches `=` in a header.
    pub(super) fn encoded_word(&mut self) -> Option<(TokenKind, usize, usize)> {
        match self.encoded_words(0) {
            Some(_) if self.is_interrupted => None,
            Some(end) => self.decode_words(end),
            None => self.skip(1),
        }
    }

    /// Returns the end of the encoded words from `start` on, with white space between them.
    pub(super) fn encoded_words(&mut self, start: usize) -> Option<usize> {
        let mut end = self.encoded_word_end(start)?;
        loop {
            let mut next = end;
            while self.peek(next).is_some_and(|byte| byte == b'\n' || classes::is(byte, BLANK)) {
                next += 1;
            }
            if next == end {
                return Some(end);
            }
            match self.encoded_word_end(next) {
                Some(word_end) => end = word_end,
                None => return Some(end),
            }
        }
    }

    fn encoded_word_end(&mut self, start: usize) -> Option<usize> {
        if !self.is_at(start, b"=?") {
            return None;
        }
        let mut at = start + 2;
        while self.peek(at).is_some_and(|byte| classes::is(byte, ALNUM) || byte == b'-') {
            at += 1;
        }
        if at == start + 2 || self.peek(at) != Some(b'?') {
            return None;
        }
        if !matches!(self.peek(at + 1), Some(b'b' | b'B' | b'q' | b'Q')) {
            return None;
        }
        if self.peek(at + 2) != Some(b'?') {
            return None;
        }
        let end = self.find(at + 3, b'?', true)?;
        (self.peek(end + 1) == Some(b'=')).then_some(end + 2)
    }

    /// Decodes the encoded words up to `end`, and pushes back the text before them and the decoded
    /// text.
    pub(super) fn decode_words(&mut self, end: usize) -> Option<(TokenKind, usize, usize)> {
        if self.rescans_left == 0 {
            return self.skip(end);
        }
        let mut decoded = std::mem::take(self.line);
        let text = &self.text.rest()[..end];
        let start = memchr::memmem::find(text, b"=?").unwrap_or(end);
        decoded.clear();
        decoded.extend_from_slice(&text[..start]);
        let mut bytes = std::mem::take(self.word);
        let mut rest = &text[start..];
        while let Some((word, after)) = split_word(rest) {
            self.decode_word(word, &mut bytes, &mut decoded);
            let blanks = after.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n'));
            rest = &after[blanks.count()..];
        }
        self.take(end);
        self.push_back(&decoded);
        *self.line = decoded;
        *self.word = bytes;
        None
    }

    fn decode_word(&self, word: Word<'_>, bytes: &mut Vec<u8>, to: &mut Vec<u8>) {
        bytes.clear();
        let is_decoded = match word.encoding {
            b'b' | b'B' => decode::base64(word.text, bytes),
            _ if decode::is_quoted_word(word.text) => {
                decode::quoted_printable(word.text, true, bytes);
                true
            }
            _ => false,
        };
        let bytes = if is_decoded { &bytes[..] } else { word.text };
        if self.options.word_encoding == WordEncoding::Raw {
            return to.extend_from_slice(bytes);
        }
        let mut charset = Charset::named(word.charset).unwrap_or(self.charset_default);
        let replacement = self.options.replace_non_ascii.then_some(b'?');
        charset.convert(bytes, to, Bounds { room: usize::MAX, replacement });
    }
}

struct Word<'a> {
    charset: &'a [u8],
    encoding: u8,
    text: &'a [u8],
}

/// Splits the encoded word at the start of `text` from what follows it.
fn split_word(text: &[u8]) -> Option<(Word<'_>, &[u8])> {
    let text = text.strip_prefix(b"=?")?;
    let mark = memchr::memchr(b'?', text)?;
    let (charset, rest) = text.split_at(mark);
    let encoding = *rest.get(1)?;
    let rest = rest.get(3..)?;
    let end = memchr::memchr(b'?', rest)?;
    Some((Word { charset, encoding, text: &rest[..end] }, rest.get(end + 2..)?))
}
