//! //! Other programs that work on a Maildir during scans: deliveries, moves, flag changes and
//! expunges, on a real disk.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use barid_testkit::Scratch;
use barid_vfs::{OpenOptions, OsVfs, Vfs};

use super::support::World;
use crate::maildir::name;

/// /// Number of deliveries by each of the two writers.
const DELIVERIES: u32 = 2_000;
/// /// Number of messages that exist from the beginning and are never expunged, only renamed.
const LASTING: u32 = 1_500;

/// /// Number of scans that each scanning thread must have made.
const SCANS_MIN: u32 = 4;

/// /// Known content of the Maildir, shared by the threads that change it.
#[derive(Default)]
struct Truth {
    /// /// Base names that were delivered and are not about to be expunged.
    there: Mutex<BTreeSet<String>>,
    /// /// Number of scans by the thread that keeps its cache, and by the one that discards it.
    scans: [AtomicU32; 2],
    stop: AtomicBool,
}

fn vfs() -> Arc<dyn Vfs> {
    Arc::new(OsVfs)
}

fn put(root: &Path, name: &str) {
    let vfs = vfs();
    let tmp = root.join("tmp").join(name);
    let file = vfs.open(&tmp, OpenOptions::create_new(0o600)).unwrap();
    file.write_all_at(format!("Subject: {name}\n\nbody\n").as_bytes(), 0).unwrap();
    vfs.rename(&tmp, &root.join("new").join(name)).unwrap();
}

fn deliver(root: &Path, truth: &Truth, writer: u32) {
    for number in 0..DELIVERIES {
        let name = format!("{}.M{number}P{writer}.h", 2_000 + number / 10);
        put(root, &name);
        truth.there.lock().unwrap().insert(name);
    }
}

fn entries(vfs: &dyn Vfs, root: &Path, dir: &str) -> Vec<String> {
    let mut names = Vec::new();
    let listed = vfs.open_dir(&root.join(dir)).unwrap();
    listed.list(&mut |name, _| names.push(String::from_utf8(name.to_vec()).unwrap())).unwrap();
    names
}

/// Moves new to cur and flips flags until stopped.
fn move_and_flip(root: &Path, truth: &Truth, seed: u64) {
    let (vfs, mut random) = (vfs(), fastrand::Rng::with_seed(seed));
    while !truth.stop.load(Ordering::Relaxed) {
        for dir in ["new", "cur"] {
            for name in entries(vfs.as_ref(), root, dir) {
                if random.u32(0..4) != 0 {
                    continue;
                }
                let base = name.split(':').next().unwrap();
                let flags = ["", "F", "FS", "S", "RS"][random.usize(..5)];
                let to = root.join("cur").join(format!("{base}:2,{flags}"));
                // The other mover or the expunger may have been faster.
                let _ = vfs.rename(&root.join(dir).join(name), &to);
            }
        }
    }
}

/// /// Removes some of the delivered messages until stopped.
fn expunge(root: &Path, truth: &Truth) {
    let (vfs, mut random) = (vfs(), fastrand::Rng::with_seed(3));
    while !truth.stop.load(Ordering::Relaxed) {
        for name in entries(vfs.as_ref(), root, "cur") {
            let base = name.split(':').next().unwrap();
            if base.starts_with('1') || random.u32(0..20) != 0 {
                continue;
            }
            // // A message that was delivered a moment ago is not registered yet, and would be
            // registered after its removal.
            if !truth.there.lock().unwrap().remove(base) {
                continue;
            }
            let _ = vfs.remove_file(&root.join("cur").join(name));
        }
    }
}

/// Scans in a loop and checks each time.
fn watch(world: &mut World, truth: &Truth, fresh_each_time: bool) {
    let _stop = StopOnPanic(truth);
    let scans = &truth.scans[usize::from(fresh_each_time)];
    let mut meaning: HashMap<u32, Vec<u8>> = HashMap::new();
    let mut uidvalidity = None;
    while !truth.stop.load(Ordering::Relaxed) {
        let before = truth.there.lock().unwrap().clone();
        if fresh_each_time {
            world.forget();
        }
        let report = world.scan();
        let after = truth.there.lock().unwrap().clone();
        assert_eq!(*uidvalidity.get_or_insert(report.uidvalidity), report.uidvalidity);
        let mut bases = BTreeSet::new();
        for (uid, message) in &world.cache.messages {
            let base = name::base(&message.name).to_vec();
            let earlier = meaning.entry(uid.get()).or_insert_with(|| base.clone());
            assert_eq!(*earlier, base, "UID {uid} is used again");
            assert!(bases.insert(String::from_utf8(base).unwrap()), "a message is there twice");
        }
        for base in before.intersection(&after) {
            assert!(bases.contains(base), "{base} is missing");
        }
        scans.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn nothing_is_missed_or_doubled_while_others_work() {
    let scratch = Scratch::new("maildir-race").unwrap();
    let root = scratch.path().join("box");
    let vfs = vfs();
    for dir in ["new", "cur", "tmp"] {
        vfs.create_dir_all(&root.join(dir), 0o700).unwrap();
    }
    let truth = Truth::default();
    for number in 0..LASTING {
        let name = format!("1{number:05}.h");
        put(&root, &name);
        truth.there.lock().unwrap().insert(name);
    }
    let state = |name: &str| scratch.path().join(name);
    let mut keeping = World::at(Arc::clone(&vfs), &root, &state("keeping"));
    let mut forgetting = World::at(Arc::clone(&vfs), &root, &state("forgetting"));
    std::thread::scope(|scope| {
        let writers = [1, 2].map(|writer| {
            let (root, truth) = (&root, &truth);
            scope.spawn(move || deliver(root, truth, writer))
        });
        scope.spawn(|| move_and_flip(&root, &truth, 1));
        scope.spawn(|| expunge(&root, &truth));
        scope.spawn(|| watch(&mut keeping, &truth, false));
        scope.spawn(|| watch(&mut forgetting, &truth, true));
        for writer in writers {
            writer.join().unwrap();
        }
        let enough = || truth.scans.iter().all(|scans| scans.load(Ordering::Relaxed) >= SCANS_MIN);
        while !enough() && !truth.stop.load(Ordering::Relaxed) {
            vfs.sleep(Duration::from_millis(10));
        }
        truth.stop.store(true, Ordering::Relaxed);
    });
    keeping.scan();
    forgetting.forget();
    forgetting.scan();
    assert_eq!(keeping.lines(), forgetting.lines());
    let files =
        entries(vfs.as_ref(), &root, "new").len() + entries(vfs.as_ref(), &root, "cur").len();
    assert_eq!(keeping.cache.messages.len(), files);
}

/// Stops everybody when a check fails, so that the test ends.
struct StopOnPanic<'a>(&'a Truth);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop.store(true, Ordering::Relaxed);
        }
    }
}
