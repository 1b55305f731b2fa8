//! Finding the message of a pending change (docs/protocol.md, "Pending changes").
//!
//! A message is matched by UID and hash; otherwise, because another program may have written the
//! mailbox anew in another order, by hash and ordinal. For an expunge its body must match, too.

use std::collections::HashMap;

use barid_cache::Snapshot;
use barid_state::{MessageKey, PendingChange, PendingKind};
use barid_types::Uid;

use crate::Result;

/// The ordinal of a message that was not counted.
pub(crate) const ORDINAL_UNKNOWN: u32 = u32::MAX;

/// The message that a pending change refers to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// This message.
    Message(Uid),
    /// No message: it is gone.
    Gone,
    /// One of several messages, or perhaps none of them.
    Ambiguous,
}

/// Returns the hash of the body of a message; only expunges need it.
pub(crate) type BodyHash<'a> = dyn FnMut(Uid) -> Result<u64> + 'a;

/// Finds the message of every change.
///
/// Costs two blocks of the cache per change; if one is not found under its UID, also a walk over
/// all rows, once.
pub(crate) fn find_all<'c>(
    snapshot: &Snapshot,
    changes: impl Iterator<Item = &'c PendingChange> + Clone,
    body_hash: &mut BodyHash<'_>,
) -> Result<Vec<Match>> {
    let mut found: Vec<Option<Match>> = Vec::new();
    let mut wanted: HashMap<MessageKey, Vec<Uid>> = HashMap::new();
    for change in changes.clone() {
        let by_uid = by_uid(snapshot, change)?;
        if !by_uid {
            wanted.entry(change.key).or_default();
        }
        found.push(by_uid.then_some(Match::Message(change.uid)));
    }
    if !wanted.is_empty() {
        snapshot.cores(0..snapshot.len(), &mut |_, core| {
            if let Some(equals) = wanted.get_mut(&core.key) {
                equals.push(core.uid);
            }
        })?;
    }
    let mut matches = Vec::with_capacity(found.len());
    for (change, found) in changes.zip(found) {
        let equals = wanted.get(&change.key).map(Vec::as_slice).unwrap_or_default();
        let found = found.unwrap_or_else(|| by_ordinal(change, equals));
        matches.push(match change.kind {
            PendingKind::Flags(_) => found,
            PendingKind::Expunge => with_body(change, found, equals, body_hash)?,
        });
    }
    Ok(matches)
}

fn by_uid(snapshot: &Snapshot, change: &PendingChange) -> Result<bool> {
    if snapshot.meta().uidvalidity != change.uidvalidity {
        return Ok(false);
    }
    let Some(row) = snapshot.row_of_uid(change.uid)? else { return Ok(false) };
    Ok(snapshot.core(row)?.key == change.key)
}

fn by_ordinal(change: &PendingChange, equals: &[Uid]) -> Match {
    match (equals, change.ordinal) {
        ([], _) => Match::Gone,
        ([one], 0 | ORDINAL_UNKNOWN) => Match::Message(*one),
        (equals, ordinal) => match equals.get(ordinal as usize) {
            Some(uid) => Match::Message(*uid),
            None => Match::Ambiguous,
        },
    }
}

/// Restricts a match to messages with the same body.
fn with_body(
    change: &PendingChange,
    found: Match,
    equals: &[Uid],
    body_hash: &mut BodyHash<'_>,
) -> Result<Match> {
    let mut is_same = |uid: Uid| -> Result<bool> {
        Ok(change.body_hash != 0 && body_hash(uid)? == change.body_hash)
    };
    match found {
        Match::Message(uid) if is_same(uid)? => return Ok(found),
        Match::Gone => return Ok(found),
        _ => {}
    }
    for uid in equals {
        if is_same(*uid)? {
            return Ok(Match::Ambiguous);
        }
    }
    // Another message has this header now; it must not be expunged.
    Ok(Match::Gone)
}

/// Returns the number of messages before `row` with the key `key`; [`ORDINAL_UNKNOWN`] for rows
/// from [`crate::limits::ORDINAL_ROWS_MAX`] on.
pub(crate) fn ordinal(snapshot: &Snapshot, row: u32, key: MessageKey) -> Result<u32> {
    if row >= crate::limits::ORDINAL_ROWS_MAX {
        return Ok(ORDINAL_UNKNOWN);
    }
    let mut count = 0;
    snapshot.cores(0..row, &mut |_, core| count += u32::from(core.key == key))?;
    Ok(count)
}
