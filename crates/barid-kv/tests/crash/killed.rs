//! A killed writer: its acknowledged batches are there, and no half of a batch.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use barid_kv::{Batch, Choice, Error, Store, Writer};
use barid_testkit::child::{Child, ChildEvent, print_line};
use barid_testkit::disk;

use crate::world::{
    Pairs, Session as _, World, apply, choice, content, for_each_store, framed, seeds, store, text,
};

for_each_store!(updating, crate::crash::killed::while_updating);
for_each_store!(creating, crate::crash::killed::while_creating);

/// The longest silence of a child.
const SILENCE: Duration = Duration::from_secs(60);
/// Kills of an ordinary run, per store; there are nine.
const KILLS: usize = 12;
/// Batches of one session.
const BATCHES: u32 = 5;
/// Key of the number of the last batch.
const COUNTER: &[u8] = b"m";

/// Fills the batch of that number, which is always the same.
fn fill(batch: &mut Batch, nth: u32) {
    let mut rng = fastrand::Rng::with_seed(u64::from(nth));
    batch.clear();
    for _ in 0..rng.usize(1..60) {
        let key = [&b"r"[..], &rng.u32(0..400).to_be_bytes()].concat();
        if rng.u32(0..4) == 0 {
            batch.delete(&key);
        } else {
            let len = if rng.u32(0..50) == 0 { 30_000 } else { rng.usize(0..700) };
            batch.put(&key, &framed(&key, &text(&mut rng, len)));
        }
    }
    batch.put(COUNTER, &framed(COUNTER, &nth.to_le_bytes()));
}

/// Creates or continues a store, and reports the number of each applied batch.
pub(crate) fn child(args: &[&str]) {
    let store = store(Choice::parse(args[0]).unwrap(), Path::new(args[1]));
    let (mut nth, create): (u32, bool) = (args[2].parse().unwrap(), args[3] == "create");
    let mut batch = Batch::new();
    print_line("begins");
    loop {
        let mut writer = if create { store.create() } else { store.write() }.unwrap();
        for _ in 0..BATCHES {
            nth += 1;
            fill(&mut batch, nth);
            writer.apply(&batch).unwrap();
            print_line(&nth.to_string());
        }
        writer.close().unwrap();
        if create {
            print_line("closed");
            return;
        }
    }
}

/// Lets a child work for some random time and kills it; returns its last line.
fn kill(store: &Store, nth: u32, how: &str, rng: &mut fastrand::Rng) -> Option<String> {
    let (choice, path) = (store.choice().to_string(), store.path().to_str().unwrap());
    let mut child = Child::spawn("die", &[&choice, path, &nth.to_string(), how]);
    let mut last = None;
    for _ in 0..=rng.usize(0..3 * BATCHES as usize) {
        match child.next(SILENCE) {
            ChildEvent::Line(line) => last = Some(line),
            ChildEvent::Ended(status) if status.success() => return last,
            other => panic!("{choice}: {other:?} after {last:?}"),
        }
    }
    sleep(Duration::from_micros(rng.u64(0..2_500)));
    child.kill().into_iter().next_back().or(last)
}

/// Opens the store of a killed writer. A child of the writer may live a moment longer.
fn reopen(store: &Store) -> Result<barid_kv::Reader, Error> {
    match store.read() {
        Err(Error::Busy { .. }) => store.read(),
        other => other,
    }
}

/// Asserts that the store has all batches up to the last acknowledged one or the one after it.
fn while_updating(name: &str) {
    let Some(choice) = choice(name) else { return };
    let atomic = choice.kv.capabilities().atomic;
    let mut rng = fastrand::Rng::with_seed(7);
    let (mut kept, mut damaged, mut batches) = (0, 0, 0);
    let kills = seeds(KILLS);
    let world = World::new();
    let mut state = None;
    for nth in 0..kills {
        let store = world.store(choice);
        let (mut at, mut pairs) = state.take().unwrap_or_else(|| {
            let mut writer = store.create().unwrap();
            let mut batch = Batch::new();
            fill(&mut batch, 0);
            writer.apply(&batch).unwrap();
            writer.close().unwrap();
            let mut pairs = Pairs::new();
            apply(&mut pairs, &batch);
            (0, pairs)
        });
        let last = kill(&store, at, "update", &mut rng);
        let acknowledged = last.and_then(|line| line.parse().ok()).unwrap_or(at);
        batches += acknowledged - at;
        match reopen(&store).and_then(|mut reader| reader.pairs(b"")) {
            Ok(found) if advance(&found, &mut pairs, &mut at, acknowledged) => {
                kept += 1;
                state = Some((at, pairs));
                // The store can still be written.
                store.write().and_then(Writer::close).unwrap();
            }
            Ok(_) => panic!("{choice}, kill {nth}: not the batches up to {acknowledged}"),
            Err(Error::Damaged { .. }) if !atomic => {
                damaged += 1;
                store.remove().unwrap();
                let left = disk::list(world.scratch.path()).unwrap();
                assert!(left.is_empty(), "{choice}, kill {nth}: {left:?} left");
            }
            Err(error) => panic!("{choice}, kill {nth}, {acknowledged} acknowledged: {error}"),
        }
    }
    eprintln!("{choice}: {kills} kills, {batches} batches; {kept} with all, {damaged} damaged");
    assert!(batches > 0, "{choice}: nothing was ever applied");
}

/// Returns `true` if `found` is the result of the batches up to `acknowledged`, or one more; then
/// brings the model to that state.
fn advance(
    found: &[(Vec<u8>, Vec<u8>)],
    pairs: &mut Pairs,
    at: &mut u32,
    acknowledged: u32,
) -> bool {
    let counter = found.iter().find(|(key, _)| key == COUNTER);
    let counter = counter.and_then(|(key, value)| content(key, value));
    let counter =
        counter.and_then(|counter| <[u8; 4]>::try_from(counter).ok()).map(u32::from_le_bytes);
    let Some(counter) = counter else { return false };
    if counter != acknowledged && counter != acknowledged + 1 {
        return false;
    }
    let mut batch = Batch::new();
    for nth in *at + 1..=counter {
        fill(&mut batch, nth);
        apply(pairs, &batch);
    }
    *at = counter;
    let mut found: Vec<_> = found.iter().collect();
    found.sort();
    found.into_iter().map(|(key, value)| (key, value)).eq(pairs.iter())
}

/// Asserts that a new store is complete or damaged, and that it can be removed and recreated.
fn while_creating(name: &str) {
    let Some(choice) = choice(name) else { return };
    let mut rng = fastrand::Rng::with_seed(8);
    let mut opened = 0;
    for nth in 0..seeds(KILLS).div_ceil(3) {
        let world = World::new();
        let store = world.store(choice);
        let last = kill(&store, 0, "create", &mut rng);
        match reopen(&store).and_then(|mut reader| reader.pairs(b"")) {
            Ok(found) => {
                opened += 1;
                let whole = advance(&found, &mut Pairs::new(), &mut 0, BATCHES);
                assert!(whole, "{choice}, kill {nth}: half a store");
            }
            Err(error) => {
                assert!(last.as_deref() != Some("closed"), "{choice}: closed, then {error}");
            }
        }
        store.remove().unwrap();
        let left = disk::list(world.scratch.path()).unwrap();
        assert!(left.is_empty(), "{choice}, kill {nth}: {left:?} left");
        store.create().unwrap().close().unwrap();
        assert_eq!(store.read().unwrap().pairs(b"").unwrap(), []);
    }
    eprintln!("{choice}: {opened} new stores were whole");
}
