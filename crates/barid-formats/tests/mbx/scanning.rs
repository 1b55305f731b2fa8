//! Scans of mailboxes that other programs change.

use barid_mailbox::{EmptyKnown, Error, SyncContext};
use barid_vfs::{OpenOptions, Vfs};

use super::support::{World, empty, header, record, text};

fn write(world: &World, bytes: &[u8], offset: u64) {
    let file = world.vfs.open(&world.path, OpenOptions::WRITE).unwrap();
    file.write_all_at(bytes, offset).unwrap();
    world.pass_time();
}

/// Appends as c-client does: the modification time stays.
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
    // A scan that may write assigns the same UIDs, also to messages delivered since.
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
        // A wrong size leads to another offset than that of the line.
        let expected = if at == second + 28 { second + 344 } else { second };
        assert_eq!(offset, expected as u64);
        assert_eq!(world.bytes(), file);
    }
}

#[test]
fn what_a_tail_makes_void_is_read_anew() {
    let (_, world) = World::of(&three());
    let found = world.scan();
    world.pass_time();
    let found = world.scan_again(&found);
    // A UID that was assigned already: as in c-client, all are void from there on.
    append(&world, &record(&text(9), 0, 0, 2));
    let next = world.scan_again(&found);
    assert!(next.report.reset);
    assert!(next.report.uidvalidity > found.report.uidvalidity);
    assert_eq!(next.uids(), [1, 2, 3, 4]);
    assert_eq!(next.seen, world.scan().seen);
}

/// Returns the bytes that an append by barid leaves if it is interrupted before its commit point.
fn left(texts: &[String], uid: u32) -> Vec<u8> {
    let records = texts.iter().zip(uid..).map(|(text, uid)| record(text, 0, 0, uid));
    let mut bytes: Vec<u8> = records.collect::<Vec<_>>().concat();
    let line = memchr::memchr(b'\n', &bytes).unwrap();
    bytes[..=line].fill(0);
    bytes
}

#[test]
fn mail_after_an_interrupted_append_is_found() {
    let lefts = [vec![text(7)], vec![text(7), text(8)], vec!["x".repeat(1 << 20)]];
    for texts in lefts {
        let all = [
            header(0x544a_adf6, 5, &[]),
            record(&text(1), 0, 0x10, 1),
            left(&texts, 2),
            record(&text(8), 0, 0, 0),
            record(&text(9), 0, 0x1, 0),
        ];
        let (_, mut world) = World::of(&all.concat());
        world.read_only = true;
        let seen = world.scan();
        assert_eq!((seen.seen.len(), seen.report.defects.len()), (3, 1));
        assert_eq!(world.bytes(), all.concat());
        assert_eq!(world.scan_again(&seen).seen, seen.seen);
        world.read_only = false;
        let found = world.scan();
        assert_eq!(found.seen, seen.seen);
        assert_eq!(found.report.defects, []);
        assert_eq!(found.flags(), ["-", "R-", "SR-"]);
        assert_eq!(world.read(&found.seen[1]).unwrap(), text(8).into_bytes());
        assert_eq!(world.bytes().len(), all.concat().len());
        world.pass_time();
        assert_eq!(world.scan_again(&found).seen, found.seen);
    }
}

#[test]
fn lines_in_an_interrupted_append_are_not_believed() {
    // As if a session had seen it, with a UID that no message there can have.
    for uid in [1, 2, 3, 0xffff_ffff] {
        let fake = String::from_utf8(record("Subject: fake\r\n\r\n", 0, 0x10, uid)).unwrap();
        let hostile = format!("Subject: hostile\r\n\r\n{fake}");
        let parts =
            [header(0x544a_adf6, 2, &[]), record(&text(1), 0, 0x10, 1), left(&[hostile], 2)];
        let (_, world) = World::of(&parts.concat());
        let found = world.scan();
        assert_eq!((found.uids(), found.report.defects.len()), (vec![1], 1), "{uid}");
    }
}

#[test]
fn nothing_is_numbered_over_what_was_begun() {
    let (disk, world) = World::of(&three());
    let before = world.bytes();
    // A journal that was never complete.
    let journal = disk.open("/mail/.box.barid-journal".as_ref(), OpenOptions::create(0o600));
    journal.unwrap().write_all_at(b"baridRDO", 0).unwrap();
    assert_eq!(world.scan().uids(), [1, 2, 3]);
    assert_eq!(world.bytes(), before);
    world.mailbox().unwrap().recover(&mut SyncContext::new(&EmptyKnown::default())).unwrap();
    assert_eq!(world.scan().uids(), [1, 2, 3]);
    assert_ne!(world.bytes(), before);
}
