//! Patterns: regular expressions, beginnings of words, words near each other, and texts without
//! their accents.
//!
//! `docs/design/search.md` describes the texts that a pattern sees.

mod finder;
mod required;
mod text;
mod word;

use std::fmt;

use regex::bytes::{Regex, RegexBuilder};

pub(crate) use self::finder::PatternFinder;
pub(crate) use self::text::{PatternText, push_without_accents};
use self::word::words;
use super::error::SearchError;
use crate::limits::{
    NEAR_DISTANCE_MAX, NEAR_WORDS_MAX, PREFIX_LEN_MAX, REGEX_COMPILED_LEN_MAX, REGEX_LEN_MAX,
    REGEX_LEVELS_MAX,
};

/// The definition of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternSource {
    /// A text, anywhere.
    Text(String),
    /// A text with which a word begins.
    Prefix(String),
    /// Words in any order, with at most this number of other words between them. A word that ends
    /// with `*` is the beginning of one.
    Near(String, u32),
    /// A regular expression in the syntax of the crate `regex`, in any case.
    Regex(String),
}

/// A pattern that was checked.
#[derive(Clone)]
pub struct TextPattern {
    source: PatternSource,
    folds_accents: bool,
    /// The compiled regular expression.
    regex: Option<Regex>,
}

/// Compares the definitions.
impl PartialEq for TextPattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.folds_accents == other.folds_accents
    }
}

impl Eq for TextPattern {}

/// Writes the definition, such as `Prefix("foo")`; one without accents as `Folded(Text("foo"))`.
impl fmt::Debug for TextPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.folds_accents {
            true => formatter.debug_tuple("Folded").field(&self.source).finish(),
            false => self.source.fmt(formatter),
        }
    }
}

impl TextPattern {
    /// Checks a pattern, and compiles a regular expression. With `folds_accents`, accents are
    /// removed from the pattern and from the texts.
    ///
    /// # Errors
    /// [`SearchError::Regex`] for an invalid or too large regular expression;
    /// [`SearchError::BadValue`] for words of which none is a word, or a `*` that does not follow
    /// one; [`SearchError::TooMuch`] beyond [`crate::limits`].
    pub fn new(source: PatternSource, folds_accents: bool) -> Result<Self, SearchError> {
        let too_much = |what, max| Err(SearchError::TooMuch { what, max });
        let mut regex = None;
        match &source {
            PatternSource::Text(_) => {}
            PatternSource::Prefix(text) if text.len() > PREFIX_LEN_MAX => {
                return too_much("bytes before a `*`", PREFIX_LEN_MAX);
            }
            PatternSource::Prefix(_) => {}
            PatternSource::Near(text, distance) => {
                let bad = |what| Err(SearchError::bad("~", what, text.as_str()));
                match words(text, folds_accents) {
                    None => return bad("list of words (a `*` stands only at the end of a word)"),
                    Some(words) if words.is_empty() => return bad("list of words"),
                    Some(words) if words.len() > NEAR_WORDS_MAX => {
                        return too_much("words near each other", NEAR_WORDS_MAX);
                    }
                    Some(_) if *distance > NEAR_DISTANCE_MAX => {
                        return too_much("words in between", NEAR_DISTANCE_MAX as usize);
                    }
                    Some(_) => {}
                }
            }
            PatternSource::Regex(text) if text.len() > REGEX_LEN_MAX => {
                return too_much("bytes in a regular expression", REGEX_LEN_MAX);
            }
            PatternSource::Regex(text) => regex = Some(compile(text, folds_accents)?),
        }
        Ok(Self { source, folds_accents, regex })
    }

    /// Returns the definition.
    #[must_use]
    pub fn source(&self) -> &PatternSource {
        &self.source
    }

    /// Returns `true` if accents are removed before the comparison.
    #[must_use]
    pub fn folds_accents(&self) -> bool {
        self.folds_accents
    }

    /// Returns the number of bytes of the definition.
    #[must_use]
    pub fn text_len(&self) -> usize {
        match &self.source {
            PatternSource::Text(text)
            | PatternSource::Prefix(text)
            | PatternSource::Near(text, _)
            | PatternSource::Regex(text) => text.len(),
        }
    }

    /// Returns `true` if the pattern is in every text, as the empty text is.
    #[must_use]
    pub fn is_everywhere(&self) -> bool {
        match (&self.source, &self.regex) {
            (PatternSource::Text(text) | PatternSource::Prefix(text), _) => {
                let folded = PatternText::new(text.into());
                folded.folded_form(self.folds_accents).trim().is_empty()
            }
            (PatternSource::Near(..), _) => false,
            // `/^$/` finds the empty subject only, `/x*/` all.
            (_, regex) => regex.as_ref().is_none_or(|regex| {
                [&b""[..], b"a", b"0 ."].iter().all(|text| regex.is_match(text))
            }),
        }
    }
}

/// Compiles a regular expression: in any case, and `^` and `$` match at every line.
fn compile(text: &str, folds_accents: bool) -> Result<Regex, SearchError> {
    let pattern = PatternText::new(text.into()).regex_form(folds_accents).to_owned();
    let compiled = RegexBuilder::new(&pattern)
        .case_insensitive(true)
        .multi_line(true)
        .size_limit(REGEX_COMPILED_LEN_MAX)
        .dfa_size_limit(REGEX_COMPILED_LEN_MAX)
        .nest_limit(REGEX_LEVELS_MAX)
        .build();
    compiled.map_err(|error| {
        let reason = match &error {
            regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
            // The lines before the last show the place.
            error => {
                let text = error.to_string();
                let last = text.lines().last().unwrap_or_default().trim();
                last.strip_prefix("error: ").unwrap_or(last).to_owned()
            }
        };
        SearchError::Regex { regex: text.to_owned(), reason }
    })
}

#[cfg(test)]
mod tests;
