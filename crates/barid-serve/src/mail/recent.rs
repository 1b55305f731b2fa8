//! Messages with \Recent, each for one session only (RFC 3501 §2.3.2).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use barid::{Flag, Uid, UidSet, UidValidity, View, ViewStatus};

/// The messages of a mailbox that were recent for some session of this process: all below a UID.
#[derive(Debug, Default)]
pub(crate) struct ClaimedRecent(Mutex<Option<(UidValidity, Uid)>>);

impl ClaimedRecent {
    /// Returns the messages of a view that no session has claimed yet: those that came since the
    /// last claim, or before the first those with \Recent. With `claims` they are this session's.
    pub(crate) fn of_view(&self, view: &View, claims: bool) -> barid::Result<UidSet> {
        let ViewStatus { uidvalidity, uidnext, recent, .. } = view.view_status();
        let since = |first: Uid| view.uids_in(&[(first.get(), u32::MAX)], false);
        // Most mailboxes have none; finding them costs a pass over the cache.
        let recent = || match recent {
            0 => Ok(Vec::new()),
            _ => view.uids_with(Flag::Recent),
        };
        self.unclaimed((uidvalidity, uidnext), &since, &recent, claims)
    }

    fn unclaimed(
        &self,
        (uidvalidity, uidnext): (UidValidity, Uid),
        since: &dyn Fn(Uid) -> barid::Result<Vec<Uid>>,
        recent: &dyn Fn() -> barid::Result<Vec<Uid>>,
        claims: bool,
    ) -> barid::Result<UidSet> {
        let mut claimed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = match *claimed {
            Some((of, next)) if of == uidvalidity && next >= uidnext => return Ok(UidSet::new()),
            Some((of, next)) if of == uidvalidity => since(next)?,
            _ => recent()?,
        };
        if claims {
            *claimed = Some((uidvalidity, uidnext));
        }
        Ok(new.into_iter().collect())
    }
}

/// The claims of all mailboxes of a user, by the identity of the mailbox.
#[derive(Debug, Default)]
pub(crate) struct AllClaimed(Mutex<HashMap<u128, Arc<ClaimedRecent>>>);

impl AllClaimed {
    pub(crate) fn of(&self, id: u128) -> Arc<ClaimedRecent> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(id).or_default())
    }

    /// Returns `true` if a session holds the claims of a mailbox.
    pub(crate) fn is_held(&self, id: u128) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&id).is_some_and(|claimed| Arc::strong_count(claimed) > 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_recent_once() {
        let uid = |n| Uid::new(n).unwrap();
        let validity = |n| UidValidity::new(n).unwrap();
        let claimed = ClaimedRecent::default();
        let check = |of, uidnext, claims, expected: &[u32]| {
            let since = |first: Uid| Ok((first.get()..uidnext).filter_map(Uid::new).collect());
            let recent = || Ok(vec![uid(3), uid(5)]);
            let new = claimed.unclaimed((validity(of), uid(uidnext)), &since, &recent, claims);
            assert_eq!(new.unwrap(), expected.iter().map(|n| uid(*n)).collect());
        };
        check(1, 6, false, &[3, 5]);
        check(1, 6, true, &[3, 5]);
        check(1, 6, true, &[]);
        check(1, 8, false, &[6, 7]);
        check(1, 8, true, &[6, 7]);
        check(2, 6, true, &[3, 5]);
    }
}
