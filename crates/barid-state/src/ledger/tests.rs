use std::time::Duration;

use barid_vfs::{Host as _, MemVfs};

use super::*;

const DIR: &str = "/state/barid";

fn identity() -> Identity {
    Identity { id: 0xabcd, path: "/mail/inbox".into(), inode: 77 }
}

fn open(vfs: &MemVfs) -> Ledger {
    Ledger::open(Arc::new(vfs.clone()), Path::new(DIR), &identity(), Access::ReadWrite).unwrap()
}

fn uid(number: u32) -> Uid {
    Uid::new(number).unwrap()
}

fn validity(number: u32) -> UidValidity {
    UidValidity::new(number).unwrap()
}

fn entry(number: u32) -> LedgerEntry {
    LedgerEntry { uid: uid(number), key: MessageKey(u64::from(number) << 33 | 5) }
}

fn uids(ledger: &mut Ledger) -> Vec<u32> {
    let entries = ledger.entries().unwrap();
    assert!(entries.iter().all(|found| *found == entry(found.uid.get())));
    entries.iter().map(|entry| entry.uid.get()).collect()
}

/// Creates a ledger with UIDVALIDITY 9 and the UIDs 1 to `count`.
fn filled(count: u32) -> MemVfs {
    let vfs = MemVfs::new();
    let mut ledger = open(&vfs);
    ledger.replace(validity(9), (1..=count).map(entry).collect());
    ledger.commit().unwrap();
    vfs
}

#[test]
fn a_new_ledger_is_empty_and_writes_nothing() {
    let vfs = MemVfs::new();
    let mut ledger = open(&vfs);
    assert_eq!((ledger.uidvalidity(), ledger.uidnext()), (None, None));
    assert_eq!(ledger.highest_modseq().get(), 1_750_000_000_000_000);
    assert_eq!(ledger.next_uidvalidity(vfs.now()).get(), 1_750_000_000);
    assert!(ledger.entries().unwrap().is_empty() && ledger.is_persistent());
    ledger.commit().unwrap();
    assert!(vfs.metadata(Path::new("/state")).is_err());
}

#[test]
fn changes_survive_reopening() {
    let vfs = filled(3);
    let mut ledger = open(&vfs);
    assert_eq!(ledger.uidvalidity(), Some(validity(9)));
    ledger.push(entry(4));
    ledger.push(entry(9));
    ledger.expunge(&[uid(9), uid(2), uid(77)]);
    ledger.raise_modseq(ModSeq::new(1 << 60).unwrap());
    ledger.raise_modseq(ModSeq::new(5).unwrap());
    ledger.raise_uidnext(uid(5));
    ledger.set_fingerprint(99);
    ledger.commit().unwrap();
    assert_eq!(uids(&mut ledger), [1, 3, 4]);
    let mut ledger = open(&vfs);
    assert_eq!(uids(&mut ledger), [1, 3, 4]);
    assert_eq!(ledger.uidnext(), Some(uid(10)));
    assert_eq!(ledger.highest_modseq().get(), 1 << 60);
    assert_eq!(ledger.fingerprint(), 99);
    assert_eq!(vfs.metadata(Path::new(DIR)).unwrap().mode, 0o700);
    let path = format!("{DIR}/{:032x}.ledger", 0xabcd);
    assert_eq!(vfs.metadata(Path::new(&path)).unwrap().mode, 0o600);
}

#[test]
fn a_new_uidvalidity_voids_the_entries() {
    let vfs = filled(3);
    let mut ledger = open(&vfs);
    ledger.set_uidvalidity(validity(9));
    assert_eq!(uids(&mut ledger), [1, 2, 3]);
    ledger.set_uidvalidity(validity(11));
    assert_eq!((uids(&mut ledger), ledger.uidnext()), (vec![], None));
    ledger.push(entry(1));
    ledger.commit().unwrap();
    let mut ledger = open(&vfs);
    assert_eq!((uids(&mut ledger), ledger.uidvalidity()), (vec![1], Some(validity(11))));
    assert_eq!(ledger.next_uidvalidity(Timestamp { unix_nanos: 5 }), validity(12));
}

#[test]
fn uids_must_ascend() {
    let vfs = filled(3);
    let mut ledger = open(&vfs);
    ledger.push(entry(3));
    assert!(matches!(ledger.commit(), Err(Error::NotAscending { uid: u, .. }) if u == uid(3)));
    let mut ledger = open(&vfs);
    ledger.replace(validity(9), vec![entry(2), entry(1)]);
    assert!(matches!(ledger.commit(), Err(Error::NotAscending { .. })));
}

#[test]
fn two_processes_do_not_lose_each_others_changes() {
    let vfs = filled(3);
    let (mut one, mut two) = (open(&vfs), open(&vfs));
    let timeout = Duration::from_secs(1);
    one.lock(timeout).unwrap();
    assert!(matches!(two.lock(timeout), Err(Error::Locked { .. })));
    one.push(entry(4));
    one.commit().unwrap();
    one.unlock();
    two.expunge(&[uid(1)]);
    two.lock(timeout).unwrap();
    assert_eq!((uids(&mut two), two.uidnext()), (vec![2, 3, 4], Some(uid(5))));
    two.push(entry(5));
    two.commit().unwrap();
    two.unlock();
    assert_eq!(uids(&mut open(&vfs)), [2, 3, 4, 5]);
    one.push(entry(5));
    assert!(matches!(one.commit(), Err(Error::NotAscending { uid: u, .. }) if u == uid(5)));
}

#[test]
fn the_mailboxs_place_is_recorded() {
    let vfs = filled(3);
    assert_eq!(open(&vfs).home().unwrap(), Some(("/mail/inbox".into(), 77)));
    let moved = Identity { path: "/mail/moved".into(), inode: 78, ..identity() };
    let mut ledger =
        Ledger::open(Arc::new(vfs.clone()), Path::new(DIR), &moved, Access::ReadWrite).unwrap();
    ledger.push(entry(4));
    ledger.commit().unwrap();
    assert_eq!(open(&vfs).home().unwrap(), Some(("/mail/moved".into(), 78)));
    assert_eq!(open(&MemVfs::new()).home().unwrap(), None);
}

#[test]
fn threads_hand_out_every_uid_once() {
    let vfs = MemVfs::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut ledger = open(&vfs);
                for _ in 0..25 {
                    ledger.lock(Duration::from_secs(1 << 30)).unwrap();
                    ledger.set_uidvalidity(validity(9));
                    ledger.push(entry(ledger.uidnext().map_or(1, Uid::get)));
                    ledger.commit().unwrap();
                    ledger.unlock();
                }
            });
        }
    });
    assert_eq!(uids(&mut open(&vfs)), (1..=100).collect::<Vec<_>>());
}

/// More entries than one read returns.
const MANY: u32 = 60_000;

#[test]
fn a_long_batch_is_applied_in_pieces() {
    let vfs = filled(MANY);
    let mut ledger = open(&vfs);
    let gone: Vec<Uid> = (1..=MANY).filter(|number| number % 3 == 0).map(uid).collect();
    ledger.expunge(&gone);
    (MANY + 1..2 * MANY).for_each(|number| ledger.push(entry(number)));
    ledger.commit().unwrap();
    let expected: Vec<u32> =
        (1..2 * MANY).filter(|number| *number > MANY || number % 3 != 0).collect();
    assert_eq!(uids(&mut ledger), expected);
    assert_eq!(uids(&mut open(&vfs)), expected);
}

#[test]
fn a_long_batch_is_lost_with_both_copies() {
    let (end, bits) = (layout::HEADER_LEN + u64::from(MANY) * 12, 4);
    for at in [layout::HEADER_LEN + 5, 700_000, end - 1000] {
        let vfs = filled(MANY);
        let path = open(&vfs).path;
        let file = vfs.open(&path, OpenOptions::WRITE).unwrap();
        let flip = |at: u64| {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ bits], at).unwrap();
        };
        for copy in [1, 0] {
            assert_eq!(uids(&mut open(&vfs)).len(), MANY as usize, "{at}");
            flip(twice::place(at, copy));
        }
        let mut ledger = open(&vfs);
        assert!(matches!(ledger.entries(), Err(Error::Damaged { .. })), "{at}");
        assert!(ledger.notice().unwrap().lost);
        ledger.replace(validity(10), vec![entry(1)]);
        ledger.commit().unwrap();
        assert_eq!(uids(&mut open(&vfs)), [1]);
    }
}

/// Makes changes before and after the entries are loaded, with a commit of another process in
/// between.
#[test]
fn pushed_entries_are_written_once() {
    let vfs = filled(3);
    let (mut ours, mut theirs) = (open(&vfs), open(&vfs));
    ours.push(entry(6));
    assert_eq!(uids(&mut ours), [1, 2, 3, 6]);
    ours.push(entry(7));
    theirs.push(entry(4));
    theirs.commit().unwrap();
    ours.expunge(&[uid(6)]);
    ours.commit().unwrap();
    for ledger in [&mut ours, &mut open(&vfs)] {
        assert_eq!(uids(ledger), [1, 2, 3, 4, 7]);
    }
}

#[test]
fn a_ledger_of_which_nothing_is_left_never_repeats_a_uidvalidity() {
    let vfs = MemVfs::new();
    let mut last = 0;
    for _ in 0..5 {
        let mut ledger = open(&vfs);
        let validity = ledger.next_uidvalidity(vfs.now());
        assert!(validity.get() > last, "{validity:?} after {last}");
        last = validity.get();
        ledger.replace(validity, vec![entry(1)]);
        ledger.commit().unwrap();
        let file = vfs.open(&ledger.path, OpenOptions::WRITE).unwrap();
        file.set_len(0).unwrap();
        file.write_all_at(b"nothing that was written here", 0).unwrap();
    }
    // The waits advanced the clock to the last UIDVALIDITY and no further.
    assert_eq!(i64::from(last), vfs.now().unix_seconds());
}

#[test]
fn a_missing_ledger_is_told_until_that_is_acknowledged() {
    let vfs = filled(3);
    let mut ledger = open(&vfs);
    ledger.note_missing(validity(70));
    ledger.replace(validity(71), Vec::new());
    assert_eq!(ledger.notice(), None);
    vfs.remove_file(&ledger.path).unwrap();
    let mut ledger = open(&vfs);
    ledger.note_missing(validity(9));
    // The mailbox itself stores its UIDs.
    ledger.replace(validity(9), Vec::new());
    assert_eq!(ledger.notice(), None);
    let mut ledger = open(&vfs);
    ledger.note_missing(validity(u32::MAX - 2));
    let next = ledger.next_uidvalidity(vfs.now());
    assert_eq!(next, validity(u32::MAX - 1));
    ledger.replace(next, vec![entry(1)]);
    ledger.commit().unwrap();
    let mut ledger = open(&vfs);
    let notice = ledger.notice().unwrap();
    assert!(notice.is_missing && notice.lost && notice.renumbered);
    ledger.acknowledge(Duration::ZERO).unwrap();
    assert_eq!(open(&vfs).notice(), None);
}

#[test]
fn a_lost_ledger_of_a_mailbox_that_knows_its_uids_renumbers_nothing() {
    let vfs = filled(3);
    vfs.open(&open(&vfs).path, OpenOptions::WRITE).unwrap().set_len(100).unwrap();
    let mut ledger = open(&vfs);
    assert!(ledger.is_lost());
    ledger.keep(validity(9));
    ledger.commit().unwrap();
    let mut ledger = open(&vfs);
    assert_eq!((ledger.uidvalidity(), ledger.is_lost()), (Some(validity(9)), false));
    let notice = ledger.notice().unwrap();
    assert!(notice.lost && !notice.renumbered && !notice.is_missing);
    assert!(uids(&mut ledger).is_empty());
}
