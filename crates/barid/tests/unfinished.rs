//! A change that another process began and did not finish.

use std::path::Path;
use std::sync::Arc;

use barid::{Error, Flag, Mailbox, NoteKind, OpenOptions};
use barid_mailbox::Error as FormatError;
use barid_vfs::{CallKind, Fault, FaultVfs, MemVfs};

use crate::arena::{Arena, Found, add, expunge, flag, found, later, memory, now};
use crate::pending::everything;

/// Returns every disk on which a first sync that writes headers into an mbox was left unfinished,
/// the state known before, and the process that began it, whose disk works again.
fn scenes() -> Vec<(MemVfs, Arena, Vec<Found>, Mailbox)> {
    let mut scenes = Vec::new();
    for nth in 0..40 {
        let disk = memory();
        let mut arena = Arena::new(Arc::new(disk.clone()), Path::new("/"), "mboxrd", 5);
        arena.deliver(30);
        let mut mailbox = arena.open();
        mailbox.change(&flag(&[3, 7], &add(Flag::Seen)), &later()).unwrap();
        let shown = found(&mailbox);
        let vfs = FaultVfs::new(disk.clone(), Fault::nth(nth).of(CallKind::Sync));
        let failing = arena.on(Arc::new(vfs));
        let mut mailbox = failing.open();
        let result = mailbox.sync(&now());
        let Err(error) = result else { continue };
        if !matches!(error, Error::Mailbox(FormatError::Unfinished { .. })) {
            continue;
        }
        assert!(error.hint().unwrap().contains("barid sync /box"), "{:?}", error.hint());
        if is_unfinished(&arena) {
            assert!(mailbox.unfinished().is_some());
            scenes.push((disk, arena, shown, mailbox));
        }
    }
    assert!(scenes.len() >= 3, "{}", scenes.len());
    scenes
}

/// Returns `true` if a change was begun and not finished.
fn is_unfinished(arena: &Arena) -> bool {
    let format = barid_formats::open(Arc::clone(&arena.vfs), &arena.spec).unwrap();
    format.unfinished(Some(&arena.root.join("state"))).unwrap().is_some()
}

#[test]
fn the_next_opening_completes_it() {
    for (_, arena, shown, _) in scenes() {
        let mailbox = arena.open();
        assert!(mailbox.unfinished().is_none());
        let notes = mailbox.notes();
        assert_eq!((notes.len(), notes[0].kind), (1, NoteKind::Recovered), "{notes:?}");
        assert_eq!(found(&mailbox), shown);
        let again = arena.open();
        assert!(again.notes().is_empty());
        assert_eq!(found(&again), shown);
    }
}

#[test]
fn the_process_that_began_it_goes_on() {
    for (_, arena, shown, mut mailbox) in scenes() {
        mailbox.sync(&now()).unwrap();
        assert!(mailbox.unfinished().is_none());
        assert_eq!(mailbox.pending(), 0);
        assert_eq!(found(&mailbox), shown);
        assert_eq!(found(&arena.open_without_cache()), shown);
    }
}

#[test]
fn a_mailbox_that_is_open_completes_it() {
    for (_, arena, shown, _) in scenes() {
        let mut other = arena.open();
        other.refresh().unwrap();
        assert_eq!(found(&other), shown);
        other.change(&expunge(&[3]), &now()).unwrap();
        assert_eq!(found(&arena.open()).len(), shown.len() - 1);
    }
}

#[test]
fn read_only_it_is_told_and_nothing_of_it_lasts() {
    for (_, arena, shown, _) in scenes() {
        let before = everything(&arena);
        let options = OpenOptions { read_only: true, ..arena.options() };
        let mut mailbox = arena.try_open(&options).unwrap();
        assert!(mailbox.unfinished().is_some() && !mailbox.is_cached());
        assert!(mailbox.notes().iter().any(|note| note.kind == NoteKind::Unfinished));
        assert!(matches!(mailbox.sync(&now()).unwrap_err(), Error::ReadOnly { .. }));
        assert!(everything(&arena) == before);
        // Another process completes it.
        arena.open();
        mailbox.refresh().unwrap();
        assert!(mailbox.unfinished().is_none());
        assert_eq!(found(&mailbox), shown);
    }
}

#[test]
fn an_opening_that_cannot_complete_it_stands_in_nobodys_way() {
    let mut refused = 0;
    for nth in 0..4 {
        for (disk, arena, shown, _) in scenes() {
            let vfs = FaultVfs::new(disk, Fault::nth(nth).of(CallKind::Sync));
            let failing = arena.on(Arc::new(vfs));
            let Ok(mailbox) = failing.try_open(&failing.options()) else { continue };
            refused += u32::from(mailbox.unfinished().is_some());
            let other = arena.open();
            assert!(other.unfinished().is_none(), "{nth}: {:?}", other.notes());
            assert_eq!(found(&other), shown);
        }
    }
    assert!(refused > 3, "{refused}");
}

#[test]
fn where_it_cannot_be_completed_every_change_is_refused() {
    for (disk, arena, shown, _) in scenes() {
        disk.set_mode(&arena.spec.path, 0o400).unwrap();
        let mut mailbox = arena.open();
        assert!(mailbox.unfinished().is_some() && !mailbox.is_cached());
        assert!(mailbox.notes().iter().any(|note| note.kind == NoteKind::Unfinished));
        for options in [now(), later()] {
            mailbox.change(&flag(&[1], &add(Flag::Seen)), &options).unwrap_err();
            mailbox.sync(&options).unwrap_err();
        }
        disk.set_mode(&arena.spec.path, 0o600).unwrap();
        mailbox.sync(&now()).unwrap();
        assert!(mailbox.unfinished().is_none());
        assert_eq!(found(&mailbox), shown);
        assert_eq!(found(&arena.open_without_cache()), shown);
    }
}
