//! Changes of all mailboxes of a user for the sessions that want to know them (RFC 5465).
//!
//! A followed mailbox is open once, however many sessions follow it, and the watcher of the user
//! notices its changes. A change costs an entry in a log of names that all sessions share, and a
//! wake-up of each.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use barid::vfs::Timestamp;
use barid::{SharedMailbox, Subscription};
use barid_folders::FolderTree;
use barid_imap::backend::{AccountNames, Answer, NamesChange, Refusal};
use barid_imap::command::{ListCommand, MailboxName};
use tokio::sync::Notify;

use super::user::{UserMail, refused_folder};
use crate::limits::{FOLLOWED_MAX, NAMES_PERIOD, RENAMES_MAX};

/// The followed mailboxes of a user.
#[derive(Default)]
pub(crate) struct Followed(Mutex<FollowedState>);

#[derive(Default)]
struct FollowedState {
    mailboxes: HashMap<String, FollowedMailbox>,
    /// Number of changes that were noticed.
    changes: u64,
    /// The latest change of each mailbox.
    log: BTreeMap<u64, String>,
    sessions: HashMap<u64, Arc<Notify>>,
    last_session: u64,
    names: KnownNames,
}

struct FollowedMailbox {
    /// Number of sessions.
    sessions: usize,
    /// Number of its latest change; 0 before the first.
    change: u64,
    mailbox: SharedMailbox,
    _subscription: Subscription,
}

/// The names as they were found last.
#[derive(Default)]
struct KnownNames {
    names: Arc<AccountNames>,
    /// Number of times that other names were found.
    version: u64,
    /// Time of the last look; `None` if sessions of the user have changed the tree since. A name
    /// may mean another mailbox then.
    looked_at: Option<Timestamp>,
    /// Number of all renames, and the latest ones.
    renames: (u64, VecDeque<(String, String)>),
}

impl Followed {
    fn state(&self) -> MutexGuard<'_, FollowedState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        state.wake();
    }

    /// Notes that names have changed; `renamed` is the old and the new name of a rename.
    pub(crate) fn names_changed(&self, renamed: Option<(&MailboxName, &MailboxName)>) {
        let mut state = self.state();
        state.names.looked_at = None;
        if let Some((from, to)) = renamed {
            let (count, latest) = &mut state.names.renames;
            *count += 1;
            latest.push_back((from.0.clone(), to.0.clone()));
            if latest.len() > RENAMES_MAX {
                latest.pop_front();
            }
        }
        state.wake();
    }
}

impl FollowedState {
    fn wake(&self) {
        for session in self.sessions.values() {
            session.notify_one();
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
    /// Number of the latest change that was seen.
    change: u64,
    /// Version of the names that were seen.
    version: u64,
    /// Number of renames that were seen.
    renames: u64,
}

impl SessionFollows {
    pub(crate) fn new(user: Arc<UserMail>, wake: Arc<Notify>) -> Self {
        let (names, number) = (BTreeSet::new(), 0);
        Self { user, number, wake, names, change: 0, version: 0, renames: 0 }
    }

    /// Follows these mailboxes and no others.
    pub(crate) fn follow(&mut self, names: &[String]) -> Answer<()> {
        let is_too_many = names.len() > FOLLOWED_MAX;
        let wanted: BTreeSet<String> = match is_too_many {
            true => BTreeSet::new(),
            false => names.iter().cloned().collect(),
        };
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
        for name in wanted {
            if !self.names.contains(&name) && self.user.follow(&name) {
                self.names.insert(name);
            }
        }
        match is_too_many {
            true => {
                let text = format!("At most {FOLLOWED_MAX} mailboxes can be followed");
                Err(Refusal::new("NOTIFICATIONOVERFLOW", text))
            }
            false => Ok(()),
        }
    }

    /// Returns the followed mailboxes that have changed since the last call.
    pub(crate) fn changed(&mut self) -> Vec<String> {
        let state = self.user.followed.state();
        let since = state.log.range(self.change + 1..);
        let changed = since.filter(|(_, name)| self.names.contains(*name));
        let changed = changed.map(|(_, name)| name.clone()).collect();
        self.change = state.changes;
        changed
    }

    /// Returns the names of all mailboxes, or `None` if the session knows them.
    pub(crate) fn names(&mut self, if_changed: bool) -> Answer<Option<NamesChange>> {
        let user = &self.user;
        let mut must_follow = false;
        let mut state = user.followed.state();
        let known = &mut state.names;
        let now = user.vfs.now();
        let age = known.looked_at.map(|then| now.unix_nanos - then.unix_nanos);
        let period = i64::try_from(NAMES_PERIOD.as_nanos()).unwrap_or(i64::MAX);
        let is_new = age.is_some_and(|age| (0..period).contains(&age));
        if !is_new || !if_changed {
            let found = find_names(&user.folders).map_err(refused_folder)?;
            if found != *known.names || known.looked_at.is_none() {
                known.names = Arc::new(found);
                known.version += 1;
                must_follow = true;
            }
            known.looked_at = Some(now);
        }
        if if_changed && self.version == known.version {
            return Ok(None);
        }
        self.version = known.version;
        let (count, latest) = &known.renames;
        let new = (count - self.renames).min(latest.len() as u64) as usize;
        let renames = latest.iter().skip(latest.len() - new).cloned().collect();
        self.renames = *count;
        let names = Arc::clone(&known.names);
        drop(state);
        if must_follow {
            user.follow_again();
        }
        Ok(Some(NamesChange { names, renames }))
    }
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
        let mut state = self.followed.state();
        // Another session may have been faster.
        let mailbox = state.mailboxes.entry(name.to_owned()).or_insert(FollowedMailbox {
            sessions: 0,
            change: 0,
            mailbox: shared,
            _subscription,
        });
        mailbox.sessions += 1;
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

    /// Follows the mailboxes that followed names mean now, where they meant others.
    fn follow_again(self: &Arc<Self>) {
        let names: Vec<String> = self.followed.state().mailboxes.keys().cloned().collect();
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

fn find_names(folders: &FolderTree) -> Result<AccountNames, barid_folders::Error> {
    let patterns = vec!["*".to_owned()];
    let all = ListCommand { response: "LIST", patterns, ..ListCommand::default() };
    let mut mailboxes = folders.list(&all)?;
    // Subscriptions to mailboxes that do not exist.
    let mut subscribed = all;
    subscribed.selection.subscribed = true;
    mailboxes.extend(folders.list(&subscribed)?.into_iter().filter(|one| !one.exists));
    mailboxes.sort_by(|a, b| a.name.cmp(&b.name));
    mailboxes.dedup_by(|a, b| a.name == b.name);
    Ok(AccountNames { mailboxes, metadata: folders.all_metadata()? })
}
