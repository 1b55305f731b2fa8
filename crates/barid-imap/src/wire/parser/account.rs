//! Commands about the user and the connection.

use super::cursor::Cursor;
use super::{ParseError, Parsed};
use crate::command::Command;
use crate::limits::{ID_NAME_LEN_MAX, ID_PARAMETERS_MAX, ID_VALUE_LEN_MAX, LIST_LEN_MAX};

/// Parses `"(" [string SP nstring *(SP string SP nstring)] ")" / nil` (RFC 2971 §3.3). Nothing but
/// logs depends on the parameters: those over the limits of the RFC are dropped, and no arguments
/// or a name without value are accepted, as Dovecot does.
pub(super) fn id(cursor: &mut Cursor<'_>) -> Parsed<Command> {
    if cursor.is_end() || cursor.word_is("NIL") {
        return Ok(Command::Id(Vec::new()));
    }
    let mut parameters = cursor.list(false, |cursor| {
        let name = cursor.astring()?;
        cursor.spaces();
        let value = match cursor.peek() {
            Some(b')') => None,
            _ => cursor.nstring()?,
        };
        let value = value.map(|value| shortened(&value, ID_VALUE_LEN_MAX));
        Ok((shortened(&name, ID_NAME_LEN_MAX), value))
    })?;
    parameters.truncate(ID_PARAMETERS_MAX);
    Ok(Command::Id(parameters))
}

fn shortened(bytes: &[u8], max: usize) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(max)]).into_owned()
}

/// Parses `auth-type [SP initial-resp]` (RFC 4959).
pub(super) fn authenticate(cursor: &mut Cursor<'_>) -> Parsed<Command> {
    let mechanism = cursor.word("a mechanism")?;
    cursor.spaces();
    if cursor.is_end() {
        return Ok(Command::Authenticate { mechanism, initial: None });
    }
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let initial = match cursor.take_while(is_base64) {
        b"=" => Vec::new(),
        initial => initial.to_vec(),
    };
    // The text is not repeated: it may be a password.
    let is_end = cursor.end().is_ok();
    if !is_end {
        return Err(ParseError::new("The initial response is not base64."));
    }
    Ok(Command::Authenticate { mechanism, initial: Some(initial) })
}

/// Parses `userid SP password`.
pub(super) fn login(cursor: &mut Cursor<'_>) -> Parsed<Command> {
    let mut arguments = || {
        let user = cursor.astring()?.into_owned();
        cursor.space()?;
        let password = cursor.astring()?.into_owned();
        cursor.end()?;
        Ok(Command::Login { user, password })
    };
    // The text is not repeated: it may be a password.
    arguments().map_err(|_: ParseError| ParseError::new("LOGIN needs a user and a password."))
}

/// Parses `capability *(SP capability)` (RFC 5161).
pub(super) fn enable(cursor: &mut Cursor<'_>) -> Parsed<Command> {
    Ok(Command::Enable(words(cursor, |cursor| cursor.word("the name of an extension"))?))
}

/// Reads items with spaces between them up to the end of the command.
pub(super) fn words<'a, T>(
    cursor: &mut Cursor<'a>,
    item: impl Fn(&mut Cursor<'a>) -> Parsed<T>,
) -> Parsed<Vec<T>> {
    let mut items = vec![item(cursor)?];
    cursor.spaces();
    while !cursor.is_end() {
        if items.len() == LIST_LEN_MAX {
            return Err(ParseError::new("A list is too long."));
        }
        items.push(item(cursor)?);
        if !cursor.is_end() {
            cursor.space()?;
        }
    }
    Ok(items)
}

/// Parses `DEFLATE` (RFC 4978).
pub(super) fn compress(cursor: &mut Cursor<'_>) -> Parsed<Command> {
    match cursor.word("an algorithm")?.as_str() {
        "DEFLATE" => Ok(Command::Compress),
        _ => Err(ParseError { is_no: true, ..ParseError::new("Only DEFLATE is supported.") }),
    }
}

/// Parses `quota-root-name` (RFC 9208).
pub(super) fn get_quota(cursor: &mut Cursor<'_>) -> Parsed<Command> {
    Ok(Command::GetQuota(cursor.text()?))
}

/// Parses `quota-root-name SP "(" [resource-name SP number64 ...] ")"` (RFC 9208).
pub(super) fn set_quota(cursor: &mut Cursor<'_>) -> Parsed<Command> {
    let root = cursor.text()?;
    cursor.space()?;
    let limits = cursor.list(false, |cursor| {
        let name = cursor.word("the name of a resource")?;
        cursor.space()?;
        Ok((name, cursor.number()?))
    })?;
    Ok(Command::SetQuota(root, limits))
}

/// Parses `mailbox SP identifier` (RFC 4314).
pub(super) fn list_rights(cursor: &mut Cursor<'_>) -> Parsed<Command> {
    let mailbox = cursor.mailbox()?;
    cursor.space()?;
    Ok(Command::ListRights(mailbox, cursor.text()?))
}

/// Parses `mailbox SP identifier`, and `SP mod-rights` unless it is DELETEACL (RFC 4314).
pub(super) fn set_acl(cursor: &mut Cursor<'_>, deletes: bool) -> Parsed<Command> {
    let mailbox = cursor.mailbox()?;
    cursor.space()?;
    let identifier = cursor.text()?;
    if deletes {
        return Ok(Command::SetAcl(mailbox, identifier, None));
    }
    cursor.space()?;
    Ok(Command::SetAcl(mailbox, identifier, Some(cursor.text()?)))
}
