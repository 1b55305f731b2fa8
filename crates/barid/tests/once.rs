//! A change that was made is not made again, whatever becomes of the cache and the ledger.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use barid::{ChangeRequest, Flag, FlagSet, Mailbox, NewMessage, NoteKind};
use barid_vfs::{CallKind, Fault, FaultEffect, FaultVfs, MemVfs};

use crate::arena::{Arena, FORMATS, add, flag, found, later, memory, now};

const TEXT: &[u8] = b"Subject: the only one\n\ntext\n";

/// Returns a mailbox with a pending change, before something is appended.
fn arena(format: &str) -> (MemVfs, Arena) {
    let disk = memory();
    let mut arena = Arena::new(Arc::new(disk.clone()), Path::new("/"), format, 3);
    arena.deliver(20);
    arena.open().change(&flag(&[3, 7], &add(Flag::Seen)), &later()).unwrap();
    (disk, arena)
}

fn append(mailbox: &mut Mailbox) -> barid::Result<barid::Changed> {
    let message = NewMessage {
        bytes: TEXT,
        internal_date: None,
        flags: FlagSet::EMPTY,
        keywords: Vec::new(),
        ..NewMessage::default()
    };
    let request = ChangeRequest { appends: &[message], ..ChangeRequest::default() };
    mailbox.change(&request, &now())
}

/// Appends a message while the calls below a folder fail, from the `nth` on; returns `true` if any
/// did.
fn check(format: &str, fault: &Fault) -> bool {
    let (disk, arena) = arena(format);
    let failing = Arc::new(FaultVfs::new(disk, fault.clone()));
    let other = arena.on(Arc::clone(&failing) as _);
    let mut mailbox = other.open();
    let before = arena.content();
    let result = append(&mut mailbox);
    let is_changed = arena.content() != before;
    let count = found(&arena.open_without_cache()).len();
    let context = format!("{format} {fault:?}: {result:?}");
    match result {
        Ok(changed) => {
            assert_eq!((count, changed.appends), (21, 1), "{context}");
            assert!(changed.appended.is_empty() || changed.appended[0].get() == 21, "{context}");
        }
        // The opening above may have completed the change.
        Err(error) => assert!(count == 20 || is_changed && count == 21, "{context}: {error}"),
    }
    mailbox.refresh().ok();
    failing.fired()
}

fn faults_under(path: &str, effect: FaultEffect) {
    for format in FORMATS {
        for forever in [false, true] {
            let mut nth = 0;
            loop {
                let fault = Fault::nth(nth).under(path).with(effect);
                let fault = if forever { fault.forever() } else { fault };
                if !check(format, &fault) {
                    break;
                }
                nth += 1;
            }
            assert!(nth > 10, "{format}: {nth} calls below {path}");
        }
    }
}

#[test]
fn a_cache_that_fails_at_any_call_does_not_double_a_message() {
    faults_under("/cache", FaultEffect::Error(ErrorKind::InvalidData));
}

#[test]
fn a_cache_that_fails_after_the_change_is_no_error() {
    for format in FORMATS {
        // Every read after the change.
        let (disk, arena) = arena(format);
        let fault = Fault::nth(u64::MAX).under("/cache");
        let counting = Arc::new(FaultVfs::new(disk, fault));
        let mut mailbox = arena.on(Arc::clone(&counting) as _).open();
        let opened = counting.calls();
        append(&mut mailbox).unwrap();
        let all = counting.calls();
        assert!(all > opened, "{format}");
        for nth in opened..all {
            let effect = FaultEffect::Error(ErrorKind::InvalidData);
            let fault = Fault::nth(nth).under("/cache").with(effect).forever();
            let (disk, arena) = self::arena(format);
            let mut mailbox = arena.on(Arc::new(FaultVfs::new(disk, fault))).open();
            let changed = append(&mut mailbox).unwrap();
            assert_eq!(changed.appended.len(), 1, "{format}, call {nth}");
            assert_eq!(mailbox.len(), 21, "{format}, call {nth}");
            assert_eq!(found(&arena.open()).len(), 21, "{format}, call {nth}");
        }
    }
}

#[test]
fn a_ledger_that_fails_after_the_change_is_told() {
    let mut told = 0;
    let mut nth = 0;
    loop {
        let disk = memory();
        let mut arena = Arena::new(Arc::new(disk.clone()), Path::new("/"), "mboxrd", 3);
        arena.deliver(20);
        arena.open().sync(&now()).unwrap();
        let fault = Fault::nth(nth).under("/state").of(CallKind::Sync);
        let failing = Arc::new(FaultVfs::new(disk, fault));
        let mut mailbox = arena.on(Arc::clone(&failing) as _).open();
        let before = arena.content();
        let result = mailbox.change(&flag(&[5], &add(Flag::Seen)), &now());
        let is_changed = arena.content() != before;
        assert_eq!(result.is_ok(), is_changed, "call {nth}: {result:?}");
        let notes = mailbox.notes();
        let is_told = notes.iter().any(|note| note.kind == NoteKind::State);
        assert_eq!(is_told, failing.fired() && is_changed, "call {nth}: {notes:?}");
        told += u32::from(is_told);
        mailbox.change(&flag(&[6], &add(Flag::Seen)), &now()).unwrap();
        let seen: Vec<_> = arena.open_without_cache().uids_with(Flag::Seen).unwrap();
        assert_eq!(seen.contains(&crate::arena::uid(5)), is_changed);
        if !failing.fired() {
            break;
        }
        nth += 1;
    }
    assert!(told > 0);
}
