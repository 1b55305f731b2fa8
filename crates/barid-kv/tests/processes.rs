//! Several processes, or threads of one, with one store.

use std::path::Path;
use std::sync::Arc;
use std::thread::{scope, sleep};
use std::time::Duration;

use barid_kv::{Batch, Choice, Error, Reader, Result, Store, Writer};
use barid_testkit::child::{Child, print_line};

use crate::world::{Session as _, World, choice, content, for_each_store, framed, store};

for_each_store!(one_writes, crate::processes::one_writes_three_read);
for_each_store!(two_write, crate::processes::two_write_at_once);
for_each_store!(threads, crate::processes::threads_of_one_process);

/// The longest silence of a child.
const SILENCE: Duration = Duration::from_secs(60);
/// Number of times that a session may find the store in use before that is a failure: on a loaded
/// machine the readers leave a writer few moments.
const BUSY_MAX: u32 = 200;
const KEYS: u32 = 50;
const SESSIONS: u32 = 15;
/// Batches of one session.
const BATCHES: u32 = 2;
const LAST: u32 = SESSIONS * BATCHES;

fn key(n: u32) -> Vec<u8> {
    [&b"r"[..], &n.to_be_bytes()].concat()
}

/// Sets every key to the value of this step.
fn step(batch: &mut Batch, step: u32) {
    batch.clear();
    let content = step.to_le_bytes().repeat(3 + step as usize % 200);
    (0..KEYS).for_each(|n| batch.put(&key(n), &framed(&key(n), &content)));
}

/// Returns the step that all keys have.
fn found_step(reader: &mut Reader) -> u32 {
    let pairs = reader.pairs(b"r").unwrap();
    assert_eq!(pairs.len(), KEYS as usize, "pairs found");
    let step_of = |key: &[u8], value: &[u8]| {
        let content = content(key, value).expect("because a value is whole");
        u32::from_le_bytes(content[..4].try_into().unwrap())
    };
    let found = step_of(&pairs[0].0, &pairs[0].1);
    for (key, value) in &pairs {
        assert_eq!(step_of(key, value), found, "a batch that was read in part");
        assert_eq!(reader.value(key).unwrap().as_ref(), Some(value));
    }
    found
}

/// Retries while another session is open.
fn patient<T>(open: impl Fn() -> Result<T>) -> T {
    for _ in 0..BUSY_MAX {
        match open() {
            Err(Error::Busy { .. }) => {}
            other => return other.unwrap(),
        }
    }
    panic!("in use for ever");
}

fn create(store: &Store, fill: impl FnOnce(&mut Batch)) {
    let mut writer = store.create().unwrap();
    let mut batch = Batch::new();
    fill(&mut batch);
    writer.apply(&batch).unwrap();
    writer.close().unwrap();
}

fn writes(store: &Store) {
    let mut batch = Batch::new();
    for session in 0..SESSIONS {
        let mut writer: Writer = patient(|| store.write());
        for nth in 1..=BATCHES {
            step(&mut batch, session * BATCHES + nth);
            writer.apply(&batch).unwrap();
        }
        writer.close().unwrap();
        sleep(Duration::from_millis(2));
    }
}

/// Reads until the last step; returns the number of steps seen. Fails if the writer ends before.
fn reads(store: &Store, has_writer_ended: &mut dyn FnMut() -> bool) -> u32 {
    let (mut last, mut seen) = (0, 0);
    while last < LAST {
        let is_last_look = has_writer_ended();
        let mut reader = patient(|| store.read());
        let found = found_step(&mut reader);
        // The session is a snapshot: nothing changes while it lasts.
        assert_eq!(found_step(&mut reader), found);
        drop(reader);
        assert!(found >= last, "an older state than before");
        assert!(found.is_multiple_of(BATCHES), "half a session");
        seen += u32::from(found > last);
        last = found;
        assert!(last == LAST || !is_last_look, "the writer ended after step {last}");
        sleep(Duration::from_millis(1));
    }
    seen
}

fn opened(args: &[&str]) -> Store {
    store(Choice::parse(args[0]).unwrap(), Path::new(args[1]))
}

pub(crate) fn child_writes(args: &[&str]) {
    writes(&opened(args));
}

pub(crate) fn child_reads(args: &[&str]) {
    // The parent, which waits for the writer, ends this process if that fails.
    print_line(&reads(&opened(args), &mut || false).to_string());
}

/// Adds keys of its own, and increments a counter that it reads in the same session.
pub(crate) fn child_counts(args: &[&str]) {
    let store = opened(args);
    let mut batch = Batch::new();
    for n in 0..LAST {
        let mut writer = patient(|| store.write());
        let counter = writer.value(b"counter").unwrap().unwrap();
        let counter = u32::from_le_bytes(counter.try_into().unwrap()) + 1;
        batch.clear();
        batch.put(b"counter", &counter.to_le_bytes());
        batch.put(format!("{}-{n}", args[2]).as_bytes(), &counter.to_le_bytes());
        writer.apply(&batch).unwrap();
        writer.close().unwrap();
        sleep(Duration::from_micros(300));
    }
}

/// Asserts that readers see complete states of the writer, never an older one than before.
fn one_writes_three_read(name: &str) {
    let Some(choice) = choice(name) else { return };
    let world = World::new();
    let store = world.store(choice);
    create(&store, |batch| step(batch, 0));
    let path = store.path().to_str().unwrap();
    let mut readers: Vec<Child> = (0..2).map(|_| Child::spawn("read", &[name, path])).collect();
    let mut writer = Child::spawn("write", &[name, path]);
    let seen = reads(&store, &mut || writer.has_ended());
    writer.finish(SILENCE);
    for reader in readers.drain(..) {
        assert_eq!(reader.finish(SILENCE).len(), 1);
    }
    eprintln!("{name}: {seen} of {SESSIONS} states seen");
    assert_eq!(found_step(&mut store.read().unwrap()), LAST);
}

/// Asserts that no batch is lost, and none is based on a state before the other's.
fn two_write_at_once(name: &str) {
    let Some(choice) = choice(name) else { return };
    let world = World::new();
    let store = world.store(choice);
    create(&store, |batch| batch.put(b"counter", &0_u32.to_le_bytes()));
    let path = store.path().to_str().unwrap();
    let writers = ["a", "b"].map(|id| Child::spawn("count", &[name, path, id]));
    for writer in writers {
        writer.finish(SILENCE);
    }
    let mut reader = store.read().unwrap();
    let counter = reader.value(b"counter").unwrap();
    assert_eq!(counter.unwrap(), (2 * LAST).to_le_bytes(), "sessions counted");
    let mut counts: Vec<u32> = Vec::new();
    for id in ["a-", "b-"] {
        let pairs = reader.pairs(id.as_bytes()).unwrap();
        assert_eq!(pairs.len(), LAST as usize, "keys of one writer");
        counts.extend(
            pairs.iter().map(|(_, count)| u32::from_le_bytes(count[..].try_into().unwrap())),
        );
    }
    counts.sort_unstable();
    assert!(counts.iter().copied().eq(1..=2 * LAST), "each session saw the one before");
}

/// Asserts the same for threads, whether a library allows two handles in one process or not.
fn threads_of_one_process(name: &str) {
    let Some(choice) = choice(name) else { return };
    let world = World::new();
    let store = world.store(choice);
    create(&store, |batch| step(batch, 0));
    // Dropped by the writing thread when it ends, also by a panic.
    let writing = Arc::new(());
    let writer = Arc::downgrade(&writing);
    scope(|scope| {
        let store = &store;
        scope.spawn(move || {
            let _writing = writing;
            writes(store);
        });
        scope.spawn(|| reads(store, &mut || writer.strong_count() == 0));
        reads(store, &mut || writer.strong_count() == 0);
    });
    assert_eq!(found_step(&mut store.read().unwrap()), LAST);
}
