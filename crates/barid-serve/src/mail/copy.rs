//! Copying messages between mailboxes, all or none.
//!
//! A message is read from its mailbox while it is written to the other one, or linked between two
//! Maildirs. Where that fails, because the message has moved meanwhile or both are one file, and
//! where two such copies could wait for each other, the messages are collected in a spool first.

use std::sync::Arc;

use barid::{Cancel, Flag, ReadAs, SharedMailbox, Uid, View, ViewMessage};
use barid_imap::backend::{Answer, Appended, Copied, Refusal};

use super::append::{Complete, Received, Rest, Spool, finish_all};
use super::refusal::refused;
use super::user::{StoredMessages, UserMail};

/// Copies messages to the end of another mailbox, all or none. With `is_move` they are removed from
/// `source` afterwards, and need no room in the quota.
pub(crate) fn copy(
    user: &UserMail,
    source: &View,
    uids: &[Uid],
    (target, is_move): (&SharedMailbox, bool),
    cancel: &Cancel,
) -> Answer<Copied> {
    let appended = match streamed(user, source, uids, (target, is_move), cancel)? {
        Some(appended) => appended,
        None => {
            let messages = collected(user, source, uids)?;
            let messages = StoredMessages { messages, is_alone: false, is_move };
            user.store(target, messages, cancel)?
        }
    };
    // Without all UIDs there are no pairs.
    let is_known = appended.uids.len() == uids.len();
    Ok(Copied {
        uidvalidity: is_known.then_some(appended.uidvalidity),
        from: uids.to_vec(),
        to: appended.uids,
        not_removed: None,
    })
}

/// Copies messages that are read while they are written; `None` if they cannot be.
fn streamed(
    user: &UserMail,
    source: &View,
    uids: &[Uid],
    (target, is_move): (&SharedMailbox, bool),
    cancel: &Cancel,
) -> Answer<Option<Appended>> {
    let is_file = !source.format().has_message_files();
    let (from, to) = (source.id(), target.view().id());
    // A file cannot be read further while it is written.
    let turn = if is_file && from != to { user.streams.begin(from, to) } else { None };
    if is_file && turn.is_none() {
        return Ok(None);
    }
    let messages = match source.messages_to_append(uids) {
        Ok(messages) => messages.into_iter().map(Arc::new).collect::<Vec<_>>(),
        Err(barid::Error::Mailbox(_) | barid::Error::NoSuchMessage { .. }) => return Ok(None),
        Err(error) => return Err(refused(error)),
    };
    let complete = |message: &Arc<ViewMessage>| Complete {
        bytes: Vec::new(),
        rest: Some(Arc::clone(message) as Rest),
        flags: message.flags,
        keywords: message.keywords.clone(),
        internal_date: Some(message.internal_date),
    };
    let job = messages.iter().map(complete).collect();
    let job = StoredMessages { messages: job, is_alone: true, is_move };
    match user.store(target, job, cancel) {
        Err(_) if messages.iter().any(|message| message.has_failed()) => Ok(None),
        appended => appended.map(Some),
    }
}

/// Reads messages, each of which is followed if it has moved, into a spool.
fn collected(user: &UserMail, source: &View, uids: &[Uid]) -> Answer<Vec<Complete>> {
    let marks = source.marks_of(uids).map_err(refused)?;
    if marks.len() != uids.len() {
        return Err(Refusal::new("EXPUNGEISSUED", "Some of the messages no longer exist"));
    }
    let mut spool = Spool::new(Arc::clone(&user.vfs), &user.spool_dir);
    let mut messages = Vec::with_capacity(uids.len());
    for marks in &marks {
        let row = source.row_of(marks.uid).map_err(refused)?.unwrap_or_default();
        let mut date = None;
        source
            .summaries(&[row], &mut |summary| {
                date = Some(summary.internal_date);
                false
            })
            .map_err(refused)?;
        let keywords = source.keywords().select(marks.keywords).cloned().collect();
        let flags = marks.flags.without(Flag::Recent);
        let mut message = Received::with(flags, keywords, date);
        let mut result = Ok(());
        let read = source.read_pieces(marks.uid, ReadAs::Message, &mut |piece| {
            result = message.push_exact(piece, &mut spool);
            result.is_ok()
        });
        read.map_err(refused)?;
        result?;
        message.end(&mut spool)?;
        messages.push(message);
    }
    finish_all(messages, &spool)
}
