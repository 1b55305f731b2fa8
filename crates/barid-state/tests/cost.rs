//! Cost of the ledger's operations, in file system calls and bytes.

use std::time::Duration;

use barid_vfs::{CallKind, CountingVfs, Counts, MemVfs, Vfs};

use super::*;

/// Number of messages in the largest mailbox of the benchmarks.
const COUNT: u32 = 361_052;

fn filled() -> CountingVfs<MemVfs> {
    let vfs = CountingVfs::new(MemVfs::new());
    let mut ledger = open(&vfs).unwrap();
    ledger.replace(validity(9), (1..=COUNT).map(entry).collect());
    ledger.commit().unwrap();
    vfs
}

fn cost<T>(vfs: &CountingVfs<MemVfs>, run: impl FnOnce() -> T) -> (T, Counts) {
    let before = vfs.counts();
    let result = run();
    let cost = vfs.counts().since(&before);
    println!("{} calls, {:?}", cost.calls(), cost.bytes());
    (result, cost)
}

#[test]
fn reopening_reads_the_end_only() {
    let vfs = filled();
    let (said, reopening) = cost(&vfs, || {
        let ledger = open(&vfs).unwrap();
        (ledger.uidvalidity(), ledger.uidnext())
    });
    assert_eq!(said, (Some(validity(9)), Some(uid(COUNT + 1))));
    assert!(reopening.calls() <= 5, "{reopening:?}");
    // Both copies of the end, and what is between them.
    assert!(reopening.bytes().read < 4096 + 1024 || reopening.bytes().read < 4 * 4096);
    assert_eq!(reopening.bytes().written, 0);
}

#[test]
fn a_push_and_commit_costs_eight_calls() {
    let vfs = filled();
    let mut ledger = open(&vfs).unwrap();
    let (_, committing) = cost(&vfs, || {
        ledger.push(entry(COUNT + 1));
        ledger.raise_modseq(ModSeq::MAX);
        ledger.commit().unwrap();
    });
    // One write more where the batch is at the border of a block.
    assert!(committing.calls() <= 10, "{committing:?}");
    assert_eq!(committing.of(CallKind::Sync), 1);
    assert!(committing.bytes().written < 512 && committing.bytes().read <= 4096);
    ledger.lock(Duration::ZERO).unwrap();
    let (_, under_lock) = cost(&vfs, || {
        ledger.push(entry(COUNT + 2));
        ledger.commit().unwrap();
    });
    assert_eq!((under_lock.calls(), under_lock.of(CallKind::Sync)), (4, 1));
    let (_, nothing) = cost(&vfs, || ledger.commit().unwrap());
    assert_eq!(nothing.calls(), 0);
}

#[test]
fn all_entries_are_read_once_and_in_few_calls() {
    let vfs = filled();
    for number in COUNT + 1..COUNT + 1000 {
        let mut ledger = open(&vfs).unwrap();
        ledger.push(entry(number));
        ledger.commit().unwrap();
    }
    let mut ledger = open(&vfs).unwrap();
    let size = vfs.metadata(&ledger_path()).unwrap().size;
    let (len, reading) = cost(&vfs, || ledger.entries().unwrap().len());
    assert_eq!(len, COUNT as usize + 999);
    assert!(reading.calls() <= 20 && reading.bytes().read < size + 4 * 65536, "{reading:?}");
    let (_, again) = cost(&vfs, || ledger.entries().unwrap().len());
    assert_eq!(again.calls(), 0);
}

#[test]
fn a_ledger_of_many_small_batches_is_compacted() {
    let vfs = CountingVfs::new(MemVfs::new());
    let before = vfs.counts();
    for number in 1..=3000 {
        let mut ledger = open(&vfs).unwrap();
        ledger.set_uidvalidity(validity(9));
        ledger.push(entry(number));
        if number > 10 {
            ledger.expunge(&[uid(number - 10)]);
        }
        ledger.commit().unwrap();
        let size = vfs.metadata(&ledger_path()).unwrap().size;
        assert!(size < 70_000, "{size} bytes after {number}");
    }
    let cost = vfs.counts().since(&before);
    assert!(cost.bytes().written < 3000 * 600, "{:?}", cost.bytes());
    let mut ledger = open(&vfs).unwrap();
    assert_eq!(said(&mut ledger).uids, (2991..=3000).collect::<Vec<_>>());
}
