//! Results of a sync, and their visibility to other programs.

use std::sync::Arc;

use barid_mailbox::{ChangeSet, Error, FlagChange, NewMessage};
use barid_types::{Flag, FlagSet, InternalDate, Uid};
use barid_vfs::{CallKind, CrashVfs, Fault, FaultVfs, MemVfs};

use super::support::{World, flagged, hiding, keyword, message, uid};
use crate::mh::layout::PASSES_MAX;

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
    let report =
        world.sync(&ChangeSet { flags: flags.into(), ..ChangeSet::default() }, &[]).unwrap();
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
fn what_a_renumbering_hides_from_listings_is_not_gone() {
    for listings in [0, 1, PASSES_MAX - 1, u32::MAX] {
        let disk = MemVfs::new();
        let mut world = World::new(Arc::new(disk.clone()));
        world.put("1", b"Subject: 1\n\n");
        world.put("2", b"Subject: 2\n\n");
        world.scan();
        world.pass_time();
        world.rename("2", "7");
        world.vfs = hiding(&disk, "/box/7", listings);
        let flag = flagged(2, FlagSet::EMPTY.with(Flag::Flagged), FlagSet::EMPTY);
        let changes = ChangeSet { expunge: vec![uid(1)], ..flag };
        let result = world.sync(&changes, &[message(b"Subject: new\n\n")]);
        world.vfs = Arc::new(disk.clone());
        let names = names(&world);
        if listings < PASSES_MAX {
            assert_eq!(result.unwrap().gone, [], "{listings} listings");
            assert_eq!(names, [".mh_sequences", "7", "8"]);
            assert!(world.text(".mh_sequences").contains("flagged: 7\n"));
        } else {
            assert!(matches!(result, Err(Error::Changed { .. })), "{result:?}");
            assert_eq!(names, [".mh_sequences", "1", "7"]);
        }
    }
}

#[test]
fn messages_are_appended_after_the_last() {
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

#[test]
fn new_mail_under_the_number_of_an_expunged_message_is_not_deleted() {
    let disk = MemVfs::new();
    let mut world = World::new(Arc::new(disk.clone()));
    for number in 1..4 {
        world.put(&number.to_string(), format!("Subject: {number}\n\n").as_bytes());
    }
    world.put(".mh_sequences", b"unseen: 3\ndeleted: 2-3\n");
    world.scan();
    world.pass_time();
    let crash = CrashVfs::new(&disk);
    let mut running = World::at(Arc::new(crash.vfs()), &world.path, &world.state_dir);
    running.cache = world.cache.clone();
    let changes = ChangeSet { expunge: vec![uid(2), uid(3)], ..ChangeSet::default() };
    running.sync(&changes, &[]).unwrap();
    assert_eq!(running.text(".mh_sequences"), "");
    let mut reused = 0;
    for point in 0..=crash.points() {
        for seed in 0..16 {
            let left: MemVfs = crash.crash_at(point, seed);
            let mut found = World::at(Arc::new(left), &world.path, &world.state_dir);
            if names(&found).contains(&"3".to_owned()) {
                continue;
            }
            // What `inc` does with the number after the last.
            found.put("3", b"Subject: new\n\n");
            found.scan();
            let new = found.cache.messages.values().find(|m| m.header == b"Subject: new\n\n");
            assert!(!new.unwrap().flags.contains(Flag::Deleted), "point {point}, seed {seed}");
            reused += 1;
        }
    }
    assert!(reused > 16, "{reused}");
}

#[test]
fn what_cannot_be_removed_keeps_its_flags_and_the_rest_is_gone() {
    let disk = MemVfs::new();
    let mut world = World::new(Arc::new(disk.clone()));
    for number in 1..4 {
        world.put(&number.to_string(), format!("Subject: {number}\n\n").as_bytes());
    }
    world.put(".mh_sequences", b"deleted: 1-3\nflagged: 1-3\n");
    world.scan();
    world.pass_time();
    let mut partly = 0;
    for n in 0..20 {
        let copy = CrashVfs::new(&disk).vfs();
        let fault = Fault::nth(n).of(CallKind::Name);
        let mut running = World::at(Arc::new(copy.clone()), &world.path, &world.state_dir);
        running.cache = world.cache.clone();
        running.vfs = Arc::new(FaultVfs::new(copy.clone(), fault));
        let changes = ChangeSet { expunge: vec![uid(1), uid(2)], ..ChangeSet::default() };
        let done = running.sync(&changes, &[]);
        let there: Vec<String> =
            names(&running).into_iter().filter(|name| !name.starts_with('.')).collect();
        let text = running.text(".mh_sequences");
        match there.as_slice() {
            [_, _, _] if done.is_err() => {
                assert_eq!(text, "deleted: 1-3\nflagged: 1-3\n");
            }
            [left, _] => {
                assert!(done.is_err());
                let left = if left == "1" { "1 3" } else { "2-3" };
                assert_eq!(text, format!("deleted: {left}\nflagged: {left}\n"));
                partly += 1;
            }
            _ => {}
        }
    }
    assert_eq!(partly, 2);
}

#[test]
fn a_link_that_is_another_message_is_left_alone() {
    let mut world = World::new(Arc::new(MemVfs::new()));
    world.put("1", b"Subject: twin\n\n");
    let link = |from: &str, to: &str| {
        world.vfs.hard_link(&world.path.join(from), &world.path.join(to)).unwrap();
    };
    link("1", "2");
    link("1", "4");
    world.put(".mh_sequences", b"unseen: 1-4\n");
    world.scan();
    world.pass_time();
    assert_eq!(world.uids(), [1, 2, 3]);
    world.remove("1");
    let mut changes = flagged(1, FlagSet::EMPTY.with(Flag::Flagged), FlagSet::EMPTY);
    let report = world.sync(&changes, &[]).unwrap();
    assert_eq!((report.gone, world.text(".mh_sequences")), (vec![uid(1)], "unseen: 1-4\n".into()));
    changes.expunge = vec![uid(1)];
    assert_eq!(world.sync(&changes, &[]).unwrap().gone, [uid(1)]);
    assert_eq!(names(&world), [".mh_sequences", "2", "4"]);
    // A link that was renumbered is that message.
    world.rename("2", "3");
    let changes = ChangeSet { expunge: vec![uid(2)], ..ChangeSet::default() };
    assert_eq!(world.sync(&changes, &[]).unwrap().gone, []);
    assert_eq!(names(&world), [".mh_sequences", "4"]);
}

#[test]
fn the_ledger_forgets_only_what_was_expunged() {
    let mut world = World::new(Arc::new(MemVfs::new()));
    world.put("1", b"Subject: one\n\nbody\n");
    world.put("2", b"Subject: two\n\nbody\n");
    world.scan();
    world.pass_time();
    // Rewritten with the same text: another mark, but the same message.
    world.remove("1");
    world.put("1", b"Subject: one\n\nbody\n");
    let changes = ChangeSet { expunge: vec![uid(1), uid(2)], ..ChangeSet::default() };
    assert_eq!(world.sync(&changes, &[]).unwrap().gone, [uid(1)]);
    world.forget();
    world.scan();
    assert_eq!(world.uids(), [1]);
}

#[test]
fn an_append_that_fails_leaves_no_message() {
    for has_links in [true, false] {
        let disk = MemVfs::new();
        disk.set_hard_links(has_links);
        let mut world = World::new(Arc::new(disk.clone()));
        world.put("1", b"Subject: 1\n\n");
        world.put(".mh_sequences", b"unseen: 1\n");
        world.scan();
        world.pass_time();
        let changes = flagged(1, FlagSet::EMPTY.with(Flag::Flagged), FlagSet::EMPTY);
        let (mut failed, mut half_done) = (0, 0);
        for kind in [CallKind::Name, CallKind::Sync, CallKind::Write, CallKind::Open] {
            for n in 0..20 {
                let copy = CrashVfs::new(&disk).vfs();
                copy.set_hard_links(has_links);
                let mut running = World::at(Arc::new(copy.clone()), &world.path, &world.state_dir);
                running.cache = world.cache.clone();
                running.vfs = Arc::new(FaultVfs::new(copy.clone(), Fault::nth(n).of(kind)));
                let appends = [message(b"Subject: a\n\n"), message(b"Subject: b\n\n")];
                let done = running.sync(&changes, &appends);
                let mut expected = vec![".mh_sequences", "1"];
                running.vfs = Arc::new(copy);
                let there = names(&running);
                if let Err(error) = &done {
                    failed += 1;
                    let is_flagged = running.text(".mh_sequences") == "unseen: 1\nflagged: 1\n";
                    if matches!(error, Error::NotAppended { .. }) {
                        assert!(is_flagged, "{kind:?} {n}");
                        half_done += 1;
                    }
                } else {
                    expected.extend(["2", "3"]);
                }
                let there: Vec<&str> = there
                    .iter()
                    .map(String::as_str)
                    .filter(|name| !name.starts_with(".barid-"))
                    .collect();
                assert_eq!(there, expected, "{kind:?} {n} {done:?}");
            }
        }
        assert!(failed > 8 && half_done > 2, "{failed} {half_done}");
    }
}

#[test]
fn leftovers_go_with_the_next_delivery() {
    let world = world();
    world.put(".barid-append-0123456789abcdef", b"Subject: left");
    world.put(".barid-appendix", b"not ours");
    let all = [".barid-append-0123456789abcdef", ".barid-appendix", ".mh_sequences", "1", "2", "5"];
    assert_eq!(names(&world), all);
    world.sync(&ChangeSet::default(), &[message(b"Subject: new\n\n")]).unwrap();
    assert_eq!(names(&world), [&all[..], &["6"]].concat());
    world.vfs.sleep(std::time::Duration::from_secs(3_601));
    world.sync(&ChangeSet::default(), &[message(b"Subject: new\n\n")]).unwrap();
    assert_eq!(names(&world), [&all[1..], &["6", "7"]].concat());
}

#[test]
fn messages_get_the_uids_they_bring() {
    let mut world = world();
    let wished = [10, 0, 12, 12, 5]
        .map(|uid| NewMessage { uid: Uid::new(uid), ..message(b"Subject: alike\n\n") });
    let report = world.sync(&ChangeSet::default(), &wished).unwrap();
    assert_eq!(report.appended, [10, 11, 12, 13, 14].map(|number| Some(uid(number))));
    let expected = [1, 2, 3, 10, 11, 12, 13, 14];
    world.scan();
    assert_eq!(world.uids(), expected);
    world.forget();
    world.scan();
    assert_eq!(world.uids(), expected);
    let report = world.sync(&ChangeSet::default(), &[message(b"Subject: last\n\n")]).unwrap();
    assert_eq!(report.appended, [None]);
}
