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
    /// Mail that is being stored. It may be in the mailboxes already.
    reserved: Mutex<MailUse>,
    released: Condvar,
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
        let mut reserved = self.root.reserved();
        reserved.size -= self.room.size;
        reserved.messages -= self.room.messages;
        drop(reserved);
        self.root.released.notify_all();
    }
}

impl QuotaRoot {
    pub(crate) fn new(limits: Quota) -> Self {
        Self { limits, reserved: Mutex::default(), released: Condvar::new() }
    }

    fn reserved(&self) -> MutexGuard<'_, MailUse> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MailUse {
    /// Returns the sum of messages.
    pub(crate) fn of(messages: &[Complete]) -> Self {
        let size = messages.iter().map(Complete::len).fold(0, u64::saturating_add);
        Self { size, messages: messages.len() as u64 }
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
        let mut reserved = root.reserved();
        loop {
            // Nothing is stored meanwhile without a reservation.
            let used = self.used(cancel)?;
            if root.limits.allows(used + *reserved, room) {
                *reserved = *reserved + room;
                return Ok(Reserved { root, room });
            }
            if *reserved == MailUse::default() || cancel.is_cancelled() {
                let text = "The mail of the user would exceed the quota";
                return Err(Refusal::new("OVERQUOTA", text));
            }
            // A message that is stored right now may be counted twice.
            let waited = root.released.wait_timeout(reserved, QUOTA_WAIT);
            reserved = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
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
