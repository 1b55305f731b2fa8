//! Power failures at every moment, and failing calls.

use std::io::ErrorKind;

use barid_vfs::{CrashVfs, Fault, FaultEffect, FaultVfs, MemVfs};
use barid_wordlist::{Batch, Change, Counts, WordList};

use crate::world::{BESIDE, DATE, Model, create, draw, open, seeds, set_beside, word};

/// The acknowledged lists, each with the first crash point after which it must be found. A crash
/// between two of them may leave either.
type History = Vec<(usize, Model)>;

/// Writes small and large batches by two writers, with merges of both kinds and a rewrite. Returns
/// the acknowledged lists.
fn live(world: &CrashVfs, model: &mut Model) -> History {
    let disk = world.vfs();
    let mut writers = [open(&disk).unwrap(), open(&disk).unwrap()];
    let mut random = fastrand::Rng::with_seed(2);
    let mut history = vec![(0, model.clone())];
    for round in 0..40 {
        let tokens_max = if matches!(round, 9 | 17 | 20 | 33) { 9_000 } else { 60 };
        let batch = draw(&mut random, model, tokens_max, 40_000);
        let updated = writers[round % 2].update(&batch).unwrap();
        assert!(updated.afterwards.is_none());
        history.push((world.points(), model.clone()));
    }
    let mut decide = |token: &[u8], _| match token.first() {
        Some(b'a' | b'r') => Change::Drop,
        _ => Change::Keep,
    };
    writers[0].rewrite_beside(&mut decide, &mut set_beside).unwrap();
    model.entries.retain(|token, _| !matches!(token.first(), Some(b'a' | b'r')));
    model.entries.extend(BESIDE.map(|(token, entry)| (token.to_vec(), entry)));
    history.push((world.points(), model.clone()));
    let batch = draw(&mut random, model, 60, 40_000);
    writers[1].update(&batch).unwrap();
    history.push((world.points(), model.clone()));
    history
}

/// Creates a list of `tokens` tokens.
fn begin(tokens: u32) -> (MemVfs, Model) {
    let (disk, mut model) = (MemVfs::new(), Model::new());
    let mut list = create(&disk);
    let mut batch = Batch::new(DATE);
    for number in 0..tokens {
        batch.change(&word(number), Counts::new(1, 2), Counts::default()).unwrap();
        model.change(&word(number), Counts::new(1, 2), Counts::default());
    }
    list.update(&batch).unwrap();
    (disk, model)
}

/// Returns `true` if after every crash the list is the last acknowledged one or the one that was
/// being written, undamaged, and can be updated.
fn survives(make: impl Fn(&MemVfs) -> CrashVfs, tokens: u32, (step, seeds): (usize, u64)) -> bool {
    let (disk, mut model) = begin(tokens);
    let world = make(&disk);
    let history = live(&world, &mut model);
    println!("word list: {} crash points, {seeds} seeds each", world.points() / step + 1);
    assert!(world.points() >= 120, "{}", world.points());
    (0..=world.points()).step_by(step).all(|point| {
        let before = history.iter().rev().find(|(acknowledged, _)| *acknowledged <= point);
        let after = history.iter().find(|(acknowledged, _)| *acknowledged > point);
        (0..seeds).all(|seed| {
            let disk = world.crash_at(point, seed);
            let Ok(mut list) = open(&disk) else { return false };
            let found = [before, after].into_iter().flatten();
            let found = found.map(|(_, model)| model).find(|model| model.is_held_by(&mut list));
            let Some(found) = found else { return false };
            list.damage().is_empty() && goes_on(&disk, found.clone())
        })
    })
}

fn goes_on(disk: &MemVfs, mut model: Model) -> bool {
    let mut random = fastrand::Rng::with_seed(9);
    let mut list = open(disk).unwrap();
    let batch = draw(&mut random, &mut model, 20, 1_000);
    list.update(&batch).is_ok() && model.is_held_by(&mut open(disk).unwrap())
}

#[test]
fn every_crash_leaves_what_was_acknowledged() {
    assert!(survives(CrashVfs::new, 300, (1, seeds(6))));
}

#[test]
fn a_crash_of_a_large_list_leaves_what_was_acknowledged() {
    // Each check of so many tokens takes time; with more seeds every point is visited.
    let seeds = seeds(1);
    assert!(survives(CrashVfs::new, 32_000, (if seeds == 1 { 5 } else { 1 }, seeds.min(20))));
}

#[test]
fn a_list_without_barriers_is_caught() {
    assert!(!survives(CrashVfs::lying, 300, (1, 5)));
}

/// Each barrier is needed: without those of one file, or of the folder, something is lost.
#[test]
fn a_crash_shows_every_missing_barrier() {
    for under in ["/words", "/words/list.log-2", "/words/list.log-3"] {
        let (disk, mut model) = begin(300);
        let world = CrashVfs::new(&disk);
        let fault = Fault::nth(0).of(barid_vfs::CallKind::Sync).at(under);
        let vfs = FaultVfs::new(world.vfs(), fault.with(FaultEffect::Skip).forever());
        let mut list = open(&vfs).unwrap();
        let mut random = fastrand::Rng::with_seed(4);
        let mut history = vec![(0, model.clone())];
        for round in 0..8 {
            let batch =
                draw(&mut random, &mut model, if round % 3 == 2 { 9_000 } else { 60 }, 40_000);
            list.update(&batch).unwrap();
            history.push((world.points(), model.clone()));
        }
        assert!(vfs.fired(), "{under}");
        let mut lost = 0;
        for point in 0..=world.points() {
            let acknowledged = history.iter().rposition(|(at, _)| *at <= point).unwrap();
            for seed in 0..5 {
                let found = open(&world.crash_at(point, seed)).is_ok_and(|mut list| {
                    let allowed = history[acknowledged..].iter().take(2);
                    allowed.map(|(_, model)| model).any(|model| model.is_held_by(&mut list))
                });
                lost += u32::from(!found);
            }
        }
        assert!(lost > 0, "nothing is lost without the barriers of {under}");
    }
}

#[test]
fn recovery_may_crash_too() {
    let (disk, mut model) = begin(300);
    let world = CrashVfs::new(&disk);
    let history = live(&world, &mut model);
    let mut points = 0;
    for point in (history[8].0..history[12].0).step_by(3) {
        for seed in 0..6 {
            let disk = world.crash_at(point, seed);
            let held = |model: &&(usize, Model)| model.1.is_held_by(&mut open(&disk).unwrap());
            let before = history.iter().find(held).unwrap().1.clone();
            let recovery = CrashVfs::new(&disk);
            let mut after = before.clone();
            let mut random = fastrand::Rng::with_seed(1);
            let batch = draw(&mut random, &mut after, 9_000, 40_000);
            open(&recovery.vfs()).unwrap().update(&batch).unwrap();
            points += recovery.points() + 1;
            for second in 0..=recovery.points() {
                for seed in 0..6 {
                    let mut list = open(&recovery.crash_at(second, seed)).unwrap();
                    let done = second == recovery.points();
                    let is_before = !done && before.is_held_by(&mut list);
                    assert!(is_before || after.is_held_by(&mut list));
                }
            }
        }
    }
    println!("word list recovery: {points} crash points");
    assert!(points >= 40, "{points}");
}

/// Fails the first call, the second and so on of one batch; small, large, or a rewrite.
fn fails(effect: FaultEffect, work: usize) -> u64 {
    let (disk, mut before) = begin(300);
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..3 {
        let batch = draw(&mut random, &mut before, 60, 40_000);
        open(&disk).unwrap().update(&batch).unwrap();
    }
    let mut after = before.clone();
    let batch = draw(&mut random, &mut after, if work == 1 { 9_000 } else { 60 }, 40_000);
    if work == 2 {
        after = before.clone();
        after.entries.retain(|token, _| token.first() != Some(&b'a'));
        after.entries.extend(BESIDE.map(|(token, entry)| (token.to_vec(), entry)));
    }
    let decide = |token: &[u8], _| match token.first() {
        Some(b'a') => Change::Drop,
        _ => Change::Keep,
    };
    let mut faults = 0;
    loop {
        let disk = disk.snapshot();
        let vfs = FaultVfs::new(disk.clone(), Fault::nth(faults).with(effect));
        let result = open(&vfs).and_then(|mut list| match work {
            2 => list.rewrite_beside(&mut { decide }, &mut set_beside).map(drop),
            _ => list.update(&batch).map(drop),
        });
        let mut found = open(&disk).unwrap();
        let is_after = after.is_held_by(&mut found);
        assert!(is_after || result.is_err() && before.is_held_by(&mut found), "fault {faults}");
        assert!(found.damage().is_empty());
        if !vfs.fired() {
            return faults;
        }
        let is = if is_after { &after } else { &before };
        assert!(goes_on(&disk, is.clone()), "after fault {faults}");
        faults += 1;
    }
}

#[test]
fn a_failing_call_loses_nothing() {
    for kind in [ErrorKind::StorageFull, ErrorKind::Other] {
        for (work, faults_min) in [(0, 10), (1, 20), (2, 20)] {
            let faults = fails(FaultEffect::Error(kind), work);
            assert!(faults >= faults_min, "{faults} of {work}");
        }
    }
    for work in 0..3 {
        assert!(fails(FaultEffect::Short, work) >= 10);
    }
}

#[test]
fn a_failed_write_poisons_the_handle_until_it_is_reopened() {
    let (disk, mut model) = begin(50);
    let vfs = FaultVfs::new(disk.clone(), Fault::nth(0).of(barid_vfs::CallKind::Sync));
    let mut list = open(&vfs).unwrap();
    let mut random = fastrand::Rng::with_seed(3);
    let mut lost = model.clone();
    let batch = draw(&mut random, &mut lost, 20, 100);
    assert!(matches!(list.update(&batch), Err(barid_wordlist::Error::Io { .. })));
    assert!(matches!(list.update(&batch), Err(barid_wordlist::Error::Poisoned { .. })));
    assert!(model.is_held_by(&mut open(&disk).unwrap()));
    let batch = draw(&mut random, &mut model, 20, 100);
    open(&vfs).unwrap().update(&batch).unwrap();
    assert!(model.is_held_by(&mut open(&disk).unwrap()));
}
