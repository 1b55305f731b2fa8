//! FETCH (RFC 9051 §6.4.5, RFC 7162 §3.1.4).

use barid_types::{Flag, ModSeq, Uid, UidSet};

use super::number::number_in;
use super::reply::Reply;
use super::select::{Selected, intersection, write_vanished};
use super::{Done, Session};
use crate::backend::StoreRequest;
use crate::backend::{Account, Answer, FetchStyle, Fetched, MailView, Mailbox, Refusal};
use crate::command::{FetchCommand, FlagList, MessageSet, StoreHow};
use crate::fetch::{FetchItem, FetchItems};

impl<A: Account> Session<A> {
    pub(super) fn fetch(&mut self, command: &FetchCommand, reply: &mut Reply<'_>) -> Answer<Done> {
        self.selected_mut()?.is_uid_command = command.set.is_uid();
        let asks_modseq = command.items.has(&FetchItem::ModSeq);
        if asks_modseq || command.changed_since.is_some() {
            self.enable_condstore(reply)?;
        }
        if command.vanished && !(self.enabled.qresync && command.set.is_uid()) {
            return Err(Refusal::bad("VANISHED needs UID FETCH, QRESYNC and CHANGEDSINCE"));
        }
        let saved = std::mem::take(&mut self.saved);
        let uids = self.selected_mut()?.uids_of_set(&command.set, &saved);
        self.saved = saved;
        let mut uids = uids?;
        let mut items = command.items.clone();
        if command.set.is_uid() && !self.enabled.uid_only {
            items = items.with_uid();
        }
        if let Some(since) = command.changed_since {
            uids = self.changed_since(since, uids, command, reply)?;
            items = items.with_modseq();
        }
        if let Some(range) = command.partial {
            self.check_partial(range)?;
            uids = super::search::part_of(&uids, range.0, range.1).to_vec();
        }
        uids = self.limited(uids);
        let seen = self.mark_seen(&uids, &items, reply)?;
        if !seen.is_empty() && self.enabled.condstore {
            items = items.with_modseq();
        }
        let fetched = self.write_fetched(&self.in_order(&uids), &items, reply)?;
        if !items.has(&FetchItem::Flags) {
            self.write_flag_changes(&seen, false, reply)?;
        }
        finish(&fetched)
    }

    pub(super) fn write_fetched(
        &mut self,
        uids: &[Uid],
        items: &FetchItems,
        reply: &mut Reply<'_>,
    ) -> Answer<Fetched> {
        let utf8 = self.enabled.utf8 || self.enabled.rev2;
        let uid_only = self.enabled.uid_only;
        let Some(selected) = &self.selected else { return Ok(Fetched::default()) };
        let Selected { newest, numbers, recent, has_hidden_expunges, .. } = selected;
        let number_of = |uid, row| match has_hidden_expunges {
            true => number_in(numbers, uid).unwrap_or(0),
            false => row + 1,
        };
        let is_recent = |uid| recent.contains(uid);
        let style = FetchStyle { number_of: &number_of, is_recent: &is_recent, uid_only, utf8 };
        let mut fetched = newest.fetch(uids, items, &style, reply.output())?;
        let are_known = !numbers.is_listed() || items.are_marks();
        if !fetched.gone.is_empty() && *has_hidden_expunges && are_known {
            // Gone messages are fetched as far as they are known.
            let style = FetchStyle { number_of: &|_, row| row + 1, ..style };
            let gone = std::mem::take(&mut fetched.gone);
            let older = numbers.fetch(&gone, items, &style, reply.output())?;
            fetched.gone = older.gone;
            fetched.unreadable.extend(older.unreadable);
            fetched.unknown_encoding.extend(older.unknown_encoding);
        }
        Ok(fetched)
    }

    /// Leaves the messages that changed since a mod-sequence, and reports the vanished ones if that
    /// is requested.
    fn changed_since(
        &mut self,
        since: u64,
        uids: Vec<Uid>,
        command: &FetchCommand,
        reply: &mut Reply<'_>,
    ) -> Answer<Vec<Uid>> {
        let Some(since) = ModSeq::new(since) else { return Ok(Vec::new()) };
        let selected = self.selected_mut()?;
        let changes = selected.newest.changes_since_modseq(since)?;
        if command.vanished
            && let MessageSet::Uids(set) = &command.set
        {
            let uidnext = selected.newest.numbers()?.uidnext.get();
            let ranges = set.resolve(uidnext.saturating_sub(1).max(1));
            write_vanished(&intersection(&changes.vanished, &ranges), true, reply);
        }
        let changed: UidSet = changes.changed.iter().map(|(uid, _)| *uid).collect();
        Ok(uids.into_iter().filter(|uid| changed.contains(*uid)).collect())
    }

    /// Sets \Seen where the items ask for a text; returns the messages that did not have it.
    fn mark_seen(
        &mut self,
        uids: &[Uid],
        items: &FetchItems,
        reply: &mut Reply<'_>,
    ) -> Answer<Vec<Uid>> {
        let Some(selected) = &mut self.selected else { return Ok(Vec::new()) };
        if !items.sets_seen() || selected.read_only {
            return Ok(Vec::new());
        }
        let flags = selected.newest.flags_of(uids)?;
        let unseen = flags.iter().filter(|message| !message.flags.contains(Flag::Seen));
        let unseen: Vec<Uid> = unseen.map(|message| message.uid).collect();
        if unseen.is_empty() {
            return Ok(unseen);
        }
        let mut list = FlagList::default();
        list.add(Flag::Seen);
        let (how, flags) = (StoreHow::Add, list);
        let request = StoreRequest { uids: &unseen, how, flags, unchanged_since: None };
        selected.mailbox.store(&request)?;
        let now = selected.mailbox.view();
        self.announce_view(now, false, &unseen, reply)?;
        Ok(unseen)
    }
}

/// Returns the completion of a fetch.
fn finish(fetched: &Fetched) -> Answer<Done> {
    if let Some((uid, error)) = fetched.unreadable.first() {
        let count = fetched.unreadable.len();
        let text = format!("{count} messages cannot be read; UID {uid}: {error}");
        return Err(Refusal::new("SERVERBUG", text));
    }
    if !fetched.unknown_encoding.is_empty() {
        return Err(Refusal::new("UNKNOWN-CTE", "Unknown Content-Transfer-Encoding"));
    }
    if !fetched.gone.is_empty() {
        return Err(Refusal::new("EXPUNGEISSUED", "Some of the messages no longer exist"));
    }
    Ok(Done::text("Fetch completed"))
}
