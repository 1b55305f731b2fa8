//! Results of a scan, and the messages that keep their UIDs.

use std::sync::Arc;

use barid_mailbox::{ChangeSet, DefectKind, NewMessage};
use barid_vfs::{Fault, FaultEffect, FaultVfs, MemVfs};

use super::support::{World, hiding, message, uid};

fn world() -> World {
    World::new(Arc::new(MemVfs::new()))
}

fn put(world: &World, number: u32, subject: &str) {
    world.put(&number.to_string(), format!("Subject: {subject}\n\nbody of {subject}\n").as_bytes());
}

fn subjects(world: &World) -> Vec<String> {
    let text = |uid: u32| String::from_utf8(world.read(uid).unwrap()).unwrap();
    let subject = |uid| text(uid).lines().next().unwrap()["Subject: ".len()..].to_owned();
    world.uids().into_iter().map(|uid| format!("{uid} {}", subject(uid))).collect()
}

#[test]
fn numbers_are_messages_in_their_order() {
    let mut world = world();
    for name in ["10", "2", "1", ",3", "#4", "05", ".hidden", "notes", "7x"] {
        world.put(name, format!("Subject: {name}\n\n").as_bytes());
    }
    world.vfs.create_dir_all(&world.path.join("20"), 0o700).unwrap();
    world.put(".mh_sequences", b"unseen: 2-5\nreplied: 10\ntodo: 1-20\ncur: 10\n");
    let report = world.scan();
    assert_eq!(world.lines(), ["1 1 Seen,todo", "2 2 todo", "3 10 Answered,Seen,todo"]);
    assert_eq!((report.uidnext, report.stats.messages_read), (uid(4), 3));
    assert_eq!(report.size_bytes, 13 + 12 + 12);
}

/// nmh's `inc` and others write under the final name.
#[test]
fn what_is_being_written_is_no_message_yet() {
    let mut world = world();
    put(&world, 1, "one");
    world.scan();
    for part in [&b""[..], b"Subject: ha", b"Subject: half\nFrom: a@b\n"] {
        world.put("2", part);
        let report = world.scan();
        assert_eq!(world.uids(), [1], "{}", part.escape_ascii());
        let kinds: Vec<_> = report.defects.iter().map(|defect| defect.kind).collect();
        assert_eq!(kinds, [DefectKind::Arriving], "{}", part.escape_ascii());
    }
    put(&world, 2, "two");
    world.put("3", b"Subject: three\n");
    world.scan();
    assert_eq!(subjects(&world), ["1 one", "2 two"]);
    world.pass_time();
    world.scan();
    assert_eq!(subjects(&world), ["1 one", "2 two", "3 three"]);
}

#[test]
fn what_did_not_change_is_not_looked_at() {
    let mut world = world();
    put(&world, 1, "a");
    world.scan();
    world.pass_time();
    world.scan();
    let report = world.scan();
    assert_eq!((report.stats.dirs_listed, report.stats.messages_read), (0, 0));
    world.put(".mh_sequences", b"unseen: 1\n");
    let report = world.scan();
    assert_eq!((report.changed.len(), report.stats.messages_read), (1, 0));
    assert_eq!(world.lines(), ["1 1"]);
}

#[test]
fn a_renumbered_message_keeps_its_uid() {
    let mut world = world();
    for (number, subject) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
        put(&world, number, subject);
    }
    world.put(".mh_sequences", b"flagged: 3\n");
    world.scan();
    world.pass_time();
    // As `folder -pack` after `rmm 2`, and a delivery.
    world.remove("2");
    world.rename("3", "2");
    world.rename("4", "3");
    put(&world, 4, "e");
    world.put(".mh_sequences", b"flagged: 2\n");
    let report = world.scan();
    assert_eq!(report.stats.messages_read, 1);
    assert_eq!(world.lines(), ["1 1 Seen", "3 2 Flagged,Seen", "4 3 Seen", "5 4 Seen"]);
    assert_eq!(subjects(&world), ["1 a", "3 c", "4 d", "5 e"]);
}

/// Renames within a tick of the clock leave the times of the folder as they are.
#[test]
fn what_a_rename_hides_within_a_clock_tick_is_not_gone() {
    for listings in [1, 2, 20] {
        let disk = MemVfs::new();
        // Whole milliseconds would be those of a file system with a coarser clock.
        disk.set_granularity(std::time::Duration::from_nanos(4_000_037));
        let mut world = World::new(Arc::new(disk.clone()));
        put(&world, 1, "a");
        put(&world, 2, "b");
        world.scan();
        world.pass_time();
        put(&world, 3, "c");
        world.vfs = hiding(&disk, "/box/2", listings);
        assert_eq!(world.scan().expunged, [], "{listings} listings");
        assert_eq!(world.uids(), [1, 2, 3]);
    }
}

#[test]
fn numbers_that_change_places_change_no_uid() {
    for forget in [false, true] {
        let mut world = world();
        for (number, subject) in [(1, "a"), (2, "b"), (3, "c")] {
            put(&world, number, subject);
        }
        world.scan();
        world.pass_time();
        world.rename("1", "t");
        world.rename("3", "1");
        world.rename("t", "3");
        if forget {
            world.forget();
        }
        world.scan();
        assert_eq!(subjects(&world), ["1 a", "2 b", "3 c"], "{forget}");
        assert_eq!(world.lines(), ["1 3 Seen", "2 2 Seen", "3 1 Seen"], "{forget}");
    }
}

#[test]
fn a_number_given_out_again_is_another_message() {
    let mut world = world();
    put(&world, 1, "a");
    put(&world, 2, "b");
    world.scan();
    world.pass_time();
    world.remove("2");
    put(&world, 2, "c");
    let report = world.scan();
    assert_eq!(report.expunged, [uid(2)]);
    assert_eq!(subjects(&world), ["1 a", "3 c"]);
}

#[test]
fn copies_are_known_by_what_they_are() {
    let mut world = world();
    for (number, subject) in [(1, "a"), (2, "same"), (3, "same"), (4, "b")] {
        put(&world, number, subject);
    }
    world.scan();
    world.pass_time();
    // A backup that was brought back: every file is another, and nothing else changed.
    for (number, subject) in [(1, "a"), (2, "same"), (3, "same"), (4, "b")] {
        world.remove(&number.to_string());
        world.pass_time();
        put(&world, number, subject);
    }
    let report = world.scan();
    assert!(report.expunged.is_empty() && report.stats.messages_read == 0, "{report:?}");
    assert_eq!(subjects(&world), ["1 a", "2 same", "3 same", "4 b"]);
    world.forget();
    world.scan();
    assert_eq!(subjects(&world), ["1 a", "2 same", "3 same", "4 b"]);
}

#[test]
fn without_the_ledger_all_uids_are_void() {
    let mut world = world();
    put(&world, 1, "a");
    let first = world.scan();
    world.pass_time();
    world.state_dir = "/elsewhere".into();
    world.vfs.create_dir_all(&world.state_dir, 0o700).unwrap();
    put(&world, 2, "b");
    let second = world.scan();
    assert!(second.reset && second.uidvalidity > first.uidvalidity);
    assert_eq!(world.uids(), [1, 2]);
}

#[test]
fn a_uid_is_never_given_out_again() {
    let mut world = world();
    put(&world, 1, "a");
    put(&world, 2, "b");
    world.scan();
    world.pass_time();
    world.remove("2");
    world.scan();
    world.pass_time();
    world.forget();
    put(&world, 2, "b");
    world.scan();
    assert_eq!(subjects(&world), ["1 a", "3 b"]);
}

#[test]
fn what_cannot_be_read_is_tried_again() {
    let disk = MemVfs::new();
    let mut world = World::new(Arc::new(disk.clone()));
    world.threads = 1;
    put(&world, 1, "a");
    put(&world, 2, "b");
    let denied = FaultEffect::Error(std::io::ErrorKind::PermissionDenied);
    let fault = Fault::nth(0).of(barid_vfs::CallKind::Read).at("/box/1").with(denied);
    world.vfs = Arc::new(FaultVfs::new(disk.clone(), fault));
    let report = world.scan();
    assert_eq!(subjects(&world), ["2 b"]);
    assert!(report.defects[0].what.starts_with("cannot be read: 1"), "{:?}", report.defects);
    world.vfs = Arc::new(disk);
    let report = world.scan();
    assert_eq!(subjects(&world), ["2 b", "3 a"]);
    assert!(report.defects.is_empty());
}

#[test]
fn what_cannot_be_read_keeps_the_uid_that_it_brought() {
    for (number, rest) in [(1, [5, 9]), (2, [4, 9]), (3, [4, 5])] {
        for again in [false, true] {
            let disk = MemVfs::new();
            let mut world = World::new(Arc::new(disk.clone()));
            world.threads = 1;
            world.scan();
            let texts = ["Subject: a\n\n", "Subject: b\n\n", "Subject: c\n\n"];
            let new = [(4, 0), (5, 1), (9, 2)].map(|(number, at)| NewMessage {
                uid: Some(uid(number)),
                ..message(texts[at].as_bytes())
            });
            world.sync(&ChangeSet::default(), &new).unwrap();
            let denied = FaultEffect::Error(std::io::ErrorKind::PermissionDenied);
            let fault = Fault::nth(0).of(barid_vfs::CallKind::Read).at(format!("/box/{number}"));
            let fault = if again { fault.forever() } else { fault };
            world.vfs = Arc::new(FaultVfs::new(disk.clone(), fault.with(denied)));
            let report = world.scan();
            assert_eq!(world.uids(), rest, "{number}");
            assert!(report.defects[0].what.starts_with("cannot be read"), "{:?}", report.defects);
            world.pass_time();
            if again {
                world.full_check = true;
                world.scan();
                assert_eq!(world.uids(), rest, "{number}");
            }
            world.vfs = Arc::new(disk);
            world.scan();
            assert_eq!(world.uids(), [4, 5, 9], "{number}");
            assert_eq!(subjects(&world), ["4 a", "5 b", "9 c"]);
        }
    }
}

#[test]
fn a_message_is_read_only_where_it_is() {
    let mut world = world();
    put(&world, 1, "a");
    put(&world, 2, "b");
    world.scan();
    world.rename("1", "t");
    world.rename("2", "1");
    world.rename("t", "2");
    let gone = |result: barid_mailbox::Result<Vec<u8>>| {
        matches!(result, Err(barid_mailbox::Error::MessageGone { .. }))
    };
    assert!(gone(world.read(1)) && gone(world.read(2)));
    world.scan();
    assert_eq!(subjects(&world), ["1 a", "2 b"]);
}

#[test]
fn random_lives() {
    for seed in 0..150 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut world = world();
        let mut serial = 0;
        let mut numbers: Vec<u32> = Vec::new();
        let mut known: std::collections::BTreeMap<u32, Vec<u8>> = std::collections::BTreeMap::new();
        for _ in 0..12 {
            for _ in 0..random.usize(0..4) {
                match random.u8(0..4) {
                    0 | 1 => {
                        serial += 1;
                        let number = numbers.iter().max().unwrap_or(&0) + random.u32(1..3);
                        put(&world, number, &format!("message {serial}"));
                        numbers.push(number);
                    }
                    2 if !numbers.is_empty() => {
                        let number = numbers.swap_remove(random.usize(..numbers.len()));
                        world.remove(&number.to_string());
                    }
                    _ => {
                        // `folder -pack`, or the other way around.
                        random.shuffle(&mut numbers);
                        let to = |at: usize| at as u32 + 1;
                        for number in &numbers {
                            world.rename(&number.to_string(), &format!("t{number}"));
                        }
                        for (at, number) in numbers.iter_mut().enumerate() {
                            world.rename(&format!("t{number}"), &to(at).to_string());
                            *number = to(at);
                        }
                    }
                }
            }
            if random.bool() {
                world.pass_time();
            }
            if random.u8(0..5) == 0 {
                world.forget();
            }
            world.full_check = random.u8(0..5) == 0;
            world.scan();
            assert_eq!(world.uids().len(), numbers.len(), "seed {seed}");
            for uid in world.uids() {
                let text = world.read(uid).unwrap();
                let was = known.entry(uid).or_insert_with(|| text.clone());
                assert_eq!(*was, text, "seed {seed}: UID {uid} means another message");
            }
            let texts: std::collections::BTreeSet<_> =
                world.uids().iter().map(|uid| world.read(*uid).unwrap()).collect();
            assert_eq!(texts.len(), numbers.len(), "seed {seed}");
        }
    }
}
