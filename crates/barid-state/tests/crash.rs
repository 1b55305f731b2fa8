//! Power failures at every moment, and failing calls.

use std::time::Duration;

use barid_types::ModSeq;
use barid_vfs::{CrashVfs, Fault, FaultEffect, FaultVfs, MemVfs, OpenOptions, Vfs};

use super::*;

const SEEDS: u64 = 60;

/// What was acknowledged at which crash point; between two of them either may be found.
type History = Vec<(usize, Said)>;

/// Commits of all kinds: creation, small and large batches, expunges, a new UIDVALIDITY, a
/// compaction.
fn live(world: &CrashVfs) -> History {
    let vfs = world.vfs();
    let mut ledger = open(&vfs).unwrap();
    let mut history = History::new();
    let mut step = |ledger: &mut Ledger| {
        ledger.raise_modseq(ledger.highest_modseq().next());
        ledger.commit().unwrap();
        history.push((world.points(), said(ledger)));
    };
    ledger.replace(validity(9), (1..=3).map(entry).collect());
    step(&mut ledger);
    ledger.push(entry(4));
    step(&mut ledger);
    ledger.expunge(&[uid(1), uid(3)]);
    step(&mut ledger);
    for number in 5..205 {
        ledger.push(entry(number));
    }
    step(&mut ledger);
    ledger = open(&vfs).unwrap();
    ledger.push(entry(1000));
    step(&mut ledger);
    ledger.lock(Duration::ZERO).unwrap();
    ledger.replace(validity(10), (1..=6000).map(entry).collect());
    step(&mut ledger);
    let most: Vec<Uid> = (10..=6000).map(uid).collect();
    ledger.expunge(&most);
    step(&mut ledger);
    ledger.push(entry(6001));
    step(&mut ledger);
    history
}

/// Whether every state found after every crash is one that is allowed, and can be worked on.
fn survives(make: impl Fn(&MemVfs) -> CrashVfs, seeds: u64) -> bool {
    let empty = MemVfs::new();
    let world = make(&empty);
    let history = live(&world);
    println!("ledger: {} crash points, {seeds} seeds each", world.points() + 1);
    assert!(world.points() >= 33);
    (0..=world.points()).all(|point| {
        let before = history.iter().rev().find(|(acknowledged, _)| *acknowledged <= point);
        let after = history.iter().find(|(acknowledged, _)| *acknowledged > point);
        (0..seeds).all(|seed| {
            let disk = world.crash_at(point, seed);
            let Ok(mut ledger) = open(&disk) else { return false };
            if ledger.entries().is_err() {
                return false;
            }
            let found = said(&mut ledger);
            let allowed = match before {
                Some((_, before)) => found == *before || after.is_some_and(|a| found == a.1),
                None => found.uidvalidity.is_none() || after.is_some_and(|a| found == a.1),
            };
            allowed && goes_on(&disk, &found)
        })
    })
}

/// Whether one more UID can be handed out and is found again.
fn goes_on(disk: &MemVfs, found: &Said) -> bool {
    let mut ledger = open(disk).unwrap();
    let next = ledger.uidnext().unwrap_or(uid(1));
    if found.uidvalidity.is_none() {
        ledger.set_uidvalidity(ledger.next_uidvalidity(disk.now()));
    }
    ledger.push(entry(next.get()));
    ledger.commit().unwrap();
    let mut expected = said(&mut ledger);
    assert_eq!(expected.uids.len(), found.uids.len() + 1);
    expected == said(&mut open(disk).unwrap()) && {
        expected.uids.pop();
        expected.uids == found.uids
    }
}

#[test]
fn every_crash_leaves_what_was_acknowledged() {
    assert!(survives(CrashVfs::new, SEEDS));
}

#[test]
fn a_ledger_without_barriers_is_caught() {
    assert!(!survives(CrashVfs::lying, SEEDS));
}

#[test]
fn recovery_may_crash_too() {
    let world = CrashVfs::new(&MemVfs::new());
    let history = live(&world);
    let mut points = 0;
    for point in (history[2].0..history[4].0).step_by(2) {
        for seed in 0..12 {
            let disk = world.crash_at(point, seed);
            let before = said(&mut open(&disk).unwrap());
            let recovery = CrashVfs::new(&disk);
            let mut ledger = open(&recovery.vfs()).unwrap();
            ledger.push(entry(2000));
            ledger.commit().unwrap();
            let after = said(&mut ledger);
            points += recovery.points() + 1;
            for second in 0..=recovery.points() {
                for seed in 0..12 {
                    let found = said(&mut open(&recovery.crash_at(second, seed)).unwrap());
                    let done = second == recovery.points();
                    assert!(found == after || !done && found == before);
                }
            }
        }
    }
    println!("ledger recovery: {points} crash points, 12 seeds each");
    assert!(points >= 120);
}

#[test]
fn a_failing_call_loses_nothing() {
    let disk = MemVfs::new();
    let mut ledger = open(&disk).unwrap();
    ledger.replace(validity(9), (1..=3).map(entry).collect());
    ledger.commit().unwrap();
    let before = said(&mut ledger);
    for (pushed, faults_min) in [(1, 5), (100, 7)] {
        let mut faults = 0;
        loop {
            let disk = disk.snapshot();
            let vfs = FaultVfs::new(disk.clone(), Fault::nth(faults));
            let result = change(&vfs, pushed);
            let found = said(&mut open(&disk).unwrap());
            match &result {
                Ok(after) => assert_eq!(found, *after),
                Err(_) => assert!(found == before || found.uids.len() == 3 + pushed as usize),
            }
            if !vfs.fired() {
                break;
            }
            assert!(change(&disk, 1).is_ok(), "after fault {faults}");
            faults += 1;
        }
        assert!(faults >= faults_min, "{faults}");
        let short = Fault::nth(0).with(FaultEffect::Short).forever();
        let vfs = FaultVfs::new(disk.snapshot(), short);
        let after = change(&vfs, pushed).unwrap();
        assert_eq!(said(&mut open(vfs.inner()).unwrap()), after);
    }
}

/// Opens, pushes, commits.
fn change(vfs: &(impl Vfs + Clone + 'static), pushed: u32) -> barid_state::Result<Said> {
    let mut ledger = open(vfs)?;
    let first = ledger.uidnext().unwrap_or(uid(1)).get();
    (first..first + pushed).for_each(|number| ledger.push(entry(number)));
    ledger.raise_modseq(ModSeq::MAX);
    ledger.commit()?;
    ledger.entries()?;
    Ok(said(&mut ledger))
}

#[test]
fn a_failed_write_poisons_the_ledger_until_it_is_reopened() {
    let disk = MemVfs::new();
    change(&disk, 3).unwrap();
    let fault = Fault::nth(0).of(barid_vfs::CallKind::Sync);
    let vfs = FaultVfs::new(disk.clone(), fault);
    let mut ledger = open(&vfs).unwrap();
    ledger.push(entry(4));
    assert!(matches!(ledger.commit(), Err(barid_state::Error::Io { .. })));
    assert!(matches!(ledger.commit(), Err(barid_state::Error::Poisoned { .. })));
    change(&vfs, 1).unwrap();
}

#[test]
fn an_unwritable_folder_is_kept_in_memory() {
    let disk = MemVfs::new();
    change(&disk, 3).unwrap();
    let check = |disk: &MemVfs, uids: &[u32]| {
        let mut ledger = open(disk).unwrap();
        ledger.push(entry(9));
        ledger.commit().unwrap();
        assert!(!ledger.is_persistent());
        assert_eq!(said(&mut ledger).uids.last(), Some(&9));
        assert_eq!(said(&mut open(disk).unwrap()).uids, uids);
    };
    let read_only = disk.snapshot();
    read_only.set_mode(&ledger_path(), 0o400).unwrap();
    check(&read_only, &[1, 2, 3]);
    let nowhere = MemVfs::new();
    nowhere.set_mode(Path::new("/"), 0o500).unwrap();
    check(&nowhere, &[]);
}

#[test]
fn damage_is_found_and_no_uid_comes_again() {
    let disk = MemVfs::new();
    let mut ledger = open(&disk).unwrap();
    ledger.replace(validity(9), (1..=100).map(entry).collect());
    ledger.commit().unwrap();
    change(&disk, 1).unwrap();
    let known = open(&disk).unwrap().highest_modseq();
    let size = disk.metadata(&ledger_path()).unwrap().size;
    let mut lost = 0;
    for offset in (0..size).step_by(7) {
        let disk = disk.snapshot();
        let file = disk.open(&ledger_path(), OpenOptions::WRITE).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[byte[0] ^ 0x40], offset).unwrap();
        let Ok(mut ledger) = open(&disk) else { continue };
        let Ok(entries) = ledger.entries().map(<[_]>::to_vec) else {
            assert!(matches!(ledger.commit(), Ok(())));
            ledger.push(entry(5000));
            assert!(matches!(ledger.commit(), Err(barid_state::Error::Damaged { .. })));
            let next = ledger.next_uidvalidity(disk.now());
            assert!(next > validity(9));
            ledger.replace(next, vec![entry(1)]);
            ledger.commit().unwrap();
            assert_eq!(said(&mut open(&disk).unwrap()).uids, [1]);
            lost += 1;
            continue;
        };
        assert!(entries.iter().all(|found| *found == entry(found.uid.get())));
        if ledger.uidvalidity().is_none() {
            assert!(entries.is_empty() && ledger.next_uidvalidity(disk.now()) > validity(9));
            assert!(ledger.highest_modseq().get() >= 1_750_000_000_000_000);
            lost += 1;
        } else {
            // Damage to the last batch looks like a torn tail, which nobody was told of; damage to
            // the file's head does not matter.
            assert!(matches!(entries.len(), 100 | 101));
        }
    }
    assert!(lost >= 100 && known == ModSeq::MAX, "{lost}");
}
