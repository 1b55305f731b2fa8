//! NOTIFY (RFC 5465): events of mailboxes that are not selected, and the choice of those of the
//! selected one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::own_changes::OwnChanges;
use super::reply::Reply;
use super::{Done, Session};
use crate::backend::{
    Account, AccountNames, Answer, ListedMailbox, NamesChange, Refusal, StatusValue,
};
use crate::command::{
    EventGroup, FilterIndex, MailboxFilter, MailboxName, NotifyEvents, NotifySet, StatusItem,
    renamed,
};
use crate::fetch::FetchItems;

/// Events that a client has requested; none by default, as after NOTIFY NONE.
#[derive(Default)]
pub(super) struct Notifying {
    /// The groups of mailboxes that are not selected.
    pub(super) groups: Vec<EventGroup>,
    index: FilterIndex,
    pub(super) selected: SelectedEvents,
    /// Names and metadata as the client knows them.
    pub(super) names: Arc<AccountNames>,
    /// `true` if the account has since returned names that were not announced.
    is_behind: bool,
    /// Mailboxes of which messages are followed, as the client knows them.
    states: BTreeMap<String, KnownState>,
    /// Followed mailboxes whose state could not be read when they may have changed.
    unread: VecDeque<String>,
    /// Changes by the session itself.
    pub(super) own: OwnChanges,
}

/// Events of the selected mailbox.
#[derive(Clone, Debug, Default)]
pub(super) struct SelectedEvents {
    /// `true` if expunges are announced between commands.
    pub(super) is_immediate: bool,
    /// MessageNew and MessageExpunge.
    pub(super) messages: bool,
    /// FlagChange.
    pub(super) flags: bool,
    /// Items that are fetched of new messages.
    pub(super) items: Option<FetchItems>,
}

/// State of a mailbox that is not selected, as the client knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct KnownState {
    messages: u64,
    uidnext: u64,
    uidvalidity: u64,
    unseen: u64,
    modseq: u64,
}

/// The items of a notification. Clients without CONDSTORE learn of flags by UNSEEN.
const ITEMS: [StatusItem; 5] = [
    StatusItem::Messages,
    StatusItem::UidNext,
    StatusItem::UidValidity,
    StatusItem::Unseen,
    StatusItem::HighestModSeq,
];

impl KnownState {
    fn of(values: &[(StatusItem, StatusValue)]) -> Self {
        let mut state = Self::default();
        for (item, value) in values {
            let StatusValue::Number(number) = value else { continue };
            match item {
                StatusItem::Messages => state.messages = *number,
                StatusItem::UidNext => state.uidnext = *number,
                StatusItem::UidValidity => state.uidvalidity = *number,
                StatusItem::Unseen => state.unseen = *number,
                StatusItem::HighestModSeq => state.modseq = *number,
                _ => {}
            }
        }
        state
    }

    /// Returns `true` if the difference to an earlier state is one of these events.
    fn has_event(&self, before: &Self, events: &NotifyEvents) -> bool {
        let numbers = |state: &Self| (state.messages, state.uidnext, state.uidvalidity);
        match numbers(self) != numbers(before) {
            true => events.messages,
            false => events.flags && self != before,
        }
    }

    /// Returns `true` if the state differs from an earlier one only by `added` messages.
    fn differs_only_by_added(&self, before: &Self, added: u64) -> bool {
        added > 0
            && self.uidvalidity == before.uidvalidity
            && self.messages == before.messages + added
            && self.uidnext == before.uidnext + added
            && (before.unseen..=before.unseen + added).contains(&self.unseen)
    }
}

impl Notifying {
    fn new(set: NotifySet) -> Self {
        let (selected, groups): (Vec<_>, Vec<_>) =
            set.groups.into_iter().partition(|group| group.filter.is_selected());
        // RFC 5465 §3.1: without a group the selected mailbox has no events.
        let selected = selected.into_iter().next().map(|group| SelectedEvents {
            is_immediate: group.filter == MailboxFilter::Selected,
            messages: group.events.messages,
            flags: group.events.flags,
            items: group.events.items,
        });
        let index = FilterIndex::new(groups.iter().map(|group| &group.filter));
        Self { groups, index, selected: selected.unwrap_or_default(), ..Self::default() }
    }

    /// Returns the events of a mailbox: those of the first group that it belongs to.
    pub(super) fn events(
        &self,
        name: &str,
        is_subscribed: bool,
        separator: char,
    ) -> Option<&NotifyEvents> {
        let group = self.index.first(name, is_subscribed, separator)?;
        Some(&self.groups.get(group)?.events)
    }

    /// Moves the states of mailboxes that the session itself has renamed to their new names, and
    /// returns these.
    fn rename_states(&mut self, separator: char) -> Vec<String> {
        let mut all = Vec::new();
        for (from, to) in self.own.renames() {
            let new_name = |old: &String| Some((old.clone(), renamed(old, from, to, separator)?));
            let below: Vec<(String, String)> = self.states.keys().filter_map(new_name).collect();
            for (old, new) in below {
                let state = self.states.remove(&old);
                all.push(new.clone());
                self.states.extend(state.map(|state| (new, state)));
            }
        }
        all
    }

    /// Returns the mailboxes of which messages are followed.
    fn followed(&self, names: &AccountNames, separator: char) -> Vec<String> {
        let is_followed = |one: &&ListedMailbox| {
            let events = self.events(&one.name, one.is_subscribed, separator);
            one.is_selectable && events.is_some_and(NotifyEvents::has_messages)
        };
        names.mailboxes.iter().filter(is_followed).map(|one| one.name.clone()).collect()
    }
}

impl<A: Account> Session<A> {
    /// Returns `true` if changes are announced between commands: [`Session::announce`] is to be
    /// called when something changes, and now and then.
    pub fn notifies(&self) -> bool {
        self.notifying.as_ref().is_some_and(|notifying| {
            !notifying.groups.is_empty() || notifying.selected.messages || notifying.selected.flags
        })
    }

    /// Returns `true` if no command has begun, so that responses may be sent.
    pub fn is_between_commands(&self) -> bool {
        self.idle_tag.is_none() && self.decoder.is_between_commands()
    }

    /// Replaces the events that are announced; with STATUS, announces the state of all mailboxes.
    /// If the command is refused, the previous events stay in force.
    pub(super) fn notify(&mut self, set: Option<NotifySet>, reply: &mut Reply<'_>) -> Answer<Done> {
        let set = set.unwrap_or_default();
        let status = set.status;
        let mut notifying = Notifying::new(set);
        if notifying.groups.is_empty() {
            self.account.follow(&[])?;
        } else if let Some(change) = self.account.names(false)? {
            let followed = notifying.followed(&change.names, self.account.separator());
            if let Err(refusal) = self.account.follow(&followed) {
                if let Some(before) = &mut self.notifying {
                    before.is_behind = true;
                }
                return Err(refusal);
            }
            notifying.names = change.names;
            for name in followed {
                self.follow_state(&mut notifying, name, status, reply);
            }
        }
        self.notifying = Some(notifying);
        Ok(Done::text("Notify completed"))
    }

    /// Learns the state of a mailbox, and announces it if `tells`.
    fn follow_state(
        &mut self,
        notifying: &mut Notifying,
        name: String,
        tells: bool,
        reply: &mut Reply<'_>,
    ) {
        let mailbox = MailboxName(name);
        let Ok(values) = self.account.status(&mailbox, &ITEMS) else {
            notifying.unread.push_back(mailbox.0.clone());
            notifying.states.insert(mailbox.0, KnownState::default());
            return;
        };
        let state = KnownState::of(&values);
        if tells && !self.is_selected(&mailbox.0) {
            let events = self.events_of(notifying, &mailbox.0);
            let has_flags = events.is_some_and(|events| events.flags);
            self.write_notification(&mailbox, values, has_flags, reply);
        }
        notifying.states.insert(mailbox.0, state);
    }

    pub(super) fn is_selected(&self, name: &str) -> bool {
        self.selected.as_ref().is_some_and(|selected| selected.name.0 == name)
    }

    /// Returns the events of a mailbox by the names that the client knows.
    fn events_of<'n>(&self, notifying: &'n Notifying, name: &str) -> Option<&'n NotifyEvents> {
        let is_subscribed = notifying.names.mailbox(name).is_some_and(|one| one.is_subscribed);
        notifying.events(name, is_subscribed, self.account.separator())
    }

    /// Writes STATUS; its mod-sequence is there for clients that use mod-sequences or want to know
    /// changes of flags (RFC 5465 §3.1).
    fn write_notification(
        &self,
        name: &MailboxName,
        mut values: Vec<(StatusItem, StatusValue)>,
        has_flags: bool,
        reply: &mut Reply<'_>,
    ) {
        let has_modseq = (has_flags || self.enabled.condstore) && self.offers("CONDSTORE");
        values.retain(|(item, _)| has_modseq || *item != StatusItem::HighestModSeq);
        self.write_status(name, &values, reply);
    }

    /// Announces what has happened to mailboxes that are not selected.
    pub(super) fn announce_others(&mut self, reply: &mut Reply<'_>) -> Answer<()> {
        let Some(mut notifying) = self.notifying.take() else { return Ok(()) };
        if notifying.groups.is_empty() {
            notifying.own = OwnChanges::default();
            self.notifying = Some(notifying);
            return Ok(());
        }
        let announced = self.announce_changes(&mut notifying, reply);
        let result = match announced {
            Err(refusal) if refusal.code == Some(Refusal::NOTIFICATION_OVERFLOW) => {
                let text = refusal.text;
                reply.line(format_args!("* OK [{}] {text}", Refusal::NOTIFICATION_OVERFLOW));
                // RFC 5465 §5.8: as after NOTIFY NONE.
                notifying = Notifying::default();
                self.account.follow(&[])
            }
            // A tree that cannot be read now is read again later.
            Ok(()) | Err(_) => Ok(()),
        };
        self.notifying = Some(notifying);
        result
    }

    fn announce_changes(&mut self, notifying: &mut Notifying, reply: &mut Reply<'_>) -> Answer<()> {
        let mut changed = Vec::new();
        let must_compare = notifying.is_behind || notifying.own.has_names();
        if let Some(change) = self.account.names(!must_compare)? {
            self.announce_names(notifying, &change, reply);
            changed = self.follow_names(notifying, change)?;
        }
        changed.extend(self.account.changed());
        // One at a time: it may be locked by another program for long.
        if !notifying.unread.is_empty() && self.account.may_try_again() {
            changed.extend(notifying.unread.pop_front());
        }
        let added = notifying.own.take_all_added();
        changed.extend(added.keys().cloned());
        let mut seen = BTreeSet::new();
        for name in changed.iter().filter(|name| seen.insert(name.as_str())) {
            let added = added.get(name).copied().unwrap_or_default();
            let is_read = self.announce_state(notifying, name, added, reply);
            if !is_read && !notifying.unread.contains(name) {
                notifying.unread.push_back(name.clone());
            }
        }
        Ok(())
    }

    /// Follows the mailboxes of the changed names; returns those that are new, and those that the
    /// session has renamed.
    fn follow_names(
        &mut self,
        notifying: &mut Notifying,
        change: NamesChange,
    ) -> Answer<Vec<String>> {
        let separator = self.account.separator();
        let followed = notifying.followed(&change.names, separator);
        let mut changed = notifying.rename_states(separator);
        notifying.own.clear_names();
        notifying.names = change.names;
        notifying.is_behind = false;
        self.account.follow(&followed)?;
        let names: BTreeSet<&str> = followed.iter().map(String::as_str).collect();
        notifying.states.retain(|name, _| names.contains(name.as_str()));
        notifying.unread.retain(|name| names.contains(name.as_str()));
        let is_new = |name: &&String| !notifying.states.contains_key(*name);
        let new: Vec<String> = followed.iter().filter(is_new).cloned().collect();
        // With this state, an empty mailbox is not announced.
        notifying.states.extend(new.iter().map(|name| (name.clone(), KnownState::default())));
        changed.extend(new);
        Ok(changed)
    }

    /// Announces the state of a mailbox if its group requests the change, and if that is more than
    /// the messages that the session itself has added. Returns `false` if it cannot be read.
    fn announce_state(
        &mut self,
        notifying: &mut Notifying,
        name: &str,
        added: u64,
        reply: &mut Reply<'_>,
    ) -> bool {
        let Some(before) = notifying.states.get(name).copied() else { return true };
        let mailbox = MailboxName(name.to_owned());
        let Ok(values) = self.account.status(&mailbox, &ITEMS) else { return false };
        let state = KnownState::of(&values);
        notifying.states.insert(mailbox.0.clone(), state);
        let Some(events) = self.events_of(notifying, name) else { return true };
        let is_new = before == KnownState::default() && state.messages == 0;
        let is_known =
            is_new || state.differs_only_by_added(&before, added) || self.is_selected(name);
        if !is_known && state.has_event(&before, events) {
            self.write_notification(&mailbox, values, events.flags, reply);
        }
        true
    }

    /// Notes messages that the running command adds to a mailbox.
    pub(super) fn note_added(&mut self, mailbox: &MailboxName, count: usize) {
        if let Some(notifying) = &mut self.notifying {
            notifying.own.note_added(mailbox, count as u64);
        }
    }
}
