//! Vanished UIDs: their bound, their cost, and two processes.

use std::time::Duration;

use barid_vfs::{CountingVfs, MemVfs, Vfs};

use super::*;

/// The most ranges that a commit records, and that a compaction keeps.
const MAX: u32 = 8192;

fn modseq(ledger: &Ledger) -> ModSeq {
    ledger.highest_modseq().next()
}

#[test]
fn the_oldest_are_forgotten_and_the_floor_says_so() {
    let vfs = MemVfs::new();
    let mut ledger = open(&vfs).unwrap();
    ledger.set_uidvalidity(validity(9));
    ledger.commit().unwrap();
    let begin = ledger.vanished_floor();
    let (mut all, mut forgotten) = (Vec::new(), 0);
    for round in 0..40_u32 {
        let uids: Vec<Uid> = (0..1000).map(|at| uid(1 + round * 2000 + at * 2)).collect();
        let modseq = modseq(&ledger);
        ledger.record_vanished(modseq, &uids);
        all.push((modseq, uids));
        ledger.commit().unwrap();
        let found = said(&mut open(&vfs).unwrap());
        let held = all.iter().filter(|(modseq, _)| modseq.get() > found.floor);
        let expected: Vec<u32> = held.flat_map(|(_, uids)| uids.iter().map(|u| u.get())).collect();
        let uids: Vec<u32> = found.vanished.iter().map(|(_, first, _)| *first).collect();
        assert_eq!(uids, expected);
        assert!(uids.len() <= 2 * MAX as usize + 1000);
        forgotten = all.len() - expected.len() / 1000;
        assert!(vfs.metadata(&ledger_path()).unwrap().size < 1 << 20);
    }
    assert!(forgotten >= 20, "{forgotten}");
    let mut ledger = open(&vfs).unwrap();
    assert!(ledger.vanished_floor() > begin);
    assert_eq!(ledger.vanished_since(begin).unwrap(), None);
}

#[test]
fn too_many_at_once_are_forgotten() {
    let vfs = MemVfs::new();
    let mut ledger = open(&vfs).unwrap();
    ledger.set_uidvalidity(validity(9));
    let before = modseq(&ledger);
    ledger.record_vanished(before, &[uid(1)]);
    ledger.commit().unwrap();
    let (now, uids) = (modseq(&ledger), (1..=MAX + 1).map(|at| uid(at * 2)).collect::<Vec<_>>());
    ledger.record_vanished(now, &uids);
    ledger.commit().unwrap();
    let mut ledger = open(&vfs).unwrap();
    assert_eq!(ledger.vanished_floor(), now);
    assert_eq!(ledger.vanished_since(before).unwrap(), None);
    assert_eq!(ledger.vanished_since(now).unwrap(), Some(Vec::new()));
    // Many UIDs in one range are one record.
    let (next, uids) = (modseq(&ledger), (1..=100_000).map(uid).collect::<Vec<_>>());
    ledger.record_vanished(next, &uids);
    ledger.commit().unwrap();
    let expected = Vanished { modseq: next, first: uid(1), last: uid(100_000) };
    assert_eq!(open(&vfs).unwrap().vanished_since(now).unwrap(), Some(vec![expected]));
}

#[test]
fn they_cost_nothing_unless_asked_for() {
    let vfs = CountingVfs::new(MemVfs::new());
    let mut ledger = open(&vfs).unwrap();
    ledger.replace(validity(9), (1..=100_000).map(entry).collect());
    ledger.commit().unwrap();
    for round in 0..500 {
        ledger.record_vanished(modseq(&ledger), &[uid(round + 1)]);
        ledger.commit().unwrap();
    }
    let cost = |run: &mut dyn FnMut()| {
        let before = vfs.counts();
        run();
        let cost = vfs.counts().since(&before);
        (cost.calls(), cost.bytes().read)
    };
    let mut ledger = None;
    let (calls, read) = cost(&mut || ledger = Some(open(&vfs).unwrap()));
    assert!(calls <= 5 && read < 4 * 4096, "{calls} {read}");
    let mut ledger = ledger.unwrap();
    let (floor, highest) = (ledger.vanished_floor(), ledger.highest_modseq());
    let none = cost(&mut || drop(ledger.vanished_since(highest).unwrap()));
    assert_eq!(none, (0, 0));
    let (calls, read) = cost(&mut || {
        assert_eq!(ledger.vanished_since(floor).unwrap().unwrap().len(), 500);
    });
    println!("500 records beside 100,000 entries: {calls} calls, {read} bytes");
    // Not the entries before them.
    assert!(calls <= 8 && read < 400_000, "{calls} {read}");
}

#[test]
fn records_of_another_process_stay() {
    let vfs = MemVfs::new();
    let mut one = open(&vfs).unwrap();
    one.set_uidvalidity(validity(9));
    one.commit().unwrap();
    let floor = one.vanished_floor();
    let mut two = open(&vfs).unwrap();
    one.record_vanished(modseq(&one), &[uid(1)]);
    one.commit().unwrap();
    two.lock(Duration::ZERO).unwrap();
    two.record_vanished(modseq(&two), &[uid(7), uid(8)]);
    two.commit().unwrap();
    two.unlock();
    one.refresh().unwrap();
    for ledger in [&mut one, &mut two] {
        let found = ledger.vanished_since(floor).unwrap().unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].first, found[1].last), (uid(1), uid(8)));
        assert!(found[0].modseq < found[1].modseq);
    }
    // Under a new UIDVALIDITY they mean nothing.
    one.set_uidvalidity(validity(10));
    one.commit().unwrap();
    two.refresh().unwrap();
    assert_eq!(two.vanished_floor(), two.highest_modseq());
}

#[test]
fn damaged_records_are_forgotten_and_no_uid_with_them() {
    let vfs = MemVfs::new();
    let mut ledger = open(&vfs).unwrap();
    ledger.set_uidvalidity(validity(9));
    ledger.commit().unwrap();
    let at = vfs.metadata(&ledger_path()).unwrap().size - 4096;
    ledger.record_vanished(modseq(&ledger), &[uid(4)]);
    ledger.commit().unwrap();
    ledger.replace(validity(9), (1..=3).map(entry).collect());
    ledger.commit().unwrap();
    let file = vfs.open(&ledger_path(), barid_vfs::OpenOptions::WRITE).unwrap();
    for copy in [at + 20, at + 20 + 4096] {
        let mut byte = [0];
        file.read_exact_at(&mut byte, copy).unwrap();
        file.write_all_at(&[byte[0] ^ 1], copy).unwrap();
    }
    let mut ledger = open(&vfs).unwrap();
    assert_eq!(ledger.entries().unwrap().len(), 3);
    let floor = ledger.vanished_floor();
    assert!(matches!(ledger.vanished_since(floor), Err(barid_state::Error::Damaged { .. })));
    ledger.record_vanished(modseq(&ledger), &[uid(2)]);
    let now = ledger.highest_modseq();
    ledger.commit().unwrap();
    let mut ledger = open(&vfs).unwrap();
    assert_eq!((ledger.vanished_floor(), ledger.vanished_since(floor).unwrap()), (now, None));
    assert_eq!((ledger.uidvalidity(), ledger.entries().unwrap().len()), (Some(validity(9)), 3));
    let notice = ledger.notice().unwrap();
    assert!(!notice.lost && !notice.renumbered);
}
