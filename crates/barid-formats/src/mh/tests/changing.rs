//! What a sync does, and that others see it.

use std::sync::Arc;

use barid_types::{Flag, FlagSet, InternalDate};
use barid_vfs::MemVfs;

use super::support::{World, flagged, keyword, message, uid};
use crate::{ChangeSet, Error, FlagChange};

fn world() -> World {
    let mut world = World::new(Arc::new(MemVfs::new()));
    for number in [1, 2, 5] {
        world.put(&number.to_string(), format!("Subject: {number}\n\n").as_bytes());
    }
    world.put(".mh_sequences", b"cur: 5\nunseen: 2 5\nPseq: 1\nodd line\n");
    world.scan();
    world.pass_time();
    world
}

fn names(world: &World) -> Vec<String> {
    let mut names = Vec::new();
    let dir = world.vfs.open_dir(&world.path).unwrap();
    dir.list(&mut |name, _| names.push(String::from_utf8_lossy(name).into_owned())).unwrap();
    names.sort();
    names
}

#[test]
fn flags_and_keywords_are_sequences() {
    let mut world = world();
    let change = FlagChange {
        add: FlagSet::EMPTY.with(Flag::Seen).with(Flag::Answered),
        add_keywords: vec![keyword("todo")],
        remove_keywords: vec![keyword("pseq")],
        ..FlagChange::default()
    };
    let flags = vec![(uid(1), change.clone()), (uid(2), change)];
    let report = world.sync(&ChangeSet { flags, ..ChangeSet::default() }, &[]).unwrap();
    assert_eq!((report.figures.messages_written, report.gone.len()), (2, 0));
    let text = world.text(".mh_sequences");
    assert_eq!(text, "cur: 5\nunseen: 5\nodd line\nreplied: 1-2\ntodo: 1-2\n");
    world.scan();
    assert_eq!(world.lines(), ["1 1 Answered,Seen,todo", "2 2 Answered,Seen,todo", "3 5"]);
    let none = flagged(2, FlagSet::EMPTY, FlagSet::EMPTY.with(Flag::Seen).with(Flag::Answered));
    world.sync(&none, &[]).unwrap();
    world.scan();
    assert_eq!(world.lines()[1], "2 2 todo");
}

#[test]
fn an_expunged_message_leaves_its_sequences() {
    let mut world = world();
    let changes = ChangeSet { expunge: vec![uid(2), uid(3)], ..ChangeSet::default() };
    let report = world.sync(&changes, &[]).unwrap();
    assert_eq!(report.figures.messages_expunged, 2);
    assert_eq!(world.text(".mh_sequences"), "cur: 5\nPseq: 1\nodd line\n");
    assert_eq!(names(&world), [".mh_sequences", "1"]);
    world.scan();
    assert_eq!(world.uids(), [1]);
}

#[test]
fn what_was_renumbered_is_found() {
    let mut world = world();
    world.rename("5", "3");
    world.rename("2", "5");
    world.put(".mh_sequences", b"unseen: 3 5\n");
    let mut changes = flagged(3, FlagSet::EMPTY.with(Flag::Seen), FlagSet::EMPTY);
    changes.expunge = vec![uid(2)];
    world.sync(&changes, &[]).unwrap();
    world.scan();
    assert_eq!(world.lines(), ["1 1 Seen", "3 3 Seen"]);
}

#[test]
fn what_is_gone_is_told() {
    let world = world();
    world.remove("2");
    world.put("2", b"Subject: another\n\n");
    let mut changes = flagged(1, FlagSet::EMPTY.with(Flag::Flagged), FlagSet::EMPTY);
    changes.expunge = vec![uid(2), uid(9)];
    let report = world.sync(&changes, &[]).unwrap();
    assert_eq!(report.gone, [uid(2), uid(9)]);
    assert_eq!(names(&world), [".mh_sequences", "1", "2", "5"]);
}

#[test]
fn messages_are_appended_behind_the_last() {
    let mut world = world();
    // Left by a crash, or by a program that does not clear it.
    world.put(".mh_sequences", b"unseen: 2 5-9\nflagged: 1 6-7\n");
    let mut old = message(b"Subject: old\n\n");
    old.internal_date = Some(InternalDate { unix_seconds: 1_000_000_000, zone_minutes: 0 });
    old.flags = FlagSet::EMPTY.with(Flag::Seen).with(Flag::Draft);
    old.keywords = vec![keyword("$Forwarded")];
    let report = world.sync(&ChangeSet::default(), &[message(b"Subject: new\n\n"), old]).unwrap();
    assert_eq!(report.appended, [None, None]);
    assert_eq!(names(&world), [".mh_sequences", "1", "2", "5", "6", "7"]);
    let text = world.text(".mh_sequences");
    assert_eq!(text, "unseen: 2 5-6\nflagged: 1\ndraft: 7\n$Forwarded: 7\n");
    world.scan();
    assert_eq!(world.lines()[3..], ["4 6", "5 7 Seen,Draft,$Forwarded"]);
    let cached = &world.cache.messages[&uid(5)];
    assert_eq!(cached.date.unix_seconds, 1_000_000_000);
    assert_eq!(world.read(5).unwrap(), b"Subject: old\n\n");
}

#[test]
fn a_dry_run_writes_nothing() {
    let world = world();
    let before = (names(&world), world.text(".mh_sequences"));
    let mut changes = flagged(1, FlagSet::EMPTY.with(Flag::Flagged), FlagSet::EMPTY);
    changes.expunge = vec![uid(2)];
    let report = world.sync_with(&changes, &[message(b"x\n\n")], true).unwrap();
    assert_eq!((report.figures.messages_written, report.figures.messages_expunged), (1, 1));
    assert_eq!((names(&world), world.text(".mh_sequences")), before);
}

#[test]
fn some_keywords_are_refused() {
    let world = world();
    for name in ["unseen", "Cur", "a:b"] {
        let mut new = message(b"Subject: x\n\n");
        new.keywords = vec![keyword(name)];
        let result = world.sync(&ChangeSet::default(), &[new]);
        assert!(matches!(result, Err(Error::Unsupported { .. })), "{name}");
    }
    assert_eq!(names(&world), [".mh_sequences", "1", "2", "5"]);
}
