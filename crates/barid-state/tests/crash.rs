//! Power failures at every moment, and failing calls.

use std::time::Duration;

use barid_vfs::{CrashVfs, Fault, FaultEffect, FaultVfs, Host as _, MemVfs, OpenOptions, Vfs};

use super::*;

const SEEDS: u64 = 60;

/// The acknowledged states, each with the first crash point after which it must be found. A crash
/// between two of them may leave either.
type History = Vec<(usize, Said)>;

/// Commits changes of all kinds: creation, small and large batches, expunges, vanished UIDs, a new
/// UIDVALIDITY, a compaction. Returns the acknowledged states.
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
    ledger.record_vanished(ledger.highest_modseq().next(), &[uid(1), uid(3)]);
    step(&mut ledger);
    let many: Vec<Uid> = (7..400).step_by(2).map(uid).collect();
    ledger.record_vanished(ledger.highest_modseq().next(), &many);
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
    ledger.record_vanished(ledger.highest_modseq().next(), &[uid(5)]);
    step(&mut ledger);
    ledger.forget_vanished();
    step(&mut ledger);
    history
}

/// Returns `true` if after every crash the ledger has an allowed state and can be changed.
fn survives(make: impl Fn(&MemVfs) -> CrashVfs, seeds: u64) -> bool {
    let empty = MemVfs::new();
    let world = make(&empty);
    let history = live(&world);
    println!("ledger: {} crash points, {seeds} seeds each", world.points() + 1);
    assert!(world.points() >= 43);
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
            // An interrupted commit is not damage.
            allowed && ledger.notice().is_none() && goes_on(&disk, &found)
        })
    })
}

/// Returns `true` if one more UID can be assigned and is still there after the ledger is reopened.
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

/// Opens the ledger, pushes UIDs and commits.
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

/// Returns the damaged files that are kept in the state folder.
fn kept(disk: &MemVfs) -> Vec<std::path::PathBuf> {
    let mut names = Vec::new();
    let dir = disk.open_dir(Path::new(DIR)).unwrap();
    dir.list(&mut |name, _| names.push(String::from_utf8_lossy(name).into_owned())).unwrap();
    names.retain(|name| name.contains(".damaged-"));
    names.into_iter().map(|name| Path::new(DIR).join(name)).collect()
}

/// Checks that damage to the ledger's file loses nothing. If it was detected, checks as well that
/// every later opening reports it until it is acknowledged, and that the damaged file is kept.
/// Returns `true` if it was detected.
fn is_survived(disk: &MemVfs, expected: &Said, what: &str) -> bool {
    let damaged = disk.read(&ledger_path(), 1 << 30).unwrap();
    let mut ledger = open(disk).unwrap();
    assert_eq!(said(&mut ledger), *expected, "{what}");
    let Some(notice) = ledger.notice() else { return false };
    assert!(!notice.lost && !notice.renumbered && notice.offset.is_some(), "{what}: {notice:?}");
    // Any commit rewrites the file.
    ledger.commit().unwrap();
    for _ in 0..2 {
        let mut again = open(disk).unwrap();
        assert_eq!(said(&mut again), *expected, "{what}");
        let notice = again.notice().unwrap();
        assert!(!notice.lost && notice.offset.is_none() && kept(disk) == [notice.path.clone()]);
        assert!(disk.read(&notice.path, 1 << 30).unwrap() == damaged);
        again.raise_uidnext(again.uidnext().unwrap());
        again.commit().unwrap();
    }
    open(disk).unwrap().acknowledge(Duration::ZERO).unwrap();
    let mut last = open(disk).unwrap();
    assert_eq!((last.notice(), said(&mut last)), (None, expected.clone()));
    assert_eq!(kept(disk).len(), 1);
    true
}

fn overwrite(disk: &MemVfs, at: u64, len: usize, change: impl Fn(u8) -> u8) {
    let file = disk.open(&ledger_path(), OpenOptions::WRITE).unwrap();
    let mut bytes = vec![0; len];
    let len = file.read_full_at(&mut bytes, at).unwrap();
    bytes.truncate(len);
    bytes.iter_mut().for_each(|byte| *byte = change(*byte));
    file.write_all_at(&bytes, at).unwrap();
}

#[test]
fn a_second_damage_keeps_the_file_too() {
    let disk = MemVfs::new();
    change(&disk, 3).unwrap();
    let mut damaged = Vec::new();
    let is_noticed = |disk: &MemVfs, at: u64| {
        overwrite(disk, at, 1, |byte| byte ^ 4);
        open(disk).unwrap().notice().is_some_and(|notice| notice.offset.is_some())
    };
    for _ in 0..2 {
        let size = disk.metadata(&ledger_path()).unwrap().size;
        let at = (0..size).find(|at| is_noticed(&disk.snapshot(), *at)).unwrap();
        assert!(is_noticed(&disk, at));
        damaged.push(disk.read(&ledger_path(), 1 << 30).unwrap());
        open(&disk).unwrap().commit().unwrap();
        let latest = open(&disk).unwrap().notice().unwrap().path;
        assert!(disk.read(&latest, 1 << 30).unwrap() == *damaged.last().unwrap());
        let kept: Vec<_> = kept(&disk).iter().map(|path| disk.read(path, 1 << 30)).collect();
        assert!(damaged.iter().all(|one| kept.iter().any(|kept| kept.as_ref().unwrap() == one)));
        assert_eq!(kept.len(), damaged.len());
    }
}

#[test]
fn a_flipped_bit_costs_nothing_and_is_told() {
    let disk = MemVfs::new();
    change(&disk, 3).unwrap();
    let mut ledger = open(&disk).unwrap();
    ledger.replace(validity(9), (1..=8).map(entry).collect());
    ledger.commit().unwrap();
    ledger.record_vanished(ledger.highest_modseq().next(), &[uid(1), uid(4), uid(5)]);
    ledger.commit().unwrap();
    change(&disk, 2).unwrap();
    let expected = change(&disk, 1).unwrap();
    let size = disk.metadata(&ledger_path()).unwrap().size;
    let (mut flipped, mut told) = (0, 0);
    let mut buffer = [0];
    let file = disk.open(&ledger_path(), OpenOptions::READ).unwrap();
    for at in 0..size {
        file.read_exact_at(&mut buffer, at).unwrap();
        // No data is stored between the copies.
        let is_between = buffer[0] == 0 && (1500..4096).contains(&at);
        if is_between {
            continue;
        }
        for bit in 0..8 {
            let disk = disk.snapshot();
            overwrite(&disk, at, 1, |byte| byte ^ 1 << bit);
            assert_eq!(said(&mut open(&disk).unwrap()), expected, "byte {at} bit {bit}");
            flipped += 1;
            if bit == at % 8 {
                told += usize::from(is_survived(&disk, &expected, &format!("byte {at}, {bit}")));
            }
        }
    }
    println!("{flipped} bits flipped, {told} told");
    // Damage that is not reported is in the headers and in batches that a later one made void.
    assert!(flipped > 8_000 && told > flipped / 16, "{told} of {flipped}");
}

#[test]
fn a_lost_block_costs_nothing() {
    let disk = MemVfs::new();
    let mut ledger = open(&disk).unwrap();
    ledger.replace(validity(9), (1..=30_000).map(entry).collect());
    ledger.commit().unwrap();
    for _ in 0..40 {
        change(&disk, 5).unwrap();
    }
    let expected = change(&disk, 400).unwrap();
    let size = disk.metadata(&ledger_path()).unwrap().size;
    let mut told = 0;
    for len in [512, 4096_usize] {
        // All blocks at both ends, and some in between.
        let blocks = size.div_ceil(len as u64);
        let some =
            (0..blocks).filter(|block| *block < 12 || *block + 20 > blocks || block % 61 == 0);
        for block in some {
            for fill in [0_u8, 0xff] {
                let disk = disk.snapshot();
                overwrite(&disk, block * len as u64, len, |_| fill);
                told += usize::from(is_survived(&disk, &expected, &format!("{block} {len}")));
            }
        }
    }
    assert!(told > 60, "{told}");
}

#[test]
fn a_block_that_cannot_be_read_costs_nothing() {
    let disk = MemVfs::new();
    let expected = change(&disk, 2000).unwrap();
    for nth in 0..4 {
        let effect = FaultEffect::Error(std::io::ErrorKind::Other);
        let fault = Fault::nth(nth).of(barid_vfs::CallKind::Read).with(effect);
        let vfs = FaultVfs::new(disk.snapshot(), fault);
        let mut ledger = open(&vfs).unwrap();
        assert_eq!(said(&mut ledger), expected);
    }
    // A read error loses nothing, and no message gets another UID.
    let effect = FaultEffect::Error(std::io::ErrorKind::Other);
    let fault = Fault::nth(0).of(barid_vfs::CallKind::Read).with(effect).forever();
    assert!(matches!(open(&FaultVfs::new(disk, fault)), Err(barid_state::Error::Io { .. })));
}

#[test]
fn what_is_lost_in_both_copies_is_told_and_no_uid_comes_again() {
    let disk = MemVfs::new();
    let mut ledger = open(&disk).unwrap();
    ledger.replace(validity(9), (1..=100).map(entry).collect());
    ledger.commit().unwrap();
    change(&disk, 1).unwrap();
    let size = disk.metadata(&ledger_path()).unwrap().size - 4096;
    let mut lost = 0;
    for at in (0..size).step_by(3) {
        let disk = disk.snapshot();
        for copy in [at, at + 4096] {
            overwrite(&disk, copy, 1, |byte| byte ^ 0x40);
        }
        let mut ledger = open(&disk).unwrap();
        let _ = ledger.entries();
        let Some(notice) = ledger.notice() else {
            // The header is not needed.
            assert!(at < 64 && said(&mut ledger).uids.len() == 101, "{at}");
            continue;
        };
        assert!(notice.lost && notice.offset.is_some(), "{at}: {notice:?}");
        let next = ledger.next_uidvalidity(disk.now());
        assert!(next > validity(9) && ledger.highest_modseq().get() > 0);
        ledger.replace(next, vec![entry(1)]);
        ledger.commit().unwrap();
        let mut again = open(&disk).unwrap();
        let notice = again.notice().unwrap();
        assert!(notice.renumbered && kept(&disk) == [notice.path], "{at}");
        assert_eq!(said(&mut again).uids, [1]);
        again.acknowledge(Duration::ZERO).unwrap();
        assert_eq!(open(&disk).unwrap().notice(), None);
        lost += 1;
    }
    assert!(lost >= 400, "{lost}");
}
