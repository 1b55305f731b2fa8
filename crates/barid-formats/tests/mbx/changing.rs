//! Changes of our own, and what others find then.

use barid_formats::{ChangeSet, EmptyKnown, Error, FlagChange};
use barid_types::{Flag, FlagSet, InternalDate};
use barid_vfs::{LockKind, LockMode, MemVfs, OpenOptions, Vfs};

use super::support::{World, empty, header, keyword, new_message, record, text, uid};

fn flag(number: u32, flag: Flag) -> ChangeSet {
    let add = FlagSet::EMPTY.with(flag);
    let change = FlagChange { add, ..FlagChange::default() };
    ChangeSet { flags: vec![(uid(number), change)], ..ChangeSet::default() }
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
    // Nothing is to be done.
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
    let changes = ChangeSet { flags: vec![(uid(3), change)], ..ChangeSet::default() };
    world.change(&changes, &[]);
    assert_eq!(&world.bytes()[25..39], b"todo\r\nJunk\r\n\r\n");
    let change = FlagChange {
        add: FlagSet::EMPTY.with(Flag::Answered),
        remove_keywords: vec![keyword("TODO"), keyword("other")],
        ..FlagChange::default()
    };
    let flags = [3, 4].map(|number| (uid(number), change.clone())).to_vec();
    world.change(&ChangeSet { flags, ..ChangeSet::default() }, &[]);
    assert_eq!(world.scan().flags(), ["-", "-", "A- Junk", "A-", "-"]);
    let long = FlagChange { add_keywords: vec![keyword(&"x".repeat(51))], ..FlagChange::default() };
    let changes = ChangeSet { flags: vec![(uid(1), long)], ..ChangeSet::default() };
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
    // Reading needs no permission.
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
