//! Power failures and failing calls while caches are built, changed and compacted.

use std::path::Path;
use std::sync::Arc;

use barid_cache::{Builder, CacheDir, CacheOptions, Delta, Opened, Snapshot, convert, verify};
use barid_mailbox::ScanReport;
use barid_vfs::{CallKind, CrashVfs, Fault, FaultVfs, MemVfs, Vfs};

use crate::changes::change;
use crate::world::{
    History, ID, Model, build, build_as, cache_path, compare, finish, identity, open, options,
    scan, scan_nothing,
};

const SEEDS: u64 = 12;
/// The seed of a crash after which all writes are on the disk, as if the process had been killed.
const EVERYTHING_KEPT: u64 = 1;

/// Runs a build, changes, another build, and changes until a new file is written.
fn live(
    vfs: &Arc<dyn Vfs>,
    history: &mut History,
    rng: &mut fastrand::Rng,
    options: &CacheOptions,
) {
    let mut model = Model::new();
    model.add(rng, 30, true, 1);
    history.note(&model);
    let mut snapshot = build_as(vfs, &cache_path(), &model, rng, options);
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
            snapshot = build_as(vfs, &cache_path(), &model, rng, options);
        }
    }
    let generation = snapshot.meta().generation;
    while snapshot.meta().generation == generation {
        snapshot = add_large(&snapshot, history, rng);
    }
    scan_nothing(&snapshot, history, rng);
}

/// Makes the next step of the history: a message with a large record.
fn add_large(known: &Snapshot, history: &mut History, rng: &mut fastrand::Rng) -> Snapshot {
    let mut model = history.model_of(known);
    model.step += 1;
    model.highest_modseq += 1;
    let new_from = model.messages.len();
    model.add(rng, 1, true, model.highest_modseq);
    model.messages[new_from].header = large_header();
    history.note(&model);
    let delta = Delta::new(known);
    let new_uids = scan(&delta, &model.messages[new_from..], rng);
    let report = ScanReport { new_uids, ..model.report() };
    delta.apply(&report, &finish(&identity(), model.highest_modseq)).unwrap()
}

fn large_header() -> Vec<u8> {
    let field = "someone@example.org,\n ".repeat(9_000);
    format!("From: a@example.org\nTo: {field}\nCc: {field}\nBcc: {field}\n\n").into_bytes()
}

#[test]
fn a_crash_leaves_a_cache_that_is_right_or_none() {
    crash_everywhere(&CacheOptions::default());
}

#[test]
fn a_crash_leaves_a_cache_in_a_store_that_is_right_or_none() {
    crash_everywhere(&options(("memory", "none")));
    crash_everywhere(&options(("memory", "zstd+dict")));
}

fn crash_everywhere(options: &CacheOptions) {
    let (mut rng, mut history) = (fastrand::Rng::with_seed(50), History::default());
    let world = CrashVfs::new(&MemVfs::new());
    let vfs: Arc<dyn Vfs> = Arc::new(world.vfs());
    live(&vfs, &mut history, &mut rng, options);
    let mut found = [0; 2];
    let mut killed = None;
    for point in 0..=world.points() {
        for seed in 0..SEEDS {
            let disk: Arc<dyn Vfs> = Arc::new(world.crash_at(point, seed));
            let step = history.step_found(&disk, &mut rng);
            found[usize::from(step.is_some())] += 1;
            // Nothing is lost if only the process dies, and no older state appears.
            if seed == EVERYTHING_KEPT {
                assert!(step >= killed, "point {point}: {step:?} after {killed:?}");
                killed = step;
            }
        }
    }
    assert!(world.points() >= 40, "{}", world.points());
    // Without barriers most crashes leave nothing usable, but the extremes do.
    assert!(found.iter().all(|count| *count >= 50), "{found:?}");
    let whole: Arc<dyn Vfs> = Arc::new(world.crash_at(world.points(), 1));
    assert_eq!(history.step_found(&whole, &mut rng), history.0.last().map(|model| model.step));
}

/// Every call fails in turn: a build returns an error and leaves the old file, a change stays in
/// memory.
#[test]
fn failing_calls() {
    every_call_fails(&CacheOptions::default());
    every_call_fails(&options(("memory", "zstd:1")));
}

fn every_call_fails(options: &CacheOptions) {
    let mut runs = 0;
    for call in 0.. {
        let (mut rng, mut history) = (fastrand::Rng::with_seed(51), History::default());
        let disk = MemVfs::new();
        let plain: Arc<dyn Vfs> = Arc::new(disk.clone());
        let mut model = Model::new();
        model.add(&mut rng, 40, false, 1);
        history.note(&model);
        build_as(&plain, &cache_path(), &model, &mut rng, options);
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
        let built = rebuild(&vfs, &model, &mut rng, options);
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

fn rebuild(
    vfs: &Arc<dyn Vfs>,
    model: &Model,
    rng: &mut fastrand::Rng,
    options: &CacheOptions,
) -> barid_cache::Result<()> {
    let builder = Builder::create(Arc::clone(vfs), &cache_path(), options)?;
    let new_uids = scan(&builder, &model.messages, rng);
    let report = ScanReport { new_uids, ..model.report() };
    builder.finish(&report, &finish(&identity(), 1)).map(drop)
}

/// A cache can be changed further after a crash.
#[test]
fn work_goes_on_after_a_crash() {
    work_after_crash(&CacheOptions::default());
    work_after_crash(&options(("memory", "zstd")));
}

fn work_after_crash(options: &CacheOptions) {
    let (mut rng, mut history) = (fastrand::Rng::with_seed(52), History::default());
    let world = CrashVfs::new(&MemVfs::new());
    let vfs: Arc<dyn Vfs> = Arc::new(world.vfs());
    live(&vfs, &mut history, &mut rng, options);
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

/// A compaction that is interrupted anywhere is repeated by the next process, with other records
/// under the same numbers; whatever is lost of both, a wrong record is never returned.
#[test]
fn an_interrupted_compaction_is_repeated() {
    let kind = options(("memory", "none"));
    let (mut rng, mut history) = (fastrand::Rng::with_seed(54), History::default());
    let world = CrashVfs::new(&MemVfs::new());
    let vfs: Arc<dyn Vfs> = Arc::new(world.vfs());
    let from = {
        live(&vfs, &mut history, &mut rng, &kind);
        world.points().saturating_sub(12)
    };
    let mut compacted = 0;
    for point in (from..=world.points()).step_by(4) {
        let first = world.crash_at(point, EVERYTHING_KEPT);
        let again = CrashVfs::new(&first);
        let vfs: Arc<dyn Vfs> = Arc::new(again.vfs());
        let mut snapshot = open(&vfs, &cache_path());
        let mut after = History(vec![history.model_of(&snapshot)]);
        let generation = snapshot.meta().generation;
        for _ in 0..3 {
            snapshot = add_large(&snapshot, &mut after, &mut rng);
        }
        compacted += usize::from(snapshot.meta().generation != generation);
        assert!(snapshot.store_error().is_none());
        for crash in (again.points().saturating_sub(20)..=again.points()).step_by(3) {
            for seed in 5..8 {
                let disk: Arc<dyn Vfs> = Arc::new(again.crash_at(crash, seed));
                after.step_found(&disk, &mut rng);
            }
        }
        assert_eq!(after.step_found(&vfs, &mut rng), after.0.last().map(|model| model.step));
        let report = verify(vfs, &cache_path()).unwrap();
        assert_eq!((report.damage, report.stale_records), (None, 0));
    }
    assert!(compacted >= 1, "{compacted}");
}

/// A conversion that is interrupted anywhere happens completely or not at all, and a killed process
/// loses nothing.
#[test]
fn a_crash_while_converting() {
    let (mut rng, mut history) = (fastrand::Rng::with_seed(54), History::default());
    let before = MemVfs::new();
    let mut model = Model::new();
    model.add(&mut rng, 60, true, 1);
    history.note(&model);
    let first: Arc<dyn Vfs> = Arc::new(before.clone());
    drop(change(&build(&first, &cache_path(), &model, &mut rng), &mut model, &mut rng));
    history.note(&model);

    let world = CrashVfs::new(&before);
    let vfs: Arc<dyn Vfs> = Arc::new(world.vfs());
    for kind in [("memory", "zstd+dict"), ("native", "zstd"), ("memory", "none"), ("memory", "lz4")]
    {
        convert(Arc::clone(&vfs), &cache_path(), ID, &options(kind)).unwrap().unwrap();
    }
    for point in 0..=world.points() {
        for seed in 0..SEEDS {
            let disk: Arc<dyn Vfs> = Arc::new(world.crash_at(point, seed));
            let found = history.step_found(&disk, &mut rng);
            let allowed = [Some(model.step), None];
            let allowed = &allowed[..if seed == EVERYTHING_KEPT { 1 } else { 2 }];
            assert!(allowed.contains(&found), "point {point}, seed {seed}: {found:?}");
        }
    }
    assert!(world.points() >= 20, "{}", world.points());
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
