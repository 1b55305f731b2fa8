//! Changes of flags of many messages.

use barid_types::{FlagSet, Keyword, Uid};

/// Flags and keywords to add to and remove from one message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlagChange {
    /// Flags to add.
    pub add: FlagSet,
    /// Flags to remove.
    pub remove: FlagSet,
    /// Keywords to add.
    pub add_keywords: Vec<Keyword>,
    /// Keywords to remove.
    pub remove_keywords: Vec<Keyword>,
}

/// Changes of flags, one for each UID given, in the order in which they were given.
///
/// Consecutive UIDs with equal changes are stored as one run: the same change of all messages of a
/// mailbox takes no more memory than that of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlagChanges {
    runs: Vec<FlagRun>,
}

/// Messages with consecutive UIDs and equal changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagRun {
    first: Uid,
    last: Uid,
    /// The change of each of them.
    pub change: FlagChange,
}

impl FlagChanges {
    /// Adds a change at the end.
    pub fn push(&mut self, (uid, change): (Uid, FlagChange)) {
        if !self.extend_last(uid, &change) {
            self.runs.push(FlagRun { first: uid, last: uid, change });
        }
    }

    /// Adds the same change for each of `uids`.
    pub fn push_all(&mut self, uids: impl IntoIterator<Item = Uid>, change: &FlagChange) {
        for uid in uids {
            if !self.extend_last(uid, change) {
                self.runs.push(FlagRun { first: uid, last: uid, change: change.clone() });
            }
        }
    }

    fn extend_last(&mut self, uid: Uid, change: &FlagChange) -> bool {
        let is_next = |run: &&mut FlagRun| run.last.get().checked_add(1) == Some(uid.get());
        let last = self.runs.last_mut().filter(is_next).filter(|run| run.change == *change);
        last.map(|run| run.last = uid).is_some()
    }

    /// Returns each UID and its change, in the order given.
    pub fn iter(&self) -> impl Iterator<Item = (Uid, &FlagChange)> + Clone {
        self.runs.iter().flat_map(|run| run.uids().map(|uid| (uid, &run.change)))
    }

    /// Returns the UIDs, in the order given.
    pub fn uids(&self) -> impl Iterator<Item = Uid> + Clone {
        self.runs.iter().flat_map(FlagRun::uids)
    }

    /// Returns each distinct change at least once, rather than once for each message.
    pub fn changes(&self) -> impl Iterator<Item = &FlagChange> + Clone {
        self.runs.iter().map(|run| &run.change)
    }

    /// Returns the runs, in the order given.
    pub fn runs(&self) -> &[FlagRun] {
        &self.runs
    }

    /// Returns the number of UIDs given. Costs O(runs).
    pub fn len(&self) -> usize {
        let len = |run: &FlagRun| (run.last.get() - run.first.get()) as usize + 1;
        self.runs.iter().map(len).sum()
    }

    /// Returns `true` if nothing is to be changed.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns `true` if each UID is above the one before it.
    pub fn is_ascending(&self) -> bool {
        self.runs.is_sorted_by(|a, b| a.last < b.first)
    }

    /// Keeps the changes for whose UID `keep` returns `true`; it is called in the order given.
    pub fn retain(&mut self, mut keep: impl FnMut(Uid) -> bool) {
        let mut kept = Self::default();
        for run in std::mem::take(&mut self.runs) {
            kept.push_all(run.uids().filter(|uid| keep(*uid)), &run.change);
        }
        *self = kept;
    }
}

impl FlagRun {
    /// Returns the UIDs, ascending.
    pub fn uids(&self) -> impl Iterator<Item = Uid> + Clone + use<> {
        (self.first.get()..=self.last.get()).filter_map(Uid::new)
    }
}

impl FromIterator<(Uid, FlagChange)> for FlagChanges {
    fn from_iter<I: IntoIterator<Item = (Uid, FlagChange)>>(changes: I) -> Self {
        let mut all = Self::default();
        all.extend(changes);
        all
    }
}

impl Extend<(Uid, FlagChange)> for FlagChanges {
    fn extend<I: IntoIterator<Item = (Uid, FlagChange)>>(&mut self, changes: I) {
        changes.into_iter().for_each(|change| self.push(change));
    }
}

impl From<Vec<(Uid, FlagChange)>> for FlagChanges {
    fn from(changes: Vec<(Uid, FlagChange)>) -> Self {
        changes.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use barid_types::Flag;

    use super::*;

    fn change(flag: Flag) -> FlagChange {
        FlagChange { add: FlagSet::EMPTY.with(flag), ..FlagChange::default() }
    }

    #[test]
    fn changes_come_back_as_they_were_given() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..1_000 {
            let flags = [change(Flag::Seen), change(Flag::Flagged)];
            let mut given: Vec<(Uid, FlagChange)> = (0..rng.usize(..20))
                .map(|_| (Uid::new(rng.u32(1..6)).unwrap(), flags[rng.usize(..2)].clone()))
                .collect();
            let mut kept = FlagChanges::from(given.clone());
            let is_ascending = given.is_sorted_by(|a, b| a.0 < b.0);
            assert_eq!((kept.len(), kept.is_ascending()), (given.len(), is_ascending), "{given:?}");
            let keep = |uid: Uid| uid.get() != 3;
            for _ in 0..2 {
                assert!(kept.iter().eq(given.iter().map(|(uid, change)| (*uid, change))));
                assert!(kept.uids().eq(given.iter().map(|(uid, _)| *uid)));
                assert_eq!(kept.is_empty(), given.is_empty());
                kept.retain(keep);
                given.retain(|(uid, _)| keep(*uid));
            }
        }
    }

    #[test]
    fn neighbours_that_are_changed_alike_are_one() {
        let uids = (1..1_000).chain([u32::MAX - 1, u32::MAX, 1, 2, 4]).filter_map(Uid::new);
        let mut all = FlagChanges::default();
        all.push_all(uids, &change(Flag::Seen));
        assert_eq!((all.runs.len(), all.len()), (4, 1_004));
        assert_eq!(all.iter().count(), 1_004);
    }
}
