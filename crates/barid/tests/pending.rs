//! Accepted changes: visible at once, written later, and matched to the messages they refer to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid::{ChangeOptions, ChangeRequest, Error, Flag, FlagChange, NewMessage, NoteKind};
use barid::{OpenOptions, Uid};
use barid_vfs::{FileType, OpenOptions as FileOptions, Vfs};

use crate::arena::{
    Arena, FORMATS, Found, add, expunge, flag, found, keeping, keyword, later, memory, now, uid,
};

/// Returns an mbox in memory with the given number of messages.
fn mbox(count: u64) -> Arena {
    let mut arena = Arena::in_memory("mboxrd", 1);
    arena.deliver(count);
    arena
}

fn seen(found: &[Found]) -> Vec<u32> {
    let seen = found.iter().filter(|found| found.flags.contains(Flag::Seen));
    seen.map(|found| found.uid).collect()
}

/// Adds every file and its content.
fn tree(vfs: &dyn Vfs, path: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    let mut entries = Vec::new();
    let dir = vfs.open_dir(path).unwrap();
    dir.list(&mut |name, kind| {
        entries.push((path.join(String::from_utf8_lossy(name).as_ref()), kind));
    })
    .unwrap();
    for (path, kind) in entries {
        match kind {
            FileType::Dir => {
                files.insert(path.clone(), Vec::new());
                tree(vfs, &path, files);
            }
            _ => drop(files.insert(path.clone(), vfs.read(&path, u64::MAX).unwrap())),
        }
    }
}

pub(crate) fn everything(arena: &Arena) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    tree(&*arena.vfs, &arena.root, &mut files);
    files
}

/// Returns the file of the state folder whose name has this suffix.
fn state_file(arena: &Arena, end: &str) -> PathBuf {
    let mut files = everything(arena).into_keys();
    files.find(|path| path.to_string_lossy().ends_with(end)).unwrap()
}

#[test]
fn what_is_accepted_is_shown_by_everybody_and_written_once() {
    let arena = mbox(9);
    let mut one = arena.open();
    let mut other = arena.open();
    let before = arena.content();
    let junk = FlagChange { add_keywords: vec![keyword("Junk")], ..add(Flag::Seen) };
    let changed = one.change(&flag(&[2, 3, 5], &junk), &later()).unwrap();
    assert_eq!((changed.flagged, changed.pending), (3, 3));
    // A change without effect is not accepted again.
    let again = one.change(&flag(&[2, 3], &junk), &later()).unwrap();
    assert_eq!((again.flagged, again.pending), (0, 3));
    assert_eq!(arena.content(), before);
    other.refresh().unwrap();
    for mailbox in [&one, &other, &arena.open(), &arena.open_without_cache()] {
        let status = mailbox.status();
        assert_eq!((status.pending, status.unseen, mailbox.pending()), (3, 6, 3));
        let shown = found(mailbox);
        assert_eq!(seen(&shown), [2, 3, 5]);
        assert_eq!(shown[2].keywords, ["Junk".to_owned()].into());
        assert_eq!(mailbox.uids_with(Flag::Seen).unwrap(), [uid(2), uid(3), uid(5)]);
    }
    let shown = found(&one);
    let synced = other.sync(&now()).unwrap();
    assert_eq!((synced.flagged, synced.pending), (3, 0));
    assert_ne!(arena.content(), before);
    one.refresh().unwrap();
    for mailbox in [&one, &other, &arena.open(), &arena.open_without_cache()] {
        assert_eq!(found(mailbox), shown);
        assert_eq!(mailbox.status().pending, 0);
    }
}

#[test]
fn a_thousand_are_written() {
    let arena = mbox(1100);
    let mut mailbox = arena.open();
    let uids: Vec<u32> = (1..=1100).collect();
    let accept = |mailbox: &mut barid::Mailbox, range: std::ops::Range<usize>| {
        mailbox.change(&flag(&uids[range], &add(Flag::Flagged)), &later()).unwrap().pending
    };
    assert_eq!(accept(&mut mailbox, 0..600), 600);
    assert_eq!(accept(&mut mailbox, 600..1000), 1000);
    assert_eq!(accept(&mut mailbox, 1000..1001), 0);
    assert_eq!(arena.open_without_cache().uids_with(Flag::Flagged).unwrap().len(), 1001);
}

#[test]
fn an_expunge_and_an_append_write_what_is_pending() {
    let text = b"Subject: new\n\ntext\n";
    let message = NewMessage {
        bytes: text,
        internal_date: None,
        flags: [Flag::Draft].into_iter().collect(),
        keywords: Vec::new(),
        ..NewMessage::default()
    };
    let append = ChangeRequest { appends: &[message], ..ChangeRequest::default() };
    for request in [expunge(&[4]), append] {
        let arena = mbox(6);
        let mut mailbox = arena.open();
        mailbox.change(&flag(&[2, 5], &add(Flag::Seen)), &later()).unwrap();
        let changed = mailbox.change(&request, &later()).unwrap();
        assert_eq!((changed.flagged, changed.pending), (2, 0));
        assert_eq!(seen(&found(&arena.open_without_cache())), [2, 5]);
    }
}

#[test]
fn a_maildir_never_waits() {
    let mut arena = Arena::in_memory("maildir", 1);
    arena.deliver(3);
    let changed = arena.open().change(&flag(&[2], &add(Flag::Seen)), &later()).unwrap();
    assert_eq!((changed.flagged, changed.pending), (1, 0));
    assert!(String::from_utf8(arena.content()).unwrap().contains(":2,S"));
}

#[test]
fn a_dry_run_changes_nothing() {
    for format in FORMATS {
        let mut arena = Arena::in_memory(format, 3);
        arena.deliver(10);
        let mut mailbox = arena.open();
        mailbox.change(&expunge(&[3]), &keeping()).unwrap();
        let waiting = mailbox.change(&flag(&[2, 7], &add(Flag::Seen)), &later()).unwrap().pending;
        let before = everything(&arena);
        let shown = found(&mailbox);
        let text = arena.text(20);
        let message = NewMessage {
            bytes: &text,
            internal_date: None,
            flags: Default::default(),
            keywords: Vec::new(),
            ..NewMessage::default()
        };
        let appends = [message];
        let append = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
        for base in [now(), later(), keeping()] {
            let dry = ChangeOptions { dry_run: true, ..base };
            let requests = [flag(&[4, 99], &add(Flag::Flagged)), expunge(&[1, 4]), append.clone()];
            for request in requests {
                let changed = mailbox.change(&request, &dry).unwrap();
                assert!(changed.appended.is_empty());
                let gone: &[Uid] = if request.flags.is_empty() { &[] } else { &[uid(99)] };
                assert_eq!(changed.gone, gone);
                assert_eq!(changed.expunged as usize, request.expunge.len());
            }
            mailbox.sync(&dry).unwrap();
            mailbox.undo(&dry).unwrap();
            assert!(everything(&arena) == before, "{format}");
            assert_eq!((found(&mailbox), mailbox.pending()), (shown.clone(), waiting));
        }
    }
}

#[test]
fn what_cannot_be_read_of_what_was_accepted_is_told() {
    let arena = mbox(6);
    let mut mailbox = arena.open();
    for number in [2, 3, 4] {
        mailbox.change(&flag(&[number], &add(Flag::Seen)), &later()).unwrap();
    }
    let path = state_file(&arena, ".pending");
    let file = arena.vfs.open(&path, FileOptions::WRITE).unwrap();
    let second = 72 + (file.metadata().unwrap().size - 72) / 3 + 50;
    file.write_all_at(b"x", second).unwrap();
    let mut mailbox = arena.open();
    assert_eq!(mailbox.notes().len(), 1, "{:?}", mailbox.notes());
    assert_eq!(mailbox.notes()[0].kind, NoteKind::State);
    assert_eq!(seen(&found(&mailbox)), [2, 4]);
    mailbox.sync(&now()).unwrap();
    assert_eq!(seen(&found(&arena.open_without_cache())), [2, 4]);
    // The damaged file is kept for inspection.
    let kept =
        everything(&arena).into_keys().filter(|path| path.to_string_lossy().contains("damaged"));
    assert_eq!(kept.count(), 1);
}

/// Loses the UIDs, but not the pending changes.
fn forget_uids(arena: &Arena) {
    arena.vfs.remove_file(&state_file(arena, ".ledger")).unwrap();
    arena.vfs.sleep(std::time::Duration::from_secs(2));
}

#[test]
fn under_other_uids_a_change_is_matched_by_what_the_message_is() {
    let arena = mbox(6);
    let mut mailbox = arena.open();
    mailbox.change(&flag(&[2, 5], &add(Flag::Seen)), &later()).unwrap();
    let before = mailbox.status().uidvalidity;
    // A message before them is removed, so that their UIDs alone would mean others.
    let bytes = arena.content();
    let second = bytes.windows(6).skip(1).position(|line| line == b"\nFrom ").unwrap() + 2;
    let file = arena.vfs.open(&arena.spec.path, FileOptions::WRITE).unwrap();
    file.set_len(0).unwrap();
    file.write_all_at(&bytes[second..], 0).unwrap();
    forget_uids(&arena);
    let mut mailbox = arena.open();
    assert!(mailbox.status().uidvalidity > before);
    assert_eq!(mailbox.len(), 5);
    assert_eq!(seen(&found(&mailbox)), [1, 4]);
    let synced = mailbox.sync(&now()).unwrap();
    assert_eq!((synced.flagged, synced.pending, synced.ambiguous), (2, 0, 0));
    assert_eq!(seen(&found(&arena.open_without_cache())), [1, 4]);
}

#[test]
fn a_change_of_a_message_that_is_gone_is_dropped_and_told() {
    let arena = mbox(4);
    let mut mailbox = arena.open();
    mailbox.change(&flag(&[2, 4], &add(Flag::Seen)), &later()).unwrap();
    let bytes = arena.content();
    let file = arena.vfs.open(&arena.spec.path, FileOptions::WRITE).unwrap();
    let last = bytes.windows(6).rposition(|line| line == b"\nFrom ").unwrap() + 1;
    file.set_len(last as u64).unwrap();
    assert_eq!(seen(&found(&arena.open())), [2]);
    let synced = mailbox.sync(&now()).unwrap();
    assert_eq!((synced.flagged, synced.pending), (1, 0));
    assert_eq!((synced.gone, synced.pending_gone), (vec![], vec![uid(4)]));
}

/// Returns three messages with the same header and different bodies.
fn twins() -> (Arena, Vec<Vec<u8>>) {
    let arena = Arena::in_memory("mboxrd", 1);
    let message = |body: &str| {
        let text = "From ann@example.org Tue Nov 14 22:13:20 2023\nSubject: twin\n\n";
        format!("{text}{body}\n\n").into_bytes()
    };
    (arena, vec![message("one"), message("two"), message("three")])
}

fn write(arena: &Arena, messages: &[Vec<u8>]) {
    let file = arena.vfs.open(&arena.spec.path, FileOptions::WRITE).unwrap();
    file.set_len(0).unwrap();
    file.write_all_at(&messages.concat(), 0).unwrap();
}

#[test]
fn equals_are_told_apart_by_their_order_or_not_at_all() {
    let (arena, messages) = twins();
    write(&arena, &messages);
    let mut mailbox = arena.open();
    mailbox.change(&flag(&[2], &add(Flag::Seen)), &later()).unwrap();
    mailbox.change(&flag(&[3], &add(Flag::Flagged)), &later()).unwrap();
    forget_uids(&arena);
    let mailbox = arena.open();
    assert_eq!(seen(&found(&mailbox)), [2]);
    // With one removed, the third cannot be identified.
    write(&arena, &messages[..2]);
    forget_uids(&arena);
    let mut mailbox = arena.open();
    assert_eq!(seen(&found(&mailbox)), [2]);
    assert!(mailbox.uids_with(Flag::Flagged).unwrap().is_empty());
    for flagged in [1, 0] {
        let synced = mailbox.sync(&now()).unwrap();
        assert_eq!((synced.flagged, synced.ambiguous, synced.pending), (flagged, 1, 1));
    }
    let mailbox = arena.open();
    assert_eq!((seen(&found(&mailbox)), mailbox.pending()), (vec![2], 1));
}

#[test]
fn read_only_nothing_is_changed() {
    for format in FORMATS {
        let mut arena = Arena::in_memory(format, 1);
        arena.deliver(3);
        let options = OpenOptions { read_only: true, ..arena.options() };
        let mut mailbox = arena.try_open(&options).unwrap();
        let before = everything(&arena);
        for options in [now(), later()] {
            let errors = [
                mailbox.change(&flag(&[2], &add(Flag::Seen)), &options).unwrap_err(),
                mailbox.sync(&options).unwrap_err(),
                mailbox.undo(&options).unwrap_err(),
            ];
            assert!(errors.iter().all(|error| matches!(error, Error::ReadOnly { .. })));
        }
        assert!(everything(&arena) == before);
    }
}

#[test]
fn more_keywords_than_the_format_holds_are_not_accepted() {
    let arena = mbox(2);
    let mut mailbox = arena.open();
    let names = |range: std::ops::Range<u32>| {
        let add_keywords = range.map(|number| keyword(&format!("k{number}"))).collect();
        FlagChange { add_keywords, ..FlagChange::default() }
    };
    mailbox.change(&flag(&[1], &names(0..20)), &later()).unwrap();
    let error = mailbox.change(&flag(&[2], &names(15..40)), &later()).unwrap_err();
    assert!(matches!(error, Error::Keyword { .. }), "{error}");
    assert_eq!(mailbox.pending(), 1);
    mailbox.change(&flag(&[2], &names(15..25)), &later()).unwrap();
    assert_eq!(mailbox.sync(&now()).unwrap().pending, 0);
}

#[test]
fn where_nothing_can_be_kept_it_is_written() {
    let disk = memory();
    let mut arena = Arena::new(Arc::new(disk.clone()), Path::new("/"), "mboxrd", 1);
    arena.deliver(3);
    disk.create_dir(Path::new("/state"), 0o500).unwrap();
    let mut mailbox = arena.open();
    let changed = mailbox.change(&flag(&[2], &add(Flag::Seen)), &later()).unwrap();
    assert_eq!((changed.flagged, changed.pending), (1, 0));
    assert_eq!(seen(&found(&arena.open())), [2]);
}
