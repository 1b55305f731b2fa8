//! NOTIFY (RFC 5465): events of mailboxes that are not selected, and the choice of those of the
//! selected one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::reply::Reply;
use super::{Done, Session};
use crate::backend::{
    Account, AccountNames, Answer, ListedMailbox, MetadataEntries, NamesChange, StatusValue,
};
use crate::command::{
    EventGroup, ListCommand, ListReturn, MailboxFilter, MailboxName, NotifyEvents, NotifySet,
    StatusItem, rest_below,
};
use crate::fetch::FetchItems;

/// Events that a client wants to be told of.
pub(super) struct Notifying {
    /// The groups of mailboxes that are not selected.
    groups: Vec<EventGroup>,
    pub(super) selected: SelectedEvents,
    /// Names and metadata as the client knows them.
    names: Arc<AccountNames>,
    /// Mailboxes of which messages are followed, as the client knows them.
    states: BTreeMap<String, KnownState>,
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
}

impl Notifying {
    /// Returns the events of a mailbox: those of the first group that it belongs to.
    fn events(&self, name: &str, is_subscribed: bool, separator: char) -> Option<&NotifyEvents> {
        let is_in = |group: &&EventGroup| group.filter.matches(name, is_subscribed, separator);
        self.groups.iter().find(is_in).map(|group| &group.events)
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
    pub(super) fn notify(&mut self, set: Option<NotifySet>, reply: &mut Reply<'_>) -> Answer<Done> {
        let (groups, status) = set.map(|set| (set.groups, set.status)).unwrap_or_default();
        let (selected, groups): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|group| group.filter.is_selected());
        // RFC 5465 §3.1: without a group the selected mailbox has no events.
        let selected = selected.into_iter().next().map(|group| SelectedEvents {
            is_immediate: group.filter == MailboxFilter::Selected,
            messages: group.events.messages,
            flags: group.events.flags,
            items: group.events.items,
        });
        let mut notifying = Notifying {
            groups,
            selected: selected.unwrap_or_default(),
            names: Arc::default(),
            states: BTreeMap::new(),
        };
        if notifying.groups.is_empty() {
            self.account.follow(&[])?;
        } else if let Some(change) = self.account.names(false)? {
            let followed = notifying.followed(&change.names, self.account.separator());
            self.account.follow(&followed)?;
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
        let Ok(values) = self.account.status(&mailbox, &ITEMS) else { return };
        let state = KnownState::of(&values);
        if tells && !self.is_selected(&mailbox.0) {
            let events = self.events_of(notifying, &mailbox.0);
            let has_flags = events.is_some_and(|events| events.flags);
            self.write_notification(&mailbox, values, has_flags, reply);
        }
        notifying.states.insert(mailbox.0, state);
    }

    fn is_selected(&self, name: &str) -> bool {
        self.selected.as_ref().is_some_and(|selected| selected.name.0 == name)
    }

    /// Returns the events of a mailbox by the names that the client knows.
    fn events_of<'n>(&self, notifying: &'n Notifying, name: &str) -> Option<&'n NotifyEvents> {
        let mut listed = notifying.names.mailboxes.iter();
        let is_subscribed = listed.any(|one| one.name == name && one.is_subscribed);
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
        let announced = match notifying.groups.is_empty() {
            true => Ok(()),
            false => self.announce_changes(&mut notifying, reply),
        };
        match announced {
            Err(refusal) if refusal.code == Some("NOTIFICATIONOVERFLOW") => {
                reply.line(format_args!("* OK [NOTIFICATIONOVERFLOW] {}", refusal.text));
                notifying.groups.clear();
                notifying.selected = SelectedEvents::default();
                self.account.follow(&[])?;
            }
            // A mailbox or a tree that cannot be read now is looked at again.
            Ok(()) | Err(_) => {}
        }
        self.notifying = Some(notifying);
        Ok(())
    }

    fn announce_changes(&mut self, notifying: &mut Notifying, reply: &mut Reply<'_>) -> Answer<()> {
        if let Some(change) = self.account.names(true)? {
            self.announce_names(notifying, &change, reply);
            let followed = notifying.followed(&change.names, self.account.separator());
            notifying.names = change.names;
            self.account.follow(&followed)?;
            let followed: BTreeSet<String> = followed.into_iter().collect();
            notifying.states.retain(|name, _| followed.contains(name));
            for name in followed {
                if !notifying.states.contains_key(&name) {
                    // An empty mailbox has nothing to be told of.
                    notifying.states.insert(name.clone(), KnownState::default());
                    self.announce_state(notifying, &name, reply);
                }
            }
        }
        for name in self.account.changed() {
            self.announce_state(notifying, &name, reply);
        }
        Ok(())
    }

    /// Announces the state of a mailbox if it has changed as its group says.
    fn announce_state(&mut self, notifying: &mut Notifying, name: &str, reply: &mut Reply<'_>) {
        let Some(before) = notifying.states.get(name).copied() else { return };
        let mailbox = MailboxName(name.to_owned());
        let Ok(values) = self.account.status(&mailbox, &ITEMS) else { return };
        let state = KnownState::of(&values);
        notifying.states.insert(mailbox.0.clone(), state);
        let Some(events) = self.events_of(notifying, name) else { return };
        let is_new = before == KnownState::default() && state.messages == 0;
        let has_event = state.has_event(&before, events);
        if has_event && !is_new && !self.is_selected(name) {
            self.write_notification(&mailbox, values, events.flags, reply);
        }
    }

    /// Announces mailboxes that were created, renamed, removed, subscribed to or not, and metadata.
    fn announce_names(&self, notifying: &Notifying, change: &NamesChange, reply: &mut Reply<'_>) {
        let by_name = |names: &AccountNames| {
            names
                .mailboxes
                .iter()
                .map(|one| (one.name.clone(), one.clone()))
                .collect::<BTreeMap<_, _>>()
        };
        let (before, now) = (by_name(&notifying.names), by_name(&change.names));
        let separator = self.account.separator();
        let exists = |names: &BTreeMap<String, ListedMailbox>, name: &str| {
            names.get(name).is_some_and(|one| one.exists)
        };
        let old_name = |name: &str| {
            let old = change.renames.iter().rev().find_map(|(from, to)| {
                rest_below(name, to, separator).map(|_| format!("{from}{}", &name[to.len()..]))
            });
            old.filter(|old| exists(&before, old) && !exists(&now, old))
        };
        let mut renamed = BTreeSet::new();
        for (name, one) in &now {
            let was_subscribed = before.get(name).is_some_and(|before| before.is_subscribed);
            let is_either = one.is_subscribed || was_subscribed;
            let Some(events) = notifying.events(name, is_either, separator) else { continue };
            let is_new = one.exists && !exists(&before, name);
            let old = old_name(name).filter(|_| is_new);
            if is_new && events.names || one.is_subscribed != was_subscribed && events.subscriptions
            {
                self.write_listed(&list_command(), one, old.as_deref(), reply);
                renamed.extend(old);
            }
        }
        for (name, one) in &before {
            let events = notifying.events(name, one.is_subscribed, separator);
            let Some(events) = events else { continue };
            let is_gone = one.exists && !exists(&now, name);
            let is_dropped = one.is_subscribed && !now.contains_key(name);
            if is_gone && events.names && !renamed.contains(name)
                || is_dropped && events.subscriptions
            {
                let gone = ListedMailbox { name: name.clone(), ..ListedMailbox::default() };
                self.write_listed(&list_command(), &gone, None, reply);
            }
        }
        self.announce_metadata(notifying, &change.names, reply);
    }

    /// Announces the names of entries that have other values (RFC 5464 §4.4.2).
    fn announce_metadata(&self, notifying: &Notifying, now: &AccountNames, reply: &mut Reply<'_>) {
        let before = &notifying.names.metadata;
        let names: BTreeSet<&String> = before.keys().chain(now.metadata.keys()).collect();
        for name in names {
            if before.get(name) == now.metadata.get(name) {
                continue;
            }
            let is_wanted = match name.is_empty() {
                true => notifying.groups.iter().any(|group| group.events.server_metadata),
                false => {
                    let mut listed = now.mailboxes.iter().filter(|one| one.name == *name);
                    listed.next().is_some_and(|one| {
                        let separator = self.account.separator();
                        let events = notifying.events(name, one.is_subscribed, separator);
                        events.is_some_and(|events| events.metadata)
                    })
                }
            };
            let none = MetadataEntries::new();
            let old = before.get(name).unwrap_or(&none);
            let new = now.metadata.get(name).unwrap_or(&none);
            let all: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            let changed = all.into_iter().filter(|entry| old.get(*entry) != new.get(*entry));
            let changed: Vec<&str> = changed.map(String::as_str).collect();
            if is_wanted && !changed.is_empty() {
                reply.push("* METADATA ");
                self.mailbox_name(name, reply);
                reply.line(format_args!(" {}", changed.join(" ")));
            }
        }
    }
}

/// Returns the command whose answer an announced name has the form of.
fn list_command() -> ListCommand {
    let returns = ListReturn { subscribed: true, children: true, ..ListReturn::default() };
    ListCommand { response: "LIST", returns, is_extended: true, ..ListCommand::default() }
}
