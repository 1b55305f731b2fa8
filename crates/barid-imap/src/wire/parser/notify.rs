//! NOTIFY (RFC 5465), and the mailboxes of ESEARCH (RFC 7377).
//!
//! ```text
//! notify      = "NOTIFY" SP ("NONE" / "SET" [SP "STATUS"] 1*(SP event-group))
//! event-group = "(" filter SP ("NONE" / "(" event *(SP event) ")") ")"
//! filter      = "selected" / "selected-delayed" / "inboxes" / "personal" / "subscribed" /
//!               ("subtree" / "subtree-one" / "mailboxes") SP (mailbox / "(" 1*mailbox ")")
//! esearch     = "ESEARCH" [SP "IN" SP "(" filter *(SP filter) ")"] SP search arguments
//! ```

use super::{Cursor, ParseError, Parsed, fetch, search};
use crate::command::{
    Command, EventGroup, MailboxFilter, MailboxName, MultiSearch, NotifyEvents, NotifySet,
};
use crate::fetch::FetchItems;
use crate::limits::LIST_LEN_MAX;

/// The response code for an event that is not supported.
const BAD_EVENT: &str = "BADEVENT (MessageNew MessageExpunge FlagChange MailboxName \
    SubscriptionChange MailboxMetadataChange ServerMetadataChange)";

/// Parses the arguments of NOTIFY.
pub(super) fn notify(cursor: &mut Cursor<'_>) -> Parsed<Command> {
    if cursor.word_is("NONE") {
        return Ok(Command::Notify(None));
    }
    if !cursor.word_is("SET") {
        return Err(cursor.expected("SET or NONE"));
    }
    cursor.space()?;
    let mut set = NotifySet { status: cursor.word_is("STATUS"), groups: Vec::new() };
    if set.status {
        cursor.space()?;
    }
    loop {
        if set.groups.len() == LIST_LEN_MAX {
            return Err(ParseError::new("A list is too long."));
        }
        set.groups.push(group(cursor)?);
        cursor.spaces();
        if cursor.is_end() {
            break;
        }
    }
    let selected = set.groups.iter().filter(|group| group.filter.is_selected());
    match selected.count() {
        0 | 1 => Ok(Command::Notify(Some(set))),
        _ => Err(ParseError::new("The selected mailbox can be named once.")),
    }
}

fn group(cursor: &mut Cursor<'_>) -> Parsed<EventGroup> {
    cursor.open()?;
    let filter = filter(cursor)?;
    if matches!(filter, MailboxFilter::SubtreeOne(_)) {
        return Err(ParseError::new("subtree-one is not possible here."));
    }
    cursor.space()?;
    let mut events = NotifyEvents::default();
    let (mut has_new, mut has_expunge) = (false, false);
    if !cursor.word_is("NONE") {
        let listed = cursor.list(false, |cursor| {
            match cursor.word("an event")?.as_str() {
                "MESSAGENEW" => {
                    has_new = true;
                    events.items = items(cursor)?;
                }
                "MESSAGEEXPUNGE" => has_expunge = true,
                "FLAGCHANGE" => events.flags = true,
                "MAILBOXNAME" => events.names = true,
                "SUBSCRIPTIONCHANGE" => events.subscriptions = true,
                "MAILBOXMETADATACHANGE" => events.metadata = true,
                "SERVERMETADATACHANGE" => events.server_metadata = true,
                name => {
                    let error = ParseError::new(format!("The event {name} is not supported."));
                    return Err(error.with_no(BAD_EVENT));
                }
            }
            Ok(())
        })?;
        if listed.is_empty() {
            return Err(ParseError::new("Events are missing."));
        }
    }
    cursor.close()?;
    events.messages = has_new;
    if has_new != has_expunge || events.flags && !has_new {
        return Err(ParseError::new("MessageNew and MessageExpunge are needed together."));
    }
    let NotifyEvents { names, subscriptions, metadata, server_metadata, .. } = events;
    let is_selected = filter.is_selected();
    if is_selected && (names || subscriptions || metadata || server_metadata) {
        return Err(ParseError::new("Only events of messages are possible here."));
    }
    if !is_selected && events.items.is_some() {
        return Err(ParseError::new("Only the selected mailbox has items of new messages."));
    }
    Ok(EventGroup { filter, events })
}

/// Reads the items of MessageNew, if they are here.
fn items(cursor: &mut Cursor<'_>) -> Parsed<Option<FetchItems>> {
    let mut ahead = cursor.clone();
    ahead.spaces();
    if ahead.peek() != Some(b'(') {
        return Ok(None);
    }
    *cursor = ahead;
    fetch::items(cursor).map(Some)
}

/// Reads mailboxes.
fn filter(cursor: &mut Cursor<'_>) -> Parsed<MailboxFilter> {
    let of: fn(Vec<MailboxName>) -> MailboxFilter = match cursor.word("mailboxes")?.as_str() {
        "SELECTED" => return Ok(MailboxFilter::Selected),
        "SELECTED-DELAYED" => return Ok(MailboxFilter::SelectedDelayed),
        "INBOXES" => return Ok(MailboxFilter::Inboxes),
        "PERSONAL" => return Ok(MailboxFilter::Personal),
        "SUBSCRIBED" => return Ok(MailboxFilter::Subscribed),
        "SUBTREE" => MailboxFilter::Subtree,
        "SUBTREE-ONE" => MailboxFilter::SubtreeOne,
        "MAILBOXES" => MailboxFilter::Mailboxes,
        name => return Err(ParseError::new(format!("Unknown kind of mailboxes {name}."))),
    };
    cursor.space()?;
    let names = cursor.list(true, Cursor::mailbox)?;
    match names.is_empty() {
        true => Err(ParseError::new("Names of mailboxes are missing.")),
        false => Ok(of(names)),
    }
}

/// Parses the arguments of ESEARCH.
pub(super) fn multi_search(cursor: &mut Cursor<'_>) -> Parsed<Command> {
    let mut filters = vec![MailboxFilter::Selected];
    if cursor.word_is("IN") {
        cursor.space()?;
        filters = cursor.list(false, filter)?;
        if filters.is_empty() || filters.contains(&MailboxFilter::SelectedDelayed) {
            return Err(ParseError::new("The mailboxes are not valid."));
        }
        cursor.space()?;
    }
    let search = search::arguments(cursor, true)?;
    let is_only_selected = filters.iter().all(MailboxFilter::is_selected);
    if !is_only_selected && (search.update || search.returns.is_some_and(|returns| returns.save)) {
        return Err(ParseError::new("SAVE and UPDATE need the selected mailbox alone."));
    }
    Ok(Command::MultiSearch(MultiSearch { filters, search }))
}
