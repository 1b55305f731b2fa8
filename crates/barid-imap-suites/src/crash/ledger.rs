//! All that a session knows of the messages that it works on.

use std::collections::{BTreeMap, BTreeSet};

/// Names of the mailboxes.
pub(super) const MAILBOXES: [&str; 2] = ["INBOX", "Archive"];

/// A message in a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Instance {
    /// The key of its text, which copies share.
    pub(super) key: String,
    /// The flags, in lower case.
    pub(super) flags: BTreeSet<String>,
}

/// A mailbox: messages by UID.
pub(super) type Instances = BTreeMap<u32, Instance>;

/// An operation that the server has not acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Pending {
    /// None.
    #[default]
    Nothing,
    /// APPEND of messages with these keys and flags: all or none.
    Append { to: usize, keys: Vec<String>, flags: BTreeSet<String> },
    /// COPY from a mailbox to the other one: all or none.
    Copy { from: usize, uids: Vec<u32> },
    /// MOVE: the copies are all there or none, and each message is in one place at least.
    Move { from: usize, uids: Vec<u32> },
    /// STORE of a flag, set or cleared.
    Store { at: usize, uids: Vec<u32>, flag: String, is_set: bool },
    /// EXPUNGE.
    Expunge { at: usize, uids: Vec<u32> },
}

/// The messages of a session, in the two mailboxes.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    pub(super) mailboxes: [Instances; 2],
    pub(super) pending: Pending,
    /// `true` for a format whose messages appear one by one, so that a kill can leave a part of
    /// those of an operation.
    pub(super) allows_parts: bool,
    /// Operations that were acknowledged, by name.
    pub(super) acknowledged: BTreeMap<&'static str, u64>,
}

impl Ledger {
    /// Takes messages out of a mailbox.
    pub(super) fn take(&mut self, at: usize, uids: &[u32]) -> Vec<Instance> {
        uids.iter().filter_map(|uid| self.mailboxes[at].remove(uid)).collect()
    }

    /// Counts an operation that was acknowledged, which is then no more pending.
    pub(super) fn done(&mut self, name: &'static str) {
        self.pending = Pending::Nothing;
        *self.acknowledged.entry(name).or_default() += 1;
    }

    /// Compares the ledger with what is there after a restart: `found` are the messages in the two
    /// mailboxes with keys of this session. The ledger then holds what was found.
    ///
    /// # Errors
    /// The first operation that was lost, or message that nobody has made.
    pub(super) fn settle(&mut self, found: [Instances; 2]) -> Result<(), String> {
        for (at, messages) in found.iter().enumerate() {
            for (uid, known) in &self.mailboxes[at] {
                self.check_known(at, *uid, known, messages.get(uid))?;
            }
        }
        let new = self.new_in(&found);
        self.check_new(&new)?;
        self.check_moved(&found, &new)?;
        self.mailboxes = found;
        self.pending = Pending::Nothing;
        Ok(())
    }

    /// Compares a message that was acknowledged.
    fn check_known(
        &self,
        at: usize,
        uid: u32,
        known: &Instance,
        found: Option<&Instance>,
    ) -> Result<(), String> {
        let place = format!("{} UID {uid} ({})", MAILBOXES[at], known.key);
        let Some(found) = found else {
            return match &self.pending {
                Pending::Expunge { at: of, uids } | Pending::Move { from: of, uids }
                    if *of == at && uids.contains(&uid) =>
                {
                    Ok(())
                }
                _ => Err(format!("{place} is lost")),
            };
        };
        let mut flags = known.flags.clone();
        if known == found {
            return Ok(());
        }
        if let Pending::Store { at: of, uids, flag, is_set } = &self.pending
            && *of == at
            && uids.contains(&uid)
        {
            if *is_set {
                flags.insert(flag.clone())
            } else {
                flags.remove(flag)
            };
        }
        if known.key == found.key && flags == found.flags {
            return Ok(());
        }
        Err(format!("{place} has {:?}, but is {found:?}", known.flags))
    }

    /// Returns the messages that were not acknowledged.
    fn new_in(&self, found: &[Instances; 2]) -> [Instances; 2] {
        let new = |at: usize| {
            let messages = found[at].iter();
            let new = messages.filter(|(uid, _)| !self.mailboxes[at].contains_key(*uid));
            new.map(|(uid, instance)| (*uid, instance.clone())).collect()
        };
        [new(0), new(1)]
    }

    /// Compares the new messages with those of the pending operation: all or none of them.
    fn check_new(&self, new: &[Instances; 2]) -> Result<(), String> {
        let (to, mut wanted): (usize, Vec<Instance>) = match &self.pending {
            Pending::Append { to, keys, flags } => {
                let of_key = |key: &String| Instance { key: key.clone(), flags: flags.clone() };
                (*to, keys.iter().map(of_key).collect())
            }
            Pending::Copy { from, uids } | Pending::Move { from, uids } => {
                let known = uids.iter().filter_map(|uid| self.mailboxes[*from].get(uid));
                (1 - from, known.cloned().collect())
            }
            _ => (0, Vec::new()),
        };
        for at in (0..2).filter(|at| *at != to || wanted.is_empty()) {
            if let Some((uid, extra)) = new[at].first_key_value() {
                return Err(format!("{} UID {uid} is not known: {extra:?}", MAILBOXES[at]));
            }
        }
        if new[to].is_empty() {
            return Ok(());
        }
        let mut there: Vec<Instance> = new[to].values().cloned().collect();
        let sort = |list: &mut Vec<Instance>| list.sort_by(|a, b| a.key.cmp(&b.key));
        sort(&mut there);
        sort(&mut wanted);
        if there == wanted || (self.allows_parts && is_part(&there, wanted)) {
            return Ok(());
        }
        Err(format!("{}: {:?} has left {there:?}", MAILBOXES[to], self.pending))
    }

    /// Fails if a MOVE has removed messages without copies.
    fn check_moved(&self, found: &[Instances; 2], new: &[Instances; 2]) -> Result<(), String> {
        let Pending::Move { from, uids } = &self.pending else { return Ok(()) };
        let lost = uids.iter().find(|uid| !found[*from].contains_key(*uid));
        match lost {
            // Nothing is expunged before all copies are there.
            Some(uid) if new[1 - from].len() < uids.len() => {
                Err(format!("MOVE: {} UID {uid} is in neither place", MAILBOXES[*from]))
            }
            _ => Ok(()),
        }
    }
}

/// Returns `true` if each of `some` is one of `all`.
fn is_part(some: &[Instance], mut all: Vec<Instance>) -> bool {
    some.iter().all(|one| {
        let place = all.iter().position(|other| other == one);
        place.map(|place| all.swap_remove(place)).is_some()
    })
}

/// Returns flags in lower case, without \Recent.
pub(super) fn flag_set<'f>(flags: impl IntoIterator<Item = &'f str>) -> BTreeSet<String> {
    let flags = flags.into_iter().map(str::to_ascii_lowercase);
    flags.filter(|flag| flag != "\\recent").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(key: &str, flags: &[&str]) -> Instance {
        Instance { key: key.to_owned(), flags: flag_set(flags.iter().copied()) }
    }

    /// UID, key and flags.
    type Row<'r> = (u32, &'r str, &'r [&'r str]);

    fn mailbox(messages: &[Row<'_>]) -> Instances {
        messages.iter().map(|(uid, key, flags)| (*uid, instance(key, flags))).collect()
    }

    /// A ledger with a, flagged, and b in INBOX.
    fn ledger(pending: Pending) -> Ledger {
        let inbox = mailbox(&[(1, "a", &["\\Flagged"]), (2, "b", &[])]);
        Ledger { mailboxes: [inbox, Instances::new()], pending, ..Ledger::default() }
    }

    #[test]
    fn losses_are_found() {
        let check = |pending: &Pending, inbox: &[Row<'_>], archive, expected: &str| {
            let settled = ledger(pending.clone()).settle([mailbox(inbox), mailbox(archive)]);
            let text = settled.err().unwrap_or_default();
            assert!(text.contains(expected) && text.is_empty() == expected.is_empty(), "{text}");
        };
        let (a, b): (Row<'_>, Row<'_>) = ((1, "a", &["\\Flagged"]), (2, "b", &[]));
        let nothing = Pending::Nothing;
        check(&nothing, &[a, b], &[], "");
        check(&nothing, &[a], &[], "INBOX UID 2 (b) is lost");
        check(&nothing, &[(1, "a", &[]), b], &[], "but is");
        check(&nothing, &[a, (2, "c", &[])], &[], "but is");
        check(&nothing, &[a, b, (3, "c", &[])], &[], "INBOX UID 3 is not known");
        let keys = vec!["c".to_owned(), "d".to_owned()];
        let append = Pending::Append { to: 0, keys, flags: flag_set(["x"]) };
        check(&append, &[a, b], &[], "");
        check(&append, &[a, b, (3, "c", &["x"]), (4, "d", &["x"])], &[], "");
        check(&append, &[a, b, (3, "c", &["x"])], &[], "has left");
        check(&append, &[a, b, (3, "c", &[]), (4, "d", &["x"])], &[], "has left");
        let copy = Pending::Copy { from: 0, uids: vec![1, 2] };
        check(&copy, &[a, b], &[(7, "a", &["\\Flagged"]), (8, "b", &[])], "");
        check(&copy, &[a, b], &[(7, "a", &["\\Flagged"])], "has left");
        check(&copy, &[b], &[], "is lost");
        let moved = Pending::Move { from: 0, uids: vec![1, 2] };
        check(&moved, &[b], &[(7, "a", &["\\Flagged"]), (8, "b", &[])], "");
        check(&moved, &[a, b], &[], "");
        check(&moved, &[b], &[], "UID 1 is in neither place");
        let in_parts = |inbox: &[Row<'_>], archive: &[Row<'_>]| {
            let before = Ledger { allows_parts: true, ..ledger(moved.clone()) };
            before.clone().settle([mailbox(inbox), mailbox(archive)]).err().unwrap_or_default()
        };
        assert_eq!(in_parts(&[a, b], &[(7, "a", &["\\Flagged"])]), "");
        assert!(in_parts(&[b], &[(7, "a", &["\\Flagged"])]).contains("in neither place"));
        assert!(in_parts(&[a, b], &[(7, "a", &[])]).contains("has left"));
        let uids = vec![2];
        let store =
            Pending::Store { at: 0, uids: uids.clone(), flag: "x".to_owned(), is_set: true };
        check(&store, &[a, (2, "b", &["x"])], &[], "");
        check(&store, &[a, (2, "b", &["y"])], &[], "but is");
        check(&store, &[(1, "a", &["\\Flagged", "x"]), b], &[], "but is");
        let expunge = Pending::Expunge { at: 0, uids };
        check(&expunge, &[a], &[], "");
        check(&expunge, &[b], &[], "is lost");
    }
}
