//! Checks of changes.

use barid_mailbox::{ChangeSet, Error, FlagChange, NewMessage};
use barid_types::{Flag, FlagSet, Keyword, Uid};

use super::{adding, expunging, filled, flagging, flags, keywords, messages, texts};
use crate::fixture::Fixture;
use crate::session::StorageHandle;

const FLAGS: [Flag; 5] = [Flag::Seen, Flag::Answered, Flag::Flagged, Flag::Deleted, Flag::Draft];

pub(super) fn flags_arrive_in_another_handle(fixture: &dyn Fixture) {
    let mut session = filled(fixture, 3);
    let mut other = StorageHandle::scanned(fixture);
    let uid = session.uids()[1];
    let mut expected = FlagSet::EMPTY;
    for flag in FLAGS.into_iter().chain(FLAGS) {
        let mut change = FlagChange::default();
        let set = if expected.contains(flag) { &mut change.remove } else { &mut change.add };
        *set = flags(&[flag]);
        expected = match expected.contains(flag) {
            true => expected.without(flag),
            false => expected.with(flag),
        };
        session.sync(&flagging(uid, change), &[]);
        other.scan();
        for session in [&session, &other] {
            let found = session.known.rows().iter().map(|row| session.state_of(row).flags);
            let found: Vec<_> = found.collect();
            assert_eq!(found, [FlagSet::EMPTY, expected, FlagSet::EMPTY], "{flag:?}");
        }
    }
}

pub(super) fn keywords_arrive_in_another_handle(fixture: &dyn Fixture) {
    let mut session = filled(fixture, 3);
    let mut other = StorageHandle::scanned(fixture);
    let uid = session.uids()[1];
    let keywords = keywords(&*session.storage);
    for (number, keyword) in keywords.iter().enumerate() {
        let add = FlagChange { add_keywords: vec![keyword.clone()], ..FlagChange::default() };
        session.sync(&flagging(uid, add), &[]);
        other.scan();
        let row = other.known.row(uid).unwrap();
        assert_eq!(other.state_of(row).keywords.len(), number + 1, "{keyword:?}");
        assert!(other.state_of(row).keywords.contains(&keyword.as_str().to_owned()));
    }
    let remove = FlagChange { remove_keywords: keywords, ..FlagChange::default() };
    session.sync(&flagging(uid, remove), &[]);
    other.scan();
    let left = other.known.rows().iter().flat_map(|row| other.state_of(row).keywords);
    assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new());
}

pub(super) fn the_longest_keyword_is_stored(fixture: &dyn Fixture) {
    let mut session = filled(fixture, 2);
    let caps = session.storage.caps();
    if caps.keywords_max == 0 {
        return;
    }
    let mut names = vec!["k".repeat((caps.keyword_len_max as usize).min(Keyword::LEN_MAX))];
    if caps.keywords_beyond_ascii {
        names.push("\u{fc}mlaut".to_owned());
    }
    for name in names {
        let keyword = Keyword::new(&name).unwrap();
        assert!(session.storage.can_hold_keyword(&keyword), "{name}");
        let change = FlagChange { add_keywords: vec![keyword], ..FlagChange::default() };
        let uid = session.uids()[1];
        session.sync(&flagging(uid, change), &[]);
        let other = StorageHandle::scanned(fixture);
        assert!(other.state_of(&other.known.rows()[1]).keywords.contains(&name), "{name}");
    }
}

pub(super) fn expunges_arrive_in_another_handle(fixture: &dyn Fixture) {
    let mut session = filled(fixture, 9);
    let mut other = StorageHandle::scanned(fixture);
    let mut expected = session.contents();
    // The first, the last, neighbours, and all that is left.
    for at in [&[0][..], &[7], &[2, 3], &[0, 1, 2, 3, 4]] {
        let uids: Vec<Uid> = at.iter().map(|at| session.uids()[*at]).collect();
        let report = session.sync(&expunging(&uids), &[]);
        assert_eq!(report.gone, []);
        uids.iter().for_each(|uid| drop(expected.remove(uid)));
        other.scan();
        assert_eq!(session.contents(), expected);
        assert_eq!(other.contents(), expected);
    }
    assert!(expected.is_empty());
}

pub(super) fn reported_uids_are_true(fixture: &dyn Fixture) {
    let mut session = filled(fixture, 2);
    for number in 0..4 {
        let first = 10 * (number + 1);
        let report = session.sync(&ChangeSet::default(), &messages(&texts(first, 3)));
        let uids = session.uids();
        for (reported, uid) in report.appended.iter().zip(&uids[uids.len() - 3..]) {
            assert!(reported.is_none_or(|reported| reported == *uid), "{report:?}, {uids:?}");
        }
    }
}

pub(super) fn requested_uids_are_given(fixture: &dyn Fixture) {
    let mut session = StorageHandle::scanned(fixture);
    let texts = texts(1, 4);
    let requested = [Some(7), None, Some(3), Some(40)];
    let mut messages = messages(&texts);
    for (message, uid) in messages.iter_mut().zip(requested) {
        message.uid = uid.and_then(Uid::new);
    }
    let report = session.sync(&ChangeSet::default(), &messages);
    let found: Vec<u32> = session.uids().into_iter().map(Uid::get).collect();
    assert_eq!(found, [7, 8, 9, 40]);
    let reported: Vec<_> = report.appended.iter().flatten().map(|uid| uid.get()).collect();
    assert!(reported.is_empty() || reported == found, "{reported:?}");
    let text = &super::texts(10, 1)[0];
    let next = NewMessage { bytes: text, uidnext: Uid::new(100), ..NewMessage::default() };
    session.sync(&ChangeSet::default(), &[next]);
    assert_eq!(session.uids().last().map(|uid| uid.get()), Some(41));
}

pub(super) fn missing_messages_are_reported(fixture: &dyn Fixture) {
    let mut session = filled(fixture, 4);
    let mut outdated = StorageHandle::scanned(fixture);
    let uids = session.uids();
    session.sync(&expunging(&uids[1..3]), &[]);
    let mut changes = adding(uids[1], Flag::Seen);
    changes.expunge = vec![uids[2]];
    match outdated.try_sync(&changes, &[]) {
        Ok(report) => assert_eq!(report.gone, &uids[1..3]),
        Err(error) => assert!(matches!(error, Error::Changed { .. }), "{error}"),
    }
    let report = outdated.sync(&adding(uids[0], Flag::Seen), &[]);
    assert_eq!(report.gone, []);
    let found = StorageHandle::scanned(fixture);
    let seen = |row: &crate::MirrorRow| row.flags.contains(Flag::Seen);
    assert_eq!(found.known.rows().iter().map(seen).collect::<Vec<_>>(), [true, false]);
}

pub(super) fn recent_is_dropped(fixture: &dyn Fixture) {
    let mut session = filled(fixture, 3);
    let before = session.contents();
    session.sync(&ChangeSet { drop_recent: true, ..ChangeSet::default() }, &[]);
    let found = StorageHandle::scanned(fixture);
    let is_recent = |row: &crate::MirrorRow| row.flags.contains(Flag::Recent);
    assert!(!found.known.rows().iter().any(is_recent));
    assert_eq!(found.contents(), before);
}

pub(super) fn a_dry_run_changes_nothing(fixture: &dyn Fixture) {
    let mut session = filled(fixture, 4);
    let before = session.contents();
    fixture.pass_time();
    let stamp = session.storage.stamp().unwrap();
    session.scan();
    let uids = session.uids();
    let mut changes = adding(uids[0], Flag::Flagged);
    changes.expunge = vec![uids[2]];
    let report = session.dry_run(&changes, &messages(&texts(10, 2))).unwrap();
    assert_eq!(report.figures.messages_expunged, 1);
    fixture.pass_time();
    assert!(session.storage.stamp().unwrap().is_same(&stamp));
    assert_eq!(StorageHandle::scanned(fixture).contents(), before);
}

pub(super) fn a_followed_change_equals_a_scan(fixture: &dyn Fixture) {
    let mut session = filled(fixture, 30);
    let keywords = keywords(&*session.storage);
    for step in 0..6 {
        let uids = session.uids();
        let change = FlagChange {
            add: flags(&[FLAGS[step % 5]]),
            add_keywords: keywords.iter().take(step).cloned().collect(),
            ..FlagChange::default()
        };
        let mut changes = ChangeSet::default();
        changes.flags.push_all(uids.iter().copied().skip(step).step_by(3), &change);
        changes.expunge = uids.iter().copied().skip(step + 1).step_by(9).collect();
        let appended = texts(100 + step as u32, (step % 2) as u32);
        let report = session.try_sync(&changes, &messages(&appended)).unwrap();
        let followed = report.cache.is_some();
        let expected = StorageHandle::scanned(fixture);
        if followed && appended.is_empty() {
            assert_eq!(session.contents(), expected.contents(), "step {step}");
        }
        let scanned = session.scan_with(false);
        assert_eq!(session.contents(), expected.contents(), "step {step}");
        if let Some(state) = report.cache {
            let is_same = !scanned.reset && scanned.changed.is_empty();
            assert!(is_same && scanned.expunged.is_empty(), "step {step}: {scanned:?}");
            assert!(scanned.stamp.is_same(&state.stamp_after), "step {step}");
        }
    }
}
