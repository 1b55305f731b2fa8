//! Damaged state: it is reported until it is acknowledged, and never prevents delivery or reading.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid::check::{check, repair};
use barid::convert::{ConvertOptions, copy};
use barid::{CreateOptions, Flag, Mailbox, MailboxSpec, NoteKind, OpenOptions, create};
use barid_vfs::{
    CallKind, Fault, FaultEffect, FaultVfs, Host as _, MemVfs, OpenOptions as FileOptions, Vfs,
};

use crate::arena::{Arena, add, flag, format_named, found, later, memory, now, uid};

/// Returns a mailbox with UIDs only in the ledger, and two pending changes.
fn scene() -> (MemVfs, Arena) {
    let disk = memory();
    let mut arena = Arena::new(Arc::new(disk.clone()), Path::new("/"), "mboxrd", 3);
    arena.deliver(9);
    let mut mailbox = arena.open();
    mailbox.change(&flag(&[1], &add(Flag::Seen)), &later()).unwrap();
    mailbox.change(&flag(&[2], &add(Flag::Flagged)), &later()).unwrap();
    (disk, arena)
}

fn state_file(disk: &MemVfs, suffix: &str) -> PathBuf {
    let mut found = Vec::new();
    let mut take = |name: &[u8], _| {
        let name = String::from_utf8_lossy(name).into_owned();
        found.extend(name.ends_with(suffix).then_some(name));
    };
    disk.open_dir(Path::new("/state")).unwrap().list(&mut take).unwrap();
    assert_eq!(found.len(), 1, "{suffix}");
    Path::new("/state").join(&found[0])
}

fn flip(disk: &MemVfs, path: &Path, at: u64) {
    let file = disk.open(path, FileOptions::WRITE).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
}

/// Returns the notes on the state when the mailbox is opened with an empty cache, or without one.
fn news(arena: &Arena, cache: Option<&str>) -> (Mailbox, Vec<String>) {
    let options = OpenOptions { cache_dir: cache.map(PathBuf::from), ..arena.options() };
    let mailbox = arena.try_open(&options).unwrap();
    let state = mailbox.notes().iter().filter(|note| note.kind == NoteKind::State);
    let texts = state.map(|note| note.text.clone()).collect();
    (mailbox, texts)
}

fn acknowledge(arena: &Arena, expected: &str) {
    let damages = |report: &barid::check::CheckReport| -> Vec<&'static str> {
        report.damages.iter().map(|damage| damage.kind).collect()
    };
    let found = check(&arena.vfs, &arena.spec, &arena.options()).unwrap();
    assert_eq!(damages(&found), [expected]);
    let repaired = repair(&arena.vfs, &arena.spec, &arena.options()).unwrap();
    assert_eq!(damages(&repaired.found), [expected]);
    assert!(check(&arena.vfs, &arena.spec, &arena.options()).unwrap().damages.is_empty());
    assert_eq!(news(arena, None).1, [""; 0]);
}

#[test]
fn a_flipped_bit_in_the_ledger_costs_nothing_and_is_told() {
    let (disk, arena) = scene();
    let before = found(&arena.open());
    let status = arena.open().status();
    let ledger = state_file(&disk, ".ledger");
    let size = disk.metadata(&ledger).unwrap().size;
    for at in [size - 100, size - 4096 - 100] {
        flip(&disk, &ledger, at);
        for cache in [None, Some("/elsewhere"), Some("/cache")] {
            let (mailbox, told) = news(&arena, cache);
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(told[0].contains("nothing is lost"), "{told:?}");
            assert!(!mailbox.is_renumbered());
            assert_eq!(found(&mailbox), before);
            let now = mailbox.status();
            assert_eq!((now.uidvalidity, now.uidnext), (status.uidvalidity, status.uidnext));
        }
        acknowledge(&arena, "state-ledger");
    }
}

#[test]
fn what_cannot_be_acknowledged_is_reported() {
    let (mut refused, mut failed) = (0, 0);
    for (nth, suffix) in (0..).flat_map(|nth| [(nth, ".ledger"), (nth, ".pending")]) {
        let (disk, arena) = scene();
        let path = state_file(&disk, suffix);
        let at = disk.metadata(&path).unwrap().size - 100;
        flip(&disk, &path, at);
        let effect = FaultEffect::Error(std::io::ErrorKind::Other);
        let fault = Fault::nth(nth).under("/state").with(effect).forever();
        let vfs = FaultVfs::new(disk, fault);
        let failing = arena.on(Arc::new(vfs.clone()));
        let repaired = repair(&failing.vfs, &failing.spec, &failing.options());
        if !vfs.fired() {
            break;
        }
        let damages = repaired.map(|report| report.found.damages);
        let is_refused = |damage: &barid::check::Damage| damage.repair.is_none();
        match damages {
            Err(_) => failed += 1,
            Ok(damages) if damages.iter().any(is_refused) => {
                refused += 1;
                assert!(damages.iter().any(|damage| damage.what.contains("acknowledged: ")));
            }
            Ok(_) => {
                let left = check(&arena.vfs, &arena.spec, &arena.options()).unwrap();
                assert_eq!(left.damages, [], "call {nth} of {suffix}");
            }
        }
    }
    assert!(refused > 5 && failed > 5, "{refused} refused, {failed} failed");
}

#[test]
fn a_lost_ledger_is_told_and_the_mailbox_goes_on() {
    let (disk, mut arena) = scene();
    let validity = arena.open().status().uidvalidity;
    let ledger = state_file(&disk, ".ledger");
    let size = disk.metadata(&ledger).unwrap().size;
    (0..size).step_by(100).for_each(|at| flip(&disk, &ledger, at));
    disk.sleep(std::time::Duration::from_secs(2));
    for _ in 0..3 {
        let (mut mailbox, told) = news(&arena, Some("/elsewhere"));
        assert!(mailbox.status().uidvalidity > validity && mailbox.is_renumbered());
        assert!(told.iter().any(|text| text.contains("messages have new UIDs")), "{told:?}");
        // Delivery, reading and a server's session continue to work.
        arena.append(&mut mailbox, vec![Default::default()]);
        mailbox.change(&flag(&[1], &add(Flag::Answered)), &now()).unwrap();
        mailbox.read(uid(1), barid::ReadAs::Message).unwrap();
    }
    let validity = arena.open().status().uidvalidity;
    acknowledge(&arena, "state-ledger");
    let (mailbox, _) = news(&arena, None);
    assert!(!mailbox.is_renumbered() && mailbox.status().uidvalidity == validity);
}

#[test]
fn damage_in_the_middle_of_a_ledger_is_told_by_a_check() {
    let disk = memory();
    let mut arena = Arena::new(Arc::new(disk.clone()), Path::new("/"), "mboxrd", 3);
    arena.deliver(600);
    arena.open();
    // A batch after it, so that no opening reads the damaged part.
    arena.deliver(1);
    arena.open();
    let ledger = state_file(&disk, ".ledger");
    flip(&disk, &ledger, 2000);
    assert_eq!(news(&arena, Some("/cache")).1, [""; 0]);
    acknowledge(&arena, "state-ledger");
}

#[test]
fn a_ledger_that_is_missing_is_told_where_something_else_knows_of_it() {
    for remaining in ["cache", "pending"] {
        let (disk, arena) = scene();
        let validity = arena.open().status().uidvalidity;
        disk.remove_file(&state_file(&disk, ".ledger")).unwrap();
        if remaining == "cache" {
            disk.remove_file(&state_file(&disk, ".pending")).unwrap();
        }
        let cache = if remaining == "cache" { "/cache" } else { "/elsewhere" };
        for _ in 0..2 {
            let (mailbox, told) = news(&arena, Some(cache));
            assert!(mailbox.status().uidvalidity > validity && mailbox.is_renumbered());
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(told[0].contains("it was missing: it stored the UIDs"), "{told:?}");
        }
        acknowledge(&arena, "state-ledger");
    }
}

#[test]
fn a_flipped_bit_in_the_pending_changes_is_told_and_the_rest_applies() {
    let (disk, arena) = scene();
    let pending = state_file(&disk, ".pending");
    let size = disk.metadata(&pending).unwrap().size;
    flip(&disk, &pending, size - 20);
    for _ in 0..2 {
        let (mailbox, told) = news(&arena, Some("/cache"));
        assert!(told[0].contains("at least 1 accepted change"), "{told:?}");
        assert_eq!((mailbox.pending(), told.len()), (1, 1));
    }
    // Writing the other changes does not clear the report.
    arena.open().sync(&now()).unwrap();
    let (mailbox, told) = news(&arena, Some("/cache"));
    assert_eq!((mailbox.pending(), told.len()), (0, 1));
    let flags: Vec<_> = found(&mailbox).iter().map(|message| message.flags).collect();
    assert!(flags[0].contains(Flag::Seen) && !flags[1].contains(Flag::Flagged));
    acknowledge(&arena, "state-pending");
}

#[test]
fn an_error_of_the_ledgers_barrier_is_told_by_a_copy() {
    let (disk, arena) = scene();
    let mut told = 0;
    for format in ["mh", "mboxrd", "maildir"].map(format_named) {
        for nth in 0..6 {
            let disk = disk.snapshot();
            let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
            create(&vfs, Path::new("/to"), format, &CreateOptions::default(), Path::new("/state"))
                .unwrap();
            let spec = MailboxSpec { path: "/to".into(), format: None };
            Mailbox::open_in(vfs, &spec, &arena.options()).unwrap();
            let effect = FaultEffect::Error(std::io::ErrorKind::Other);
            let fault = Fault::nth(nth).of(CallKind::Sync).under("/state").with(effect);
            let failing = FaultVfs::new(disk.clone(), fault);
            let vfs: Arc<dyn Vfs> = Arc::new(failing.clone());
            let mut source = arena.on(Arc::clone(&vfs)).open();
            let mut target = Mailbox::open_in(vfs, &spec, &arena.options()).unwrap();
            let options = ConvertOptions::default();
            let copied = copy(&mut source, &[uid(3), uid(4)], &mut target, &options, &mut |_| {});
            if !failing.fired() {
                break;
            }
            assert!(copied.is_err() || !copied.unwrap().is_whole(), "{format:?} {nth}");
            told += 1;
        }
    }
    assert!(told >= 2, "{told}");
}
