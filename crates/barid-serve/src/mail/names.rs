//! The names of all mailboxes of a user, for the sessions that announce their changes (RFC 5465).
//!
//! One session looks at the tree for all. It lists it without a lock, and wakes sessions that ask
//! meanwhile if there is something new.

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
    /// Number of times that the names were found changed.
    version: u64,
    /// The listing that found the names.
    latest: Option<TreeListing>,
    /// Number of listings that have begun.
    listings: u64,
    /// `true` while a session lists the tree for all sessions.
    is_listing: bool,
    /// Number of changes that sessions of the user have made.
    changes: u64,
    /// Number of all renames, and the latest ones.
    renames: (u64, VecDeque<(String, String)>),
}

/// A listing of the tree, with the time and the number of changes at its beginning.
#[derive(Clone, Copy)]
struct TreeListing {
    number: u64,
    at: Timestamp,
    changes: u64,
}

/// A listing that has begun; one that is dropped has found nothing.
pub(super) struct RunningListing<'n> {
    names: &'n FoundNames,
    listing: TreeListing,
    /// The names before.
    before: Arc<AccountNames>,
    /// `true` if other sessions wait for it.
    is_for_all: bool,
}

/// Result of a listing.
pub(super) struct ListingResult {
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

    /// Begins a listing, unless the known names are recent enough: they include all changes by
    /// sessions of the user, and those by other programs until a moment ago. With `may_wait` a
    /// listing by another session, which wakes the others, is enough.
    pub(super) fn begin(&self, now: Timestamp, may_wait: bool) -> Option<RunningListing<'_>> {
        let mut known = self.known();
        let is_recent = known.latest.is_some_and(|listing| {
            listing.changes == known.changes && listing.at.is_within(NAMES_PERIOD, now)
        });
        if is_recent || known.is_listing && may_wait {
            return None;
        }
        known.listings += 1;
        let is_for_all = !std::mem::replace(&mut known.is_listing, true);
        Some(RunningListing {
            names: self,
            listing: TreeListing { number: known.listings, at: now, changes: known.changes },
            before: Arc::clone(&known.names),
            is_for_all,
        })
    }

    /// Returns the names, and the renames that a session has not seen; with `if_changed`, `None` if
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

impl RunningListing<'_> {
    /// Lists the tree.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(super) fn run(self, folders: &FolderTree) -> Result<ListingResult, barid_folders::Error> {
        let mailboxes = folders.list_all()?;
        let found = AccountNames { mailboxes, metadata: folders.all_metadata()? };
        let is_same = found == *self.before;
        Ok(self.end(Arc::new(found), is_same))
    }

    fn end(self, found: Arc<AccountNames>, is_same: bool) -> ListingResult {
        let mut known = self.names.known();
        let is_latest = known.latest.is_none_or(|latest| latest.number < self.listing.number);
        let is_overtaken = !Arc::ptr_eq(&known.names, &self.before);
        let is_new = is_latest && (!is_same || is_overtaken);
        if is_latest {
            known.latest = Some(self.listing);
        }
        let before = if is_new {
            known.version += 1;
            std::mem::replace(&mut known.names, found)
        } else {
            Arc::clone(&known.names)
        };
        let now = Arc::clone(&known.names);
        let must_wake = is_new || known.changes != self.listing.changes;
        drop(known);
        ListingResult { before, now, must_wake }
    }
}

impl Drop for RunningListing<'_> {
    fn drop(&mut self) {
        if self.is_for_all {
            self.names.known().is_listing = false;
        }
    }
}
