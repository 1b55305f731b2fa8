//! The names of all mailboxes of a user, for the sessions that announce their changes (RFC 5465).
//!
//! One session looks for all: the tree is listed without a lock, and a session that comes meanwhile
//! is woken once there is something new.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use barid::vfs::Timestamp;
use barid_folders::FolderTree;
use barid_imap::backend::{AccountNames, NamesChange};
use barid_imap::command::MailboxName;

use crate::limits::{NAMES_PERIOD, RENAMES_MAX};

/// The names as they were found last.
#[derive(Default)]
pub(super) struct FoundNames(Mutex<KnownNames>);

#[derive(Default)]
struct KnownNames {
    names: Arc<AccountNames>,
    /// Number of times that other names were found.
    version: u64,
    /// The look that found the names.
    latest: Option<Look>,
    /// Number of looks that have begun.
    looks: u64,
    /// `true` while a session looks for all.
    is_looking: bool,
    /// Number of changes that sessions of the user have made.
    changes: u64,
    /// Number of all renames, and the latest ones.
    renames: (u64, VecDeque<(String, String)>),
}

/// A look at the tree, with the time and the number of changes at its beginning.
#[derive(Clone, Copy)]
struct Look {
    number: u64,
    at: Timestamp,
    changes: u64,
}

/// The next step of a session that wants the names.
pub(super) enum NamesStep<'n> {
    /// The known names are new enough.
    Known,
    /// Another session looks, and wakes the others.
    Busy,
    /// The session looks.
    Look(RunningLook<'n>),
}

/// A look that has begun; one that is dropped has found nothing.
pub(super) struct RunningLook<'n> {
    names: &'n FoundNames,
    look: Look,
    /// The names before, with their version.
    before: Arc<AccountNames>,
    version: u64,
    /// `true` if other sessions wait for it.
    is_for_all: bool,
}

/// Result of a look.
pub(super) struct LookResult {
    /// The names before, and now.
    pub(super) before: Arc<AccountNames>,
    pub(super) now: Arc<AccountNames>,
    /// `true` if the other sessions do not know the names, or must look again.
    pub(super) must_wake: bool,
}

/// The names that a session has seen.
#[derive(Default)]
pub(super) struct SeenNames {
    version: u64,
    renames: u64,
}

impl FoundNames {
    fn known(&self) -> MutexGuard<'_, KnownNames> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a change by a session of the user; `renamed` is the old and the new name of a rename.
    pub(super) fn note(&self, renamed: Option<(&MailboxName, &MailboxName)>) {
        let mut known = self.known();
        known.changes += 1;
        if let Some((from, to)) = renamed {
            let (count, latest) = &mut known.renames;
            *count += 1;
            latest.push_back((from.0.clone(), to.0.clone()));
            if latest.len() > RENAMES_MAX {
                latest.pop_front();
            }
        }
    }

    /// Begins a look, unless the known names are new enough: they have all changes by sessions of
    /// the user, and those by other programs until a moment ago. With `may_wait` a look of another
    /// session is enough.
    pub(super) fn begin(&self, now: Timestamp, may_wait: bool) -> NamesStep<'_> {
        let mut known = self.known();
        let period = i64::try_from(NAMES_PERIOD.as_nanos()).unwrap_or(i64::MAX);
        let is_new = known.latest.is_some_and(|look| {
            let age = now.unix_nanos - look.at.unix_nanos;
            look.changes == known.changes && (0..period).contains(&age)
        });
        if is_new {
            return NamesStep::Known;
        }
        if known.is_looking && may_wait {
            return NamesStep::Busy;
        }
        known.looks += 1;
        let is_for_all = !std::mem::replace(&mut known.is_looking, true);
        NamesStep::Look(RunningLook {
            names: self,
            look: Look { number: known.looks, at: now, changes: known.changes },
            before: Arc::clone(&known.names),
            version: known.version,
            is_for_all,
        })
    }

    /// Returns the names, and the renames that a session has not seen; `None` with `if_changed` if
    /// it has seen the names.
    pub(super) fn since(&self, seen: &mut SeenNames, if_changed: bool) -> Option<NamesChange> {
        let known = self.known();
        if if_changed && seen.version == known.version {
            return None;
        }
        seen.version = known.version;
        let (count, latest) = &known.renames;
        let new = (count - seen.renames).min(latest.len() as u64) as usize;
        let renames = latest.iter().skip(latest.len() - new).cloned().collect();
        seen.renames = *count;
        Some(NamesChange { names: Arc::clone(&known.names), renames })
    }
}

impl RunningLook<'_> {
    /// Lists the tree.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(super) fn run(self, folders: &FolderTree) -> Result<LookResult, barid_folders::Error> {
        let mailboxes = folders.list_all()?;
        let found = AccountNames { mailboxes, metadata: folders.all_metadata()? };
        let is_same = found == *self.before;
        Ok(self.end(Arc::new(found), is_same))
    }

    fn end(self, found: Arc<AccountNames>, is_same: bool) -> LookResult {
        let mut known = self.names.known();
        let is_latest = known.latest.is_none_or(|latest| latest.number < self.look.number);
        let is_new = is_latest && (!is_same || known.version != self.version);
        if is_latest {
            known.latest = Some(self.look);
        }
        let before = if is_new {
            known.version += 1;
            std::mem::replace(&mut known.names, Arc::clone(&found))
        } else {
            Arc::clone(&known.names)
        };
        let must_wake = is_new || known.changes != self.look.changes;
        drop(known);
        LookResult { before, now: found, must_wake }
    }
}

impl Drop for RunningLook<'_> {
    fn drop(&mut self) {
        if self.is_for_all {
            self.names.known().is_looking = false;
        }
    }
}
