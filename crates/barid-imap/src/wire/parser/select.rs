//! SELECT and EXAMINE (RFC 9051 §6.3.2, RFC 7162 §7).
//!
//! ```text
//! select       = "SELECT" SP mailbox [SP "(" select-param *(SP select-param) ")"]
//! select-param = "CONDSTORE" / "QRESYNC" SP "(" uidvalidity SP mod-sequence-value
//!                [SP known-uids] [SP seq-match-data] ")"
//! seq-match-data = "(" known-sequence-set SP known-uid-set ")"
//! ```

use barid_query::search::NumberSet;

use super::{Cursor, ParseError, Parsed};
use crate::command::{Command, QresyncKnown, SelectParameters};

/// Parses the arguments of SELECT or EXAMINE.
pub(super) fn select(cursor: &mut Cursor<'_>, read_only: bool) -> Parsed<Command> {
    let mailbox = cursor.mailbox()?;
    let mut parameters = SelectParameters::default();
    cursor.spaces();
    if !cursor.is_end() {
        cursor.list(false, |cursor| parameter(cursor, &mut parameters))?;
    }
    Ok(Command::Select { mailbox, read_only, parameters })
}

fn parameter(cursor: &mut Cursor<'_>, parameters: &mut SelectParameters) -> Parsed<()> {
    match cursor.word("a parameter of SELECT")?.as_str() {
        "CONDSTORE" => parameters.condstore = true,
        "QRESYNC" if parameters.qresync.is_none() => {
            cursor.space()?;
            parameters.qresync = Some(qresync(cursor)?);
        }
        name => return Err(ParseError::new(format!("Unknown parameter {name}."))),
    }
    Ok(())
}

fn qresync(cursor: &mut Cursor<'_>) -> Parsed<QresyncKnown> {
    cursor.open()?;
    let uidvalidity = cursor.number()?;
    cursor.space()?;
    let modseq = cursor.modseq()?;
    cursor.spaces();
    let mut known = QresyncKnown { uidvalidity, modseq, uids: None, numbers: None };
    if cursor.peek().is_some_and(|byte| byte.is_ascii_digit()) {
        known.uids = Some(known_set(cursor)?);
        cursor.spaces();
    }
    if cursor.peek() == Some(b'(') {
        cursor.open()?;
        let numbers = known_set(cursor)?;
        cursor.space()?;
        known.numbers = Some((numbers, known_set(cursor)?));
        cursor.close()?;
    }
    cursor.close()?;
    Ok(known)
}

/// Parses a set without `*` (RFC 7162 §7, `known-uids`).
fn known_set(cursor: &mut Cursor<'_>) -> Parsed<NumberSet> {
    let start = cursor.clone();
    let set = cursor.set()?;
    match start.rest()[..cursor.at() - start.at()].contains(&b'*') {
        true => Err(start.expected("a set without *")),
        false => Ok(set),
    }
}
