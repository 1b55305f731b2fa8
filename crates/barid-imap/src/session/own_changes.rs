//! Changes that a session itself makes, which NOTIFY does not report to its client (RFC 5465 §5).

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::backend::AccountNames;
use crate::command::{Command, MailboxName, renamed};
use crate::limits::{OWN_CHANGES_MAX, OWN_RENAMES_MAX};

/// Changes by the session since it last announced events.
#[derive(Default)]
pub(super) struct OwnChanges {
    names: Vec<OwnNameChange>,
    /// Entries of metadata, by mailbox and name in lower case, with the hash of the new value.
    metadata: BTreeMap<(String, String), Option<u64>>,
    /// Number of messages added to each mailbox.
    added: BTreeMap<String, u64>,
}

/// A change of names or subscriptions.
#[derive(Clone, Debug)]
enum OwnNameChange {
    Created(String),
    Deleted(String),
    Renamed(String, String),
    Subscribed(String, bool),
}

/// A value of metadata that was set: mailbox and entry, with the hash of the value.
type OwnEntry = ((String, String), Option<u64>);

/// A change that a command makes if it succeeds.
pub(super) struct OwnChange(Change);

enum Change {
    Name(OwnNameChange),
    Metadata(Vec<OwnEntry>),
}

impl OwnChange {
    /// Returns the change of names, subscriptions or metadata that a command makes.
    pub(super) fn of(command: &Command) -> Option<Self> {
        let name = |name: &MailboxName| name.0.clone();
        let change = match command {
            Command::Create { mailbox, .. } => OwnNameChange::Created(name(mailbox)),
            Command::Delete(mailbox) => OwnNameChange::Deleted(name(mailbox)),
            Command::Rename { from, to } => OwnNameChange::Renamed(name(from), name(to)),
            Command::Subscribe(mailbox, yes) => OwnNameChange::Subscribed(name(mailbox), *yes),
            Command::SetMetadata(mailbox, entries) => {
                let key = |entry: &str| (name(mailbox), entry.to_ascii_lowercase());
                let hashed = entries
                    .iter()
                    .map(|(entry, value)| (key(entry), value.as_deref().map(hash_of)));
                return Some(Self(Change::Metadata(hashed.collect())));
            }
            _ => return None,
        };
        Some(Self(Change::Name(change)))
    }
}

/// State of a name, as far as its changes are announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AnnouncedState {
    pub(super) exists: bool,
    pub(super) is_subscribed: bool,
}

impl AnnouncedState {
    pub(super) fn of(names: &AccountNames, name: &str) -> Self {
        names.mailbox(name).map_or(Self::default(), |listed| Self {
            exists: listed.exists,
            is_subscribed: listed.is_subscribed,
        })
    }
}

impl OwnChanges {
    /// Notes the change of a command that has succeeded. Beyond [`OWN_CHANGES_MAX`] changes or
    /// [`OWN_RENAMES_MAX`] renames, those of names and metadata are forgotten, and announced like
    /// those of others.
    pub(super) fn note(&mut self, change: OwnChange) {
        let changes = self.names.len() + self.metadata.len();
        if changes >= OWN_CHANGES_MAX || self.renames().count() >= OWN_RENAMES_MAX {
            return self.clear_names();
        }
        match change.0 {
            Change::Name(change) => self.names.push(change),
            Change::Metadata(entries) => self.metadata.extend(entries),
        }
    }

    /// Notes messages that were added to a mailbox.
    pub(super) fn note_added(&mut self, mailbox: &MailboxName, count: u64) {
        if self.added.len() < OWN_CHANGES_MAX {
            *self.added.entry(mailbox.0.clone()).or_default() += count;
        }
    }

    /// Forgets messages that were to be added to a mailbox, and were not.
    pub(super) fn forget_added(&mut self, mailbox: &MailboxName, count: u64) {
        if let Some(added) = self.added.get_mut(&mailbox.0) {
            *added = added.saturating_sub(count);
        }
    }

    /// Returns the number of messages that were added to a mailbox, and forgets it.
    pub(super) fn take_added(&mut self, mailbox: &str) -> u64 {
        self.added.remove(mailbox).unwrap_or_default()
    }

    /// Returns the mailboxes to which messages were added, and forgets them.
    pub(super) fn take_all_added(&mut self) -> BTreeMap<String, u64> {
        std::mem::take(&mut self.added)
    }

    /// Returns `true` if names, subscriptions or metadata have changed.
    pub(super) fn has_names(&self) -> bool {
        !self.names.is_empty() || !self.metadata.is_empty()
    }

    pub(super) fn clear_names(&mut self) {
        self.names.clear();
        self.metadata.clear();
    }

    /// Returns the names that the client's own changes concern, in their state after these changes.
    pub(super) fn known_names(
        &self,
        before: &AccountNames,
        now: &AccountNames,
        separator: char,
    ) -> BTreeMap<String, AnnouncedState> {
        let mut known = BTreeMap::new();
        for change in &self.names {
            match change {
                OwnNameChange::Created(name) => {
                    state(&mut known, before, name.trim_end_matches(separator)).exists = true;
                    note_parents(&mut known, (before, now), name, separator);
                }
                // A name with others below it stays, but cannot be selected.
                OwnNameChange::Deleted(name) => {
                    let is_left =
                        now.mailbox(name).is_some_and(|one| one.exists && !one.is_selectable);
                    state(&mut known, before, name).exists = is_left;
                }
                OwnNameChange::Renamed(from, to) => {
                    note_parents(&mut known, (before, now), to, separator);
                    // INBOX stays, and loses its messages.
                    match from == MailboxName::INBOX {
                        true => state(&mut known, before, to).exists = true,
                        false => rename_below(&mut known, before, (from, to), separator),
                    }
                }
                OwnNameChange::Subscribed(name, yes) => {
                    state(&mut known, before, name).is_subscribed = *yes;
                }
            }
        }
        known
    }

    /// Returns the old and the new names of mailboxes that were renamed; INBOX never is.
    pub(super) fn renames(&self) -> impl DoubleEndedIterator<Item = (&str, &str)> {
        self.names.iter().filter_map(|change| match change {
            OwnNameChange::Renamed(from, to) if from != MailboxName::INBOX => {
                Some((from.as_str(), to.as_str()))
            }
            _ => None,
        })
    }

    /// Returns `true` if the session itself has set a metadata entry to this value.
    pub(super) fn has_set(&self, mailbox: &str, entry: &str, value: Option<&[u8]>) -> bool {
        if self.metadata.is_empty() {
            return false;
        }
        let key = (mailbox.to_owned(), entry.to_ascii_lowercase());
        self.metadata.get(&key).is_some_and(|hash| *hash == value.map(hash_of))
    }
}

fn state<'k>(
    known: &'k mut BTreeMap<String, AnnouncedState>,
    before: &AccountNames,
    name: &str,
) -> &'k mut AnnouncedState {
    known.entry(name.to_owned()).or_insert_with(|| AnnouncedState::of(before, name))
}

/// Notes that the parents of a name exist, if they exist now.
fn note_parents(
    known: &mut BTreeMap<String, AnnouncedState>,
    (before, now): (&AccountNames, &AccountNames),
    name: &str,
    separator: char,
) {
    for (end, _) in name.trim_end_matches(separator).rmatch_indices(separator) {
        let parent = &name[..end];
        if AnnouncedState::of(now, parent).exists {
            state(known, before, parent).exists = true;
        }
    }
}

/// Notes that a name and those below it were renamed.
fn rename_below(
    known: &mut BTreeMap<String, AnnouncedState>,
    before: &AccountNames,
    (from, to): (&str, &str),
    separator: char,
) {
    let start = before.mailboxes.partition_point(|listed| listed.name.as_str() < from);
    let listed = before.mailboxes[start..].iter().map(|listed| listed.name.as_str());
    let below: Vec<(String, String)> = listed
        .take_while(|name| name.starts_with(from))
        .chain(known.keys().map(String::as_str))
        .filter_map(|name| Some((name.to_owned(), renamed(name, from, to, separator)?)))
        .collect();
    for (old, new) in below {
        if std::mem::take(&mut state(known, before, &old).exists) {
            state(known, before, &new).exists = true;
        }
    }
}

fn hash_of(value: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
