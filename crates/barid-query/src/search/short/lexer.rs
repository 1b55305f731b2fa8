//! The words of a query in the short form.

use super::super::SearchError;
use super::super::day::number;

/// A token of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Open,
    Close,
    Minus,
    Word(Word),
}

/// A value, with the key before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Word {
    /// The text before the first colon outside of quotes, if that can be a key; in small letters.
    pub(super) key: Option<String>,
    /// The name in `header:NAME=value`.
    pub(super) field: Option<String>,
    pub(super) value: Value,
}

/// A value without its quotes and slashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) text: String,
    /// `true` if any of it was quoted.
    pub(super) is_quoted: bool,
    /// Offsets of `*` outside of quotes.
    pub(super) stars: Vec<usize>,
    pub(super) shape: Shape,
}

/// The way in which a value is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Shape {
    /// `word` or `"text"`.
    #[default]
    Text,
    /// `/regular expression/`.
    Regex,
    /// `"words"~5`.
    Near(u32),
}

impl Word {
    /// Returns a word without key and quotes.
    pub(super) fn bare(&self) -> Option<&str> {
        let is_bare = self.key.is_none() && !self.value.is_quoted;
        (is_bare && self.value.shape == Shape::Text).then_some(&self.value.text)
    }
}

/// Splits a query into tokens.
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    /// Number of open parentheses; a closing one without an open one is part of a word.
    pub(super) depth: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    pub(super) fn next(&mut self) -> Result<Option<Token>, SearchError> {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        let token = match rest.bytes().next() {
            None => return Ok(None),
            Some(b'(') => Token::Open,
            Some(b')') if self.depth > 0 => Token::Close,
            Some(b')') => return Err(SearchError::OutOfPlace { found: ")".into(), at: self.at }),
            Some(b'-' | b'!') if rest[1..].starts_with(|c: char| !c.is_whitespace()) => {
                Token::Minus
            }
            _ => return self.word().map(|word| Some(Token::Word(word))),
        };
        self.at += 1;
        Ok(Some(token))
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Takes the next character.
    fn take(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn is_end(&self, c: char) -> bool {
        c.is_whitespace() || c == ')' && self.depth > 0
    }

    fn word(&mut self) -> Result<Word, SearchError> {
        let mut word = Word::default();
        let start = self.at;
        if self.regex(&mut word.value)? {
            return Ok(word);
        }
        while let Some(c) = self.rest().chars().next().filter(|c| !self.is_end(*c)) {
            self.at += c.len_utf8();
            let Word { key, field, value } = &mut word;
            let is_plain = !value.is_quoted;
            match c {
                '"' => self.quoted(value)?,
                ':' if key.is_none() && is_plain && is_key(&value.text) => {
                    *key = Some(std::mem::take(value).text.to_ascii_lowercase());
                    if self.regex(value)? {
                        break;
                    }
                }
                '=' if key.as_deref() == Some("header") && field.is_none() && is_plain => {
                    *field = Some(std::mem::take(value).text);
                    if self.regex(value)? {
                        break;
                    }
                }
                '*' => {
                    value.stars.push(value.text.len());
                    value.text.push(c);
                }
                c => value.text.push(c),
            }
        }
        // `f(a)` is a text; in `from:ann)` a parenthesis was meant.
        let Word { key, value, .. } = &word;
        let count = |c: char| value.text.matches(c).count();
        if key.is_some() && !value.is_quoted && count(')') > count('(') {
            let at = self.text[start..self.at].rfind(')').map_or(start, |at| start + at);
            return Err(SearchError::OutOfPlace { found: ")".into(), at });
        }
        Ok(word)
    }

    /// Takes a text in quotes after the first of them, and `~5` after the last.
    fn quoted(&mut self, value: &mut Value) -> Result<(), SearchError> {
        let is_first = value.text.is_empty() && !value.is_quoted;
        value.is_quoted = true;
        loop {
            match self.take() {
                Some('"') => break,
                Some('\\') => value.text.extend(self.take()),
                Some(c) => value.text.push(c),
                None => {
                    let after = std::mem::take(&mut value.text);
                    return Err(SearchError::Missing { what: "a closing quote", after });
                }
            }
        }
        if is_first && let Some(rest) = self.rest().strip_prefix('~') {
            let digits = rest.split(|c| self.is_end(c)).next().unwrap_or_default();
            let what = "number of words, as in \"annual report\"~5";
            let distance = number(digits).ok_or_else(|| SearchError::bad("~", what, digits))?;
            value.shape = Shape::Near(distance);
            self.at += 1 + digits.len();
        }
        Ok(())
    }

    /// Takes a regular expression, if one begins here. Returns `false` for a text: a path has a
    /// slash that something follows.
    fn regex(&mut self, value: &mut Value) -> Result<bool, SearchError> {
        let rest = self.rest();
        if !rest.starts_with('/') || rest.starts_with("//") {
            return Ok(false);
        }
        let word_len = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let mut slashes = unescaped_slashes(&rest[1..]).map(|at| at + 1).peekable();
        let is_last = |at: usize| rest[at + 1..].chars().next().is_none_or(|c| self.is_end(c));
        let in_word: Vec<usize> =
            std::iter::from_fn(|| slashes.next_if(|at| *at < word_len)).collect();
        let end = match in_word.iter().rev().find(|at| is_last(**at)) {
            Some(end) => *end,
            None if !in_word.is_empty() => return Ok(false),
            // The expression has blanks.
            None => match slashes.next().filter(|at| is_last(*at)) {
                Some(end) => end,
                None => {
                    let after = rest[..word_len].to_owned();
                    return Err(SearchError::Missing { what: "a closing slash", after });
                }
            },
        };
        value.text = rest[1..end].replace("\\/", "/");
        value.shape = Shape::Regex;
        self.at += end + 1;
        Ok(true)
    }
}

/// Returns the offsets of slashes that no backslash escapes.
fn unescaped_slashes(text: &str) -> impl Iterator<Item = usize> {
    let mut is_escaped = false;
    text.bytes().enumerate().filter_map(move |(at, byte)| {
        let is_slash = byte == b'/' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_slash.then_some(at)
    })
}

fn is_key(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-')
}
