//! Appends that nobody looks at: their UIDs are those that everybody finds later.

use std::path::{Path, PathBuf};

use barid::{ChangeOptions, ChangeRequest, Mailbox, NewMessage, ReadAs, Uid};
use barid_vfs::OpenOptions as OpenFile;

use crate::arena::{Arena, FORMATS, now};

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
