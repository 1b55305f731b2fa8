//! A place in the text of a command, and the small parts of the grammar (RFC 9051 §9).
//!
//! Literals have their wire form, with all of their bytes. Several spaces count as one, and spaces
//! inside parentheses are skipped: clients send both, and Dovecot accepts them.

use std::borrow::Cow;

use barid_message::{decode_utf7, encode_utf7};

use super::{Dialect, ParseError, Parsed, printable};
use crate::command::MailboxName;
use crate::lex;
use crate::limits::{LIST_LEN_MAX, MAILBOX_NAME_LEN_MAX};

/// A place in the text of a command.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
    dialect: Dialect,
}

/// Bytes of the text that an error repeats.
const FOUND_LEN: usize = 24;

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a [u8], dialect: Dialect) -> Self {
        Self { text, at: 0, dialect }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect
    }

    pub(crate) fn is_end(&self) -> bool {
        self.at == self.text.len()
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Returns the text from here on.
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    /// Skips bytes.
    pub(crate) fn skip(&mut self, count: usize) {
        self.at = self.text.len().min(self.at + count);
    }

    /// Goes to the end and returns the text from here on.
    pub(crate) fn take_rest(&mut self) -> &'a [u8] {
        let rest = self.rest();
        self.at = self.text.len();
        rest
    }

    /// Creates the error that `what` is not here.
    pub(crate) fn expected(&self, what: &str) -> ParseError {
        let rest = self.rest().trim_ascii_end();
        let found = &rest[..rest.len().min(FOUND_LEN)];
        ParseError::new(match found {
            [] => format!("Expected {what} at the end."),
            found => {
                let dots = if found.len() < rest.len() { "..." } else { "" };
                let found = printable(&String::from_utf8_lossy(found));
                format!("Expected {what} at: {found}{dots}")
            }
        })
    }

    /// Skips spaces.
    pub(crate) fn spaces(&mut self) {
        while self.peek() == Some(b' ') {
            self.at += 1;
        }
    }

    /// Reads `SP`.
    pub(crate) fn space(&mut self) -> Parsed<()> {
        match self.peek() {
            Some(b' ') => {
                self.spaces();
                Ok(())
            }
            None => Err(ParseError::new("An argument is missing.")),
            _ => Err(self.expected("a space")),
        }
    }

    /// Reads a byte if it is here.
    pub(crate) fn eat(&mut self, byte: u8) -> bool {
        let is_here = self.peek() == Some(byte);
        self.at += usize::from(is_here);
        is_here
    }

    /// Reads `(`.
    pub(crate) fn open(&mut self) -> Parsed<()> {
        if !self.eat(b'(') {
            return Err(self.expected("("));
        }
        self.spaces();
        Ok(())
    }

    /// Reads `)`.
    pub(crate) fn close(&mut self) -> Parsed<()> {
        self.spaces();
        if self.eat(b')') { Ok(()) } else { Err(self.expected(")")) }
    }

    /// Checks that the command ends here.
    pub(crate) fn end(&mut self) -> Parsed<()> {
        self.spaces();
        if self.is_end() { Ok(()) } else { Err(self.expected("the end of the command")) }
    }

    /// Reads bytes as long as they belong to a word.
    pub(crate) fn take_while(&mut self, belongs: impl Fn(u8) -> bool) -> &'a [u8] {
        let rest = self.rest();
        let len = rest.iter().position(|byte| !belongs(*byte)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// Reads a word if it is here, in any case.
    pub(crate) fn word_is(&mut self, word: &str) -> bool {
        let mut ahead = self.clone();
        let is_here = ahead.take_while(is_astring_char).eq_ignore_ascii_case(word.as_bytes());
        if is_here {
            *self = ahead;
        }
        is_here
    }

    /// Reads an atom and returns it in capitals. Bytes that are not ASCII are refused.
    pub(crate) fn word(&mut self, what: &str) -> Parsed<String> {
        let start = self.clone();
        let word = self.take_while(is_astring_char).to_ascii_uppercase();
        match String::from_utf8(word) {
            Ok(word) if !word.is_empty() && word.is_ascii() => Ok(word),
            _ => Err(start.expected(what)),
        }
    }

    /// Reads a quoted string or a literal, if one is here.
    pub(crate) fn string(&mut self) -> Parsed<Option<Cow<'a, [u8]>>> {
        match self.peek() {
            Some(b'"') => {
                let found = lex::quoted(&self.rest()[1..]);
                let (text, len) = found.ok_or_else(|| {
                    ParseError::new("A quoted string is not valid or has no end.")
                })?;
                self.skip(1 + len);
                Ok(Some(text))
            }
            Some(b'{') => {
                let bytes = self.literal()?;
                match memchr::memchr(0, bytes) {
                    Some(_) => Err(ParseError::new("A literal contains NUL.")),
                    None => Ok(Some(Cow::Borrowed(bytes))),
                }
            }
            _ => Ok(None),
        }
    }

    /// Reads a literal8, if one is here.
    pub(crate) fn literal8(&mut self) -> Parsed<Option<&'a [u8]>> {
        if !self.rest().starts_with(b"~{") {
            return Ok(None);
        }
        self.at += 1;
        self.literal().map(Some)
    }

    /// Reads a literal.
    fn literal(&mut self) -> Parsed<&'a [u8]> {
        let found = self.rest().strip_prefix(b"{").and_then(lex::literal);
        let (bytes, len) = found.ok_or_else(|| self.expected("a literal"))?;
        self.skip(1 + len);
        Ok(bytes)
    }

    /// Reads an `astring`.
    pub(crate) fn astring(&mut self) -> Parsed<Cow<'a, [u8]>> {
        if let Some(string) = self.string()? {
            return Ok(string);
        }
        match self.take_while(is_lenient_char) {
            [] => Err(self.expected("a string")),
            atom => Ok(Cow::Borrowed(atom)),
        }
    }

    /// Reads an `astring` in UTF-8.
    pub(crate) fn text(&mut self) -> Parsed<String> {
        utf8(self.astring()?)
    }

    /// Reads NIL or an `astring`.
    pub(crate) fn nstring(&mut self) -> Parsed<Option<Cow<'a, [u8]>>> {
        if self.word_is("NIL") { Ok(None) } else { self.astring().map(Some) }
    }

    /// Reads a `list-mailbox`, a pattern of LIST.
    pub(crate) fn list_mailbox(&mut self) -> Parsed<String> {
        if let Some(string) = self.string()? {
            return self.name(&string);
        }
        match self.take_while(is_lenient_char) {
            [] => Err(self.expected("a mailbox name")),
            pattern => self.name(pattern),
        }
    }

    /// Decodes a name or pattern; what is not valid in modified UTF-7 stays as it is, because it
    /// can match nothing.
    fn name(&self, bytes: &[u8]) -> Parsed<String> {
        if bytes.len() > MAILBOX_NAME_LEN_MAX {
            return Err(ParseError::new("A pattern is too long.").with_code("CANNOT"));
        }
        match canonical_utf7(bytes).filter(|_| !self.dialect.has_utf8_names()) {
            Some(name) => Ok(name),
            None => utf8(Cow::Borrowed(bytes)),
        }
    }

    /// Reads the name of a reference of LIST.
    pub(crate) fn reference(&mut self) -> Parsed<String> {
        let reference = self.astring()?;
        self.name(&reference)
    }

    /// Reads a `mailbox`, which is not empty.
    pub(crate) fn mailbox(&mut self) -> Parsed<MailboxName> {
        let mailbox = self.mailbox_or_empty()?;
        if mailbox.0.is_empty() {
            return Err(ParseError::new("The mailbox name is empty.").with_no("CANNOT"));
        }
        Ok(mailbox)
    }

    /// Reads a `mailbox`.
    pub(crate) fn mailbox_or_empty(&mut self) -> Parsed<MailboxName> {
        let bytes = self.astring()?;
        let invalid = |text: &str| ParseError::new(text).with_no("CANNOT");
        let name = match self.dialect.has_utf8_names() {
            true => String::from_utf8(bytes.into_owned())
                .map_err(|_| invalid("The mailbox name is not valid UTF-8."))?,
            false => canonical_utf7(&bytes)
                .ok_or_else(|| invalid("The mailbox name is not valid modified UTF-7."))?,
        };
        if name.len() > MAILBOX_NAME_LEN_MAX {
            return Err(invalid("The mailbox name is too long."));
        }
        if name.chars().any(char::is_control) {
            return Err(invalid("The mailbox name contains a control character."));
        }
        Ok(MailboxName::from(name.as_str()))
    }

    /// Reads a number.
    pub(crate) fn number<T: std::str::FromStr>(&mut self) -> Parsed<T> {
        let start = self.clone();
        lex::number(self.take_while(|byte| byte.is_ascii_digit()))
            .ok_or_else(|| start.expected("a number"))
    }

    /// Reads a `mod-sequence-valzer`: 63 bits, 0 included (RFC 7162 §7).
    pub(crate) fn modseq(&mut self) -> Parsed<u64> {
        let start = self.clone();
        let modseq: u64 = self.number()?;
        match i64::try_from(modseq) {
            Ok(_) => Ok(modseq),
            Err(_) => Err(start.expected("a mod-sequence")),
        }
    }

    /// Reads `"(" *item ")"`, or a single item if there is no parenthesis and `is_bare`.
    pub(crate) fn list<T>(
        &mut self,
        is_bare: bool,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        if is_bare && self.peek() != Some(b'(') {
            return Ok(vec![item(self)?]);
        }
        self.open()?;
        let mut items = Vec::new();
        while self.peek() != Some(b')') {
            if items.len() == LIST_LEN_MAX {
                return Err(ParseError::new("A list is too long."));
            }
            items.push(item(self)?);
            if self.peek() != Some(b')') {
                self.space()?;
            }
        }
        self.close()?;
        Ok(items)
    }
}

/// Returns `true` for an ASTRING-CHAR; 8-bit bytes are let through.
pub(crate) fn is_astring_char(byte: u8) -> bool {
    !matches!(byte, 0..=b' ' | 0x7f | b'(' | b')' | b'{' | b'%' | b'*' | b'"' | b'\\')
}

/// Returns `true` for an ASTRING-CHAR, `%`, `*` and a backslash, which Dovecot accepts too.
fn is_lenient_char(byte: u8) -> bool {
    is_astring_char(byte) || matches!(byte, b'%' | b'*' | b'\\')
}

/// Decodes a name in modified UTF-7. What is not encoded as [`encode_utf7`] does it is not valid:
/// one mailbox would have two names.
fn canonical_utf7(name: &[u8]) -> Option<String> {
    decode_utf7(name).filter(|decoded| encode_utf7(decoded).as_bytes() == name)
}

/// Returns a string as UTF-8.
pub(crate) fn utf8(bytes: Cow<'_, [u8]>) -> Parsed<String> {
    String::from_utf8(bytes.into_owned())
        .map_err(|_| ParseError::new("A string is not valid UTF-8."))
}
