//! Two processes with one cache.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use barid_vfs::{MemVfs, Vfs};

use crate::changes::change;
use crate::world::{History, Model, build, cache_path, compare, open};

struct Two {
    first: Arc<dyn Vfs>,
    second: Arc<dyn Vfs>,
    model: Model,
    rng: fastrand::Rng,
}

fn two(seed: u64) -> Two {
    let mut rng = fastrand::Rng::with_seed(seed);
    let disk = MemVfs::new();
    let first: Arc<dyn Vfs> = Arc::new(disk.as_process(1));
    let second: Arc<dyn Vfs> = Arc::new(disk.as_process(2));
    let mut model = Model::new();
    model.add(&mut rng, 100, true, 1);
    build(&first, &cache_path(), &model, &mut rng);
    Two { first, second, model, rng }
}

/// The first to write wins; the other keeps its changes in its process.
#[test]
fn both_find_a_change() {
    let Two { first, second, model, mut rng } = two(70);
    let (one, two) = (open(&first, &cache_path()), open(&second, &cache_path()));
    let (mut model_one, mut model_two) = (model.clone(), model);
    let one = change(&one, &mut model_one, &mut rng);
    let two = change(&two, &mut model_two, &mut rng);
    compare(&one, &model_one, &mut rng).unwrap();
    compare(&two, &model_two, &mut rng).unwrap();
    compare(&open(&second, &cache_path()), &model_one, &mut rng).unwrap();
    // Changes of the second stay in its process from then on.
    let two = change(&two, &mut model_two, &mut rng);
    compare(&two, &model_two, &mut rng).unwrap();
    let one = change(&one, &mut model_one, &mut rng);
    assert!(one.store_error().is_none() && two.store_error().is_none());
    compare(&open(&second, &cache_path()), &model_one, &mut rng).unwrap();
}

/// A replaced file stays readable for processes that have it open, and is not written any more.
#[test]
fn one_builds_anew() {
    let Two { first, second, model, mut rng } = two(71);
    let one = open(&first, &cache_path());
    let (mut model_one, mut model_two) = (model.clone(), model);
    model_two.step += 1;
    model_two.add(&mut rng, 30, true, 2);
    build(&second, &cache_path(), &model_two, &mut rng);
    compare(&one, &model_one, &mut rng).unwrap();
    let one = change(&one, &mut model_one, &mut rng);
    compare(&one, &model_one, &mut rng).unwrap();
    compare(&open(&first, &cache_path()), &model_two, &mut rng).unwrap();
}

/// The cache may vanish at any moment.
#[test]
fn one_removes_the_cache() {
    let Two { first, second, mut model, mut rng } = two(72);
    let one = open(&first, &cache_path());
    open(&second, &cache_path()).discard().unwrap();
    compare(&one, &model, &mut rng).unwrap();
    let one = change(&one, &mut model, &mut rng);
    compare(&one, &model, &mut rng).unwrap();
    assert!(one.store_error().is_none());
    assert_eq!(History::default().step_found(&second, &mut rng), None);
}

/// A detached snapshot writes nothing to the file.
#[test]
fn a_detached_snapshot_writes_nothing() {
    let Two { first, second, model, mut rng } = two(73);
    let mut one = open(&first, &cache_path());
    one.detach();
    let mut changed = model.clone();
    let one = change(&one, &mut changed, &mut rng);
    compare(&one, &changed, &mut rng).unwrap();
    compare(&open(&second, &cache_path()), &model, &mut rng).unwrap();
}

/// Readers take no lock: they always see a state that existed, at any moment of a write.
#[test]
fn readers_while_one_writes() {
    let Two { first, second, mut model, mut rng } = two(74);
    let history = Mutex::new(History::default());
    let note = |model: &Model| history.lock().unwrap().note(model);
    note(&model);
    let (done, started) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut rng = fastrand::Rng::with_seed(75);
            let (mut opened, mut last) = (0, 0);
            while !done.load(Ordering::Relaxed) || opened < 3 {
                let snapshot = open(&second, &cache_path());
                started.store(true, Ordering::Relaxed);
                let model = history.lock().unwrap().model_of(&snapshot);
                compare(&snapshot, &model, &mut rng).unwrap();
                assert!(model.step >= last, "time runs forward");
                last = model.step;
                opened += 1;
            }
            last
        });
        let mut snapshot = open(&first, &cache_path());
        while !started.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        for _ in 0..60 {
            // The model is recorded before the file can have its state.
            let known = snapshot.clone();
            let mut detached = snapshot.clone();
            detached.detach();
            let (mut planned, mut plan) = (model.clone(), rng.clone());
            change(&detached, &mut planned, &mut plan);
            note(&planned);
            snapshot = change(&known, &mut model, &mut rng);
            assert_eq!(planned.messages, model.messages);
        }
        done.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 0, "the reader saw nothing of it");
    });
    compare(&open(&second, &cache_path()), &model, &mut rng).unwrap();
}
