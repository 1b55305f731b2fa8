//! Mailboxes that many threads of one process share.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use barid::vfs::{LockKind, LockMode, OpenOptions as FileOptions, OsVfs};
use barid::{
    Cancel, ChangeOptions, Error, Flag, FormatName, MailboxSpec, Mailboxes, OpenOptions, ReadAs,
    SharedMailbox, WatchOptions,
};
use barid_testkit::Scratch;

use crate::arena::{Arena, FORMATS, add, expunge, flag, now, uid};

/// Longest wait for something that happens at once on an idle machine.
const LONG: Duration = Duration::from_secs(60);

fn mailboxes(arena: &Arena) -> Mailboxes {
    Mailboxes::new(Arc::clone(&arena.vfs), arena.options(), None)
}

fn open(arena: &Arena, mailboxes: &Mailboxes) -> SharedMailbox {
    mailboxes.open_spec(&arena.spec).unwrap()
}

fn on_disk(label: &str, format: &str) -> (Scratch, Arena) {
    let scratch = Scratch::new(label).unwrap();
    let arena = Arena::new(Arc::new(OsVfs), scratch.path(), format, 31);
    (scratch, arena)
}

#[test]
fn a_mailbox_is_open_once_by_whatever_path() {
    let (scratch, mut arena) = on_disk("shared-once", "mboxrd");
    arena.deliver(2);
    let link = scratch.path().join("link");
    barid_testkit::disk::link_to(&arena.spec.path, &link).unwrap();
    let mailboxes = mailboxes(&arena);
    let by_link = MailboxSpec { path: link, ..arena.spec.clone() };
    let barrier = Barrier::new(8);
    let handles: Vec<SharedMailbox> = std::thread::scope(|scope| {
        let open = |number: usize| {
            let spec = if number < 4 { &arena.spec } else { &by_link };
            barrier.wait();
            mailboxes.open_spec(spec).unwrap()
        };
        let threads: Vec<_> = (0..8).map(|number| scope.spawn(move || open(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(handles.iter().all(|handle| handle.is_same(&handles[0])));
    assert_eq!(mailboxes.len(), 1);

    // The same file as another format is another mailbox.
    let other = FormatName::named("mboxo");
    let other = mailboxes.open_spec(&MailboxSpec { format: other, ..arena.spec.clone() }).unwrap();
    assert!(!other.is_same(&handles[0]));
    assert_eq!(mailboxes.len(), 2);
    drop((handles, other));
    assert!(mailboxes.is_empty());
    assert_eq!(open(&arena, &mailboxes).view().len(), 2);

    let missing = MailboxSpec::parse("mbox:/nonexistent/box");
    assert!(mailboxes.open_spec(&missing).is_err());
    assert!(mailboxes.is_empty());
}

#[test]
fn a_renamed_mailbox_is_opened_anew_while_its_old_handle_lives() {
    for name in FORMATS {
        let (scratch, mut arena) = on_disk("shared-renamed", name);
        arena.deliver(2);
        let mailboxes = mailboxes(&arena);
        let old = open(&arena, &mailboxes);
        let path = scratch.path().join("renamed");
        arena.vfs.rename(&arena.spec.path, &path).unwrap();
        let renamed = MailboxSpec { path, ..arena.spec.clone() };
        let new = mailboxes.open_spec(&renamed).unwrap();
        assert!(!new.is_same(&old), "{name}");
        assert_eq!(new.refresh(&Cancel::new()).unwrap().len(), 2, "{name}");
        assert!(old.refresh(&Cancel::new()).is_err(), "{name}");
        assert!(mailboxes.open_spec(&renamed).unwrap().is_same(&new), "{name}");
        // The end of the old handle does not close the new one.
        drop(old);
        assert!(mailboxes.open_spec(&renamed).unwrap().is_same(&new), "{name}");
        drop(new);
        assert!(mailboxes.is_empty(), "{name}");
    }
}

#[test]
fn what_one_changes_all_see() {
    for name in FORMATS {
        let mut arena = Arena::in_memory(name, 31);
        arena.deliver(5);
        let mailboxes = mailboxes(&arena);
        let (one, other) = (open(&arena, &mailboxes), open(&arena, &mailboxes));
        let before = other.view();
        let told = Arc::new(AtomicUsize::new(0));
        let (count, handle) = (Arc::clone(&told), other.clone());
        let subscription = other.subscribe(move |view| {
            // No lock is held, so a listener may use the mailbox.
            let refreshed = handle.refresh(&Cancel::new()).unwrap();
            assert_eq!(refreshed.changes_since(view).unwrap(), []);
            count.fetch_add(1, Ordering::SeqCst);
        });

        let request = flag(&[2], &add(Flag::Flagged));
        one.update(&Cancel::new(), |mailbox, _| mailbox.change(&request, &now())).unwrap();
        let flagged = other.wait_for_newer(&before, Duration::ZERO).unwrap();
        let change = barid::MailboxChange::Flags(uid(2));
        assert_eq!(flagged.changes_since(&before).unwrap(), [change], "{name}");
        assert!(told.load(Ordering::SeqCst) > 0, "{name}");

        arena.deliver(1);
        assert_eq!(other.view().len(), 5, "{name}: nobody has looked");
        assert_eq!(one.refresh(&Cancel::new()).unwrap().len(), 6, "{name}");
        assert_eq!(other.view().len(), 6, "{name}");
        assert_eq!((before.len(), flagged.len()), (5, 5), "{name}");
        assert!(other.wait_for_newer(&other.view(), Duration::ZERO).is_none(), "{name}");

        drop(subscription);
        let count = told.load(Ordering::SeqCst);
        arena.deliver(1);
        one.refresh(&Cancel::new()).unwrap();
        assert_eq!(told.load(Ordering::SeqCst), count, "{name}");
    }
}

#[test]
fn messages_that_move_are_followed_through_the_shared_mailbox() {
    let mut arena = Arena::in_memory("mboxrd", 31);
    arena.deliver(20);
    let mailboxes = mailboxes(&arena);
    let shared = open(&arena, &mailboxes);
    let view = shared.view();
    let text = view.read(uid(20), ReadAs::Message).unwrap().bytes;
    // Another process moves all messages.
    arena.open().change(&expunge(&[1, 2, 3, 4, 5]), &now()).unwrap();
    assert_eq!(view.read(uid(20), ReadAs::Message).unwrap().bytes, text);
    assert_eq!((view.len(), shared.view().len()), (20, 15), "the shared mailbox was refreshed");
    assert!(matches!(view.read(uid(1), ReadAs::Message), Err(Error::NoSuchMessage { .. })));

    // Within an update the view cannot wait for the mailbox, and opens it once more.
    let before = shared.view();
    shared
        .update(&Cancel::new(), |mailbox, _| {
            mailbox.change(&expunge(&[6, 7, 8, 9]), &now())?;
            assert_eq!(before.read(uid(20), ReadAs::Message)?.bytes, text);
            let nested = shared.refresh(&Cancel::new());
            assert!(matches!(nested, Err(Error::Nested { .. })), "{nested:?}");
            Ok(())
        })
        .unwrap();
    assert_eq!(shared.view().len(), 11);
}

#[test]
fn a_file_that_takes_the_place_is_opened() {
    let (scratch, mut arena) = on_disk("shared-replaced", "mboxrd");
    arena.deliver(3);
    let mailboxes = mailboxes(&arena);
    let shared = open(&arena, &mailboxes);
    let view = shared.view();
    let other = scratch.path().join("other");
    let text = arena.vfs.read(&arena.spec.path, u64::MAX).unwrap();
    barid_testkit::disk::write(&other, &[&text[..], &text[..]].concat()).unwrap();
    barid_testkit::disk::rename(&other, &arena.spec.path).unwrap();
    assert_eq!(shared.refresh(&Cancel::new()).unwrap().len(), 6);
    assert_eq!(view.len(), 3);
    assert_eq!(shared.refresh(&Cancel::new()).unwrap().len(), 6);
}

#[test]
fn a_panic_in_an_update_does_not_end_the_mailbox() {
    let mut arena = Arena::in_memory("mboxrd", 31);
    arena.deliver(3);
    let mailboxes = mailboxes(&arena);
    let shared = open(&arena, &mailboxes);
    let panicked = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let work = |_: &mut barid::Mailbox, _: &_| -> barid::Result<()> { panic!("as intended") };
        shared.update(&Cancel::new(), work)
    }));
    assert!(panicked.is_err());
    assert_eq!(shared.view().len(), 3);
    arena.deliver(1);
    assert_eq!(shared.refresh(&Cancel::new()).unwrap().len(), 4);
}

#[test]
fn a_request_that_waits_is_cancelled() {
    let (_scratch, mut arena) = on_disk("shared-cancel", "mboxrd");
    arena.deliver(2);
    let mailboxes = mailboxes(&arena);
    let shared = open(&arena, &mailboxes);
    let cancelled = Cancel::new();
    cancelled.cancel();
    assert!(matches!(shared.refresh(&cancelled), Err(Error::Stopped)));

    // Waits for another request of this process.
    let (is_in, may_leave) = (Barrier::new(2), Barrier::new(2));
    let cancel = Cancel::new();
    std::thread::scope(|scope| {
        let working = scope.spawn(|| {
            shared.update(&Cancel::new(), |_, _| {
                is_in.wait();
                may_leave.wait();
                Ok(())
            })
        });
        is_in.wait();
        let waiting = scope.spawn(|| shared.refresh(&cancel));
        cancel.cancel();
        assert!(matches!(waiting.join().unwrap(), Err(Error::Stopped)));
        may_leave.wait();
        working.join().unwrap().unwrap();
    });

    // Waits for the lock of another program, which holds it until the end.
    let file = arena.vfs.open(&arena.spec.path, FileOptions::WRITE).unwrap();
    assert!(file.try_lock(LockKind::Fcntl, LockMode::Exclusive).unwrap());
    let cancel = Cancel::new();
    let (begins, has_begun) = mpsc::channel();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            shared.update(&cancel, |mailbox, stop| {
                begins.send(()).unwrap();
                let options = ChangeOptions { stop: Some(Arc::clone(stop)), ..now() };
                mailbox.change(&flag(&[1], &add(Flag::Seen)), &options)
            })
        });
        has_begun.recv().unwrap();
        cancel.cancel();
        waiting.join().unwrap().unwrap_err();
    });
    // The next request is not cancelled with it.
    file.unlock(LockKind::Fcntl).unwrap();
    let request = flag(&[1], &add(Flag::Seen));
    shared.update(&Cancel::new(), |mailbox, _| mailbox.change(&request, &now())).unwrap();
}

#[test]
fn one_watcher_notices_the_changes_of_all_mailboxes() {
    let scratch = Scratch::new("shared-watched").unwrap();
    let mut arenas: Vec<Arena> = (0..6)
        .map(|number: usize| {
            let root = scratch.path().join(number.to_string());
            barid_testkit::disk::create_dir(&root).unwrap();
            Arena::new(Arc::new(OsVfs), &root, FORMATS[number % FORMATS.len()], 31)
        })
        .collect();
    for poll in [false, true] {
        let interval = Duration::from_millis(20);
        let watch = WatchOptions { poll, interval, ..WatchOptions::default() };
        let folder = |name: &str| scratch.path().join(name);
        let options = OpenOptions::new(Some(folder("cache")), folder("state"));
        let mailboxes = Mailboxes::new(Arc::new(OsVfs), options, Some(watch));
        let shared: Vec<_> = arenas.iter().map(|arena| open(arena, &mailboxes)).collect();
        for (arena, shared) in arenas.iter_mut().zip(&shared) {
            let before = shared.view();
            arena.deliver(1);
            let newer = shared.wait_for_newer(&before, LONG).unwrap();
            assert_eq!(newer.len(), before.len() + 1);
        }
        // A closed mailbox is no longer watched; the others are.
        drop(shared);
        let last = open(arenas.last().unwrap(), &mailboxes);
        let before = last.view();
        for arena in &mut arenas {
            arena.deliver(1);
        }
        assert!(last.wait_for_newer(&before, LONG).is_some());
        assert_eq!(mailboxes.len(), 1);
    }
}

#[test]
fn threads_that_ask_at_once_share_a_look() {
    let mut arena = Arena::in_memory("maildir", 31);
    arena.deliver(3);
    let mailboxes = mailboxes(&arena);
    let shared = open(&arena, &mailboxes);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    shared.refresh(&Cancel::new()).unwrap();
                }
            });
        }
        for count in 4..30 {
            arena.deliver(1);
            // Every call after the delivery returns it, whichever thread checked.
            assert_eq!(shared.refresh(&Cancel::new()).unwrap().len(), count);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn handles_are_for_every_thread() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<SharedMailbox>();
    is_shared::<Mailboxes>();
    is_shared::<Cancel>();
}
