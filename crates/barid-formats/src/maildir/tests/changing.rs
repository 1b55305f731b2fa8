//! Syncs: deliveries, flags, expunges.

use std::path::Path;
use std::sync::Arc;

use barid_mailbox::{ChangeSet, Error, FlagChange, NewMessage};
use barid_types::{Flag, FlagSet, InternalDate};
use barid_vfs::{CallKind, Fault, FaultVfs, FileType, MemVfs, Vfs};

use super::support::{World, flagged, keyword, message, uid};

fn world() -> World {
    world_on(&MemVfs::new())
}

fn world_on(disk: &MemVfs) -> World {
    let world = World::new(Arc::new(disk.clone()));
    world.put("new/10.h", b"Subject: a\n\n");
    world.put("cur/20.h:2,PS", b"Subject: b\n\n");
    world
}

fn set(flags: &[Flag]) -> FlagSet {
    flags.iter().copied().collect()
}

#[test]
fn appended_messages_are_there_at_once() {
    let mut world = world();
    world.scan();
    let mut old = message(b"Subject: old\n\nbody\n");
    old.flags = set(&[Flag::Seen, Flag::Recent]);
    old.keywords = vec![keyword("todo")];
    old.internal_date = Some(InternalDate { unix_seconds: 1_000_000, zone_minutes: 60 });
    let report = world.sync(&ChangeSet::default(), &[message(b"Subject: new\n\n"), old]).unwrap();
    assert_eq!(report.appended, [Some(uid(3)), Some(uid(4))]);
    let scanned = world.scan();
    assert_eq!((scanned.reset, scanned.stats.messages_read), (false, 2));
    let new = &world.cache.messages[&uid(3)];
    let name = String::from_utf8(new.name.clone()).unwrap();
    assert!(new.in_new && name.ends_with(",S=14,W=16"), "{name}");
    let old = &world.cache.messages[&uid(4)];
    let name = String::from_utf8(old.name.clone()).unwrap();
    assert!(!old.in_new && name.ends_with(",S=19,W=22:2,Sa"), "{name}");
    assert_eq!(old.date.unix_seconds, 1_000_000);
    assert_eq!(world.read(4).unwrap(), b"Subject: old\n\nbody\n");
    assert_eq!(world.text("dovecot-keywords"), "0 todo\n");
    let mut left = 0;
    world.vfs.open_dir(Path::new("/box/tmp")).unwrap().list(&mut |_, _| left += 1).unwrap();
    assert_eq!(left, 0, "tmp is empty");
}

/// Returns the names in `tmp`, `new` and `cur`, sorted.
fn names(vfs: &dyn Vfs) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    for folder in ["/box/tmp", "/box/new", "/box/cur"] {
        let dir = vfs.open_dir(Path::new(folder)).unwrap();
        dir.list(&mut |name, _| names.push(name.to_vec())).unwrap();
    }
    names.sort();
    names
}

#[test]
fn an_append_that_fails_takes_back_what_was_renamed() {
    let disk = MemVfs::new();
    let mut world = world_on(&disk);
    world.scan();
    let mut seen = message(b"Subject: seen\n\n");
    seen.flags = set(&[Flag::Seen]);
    let appends = [message(b"Subject: new\n\n"), seen.clone(), message(b"\n"), seen];
    let mut failed = 0;
    for kind in [CallKind::Name, CallKind::Sync] {
        for n in 0.. {
            let before = names(&disk);
            let faulty = FaultVfs::new(disk.clone(), Fault::nth(n).of(kind));
            world.vfs = Arc::new(faulty.clone());
            let result = world.sync(&ChangeSet::default(), &appends);
            match (result.is_ok(), names(&disk)) {
                (false, after) => assert_eq!(after, before, "{kind:?} {n}"),
                (true, after) => assert_eq!(after.len(), before.len() + 4, "{kind:?} {n}"),
            }
            failed += u32::from(result.is_err());
            if !faulty.fired() {
                break;
            }
        }
    }
    // Among them each of the renames.
    assert!(failed >= 8, "{failed}");
}

#[test]
fn appends_get_along_without_tmp_and_without_a_uidlist() {
    let mut world = world();
    world.vfs.remove_dir(Path::new("/box/tmp")).unwrap();
    let report = world.sync(&ChangeSet::default(), &[message(b"\n")]).unwrap();
    assert_eq!(report.appended, [None]);
    world.scan();
    assert_eq!(world.uids(), [1, 2, 3]);
}

#[test]
fn flags_are_renames() {
    let mut world = world();
    world.scan();
    world.sync(&flagged(1, set(&[Flag::Seen]), FlagSet::EMPTY), &[]).unwrap();
    world.sync(&flagged(2, set(&[Flag::Draft]), set(&[Flag::Seen])), &[]).unwrap();
    world.scan();
    assert_eq!(world.lines(), ["1 cur/10.h:2,S Seen", "2 cur/20.h:2,DP Draft"]);
    let change = FlagChange {
        add: FlagSet::EMPTY,
        remove: FlagSet::EMPTY,
        add_keywords: vec![keyword("Junk"), keyword("todo")],
        remove_keywords: vec![],
    };
    let changes =
        ChangeSet { flags: vec![(uid(1), change.clone())].into(), ..ChangeSet::default() };
    world.sync(&changes, &[]).unwrap();
    world.scan();
    assert_eq!(world.lines()[0], "1 cur/10.h:2,Sab Seen,Junk,todo");
    let change = FlagChange {
        add_keywords: vec![keyword("TODO")],
        remove_keywords: vec![keyword("junk"), keyword("none")],
        ..change
    };
    let changes = ChangeSet { flags: vec![(uid(1), change)].into(), ..ChangeSet::default() };
    world.sync(&changes, &[]).unwrap();
    world.scan();
    assert_eq!(world.lines()[0], "1 cur/10.h:2,Sb Seen,todo");
}

#[test]
fn changes_find_files_that_others_renamed() {
    let mut world = world();
    world.scan();
    world.rename("cur/20.h:2,PS", "cur/20.h:2,FPS");
    world.rename("new/10.h", "cur/10.h:2,R");
    let mut changes = flagged(2, set(&[Flag::Answered]), FlagSet::EMPTY);
    changes.expunge = vec![uid(1)];
    let report = world.sync(&changes, &[]).unwrap();
    assert!(report.gone.is_empty());
    world.scan();
    assert_eq!(world.lines(), ["2 cur/20.h:2,FPRS Answered,Flagged,Seen"]);
}

#[test]
fn a_dry_run_tells_and_changes_nothing() {
    let mut world = world();
    world.put("cur/30.h:2,F", b"Subject: c\n\n");
    world.scan();
    let before = world.lines();
    let mut changes = ChangeSet::default();
    let (add, add_keywords) = (set(&[Flag::Draft]), vec![keyword("new")]);
    changes.flags.push((uid(2), FlagChange { add, add_keywords, ..FlagChange::default() }));
    changes.flags.push((uid(3), FlagChange { add: set(&[Flag::Flagged]), ..Default::default() }));
    changes.flags.push((uid(9), FlagChange::default()));
    changes.expunge = vec![uid(3)];
    changes.drop_recent = true;
    let appends = [message(b"Subject: d\n\n")];
    let dry = world.sync_with(&changes, &appends, true).unwrap();
    world.scan();
    assert_eq!(world.lines(), before);
    assert!(world.vfs.metadata(Path::new("/box/dovecot-keywords")).is_err());
    let real = world.sync_with(&changes, &appends, false).unwrap();
    assert_eq!((dry.figures, &dry.gone), (real.figures, &real.gone));
    assert_eq!((real.figures.messages_written, real.figures.messages_expunged), (2, 1));
    // Both folders changed; the delivery waits for its file, the list and `new`.
    assert_eq!((real.figures.bytes_appended, real.figures.barriers), (12, 2 + 3));
}

#[test]
fn what_is_gone_is_told() {
    let mut world = world();
    world.scan();
    world.remove("new/10.h");
    let mut changes = flagged(1, set(&[Flag::Seen]), FlagSet::EMPTY);
    changes.flags.push((uid(77), FlagChange::default()));
    changes.expunge = vec![uid(1), uid(99)];
    let report = world.sync(&changes, &[]).unwrap();
    assert_eq!(report.gone, [uid(1), uid(77), uid(99)]);
}

#[test]
fn recent_is_dropped_from_what_is_known() {
    let mut world = world();
    world.scan();
    world.put("new/30.h", b"\n");
    let changes = ChangeSet { drop_recent: true, ..ChangeSet::default() };
    world.sync(&changes, &[]).unwrap();
    world.scan();
    assert_eq!(world.lines(), ["1 cur/10.h:2,", "2 cur/20.h:2,PS Seen", "3 new/30.h Recent"]);
}

#[test]
fn a_twin_gets_a_name_of_its_own() {
    let mut world = world();
    world.put("cur/20.h:2,F", b"Subject: twin\n\n");
    world.scan();
    assert_eq!(world.uids(), [1, 2, 3]);
    let changes = ChangeSet { drop_recent: true, ..ChangeSet::default() };
    world.sync(&changes, &[]).unwrap();
    let report = world.scan();
    assert!(report.defects.is_empty() && report.expunged.len() == 1 && !report.reset);
    assert_eq!(world.uids().len(), 3);
    let newest = *world.uids().last().unwrap();
    assert!(newest > 3, "the twin's UID is not used again");
}

#[test]
fn too_many_keywords_change_nothing() {
    let mut world = world();
    world.scan();
    let change = FlagChange {
        add: set(&[Flag::Seen]),
        add_keywords: (0..27).map(|number| keyword(&format!("k{number}"))).collect(),
        ..FlagChange::default()
    };
    let changes = ChangeSet { flags: vec![(uid(1), change)].into(), ..ChangeSet::default() };
    assert!(matches!(world.sync(&changes, &[]), Err(Error::Unsupported { .. })));
    assert!(world.scan().changed.is_empty());
    assert!(world.vfs.metadata(Path::new("/box/dovecot-keywords")).is_err());
}

#[test]
fn many_changes_walk_and_few_halve() {
    let mut world = world();
    for number in 100..400 {
        world.put(&format!("cur/{number}.h:2,"), b"\n");
    }
    world.scan();
    for step in [1, 7, 100] {
        let seen = || FlagChange { add: set(&[Flag::Seen]), ..FlagChange::default() };
        let flags = (1..=302).step_by(step).map(|number| (uid(number), seen())).collect();
        let report = world.sync(&ChangeSet { flags, ..ChangeSet::default() }, &[]).unwrap();
        assert!(report.gone.is_empty());
        world.scan();
        for number in (1..=302).step_by(step) {
            assert!(world.cache.messages[&uid(number)].flags.contains(Flag::Seen), "{number}");
        }
        let unseen: Vec<_> = world.cache.messages.keys().copied().collect();
        let remove =
            |uid| (uid, FlagChange { remove: set(&[Flag::Seen]), ..FlagChange::default() });
        let flags = unseen.into_iter().map(remove).collect();
        world.sync(&ChangeSet { flags, ..ChangeSet::default() }, &[]).unwrap();
        world.scan();
    }
}

#[test]
fn random_changes_by_us_and_others_agree_with_a_fresh_scan() {
    for seed in 0..30 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut world = World::new(Arc::new(MemVfs::new()));
        let mut fates = std::collections::HashMap::new();
        for round in 0..40 {
            for _ in 0..random.u32(0..4) {
                act(&mut world, &mut random, round);
            }
            if random.bool() {
                world.pass_time();
            }
            let report = world.scan();
            assert!(round == 0 || !report.reset, "seed {seed} round {round}");
            for (uid, cached) in &world.cache.messages {
                let base = crate::maildir::name::base(&cached.name).to_vec();
                let earlier = fates.entry(*uid).or_insert_with(|| base.clone());
                assert_eq!(*earlier, base, "a UID means one message");
            }
            let mut fresh = World::at(Arc::clone(&world.vfs), &world.path, &world.state_dir);
            fresh.scan();
            assert_eq!(fresh.lines(), world.lines(), "seed {seed} round {round}");
        }
    }
}

/// One change, by us or by another program.
fn act(world: &mut World, random: &mut fastrand::Rng, round: u32) {
    let known: Vec<_> = world.cache.messages.keys().copied().collect();
    let chosen = (!known.is_empty()).then(|| known[random.usize(..known.len())]);
    let flags = FlagSet::from_bits(random.u8(..) & 0x1f);
    match (random.u32(0..6), chosen) {
        (0 | 1, _) => world.put(&format!("new/{round}.M{}P1.h", random.u32(..)), b"S: x\n\n"),
        (2, _) => {
            world.sync(&ChangeSet::default(), &[message(b"S: y\n\n")]).unwrap();
        }
        (3, Some(uid)) => {
            world.sync(&flagged(uid.get(), flags, FlagSet::EMPTY), &[]).unwrap();
        }
        (4, Some(uid)) => {
            let changes =
                ChangeSet { expunge: vec![uid], drop_recent: true, ..ChangeSet::default() };
            world.sync(&changes, &[]).unwrap();
        }
        _ => others(world, random),
    }
}

/// Another program renames or removes some file.
fn others(world: &World, random: &mut fastrand::Rng) {
    let mut names = Vec::new();
    for dir in ["new", "cur"] {
        let listed = world.vfs.open_dir(&world.path.join(dir)).unwrap();
        listed
            .list(&mut |name, file_type| {
                assert_eq!(file_type, FileType::File);
                names.push((dir, String::from_utf8(name.to_vec()).unwrap()));
            })
            .unwrap();
    }
    names.sort();
    if names.is_empty() {
        return;
    }
    let (dir, name) = names.swap_remove(random.usize(..names.len()));
    let base = name.split(':').next().unwrap();
    match random.u32(0..3) {
        0 => world.remove(&format!("{dir}/{name}")),
        1 => world.rename(&format!("{dir}/{name}"), &format!("new/{base}")),
        _ => {
            let flags = ["", "S", "FS", "PRS"][random.usize(..4)];
            world.rename(&format!("{dir}/{name}"), &format!("cur/{base}:2,{flags}"));
        }
    }
}

#[test]
fn many_messages_are_made_durable_together() {
    let mut world = world();
    world.scan();
    let texts: Vec<Vec<u8>> = (0..40).map(|at| format!("Subject: {at}\n\n").into_bytes()).collect();
    let new = texts
        .iter()
        .enumerate()
        .map(|(at, text)| NewMessage { uid: Some(uid(100 + 2 * at as u32)), ..message(text) });
    let report = world.sync(&ChangeSet::default(), &new.collect::<Vec<_>>()).unwrap();
    // The file system, the list of UIDs, and the folder.
    assert_eq!(report.figures.barriers, 3);
    let expected: Vec<u32> = (0..40).map(|at| 100 + 2 * at).collect();
    let given: Vec<u32> = report.appended.iter().flatten().map(|uid| uid.get()).collect();
    assert_eq!(given, expected);
    world.scan();
    assert_eq!(world.uids()[2..], expected);
}
