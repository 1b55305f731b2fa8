//! NOTIFY (RFC 5465): mailboxes that were created, renamed, removed, subscribed or unsubscribed,
//! and changed metadata.

use std::collections::BTreeSet;

use super::Session;
use super::notify::Notifying;
use super::own_changes::AnnouncedState;
use super::reply::Reply;
use crate::backend::{Account, AccountNames, ListedMailbox, MetadataEntries, NamesChange};
use crate::command::{ListCommand, ListReturn, renamed};

impl<A: Account> Session<A> {
    /// Announces the names, subscriptions and metadata that have changed, except where the session
    /// itself has changed them.
    pub(super) fn announce_names(
        &self,
        notifying: &Notifying,
        change: &NamesChange,
        reply: &mut Reply<'_>,
    ) {
        let separator = self.account.separator();
        let (before, now) = (&*notifying.names, &*change.names);
        let known = notifying.own.known_names(before, now, separator);
        let state_before = |name: &str| {
            known.get(name).copied().unwrap_or_else(|| AnnouncedState::of(before, name))
        };
        let old_name = |name: &str| {
            let mut renames = change.renames.iter().rev();
            let old = renames.find_map(|(from, to)| renamed(name, to, from, separator));
            old.filter(|old| state_before(old).exists && !AnnouncedState::of(now, old).exists)
        };
        let mut old_names = BTreeSet::new();
        for one in &now.mailboxes {
            let name = one.name.as_str();
            let before = state_before(name);
            let is_new = one.exists && !before.exists;
            let is_other = one.is_subscribed != before.is_subscribed;
            if !is_new && !is_other {
                continue;
            }
            let is_either = one.is_subscribed || before.is_subscribed;
            let Some(events) = notifying.events(name, is_either, separator) else { continue };
            if is_new && events.names || is_other && events.subscriptions {
                let old = if is_new { old_name(name) } else { None };
                self.write_listed(&list_command(), one, old.as_deref(), reply);
                old_names.extend(old);
            }
        }
        let listed = before.mailboxes.iter().map(|one| one.name.as_str());
        let own = known.keys().map(String::as_str).filter(|name| before.mailbox(name).is_none());
        for name in listed.chain(own) {
            let (before, after) = (state_before(name), AnnouncedState::of(now, name));
            let is_gone = before.exists && !after.exists;
            let is_dropped = before.is_subscribed && now.mailbox(name).is_none();
            if !is_gone && !is_dropped {
                continue;
            }
            let events = notifying.events(name, before.is_subscribed, separator);
            let Some(events) = events else { continue };
            if is_gone && events.names && !old_names.contains(name)
                || is_dropped && events.subscriptions
            {
                let is_subscribed = after.is_subscribed;
                let gone = ListedMailbox { name: name.to_owned(), is_subscribed, ..<_>::default() };
                self.write_listed(&list_command(), &gone, None, reply);
            }
        }
        self.announce_metadata(notifying, now, reply);
    }

    /// Announces the metadata entries whose values have changed (RFC 5464 §4.4.2).
    fn announce_metadata(&self, notifying: &Notifying, now: &AccountNames, reply: &mut Reply<'_>) {
        let separator = self.account.separator();
        let before = &notifying.names.metadata;
        if *before == now.metadata {
            return;
        }
        let none = MetadataEntries::new();
        let names: BTreeSet<&String> = before.keys().chain(now.metadata.keys()).collect();
        for name in names {
            let old = before_rename(notifying, name, separator);
            let old = before.get(old.as_deref().unwrap_or(name)).unwrap_or(&none);
            let new = now.metadata.get(name).unwrap_or(&none);
            if old == new {
                continue;
            }
            let is_wanted = match name.is_empty() {
                true => notifying.groups.iter().any(|group| group.events.server_metadata),
                false => now.mailbox(name).filter(|one| one.exists).is_some_and(|one| {
                    let events = notifying.events(name, one.is_subscribed, separator);
                    events.is_some_and(|events| events.metadata)
                }),
            };
            let is_other = |entry: &&String| {
                let value = new.get(*entry).map(Vec::as_slice);
                old.get(*entry).map(Vec::as_slice) != value
                    && !notifying.own.has_set(name, entry, value)
            };
            let all: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            let changed: Vec<&str> = all.into_iter().filter(is_other).map(String::as_str).collect();
            if is_wanted && !changed.is_empty() {
                reply.push("* METADATA ");
                self.mailbox_name(name, reply);
                reply.line(format_args!(" {}", changed.join(" ")));
            }
        }
    }
}

/// Returns the name that a mailbox had before the session renamed it.
fn before_rename(notifying: &Notifying, name: &str, separator: char) -> Option<String> {
    let mut old: Option<String> = None;
    for (from, to) in notifying.own.renames().rev() {
        let name = old.as_deref().unwrap_or(name);
        old = renamed(name, to, from, separator).or(old);
    }
    old
}

/// Returns the command whose response format is used to announce a name.
fn list_command() -> ListCommand {
    let returns = ListReturn { subscribed: true, children: true, ..ListReturn::default() };
    ListCommand { response: "LIST", returns, is_extended: true, ..ListCommand::default() }
}
