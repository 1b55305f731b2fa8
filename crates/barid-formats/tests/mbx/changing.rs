//! Changes by barid, and the view of other programs afterwards.

use std::cell::Cell;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use barid_mailbox::{ChangeSet, EmptyKnown, Error, FlagChange, MovedMessage, SyncContext};
use barid_types::{Flag, FlagSet, InternalDate};
use barid_vfs::{CallKind, CrashVfs, Fault, FaultEffect, FaultVfs};
use barid_vfs::{LockKind, LockMode, MemVfs, OpenOptions, Vfs};

use super::support::{World, empty, header, keyword, new_message, record, text, uid};

fn flag(number: u32, flag: Flag) -> ChangeSet {
    let add = FlagSet::EMPTY.with(flag);
    let change = FlagChange { add, ..FlagChange::default() };
    ChangeSet { flags: vec![(uid(number), change)].into(), ..ChangeSet::default() }
}

fn five() -> (MemVfs, World) {
    let records = (1..6).map(|n| record(&text(n as usize), 0, 0x10, n));
    World::of(&[header(7, 5, &[])].into_iter().chain(records).collect::<Vec<_>>().concat())
}

#[test]
fn flags_are_written_in_place() {
    let (_, world) = five();
    let before = world.bytes();
    let report = world.change(&flag(2, Flag::Seen), &[]);
    assert_eq!(report.figures.messages_written, 1);
    let after = world.bytes();
    let differs: Vec<usize> = (0..before.len()).filter(|at| before[*at] != after[*at]).collect();
    assert_eq!(&after[2038..2048], b"00001092\r\n");
    assert_eq!(differs.iter().filter(|at| **at >= 2048).count(), 1);
    assert_eq!(world.scan().flags(), ["-", "S-", "-", "-", "-"]);
    // Nothing needs to be done.
    let report = world.change(&flag(2, Flag::Seen), &[]);
    assert_eq!((report.figures.messages_written, report.figures.barriers), (0, 0));
    assert_eq!(world.bytes(), after);
}

#[test]
fn keywords_go_to_the_header_first() {
    let (_, world) = five();
    let change = FlagChange {
        add_keywords: vec![keyword("todo"), keyword("Junk")],
        ..FlagChange::default()
    };
    let changes = ChangeSet { flags: vec![(uid(3), change)].into(), ..ChangeSet::default() };
    world.change(&changes, &[]);
    assert_eq!(&world.bytes()[25..39], b"todo\r\nJunk\r\n\r\n");
    let change = FlagChange {
        add: FlagSet::EMPTY.with(Flag::Answered),
        remove_keywords: vec![keyword("TODO"), keyword("other")],
        ..FlagChange::default()
    };
    let flags = [3, 4].map(|number| (uid(number), change.clone())).to_vec();
    world.change(&ChangeSet { flags: flags.into(), ..ChangeSet::default() }, &[]);
    assert_eq!(world.scan().flags(), ["-", "-", "A- Junk", "A-", "-"]);
    let long = FlagChange { add_keywords: vec![keyword(&"x".repeat(51))], ..FlagChange::default() };
    let changes = ChangeSet { flags: vec![(uid(1), long)].into(), ..ChangeSet::default() };
    let report = world.change(&changes, &[]);
    assert_eq!((report.unwritable.len(), report.unwritable_count), (1, 1));
}

#[test]
fn recent_is_dropped_when_asked() {
    let records = (1..4).map(|n| record(&text(n), 0, 0, 0));
    let file = [empty()].into_iter().chain(records).collect::<Vec<_>>().concat();
    let (_, world) = World::of(&file);
    world.change(&flag(2, Flag::Draft), &[]);
    assert_eq!(world.scan().flags(), ["R-", "TR-", "R-"]);
    world.change(&ChangeSet { drop_recent: true, ..ChangeSet::default() }, &[]);
    assert_eq!(world.scan().flags(), ["-", "T-", "-"]);
}

#[test]
fn an_append_is_c_clients() {
    let (_, world) = World::of(&empty());
    let modified = world.vfs.metadata(&world.path).unwrap().modified;
    let mut first = new_message(b"Subject: a\n\nbody\nline\r\n\n", 723_300_802);
    first.internal_date = Some(InternalDate { unix_seconds: 723_300_802, zone_minutes: -420 });
    first.flags = FlagSet::EMPTY.with(Flag::Seen).with(Flag::Flagged);
    first.keywords = vec![keyword("todo")];
    let second = new_message(b"Subject: b\r\n\r\nno end", 1_000_000_000);
    let report = world.change(&ChangeSet::default(), &[first, second]);
    assert_eq!(report.appended, [Some(uid(1)), Some(uid(2))]);
    let bytes = world.bytes();
    let text = String::from_utf8_lossy(&bytes[2048..]);
    let expected = " 2-Dec-1992 05:53:22 -0700,29;000000010005-00000001\r\n\
                    Subject: a\r\n\r\nbody\r\nline\r\n\r\n 9-Sep-2001 01:46:40 +0000,\
                    20;000000000000-00000002\r\nSubject: b\r\n\r\nno end";
    assert_eq!(text, expected.replace(",29;", ",28;"));
    assert!(bytes.starts_with(b"*mbx*\r\n544aadf600000002\r\ntodo\r\n"));
    assert!(world.vfs.metadata(&world.path).unwrap().modified > modified, "a keyword is new");
    let modified = world.vfs.metadata(&world.path).unwrap().modified;
    world.change(&ChangeSet::default(), &[new_message(b"x\n", 5)]);
    assert_eq!(world.vfs.metadata(&world.path).unwrap().modified, modified);
    assert_eq!(world.scan().uids(), [1, 2, 3]);
    let empty = new_message(b"", 5);
    let known = world.scan();
    let refused = world.try_sync(&known, &ChangeSet::default(), &[empty]);
    assert!(matches!(refused, Err(Error::Unsupported { .. })));
}

#[test]
fn what_was_not_scanned_is_numbered_before_an_append() {
    let file = [empty(), record(&text(1), 0, 0, 0), record(&text(2), 0, 0, 0)].concat();
    let (_, world) = World::of(&[&file[..], b" 2-Dec-1992 05:"].concat());
    let nothing = EmptyKnown::default();
    let report = world.try_sync(&nothing, &ChangeSet::default(), &[new_message(b"x\n", 5)]);
    assert_eq!(report.unwrap().appended, [Some(uid(3))]);
    let found = world.scan();
    assert_eq!(found.uids(), [1, 2, 3]);
    assert_eq!(found.report.defects, []);
}

#[test]
fn an_expunge_moves_what_follows() {
    let (_, world) = five();
    let whole = world.scan();
    let texts: Vec<_> = whole.seen.iter().map(|seen| world.read(seen).unwrap()).collect();
    let mut changes = flag(4, Flag::Flagged);
    changes.expunge = vec![uid(2), uid(3), uid(9)];
    let report = world.change(&changes, &[new_message(b"Subject: new\r\n\r\n", 5)]);
    assert_eq!(report.expunged, [uid(2), uid(3)]);
    assert_eq!(report.gone, [uid(9)]);
    assert_eq!(report.appended, [Some(uid(6))]);
    let found = world.scan();
    assert_eq!(found.uids(), [1, 4, 5, 6]);
    assert_eq!(found.flags(), ["-", "F-", "-", "R-"]);
    for (at, number) in [(0, 0), (1, 3), (2, 4)] {
        assert_eq!(world.read(&found.seen[at]).unwrap(), texts[number]);
    }
    assert_eq!(world.bytes()[15..23], *b"00000006");
    world.change(&ChangeSet { expunge: vec![uid(6)], ..ChangeSet::default() }, &[]);
    let all = [1, 4, 5].map(uid).to_vec();
    world.change(&ChangeSet { expunge: all, ..ChangeSet::default() }, &[]);
    assert_eq!((world.scan().seen.len(), world.bytes().len()), (0, 2048));
    assert_eq!(world.scan().report.uidnext, uid(7));
}

#[test]
fn while_another_has_it_open_messages_are_hidden() {
    let (_, world) = five();
    let session = world.vfs.open(&world.path, OpenOptions::READ).unwrap();
    assert!(session.try_lock(LockKind::Flock, LockMode::Shared).unwrap());
    let size = world.bytes().len();
    let expunge = |number| ChangeSet { expunge: vec![uid(number)], ..ChangeSet::default() };
    let report = world.change(&expunge(2), &[]);
    assert_eq!((report.expunged, report.shifts.len()), (vec![uid(2)], 0));
    assert_eq!(world.bytes().len(), size);
    assert!(String::from_utf8_lossy(&world.bytes()).contains("000000008012-00000002"));
    assert_eq!(world.scan().uids(), [1, 3, 4, 5]);
    drop(session);
    world.change(&expunge(4), &[]);
    assert_eq!(world.scan().uids(), [1, 3, 5]);
    let kept: usize = [1, 3, 5].iter().map(|n| record(&text(*n), 0, 0, 0).len()).sum();
    assert_eq!(world.bytes().len(), 2048 + kept);
}

#[test]
fn a_torn_end_is_kept_beside_when_it_is_cut_off() {
    let (disk, world) = five();
    let whole = world.bytes();
    let torn = b" 2-Dec-1992 05:53:22 -0700,80;000000000000-00000000\r\nSubject: half";
    let file = disk.open(&world.path, OpenOptions::WRITE).unwrap();
    file.write_all_at(torn, whole.len() as u64).unwrap();
    let report = world.change(&ChangeSet::default(), &[new_message(b"a: b\r\n\r\n", 5)]);
    assert_eq!(report.appended, [Some(uid(6))]);
    let found = world.scan();
    assert_eq!(found.uids(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(found.report.defects, []);
    assert_eq!(world.bytes()[2048..whole.len()], whole[2048..]);
    let mut copies = Vec::new();
    let mail = disk.open_dir("/mail".as_ref()).unwrap();
    mail.list(&mut |name, _| copies.push(String::from_utf8_lossy(name).into_owned())).unwrap();
    copies.retain(|name| name.starts_with(".box.barid-torn-"));
    let [copy] = &*copies else { panic!("{copies:?}") };
    assert_eq!(disk.read(&world.path.with_file_name(copy), 999).unwrap(), torn);
    assert!(report.failed.iter().any(|what| what.contains(copy)), "{:?}", report.failed);
}

#[test]
fn locks_of_others_are_waited_for() {
    let (_, world) = five();
    let known = world.scan();
    let metadata = world.vfs.metadata(&world.path).unwrap();
    let lock = format!("/tmp/.{:x}.{:x}", metadata.device, metadata.inode);
    let file = world.vfs.open(lock.as_ref(), OpenOptions::create(0o666)).unwrap();
    assert!(file.try_lock(LockKind::Flock, LockMode::Exclusive).unwrap());
    let refused = world.try_sync(&known, &flag(1, Flag::Seen), &[]);
    assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
    // Reading requires no permission.
    world.scan();
    drop(file);
    world.try_sync(&known, &flag(1, Flag::Seen), &[]).unwrap();
    assert!(world.vfs.metadata(lock.as_ref()).is_err(), "the lock file goes");
    world.vfs.hard_link(&world.path, lock.as_ref()).unwrap();
    let trap = world.try_sync(&world.scan(), &flag(2, Flag::Seen), &[]);
    assert!(matches!(trap, Err(Error::Locked { .. })), "{trap:?}");
}

#[test]
fn what_changed_meanwhile_is_scanned_first() {
    let (_, world) = five();
    let known = world.scan();
    world.change(&ChangeSet { expunge: vec![uid(1)], ..ChangeSet::default() }, &[]);
    let stale = world.try_sync(&known, &flag(2, Flag::Seen), &[]);
    assert!(matches!(stale, Err(Error::Changed { .. })), "{stale:?}");
    let appended = world.try_sync(&known, &ChangeSet::default(), &[new_message(b"x\n", 5)]);
    assert_eq!(appended.unwrap().appended, [Some(uid(6))]);
}

#[test]
fn without_a_place_for_locks_nobody_else_may_have_it_open() {
    let (disk, world) = five();
    disk.remove_dir("/tmp".as_ref()).unwrap();
    let known = world.scan();
    let session = world.vfs.open(&world.path, OpenOptions::READ).unwrap();
    assert!(session.try_lock(LockKind::Flock, LockMode::Shared).unwrap());
    let refused = world.try_sync(&known, &ChangeSet::default(), &[new_message(b"x\n", 5)]);
    assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
    drop(session);
    let mut changes = flag(2, Flag::Seen);
    changes.expunge = vec![uid(1)];
    let done = world.try_sync(&known, &changes, &[new_message(b"x\n", 5)]).unwrap();
    assert_eq!(done.appended, [Some(uid(6))]);
    assert_eq!(world.scan().uids(), [2, 3, 4, 5, 6]);
}

#[test]
fn without_locks_nothing_is_moved() {
    let (disk, mut world) = five();
    let size = world.bytes().len();
    let none = Fault::nth(0).forever().of(CallKind::Lock);
    let none = none.with(FaultEffect::Error(ErrorKind::Unsupported));
    world.vfs = Arc::new(FaultVfs::new(disk, none));
    let expunge = ChangeSet { expunge: vec![uid(2)], ..ChangeSet::default() };
    let report = world.change(&expunge, &[]);
    assert_eq!((report.expunged, report.figures.bytes_moved), (vec![uid(2)], 0));
    assert_eq!(world.bytes().len(), size);
    assert_eq!(world.scan().uids(), [1, 3, 4, 5]);
}

/// Returns a mailbox whose first line has its flags on both sides of a sector boundary, and the
/// disks after a power failure in the middle of a change of these flags.
fn torn_flags() -> (World, Vec<MemVfs>) {
    // The line of the second message begins so that its keywords end with a sector.
    let first = "Subject: 1\r\n\r\n".to_owned() + &"x".repeat(512 * 3 - 41 - 55 - 14);
    let file = [
        header(7, 2, &["todo"]),
        record(&first, 0, 0x10, 1),
        record(&text(2), 0, 0x10, 2),
        record(&text(3), 0, 0x10, 3),
    ];
    let (disk, world) = World::of(&file.concat());
    let known = world.scan();
    let crash = CrashVfs::new(&disk);
    let add = FlagSet::EMPTY.with(Flag::Seen);
    let add_keywords = vec![keyword("todo")];
    let both = FlagChange { add, add_keywords, ..FlagChange::default() };
    let change = ChangeSet { flags: vec![(uid(2), both)].into(), ..ChangeSet::default() };
    let on_crash = World { vfs: Arc::new(crash.vfs()), ..world.clone() };
    on_crash.try_sync(&known, &change, &[]).unwrap();
    let disks = (0..crash.points()).map(|point| crash.crash_at(point, 1));
    let is_begun = |disk: &MemVfs| {
        let world = World { vfs: Arc::new(disk.clone()), ..world.clone() };
        world.mailbox().unwrap().unfinished(None).unwrap().is_some()
    };
    let begun: Vec<MemVfs> = disks.filter(is_begun).collect();
    assert!(!begun.is_empty(), "the change has no journal");
    (world, begun)
}

#[test]
fn flags_are_completed_while_others_have_the_mailbox_open() {
    let (world, disks) = torn_flags();
    for disk in disks {
        let world = World { vfs: Arc::new(disk), ..world.clone() };
        let session = world.vfs.open(&world.path, OpenOptions::READ).unwrap();
        assert!(session.try_lock(LockKind::Flock, LockMode::Shared).unwrap());
        let nothing = EmptyKnown::default();
        // The messages have not moved.
        let found = world.scan();
        world.read(&found.seen[1]).unwrap();
        world.mailbox().unwrap().recover(&mut SyncContext::new(&nothing)).unwrap();
        assert_eq!(world.scan().uids(), [1, 2, 3]);
        assert!(session.try_lock(LockKind::Flock, LockMode::Exclusive).unwrap(), "still shared");
    }
}

#[test]
fn flags_go_to_no_other_message() {
    let (world, disks) = torn_flags();
    let mut aside = 0;
    for disk in disks {
        let nothing = EmptyKnown::default();
        // Another date, another UID, another UIDVALIDITY.
        let second = 512 * 7 - 41;
        for (at, byte) in [(second + 1, b'3'), (second + 49, b'1'), (14, b'8')] {
            let disk = disk.snapshot();
            let world = World { vfs: Arc::new(disk.clone()), ..world.clone() };
            let file = disk.open(&world.path, OpenOptions::WRITE).unwrap();
            file.write_all_at(&[byte], at).unwrap();
            let before = world.bytes();
            let mailbox = world.mailbox().unwrap();
            let recovered = mailbox.recover(&mut SyncContext::new(&nothing)).unwrap();
            // An incomplete journal is dropped.
            aside += u32::from(recovered.quarantined.is_some());
            assert!(!recovered.completed, "{at}");
            assert_eq!(world.bytes(), before);
        }
    }
    assert!(aside >= 3, "{aside}");
}

#[test]
fn what_is_stopped_changes_nothing() {
    let (_, world) = five();
    let known = world.scan();
    let before = world.bytes();
    let stop = AtomicBool::new(true);
    let mut context = SyncContext::new(&known);
    context.stop = Some(&stop);
    let appends = [new_message(b"x\n", 5)];
    let stopped = world.mailbox().unwrap().sync(&flag(2, Flag::Seen), &appends, &mut context);
    assert!(matches!(stopped, Err(Error::Io { .. })), "{stopped:?}");
    assert_eq!(world.bytes(), before);
    // A stop in the middle takes effect between two steps.
    stop.store(false, Ordering::Relaxed);
    let told = Cell::new(false);
    let mut tell = |_: &MovedMessage| {
        told.set(true);
        stop.store(true, Ordering::Relaxed);
    };
    let mut context = SyncContext::new(&known);
    context.stop = Some(&stop);
    context.moved = Some(&mut tell);
    let stopped = world.mailbox().unwrap().sync(&flag(2, Flag::Seen), &appends, &mut context);
    assert!(matches!(stopped, Err(Error::NotAppended { .. })), "{stopped:?}");
    assert!(told.get());
    assert_eq!(world.scan().flags(), ["-", "S-", "-", "-", "-"]);
}
