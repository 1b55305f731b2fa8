//! Pending changes: accepted once, kept through crashes and faults, dropped once.

use std::time::Duration;

use barid_state::{FlagDelta, Pending, PendingChange, PendingKind, Result};
use barid_types::{Flag, FlagSet, Keyword, ModSeq};
use barid_vfs::{
    CallKind, CountingVfs, CrashVfs, Fault, FaultEffect, FaultVfs, MemVfs, OpenOptions, OsVfs,
};

use super::*;

const SEEDS: u64 = 40;
const SIZE_MAX: u64 = 1 << 20;

fn path() -> std::path::PathBuf {
    Path::new(DIR).join(format!("{:032x}.pending", mailbox().id))
}

fn open_pending(vfs: &(impl Vfs + Clone + 'static)) -> Result<Pending> {
    Pending::open(Arc::new(vfs.clone()), Path::new(DIR), &mailbox())
}

/// Returns the n-th of all changes; they differ in every field.
fn change(number: u32) -> PendingChange {
    let keyword = |name: &str| Keyword::new(&format!("{name}{number}")).unwrap();
    let delta = FlagDelta {
        add: [Flag::Seen].into_iter().collect(),
        remove: FlagSet::from_bits((number % 64) as u8),
        add_keywords: vec![keyword("a"); number as usize % 3],
        remove_keywords: vec![keyword("b")],
    };
    PendingChange {
        uidvalidity: validity(number + 1),
        uid: uid(number + 2),
        key: MessageKey(u64::from(number) + 3),
        body_hash: u64::from(number) + 4,
        ordinal: number + 5,
        modseq: ModSeq::new(u64::from(number) + 6).unwrap(),
        kind: if number % 4 == 3 { PendingKind::Expunge } else { PendingKind::Flags(delta) },
    }
}

/// Returns the numbers of the changes in a journal.
fn numbers(pending: &Pending) -> Vec<u32> {
    let records = pending.records();
    assert!(records.is_sorted_by(|a, b| a.sequence < b.sequence));
    let number = |record: &barid_state::PendingRecord| {
        let number = record.change.uid.get() - 2;
        assert_eq!(record.change, change(number));
        number
    };
    records.iter().map(number).collect()
}

fn accept(pending: &mut Pending, numbers: std::ops::Range<u32>) -> Result<Option<u64>> {
    pending.accept(numbers.map(change).collect())
}

fn disk_with(count: u32) -> MemVfs {
    let disk = MemVfs::new();
    accept(&mut open_pending(&disk).unwrap(), 0..count).unwrap();
    disk
}

#[test]
fn what_is_accepted_is_found_until_it_is_dropped() {
    let disk = MemVfs::new();
    let mut one = open_pending(&disk).unwrap();
    let mut two = open_pending(&disk).unwrap();
    assert_eq!(one.last_sequence(), None);
    let first = accept(&mut one, 0..2).unwrap().unwrap();
    let last = accept(&mut two, 2..3).unwrap().unwrap();
    assert_eq!(last, first + 1);
    assert_eq!(numbers(&two), [0, 1, 2]);
    assert_eq!(numbers(&one), [0, 1]);
    assert!(one.refresh().unwrap() && !one.refresh().unwrap());
    assert_eq!(numbers(&one), [0, 1, 2]);
    assert_eq!(numbers(&open_pending(&disk).unwrap()), [0, 1, 2]);
    one.drop_through(first).unwrap();
    assert_eq!(numbers(&open_pending(&disk).unwrap()), [2]);
    two.drop_through(last).unwrap();
    assert!(disk.metadata(&path()).is_err());
    // Numbers are never reused.
    assert!(accept(&mut one, 3..4).unwrap().unwrap() > last);
    two.refresh().unwrap();
    assert_eq!(numbers(&two), [3]);
}

#[test]
fn what_is_put_last_is_left_by_a_drop() {
    let disk = disk_with(4);
    let mut pending = open_pending(&disk).unwrap();
    let through = pending.last_sequence().unwrap();
    let sequence = pending.records()[1].sequence;
    pending.put_last(&[sequence]).unwrap();
    assert_eq!(numbers(&pending), [0, 2, 3, 1]);
    assert_eq!(numbers(&open_pending(&disk).unwrap()), [0, 2, 3, 1]);
    pending.drop_through(through).unwrap();
    assert_eq!(numbers(&open_pending(&disk).unwrap()), [1]);
    pending.put_last(&[]).unwrap();
    pending.drop_through(through).unwrap();
    assert_eq!(numbers(&pending), [1]);
}

#[test]
fn one_at_a_time() {
    let disk = disk_with(1);
    let (mut one, mut two) = (open_pending(&disk).unwrap(), open_pending(&disk).unwrap());
    one.lock(Duration::ZERO).unwrap();
    let locked = two.lock(Duration::ZERO);
    assert!(matches!(locked, Err(barid_state::Error::Locked { .. })));
    accept(&mut one, 1..2).unwrap();
    one.unlock();
    two.lock(Duration::ZERO).unwrap();
    assert_eq!(numbers(&two), [0, 1]);
}

#[test]
fn what_it_costs() {
    let vfs = CountingVfs::new(disk_with(1));
    let cost = |run: &mut dyn FnMut()| {
        let before = vfs.counts();
        run();
        vfs.counts().since(&before)
    };
    let mut pending = open_pending(&vfs).unwrap();
    let accepting = cost(&mut || assert!(accept(&mut pending, 1..2).is_ok()));
    assert!(accepting.calls() <= 6 && accepting.of(CallKind::Sync) == 1, "{accepting:?}");
    let through = pending.last_sequence().unwrap();
    let dropping = cost(&mut || pending.drop_through(through).unwrap());
    assert_eq!(dropping.of(CallKind::Sync), 1, "{dropping:?}");
    let opening = cost(&mut || drop(open_pending(&vfs).unwrap()));
    assert_eq!(opening.calls(), 1, "{opening:?}");
}

/// Changes the pending records in several steps. Returns the acknowledged content after each, with
/// the first crash point after which it must be found.
fn live(world: &CrashVfs) -> Vec<(usize, Vec<u32>)> {
    let vfs = world.vfs();
    let mut history = vec![(0, Vec::new())];
    let mut pending = open_pending(&vfs).unwrap();
    for step in 0..6 {
        match step {
            0 => assert!(accept(&mut pending, 0..2).is_ok()),
            1 => assert!(accept(&mut pending, 2..40).is_ok()),
            2 => pending.put_last(&[pending.records()[3].sequence]).unwrap(),
            3 => pending.drop_through(pending.records()[38].sequence).unwrap(),
            4 => assert!(accept(&mut pending, 40..41).is_ok()),
            _ => pending.drop_through(u64::MAX).unwrap(),
        }
        history.push((world.points(), numbers(&pending)));
    }
    assert_eq!(history[4].1, [3]);
    history
}

fn survives(make: impl Fn(&MemVfs) -> CrashVfs) -> bool {
    let world = make(&MemVfs::new());
    let history = live(&world);
    println!("pending: {} crash points, {SEEDS} seeds each", world.points() + 1);
    assert!(world.points() >= 25);
    (0..=world.points()).all(|point| {
        let after = history.iter().position(|(acknowledged, _)| *acknowledged > point);
        let allowed = match after {
            Some(after) => &history[after - 1..=after],
            None => &history[history.len() - 1..],
        };
        (0..SEEDS).all(|seed| {
            let disk = world.crash_at(point, seed);
            let Ok(mut pending) = open_pending(&disk) else { return false };
            let found = numbers(&pending);
            let good = allowed.iter().any(|(_, numbers)| *numbers == found);
            // The journal can be continued.
            let goes_on = accept(&mut pending, 50..51).is_ok();
            let expected: Vec<u32> = found.into_iter().chain([50]).collect();
            good && pending.damage().is_none()
                && goes_on
                && numbers(&open_pending(&disk).unwrap()) == expected
        })
    })
}

#[test]
fn every_crash_leaves_what_was_acknowledged() {
    assert!(survives(CrashVfs::new));
}

#[test]
fn a_journal_without_barriers_is_caught() {
    assert!(!survives(CrashVfs::lying));
}

#[test]
fn a_failing_call_loses_nothing() {
    type Act = fn(&mut Pending) -> Result<()>;
    let accept_one: Act = |pending| accept(pending, 3..4).map(drop);
    let drop_one: Act = |pending| pending.drop_through(pending.records()[0].sequence);
    let drop_all: Act = |pending| pending.drop_through(u64::MAX);
    let put_last: Act = |pending| pending.put_last(&[pending.records()[0].sequence]);
    for (act, after) in [
        (accept_one, &[0, 1, 2, 3][..]),
        (drop_one, &[1, 2]),
        (drop_all, &[]),
        (put_last, &[1, 2, 0]),
    ] {
        let mut fault = 0;
        loop {
            let disk = disk_with(3);
            let vfs = FaultVfs::new(disk.clone(), Fault::nth(fault));
            let result = open_pending(&vfs).and_then(|mut pending| act(&mut pending));
            let found = numbers(&open_pending(&disk).unwrap());
            match result {
                Ok(()) => assert_eq!(found, after, "fault {fault}"),
                Err(_) => assert!(found == [0, 1, 2] || found == after, "fault {fault}: {found:?}"),
            }
            let mut again = open_pending(&disk).unwrap();
            accept(&mut again, 9..10).unwrap();
            assert_eq!(numbers(&open_pending(&disk).unwrap()).last(), Some(&9));
            if !vfs.fired() {
                break;
            }
            fault += 1;
        }
        assert!(fault >= 8, "{fault}");
        let short = Fault::nth(0).with(FaultEffect::Short).forever();
        let vfs = FaultVfs::new(disk_with(3), short);
        act(&mut open_pending(&vfs).unwrap()).unwrap();
        assert_eq!(numbers(&open_pending(vfs.inner()).unwrap()), after);
    }
}

#[test]
fn what_was_not_acknowledged_is_not_believed() {
    let disk = disk_with(1);
    let vfs = FaultVfs::new(disk.clone(), Fault::nth(0).of(CallKind::Sync));
    let mut pending = open_pending(&vfs).unwrap();
    assert!(matches!(accept(&mut pending, 1..2), Err(barid_state::Error::Io { .. })));
    assert!(matches!(accept(&mut pending, 1..2), Err(barid_state::Error::Poisoned { .. })));
    assert_eq!(numbers(&open_pending(&disk).unwrap()), [0]);
}

/// Returns a journal of three batches.
fn batches() -> (MemVfs, Vec<u8>) {
    let disk = disk_with(2);
    let mut pending = open_pending(&disk).unwrap();
    accept(&mut pending, 2..4).unwrap();
    accept(&mut pending, 4..6).unwrap();
    let bytes = disk.read(&path(), SIZE_MAX).unwrap();
    (disk, bytes)
}

fn files(disk: &MemVfs) -> Vec<String> {
    let mut names = Vec::new();
    let dir = disk.open_dir(Path::new(DIR)).unwrap();
    dir.list(&mut |name, _| names.push(String::from_utf8_lossy(name).into_owned())).unwrap();
    names.retain(|name| name.contains(".pending") && !name.ends_with(".lock"));
    names
}

#[test]
fn a_torn_tail_is_cut() {
    let (disk, bytes) = batches();
    for len in 72..bytes.len() as u64 {
        let disk = disk.snapshot();
        disk.open(&path(), OpenOptions::WRITE).unwrap().set_len(len).unwrap();
        let mut pending = open_pending(&disk).unwrap();
        let whole = numbers(&pending).len() as u32;
        assert!(matches!(whole, 0 | 2 | 4) && pending.damage().is_none());
        accept(&mut pending, 9..10).unwrap();
        let expected: Vec<u32> = (0..whole).chain([9]).collect();
        assert_eq!(numbers(&open_pending(&disk).unwrap()), expected);
        assert_eq!(files(&disk).len(), 1);
    }
}

#[test]
fn damage_is_told_and_kept() {
    let (disk, bytes) = batches();
    let mut told = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let disk = disk.snapshot();
        let file = disk.open(&path(), OpenOptions::WRITE).unwrap();
        file.write_all_at(&[byte ^ 1 << (at % 8)], at as u64).unwrap();
        let damaged = disk.read(&path(), SIZE_MAX).unwrap();
        let Ok(mut pending) = open_pending(&disk) else { panic!("byte {at}") };
        let found = numbers(&pending);
        // What is undamaged still applies: no more than one batch is lost.
        assert!(found.len() >= 4, "byte {at}: {found:?}");
        let damage = pending.damage().cloned().unwrap();
        assert_eq!(damage.path, path());
        assert!(found.len() as u64 + damage.records <= 6, "byte {at}: {damage:?}");
        accept(&mut pending, 9..10).unwrap();
        let expected: Vec<u32> = found.iter().copied().chain([9]).collect();
        // Everybody who opens it reports the damage, whatever becomes of the changes.
        let mut again = open_pending(&disk).unwrap();
        assert_eq!(numbers(&again), expected);
        let aside = again.damage().unwrap().path.clone();
        assert_eq!((again.damage(), aside == path()), (pending.damage(), false));
        assert_eq!(disk.read(&aside, SIZE_MAX).unwrap(), damaged);
        again.drop_through(u64::MAX).unwrap();
        let mut empty = open_pending(&disk).unwrap();
        assert_eq!(empty.damage().unwrap().path, aside);
        assert!(numbers(&empty).is_empty() && files(&disk).len() == 2);
        // Until it is acknowledged; the damaged file stays.
        empty.acknowledge().unwrap();
        assert!(open_pending(&disk).unwrap().damage().is_none());
        assert_eq!(files(&disk).len(), 1);
        assert_eq!(disk.read(&aside, SIZE_MAX).unwrap(), damaged);
        told += 1;
    }
    assert!(told > 500, "{told}");
}

#[test]
fn a_wrong_length_loses_no_change() {
    for version in [1, 2] {
        let bytes = OsVfs.read(&fixture(version), SIZE_MAX).unwrap();
        let expected = numbers(&open_pending(&disk_of(&bytes)).unwrap());
        let heads = (0..bytes.len() - 4).filter(|at| bytes[*at..].starts_with(b"PBAT"));
        let heads: Vec<usize> = heads.collect();
        assert!(heads.len() > 1 && expected.len() >= heads.len());
        for at in heads {
            for bit in 0..32 {
                let mut damaged = bytes.clone();
                damaged[at + 4 + bit / 8] ^= 1 << (bit % 8);
                let pending = open_pending(&disk_of(&damaged)).unwrap();
                assert_eq!(numbers(&pending), expected, "version {version}, {at}, bit {bit}");
                let damage = pending.damage().unwrap();
                assert_eq!((damage.offset, damage.records), (Some(at as u64), 0));
            }
        }
    }
}

#[test]
fn where_nothing_can_be_written_nothing_is_accepted() {
    let disk = disk_with(2);
    disk.set_mode(&path(), 0o400).unwrap();
    let mut pending = open_pending(&disk).unwrap();
    assert_eq!(numbers(&pending), [0, 1]);
    let error = accept(&mut pending, 2..3).unwrap_err();
    assert!(error.to_string().contains("ermission"), "{error}");
    assert_eq!(numbers(&open_pending(&disk).unwrap()), [0, 1]);
}

fn fixture(version: u32) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/pending-v{version}.bin"))
}

fn disk_of(bytes: &[u8]) -> MemVfs {
    let disk = disk_with(0);
    disk.create_dir_all(Path::new(DIR), 0o700).unwrap();
    let file = disk.open(&path(), OpenOptions::create(0o600)).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    disk
}

#[test]
fn every_version_is_read_and_the_second_written() {
    let (_, written) = batches();
    let os = OsVfs;
    if os.metadata(&fixture(2)).is_err() && std::env::var_os("BLESS_FIXTURES").is_some() {
        let file = os.open(&fixture(2), OpenOptions::create_new(0o644)).unwrap();
        file.write_all_at(&written, 0).unwrap();
    }
    for version in [1, 2] {
        let kept = os.read(&fixture(version), SIZE_MAX).unwrap();
        let disk = disk_of(&kept);
        let mut pending = open_pending(&disk).unwrap();
        assert_eq!(numbers(&pending), [0, 1, 2, 3, 4, 5]);
        assert!(version == 1 || kept == written, "the layout changed without a new version");
        accept(&mut pending, 9..10).unwrap();
        assert_eq!(disk.read(&path(), SIZE_MAX).unwrap()[8], 2);
        assert_eq!(numbers(&open_pending(&disk).unwrap()), [0, 1, 2, 3, 4, 5, 9]);
    }
    // A file of a later version is left alone.
    let mut later = written[..64].to_vec();
    later[8] = 3;
    let checksum = xxhash_rust::xxh3::xxh3_64(&later);
    later.extend(checksum.to_le_bytes());
    let error = open_pending(&disk_of(&later)).unwrap_err();
    assert!(matches!(error, barid_state::Error::Version { version: 3, .. }));
}
