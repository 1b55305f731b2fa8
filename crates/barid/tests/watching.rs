//! Watching mailboxes that others change.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use barid::vfs::{OsVfs, Vfs};
use barid::{Flag, MailboxChange, WatchOptions, Watcher};
use barid_testkit::Scratch;

use crate::arena::{Arena, FORMATS, add, expunge, flag, later, now, uid};

const LONG: Duration = Duration::from_secs(60);

fn watcher(arena: &Arena, poll: bool) -> Watcher {
    let interval = Duration::from_millis(20);
    let options = WatchOptions { poll, interval, ..WatchOptions::default() };
    let mut watcher = Watcher::new(Arc::clone(&arena.vfs), options);
    assert_eq!(watcher.add(arena.open()), 0);
    watcher
}

/// Returns all changes until none comes for the time `quiet`.
fn changes(watcher: &mut Watcher, quiet: Duration) -> Vec<MailboxChange> {
    let mut found = Vec::new();
    loop {
        let told = watcher.next(Some(quiet));
        if told.is_empty() {
            return found;
        }
        found.extend(told.into_iter().flat_map(|(_, changes)| changes.unwrap()));
    }
}

/// Returns the changes that are reported first, however long that takes.
fn first(watcher: &mut Watcher) -> Vec<MailboxChange> {
    let told = watcher.next(Some(LONG));
    told.into_iter().flat_map(|(_, changes)| changes.unwrap()).collect()
}

/// Checks that changes of other programs and other processes of ours are reported, each once.
fn check_changes(arena: &mut Arena, watcher: &mut Watcher, quiet: Duration) {
    arena.deliver(3);
    let mut found = first(watcher);
    found.extend(changes(watcher, quiet));
    assert_eq!(found, [1, 2, 3].map(|number| MailboxChange::New(uid(number))));

    // In an mbox it is only pending.
    arena.open().change(&flag(&[2], &add(Flag::Flagged)), &later()).unwrap();
    assert_eq!(first(watcher), [MailboxChange::Flags(uid(2))]);
    assert_eq!(changes(watcher, quiet), []);
    arena.open().sync(&now()).unwrap();
    assert_eq!(changes(watcher, quiet), [], "what was shown is written");

    arena.open().change(&expunge(&[1, 3]), &now()).unwrap();
    arena.deliver(1);
    let mut found = first(watcher);
    found.extend(changes(watcher, quiet));
    let gone = [1, 3].map(|number| MailboxChange::Expunged(uid(number)));
    assert_eq!(found, [&gone[..], &[MailboxChange::New(uid(4))]].concat());
    assert_eq!(watcher.mailbox(0).len(), 2);
}

#[test]
fn polling_finds_every_change_once() {
    for format in FORMATS {
        let mut arena = Arena::in_memory(format, 3);
        let mut watcher = watcher(&arena, false);
        assert!(watcher.why_polled(0).is_some(), "memory tells nothing");
        assert_eq!(changes(&mut watcher, LONG), []);
        check_changes(&mut arena, &mut watcher, LONG);
    }
}

#[test]
fn the_system_tells_of_every_change_once() {
    for format in FORMATS {
        for poll in [false, true] {
            let scratch = Scratch::new("watching").unwrap();
            let mut arena = Arena::new(Arc::new(OsVfs), scratch.path(), format, 4);
            let mut watcher = watcher(&arena, poll);
            assert_eq!(watcher.why_polled(0).is_some(), poll || !OsVfs.is_local(scratch.path()));
            check_changes(&mut arena, &mut watcher, Duration::from_millis(200));
        }
    }
}

#[test]
fn a_mailbox_that_goes_and_comes_is_told_of_once() {
    let mut arena = Arena::in_memory("mboxrd", 5);
    arena.deliver(2);
    let mut watcher = watcher(&arena, false);
    let (path, aside) = (arena.spec.path.clone(), Path::new("/aside"));
    arena.vfs.rename(&path, aside).unwrap();
    let told = watcher.next(Some(LONG));
    assert!(told.len() == 1 && told[0].1.is_err(), "{told:?}");
    assert!(watcher.next(Some(LONG)).is_empty(), "it is told once");
    arena.vfs.rename(aside, &path).unwrap();
    assert_eq!(changes(&mut watcher, LONG), [], "it is the same as before");

    arena.vfs.rename(&path, aside).unwrap();
    assert!(watcher.next(Some(LONG))[0].1.is_err(), "it is told again");
    let file = arena.vfs.open(&path, barid::vfs::OpenOptions::create_new(0o600)).unwrap();
    drop(file);
    arena.deliver(5);
    let found = changes(&mut watcher, LONG);
    assert!(matches!(found[..], [MailboxChange::Renumbered(_)]), "{found:?}");
    assert_eq!(watcher.mailbox(0).len(), 5);
}

#[test]
fn several_mailboxes_are_told_apart() {
    let scratch = Scratch::new("watching").unwrap();
    let mut arenas: Vec<_> = (0..3)
        .map(|number| {
            let root = scratch.path().join(number.to_string());
            OsVfs.create_dir(&root, 0o700).unwrap();
            Arena::new(Arc::new(OsVfs), &root, FORMATS[number % 2], 6)
        })
        .collect();
    let mut watcher = Watcher::new(Arc::new(OsVfs), WatchOptions::default());
    for arena in &arenas {
        watcher.add(arena.open());
    }
    for number in [1, 0, 2, 1] {
        arenas[number].deliver(1);
        let told = watcher.next(Some(LONG));
        assert!(told.iter().all(|(of, _)| *of == number) && !told.is_empty(), "{told:?}");
    }
}
