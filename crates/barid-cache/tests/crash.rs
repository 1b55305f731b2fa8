//! Power failures and failing calls while caches are built, changed and compacted.

use std::path::Path;
use std::sync::Arc;

use barid_cache::{Builder, CacheDir, CacheOptions, Delta, Opened, Snapshot};
use barid_formats::ScanReport;
use barid_vfs::{CallKind, CrashVfs, Fault, FaultVfs, MemVfs, Vfs};

use crate::changes::change;
use crate::world::{
    History, ID, Model, build, cache_path, compare, finish, identity, open, scan, scan_nothing,
};

const SEEDS: u64 = 12;

/// A build, changes, another build, and changes until a new file is written.
fn live(vfs: &Arc<dyn Vfs>, history: &mut History, rng: &mut fastrand::Rng) {
    let mut model = Model::new();
    model.add(rng, 30, true, 1);
    history.note(&model);
    let mut snapshot = build(vfs, &cache_path(), &model, rng);
    for round in 0..2 {
        for _ in 0..3 {
            snapshot = change(&snapshot, &mut model, rng);
            history.note(&model);
            snapshot = scan_nothing(&snapshot, history, rng);
            model = history.0.last().unwrap().clone();
        }
        if round == 0 {
            model.step += 1;
            history.note(&model);
            snapshot = build(vfs, &cache_path(), &model, rng);
        }
    }
    let generation = snapshot.meta().generation;
    while snapshot.meta().generation == generation {
        model.step += 1;
        model.highest_modseq += 1;
        let new_from = model.messages.len();
        model.add(rng, 1, true, model.highest_modseq);
        model.messages[new_from].header = large_header();
        history.note(&model);
        let delta = Delta::new(&snapshot);
        let new_uids = scan(&delta, &model.messages[new_from..], rng);
        let report = ScanReport { new_uids, ..model.report() };
        snapshot = delta.apply(&report, &finish(&identity(), model.highest_modseq)).unwrap();
    }
    scan_nothing(&snapshot, history, rng);
}

fn large_header() -> Vec<u8> {
    let field = "someone@example.org,\n ".repeat(9_000);
    format!("From: a@example.org\nTo: {field}\nCc: {field}\nBcc: {field}\n\n").into_bytes()
}

#[test]
fn a_crash_leaves_a_cache_that_is_right_or_none() {
    let (mut rng, mut history) = (fastrand::Rng::with_seed(50), History::default());
    let world = CrashVfs::new(&MemVfs::new());
    let vfs: Arc<dyn Vfs> = Arc::new(world.vfs());
    live(&vfs, &mut history, &mut rng);
    let mut found = [0; 2];
    for point in 0..=world.points() {
        for seed in 0..SEEDS {
            let disk: Arc<dyn Vfs> = Arc::new(world.crash_at(point, seed));
            let step = history.step_found(&disk, &mut rng);
            found[usize::from(step.is_some())] += 1;
        }
    }
    println!("cache: {} crash points, {SEEDS} seeds each, {found:?}", world.points() + 1);
    assert!(world.points() >= 40, "{}", world.points());
    // Without barriers most crashes leave nothing of use, but the extremes do.
    assert!(found.iter().all(|count| *count >= 50), "{found:?}");
    let whole: Arc<dyn Vfs> = Arc::new(world.crash_at(world.points(), 1));
    assert_eq!(history.step_found(&whole, &mut rng), history.0.last().map(|model| model.step));
}

/// Every call fails in turn: a build says so and leaves what was there, a change stays in memory.
#[test]
fn failing_calls() {
    let mut runs = 0;
    for call in 0.. {
        let (mut rng, mut history) = (fastrand::Rng::with_seed(51), History::default());
        let disk = MemVfs::new();
        let plain: Arc<dyn Vfs> = Arc::new(disk.clone());
        let mut model = Model::new();
        model.add(&mut rng, 40, false, 1);
        history.note(&model);
        build(&plain, &cache_path(), &model, &mut rng);
        let faulty = FaultVfs::new(disk.clone(), Fault::nth(call));
        let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
        if let Ok(Opened::Fresh(snapshot)) = Snapshot::open(Arc::clone(&vfs), &cache_path(), ID) {
            model.step += 1;
            history.note(&model);
            let report = model.report();
            let changed = Delta::new(&snapshot).apply(&report, &finish(&identity(), 1));
            let changed = changed.expect("because nothing of the columns is read");
            assert_eq!(changed.meta().stamp, model.stamp());
        }
        model.step += 1;
        history.note(&model);
        let built = rebuild(&vfs, &model, &mut rng);
        let found = history.step_found(&plain, &mut rng);
        assert!(found.is_some(), "call {call}");
        assert!(built.is_err() || found == Some(model.step), "call {call}");
        runs += 1;
        if !faulty.fired() {
            break;
        }
    }
    assert!(runs >= 20, "{runs}");
}

fn rebuild(vfs: &Arc<dyn Vfs>, model: &Model, rng: &mut fastrand::Rng) -> barid_cache::Result<()> {
    let builder = Builder::create(Arc::clone(vfs), &cache_path(), &CacheOptions::default())?;
    let new_uids = scan(&builder, &model.messages, rng);
    let report = ScanReport { new_uids, ..model.report() };
    builder.finish(&report, &finish(&identity(), 1)).map(drop)
}

/// What is left after a crash can be worked on.
#[test]
fn work_goes_on_after_a_crash() {
    let (mut rng, mut history) = (fastrand::Rng::with_seed(52), History::default());
    let world = CrashVfs::new(&MemVfs::new());
    let vfs: Arc<dyn Vfs> = Arc::new(world.vfs());
    live(&vfs, &mut history, &mut rng);
    let mut worked = 0;
    for point in (0..=world.points()).step_by(3) {
        let disk: Arc<dyn Vfs> = Arc::new(world.crash_at(point, 1));
        if history.step_found(&disk, &mut rng).is_some() {
            let snapshot = open(&disk, &cache_path());
            let mut after = History(vec![history.model_of(&snapshot)]);
            let snapshot = scan_nothing(&snapshot, &mut after, &mut rng);
            assert!(snapshot.store_error().is_none());
            assert_eq!(after.step_found(&disk, &mut rng), after.0.last().map(|model| model.step));
            worked += 1;
        }
    }
    assert!(worked >= 10, "{worked}");
}

/// A log that cannot be compacted would grow for ever.
#[test]
fn a_compaction_that_fails_removes_the_cache() {
    let mut rng = fastrand::Rng::with_seed(53);
    let disk = MemVfs::new();
    let plain: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut model = Model::new();
    build(&plain, &cache_path(), &model, &mut rng);
    let faulty = FaultVfs::new(disk.clone(), Fault::nth(0).of(CallKind::Name));
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    let mut snapshot = open(&vfs, &cache_path());
    while !faulty.fired() {
        assert!(snapshot.store_error().is_none() && disk.metadata(&cache_path()).is_ok());
        snapshot = change(&snapshot, &mut model, &mut rng);
    }
    assert!(snapshot.store_error().is_some());
    compare(&snapshot, &model, &mut rng).unwrap();
    assert_eq!(History::default().step_found(&plain, &mut rng), None);
    let names = CacheDir::new(plain, Path::new("/cache"));
    assert_eq!(names.total_bytes().unwrap(), 0, "only the lock file is left");
}
