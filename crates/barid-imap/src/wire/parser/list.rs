//! LIST, LSUB, XLIST and STATUS (RFC 9051 §6.3.9 and §6.3.11, RFC 5258, RFC 5819, RFC 6154,
//! RFC 8440, RFC 9590).
//!
//! ```text
//! list   = "LIST" [SP "(" [selection-option *(SP selection-option)] ")"] SP reference SP
//!          (list-mailbox / "(" list-mailbox *(SP list-mailbox) ")")
//!          [SP "RETURN" SP "(" [return-option *(SP return-option)] ")"]
//! status = "STATUS" SP mailbox SP "(" status-att *(SP status-att) ")"
//! ```

use super::mailbox::entry;
use super::{Cursor, ParseError, Parsed};
use crate::command::{Command, ListCommand, ListReturn, ListSelection, StatusItem};

/// Parses the arguments of LIST, LSUB or XLIST; only LIST has the extended syntax.
pub(super) fn list(cursor: &mut Cursor<'_>, response: &'static str) -> Parsed<Command> {
    let may_extend = response == "LIST";
    let mut list = ListCommand { response, ..ListCommand::default() };
    if may_extend && cursor.peek() == Some(b'(') {
        list.is_extended = true;
        cursor.list(false, |cursor| selection(cursor, &mut list.selection))?;
        let ListSelection { subscribed, special_use, recursive_match, .. } = list.selection;
        if recursive_match && !subscribed && !special_use {
            return Err(ParseError::new("RECURSIVEMATCH needs another selection option."));
        }
        cursor.space()?;
    }
    list.reference = cursor.reference()?;
    cursor.space()?;
    list.is_extended |= may_extend && cursor.peek() == Some(b'(');
    list.patterns = match may_extend {
        true => cursor.list(true, Cursor::list_mailbox)?,
        false => vec![cursor.list_mailbox()?],
    };
    if list.patterns.is_empty() {
        return Err(ParseError::new("LIST needs a pattern."));
    }
    cursor.spaces();
    if may_extend && cursor.word_is("RETURN") {
        list.is_extended = true;
        cursor.space()?;
        cursor.list(false, |cursor| return_option(cursor, &mut list.returns))?;
    }
    Ok(Command::List(list))
}

fn selection(cursor: &mut Cursor<'_>, selection: &mut ListSelection) -> Parsed<()> {
    match cursor.word("a selection option")?.as_str() {
        "SUBSCRIBED" => selection.subscribed = true,
        "REMOTE" => selection.remote = true,
        "RECURSIVEMATCH" => selection.recursive_match = true,
        "SPECIAL-USE" => selection.special_use = true,
        name => return Err(ParseError::new(format!("Unknown selection option {name}."))),
    }
    Ok(())
}

fn return_option(cursor: &mut Cursor<'_>, returns: &mut ListReturn) -> Parsed<()> {
    match cursor.word("a return option")?.as_str() {
        "SUBSCRIBED" => returns.subscribed = true,
        "CHILDREN" => returns.children = true,
        "SPECIAL-USE" => returns.special_use = true,
        "MYRIGHTS" => returns.my_rights = true,
        "STATUS" => {
            cursor.space()?;
            returns.status = status_items(cursor)?;
        }
        "METADATA" => {
            cursor.space()?;
            returns.metadata = cursor.list(false, entry)?;
        }
        name => return Err(ParseError::new(format!("Unknown return option {name}."))),
    }
    Ok(())
}

/// Parses the arguments of STATUS.
pub(super) fn status(cursor: &mut Cursor<'_>) -> Parsed<Command> {
    let mailbox = cursor.mailbox()?;
    cursor.space()?;
    Ok(Command::Status(mailbox, status_items(cursor)?))
}

/// Parses the items, each of which is taken once.
fn status_items(cursor: &mut Cursor<'_>) -> Parsed<Vec<StatusItem>> {
    let mut items = Vec::new();
    cursor.list(false, |cursor| {
        let item = status_item(&cursor.word("an item of STATUS")?)?;
        if !items.contains(&item) {
            items.push(item);
        }
        Ok(())
    })?;
    match items.is_empty() {
        true => Err(ParseError::new("STATUS needs items.")),
        false => Ok(items),
    }
}

fn status_item(name: &str) -> Parsed<StatusItem> {
    Ok(match name {
        "MESSAGES" => StatusItem::Messages,
        "RECENT" => StatusItem::Recent,
        "UIDNEXT" => StatusItem::UidNext,
        "UIDVALIDITY" => StatusItem::UidValidity,
        "UNSEEN" => StatusItem::Unseen,
        "DELETED" => StatusItem::Deleted,
        "SIZE" => StatusItem::Size,
        "HIGHESTMODSEQ" => StatusItem::HighestModSeq,
        "APPENDLIMIT" => StatusItem::AppendLimit,
        "MAILBOXID" => StatusItem::MailboxId,
        "DELETED-STORAGE" => StatusItem::DeletedStorage,
        _ => return Err(ParseError::new(format!("Unknown item {name}."))),
    })
}
