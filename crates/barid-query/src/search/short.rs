//! A parser for the short form of programs, for people.
//!
//! ```text
//! query   = and *("or" and)
//! and     = *(["not" / "-" / "!"] term)
//! term    = "(" query ")" / [key ":"] value
//! value   = word / word "*" / DQUOTE text DQUOTE / DQUOTE words DQUOTE "~" number
//!         / "/" regular expression "/"
//! ```
//!
//! A value without a key is searched in the whole message; `all` matches every message, and `1:5`
//! is rejected, since it could be UIDs, sequence numbers or a text. Keys and words such as `or` are
//! case-insensitive; in quotes they are text.

mod keys;
mod lexer;
mod values;

use self::keys::term;
use self::lexer::{Lexer, Token};
use super::{Day, NodeId, ProgramBuilder, SearchError, SearchKey, SearchProgram};
use crate::limits::SEARCH_DEPTH_MAX;

/// Options of the short form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortOptions {
    /// The day from which `today` and `7d` count.
    pub today: Day,
    /// `true` to compare texts without their accents, so that `Salaun` finds `Salaün`.
    pub fold_accents: bool,
}

/// Parses a query in the short form; `today` and `7d` in it count from the day `today`.
///
/// An empty query matches every message.
///
/// # Errors
/// Returns a [`SearchError`] if the text is not a valid query.
pub fn parse_short(text: &str, today: Day) -> Result<SearchProgram, SearchError> {
    parse_short_with(text, ShortOptions { today, fold_accents: false })
}

/// Parses a query as [`parse_short`] does, with options.
///
/// # Errors
/// As [`parse_short`].
pub fn parse_short_with(text: &str, options: ShortOptions) -> Result<SearchProgram, SearchError> {
    let mut parser = QueryParser {
        lexer: Lexer::new(text),
        builder: ProgramBuilder::default(),
        open: vec![Level::default()],
        options,
    };
    let root = parser.run()?;
    Ok(parser.builder.finish(root))
}

/// Returns the keys of the short form, each with its colon, for completion.
pub fn short_keys() -> impl Iterator<Item = &'static str> {
    keys::KEYS.into_iter()
}

/// Returns the usual values of the key `is:`, for completion.
pub fn short_states() -> impl Iterator<Item = &'static str> {
    keys::STATES.into_iter()
}

/// Returns `true` if a word is a set of messages in IMAP. A single number, or several with commas,
/// is more often a text, and a lone `*` is a pattern elsewhere.
fn is_range(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_digit() || b":,*".contains(&byte);
    text.bytes().all(is_part) && text.contains([':', '*']) && text != "*"
}

/// A query or a part of it in parentheses.
#[derive(Default)]
struct Level {
    /// Operands of `or` so far.
    ors: Vec<NodeId>,
    /// Terms after the last `or`.
    ands: Vec<NodeId>,
    /// `true` if the next term is negated.
    is_negated: bool,
    /// `true` if the level, once complete, is negated in the level around it.
    was_negated: bool,
    /// `true` after `and`, until the next term.
    is_after_and: bool,
}

struct QueryParser<'a> {
    lexer: Lexer<'a>,
    builder: ProgramBuilder,
    open: Vec<Level>,
    options: ShortOptions,
}

impl QueryParser<'_> {
    fn run(&mut self) -> Result<NodeId, SearchError> {
        while let Some(token) = self.lexer.next()? {
            match token {
                Token::Open => self.begin()?,
                Token::Close => self.end()?,
                Token::Minus => self.negate(),
                Token::Word(word) => match word.bare() {
                    Some("or" | "OR" | "|") => self.or()?,
                    Some("and" | "AND") => self.and()?,
                    Some("not" | "NOT") => self.negate(),
                    Some(text) if text.eq_ignore_ascii_case("all") => {
                        let node = self.builder.key(SearchKey::All)?;
                        self.add(node)?;
                    }
                    Some(text) if is_range(text) => {
                        return Err(SearchError::Numbers(text.to_owned()));
                    }
                    _ => {
                        let node = term(&mut self.builder, word, &self.options)?;
                        self.add(node)?;
                    }
                },
            }
        }
        let missing = |what, after: &str| SearchError::Missing { what, after: after.into() };
        match (self.open.pop(), self.open.is_empty()) {
            (Some(level), true) if level.is_negated => Err(missing("a search key", "not")),
            (Some(level), true) if level.is_after_and => Err(missing("a search key", "and")),
            (Some(level), true) if level.ors.is_empty() && level.ands.is_empty() => {
                self.builder.key(SearchKey::All)
            }
            (Some(level), true) => self.join(level),
            _ => Err(missing(")", "(")),
        }
    }

    fn level(&mut self) -> &mut Level {
        self.open.last_mut().expect("because the outermost level stays until the end")
    }

    fn negate(&mut self) {
        let level = self.level();
        level.is_negated = !level.is_negated;
    }

    fn begin(&mut self) -> Result<(), SearchError> {
        if self.open.len() > SEARCH_DEPTH_MAX {
            return Err(SearchError::TooMuch { what: "levels", max: SEARCH_DEPTH_MAX });
        }
        let was_negated = std::mem::take(&mut self.level().is_negated);
        self.open.push(Level { was_negated, ..Level::default() });
        self.lexer.depth += 1;
        Ok(())
    }

    fn end(&mut self) -> Result<(), SearchError> {
        self.lexer.depth -= 1;
        let level = self.open.pop().expect("because the depth counts the levels");
        let was_negated = level.was_negated;
        let node = self.join(level)?;
        self.level().is_negated = was_negated;
        self.add(node)
    }

    /// Reads `and`, which stands between two terms and changes nothing.
    fn and(&mut self) -> Result<(), SearchError> {
        let level = self.level();
        if level.ands.is_empty() || level.is_negated || level.is_after_and {
            let after = if level.is_after_and { "and" } else { "(" };
            return Err(SearchError::Missing { what: "a search key", after: after.into() });
        }
        level.is_after_and = true;
        Ok(())
    }

    fn or(&mut self) -> Result<(), SearchError> {
        let level = self.level();
        if level.ands.is_empty() || level.is_negated || level.is_after_and {
            let after = if level.ors.is_empty() { "(" } else { "or" };
            return Err(SearchError::Missing { what: "a search key", after: after.into() });
        }
        let ands = std::mem::take(&mut level.ands);
        let node = self.builder.and(ands)?;
        self.level().ors.push(node);
        Ok(())
    }

    fn join(&mut self, mut level: Level) -> Result<NodeId, SearchError> {
        if level.ands.is_empty() || level.is_negated || level.is_after_and {
            let after = if level.ors.is_empty() { "(" } else { "or" };
            return Err(SearchError::Missing { what: "a search key", after: after.into() });
        }
        let last = self.builder.and(level.ands)?;
        level.ors.push(last);
        self.builder.or(level.ors)
    }

    /// Adds a node to the current terms, negated if `not` precedes it.
    fn add(&mut self, mut node: NodeId) -> Result<(), SearchError> {
        if std::mem::take(&mut self.level().is_negated) {
            node = self.builder.not(node)?;
        }
        let level = self.level();
        level.is_after_and = false;
        level.ands.push(node);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
