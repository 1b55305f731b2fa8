//! Crashes.

use std::collections::BTreeSet;

use barid_mailbox::{ChangeSet, FlagChange};
use barid_types::{Flag, Uid};

use super::{filled, flags, messages, texts};
use crate::fixture::Fixture;
use crate::session::{Contents, StorageHandle};
use crate::texts::canonical;

/// States of a storage before and after the change that is interrupted.
struct Outcome {
    before: Contents,
    flagged: Vec<Uid>,
    expunged: Vec<Uid>,
    appended: Vec<Vec<u8>>,
}

pub(super) fn an_interrupted_change_is_done_or_undone(fixture: &dyn Fixture) {
    let session = filled(fixture, 8);
    let uids = session.uids();
    let appended = texts(100, 2);
    let flagged = vec![uids[0], uids[5]];
    let mut changes = ChangeSet::default();
    let change = FlagChange { add: flags(&[Flag::Flagged]), ..FlagChange::default() };
    changes.flags.push_all(flagged.iter().copied(), &change);
    changes.expunge = vec![uids[2], uids[7]];
    let outcome = Outcome {
        before: session.contents(),
        flagged,
        expunged: changes.expunge.clone(),
        appended: appended.iter().map(|text| canonical(text)).collect(),
    };
    let mut states = 0;
    let mut seen = BTreeSet::new();
    let change = |copy: &dyn Fixture| {
        let mut session = StorageHandle::scanned(copy);
        session.try_sync(&changes, &messages(&appended)).unwrap();
    };
    let is_tested = fixture.crash(&change, &mut |crashed, is_done| {
        states += 1;
        seen.insert(outcome.check(crashed, is_done));
    });
    if is_tested {
        assert!(states >= 3, "only {states} states");
        assert!(seen.len() >= 2, "the change was always, or never, done");
    }
}

impl Outcome {
    /// Checks a storage after a crash; returns the number of steps of the change that it shows.
    fn check(&self, crashed: &dyn Fixture, is_done: bool) -> usize {
        let found = StorageHandle::scanned(crashed).contents();
        let mut steps = 0;
        for (uid, before) in &self.before {
            let Some(content) = found.get(uid) else {
                assert!(self.expunged.contains(uid), "UID {uid} is lost");
                steps += 1;
                continue;
            };
            assert!(!(is_done && self.expunged.contains(uid)), "UID {uid} is still there");
            assert!(content.text == before.text, "UID {uid} is another message");
            let is_flagged = content.flags.contains(Flag::Flagged);
            let may_be = self.flagged.contains(uid);
            assert!(!is_flagged || may_be, "UID {uid} was not to be flagged");
            assert!(!is_done || is_flagged == may_be, "UID {uid} is not flagged");
            steps += usize::from(is_flagged);
        }
        let new: Vec<_> = found.iter().filter(|(uid, _)| !self.before.contains_key(uid)).collect();
        let last = self.before.keys().next_back();
        assert!(new.iter().all(|(uid, _)| Some(*uid) > last), "appended messages have new UIDs");
        let texts: Vec<_> = new.iter().map(|(_, content)| &content.text).collect();
        let unique: BTreeSet<_> = texts.iter().collect();
        assert_eq!(unique.len(), texts.len(), "no message is there twice");
        assert!(texts.iter().all(|text| self.appended.contains(text)), "no part of a message");
        assert!(!is_done || texts.len() == self.appended.len(), "an appended message is lost");
        steps + texts.len()
    }
}
