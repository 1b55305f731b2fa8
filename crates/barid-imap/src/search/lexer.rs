//! The tokens of a program.

use barid_query::search::SearchError;

use crate::lex;

/// A token of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ImapToken<'a> {
    Open,
    Close,
    Atom(&'a [u8]),
    Text(Vec<u8>),
    End,
}

/// A reader of tokens.
#[derive(Clone, Debug)]
pub(crate) struct ImapLexer<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> ImapLexer<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Returns the offset of the byte that was read last.
    pub(super) fn last_at(&self) -> usize {
        self.at.saturating_sub(1)
    }

    /// Reads a word if it is the next token, in any case.
    pub(super) fn word_is(&mut self, word: &str) -> Result<bool, SearchError> {
        let mut ahead = self.clone();
        let is_here = matches!(
            ahead.next()?,
            ImapToken::Atom(atom) if atom.eq_ignore_ascii_case(word.as_bytes())
        );
        if is_here {
            *self = ahead;
        }
        Ok(is_here)
    }

    /// Reads a token.
    pub(super) fn next(&mut self) -> Result<ImapToken<'a>, SearchError> {
        while matches!(self.text.get(self.at), Some(b' ')) {
            self.at += 1;
        }
        let rest = &self.text[self.at..];
        let (token, len) = match rest {
            [] => (ImapToken::End, 0),
            [b'(', ..] => (ImapToken::Open, 1),
            [b')', ..] => (ImapToken::Close, 1),
            [b'"', inside @ ..] => {
                let (text, len) = lex::quoted(inside).ok_or_else(|| unclosed(inside))?;
                (ImapToken::Text(text.into_owned()), 1 + len)
            }
            [b'{', inside @ ..] => {
                let (bytes, len) = lex::literal(inside).ok_or_else(|| self.out_of_place())?;
                (ImapToken::Text(bytes.to_vec()), 1 + len)
            }
            _ => {
                let ends = |byte: &u8| matches!(byte, b' ' | b'(' | b')' | b'"') || *byte < b' ';
                let len = rest.iter().position(ends).unwrap_or(rest.len());
                if len == 0 {
                    return Err(self.out_of_place());
                }
                (ImapToken::Atom(&rest[..len]), len)
            }
        };
        self.at += len;
        Ok(token)
    }

    /// Returns the error that the next byte is out of place.
    pub(super) fn out_of_place(&self) -> SearchError {
        let found = self.text[self.at..].iter().take(1).flat_map(|byte| byte.escape_ascii());
        SearchError::OutOfPlace { found: found.map(char::from).collect(), at: self.at }
    }

    /// Reads an argument of `key` as text.
    pub(super) fn argument(&mut self, key: &str) -> Result<String, SearchError> {
        match self.next()? {
            ImapToken::Atom(bytes) => utf8(bytes.to_vec()),
            ImapToken::Text(bytes) => utf8(bytes),
            _ => Err(SearchError::Missing { what: "a value", after: key.to_owned() }),
        }
    }
}

fn unclosed(inside: &[u8]) -> SearchError {
    let line = inside.iter().position(|byte| matches!(byte, 0 | b'\r' | b'\n'));
    let after = String::from_utf8_lossy(&inside[..line.unwrap_or(inside.len())]).into_owned();
    SearchError::Missing { what: "a closing quote", after }
}

fn utf8(bytes: Vec<u8>) -> Result<String, SearchError> {
    String::from_utf8(bytes).map_err(|_| SearchError::NotUtf8)
}
