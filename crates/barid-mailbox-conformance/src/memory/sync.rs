//! Changes: a new head is made from the current one, and swapped in.

use barid_mailbox::{
    ChangeSet, Error, FlagChange, MovedMessage, NewMessage, Result, SyncContext, SyncReport,
    SyncedState,
};
use barid_types::{Flag, InternalDate, Keyword, KeywordMask, KeywordTable, Uid};

use super::store::{BodyName, Head, HeadMessage, ObjectStore};
use super::{NAME, stamp_of};

/// The highest UID that a message is given on request.
const UID_REQUESTED_MAX: u32 = u32::MAX - (1 << 29);
/// Internal date of messages that bring none: 2025-06-15.
const NOW: InternalDate = InternalDate { unix_seconds: 1_750_000_000, zone_minutes: 0 };

/// Makes a change. **Commit point:** the swap of the head. A crash before it leaves the old head,
/// and bodies that no head names.
pub(super) fn sync(
    store: &ObjectStore,
    changes: &ChangeSet,
    appends: &[NewMessage<'_>],
    context: &mut SyncContext<'_>,
) -> Result<SyncReport> {
    let bodies = match context.dry_run {
        true => vec![BodyName::from(Vec::new()); appends.len()],
        false => put_all(store, appends)?,
    };
    loop {
        let head = store.head();
        if context.known.uidvalidity() != Some(head.uidvalidity) {
            return Err(Error::Changed { path: NAME.into() });
        }
        let mut next = Next {
            head: Head { version: head.version + 1, ..(*head).clone() },
            report: SyncReport::default(),
        };
        let expunged = next.change(changes)?;
        next.append(appends, &bodies)?;
        let Next { head: next, mut report } = next;
        if context.dry_run {
            return Ok(report);
        }
        // A cache can follow from the head that it knows, if no message is new.
        let is_known = context.known.stamp().is_some_and(|known| known.is_same(&stamp_of(&head)));
        if is_known && appends.is_empty() {
            report.cache = Some(report_changed(&head, &next, context));
        }
        // Otherwise another writer was faster, and the change is made in its head.
        if store.swap_head(next) {
            expunged.iter().for_each(|name| store.remove(name));
            return Ok(report);
        }
    }
}

/// Reports the messages with other flags or keywords; returns the state that a cache then has.
fn report_changed(before: &Head, next: &Head, context: &mut SyncContext<'_>) -> SyncedState {
    let mut old = before.messages.iter();
    for &HeadMessage { uid, flags, keywords, .. } in &next.messages {
        let Some(old) = old.find(|old| old.uid == uid) else { break };
        if let (Some(moved), true) =
            (&mut context.moved, (old.flags, old.keywords) != (flags, keywords))
        {
            moved(&MovedMessage { uid, flags, keywords, location: None });
        }
    }
    let stamp = stamp_of(next);
    let keywords = next.keywords.clone();
    SyncedState { stamp, stamp_after: stamp, state: Vec::new(), keywords }
}

/// Stores the bodies of new messages.
fn put_all(store: &ObjectStore, appends: &[NewMessage<'_>]) -> Result<Vec<BodyName>> {
    let put = |message: &NewMessage<'_>| {
        let mut bytes = message.bytes.to_vec();
        message.read_rest(&mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(store.put(bytes))
    };
    appends.iter().map(put).collect()
}

/// The next head, and the report of the change that makes it.
struct Next {
    head: Head,
    report: SyncReport,
}

impl Next {
    /// Changes flags and expunges; returns the names of the expunged bodies.
    fn change(&mut self, changes: &ChangeSet) -> Result<Vec<BodyName>> {
        for keyword in &changes.keywords {
            slot(&mut self.head.keywords, keyword)?;
        }
        for (uid, change) in changes.flags.iter() {
            match self.index(uid) {
                Some(at) => self.flag(at, change)?,
                None => self.report.gone.push(uid),
            }
        }
        if changes.drop_recent {
            let messages = self.head.messages.iter_mut();
            messages.for_each(|message| message.flags = message.flags.without(Flag::Recent));
        }
        let mut names = Vec::with_capacity(changes.expunge.len());
        for uid in &changes.expunge {
            match self.index(*uid) {
                Some(at) => {
                    names.push(self.head.messages.remove(at).body);
                    self.report.expunged.push(*uid);
                    self.report.figures.messages_expunged += 1;
                }
                None => self.report.gone.push(*uid),
            }
        }
        self.report.gone.sort_unstable();
        Ok(names)
    }

    fn flag(&mut self, at: usize, change: &FlagChange) -> Result<()> {
        let add = mask(&mut self.head.keywords, &change.add_keywords)?;
        let remove = mask(&mut self.head.keywords, &change.remove_keywords)?;
        let message = &mut self.head.messages[at];
        message.flags = change.add.iter().fold(message.flags, |flags, flag| flags.with(flag));
        message.flags = change.remove.iter().fold(message.flags, |flags, flag| flags.without(flag));
        message.keywords.0 = (message.keywords.0 | add.0) & !remove.0;
        self.report.figures.messages_written += 1;
        Ok(())
    }

    fn append(&mut self, appends: &[NewMessage<'_>], bodies: &[BodyName]) -> Result<()> {
        for (message, body) in appends.iter().zip(bodies) {
            let uid = self.next_uid(message)?;
            let keywords = mask(&mut self.head.keywords, &message.keywords)?;
            self.head.messages.push(HeadMessage {
                uid,
                body: BodyName::clone(body),
                size: message.size(),
                date: message.internal_date.unwrap_or(NOW),
                flags: message.flags.with(Flag::Recent),
                keywords,
            });
            self.report.appended.push(Some(uid));
            self.report.figures.bytes_appended += message.size();
        }
        Ok(())
    }

    /// Gives a UID: the requested one if it is free and not too high, or the next one.
    fn next_uid(&mut self, message: &NewMessage<'_>) -> Result<Uid> {
        let next = self.head.uidnext.get();
        let requested = message.uid.filter(|uid| (next..=UID_REQUESTED_MAX).contains(&uid.get()));
        let uid = requested.unwrap_or(self.head.uidnext);
        let reserved = message.uidnext.filter(|uid| uid.get() <= UID_REQUESTED_MAX);
        let what = "all UIDs are given out";
        let above = uid.next().ok_or_else(|| Error::Unsupported { path: NAME.into(), what })?;
        self.head.uidnext = reserved.map_or(above, |reserved| reserved.max(above));
        Ok(uid)
    }

    fn index(&self, uid: Uid) -> Option<usize> {
        self.head.messages.binary_search_by_key(&uid, |message| message.uid).ok()
    }
}

/// Returns the bits of keywords, which get slots.
fn mask(table: &mut KeywordTable, keywords: &[Keyword]) -> Result<KeywordMask> {
    let mut bits = 0;
    for keyword in keywords {
        bits |= 1 << slot(table, keyword)?;
    }
    Ok(KeywordMask(bits))
}

fn slot(table: &mut KeywordTable, keyword: &Keyword) -> Result<u32> {
    let what = "the storage has no slot left for a keyword";
    table.intern(keyword).map_err(|_| Error::Unsupported { path: NAME.into(), what })
}
