//! SEARCH, SORT, THREAD and CANCELUPDATE (RFC 9051 §6.4.4, RFC 4731, RFC 5256, RFC 5267, RFC 9394).
//!
//! ```text
//! search = "SEARCH" [SP return-opts] SP ["CHARSET" SP charset SP] search-key *(SP search-key)
//! sort   = "SORT" [SP return-opts] SP "(" sort-key *(SP sort-key) ")" SP charset SP search-key
//!          *(SP search-key)
//! thread = "THREAD" SP algorithm SP charset SP search-key *(SP search-key)
//! return-opts = "RETURN" SP "(" [return-opt *(SP return-opt)] ")"
//! ```

use barid_query::search::{ReturnOptions, SearchError, SearchProgram};
use barid_query::{SortKey, SortProgram, ThreadAlgorithm};

use super::account::words;
use super::{Cursor, ParseError, Parsed};
use crate::command::{Command, SearchCommand};
use crate::search::{ImapLexer, check_charset, parse_keys};

/// The options of RETURN.
#[derive(Default)]
struct Returns {
    options: Option<ReturnOptions>,
    partial: Option<(i64, i64)>,
    update: bool,
    has_context_hint: bool,
}

/// Parses the arguments of SEARCH.
pub(super) fn search(cursor: &mut Cursor<'_>, uid: bool) -> Parsed<Command> {
    Ok(Command::Search(arguments(cursor, uid)?))
}

/// Reads the arguments of SEARCH, which are the last ones of ESEARCH, too.
pub(super) fn arguments(cursor: &mut Cursor<'_>, uid: bool) -> Parsed<SearchCommand> {
    let returns = returns(cursor)?;
    let mut ahead = cursor.clone();
    if ahead.word_is("CHARSET") {
        *cursor = ahead;
        cursor.space()?;
        charset(cursor)?;
    }
    command(cursor, uid, returns)
}

/// Parses the arguments of SORT.
pub(super) fn sort(cursor: &mut Cursor<'_>, uid: bool) -> Parsed<Command> {
    let returns = returns(cursor)?;
    let mut keys: Vec<(SortKey, bool)> = Vec::new();
    let mut reverse = false;
    cursor.list(false, |cursor| {
        let name = cursor.word("a sort key")?;
        if name == "REVERSE" && !reverse {
            reverse = true;
            return Ok(());
        }
        let key = SortKey::ALL.into_iter().find(|key| key.name().eq_ignore_ascii_case(&name));
        let key = key.ok_or_else(|| ParseError::new(format!("Unknown sort key {name}.")))?;
        keys.push((key, std::mem::take(&mut reverse)));
        Ok(())
    })?;
    if reverse || keys.is_empty() || keys.len() > barid_query::limits::SORT_KEYS_MAX {
        return Err(ParseError::new("The sort keys are not valid."));
    }
    cursor.space()?;
    charset(cursor)?;
    Ok(Command::Sort(SortProgram(keys), command(cursor, uid, returns)?))
}

/// Parses the arguments of THREAD.
pub(super) fn thread(cursor: &mut Cursor<'_>, uid: bool) -> Parsed<Command> {
    let name = cursor.word("an algorithm")?;
    let algorithm: ThreadAlgorithm =
        name.parse().map_err(|_| ParseError::new(format!("Unknown algorithm {name}.")))?;
    cursor.space()?;
    charset(cursor)?;
    Ok(Command::Thread(algorithm, command(cursor, uid, Returns::default())?))
}

/// Parses `quoted *(SP quoted)`, tags.
pub(super) fn cancel_update(cursor: &mut Cursor<'_>) -> Parsed<Command> {
    Ok(Command::CancelUpdate(words(cursor, Cursor::text)?))
}

/// Reads the charset and the space behind it.
fn charset(cursor: &mut Cursor<'_>) -> Parsed<()> {
    check_charset(&cursor.text()?).map_err(|error| search_error(&error))?;
    cursor.space()
}

/// Reads the program, and joins the parts.
fn command(cursor: &mut Cursor<'_>, uid: bool, returns: Returns) -> Parsed<SearchCommand> {
    let program = program(cursor)?;
    let Returns { options, partial, update, has_context_hint } = returns;
    Ok(SearchCommand { uid, program, returns: options, partial, update, has_context_hint })
}

fn program(cursor: &mut Cursor<'_>) -> Parsed<SearchProgram> {
    parse_keys(ImapLexer::new(cursor.take_rest())).map_err(|error| search_error(&error))
}

fn search_error(error: &SearchError) -> ParseError {
    let answer = ParseError::new(error.to_string());
    match error {
        SearchError::BadCharset(_) => answer.with_no("BADCHARSET"),
        _ => answer,
    }
}

/// Reads RETURN with its options, if it is here, and the space behind it.
fn returns(cursor: &mut Cursor<'_>) -> Parsed<Returns> {
    let mut returns = Returns::default();
    if !cursor.word_is("RETURN") {
        return Ok(returns);
    }
    cursor.space()?;
    let mut options = ReturnOptions::default();
    cursor.list(false, |cursor| {
        match cursor.word("a result option")?.as_str() {
            "MIN" => options.min = true,
            "MAX" => options.max = true,
            "ALL" => options.all = true,
            "COUNT" => options.count = true,
            "SAVE" => options.save = true,
            "UPDATE" => returns.update = true,
            "CONTEXT" => returns.has_context_hint = true,
            // A value that only FUZZY has (RFC 6203).
            "RELEVANCY" => {}
            "PARTIAL" if returns.partial.is_none() => {
                cursor.space()?;
                returns.partial = Some(cursor.partial_range()?);
            }
            name => return Err(ParseError::new(format!("Unknown result option {name}."))),
        }
        Ok(())
    })?;
    if options.all && returns.partial.is_some() {
        return Err(ParseError::new("ALL and PARTIAL exclude each other."));
    }
    if options == ReturnOptions::default() && returns.partial.is_none() && !returns.update {
        options.all = true;
    }
    returns.options = Some(options);
    cursor.space()?;
    Ok(returns)
}
