//! //! Scans: what they find, how many calls they need, and the source of UIDs.

use std::path::Path;
use std::sync::{Arc, Mutex};

use barid_mailbox::{
    DefectKind, EmptyKnown, Error, ScanContext, ScanSink, ScannedMessage, SinkError, Sinks, Storage,
};
use barid_types::Flag;
use barid_vfs::{CallKind, CountingVfs, Fault, FaultEffect, FaultVfs, MemVfs, OpenOptions};

use super::support::{World, uid};
use crate::maildir::layout::{HEAD_LEN, HEADER_LEN_MAX};

fn world() -> World {
    World::new(Arc::new(MemVfs::new()))
}

/// Ten messages, the last in `new`.
fn ten() -> World {
    let world = world();
    for number in 0..9 {
        world.put(&format!("cur/{}.M1P1.h:2,S", 100 + number), b"Subject: old\n\nbody\n");
    }
    world.put("new/200.M1P1.h", b"Subject: new\n\nbody\n");
    world
}

#[test]
fn messages_are_found_in_order_of_arrival() {
    let mut world = world();
    world.put("new/12.M3P1.h", b"Subject: c\r\n\r\nbody\r\n");
    world.put("cur/12.M2P1.h:2,FS", b"Subject: b\nStatus: RO\n\nbody\n");
    world.put("cur/3.R77.h,S=12,W=14:2,", b"Subject: a\n\n");
    world.put("cur/.hidden", b"");
    world.vfs.create_dir_all(Path::new("/box/cur/dir"), 0o700).unwrap();
    let report = world.scan();
    assert_eq!(
        world.lines(),
        [
            "1 cur/3.R77.h,S=12,W=14:2,",
            "2 cur/12.M2P1.h:2,FS Flagged,Seen",
            "3 new/12.M3P1.h Recent"
        ]
    );
    let sizes: Vec<_> =
        world.cache.messages.values().map(|m| (m.header.len(), m.size, m.rfc822_size)).collect();
    assert_eq!(sizes, [(12, 12, Some(14)), (23, 28, Some(20)), (14, 20, Some(20))]);
    assert!(report.reset && report.defects.is_empty());
    assert_eq!((report.uidnext, report.size_bytes), (uid(4), 60));
    assert!(
        world
            .text("dovecot-uidlist")
            .ends_with("\n1 :3.R77.h,S=12,W=14\n2 :12.M2P1.h\n3 :12.M3P1.h\n")
    );
    assert_eq!(world.read(3).unwrap(), b"Subject: c\r\n\r\nbody\r\n");
}

/// /// Some programs deliver under the final name; an incomplete file counts as a message after
/// some time.
#[test]
fn what_is_being_written_is_no_message_yet() {
    let mut world = ten();
    world.scan();
    for part in [&b""[..], b"Subject: ha", b"Subject: half\nFrom: a@b\n"] {
        world.put("new/300.M1P1.h", part);
        world.put("new/400.M1P1.h", part);
        world.scan();
        assert_eq!(world.uids().len(), 10, "{}", part.escape_ascii());
    }
    // // The two files have no UIDs yet: the one that is complete first gets the first UID.
    world.put("new/400.M1P1.h", b"Subject: whole\n\nbody\n");
    let report = world.scan();
    assert_eq!((world.lines().len(), report.uidnext), (11, uid(12)));
    assert_eq!(world.lines()[10], "11 new/400.M1P1.h Recent");
    assert!(matches!(&report.defects[..], [defect] if defect.kind == DefectKind::Arriving));
    world.pass_time();
    let report = world.scan();
    assert_eq!(world.lines()[11], "12 new/300.M1P1.h Recent");
    assert!(!report.reset && report.defects.is_empty());
    assert_eq!((report.uidnext, report.stats.messages_read), (uid(13), 1));
    assert_eq!(world.read(11).unwrap(), b"Subject: whole\n\nbody\n");
}

#[test]
fn an_unchanged_maildir_is_not_listed() {
    let mut world = ten();
    world.scan();
    assert_eq!(world.scan().stats.dirs_listed, 6, "racy: until nothing new comes");
    world.pass_time();
    world.scan();
    let report = world.scan();
    assert_eq!((report.stats.dirs_listed, report.stats.messages_read), (0, 0));
    assert!(!report.reset && report.changed.is_empty() && report.expunged.is_empty());
}

#[test]
fn a_delivery_costs_one_listing_and_the_new_lines() {
    let disk = MemVfs::new();
    let mut world = World::new(Arc::new(disk.clone()));
    for number in 0..1000 {
        world.put(&format!("cur/{}.M1P1.h:2,S", 100 + number), b"Subject: old\n\nbody\n");
    }
    world.pass_time();
    world.scan();
    // A line of the UID list has no file any more.
    world.remove("cur/700.M1P1.h:2,S");
    for _ in 0..2 {
        world.pass_time();
        world.scan();
    }
    world.put("new/5000.M1P1.h", b"Subject: x\n\nbody\n");
    let counting = CountingVfs::new(disk);
    world.vfs = Arc::new(counting.clone());
    let report = world.scan();
    let counts = counting.counts();
    assert_eq!((report.stats.dirs_listed, report.stats.messages_read), (1, 1));
    assert_eq!(counts.of(CallKind::List), 1);
    assert!(counts.calls() < 60, "{counts:?}");
    let list = counts.bytes_under(Path::new("/box/dovecot-uidlist"));
    assert!(list.read < 200 && list.written < 100, "{list:?}");
    assert_eq!(world.uids().last(), Some(&1001));
}

#[test]
fn changes_by_others_are_noticed() {
    let mut world = ten();
    world.scan();
    world.pass_time();
    world.rename("cur/100.M1P1.h:2,S", "cur/100.M1P1.h:2,FRS");
    world.rename("new/200.M1P1.h", "cur/200.M1P1.h:2,");
    world.remove("cur/101.M1P1.h:2,S");
    world.put("new/201.M1P1.h", b"\n");
    let report = world.scan();
    assert_eq!(report.expunged, [uid(2)]);
    let changed: Vec<u32> = report.changed.iter().map(|changed| changed.uid.get()).collect();
    assert_eq!(changed, [1, 10]);
    assert_eq!(world.lines()[0], "1 cur/100.M1P1.h:2,FRS Answered,Flagged,Seen");
    assert_eq!(world.lines()[8..], ["10 cur/200.M1P1.h:2,", "11 new/201.M1P1.h Recent"]);
    assert_eq!(report.stats.messages_read, 1);
    let mut other = World::at(Arc::clone(&world.vfs), &world.path, &world.state_dir);
    other.scan();
    assert_eq!(other.lines(), world.lines());
}

#[test]
fn a_deleted_cache_changes_no_uid() {
    let mut world = ten();
    world.scan();
    world.remove("cur/101.M1P1.h:2,S");
    world.scan();
    let lines = world.lines();
    let first = world.cache.report.clone().unwrap();
    world.forget();
    let report = world.scan();
    assert_eq!(world.lines(), lines);
    assert_eq!((report.uidvalidity, report.uidnext), (first.uidvalidity, first.uidnext));
}

#[test]
fn a_lost_uidlist_raises_uidvalidity() {
    let mut world = ten();
    let first = world.scan();
    world.remove("dovecot-uidlist");
    let second = world.scan();
    assert!(second.reset && second.uidvalidity > first.uidvalidity);
    assert_eq!(world.uids(), (1..=10).collect::<Vec<_>>());
}

#[test]
fn a_corrupt_uidlist_is_replaced() {
    for broken in ["", "junk\n", "3 V1 N5\n2 :a\n1 :b\n", "3 V1 N5\n1 :a/b\n"] {
        let mut world = ten();
        let first = world.scan();
        world.put("dovecot-uidlist", broken.as_bytes());
        let second = world.scan();
        assert!(second.reset && second.uidvalidity > first.uidvalidity, "{broken:?}");
        assert!(second.defects[0].what.contains("dovecot-uidlist"), "{broken:?}");
        assert!(!world.scan().reset);
    }
}

#[test]
fn a_torn_line_is_not_there_yet() {
    let mut world = ten();
    world.scan();
    let text = world.text("dovecot-uidlist");
    world.put("dovecot-uidlist", format!("{text}11 :to").as_bytes());
    assert!(!world.scan().reset);
    world.put("new/300.M1P1.h", b"\n");
    assert!(!world.scan().reset);
    assert_eq!(world.uids().last(), Some(&11));
    assert!(world.text("dovecot-uidlist").ends_with("10 :200.M1P1.h\n11 :300.M1P1.h\n"));
}

#[test]
fn uids_of_others_hold() {
    let mut world = ten();
    world.put(
        "dovecot-uidlist",
        b"3 V77 N50 G0123456789abcdef0123456789abcdef Px\n7 W20 :105.M1P1.h\n9 :200.M1P1.h\n",
    );
    let report = world.scan();
    assert_eq!((report.uidvalidity.get(), report.uidnext), (77, uid(58)));
    assert_eq!(world.uids(), [7, 9, 50, 51, 52, 53, 54, 55, 56, 57]);
    assert!(
        world
            .text("dovecot-uidlist")
            .starts_with("3 V77 N50 G0123456789abcdef0123456789abcdef Px\n7 W20 :")
    );
    // // Another program assigns the next UID, which is read from the end of the file.
    world.put("new/300.M1P1.h", b"\n");
    let text = world.text("dovecot-uidlist");
    world.put("dovecot-uidlist", format!("{text}60 :300.M1P1.h\n").as_bytes());
    let report = world.scan();
    assert_eq!((report.reset, world.uids().last()), (false, Some(&60)));
    // // The program rewrites the file under another UIDVALIDITY.
    world.put("dovecot-uidlist", b"3 V78 N2 G0123456789abcdef0123456789abcdef\n1 :300.M1P1.h\n");
    let report = world.scan();
    assert!(report.reset && report.uidvalidity.get() == 78);
    assert_eq!(world.uids(), (1..=11).collect::<Vec<_>>());
}

#[test]
fn read_only_uids_are_kept_by_the_ledger_and_move_to_the_file() {
    let mut world = ten();
    world.read_only = true;
    let first = world.scan();
    assert!(world.vfs.metadata(Path::new("/box/dovecot-uidlist")).is_err());
    world.put("new/300.M1P1.h", b"\n");
    let second = world.scan();
    assert_eq!((second.reset, second.uidvalidity), (false, first.uidvalidity));
    let lines = world.lines();
    world.forget();
    assert_eq!(world.scan().uidvalidity, first.uidvalidity);
    assert_eq!(world.lines(), lines);
    world.read_only = false;
    world.put("new/400.M1P1.h", b"\n");
    let third = world.scan();
    assert_eq!((third.reset, third.uidvalidity), (false, first.uidvalidity));
    assert_eq!(world.lines()[..11], lines);
    assert!(world.text("dovecot-uidlist").ends_with("\n12 :400.M1P1.h\n"));
    world.forget();
    world.scan();
    assert_eq!(world.lines()[..11], lines);
    assert!(world.ledger().unwrap().entries().unwrap().is_empty());
}

#[test]
fn provisional_uids_that_another_gives_away_raise_uidvalidity() {
    let mut world = ten();
    let first = world.scan();
    world.put("new/300.M1P1.h", b"\n");
    world.read_only = true;
    assert_eq!(world.scan().uidvalidity, first.uidvalidity);
    assert_eq!(world.uids().last(), Some(&11));
    world.put("new/250.M1P1.h", b"\n");
    let text = world.text("dovecot-uidlist");
    world.put("dovecot-uidlist", format!("{text}11 :250.M1P1.h\n12 :300.M1P1.h\n").as_bytes());
    for read_only in [true, false, true] {
        world.read_only = read_only;
        let report = world.scan();
        assert!(report.uidvalidity > first.uidvalidity);
    }
}

/// Damages the ledger beyond repair.
fn lose_ledger(world: &World) {
    let mut ledger = world.ledger().unwrap();
    let modseq = ledger.highest_modseq().next();
    ledger.raise_modseq(modseq);
    ledger.commit().unwrap();
    let path = world.state_dir.join(format!("{:032x}.ledger", 7));
    world.vfs.open(&path, OpenOptions::WRITE).unwrap().set_len(100).unwrap();
    assert!(world.ledger().unwrap().is_lost());
}

#[test]
fn uids_that_only_a_lost_ledger_had_raise_uidvalidity() {
    for (forget, deliver) in [(true, false), (false, false), (true, true), (false, true)] {
        let mut world = ten();
        let first = world.scan();
        world.put("new/300.M1P1.h", b"\n");
        world.read_only = true;
        assert_eq!(world.scan().uidvalidity, first.uidvalidity);
        assert_eq!(world.uids().last(), Some(&11));
        lose_ledger(&world);
        if deliver {
            world.put("new/250.M1P1.h", b"\n");
        }
        world.read_only = false;
        if forget {
            world.forget();
        }
        let second = world.scan();
        assert!(second.uidvalidity > first.uidvalidity);
        // // The next scan keeps the UIDVALIDITY.
        world.put("new/400.M1P1.h", b"\n");
        assert_eq!(world.scan().uidvalidity, second.uidvalidity);
        assert!(!world.ledger().unwrap().is_lost());
    }
}

#[test]
fn a_lost_ledger_of_a_maildir_whose_uids_are_listed_renumbers_nothing() {
    for forget in [true, false] {
        let mut world = ten();
        let first = world.scan();
        let lines = world.lines();
        lose_ledger(&world);
        if forget {
            world.forget();
        }
        let second = world.scan();
        assert_eq!((second.uidvalidity, world.lines()), (first.uidvalidity, lines));
        assert!(!world.ledger().unwrap().is_lost());
        world.put("new/400.M1P1.h", b"\n");
        assert_eq!(world.scan().uidvalidity, first.uidvalidity);
    }
}

#[test]
fn keywords_are_slots_and_stay() {
    let mut world = world();
    world.put("dovecot-keywords", b"0 Junk\n2 todo\n");
    world.put("cur/1.h:2,Sac", b"\n");
    world.scan();
    assert_eq!(world.lines(), ["1 cur/1.h:2,Sac Seen,Junk,todo"]);
    world.put("dovecot-keywords", b"0 Junk\n1 work\n2 later\n");
    world.put("cur/2.h:2,b", b"\n");
    let report = world.scan();
    assert_eq!(world.lines(), ["1 cur/1.h:2,Sac Seen,Junk,later", "2 cur/2.h:2,b work"]);
    let names: Vec<_> = report.keywords.names().iter().map(|k| k.as_str()).collect();
    assert_eq!(names, ["Junk", "todo", "work", "later"]);
    world.put("cur/3.h:2,z", b"\n");
    assert!(!world.scan().defects.is_empty());
    assert_eq!(world.lines()[2], "3 cur/3.h:2,z unknown-25");
}

#[test]
fn twins_are_two_messages() {
    let mut world = world();
    world.put("cur/1.h:2,S", b"Subject: one\n\n");
    world.scan();
    world.pass_time();
    world.put("cur/1.h:2,F", b"Subject: two\n\n");
    let report = world.scan();
    assert!(report.defects.iter().any(|defect| defect.what.contains("share the name")));
    assert_eq!(world.uids(), [1, 2]);
    assert_eq!(world.read(1).unwrap(), b"Subject: one\n\n");
    assert_eq!(world.read(2).unwrap(), b"Subject: two\n\n");
    // // Each of them keeps its UID, and no other message gets it.
    world.rename("cur/1.h:2,F", "cur/1.h:2,FR");
    world.put("new/9.h", b"\n");
    assert!(!world.scan().reset);
    assert_eq!(
        world.lines(),
        ["1 cur/1.h:2,S Seen", "2 cur/1.h:2,FR Answered,Flagged", "3 new/9.h Recent"]
    );
    let lines = world.lines();
    world.forget();
    world.scan();
    assert_eq!(world.lines(), lines);
    world.remove("cur/1.h:2,S");
    assert_eq!(world.scan().expunged, [uid(1)]);
    assert_eq!(world.read(2).unwrap(), b"Subject: two\n\n");
    // The one that is left is still the second one.
    world.rename("cur/1.h:2,FR", "cur/1.h:2,F");
    world.scan();
    assert_eq!(world.lines(), ["2 cur/1.h:2,F Flagged", "3 new/9.h Recent"]);
}

#[test]
fn a_file_with_two_names_is_one_message() {
    let mut world = world();
    world.put("new/1.h", b"\n");
    world.vfs.hard_link(Path::new("/box/new/1.h"), Path::new("/box/cur/1.h:2,S")).unwrap();
    let report = world.scan();
    assert_eq!(world.lines(), ["1 cur/1.h:2,S Seen"]);
    assert!(report.defects.iter().any(|defect| defect.what.contains("two names")));
}

#[test]
fn long_headers_are_read_in_bounded_memory() {
    let mut world = world();
    let long = |len: usize| [b"X: ".to_vec(), vec![b'x'; len], b"\n\nbody\n".to_vec()].concat();
    world.put("cur/1.h:2,", &long(100_000));
    world.put("cur/2.h:2,", &long(HEADER_LEN_MAX + 5));
    world.put("cur/3.h:2,", &vec![b'x'; 50_000]);
    world.put("cur/4.h:2,", b"");
    // // After this time, no program is considered to be writing them.
    world.pass_time();
    let report = world.scan();
    let lens: Vec<usize> = world.cache.messages.values().map(|m| m.header.len()).collect();
    assert_eq!(lens, [100_005, HEADER_LEN_MAX, 50_000, 0]);
    assert_eq!(report.defects.len(), 1);
    assert_eq!(report.defects[0].uid, Some(uid(2)));
}
/// Fails accesses to message 2 of three with `fault`, then lets them succeed.
/// /// Makes every read of message 2 of three fail, then lets it succeed.
fn check_unreadable(second: &[u8], fault: Fault, header_len: usize) {
    let disk = MemVfs::new();
    let mut world = World::new(Arc::new(disk.clone()));
    world.put("cur/1.h:2,", b"Subject: 1\n\n");
    world.put("cur/2.h:2,", second);
    world.put("cur/3.h:2,", b"Subject: 3\n\n");
    world.pass_time();
    let denied = FaultEffect::Error(std::io::ErrorKind::PermissionDenied);
    let fault = fault.with(denied).forever();
    let faulty = |path: &str| Arc::new(FaultVfs::new(disk.clone(), fault.clone().under(path)));
    world.vfs = faulty("/box/cur/2.h:2,");
    let check = |world: &mut World, name: &str, messages_read| {
        let report = world.scan();
        let defect = &report.defects[0];
        assert_eq!((defect.kind, defect.uid), (DefectKind::Unreadable, Some(uid(2))));
        assert!(defect.what.starts_with(&format!("cannot be read: {name}: ")), "{}", defect.what);
        assert_eq!((report.defects.len(), report.stats.messages_read), (1, messages_read));
        assert!(world.mailbox().has_unread(&report.state));
        assert_eq!(world.uids(), [1, 2, 3]);
        assert_eq!(world.cache.messages[&uid(2)].header.len(), header_len);
    };
    check(&mut world, "cur/2.h:2,", 3);
    world.pass_time();
    check(&mut world, "cur/2.h:2,", 0);
    world.rename("cur/2.h:2,", "cur/2.h:2,S");
    world.vfs = faulty("/box/cur/2.h:2,S");
    check(&mut world, "cur/2.h:2,S", 0);
    world.pass_time();
    world.scan();
    world.vfs = Arc::new(disk.clone());
    let report = world.scan();
    assert!(report.reset && report.defects.is_empty(), "{:?}", report.defects);
    assert!(!world.mailbox().has_unread(&report.state));
    assert_eq!(world.uids(), [1, 2, 3]);
    assert_eq!(world.cache.messages[&uid(2)].header, second);
    assert!(!world.scan().reset);
}

#[test]
fn what_cannot_be_read_is_tried_again() {
    check_unreadable(b"Subject: 2\n\n", Fault::nth(0).of(CallKind::Open), 0);
    check_unreadable(b"Subject: 2\n\n", Fault::nth(0).of(CallKind::Read), 0);
    let long = [b"X: ".to_vec(), vec![b'x'; 3 * HEAD_LEN], b"\n\n".to_vec()].concat();
    check_unreadable(&long, Fault::nth(1).of(CallKind::Read), HEAD_LEN);
}

#[test]
fn what_cannot_be_read_and_goes_is_forgotten() {
    let disk = MemVfs::new();
    let mut world = World::new(Arc::new(disk.clone()));
    world.put("cur/1.h:2,", b"Subject: 1\n\n");
    world.pass_time();
    let fault = Fault::nth(0).of(CallKind::Open).under("/box/cur/1.h:2,").forever();
    world.vfs = Arc::new(FaultVfs::new(disk, fault));
    assert_eq!(world.scan().defects.len(), 1);
    world.remove("cur/1.h:2,");
    world.pass_time();
    let report = world.scan();
    assert_eq!((report.expunged, report.defects.len()), (vec![uid(1)], 0));
    assert!(!world.mailbox().has_unread(&report.state));
}

#[test]
fn a_header_may_end_anywhere_in_a_read() {
    let mut world = world();
    for len in 16_370..16_395 {
        let text = [b"X: ".to_vec(), vec![b'x'; len], b"\r\n\r\nbody\r\n".to_vec()].concat();
        world.put(&format!("cur/{len}.h:2,"), &text);
    }
    world.scan();
    let lens: Vec<usize> = world.cache.messages.values().map(|m| m.header.len()).collect();
    assert_eq!(lens, (16_370..16_395).map(|len| len + 7).collect::<Vec<_>>());
}

#[test]
fn a_message_that_is_gone_says_so() {
    let mut world = ten();
    world.scan();
    world.remove("new/200.M1P1.h");
    assert!(matches!(world.read(10), Err(barid_mailbox::Error::MessageGone { .. })));
}

#[test]
fn many_chunks_come_in_order() {
    let mut world = world();
    for number in 0..2_000 {
        world.put(&format!("cur/{number}.h:2,"), format!("Subject: {number}\n\n").as_bytes());
    }
    world.threads = 4;
    world.scan();
    for (number, (uid, message)) in world.cache.messages.iter().enumerate() {
        assert_eq!(uid.get() as usize, number + 1);
        assert_eq!(message.header, format!("Subject: {number}\n\n").as_bytes());
    }
}

#[test]
fn recent_is_what_is_in_new() {
    let mut world = ten();
    world.scan();
    let recent = |world: &World| {
        let recent = world.cache.messages.iter().filter(|(_, m)| m.flags.contains(Flag::Recent));
        recent.map(|(uid, _)| uid.get()).collect::<Vec<_>>()
    };
    assert_eq!(recent(&world), [10]);
    world.rename("cur/100.M1P1.h:2,S", "new/100.M1P1.h");
    world.scan();
    assert_eq!(recent(&world), [1, 10]);
}

#[test]
fn waste_is_written_away() {
    let mut world = world();
    for number in 0..100 {
        world.put(&format!("cur/{number}.h:2,"), b"\n");
    }
    world.scan();
    for number in 0..90 {
        world.remove(&format!("cur/{number}.h:2,"));
    }
    world.scan();
    assert_eq!(world.text("dovecot-uidlist").lines().count(), 101);
    world.put("cur/500.h:2,", b"\n");
    world.scan();
    let text = world.text("dovecot-uidlist");
    assert_eq!(text.lines().count(), 12, "{text}");
    assert_eq!(world.uids(), (91..=101).collect::<Vec<_>>());
    let lines = world.lines();
    world.forget();
    assert!(world.scan().uidnext == uid(102));
    assert_eq!(world.lines(), lines);
}

#[test]
fn a_name_with_a_line_end_is_passed_over() {
    let mut world = world();
    world.put("cur/a\nb", b"\n");
    world.put("cur/1:x:2,S", b"\n");
    let report = world.scan();
    assert_eq!((world.lines(), report.defects.len()), (vec!["1 cur/1:x:2,S Seen".to_owned()], 1));
}

#[test]
fn a_foreign_lock_is_waited_for_and_broken_when_stale() {
    let mut world = ten();
    world.put("dovecot-uidlist.lock", b"999999:elsewhere");
    let start = world.vfs.now().unix_nanos;
    let error = world.try_scan().unwrap_err();
    assert!(matches!(error, barid_mailbox::Error::Locked { .. }), "{error}");
    let waited = |world: &World| (world.vfs.now().unix_nanos - start) / 1_000_000_000;
    assert!((29..40).contains(&waited(&world)));
    world.vfs.sleep(std::time::Duration::from_secs(120));
    world.scan();
    assert_eq!(world.uids().len(), 10);
    let lock = world.vfs.open(Path::new("/box/dovecot-uidlist.lock"), OpenOptions::READ);
    assert!(lock.is_err(), "the lock is gone");
}

#[test]
fn used_up_uids_start_anew() {
    let mut world = ten();
    let first = world.scan();
    let header = world.text("dovecot-uidlist").replacen(" N11 ", " N4294967295 ", 1);
    world.put("dovecot-uidlist", header.as_bytes());
    world.put("new/300.M1P1.h", b"\n");
    let second = world.scan();
    assert!(second.reset && second.uidvalidity > first.uidvalidity);
    assert_eq!(world.uids(), (1..=11).collect::<Vec<_>>());
}

#[test]
fn a_full_check_sees_what_stamps_hide() {
    let mut world = ten();
    world.scan();
    world.pass_time();
    world.scan();
    let cur = world.vfs.metadata(Path::new("/box/cur")).unwrap();
    world.rename("cur/100.M1P1.h:2,S", "cur/100.M1P1.h:2,FS");
    world.vfs.set_times(Path::new("/box/cur"), cur.accessed, cur.modified).unwrap();
    world.full_check = true;
    assert_eq!(world.scan().changed.len(), 1);
}

/// /// Sinks during whose first call another process scans.
struct Meanwhile(Mutex<Option<World>>);

impl Sinks for Meanwhile {
    fn sink(&self, _: u32) -> Box<dyn ScanSink + '_> {
        if let Some(mut other) = self.0.lock().unwrap().take() {
            other.scan();
        }
        Box::new(Nowhere)
    }
}

struct Nowhere;

impl ScanSink for Nowhere {
    fn message(&mut self, _: &ScannedMessage<'_>) -> Result<(), SinkError> {
        Ok(())
    }
    fn finish(self: Box<Self>) -> Result<(), SinkError> {
        Ok(())
    }
}

#[test]
fn uids_that_another_process_gives_out_meanwhile_are_noticed() {
    let world = World { read_only: true, ..ten() };
    let other = World::at(Arc::clone(&world.vfs), &world.path, &world.state_dir);
    let sinks = Meanwhile(Mutex::new(Some(World { read_only: true, ..other })));
    let mut ledger = world.ledger().unwrap();
    let mut context = ScanContext {
        ledger: &mut ledger,
        read_only: true,
        full_check: false,
        will_rescan: false,
        threads: 1,
        progress: None,
    };
    let report = world.mailbox().scan(&EmptyKnown::default(), &sinks, &mut context);
    assert!(matches!(report, Err(Error::Changed { .. })), "{report:?}");
}
