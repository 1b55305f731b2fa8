//! Appending with UIDs in the file.

use std::sync::Arc;

use barid_mailbox::{ChangeSet, EmptyKnown, NewMessage, ReadAs, Storage, SyncContext};
use barid_types::{Flag, FlagSet, InternalDate, Keyword, Uid};
use barid_vfs::{CallKind, CountingVfs, CrashVfs, MemVfs, OpenOptions, Vfs};

use super::support::{Cached, World};
use crate::mbox::Variant;
use crate::mbox::append::{MboxAppend, append};

const FROM: &str = "From a@b Sun Sep  9 01:46:40 2001\n";

fn message(bytes: &[u8]) -> NewMessage<'_> {
    NewMessage {
        bytes,
        internal_date: Some(InternalDate { unix_seconds: 1_000_000_000, zone_minutes: 0 }),
        flags: FlagSet::EMPTY,
        keywords: Vec::new(),
        sender: Some("a@b"),
        stored: None,
        uid: None,
        uidnext: None,
        rest: None,
    }
}

/// Returns a file of two messages with UIDs 3 and 7, whose last UID is `uid_last`.
fn file(uid_last: &str) -> String {
    format!(
        "{FROM}A: 0\nX-IMAPbase: 1700000000 {uid_last} Junk\nX-UID: 3\n\nzero\n\n\
         {FROM}A: 1\nStatus: RO\nX-UID: 7\n\none\n\n"
    )
}

fn text(world: &World) -> String {
    String::from_utf8(world.vfs.read(&world.path, 1 << 30).unwrap()).unwrap()
}

fn uids(appended: &MboxAppend) -> Vec<Option<u32>> {
    appended.uids.iter().map(|uid| uid.map(|uid| uid.get())).collect()
}

#[test]
fn messages_get_the_next_uids_and_the_whole_block() {
    let world = World::new(file("0000000009").as_bytes());
    let known = world.scan();
    let mut two = message(b"A: 3\nX-UID: 77\n\nthree\n");
    two.flags = FlagSet::EMPTY.with(Flag::Seen).with(Flag::Deleted).with(Flag::Answered);
    two.keywords = Keyword::new("Junk").into_iter().collect();
    let messages = [message(b"A: 2\n\ntwo\n"), two];
    let appended = append(&world.mailbox(), &messages, &known).unwrap();
    assert_eq!(uids(&appended), [Some(10), Some(11)]);
    let pad = " ".repeat(64);
    let expected = file("0000000011")
        + &format!(
            "{FROM}A: 2\nStatus: \nX-Status: \nX-Keywords:{pad}\nX-UID: 10\n\n\
             two\n\n\
             {FROM}A: 3\nStatus: R\nX-Status: DA\nX-Keywords: Junk{pad}\nX-UID: 11\n\n\
             three\n\n",
        );
    assert_eq!(text(&world), expected);
    let again = world.scan_again(&known);
    assert_eq!(again.uids(), [3, 7, 10, 11]);
    assert!(again.report.tail_verified);
    assert_eq!(world.scan().uids(), [3, 7, 10, 11]);
    let third = append(&world.mailbox(), &[message(b"A: 4\n\n")], &again).unwrap();
    assert_eq!(uids(&third), [Some(12)]);
    assert!(text(&world).starts_with(&file("0000000012")));
}

#[test]
fn a_new_keyword_is_listed_before_its_message() {
    let world = World::new(file("0000000009").as_bytes());
    let known = world.scan();
    let keywords = ["Junk", "new", "no-ascii-\u{e9}"];
    let mut message = message(b"A: 2\n\ntwo\n");
    message.keywords = keywords.iter().filter_map(|name| Keyword::new(name)).collect();
    let mut context = SyncContext::new(&known);
    let mailbox = world.mailbox();
    let report = mailbox.sync(&ChangeSet::default(), &[message], &mut context).unwrap();
    assert_eq!(report.appended.len(), 1);
    assert!(text(&world).contains("X-IMAPbase: 1700000000 0000000009 Junk new\n"));
    let again = world.scan();
    assert_eq!(again.uids(), [3, 7, 10]);
    assert!(["Junk", "new"].iter().all(|name| again.seen[2].keywords.contains(&(*name).into())));
}

/// Appends to a file after `scanned` was scanned and `changed` was put in its place.
fn number(scanned: &str, changed: Option<&str>) -> Vec<Option<u32>> {
    let world = World::new(scanned.as_bytes());
    let known = world.scan();
    if let Some(changed) = changed {
        world.write(changed.as_bytes());
    }
    let appended = append(&world.mailbox(), &[message(b"A: 2\n\ntwo\n")], &known).unwrap();
    let last = world.scan();
    let read = world.read(last.seen.last().unwrap(), ReadAs::Message);
    assert!(String::from_utf8_lossy(&read).contains("two\n"));
    uids(&appended)
}

#[test]
fn where_it_would_not_be_safe_the_next_scan_numbers() {
    let base = file("0000000009");
    assert_eq!(number(&base, None), [Some(10)]);
    assert_eq!(number(&file("9"), None), [None], "it cannot be raised in place");
    assert_eq!(number(&file("0000000005"), None), [None], "7 is not credible");
    let behind = |last: &str| format!("{base}{FROM}{last}\nlast\n");
    assert_eq!(number(&behind("A: 2\n"), None), [None], "the last has none");
    assert_eq!(number(&base, Some(&behind("X-UID: 8\n"))), [None], "it grew");
    let other = base.replace("X-UID: 7", "X-UID: 8");
    assert_eq!(number(&base, Some(&other)), [None], "another UID");
    let other = base.replace("A: 1", "A: 2");
    assert_eq!(number(&base, Some(&other)), [None], "another message");
    let other = base.replace("1700000000", "1800000000");
    assert_eq!(number(&base, Some(&other)), [None], "another UIDVALIDITY");
    let raised = file("0000000030");
    assert_eq!(number(&base, Some(&raised)), [Some(31)], "others took some");
    let none = base.replace("X-IMAPbase", "X-Nothing");
    assert_eq!(number(&none, None), [None]);
    assert_eq!(number("", None), [None]);
}

#[test]
fn the_uid_of_a_message_that_came_and_went_is_not_given_again() {
    let world = World::new(file("0000000009").as_bytes());
    let known = world.scan();
    let mut ledger = world.ledger();
    world.append(format!("{FROM}A: 2\n\ntwo\n\n").as_bytes());
    assert_eq!(world.scan_again(&known).uids(), [3, 7, 10]);
    world.write(file("0000000009").as_bytes());
    let mut context = SyncContext::new(&known);
    context.ledger = Some(&mut ledger);
    let mailbox = world.mailbox();
    let report =
        mailbox.sync(&ChangeSet::default(), &[message(b"A: 3\n\nthree\n")], &mut context).unwrap();
    assert_eq!(report.appended, [Uid::new(11)]);
}

#[test]
fn an_unknown_mailbox_is_not_numbered() {
    let world = World::new(file("0000000009").as_bytes());
    let known = EmptyKnown::default();
    let appended = append(&world.mailbox(), &[message(b"A: 2\n\n")], &known).unwrap();
    assert_eq!(uids(&appended), [None]);
}

#[test]
fn behind_a_pseudo_message_the_first_is_numbered() {
    let pseudo = format!("{FROM}Subject: x\nX-IMAP: 1700000000 0000000004\nStatus: RO\n\ntext\n\n");
    let world = World::new(pseudo.as_bytes());
    let known = world.scan();
    assert_eq!(known.seen.len(), 0);
    let appended = append(&world.mailbox(), &[message(b"A: 2\n\n")], &known).unwrap();
    assert_eq!(uids(&appended), [Some(5)]);
    assert_eq!(world.scan().uids(), [5]);
}

#[test]
fn a_session_of_c_client_numbers_itself() {
    let world = World::new(file("0000000009").as_bytes());
    let known = world.scan();
    world.vfs.create_dir(std::path::Path::new("/tmp"), 0o777).unwrap();
    let metadata = world.vfs.metadata(&world.path).unwrap();
    let path = format!("/tmp/.{:x}.{:x}", metadata.device, metadata.inode);
    let session = world.vfs.open(path.as_ref(), OpenOptions::create(0o666)).unwrap();
    assert!(session.try_lock(barid_vfs::LockKind::Flock, barid_vfs::LockMode::Exclusive).unwrap());
    let appended = append(&world.mailbox(), &[message(b"A: 2\n\n")], &known).unwrap();
    assert_eq!(uids(&appended), [None]);
}

#[test]
fn every_variant_takes_them() {
    for variant in Variant::ALL {
        let bar = if variant == Variant::Mmdf { "\u{1}\u{1}\u{1}\u{1}\n" } else { "" };
        let first = format!("{bar}{FROM}X-IMAPbase: 1700000000 0000000003\nX-UID: 3\n\n");
        let mut world = World::new(format!("{first}{bar}").as_bytes());
        world.variant = Some(variant);
        let known = world.scan();
        let appended = append(&world.mailbox(), &[message(b"A: 2\n\nx\n")], &known).unwrap();
        assert_eq!(uids(&appended), [Some(4)], "{variant:?}");
        assert_eq!(world.scan_again(&known).uids(), [3, 4], "{variant:?}");
    }
}

#[test]
fn a_batch_costs_two_barriers_or_three() {
    for (syncs_names, barriers) in [(true, 2), (false, 3)] {
        let disk = MemVfs::new();
        disk.set_syncs_names(syncs_names);
        World::on(Arc::new(disk.clone())).write(file("0000000009").as_bytes());
        let counting = CountingVfs::new(disk.clone());
        let world = World { vfs: Arc::new(counting.clone()), ..World::on(Arc::new(disk)) };
        let known = world.scan();
        let before = counting.counts().of(CallKind::Sync);
        let messages = vec![message(b"A: 2\n\ntext\n"); 1000];
        let appended = append(&world.mailbox(), &messages, &known).unwrap();
        assert_eq!(counting.counts().of(CallKind::Sync) - before, barriers);
        assert_eq!(appended.barriers, barriers);
        assert_eq!(uids(&appended).last(), Some(&Some(1009)));
    }
}

/// Appends two messages with given UIDs 5 and 9 to an empty mailbox.
fn append_first(world: &World, known: &Cached) -> Vec<Option<u32>> {
    let keywords: Vec<Keyword> = ["Junk", "todo"].iter().filter_map(|k| Keyword::new(k)).collect();
    let tagged = NewMessage {
        uid: barid_types::Uid::new(9),
        keywords: vec![keywords[1].clone()],
        ..message(b"A: 3\n\nthree\n")
    };
    let messages =
        [NewMessage { uid: barid_types::Uid::new(5), ..message(b"A: 2\n\ntwo\n") }, tagged];
    let changes = ChangeSet { keywords: vec![keywords[0].clone()], ..ChangeSet::default() };
    let mut context = SyncContext::new(known);
    let report = world.mailbox().sync(&changes, &messages, &mut context).unwrap();
    assert_eq!(report.figures.barriers, 4);
    report.appended.iter().map(|uid| uid.map(|uid| uid.get())).collect()
}

#[test]
fn the_first_messages_bring_their_uids() {
    for variant in Variant::ALL {
        let mut world = World::new(b"");
        world.variant = Some(variant);
        let known = world.scan();
        let validity = known.report.uidvalidity;
        assert_eq!(append_first(&world, &known), [Some(5), Some(9)], "{variant:?}");
        let base = format!("{FROM}X-IMAPbase: {validity} 0000000009 Junk todo\nA: 2\n");
        assert!(text(&world).contains(&base), "{variant:?}: {}", text(&world));
        let again = world.scan_again(&known);
        for found in [&again, &world.scan()] {
            assert_eq!(found.uids(), [5, 9], "{variant:?}");
            assert_eq!(found.report.uidvalidity, validity, "{variant:?}");
        }
        let third = append(&world.mailbox(), &[message(b"A: 4\n\n")], &again).unwrap();
        assert_eq!(uids(&third), [Some(10)], "{variant:?}");
    }
}

#[test]
fn no_crash_gives_a_uid_of_the_first_messages_twice() {
    let disk = MemVfs::new();
    let whole = World::on(Arc::new(disk.clone()));
    whole.write(b"");
    let known = whole.scan();
    disk.sync_dir(std::path::Path::new("/mail")).unwrap();
    disk.sync_dir(std::path::Path::new("/state")).unwrap();
    let crashing = CrashVfs::new(&disk);
    let live = World::on(Arc::new(crashing.vfs()));
    append_first(&live, &known);
    assert!(crashing.points() >= 4);
    for point in 0..=crashing.points() {
        for seed in 0..50 {
            let what = format!("point {point} seed {seed}");
            let found = World::on(Arc::new(crashing.crash_at(point, seed)));
            found.recover();
            let scanned = found.scan();
            assert_eq!(scanned.report.uidvalidity, known.report.uidvalidity, "{what}");
            if point == crashing.points() {
                assert_eq!(scanned.uids(), [5, 9], "{what}");
                let read = found.read(&scanned.seen[1], ReadAs::Message);
                assert!(read.ends_with(b"three\n"), "{what}");
            }
            append(&found.mailbox(), &[message(b"A: 9\n\nnine\n")], &scanned).unwrap();
            let again = found.scan_again(&scanned);
            let last = again.uids().last().copied().unwrap();
            assert!(point < crashing.points() || last > 9, "{what}");
        }
    }
}

/// Checks a file after a crash: it begins with the `acknowledged` messages, and a message appended
/// now gets a UID that none of them has.
fn check_crashed(found: &World, known: &Cached, acknowledged: &[(u32, &[u8])], what: &str) {
    found.recover();
    let cached = known.clone();
    let cached = match found.try_scan(&cached) {
        Ok(next) => cached.and(next),
        Err(error) => panic!("{what}: {error}"),
    };
    let whole = found.scan();
    for (how, scanned) in [("tail", &cached), ("whole", &whole)] {
        let what = &format!("{what}, {how}");
        assert!(scanned.seen.len() >= acknowledged.len(), "{what}");
        assert_eq!(scanned.report.uidvalidity.get(), 1_700_000_000, "{what}");
        for (index, (uid, body)) in acknowledged.iter().enumerate() {
            assert_eq!(scanned.uids[index].get(), *uid, "{what}");
            let read = found.read(&scanned.seen[index], ReadAs::Message);
            assert!(read.ends_with(body), "{what}: {:?}", String::from_utf8_lossy(&read));
        }
    }
    let append_one = append(&found.mailbox(), &[message(b"A: 9\n\nnine\n")], &whole).unwrap();
    let again = found.scan_again(&whole);
    let last = again.uids.last().unwrap();
    assert_eq!(append_one.uids[0].unwrap_or(*last), *last, "{what}");
    assert!(acknowledged.iter().all(|(uid, _)| *uid != last.get()), "{what}");
    let read = found.read(again.seen.last().unwrap(), ReadAs::Message);
    assert!(read.ends_with(b"nine\n"), "{what}");
}

#[test]
fn no_crash_gives_a_uid_twice() {
    // So that the last UID crosses a sector boundary in some of them.
    for shift in [0, 497, 499, 501, 503, 505, 507] {
        let pad = format!("P: {}\nX-IMAPbase", "x".repeat(shift));
        let old = file("0000000099").replace("X-IMAPbase", &pad);
        let disk = MemVfs::new();
        let whole = World::on(Arc::new(disk.clone()));
        whole.write(old.as_bytes());
        let known = whole.scan();
        disk.sync_dir(std::path::Path::new("/mail")).unwrap();
        disk.sync_dir(std::path::Path::new("/state")).unwrap();
        let crashing = CrashVfs::new(&disk);
        let live = World::on(Arc::new(crashing.vfs()));
        let big = format!("A: 2\n\n{}two\n", "a line of the body\n".repeat(100));
        let batch = [message(big.as_bytes()), message(b"A: 3\n\nthree\n")];
        let first = append(&live.mailbox(), &batch, &known).unwrap();
        let first_done = crashing.points();
        let after = live.scan_again(&known);
        assert_eq!(after.uids(), [3, 7, 100, 101]);
        let scanned = crashing.points();
        let second = append(&live.mailbox(), &[message(b"A: 4\n\nfour\n")], &after).unwrap();
        let numbered = uids(&first)[0].is_some();
        // From 99 to 101 three digits change, which is possible unless a sector ends among them.
        let straddles = old.find("0000000099").unwrap() + 7;
        assert_eq!(numbered, straddles / 512 == (straddles + 2) / 512, "{shift}");
        assert_eq!(uids(&second)[0], numbered.then_some(102));
        for point in 0..=crashing.points() {
            for seed in 0..25 {
                let found = World::on(Arc::new(crashing.crash_at(point, seed)));
                let all: [(u32, &[u8]); 5] = [
                    (3, b"zero\n"),
                    (7, b"one\n"),
                    (100, b"two\n"),
                    (101, b"three\n"),
                    (102, b"four\n"),
                ];
                let count = match point {
                    point if point >= crashing.points() => 5,
                    // Without UIDs in the file, they count once a scan has committed them.
                    point if point >= if numbered { first_done } else { scanned } => 4,
                    _ => 2,
                };
                let count = if numbered { count } else { count.min(4) };
                let what = format!("shift {shift} point {point} seed {seed}");
                check_crashed(&found, &known, &all[..count], &what);
            }
        }
    }
}
