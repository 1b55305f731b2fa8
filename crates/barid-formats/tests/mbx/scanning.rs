//! Scans of mailboxes that others change.

use barid_formats::{EmptyKnown, Error};
use barid_vfs::{OpenOptions, Vfs};

use super::support::{World, empty, header, record, text};

fn write(world: &World, bytes: &[u8], offset: u64) {
    let file = world.vfs.open(&world.path, OpenOptions::WRITE).unwrap();
    file.write_all_at(bytes, offset).unwrap();
    world.pass_time();
}

/// Appends as c-client does: the time of the last change stays.
fn append(world: &World, bytes: &[u8]) {
    let file = world.vfs.open(&world.path, OpenOptions::WRITE).unwrap();
    let before = file.metadata().unwrap();
    file.write_all_at(bytes, before.size).unwrap();
    file.set_times(world.vfs.now(), before.modified).unwrap();
    world.pass_time();
}

fn three() -> Vec<u8> {
    let records = (1..4).map(|n| record(&text(n), 0, 0, 0));
    [empty()].into_iter().chain(records).collect::<Vec<_>>().concat()
}

#[test]
fn messages_without_uids_get_them_once() {
    let (disk, world) = World::of(&three());
    let found = world.scan();
    assert_eq!(found.uids(), [1, 2, 3]);
    assert_eq!(found.flags(), ["R-", "R-", "R-"]);
    assert!(found.report.reset);
    let bytes = world.bytes();
    assert_eq!(&bytes[7..23], b"544aadf600000003");
    assert!(disk.open_dir("/tmp".as_ref()).is_ok_and(|tmp| {
        let mut names = 0;
        tmp.list(&mut |_, _| names += 1).unwrap();
        names == 0
    }));
    world.pass_time();
    let again = world.scan_again(&found);
    assert_eq!(again.seen, found.seen);
    assert_eq!(world.bytes(), bytes);
    assert_eq!(again.report.stats.messages_read, 0);
}

#[test]
fn reading_only_counts_in_memory() {
    let (_, mut world) = World::of(&three());
    world.read_only = true;
    let before = world.bytes();
    let found = world.scan();
    assert_eq!(found.uids(), [1, 2, 3]);
    assert_eq!(found.report.uidnext.get(), 4);
    assert_eq!(world.bytes(), before);
    // Who may write gives the same numbers, also to what came since.
    append(&world, &record(&text(9), 0, 0, 0));
    world.read_only = false;
    let again = world.scan_again(&found);
    assert_eq!(again.uids(), [1, 2, 3, 4]);
    assert_eq!(&world.bytes()[15..23], b"00000004");
}

#[test]
fn where_no_lock_file_can_be_made_nothing_is_written() {
    let (disk, world) = World::of(&three());
    let before = world.bytes();
    disk.set_mode("/tmp".as_ref(), 0o500).unwrap();
    assert_eq!(world.scan().uids(), [1, 2, 3]);
    assert_eq!(world.bytes(), before);
    disk.set_mode("/tmp".as_ref(), 0o700).unwrap();
    assert_eq!(world.scan().uids(), [1, 2, 3]);
    assert_ne!(world.bytes(), before);
}

#[test]
fn only_the_tail_is_read_of_what_grew() {
    let (_, world) = World::of(&three());
    let found = world.scan();
    world.pass_time();
    let found = world.scan_again(&found);
    append(&world, &record(&text(9), 0, 0, 0));
    let next = world.try_scan(&found).unwrap();
    assert_eq!((next.seen.len(), next.uids()), (1, vec![4]));
    assert!(next.report.stats.bytes_read < 6 * 2048, "{:?}", next.report.stats);
    assert!(!next.report.reset && next.report.changed.is_empty());
    assert_eq!(found.and(next).seen, world.scan().seen);
}

#[test]
fn flags_of_others_are_noticed() {
    let (_, world) = World::of(&three());
    let found = world.scan();
    world.pass_time();
    let found = world.scan_again(&found);
    let seen = b"000000000013-00000002";
    let at = world.bytes().windows(8).position(|bytes| bytes == b"00000002").unwrap() - 13;
    write(&world, seen, at as u64);
    let next = world.scan_again(&found);
    assert_eq!(next.flags(), ["R-", "DS-", "R-"]);
    assert_eq!(next.report.changed.len(), 1);
    // A keyword, hidden messages, and a new one.
    write(&world, b"todo\r\n\r\n", 25);
    write(&world, b"000000010010", at as u64);
    let third = world.bytes().windows(9).position(|bytes| bytes == b"-00000003").unwrap() - 12;
    write(&world, b"000000008012", third as u64);
    append(&world, &record(&text(9), 1, 0, 0));
    let next = world.scan_again(&next);
    assert_eq!(next.flags(), ["R-", "- todo", "R- todo"]);
    assert_eq!(next.uids(), [1, 2, 4]);
    assert_eq!(next.report.expunged.len(), 1);
    assert_eq!(next.seen, world.scan().seen);
}

#[test]
fn what_another_compacted_is_read_anew() {
    let (_, world) = World::of(&three());
    let found = world.scan();
    let bytes = world.bytes();
    let second = 2048 + record(&text(1), 0, 0, 0).len();
    let third = second + record(&text(2), 0, 0, 0).len();
    let file = world.vfs.open(&world.path, OpenOptions::WRITE).unwrap();
    file.write_all_at(&bytes[third..], second as u64).unwrap();
    file.set_len((second + bytes.len() - third) as u64).unwrap();
    world.pass_time();
    let next = world.scan_again(&found);
    assert!(next.report.reset);
    assert_eq!(next.uids(), [1, 3]);
    assert_eq!(next.seen, world.scan().seen);
    assert!(matches!(world.read(&found.seen[2]), Err(Error::MessageGone { .. })));
}

#[test]
fn void_uids_raise_uidvalidity() {
    let file = [header(0x544a_adf6, 9, &[]), record(&text(1), 0, 0, 7), record(&text(2), 0, 0, 3)];
    let (_, world) = World::of(&file.concat());
    let found = world.scan();
    assert_eq!(found.uids(), [7, 8]);
    assert!(found.report.uidvalidity.get() > 0x544a_adf6);
    assert_eq!(world.scan().report.uidvalidity, found.report.uidvalidity);
}

#[test]
fn a_file_put_back_gives_no_uid_twice() {
    let (_, world) = World::of(&three());
    let old = world.bytes();
    let found = world.scan();
    append(&world, &record(&text(4), 0, 0, 0));
    let found = world.scan_again(&found);
    assert_eq!(found.uids(), [1, 2, 3, 4]);
    let file = world.vfs.open(&world.path, OpenOptions::WRITE).unwrap();
    file.set_len(0).unwrap();
    write(&world, &old, 0);
    append(&world, &record(&text(5), 0, 0, 0));
    append(&world, &record(&text(6), 0, 0, 0));
    let next = world.scan_again(&found);
    assert!(next.uids().iter().all(|uid| *uid > 4), "{:?}", next.uids());
}

#[test]
fn a_torn_end_is_told_and_the_rest_is_read() {
    let whole = three();
    let last = record(&text(7), 0, 0, 0);
    for cut in (1..last.len()).step_by(7).chain([1, 50, 51, 52, 53, 54, last.len() - 1]) {
        let (_, world) = World::of(&[&whole, &last[..cut]].concat());
        let found = world.scan();
        assert_eq!(found.uids(), [1, 2, 3]);
        let [defect] = &*found.report.defects else { panic!("{cut}") };
        assert_eq!(defect.offset, whole.len() as u64);
        assert!(world.mailbox().unwrap().has_unread(&found.report.state));
        let again = world.scan_again(&found);
        assert_eq!((again.report.defects.len(), again.seen.len()), (1, 3));
    }
    let (_, world) = World::of(&[&whole[..], &[0; 700]].concat());
    assert_eq!(world.scan().report.defects.len(), 1);
}

#[test]
fn damage_in_the_middle_is_refused() {
    let file = three();
    let second = 2048 + record(&text(1), 0, 0, 0).len();
    let damage =
        [(second + 3, b'_'), (second + 28, b'9'), (second + 30, b'x'), (second + 50, b'q')];
    for (at, byte) in damage {
        let mut file = file.clone();
        file[at] = byte;
        let (_, world) = World::of(&file);
        let error = world.try_scan(&EmptyKnown::default()).unwrap_err();
        let Error::Damaged { offset, .. } = error else { panic!("{at}: {error}") };
        // What a wrong size leads to is not where it stands.
        let expected = if at == second + 28 { second + 344 } else { second };
        assert_eq!(offset, expected as u64);
        assert_eq!(world.bytes(), file);
    }
}
