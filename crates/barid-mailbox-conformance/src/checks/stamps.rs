//! Checks of stamps.

use barid_mailbox::{ChangeSet, FlagChange, Stamp, Storage};
use barid_types::Flag;

use super::{adding, expunging, filled, flagging, keywords, messages, texts};
use crate::fixture::Fixture;
use crate::session::StorageHandle;

/// Lets time pass, and returns a stamp that proves that nothing changes unless the stamp does.
fn settled(fixture: &dyn Fixture, storage: &dyn Storage) -> Stamp {
    fixture.pass_time();
    let stamp = storage.stamp().unwrap();
    assert!(storage.stamp_rules().unsettled_nanos(&stamp) <= 0, "the stamp settles");
    stamp
}

pub(super) fn a_settled_stamp_stays_the_same(fixture: &dyn Fixture) {
    let mut session = filled(fixture, 5);
    let stamp = settled(fixture, &*session.storage);
    session.scan();
    session.contents();
    StorageHandle::scanned(fixture).contents();
    fixture.pass_time();
    assert!(session.storage.stamp().unwrap().is_same(&stamp), "reading changes nothing");
    assert!(fixture.open().stamp().unwrap().is_same(&stamp), "nor does another handle");
    assert!(session.scan().stamp.is_same(&stamp), "a scan reports the stamp");
}

/// Makes each kind of change, and calls `visit` with a settled stamp before it and one after it.
fn each_change(fixture: &dyn Fixture, visit: &mut dyn FnMut(&dyn Storage, &str, Stamp, Stamp)) {
    let mut session = filled(fixture, 5);
    let observer = fixture.open();
    let uids = session.uids();
    let without = FlagChange { remove: super::flags(&[Flag::Seen]), ..FlagChange::default() };
    let keywords = keywords(&*session.storage);
    let keyword = FlagChange { add_keywords: keywords, ..FlagChange::default() };
    let has_keywords = !keyword.add_keywords.is_empty();
    let texts = texts(10, 1);
    let appends = messages(&texts);
    let changes = [
        ("a flag", adding(uids[0], Flag::Seen), &[][..]),
        ("a flag less", flagging(uids[0], without), &[]),
        ("a keyword", flagging(uids[1], keyword), &[]),
        ("an expunge", expunging(&uids[2..3]), &[]),
        ("an append", ChangeSet::default(), &appends),
        (
            "all of them",
            ChangeSet { expunge: vec![uids[3]], ..adding(uids[4], Flag::Draft) },
            &appends,
        ),
    ];
    for (what, change, appends) in &changes {
        if *what == "a keyword" && !has_keywords {
            continue;
        }
        let before = settled(fixture, &*observer);
        session.sync(change, appends);
        let after = settled(fixture, &*observer);
        visit(&*observer, what, before, after);
    }
    let before = settled(fixture, &*observer);
    if fixture.deliver(&super::texts(20, 1)[0]) {
        visit(&*observer, "a delivery", before, settled(fixture, &*observer));
    }
}

pub(super) fn every_change_changes_the_stamp(fixture: &dyn Fixture) {
    let mut visits = 0;
    each_change(fixture, &mut |_, what, before, after| {
        assert!(!after.is_same(&before), "{what}");
        visits += 1;
    });
    assert!(visits >= 5);
}

pub(super) fn change_numbers_never_fall(fixture: &dyn Fixture) {
    each_change(fixture, &mut |storage, what, before, after| {
        let rules = storage.stamp_rules();
        let [before, after] = [before, after].map(|stamp| rules.change_number(&stamp));
        assert!(before <= after, "{what}: {before}, then {after}");
    });
}

pub(super) fn stamps_survive_as_bytes(fixture: &dyn Fixture) {
    each_change(fixture, &mut |storage, what, before, after| {
        let rules = storage.stamp_rules();
        let [stored, later] = [before, after].map(|stamp| Stamp::from_bytes(&stamp.to_bytes()));
        assert_eq!((stored, later), (before, after), "{what}");
        assert_eq!(rules.unsettled_nanos(&stored), rules.unsettled_nanos(&before), "{what}");
        assert!(!rules.has_grown(&later, &later), "{what}");
    });
}
