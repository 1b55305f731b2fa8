//! The syntax of SEARCH (RFC 9051 §6.4.4, with RFC 3501, 4731, 5032, 5182 and 7162).
//!
//! `barid-query` has the programs, and evaluates them.

mod lexer;
mod parser;
#[cfg(test)]
mod tests;

use barid_query::search::{ReturnOptions, SearchError, SearchProgram};

pub(crate) use self::lexer::ImapLexer;
pub(crate) use self::parser::parse_keys;

/// A SEARCH command: the program and the results that the client requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchRequest {
    /// The program.
    pub program: SearchProgram,
    /// The options of RETURN, if it is present.
    pub returns: Option<ReturnOptions>,
}

/// Parses the arguments of SEARCH; literals have their wire form.
///
/// ```text
/// search = [RETURN "(" *option ")"] [CHARSET charset] search-key *(SP search-key)
/// ```
///
/// # Errors
/// Returns a [`SearchError`] if the arguments are not a valid search.
pub fn parse_imap(text: &[u8]) -> Result<SearchRequest, SearchError> {
    let mut lexer = ImapLexer::new(text);
    let mut returns = None;
    if lexer.word_is("RETURN")? {
        returns = Some(parser::parse_returns(&mut lexer)?);
    }
    if lexer.word_is("CHARSET")? {
        check_charset(&lexer.argument("CHARSET")?)?;
    }
    Ok(SearchRequest { program: parse_keys(lexer)?, returns })
}

/// Checks that a charset is supported: US-ASCII or UTF-8, in any case.
pub(crate) fn check_charset(charset: &str) -> Result<(), SearchError> {
    let known = ["us-ascii", "utf-8"].iter().any(|name| name.eq_ignore_ascii_case(charset));
    if known { Ok(()) } else { Err(SearchError::BadCharset(charset.to_owned())) }
}

/// Returns `true` if a text begins like a program in IMAP's syntax: with a search key in capitals,
/// or with RETURN or CHARSET.
#[must_use]
pub fn looks_like_imap(text: &str) -> bool {
    let word = text.trim_start_matches(['(', ' ']).split([' ', '(', ')']).next().unwrap_or("");
    let capitals = word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    capitals && (KEYWORDS.contains(&word) || ["RETURN", "CHARSET"].contains(&word))
}

/// Every word that begins a search key.
const KEYWORDS: &[&str] = &[
    "ALL",
    "ANSWERED",
    "BCC",
    "BEFORE",
    "BODY",
    "CC",
    "DELETED",
    "DRAFT",
    "EMAILID",
    "FLAGGED",
    "FROM",
    "HEADER",
    "KEYWORD",
    "LARGER",
    "MODSEQ",
    "NEW",
    "NOT",
    "OLD",
    "OLDER",
    "ON",
    "OR",
    "RECENT",
    "SAVEDATESUPPORTED",
    "SAVEDBEFORE",
    "SAVEDON",
    "SAVEDSINCE",
    "SEEN",
    "SENTBEFORE",
    "SENTON",
    "SENTSINCE",
    "SINCE",
    "SMALLER",
    "SUBJECT",
    "TEXT",
    "THREADID",
    "TO",
    "UID",
    "UIDAFTER",
    "UIDBEFORE",
    "UNANSWERED",
    "UNDELETED",
    "UNDRAFT",
    "UNFLAGGED",
    "UNKEYWORD",
    "UNSEEN",
    "YOUNGER",
];
