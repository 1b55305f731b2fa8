//! Rules of headers.

use super::charset::Charset;
use super::classes::{self, ALNUM, BLANK, BOUNDARY};
use super::scan::{Scan, Tag, TokenKind};

/// Fields whose words are tagged.
const TAGGED: [(&[u8], Tag); 6] = [
    (b"to", Tag::To),
    (b"cc", Tag::To),
    (b"from", Tag::From),
    (b"return-path", Tag::ReturnPath),
    (b"subject", Tag::Subject),
    (b"received", Tag::Received),
];

/// Fields of which only the name is a token.
const LINES: [&[u8]; 6] =
    [b"message-id", b"date", b"delivery-date", b"resent-message-id", b"in-reply-to", b"references"];

const MIME_FIELDS: [&[u8]; 3] =
    [b"content-transfer-encoding", b"content-type", b"content-disposition"];

impl Scan<'_> {
    /// Matches a word in a header: `run` bytes of which the first `len` can be a word, with the
    /// byte `next` after them.
    pub(super) fn header_word(
        &mut self,
        run: usize,
        len: usize,
        next: Option<u8>,
    ) -> Option<(TokenKind, usize, usize)> {
        if self.at_line_start && next == Some(b':') {
            return self.field(run, len);
        }
        if matches!(next, Some(b'=' | b'#')) {
            return self.word_and_more(run, len, next);
        }
        if self.at_line_start {
            self.set_tag(Tag::Header);
        }
        self.plain_word(len)
    }

    /// Matches a field name and its colon.
    fn field(&mut self, run: usize, len: usize) -> Option<(TokenKind, usize, usize)> {
        let name = &self.text.rest()[..run];
        let is_name = |known: &[u8]| name.eq_ignore_ascii_case(known);
        if let Some((_, tag)) = TAGGED.iter().find(|(known, _)| is_name(known)) {
            self.set_tag(*tag);
            return self.skip(run + 1);
        }
        if LINES.into_iter().any(is_name) {
            return self.whole_line(run);
        }
        if MIME_FIELDS.into_iter().any(is_name) {
            return self.mime_field(run);
        }
        self.set_tag(Tag::Header);
        self.plain_word(len)
    }

    fn whole_line(&mut self, name_len: usize) -> Option<(TokenKind, usize, usize)> {
        let end = match self.find(name_len, b'\n', false) {
            Some(end) => end,
            None => self.text.rest().len(),
        };
        if self.is_interrupted {
            return None;
        }
        self.set_tag(Tag::Header);
        let text = self.text.rest();
        if text[..name_len].eq_ignore_ascii_case(b"message-id") {
            self.facts.set_message_id(&text[name_len + 1..end], self.options.token_len_bound());
        }
        Some((TokenKind::Line, name_len, end))
    }

    /// Matches `Content-Type`, `Content-Transfer-Encoding` and `Content-Disposition`: the first
    /// word of the value sets the type, encoding or disposition of the part, and is a token as
    /// well.
    fn mime_field(&mut self, name_len: usize) -> Option<(TokenKind, usize, usize)> {
        let start = self.run(name_len + 1, BLANK);
        let mut end = start;
        let is_value = |byte: u8| classes::is(byte, ALNUM) || matches!(byte, b'/' | b'-');
        while self.peek(end).is_some_and(is_value) {
            end += 1;
        }
        if self.is_interrupted {
            return None;
        }
        let value = &self.text.rest()[name_len + 1..end];
        let part = self.parts.part_mut();
        match name_len {
            12 => part.set_type(value),
            19 => part.set_disposition(value),
            _ => part.set_encoding(value),
        }
        self.set_tag(Tag::Header);
        Some((TokenKind::Word, name_len, name_len))
    }

    /// Matches a word with `=` or `#` after it: a parameter, or the start of an encoded word or of
    /// a return path that contains an address (VERP).
    fn word_and_more(
        &mut self,
        run: usize,
        len: usize,
        next: Option<u8>,
    ) -> Option<(TokenKind, usize, usize)> {
        let encoded = if next == Some(b'=') { self.encoded_words(run) } else { None };
        let parameter = match next {
            Some(b'=') => self.parameter(run),
            _ => None,
        };
        let verp = self.verp(run);
        if self.is_interrupted {
            return None;
        }
        let longest = encoded.unwrap_or(0).max(parameter.map_or(0, |(_, end)| end));
        if let Some((text_end, end)) = verp
            && end > longest
        {
            return Some((TokenKind::Verp, text_end, text_end));
        }
        if let Some(end) = encoded
            && end == longest
        {
            return self.decode_words(end);
        }
        match parameter {
            Some((Parameter::Boundary, end)) => {
                let value = &self.text.rest()[run + 1..end];
                self.parts.part_mut().set_boundary(value);
                self.skip(end)
            }
            Some((Parameter::Charset, end)) => {
                self.set_charset(run + 1, end);
                self.set_tag(Tag::Header);
                Some((TokenKind::Word, run, run))
            }
            Some((Parameter::Name, end)) => self.skip(end),
            None => {
                if self.at_line_start {
                    self.set_tag(Tag::Header);
                }
                self.plain_word(len)
            }
        }
    }

    /// Returns a known parameter and the end of its value.
    fn parameter(&mut self, run: usize) -> Option<(Parameter, usize)> {
        let name = &self.text.rest()[..run];
        let start = run + 1;
        if name.eq_ignore_ascii_case(b"boundary") {
            let mut value = start;
            while self.peek(value) == Some(b' ') {
                value += 1;
            }
            if self.peek(value) == Some(b'"') {
                value += 1;
            }
            let end = self.run(value, BOUNDARY);
            let spaces = self.text.rest()[value..end].iter().rev();
            let last = end - spaces.take_while(|byte| **byte == b' ').count();
            if last == value {
                return None;
            }
            let is_quoted = last == end && self.peek(end) == Some(b'"');
            return Some((Parameter::Boundary, last + usize::from(is_quoted)));
        }
        if name.eq_ignore_ascii_case(b"charset") {
            let value = start + usize::from(self.peek(start) == Some(b'"'));
            let mut end = value;
            while self.peek(end).is_some_and(|byte| classes::is(byte, ALNUM) || byte == b'-') {
                end += 1;
            }
            let is_quoted = end > value && self.peek(end) == Some(b'"');
            return (end > value).then_some((Parameter::Charset, end + usize::from(is_quoted)));
        }
        if name.eq_ignore_ascii_case(b"name") || name.eq_ignore_ascii_case(b"filename") {
            let is_quoted = self.peek(start) == Some(b'"');
            return Some((Parameter::Name, start + usize::from(is_quoted)));
        }
        None
    }

    /// Sets the charset of the lines that are read from now on by its name between `start` and
    /// `end`; the default charset if the name is unknown.
    fn set_charset(&mut self, start: usize, end: usize) {
        let value = &self.text.rest()[start..end];
        let found = match self.is_modern() {
            true => Charset::of_parameter_modern(value),
            false => Charset::of_parameter(value, self.charset_default),
        };
        self.parts.part_mut().has_charset = found.is_some();
        self.charset = found.unwrap_or(self.charset_default);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parameter {
    Boundary,
    Charset,
    Name,
}
