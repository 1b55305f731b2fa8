//! Assignment of UIDs to messages, and their persistence.

use super::support::{Cached, World};

const FROM: &str = "From a@b Thu Nov 19 10:00:00 2026\n";

/// Returns a file of messages, each given by its header lines.
fn file(messages: &[&str]) -> String {
    messages.iter().map(|header| format!("{FROM}{header}\n\nbody\n\n")).collect()
}

/// Checks the UIDs of a mailbox after each of its versions in turn, for a cache that is kept and
/// for one that is always lost.
fn check(versions: &[(&[&str], &[u32])]) -> (World, Cached) {
    let world = World::new(file(versions[0].0).as_bytes());
    let mut cached = world.scan();
    assert_eq!(cached.uids(), versions[0].1);
    for (messages, expected) in &versions[1..] {
        world.write(file(messages).as_bytes());
        cached = world.scan_again(&cached);
        assert_eq!(cached.uids(), *expected, "{messages:?}");
        assert_eq!(world.scan().uids(), *expected, "{messages:?} without a cache");
    }
    (world, cached)
}

#[test]
fn the_ledger_keeps_uids() {
    check(&[
        (&["A: 1", "A: 2", "A: 3"], &[1, 2, 3]),
        (&["A: 1", "A: 3"], &[1, 3]),
        (&["A: 1", "A: 3", "A: 4"], &[1, 3, 4]),
        (&["A: 3"], &[3]),
        (&["A: 3", "A: 2"], &[3, 5]),
    ]);
}

#[test]
fn a_false_length_does_not_keep_what_is_gone() {
    let false_length = "A: 1\nContent-Length: 99";
    check(&[
        (&[false_length, "A: 2"], &[1, 2]),
        (&[false_length], &[1]),
        (&[false_length, "A: 2"], &[1, 3]),
    ]);
}

#[test]
fn equal_messages_are_told_by_their_order() {
    check(&[
        (&["A: 1", "A: 1", "A: 2", "A: 1"], &[1, 2, 3, 4]),
        (&["A: 1", "A: 1", "A: 2"], &[1, 2, 3]),
        (&["A: 1", "A: 2", "A: 1"], &[1, 3, 5]),
    ]);
    check(&[(&["A: 1", "A: 2", "A: 1"], &[1, 2, 3]), (&["A: 2", "A: 1"], &[2, 3])]);
}

#[test]
fn what_moves_or_comes_before_gets_new_uids_above_all() {
    check(&[
        (&["A: 1", "A: 2", "A: 3"], &[1, 2, 3]),
        (&["A: 2", "A: 3", "A: 1"], &[2, 3, 4]),
        (&["A: 0", "A: 2", "A: 3"], &[5, 6, 7]),
    ]);
}

#[test]
fn credible_uids_of_the_file_count() {
    let base = "X-IMAPbase: 1000 20 todo\nX-UID: 4\nA: 1";
    let (_, cached) = check(&[
        (&[base, "X-UID: 9\nA: 2", "A: 3"], &[4, 9, 21]),
        (&[base, "X-UID: 9\nA: 2", "A: 3", "A: 4"], &[4, 9, 21, 22]),
        (&[base, "A: 3", "A: 4"], &[4, 21, 22]),
    ]);
    assert_eq!(cached.report.uidvalidity.get(), 1000);
    assert_eq!(cached.report.uidnext.get(), 23);
    assert_eq!(cached.report.keywords.names()[0].as_str(), "todo");
}

#[test]
fn incredible_uids_of_the_file_do_not() {
    let base = "X-IMAPbase: 1000 20\nX-UID: 4\nA: 1";
    check(&[(&[base, "X-UID: 3\nA: 2"], &[4, 21])]);
    check(&[(&[base, "X-UID: 21\nA: 2"], &[4, 21])]);
    check(&[(&[base, "X-UID: 4294967295\nA: 2"], &[4, 21])]);
    check(&[(&[base, "X-UID: 99999999999\nA: 2", "X-UID: 5\nA: 3"], &[4, 21, 22])]);
    check(&[(&["X-UID: 7\nA: 1", "X-UID: 8\nA: 2"], &[1, 2])]);
    check(&[(&["A: 0", "X-IMAPbase: 1000 20\nX-UID: 4\nA: 1"], &[1, 2])]);
}

#[test]
fn the_mailbox_wins_but_no_uid_changes_its_meaning() {
    // barid's UIDs are replaced by those of a program with a later UIDVALIDITY.
    let world = World::new(file(&["A: 1", "A: 2"]).as_bytes());
    let cached = world.scan();
    let old = cached.report.uidvalidity.get();
    let base = format!("X-IMAPbase: {} 2\nX-UID: 1\nA: 1", old + 5);
    world.write(file(&[&base, "X-UID: 2\nA: 2"]).as_bytes());
    let cached = world.scan_again(&cached);
    assert_eq!((cached.report.uidvalidity.get(), cached.uids()), (old + 5, vec![1, 2]));

    // barid assigns 3 and 4; a program that does not know them assigns 3 to the message with 4.
    world.append(file(&["A: 3", "A: 4"]).as_bytes());
    let cached = world.scan_again(&cached);
    assert_eq!(cached.uids(), [1, 2, 3, 4]);
    let base = format!("X-IMAPbase: {} 3\nX-UID: 1\nA: 1", old + 5);
    world.write(file(&[&base, "X-UID: 2\nA: 2", "X-UID: 3\nA: 4"]).as_bytes());
    let cached = world.scan_again(&cached);
    assert_eq!(cached.uids(), [1, 2, 3]);
    let raised = cached.report.uidvalidity.get();
    assert!(raised > old + 5);
    let again = world.scan();
    assert_eq!((again.report.uidvalidity.get(), again.uids()), (raised, vec![1, 2, 3]));
}

#[test]
fn a_lost_ledger_means_a_new_uidvalidity() {
    let world = World::new(file(&["A: 1", "A: 2"]).as_bytes());
    let cached = world.scan();
    let ledger = format!("/state/{:032x}.ledger", 7);
    world.vfs.remove_file(std::path::Path::new(&ledger)).unwrap();
    world.append(b"x\n");
    let again = world.scan_again(&cached);
    assert!(again.report.uidvalidity > cached.report.uidvalidity);
}

#[test]
fn the_pseudo_message_is_hidden_and_its_numbers_count() {
    let pseudo = "X-IMAP: 0000001000 0000000007 a b\nStatus: RO";
    let (world, cached) = check(&[(&[pseudo, "X-UID: 5\nX-Keywords: b\nA: 1"], &[5])]);
    assert_eq!(cached.report.uidvalidity.get(), 1000);
    assert_eq!(cached.report.uidnext.get(), 8);
    assert_eq!(cached.seen[0].keywords, ["b"]);
    world.append(file(&["A: 2"]).as_bytes());
    let cached = world.scan_again(&cached);
    assert!(cached.report.tail_verified);
    assert_eq!(cached.uids(), [5, 8]);
    check(&[(&[pseudo], &[])]);
}

#[test]
fn uids_given_by_another_program_are_seen_in_the_tail() {
    let start = |last: u32| format!("X-IMAPbase: 1000 {last:010}\nX-UID: 1\nA: 1");
    let world = World::new(file(&[&start(1)]).as_bytes());
    let cached = world.scan();
    // As Dovecot delivers: the last UID is changed in place, the message appended.
    world.write(file(&[&start(2), "X-UID: 2\nA: 2"]).as_bytes());
    let cached = world.scan_again(&cached);
    assert_eq!(cached.uids(), [1, 2]);
    assert_eq!(cached.report.uidnext.get(), 3);
}

#[test]
fn a_base_of_a_stranger_leaves_numbers_to_give() {
    for base in ["4294967295 4294967295", "4294967295 1", "4026531840 1", "1000 4026531840"] {
        let base = format!("X-IMAPbase: {base}\nX-UID: 1\nA: 1");
        let plain = World::new(file(&["A: 1"]).as_bytes()).scan().report.uidvalidity;
        let (world, cached) = check(&[(&[&base], &[1]), (&[&base, "A: 2", "A: 3"], &[1, 2, 3])]);
        assert_eq!(cached.report.uidvalidity, plain, "{base}");
        world.append(file(&["A: 4"]).as_bytes());
        let cached = world.scan_again(&cached);
        assert_eq!((cached.report.uidvalidity, cached.uids()), (plain, vec![1, 2, 3, 4]));
    }
    let base = "X-IMAPbase: 4026531839 4026531839\nA: 1";
    let (_, cached) = check(&[(&[base, "A: 2"], &[4_026_531_840, 4_026_531_841])]);
    assert_eq!(cached.report.uidvalidity.get(), 4_026_531_839);
}

#[test]
fn a_message_keeps_its_uid_when_one_is_put_after_its_header() {
    let world = World::new(format!("{FROM}A: 1").as_bytes());
    let cached = world.scan();
    world.append(format!("\n\n{FROM}A: 2\n\nbody\n").as_bytes());
    assert_eq!(world.scan_again(&cached).uids(), [1, 2]);
    assert_eq!(world.scan().uids(), [1, 2]);
}

#[test]
fn uids_that_run_out_begin_again() {
    let world = World::new(file(&["A: 1"]).as_bytes());
    let validity = world.scan().report.uidvalidity;
    let mut ledger = world.ledger();
    ledger.lock(std::time::Duration::ZERO).unwrap();
    ledger.raise_uidnext(barid_types::Uid::MAX);
    ledger.commit().unwrap();
    drop(ledger);
    world.append(file(&["A: 2"]).as_bytes());
    let cached = world.scan();
    assert_eq!(cached.uids(), [1, 2]);
    assert!(cached.report.uidvalidity > validity);
}
