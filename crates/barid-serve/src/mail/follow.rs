//! Changes of all mailboxes of a user for the sessions that want to know them (RFC 5465).
//!
//! A followed mailbox is open once, however many sessions follow it, and the watcher of the user
//! notices its changes. A change costs an entry in a log of names that all sessions share, and a
//! wake-up of each.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use barid::vfs::Timestamp;
use barid::{SharedMailbox, Subscription};
use barid_imap::backend::{AccountNames, Answer, NamesChange, Refusal};
use barid_imap::command::MailboxName;
use tokio::sync::Notify;

use super::names::{FoundNames, SeenNames};
use super::user::{UserMail, refused_folder};
use crate::limits::{FOLLOWED_MAX, NAMES_PERIOD};

/// The followed mailboxes of a user.
#[derive(Default)]
pub(crate) struct Followed {
    state: Mutex<FollowedState>,
    names: FoundNames,
}

#[derive(Default)]
struct FollowedState {
    mailboxes: HashMap<String, FollowedMailbox>,
    /// Number of changes that were noticed.
    changes: u64,
    /// The latest change of each mailbox.
    log: BTreeMap<u64, String>,
    sessions: HashMap<u64, Arc<Notify>>,
    last_session: u64,
    /// Followed mailboxes whose names may refer to other mailboxes, because sessions of the user
    /// have changed the tree.
    touched: BTreeSet<String>,
}

struct FollowedMailbox {
    /// Number of sessions.
    sessions: usize,
    /// Number of its latest change; 0 before the first.
    change: u64,
    mailbox: SharedMailbox,
    _subscription: Subscription,
}

impl Followed {
    fn state(&self) -> MutexGuard<'_, FollowedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a mailbox has changed.
    fn note(&self, name: &str) {
        let mut state = self.state();
        state.changes += 1;
        let change = state.changes;
        let Some(mailbox) = state.mailboxes.get_mut(name) else { return };
        let before = std::mem::replace(&mut mailbox.change, change);
        state.log.remove(&before);
        state.log.insert(change, name.to_owned());
        state.wake(None);
    }

    /// Notes that subscriptions or metadata have changed.
    pub(crate) fn attributes_changed(&self) {
        self.names.note(None);
        self.state().wake(None);
    }

    /// Notes that names, and those below them, may refer to other mailboxes; `renamed` is the old
    /// and the new name of a rename.
    pub(crate) fn names_changed(
        &self,
        names: &[&MailboxName],
        renamed: Option<(&MailboxName, &MailboxName)>,
    ) {
        self.names.note(renamed);
        let mut state = self.state();
        let is_touched = |name: &&String| names.iter().any(|of| name.starts_with(&of.0));
        let touched: Vec<String> = state.mailboxes.keys().filter(is_touched).cloned().collect();
        state.touched.extend(touched);
        state.wake(None);
    }

    /// Returns the followed mailboxes that can be selected in only one of two lists of names.
    fn other_names(&self, before: &AccountNames, now: &AccountNames) -> Vec<String> {
        if std::ptr::eq(before, now) {
            return Vec::new();
        }
        let is_selectable = |names: &AccountNames, name: &str| {
            names.mailbox(name).is_some_and(|listed| listed.is_selectable)
        };
        let mut names: Vec<String> = self.state().mailboxes.keys().cloned().collect();
        names.retain(|name| is_selectable(before, name) != is_selectable(now, name));
        names
    }
}

impl FollowedState {
    /// Wakes the sessions, except one.
    fn wake(&self, except: Option<u64>) {
        for session in self.sessions.iter().filter(|(number, _)| except != Some(**number)) {
            session.1.notify_one();
        }
    }

    fn release(&mut self, name: &str) -> Option<FollowedMailbox> {
        let mailbox = self.mailboxes.get_mut(name)?;
        mailbox.sessions -= 1;
        if mailbox.sessions > 0 {
            return None;
        }
        let mailbox = self.mailboxes.remove(name)?;
        self.log.remove(&mailbox.change);
        Some(mailbox)
    }
}

/// The mailboxes that one session follows.
pub(crate) struct SessionFollows {
    user: Arc<UserMail>,
    number: u64,
    wake: Arc<Notify>,
    names: BTreeSet<String>,
    /// Mailboxes that could not be opened.
    failed: VecDeque<String>,
    /// Times at which one was tried again: to open it, and to read its state.
    tried: [Option<Timestamp>; 2],
    /// Number of the latest change that was seen.
    change: u64,
    seen: SeenNames,
}

impl SessionFollows {
    pub(crate) fn new(user: Arc<UserMail>, wake: Arc<Notify>) -> Self {
        let (names, failed) = (BTreeSet::new(), VecDeque::new());
        let (tried, seen) = ([None; 2], SeenNames::default());
        Self { user, number: 0, wake, names, failed, tried, change: 0, seen }
    }

    /// Follows these mailboxes and no others; changes nothing if there are too many.
    pub(crate) fn follow(&mut self, names: &[String]) -> Answer<()> {
        if names.len() > FOLLOWED_MAX {
            let text = format!("At most {FOLLOWED_MAX} mailboxes can be followed");
            return Err(Refusal::new(Refusal::NOTIFICATION_OVERFLOW, text));
        }
        let wanted: BTreeSet<String> = names.iter().cloned().collect();
        // Mailboxes are opened and closed without the lock, which their listener takes.
        let mut closed = Vec::new();
        {
            let mut state = self.user.followed.state();
            if self.number == 0 {
                state.last_session += 1;
                self.number = state.last_session;
                self.change = state.changes;
                state.sessions.insert(self.number, Arc::clone(&self.wake));
            }
            for name in self.names.difference(&wanted) {
                closed.extend(state.release(name));
            }
        }
        drop(closed);
        self.names.retain(|name| wanted.contains(name));
        self.failed.clear();
        let new: Vec<String> = wanted.difference(&self.names).cloned().collect();
        for name in new {
            self.follow_one(name);
        }
        Ok(())
    }

    /// Follows a mailbox, or notes that it cannot be opened; returns `true` if it is followed.
    fn follow_one(&mut self, name: String) -> bool {
        let is_open = self.user.follow(&name);
        match is_open {
            true => drop(self.names.insert(name)),
            false => self.failed.push_back(name),
        }
        is_open
    }

    /// Returns the followed mailboxes that have changed since the last call, and one that could not
    /// be opened before and now can.
    pub(crate) fn changed(&mut self) -> Vec<String> {
        // One at a time: it may be locked by another program for long.
        let may_try =
            !self.failed.is_empty() && may_try_again(self.user.vfs.now(), &mut self.tried[0]);
        let failed = if may_try { self.failed.pop_front() } else { None };
        let opened = failed.filter(|name| self.follow_one(name.clone()));
        let state = self.user.followed.state();
        let since = state.log.range(self.change + 1..);
        let changed = since.filter(|(_, name)| self.names.contains(*name));
        let changed = opened.into_iter().chain(changed.map(|(_, name)| name.clone())).collect();
        self.change = state.changes;
        changed
    }

    /// Returns `true` if the state of a mailbox that could not be read may be read again now.
    pub(crate) fn may_try_again(&mut self) -> bool {
        may_try_again(self.user.vfs.now(), &mut self.tried[1])
    }

    /// Returns the names of all mailboxes; `None` if the session knows them, or if another session
    /// is listing them and will wake it.
    pub(crate) fn names(&mut self, if_changed: bool) -> Answer<Option<NamesChange>> {
        let followed = &self.user.followed;
        if let Some(listing) = followed.names.begin(self.user.vfs.now(), if_changed) {
            let touched = std::mem::take(&mut followed.state().touched);
            let found = match listing.run(&self.user.folders) {
                Ok(found) => found,
                Err(error) => {
                    followed.state().touched.extend(touched);
                    return Err(refused_folder(error));
                }
            };
            let other = followed.other_names(&found.before, &found.now);
            self.user.follow_again(touched.into_iter().chain(other));
            if found.must_wake {
                followed.state().wake(Some(self.number));
            }
        }
        Ok(followed.names.since(&mut self.seen, if_changed))
    }
}

/// Returns `true` once per period: what another program has locked would delay each command.
fn may_try_again(now: Timestamp, tried: &mut Option<Timestamp>) -> bool {
    if tried.is_some_and(|tried| tried.is_within(NAMES_PERIOD, now)) {
        return false;
    }
    *tried = Some(now);
    true
}

impl Drop for SessionFollows {
    fn drop(&mut self) {
        let mut closed = Vec::new();
        let mut state = self.user.followed.state();
        state.sessions.remove(&self.number);
        for name in &self.names {
            closed.extend(state.release(name));
        }
        // The mailboxes are closed without the lock.
        drop(state);
    }
}

impl UserMail {
    /// Follows a mailbox for one more session; `false` if it cannot be opened.
    fn follow(self: &Arc<Self>, name: &str) -> bool {
        if let Some(mailbox) = self.followed.state().mailboxes.get_mut(name) {
            mailbox.sessions += 1;
            return true;
        }
        let Ok(shared) = self.find_mailbox(&MailboxName::from(name)) else { return false };
        let _subscription = self.subscription(name, &shared);
        let new = FollowedMailbox { sessions: 1, change: 0, mailbox: shared, _subscription };
        let unused = match self.followed.state().mailboxes.entry(name.to_owned()) {
            Entry::Vacant(vacant) => {
                vacant.insert(new);
                None
            }
            // Another session was faster.
            Entry::Occupied(mut known) => {
                known.get_mut().sessions += 1;
                Some(new)
            }
        };
        // It is closed without the lock.
        drop(unused);
        true
    }

    fn subscription(self: &Arc<Self>, name: &str, shared: &SharedMailbox) -> Subscription {
        let (user, own) = (Arc::downgrade(self), name.to_owned());
        shared.subscribe(move |_| {
            if let Some(user) = Weak::upgrade(&user) {
                user.followed.note(&own);
            }
        })
    }

    /// Follows the mailboxes to which these names refer now, where they referred to others.
    fn follow_again(self: &Arc<Self>, names: impl Iterator<Item = String>) {
        for name in names {
            // One that is gone is followed until the sessions have announced it.
            let Ok(shared) = self.find_mailbox(&MailboxName::from(&*name)) else { continue };
            let is_same = |known: &FollowedMailbox| known.mailbox.is_same(&shared);
            if self.followed.state().mailboxes.get(&name).is_none_or(is_same) {
                continue;
            }
            let _subscription = self.subscription(&name, &shared);
            let mut before = None;
            if let Some(known) = self.followed.state().mailboxes.get_mut(&name) {
                let FollowedMailbox { sessions, change, .. } = *known;
                let now = FollowedMailbox { sessions, change, mailbox: shared, _subscription };
                before = Some(std::mem::replace(known, now));
            }
            // It is closed without the lock.
            drop(before);
            self.followed.note(&name);
        }
    }
}
