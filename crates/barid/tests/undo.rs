//! Expunged messages can be restored, whatever happened to the expunge.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid::{
    ChangeOptions, ChangeRequest, CreateOptions, Error, Flag, KeepExpunged, KeepLimits, KeptState,
    Mailbox, MailboxSpec, NewMessage, OpenOptions, ReadAs, Undo,
};
use barid_vfs::{
    CallKind, CrashVfs, Fault, FaultVfs, Host as _, LockKind, LockMode, MemVfs,
    OpenOptions as FileOptions, Vfs,
};

use crate::arena::{
    Arena, FORMATS, add, expunge, flag, format_named, found, keeping, later, memory, now, uid,
};

/// Returns the existing messages, by their numbers in the corpus, in mailbox order.
fn numbers(arena: &Arena, mailbox: &mut Mailbox) -> Vec<u64> {
    let text = |number| barid::message::strip_owned(&arena.text(number)).into_owned();
    let texts: Vec<_> = (0..12).map(text).collect();
    let uids = mailbox.uids().unwrap();
    let number = |at: u32| {
        let bytes = mailbox.read(uid(at), ReadAs::Message).unwrap().bytes;
        let own = barid::message::strip_owned(&bytes);
        texts.iter().position(|text| **text == *own).unwrap() as u64
    };
    uids.into_iter().map(number).collect()
}

/// Returns a mailbox of 8 messages, with UIDs from 1, of which number 3 was expunged and is kept.
fn scene(format: &str) -> (MemVfs, Arena) {
    let disk = memory();
    let mut arena = Arena::new(Arc::new(disk.clone()), Path::new("/"), format, 7);
    arena.deliver(8);
    let mut mailbox = arena.open();
    mailbox.sync(&now()).unwrap();
    mailbox.change(&expunge(&[4]), &keeping()).unwrap();
    assert_eq!(numbers(&arena, &mut mailbox), [0, 1, 2, 4, 5, 6, 7]);
    (disk, arena)
}

fn nothing_to_undo(result: barid::Result<barid::Changed>) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::NothingToUndo { .. }), "{error}");
}

fn not_kept(result: barid::Result<barid::Changed>, expected: u32) {
    match result.unwrap_err() {
        Error::NotKept { messages, has_older: true, .. } => assert_eq!(messages, expected),
        error => panic!("{error}"),
    }
}

/// Returns the folder of kept expunges.
fn kept_dir(disk: &MemVfs) -> PathBuf {
    let (state, mut found) = (Path::new("/state"), None);
    let mut look = |name: &[u8], _| {
        let name = String::from_utf8_lossy(name);
        found = name.ends_with(".kept").then(|| state.join(&*name)).or(found.take());
    };
    disk.open_dir(state).unwrap().list(&mut look).unwrap();
    found.unwrap()
}

/// Returns the options of a server's expunge: messages that do not fit are not kept.
fn limited(bytes: u64) -> ChangeOptions {
    let limits = KeepLimits { bytes_max: Some(bytes), ..KeepLimits::default() };
    ChangeOptions { keep_expunged: KeepExpunged::WherePossible(limits), ..now() }
}

fn refusing(bytes: u64) -> ChangeOptions {
    let limits = KeepLimits { bytes_max: Some(bytes), ..KeepLimits::default() };
    ChangeOptions { keep_expunged: KeepExpunged::OrRefuse(limits), ..now() }
}

#[test]
fn expunges_are_undone_one_by_one() {
    for format in FORMATS {
        let (_, arena) = scene(format);
        let mut mailbox = arena.open();
        mailbox.change(&expunge(&[1, 6]), &keeping()).unwrap();
        let kept = mailbox.kept_expunges().unwrap();
        let told: Vec<_> =
            kept.iter().map(|kept| (kept.number, kept.messages, kept.state)).collect();
        assert_eq!(told, [(2, Some(2), KeptState::Kept), (1, Some(1), KeptState::Kept)]);
        mailbox.undo(&now()).unwrap();
        assert_eq!(numbers(&arena, &mut mailbox), [1, 2, 4, 6, 7, 0, 5]);
        mailbox.undo(&now()).unwrap();
        assert_eq!(numbers(&arena, &mut mailbox), [1, 2, 4, 6, 7, 0, 5, 3]);
        nothing_to_undo(mailbox.undo(&now()));
    }
}

#[test]
fn an_expunge_that_was_not_kept_is_told() {
    for (format, options) in [("maildir", now()), ("mboxrd", now()), ("mboxrd", limited(100))] {
        let (_, arena) = scene(format);
        let mut mailbox = arena.open();
        let dry = ChangeOptions { dry_run: true, ..options.clone() };
        let would = mailbox.change(&expunge(&[1, 6]), &dry).unwrap();
        assert_eq!(would.too_large.is_some(), options.keep_expunged != KeepExpunged::No);
        let changed = mailbox.change(&expunge(&[1, 6]), &options).unwrap();
        assert_eq!((changed.kept, changed.too_large), (None, would.too_large));
        not_kept(mailbox.undo(&now()), 2);
        not_kept(mailbox.undo_one(Undo::Number(2), &now()), 2);
        let states: Vec<_> =
            mailbox.kept_expunges().unwrap().iter().map(|kept| kept.state).collect();
        assert_eq!(states, [KeptState::NotKept, KeptState::Kept]);
        mailbox.undo_one(Undo::Number(1), &now()).unwrap();
        assert_eq!(numbers(&arena, &mut mailbox), [1, 2, 4, 6, 7, 3]);
        assert_eq!(mailbox.discard_kept().unwrap(), 1);
        nothing_to_undo(mailbox.undo(&now()));
        // If no expunge is kept, none can be mistaken for this one.
        mailbox.change(&expunge(&[2]), &now()).unwrap();
        nothing_to_undo(mailbox.undo(&now()));
        let missing = mailbox.undo_one(Undo::Number(7), &now()).unwrap_err();
        assert!(matches!(missing, Error::NoSuchExpunge { number: 7, .. }), "{missing}");
    }
}

#[test]
fn what_cannot_be_kept_is_refused_before_anything_is_removed() {
    for format in FORMATS {
        let (disk, arena) = scene(format);
        let mut mailbox = arena.open();
        let before = (arena.content(), mailbox.kept_expunges().unwrap());
        let refused = |mailbox: &mut Mailbox, options: &ChangeOptions| {
            let error = mailbox.change(&expunge(&[1, 6]), options).unwrap_err();
            assert!(matches!(error, Error::CannotKeep { messages: 2, .. }), "{error}");
            assert_eq!(numbers(&arena, mailbox), [0, 1, 2, 4, 5, 6, 7]);
            assert_eq!((arena.content(), mailbox.kept_expunges().unwrap()), before);
        };
        refused(&mut mailbox, &refusing(100));
        refused(&mut mailbox, &ChangeOptions { dry_run: true, ..refusing(100) });
        // A disk that is nearly full.
        disk.set_free_space(Some(1_000));
        refused(&mut mailbox, &keeping());
        disk.set_free_space(None);
        let dry = ChangeOptions { dry_run: true, ..keeping() };
        let would = mailbox.change(&expunge(&[1, 6]), &dry).unwrap();
        let changed = mailbox.change(&expunge(&[1, 6]), &keeping()).unwrap();
        let until = changed.kept_until.unwrap().unix_seconds();
        assert!(would.kept > Some(0) && changed.kept >= would.kept);
        assert!((until - disk.now().unix_seconds() - 30 * 86_400).abs() < 60);
        assert_eq!(numbers(&arena, &mut mailbox), [1, 2, 4, 6, 7]);
    }
}

/// A state folder that cannot be written only affects callers who require it.
#[test]
fn a_servers_expunge_is_never_refused_for_what_is_kept() {
    for nth in 0..20 {
        let (disk, arena) = scene("maildir");
        let fault = Fault::nth(nth).under(kept_dir(&disk)).forever();
        let vfs = FaultVfs::new(disk.clone(), fault);
        let mut mailbox = arena.on(Arc::new(vfs.clone())).open();
        let changed = mailbox.change(&expunge(&[1, 6]), &limited(1 << 20));
        assert_eq!(changed.unwrap().expunged, 2, "{nth}");
        if !vfs.fired() {
            break;
        }
    }
}

#[test]
fn messages_that_are_files_are_linked() {
    for (links, copies) in [(true, false), (false, true)] {
        let (disk, arena) = scene("maildir");
        let mut mailbox = arena.open();
        disk.set_hard_links(links);
        let size = mailbox.bytes_of_messages(&[uid(1), uid(6)]).unwrap();
        let changed = mailbox.change(&expunge(&[1, 6]), &keeping()).unwrap();
        assert!(changed.kept >= Some(size), "{changed:?}");
        let state = mailbox.kept_expunges().unwrap();
        assert_eq!((state[0].bytes, state[0].state), (changed.kept.unwrap(), KeptState::Kept));
        let folder = kept_dir(&disk);
        let file = disk.metadata(&folder.join("00000002")).unwrap().size;
        assert_eq!(file > size, copies);
        assert_eq!(mailbox.undo(&now()).unwrap().appends, 2);
        assert_eq!(numbers(&arena, &mut mailbox), [1, 2, 4, 6, 7, 0, 5]);
        assert!(disk.metadata(&folder.join("00000002.links")).is_err());
    }
}

/// nmh's `anno` changes a message in place under all its names, so a file that has another name is
/// copied.
#[test]
fn messages_of_mh_are_linked_unless_they_have_another_name() {
    let disk = memory();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let (path, state) = (Path::new("/box"), PathBuf::from("/state"));
    let options = OpenOptions { threads: 1, ..OpenOptions::new(None, state.clone()) };
    barid::create(&vfs, path, format_named("mh"), &CreateOptions::default(), &state).unwrap();
    let spec = MailboxSpec { path: path.into(), format: None };
    let mut mailbox = Mailbox::open_in(vfs, &spec, &options).unwrap();
    let texts: Vec<String> = (1..=3).map(|n| format!("Subject: {n}\n\nbody {n}\n")).collect();
    let message = |text| NewMessage { bytes: text, ..NewMessage::default() };
    let appends: Vec<_> = texts.iter().map(|text| message(text.as_bytes())).collect();
    let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
    mailbox.change(&request, &now()).unwrap();
    disk.hard_link(&path.join("2"), &path.join(",2")).unwrap();
    mailbox.change(&expunge(&[1, 2, 3]), &keeping()).unwrap();
    assert!(mailbox.is_empty());
    let links = kept_dir(&disk).join("00000001.links");
    let is_linked =
        |name: &str| disk.metadata(&links.join(name)).is_ok_and(|found| found.links == 1);
    assert_eq!(["1", "2", "3"].map(is_linked), [true, false, true]);
    let other = disk.open(&path.join(",2"), FileOptions::WRITE).unwrap();
    other.write_all_at(b"Replaced", 0).unwrap();
    assert_eq!(mailbox.undo(&now()).unwrap().appends, 3);
    let uids: Vec<_> = mailbox.uids().unwrap().into_iter().map(uid).collect();
    let found: Vec<_> = uids
        .into_iter()
        .map(|uid| mailbox.read(uid, ReadAs::Message).unwrap().bytes)
        .map(|bytes| String::from_utf8(bytes).unwrap())
        .collect();
    assert_eq!(found, texts);
    assert!(disk.metadata(&links).is_err());
}

#[test]
fn damage_of_what_is_kept_is_listed() {
    for format in FORMATS {
        let (disk, arena) = scene(format);
        let mut mailbox = arena.open();
        mailbox.change(&expunge(&[1, 6]), &keeping()).unwrap();
        let mut files = Vec::new();
        let mut folders = vec![kept_dir(&disk)];
        while let Some(folder) = folders.pop() {
            disk.open_dir(&folder)
                .unwrap()
                .list(&mut |name, file_type| {
                    let path = folder.join(String::from_utf8_lossy(name).as_ref());
                    match file_type {
                        barid_vfs::FileType::Dir => folders.push(path),
                        _ => files.push(path),
                    }
                })
                .unwrap();
        }
        for path in &files {
            let disk = disk.snapshot();
            let file = disk.open(path, FileOptions::WRITE).unwrap();
            let at = file.metadata().unwrap().size / 2;
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 1], at).unwrap();
            let arena = arena.on(Arc::new(disk));
            let states: Vec<_> = arena
                .open()
                .kept_expunges()
                .unwrap()
                .iter()
                .map(|kept| (kept.number, kept.state == KeptState::Damaged, kept.damaged > 0))
                .collect();
            let damaged: Vec<_> = states.iter().filter(|(_, state, _)| *state).collect();
            assert_eq!(damaged.len(), 1, "{}: {states:?}", path.display());
        }
        assert!(files.len() >= 2);
    }
}

#[test]
fn a_locked_mailbox_leaves_what_was_kept() {
    let (disk, arena) = scene("mboxrd");
    let options = OpenOptions { lock_timeout: std::time::Duration::ZERO, ..arena.options() };
    let mut mailbox = arena.try_open(&options).unwrap();
    let other = disk.open(Path::new("/box"), FileOptions::WRITE).unwrap();
    assert!(other.try_lock(LockKind::Flock, LockMode::Exclusive).unwrap());
    let error = mailbox.change(&expunge(&[1, 6]), &keeping()).unwrap_err();
    assert!(matches!(error, Error::Mailbox(barid_mailbox::Error::Locked { .. })), "{error}");
    drop(other);
    assert_eq!(mailbox.kept_expunges().unwrap().len(), 1);
    let changed = mailbox.undo(&now()).unwrap();
    assert_eq!((changed.appends, numbers(&arena, &mut mailbox).last()), (1, Some(&3)));
}

/// Restores everything possible, and checks that it was the last expunge that was made: that of 0
/// and 5, or some of them, or that of 3.
fn check_undo(arena: &Arena, context: &str) {
    let mut mailbox = arena.open();
    let before = numbers(arena, &mut mailbox);
    let gone: Vec<u64> = [0, 5].into_iter().filter(|number| !before.contains(number)).collect();
    let expected = if gone.is_empty() { vec![3] } else { gone.clone() };
    let changed = mailbox.undo(&now()).unwrap();
    let after = numbers(arena, &mut mailbox);
    assert_eq!(after, [before, expected].concat(), "{context}: {changed:?}");
    let again = mailbox.undo(&now());
    match gone.is_empty() {
        true => nothing_to_undo(again),
        false => assert_eq!(numbers(arena, &mut mailbox).last(), Some(&3), "{context}"),
    }
    assert_eq!(mailbox.kept_expunges().unwrap(), []);
}

#[test]
fn every_crash_of_an_expunge_leaves_what_is_to_be_undone() {
    for format in FORMATS {
        let (disk, arena) = scene(format);
        let world = CrashVfs::new(&disk);
        let mut mailbox = arena.on(Arc::new(world.vfs())).open();
        let first = world.points();
        mailbox.change(&expunge(&[1, 6]), &keeping()).unwrap();
        assert!(world.points() > first + 5);
        for point in first..=world.points() {
            for seed in 0..6 {
                let disk = world.crash_at(point, seed);
                check_undo(&arena.on(Arc::new(disk)), &format!("{format}, {point}, {seed}"));
            }
        }
    }
}

#[test]
fn a_failing_call_in_an_expunge_leaves_what_is_to_be_undone() {
    for format in FORMATS {
        for kind in [CallKind::Write, CallKind::Name, CallKind::Resize, CallKind::Sync] {
            for nth in 0.. {
                let (disk, arena) = scene(format);
                let vfs = FaultVfs::new(disk.clone(), Fault::nth(nth).of(kind));
                let opened = arena.on(Arc::new(vfs.clone())).try_open(&arena.options());
                if let Ok(mut mailbox) = opened {
                    // It does not matter if, and how, this fails.
                    let _ = mailbox.change(&expunge(&[1, 6]), &keeping());
                }
                disk.sleep(std::time::Duration::from_secs(600));
                check_undo(&arena, &format!("{format}, {kind:?}, {nth}"));
                if !vfs.fired() {
                    break;
                }
            }
        }
    }
}

#[test]
fn an_expunge_that_goes_on_with_another_is_undone_with_it() {
    let mut interrupted = 0;
    for nth in 0..40 {
        let (disk, arena) = scene("maildir");
        let vfs = FaultVfs::new(disk.clone(), Fault::nth(nth).of(CallKind::Name));
        let mut mailbox = arena.on(Arc::new(vfs.clone())).open();
        let _ = mailbox.change(&expunge(&[1, 6, 8]), &keeping());
        let mut mailbox = arena.open();
        let left = numbers(&arena, &mut mailbox);
        let uids: Vec<u32> = found(&mailbox).iter().map(|found| found.uid).collect();
        let rest: Vec<u32> = [1, 6, 8].into_iter().filter(|uid| uids.contains(uid)).collect();
        if rest.is_empty() || rest.len() == 3 {
            continue;
        }
        interrupted += 1;
        assert_eq!(mailbox.kept_expunges().unwrap()[0].state, KeptState::Partial);
        mailbox.change(&expunge(&rest), &keeping()).unwrap();
        let dry = ChangeOptions { dry_run: true, ..now() };
        assert_eq!(mailbox.undo(&dry).unwrap().appends, 3);
        assert_eq!(mailbox.undo(&now()).unwrap().appends, 3, "{left:?}");
        assert_eq!(numbers(&arena, &mut mailbox), [1, 2, 4, 6, 0, 5, 7]);
        assert_eq!(mailbox.undo(&now()).unwrap().appends, 1);
    }
    assert!(interrupted > 0);
}

#[test]
fn a_replaced_mailbox_finds_what_was_expunged_from_the_former() {
    let (disk, arena) = scene("mboxrd");
    let bytes = arena.content();
    let new = Path::new("/new");
    disk.open(new, FileOptions::create(0o600)).unwrap().write_all_at(&bytes, 0).unwrap();
    disk.rename(new, Path::new("/box")).unwrap();
    let mut mailbox = arena.open();
    match mailbox.undo(&now()).unwrap_err() {
        Error::NothingToUndo { replaced: true, .. } => {}
        error => panic!("{error}"),
    }
    assert!(mailbox.has_kept_of_replaced().unwrap());
    mailbox.undo_one(Undo::Replaced, &now()).unwrap();
    assert_eq!(numbers(&arena, &mut mailbox), [0, 1, 2, 4, 5, 6, 7, 3]);
    nothing_to_undo(mailbox.undo_one(Undo::Replaced, &now()));
}

/// Expunges the `at`-th of some messages in an mbox, and undoes that; every message then exists
/// byte by byte, with a new UID and place.
fn check_bytes(spec: &str, messages: &[&str], at: u32, end: &str) {
    let disk = memory();
    let file = disk.open(Path::new("/box"), FileOptions::create(0o600)).unwrap();
    file.write_all_at(messages.concat().as_bytes(), 0).unwrap();
    let options = OpenOptions { threads: 1, ..OpenOptions::new(None, "/state".into()) };
    let spec = MailboxSpec::parse(spec);
    let mut mailbox = Mailbox::open_in(Arc::new(disk.clone()), &spec, &options).unwrap();
    assert_eq!(mailbox.len() as usize, messages.len());
    mailbox.change(&expunge(&[at + 1]), &keeping()).unwrap();
    let before = disk.read(Path::new("/box"), u64::MAX).unwrap();
    mailbox.undo(&now()).unwrap();
    assert_eq!(mailbox.len() as usize, messages.len());
    let after = String::from_utf8(disk.read(Path::new("/box"), u64::MAX).unwrap()).unwrap();
    let before = String::from_utf8(before).unwrap();
    let new = after.strip_prefix(&before).unwrap();
    assert_eq!(new, format!("{}{end}", messages[at as usize]));
}

#[test]
fn an_mbox_gets_its_bytes_back() {
    let other = "From b  Sat Jan  3 01:05:34 1996\nSubject: other\n\nother\n\n";
    let first = "From a@b  Sat Jan  3 01:05:34 1996\nSubject: x\nContent-Length: 22\n\n\
                 From me\nis not quoted\n\n";
    for spec in ["/box", "mbox:/box", "mboxo:/box", "mboxcl:/box", "mboxcl2:/box", "mboxrd:/box"] {
        check_bytes(spec, &[first, other], 0, "");
        let quoted = "From a@b  Sat Jan  3 01:05:34 1996\nSubject: x\n\n>From me\n>>From you\n\n";
        check_bytes(spec, &[other, quoted], 1, "");
        let crlf = "From a@b Sat Jan  3 01:05:34 1996\r\nSubject: x\r\nStatus: RO\r\n\r\nx\r\n\r\n";
        let crlf_other = other.replace('\n', "\r\n");
        check_bytes(spec, &[crlf, &crlf_other], 0, "");
    }
}

#[test]
fn pending_flags_are_brought_back() {
    let (_, arena) = scene("mboxrd");
    let mut mailbox = arena.open();
    mailbox.change(&flag(&[1], &add(Flag::Seen)), &later()).unwrap();
    mailbox.change(&expunge(&[1]), &keeping()).unwrap();
    let changed = mailbox.undo(&now()).unwrap();
    assert_eq!(mailbox.uids_with(Flag::Seen).unwrap(), changed.appended);
    assert_eq!(arena.open_without_cache().uids_with(Flag::Seen).unwrap(), changed.appended);
    assert!(changed.appended[0] > uid(8));
}
