//! The quota of a user in sessions: what is stored at the same time counts before it is there.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use barid::Cancel;
use barid_imap::backend::{Answer, QuotaResource, Refusal};

use super::append::Complete;
use super::user::{UserMail, refused_folder};
use crate::limits::QUOTA_WAIT;
use crate::quota::{self, MailUse, Quota};

/// The name of the only quota root of a user.
const ROOT: &str = "user";

/// The quota root of a user, which all sessions share.
#[derive(Debug)]
pub(crate) struct QuotaRoot {
    limits: Quota,
    state: Mutex<QuotaState>,
    released: Condvar,
    counted: Condvar,
}

#[derive(Debug, Default)]
struct QuotaState {
    /// Mail that is being stored. It may be in the mailboxes already.
    reserved: MailUse,
    /// Sum of all room that was released. The mail for it may be in the mailboxes.
    released: MailUse,
    /// Number of counts that have begun.
    counts: u64,
    is_counting: bool,
    /// The latest count that has ended.
    latest: Option<Count>,
}

/// Amount of mail that was counted in the mailboxes.
#[derive(Clone, Copy, Debug)]
struct Count {
    number: u64,
    used: MailUse,
    /// Room that had been released when it began.
    released: MailUse,
}

/// Room for mail that is being stored, until this is dropped.
#[derive(Debug)]
#[must_use = "the room is free again when this is dropped"]
pub(crate) struct Reserved<'q> {
    root: &'q QuotaRoot,
    room: MailUse,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if self.room == MailUse::default() {
            return;
        }
        let mut state = self.root.state();
        state.reserved = state.reserved.minus(self.room);
        state.released = state.released + self.room;
        drop(state);
        self.root.released.notify_all();
    }
}

/// A count that has begun, until this is dropped.
struct Counting<'q>(&'q QuotaRoot);

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        self.0.state().is_counting = false;
        self.0.counted.notify_all();
    }
}

impl QuotaRoot {
    pub(crate) fn new(limits: Quota) -> Self {
        let (released, counted) = (Condvar::new(), Condvar::new());
        Self { limits, state: Mutex::default(), released, counted }
    }

    fn state(&self) -> MutexGuard<'_, QuotaState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until `changed` is notified, at most for [`QUOTA_WAIT`].
fn wait<'s>(changed: &Condvar, state: MutexGuard<'s, QuotaState>) -> MutexGuard<'s, QuotaState> {
    changed.wait_timeout(state, QUOTA_WAIT).unwrap_or_else(PoisonError::into_inner).0
}

impl MailUse {
    /// Returns the sum of messages.
    pub(crate) fn of(messages: &[Complete]) -> Self {
        let size = messages.iter().map(Complete::len).fold(0, u64::saturating_add);
        Self { size, messages: messages.len() as u64 }
    }

    fn minus(self, less: Self) -> Self {
        Self {
            size: self.size.saturating_sub(less.size),
            messages: self.messages.saturating_sub(less.messages),
        }
    }
}

impl UserMail {
    /// Reserves room for mail that is about to be stored.
    ///
    /// # Errors
    /// `OVERQUOTA`; errors of the storage.
    pub(crate) fn reserve(&self, room: MailUse, cancel: &Cancel) -> Answer<Reserved<'_>> {
        let root = &self.quota;
        if root.limits.is_unlimited() || room == MailUse::default() {
            return Ok(Reserved { root, room: MailUse::default() });
        }
        loop {
            let (count, mut state) = self.counted(cancel)?;
            // Mail whose room was released since the count began may be missing from it.
            let stored = state.released.minus(count.released);
            if root.limits.allows(count.used + stored + state.reserved, room) {
                state.reserved = state.reserved + room;
                return Ok(Reserved { root, room });
            }
            let is_sure = stored == MailUse::default() && state.reserved == MailUse::default();
            if is_sure || cancel.is_cancelled() {
                let text = "The mail of the user would exceed the quota";
                return Err(Refusal::new("OVERQUOTA", text));
            }
            // A message that is stored right now may be counted twice.
            if stored == MailUse::default() {
                drop(wait(&root.released, state));
            }
        }
    }

    /// Returns a count of the mail that began after this call, with the current state. One session
    /// counts, without the lock, and shares the result with those that asked before it began.
    fn counted(&self, cancel: &Cancel) -> Answer<(Count, MutexGuard<'_, QuotaState>)> {
        let root = &self.quota;
        let mut state = root.state();
        let asked = state.counts;
        loop {
            if let Some(count) = state.latest.filter(|count| count.number > asked) {
                return Ok((count, state));
            }
            if !state.is_counting || cancel.is_cancelled() {
                break;
            }
            state = wait(&root.counted, state);
        }
        // One that is cancelled does not wait for another that counts.
        let is_first = !std::mem::replace(&mut state.is_counting, true);
        state.counts += 1;
        let (number, released) = (state.counts, state.released);
        drop(state);
        let counting = is_first.then(|| Counting(root));
        let used = self.used(cancel)?;
        let count = Count { number, used, released };
        // A count that was interrupted may lack new mail.
        if !cancel.is_cancelled() {
            root.state().latest = Some(count);
        }
        drop(counting);
        Ok((count, root.state()))
    }

    /// Counts the mail of the user.
    fn used(&self, cancel: &Cancel) -> Answer<MailUse> {
        let counted = quota::count(&self.vfs, &self.folders, &self.open, &mut |spec| {
            let shared = self.mailboxes.open_spec(spec).ok()?;
            // A mailbox that is locked counts as it was.
            Some(shared.refresh(cancel).unwrap_or_else(|_| shared.view()).figures())
        });
        counted.map_err(refused_folder)
    }

    /// Returns the names of the resources that are limited.
    pub(crate) fn limited_resources(&self) -> Vec<&'static str> {
        let Quota { size, messages } = self.quota.limits;
        let names = [size.map(|_| "STORAGE"), messages.map(|_| "MESSAGE")];
        names.into_iter().flatten().collect()
    }

    /// Returns the quota root with its resources; none without limits.
    pub(crate) fn quota_roots(&self, cancel: &Cancel) -> Answer<Vec<(String, Vec<QuotaResource>)>> {
        let Quota { size, messages } = self.quota.limits;
        if self.quota.limits.is_unlimited() {
            return Ok(Vec::new());
        }
        let used = self.used(cancel)?;
        let resource = |name: &str, usage, limit: Option<u64>| {
            limit.map(|limit| QuotaResource { name: name.to_owned(), usage, limit })
        };
        // RFC 9208 §5.1: storage is counted in units of 1,024 bytes.
        let storage = resource("STORAGE", used.size.div_ceil(1024), size.map(|size| size / 1024));
        let resources = [storage, resource("MESSAGE", used.messages, messages)];
        Ok(vec![(ROOT.to_owned(), resources.into_iter().flatten().collect())])
    }
}
