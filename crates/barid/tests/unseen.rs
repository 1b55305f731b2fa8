//! Appends that nobody looks at: their UIDs are those that everybody finds later.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid::{
    Cancel, ChangeOptions, ChangeRequest, Flag, Mailbox, Mailboxes, NewMessage, ReadAs, Uid,
    UidValidity,
};
use barid_vfs::{
    CallKind, CountingVfs, CrashVfs, Fault, FaultVfs, Host as _, OpenOptions as OpenFile, Vfs,
};

use crate::arena::{Arena, FORMATS, add, flag, memory, now};

/// Appends two messages; returns their UIDs.
fn append(mailbox: &mut Mailbox, number: u32) -> Vec<Uid> {
    let texts = [number, number + 1].map(|number| format!("Subject: {number}\n\n{number}\n"));
    let appends =
        texts.each_ref().map(|text| NewMessage { bytes: text.as_bytes(), ..Default::default() });
    let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
    let changed =
        mailbox.change(&request, &ChangeOptions { appends_unseen: true, ..now() }).unwrap();
    assert_eq!(changed.appends, 2);
    changed.appended
}

/// Checks that the messages of [`append`] have these UIDs for whoever opens the mailbox now.
fn check(arena: &Arena, uids: &[Uid], number: u32) {
    let mut mailbox = arena.open();
    for (uid, number) in uids.iter().zip(number..) {
        let bytes = mailbox.read(*uid, ReadAs::Message).unwrap().bytes;
        assert!(String::from_utf8_lossy(&bytes).ends_with(&format!("\n\n{number}\n")), "{uid}");
    }
}

fn uidlist(arena: &Arena) -> PathBuf {
    arena.spec.path.join("dovecot-uidlist")
}

fn text_of(arena: &Arena, path: &Path) -> String {
    String::from_utf8(arena.vfs.read(path, u64::MAX).unwrap()).unwrap()
}

fn replace(arena: &Arena, path: &Path, text: &str) {
    arena.vfs.remove_file(path).unwrap();
    let file = arena.vfs.open(path, OpenFile::create_new(0o600)).unwrap();
    file.write_all_at(text.as_bytes(), 0).unwrap();
}

#[test]
fn their_uids_are_those_that_a_scan_finds() {
    for name in FORMATS {
        let mut arena = Arena::in_memory(name, 31);
        arena.deliver(5);
        let mut mailbox = arena.open();
        let mut all = Vec::new();
        for round in 0..4 {
            let uids = append(&mut mailbox, 100 + round * 2);
            all.push((uids, 100 + round * 2));
            // Another program delivers, and another process gives its message a UID.
            arena.deliver(1);
            if round == 1 {
                arena.open();
            }
        }
        for (uids, number) in &all {
            check(&arena, uids, *number);
        }
        mailbox.refresh().unwrap();
        assert_eq!(mailbox.len(), 5 + 4 * 3, "{name}");
    }
}

/// Writes over a file, which keeps its inode.
fn write_over(arena: &Arena, path: &Path, text: &str) {
    let file = arena.vfs.open(path, OpenFile::WRITE).unwrap();
    file.write_all_at(text.as_bytes(), 0).unwrap();
}

#[test]
fn a_list_with_another_uidvalidity_is_the_one_that_counts() {
    for write in [replace, write_over] {
        let mut arena = Arena::in_memory("maildir", 31);
        arena.deliver(3);
        let mut mailbox = arena.open();
        let text = text_of(&arena, &uidlist(&arena));
        let before = mailbox.status().uidvalidity.get();
        let other = text.replacen(&format!("V{before}"), &format!("V{}", before + 7), 1);
        assert_eq!(text.len(), other.len());
        write(&arena, &uidlist(&arena), &other);
        let appends = [NewMessage { bytes: b"A: b\n\n", ..NewMessage::default() }];
        let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
        let options = ChangeOptions { appends_unseen: true, ..now() };
        let changed = mailbox.change(&request, &options).unwrap();
        let seen = arena.open();
        assert_eq!(seen.status().uidvalidity.get(), before + 7);
        assert_eq!(changed.appended_under, Some(seen.status().uidvalidity));
        let last = seen.uids().unwrap().last().copied();
        assert_eq!(last, changed.appended.last().map(|uid| uid.get()));
    }
}

#[test]
fn very_many_are_looked_at_in_between() {
    let mut arena = Arena::in_memory("maildir", 31);
    arena.deliver(3);
    let mut mailbox = arena.open();
    let mut all = Vec::new();
    for round in 0..1000 {
        all.extend(append(&mut mailbox, round * 2));
    }
    // The end of the list that is read for each append does not grow without bound.
    let seen = mailbox.len();
    assert!((1000..2003).contains(&seen), "{seen}");
    check(&arena, &all, 0);
    assert_eq!(arena.open().len(), 2003);
}

#[test]
fn a_list_of_earlier_days_gives_no_uid_again() {
    let mut arena = Arena::in_memory("maildir", 31);
    arena.deliver(3);
    let mut mailbox = arena.open();
    let old = text_of(&arena, &uidlist(&arena));
    let first = append(&mut mailbox, 100);
    mailbox.refresh().unwrap();
    replace(&arena, &uidlist(&arena), &old);
    let status = mailbox.status();
    let second = append(&mut mailbox, 200);
    let now = arena.open();
    // As after every loss of UIDs: none is given again under one UIDVALIDITY.
    let is_renumbered = now.status().uidvalidity != status.uidvalidity;
    assert!(is_renumbered || second[0] > first[1], "{first:?} {second:?}");
    check(&arena, &second, 200);
}

fn empty_mbox(vfs: Arc<dyn Vfs>) -> Arena {
    Arena::new(vfs, Path::new("/"), "mboxrd", 31)
}

/// Returns the UIDs, the text and the flags of what another process finds.
fn seen_by_others(arena: &Arena) -> (UidValidity, Vec<(u32, String)>) {
    let mut mailbox = arena.open();
    let uids = mailbox.uids().unwrap();
    let texts = uids.iter().map(|uid| {
        let bytes = mailbox.read(Uid::new(*uid).unwrap(), ReadAs::Message).unwrap().bytes;
        let own = barid::message::strip_owned(&bytes).into_owned();
        (*uid, String::from_utf8(own).unwrap())
    });
    let texts = texts.collect();
    (mailbox.status().uidvalidity, texts)
}

fn text(number: u32) -> String {
    format!("Subject: {number}\n\n{number}\n")
}

#[test]
fn an_mbox_is_neither_scanned_nor_entered_in_the_ledger() {
    let disk = memory();
    disk.set_syncs_names(true);
    let vfs = CountingVfs::new(disk);
    let arena = empty_mbox(Arc::new(vfs.clone()));
    let mut mailbox = arena.open();
    // The first message gets the field with the last UID, and is looked at.
    let mut all = append(&mut mailbox, 0);
    assert_eq!(mailbox.len(), 2);
    let modseq = mailbox.status().highest_modseq;
    for round in 1..6 {
        let before = vfs.counts();
        all.extend(append(&mut mailbox, round * 2));
        let cost = vfs.counts().since(&before);
        assert_eq!(cost.of(CallKind::Sync), 2, "{round}: {cost:?}");
        let written = cost.bytes_under(&arena.options().state_dir).written;
        assert_eq!(written, 0, "{round}: {cost:?}");
    }
    assert_eq!((mailbox.len(), mailbox.status().highest_modseq), (2, modseq));
    let expected: Vec<_> = all.iter().zip(0..).map(|(uid, n)| (uid.get(), text(n))).collect();
    let (validity, others) = seen_by_others(&arena);
    assert_eq!(others, expected);
    // The scan of the process itself has nothing to verify.
    let before = vfs.counts();
    mailbox.refresh().unwrap();
    let cost = vfs.counts().since(&before);
    assert_eq!((mailbox.uids().unwrap().len(), mailbox.status().uidvalidity), (12, validity));
    assert!(mailbox.status().highest_modseq > modseq, "{cost:?}");
    // And what follows works on what was appended.
    let last = all.last().unwrap().get();
    mailbox.change(&flag(&[last], &add(Flag::Flagged)), &now()).unwrap();
    all.extend(append(&mut mailbox, 12));
    let expected: Vec<_> = all.iter().zip(0..).map(|(uid, n)| (uid.get(), text(n))).collect();
    assert_eq!(seen_by_others(&arena), (validity, expected));
}

/// Another program removes all but the last message, and with the first one the field that tells
/// which UIDs were given.
fn keep_the_last(arena: &Arena) {
    let path = arena.spec.path.clone();
    let content = text_of(arena, &path);
    let last = content.rfind("\nFrom ").unwrap() + 1;
    assert!(content.contains("X-IMAPbase") && !content[last..].contains("X-IMAPbase"));
    arena.vfs.open(&path, OpenFile::WRITE).unwrap().set_len(0).unwrap();
    write_over(arena, &path, &content[last..]);
}

#[test]
fn uids_that_only_a_lost_field_told_are_given_to_no_other() {
    let check = |arena: &Arena, told: &[Uid]| {
        let (_, found) = seen_by_others(arena);
        let [(now, text_now)] = &found[..] else { panic!("{found:?}") };
        let (last, others) = told.split_last().unwrap();
        assert_eq!(*text_now, text(told.len() as u32 - 1));
        assert!(*now == last.get() || others.iter().all(|uid| uid.get() < *now), "{now} {told:?}");
    };
    let append_all = |mailbox: &mut Mailbox| {
        let told: Vec<Uid> = (0..3).flat_map(|round| append(mailbox, round * 2)).collect();
        assert_eq!(mailbox.len(), 2, "the others are unseen");
        told
    };
    // The process that appended looks at it.
    let arena = empty_mbox(Arc::new(memory()));
    let mut mailbox = arena.open();
    let told = append_all(&mut mailbox);
    keep_the_last(&arena);
    mailbox.refresh().unwrap();
    check(&arena, &told);
    // It has closed the mailbox before.
    let arena = empty_mbox(Arc::new(memory()));
    let mailboxes = Mailboxes::new(Arc::clone(&arena.vfs), arena.options(), None);
    let shared = mailboxes.open_spec(&arena.spec).unwrap();
    let told = shared.update(&Cancel::new(), |mailbox, _| Ok(append_all(mailbox))).unwrap();
    drop((shared, mailboxes));
    keep_the_last(&arena);
    check(&arena, &told);
}

#[test]
fn what_others_did_to_an_mbox_meanwhile_is_looked_at() {
    type Act = fn(&mut Arena);
    let acts: [Act; 4] = [
        |arena| {
            arena.deliver(1);
        },
        |arena| drop(append(&mut arena.open(), 50)),
        |arena| {
            let mut mailbox = arena.open();
            let first = mailbox.uids().unwrap()[0];
            mailbox.change(&crate::arena::expunge(&[first]), &now()).unwrap();
        },
        // The same size as before.
        |arena| {
            let path = arena.spec.path.clone();
            let content = text_of(arena, &path).replacen("Subject: 3", "Subject: X", 1);
            write_over(arena, &path, &content);
        },
    ];
    for (at, act) in acts.into_iter().enumerate() {
        let mut arena = empty_mbox(Arc::new(memory()));
        let mut mailbox = arena.open();
        let mut told = Vec::new();
        for round in 0..3 {
            let uids = append(&mut mailbox, round * 2);
            told.extend(uids.into_iter().zip(round * 2..));
        }
        act(&mut arena);
        for round in 10..12 {
            let uids = append(&mut mailbox, round * 2);
            told.extend(uids.into_iter().zip(round * 2..));
        }
        let (_, found) = seen_by_others(&arena);
        let mut missing = Vec::new();
        for (uid, number) in told {
            match found.iter().find(|(found, _)| *found == uid.get()) {
                Some((_, found)) if *found == text(number) => {}
                found => missing.push((number, found)),
            }
        }
        // The message that was expunged, or overwritten.
        assert_eq!(missing.len(), usize::from(at >= 2), "{at}: {missing:?}");
        mailbox.refresh().unwrap();
        assert_eq!(mailbox.uids().unwrap().len(), found.len(), "{at}");
        assert!(found.windows(2).all(|pair| pair[0].0 < pair[1].0), "{at}: {found:?}");
    }
}

#[test]
fn a_crash_changes_no_uid_that_was_told() {
    const SEEDS: u64 = 8;
    let disk = memory();
    let arena = empty_mbox(Arc::new(disk.clone()));
    append(&mut arena.open(), 0);
    let crash = CrashVfs::new(&disk);
    let running = arena.on(Arc::new(crash.vfs()));
    let mut mailbox = running.open();
    let first = crash.points();
    let told: Vec<(u64, Vec<Uid>, u32)> = (1..4)
        .map(|round| {
            let uids = append(&mut mailbox, round * 2);
            (crash.points() as u64, uids, round * 2)
        })
        .collect();
    let mut compared = 0;
    for point in first..=crash.points() {
        for seed in 0..SEEDS {
            let left = arena.on(Arc::new(crash.crash_at(point, seed)));
            let at = format!("point {point}, seed {seed}");
            let again = append(&mut left.open(), 90);
            let (_, found) = seen_by_others(&left);
            for (when, uids, number) in &told {
                for (uid, number) in uids.iter().zip(*number..) {
                    let is_told = *when <= point as u64;
                    let there = found.iter().find(|(found, _)| *found == uid.get());
                    let is_it = there.is_some_and(|(_, found)| *found == text(number));
                    assert!(is_it || !is_told, "{at}: UID {uid}: {there:?}");
                    assert!(!is_told || !again.contains(uid), "{at}: UID {uid} is given again");
                    compared += u32::from(is_told);
                }
            }
            assert_eq!(found.iter().filter(|(_, found)| *found == text(90)).count(), 1, "{at}");
        }
    }
    assert!(compared > 100, "only {compared} comparisons");
}

#[test]
fn an_append_that_fails_leaves_the_next_ones_right() {
    let mut faults = 0;
    for nth in 0.. {
        let disk = memory();
        let arena = empty_mbox(Arc::new(disk.clone()));
        append(&mut arena.open(), 0);
        let vfs = FaultVfs::new(disk.clone(), Fault::nth(nth));
        let mut mailbox = arena.open();
        let mut told: Vec<(Uid, u32)> = append(&mut mailbox, 2).into_iter().zip(2..).collect();
        drop(mailbox);
        let faulty = arena.on(Arc::new(vfs.clone()));
        let Ok(mut mailbox) = faulty.try_open(&faulty.options()) else { continue };
        for number in [4, 6, 8] {
            let texts = [text(number)];
            let appends = texts
                .each_ref()
                .map(|text| NewMessage { bytes: text.as_bytes(), ..Default::default() });
            let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
            let options = ChangeOptions { appends_unseen: true, ..now() };
            if let Ok(changed) = mailbox.change(&request, &options) {
                told.extend(changed.appended.into_iter().zip(number..));
            }
            disk.sleep(std::time::Duration::from_secs(600));
        }
        let (_, found) = seen_by_others(&arena);
        for (uid, number) in told {
            let there = found.iter().find(|(found, _)| *found == uid.get());
            assert_eq!(there.map(|(_, text)| text.clone()), Some(text(number)), "{nth} {uid}");
        }
        if !vfs.fired() {
            break;
        }
        faults += 1;
    }
    assert!(faults > 50, "only {faults} faults");
}
