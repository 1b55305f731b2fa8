//! Every store, with each built-in compression, against a model.

use barid_kv::{Batch, Choice, Error, Store, Writer, limits};

use crate::world::{
    Pairs, SLOW_BUILTIN, Session, World, apply, choice, choices, compare, for_each_store, text,
};

for_each_store!(batches, crate::conformance::random_batches);
for_each_store!(values, crate::conformance::odd_values);
for_each_store!(limit, crate::conformance::limits_are_told);

/// A store and its model.
struct Twins {
    store: Store,
    pairs: Pairs,
    ordered: bool,
    rng: fastrand::Rng,
    batch: Batch,
}

impl Twins {
    fn new(world: &World, choice: Choice, seed: u64) -> Self {
        let ordered = choice.kv.capabilities().ordered;
        let rng = fastrand::Rng::with_seed(seed);
        let (store, pairs) = (world.store(choice), Pairs::new());
        Self { store, pairs, ordered, rng, batch: Batch::new() }
    }

    /// Returns a key. Keys collide often, share prefixes, and contain all bytes.
    fn key(&mut self) -> Vec<u8> {
        let rng = &mut self.rng;
        match rng.u32(0..10) {
            0 => (0..rng.usize(1..=1_000)).map(|_| rng.u8(..)).collect(),
            1 => vec![rng.u8(..)],
            2 => vec![*rng.choice(&[0, 0xff]).unwrap(); rng.usize(1..300)],
            3 => format!("prefix/{}", rng.u32(0..30)).into_bytes(),
            _ => [&b"r"[..], &rng.u32(0..200).to_be_bytes()].concat(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let rng = &mut self.rng;
        match rng.u32(0..40) {
            0 => Vec::new(),
            1 => (0..=255).collect(),
            2 => text(rng, 70_000),
            3..10 => (0..rng.usize(..2_000)).map(|_| rng.u8(..)).collect(),
            _ => {
                let len = rng.usize(..900);
                text(rng, len)
            }
        }
    }

    fn fill(&mut self, ops: usize) {
        self.batch.clear();
        for _ in 0..ops {
            let key = match self.rng.bool() {
                true => self.key(),
                false => self.known().unwrap_or_else(|| self.key()),
            };
            if self.rng.u32(0..4) == 0 {
                self.batch.delete(&key);
            } else {
                let value = self.value();
                self.batch.put(&key, &value);
            }
        }
    }

    fn known(&mut self) -> Option<Vec<u8>> {
        let nth = self.rng.usize(..self.pairs.len().max(1));
        self.pairs.keys().nth(nth).cloned()
    }

    fn compare(&mut self, session: &mut dyn Session) {
        compare(session, &self.pairs, self.ordered, &mut self.rng);
    }

    /// Asserts that a reader finds what is committed.
    fn read(&mut self) {
        let mut reader = self.store.read().unwrap();
        self.compare(&mut reader);
    }
}

/// Puts, replaces and deletes in batches of many sizes, in new and old stores.
fn random_batches(name: &str) {
    for (nth, choice) in choices(name).into_iter().enumerate() {
        for seed in 1..=if nth == 0 { 3 } else { 1 } {
            random_batches_of(choice, seed, if nth == 0 { 4 } else { 2 });
        }
    }
}

pub(crate) fn random_batches_of(choice: Choice, seed: u64, sessions: u32) {
    eprintln!("{choice}, seed {seed}");
    let world = World::new();
    let mut twins = Twins::new(&world, choice, seed);
    let mut writer = twins.store.create().unwrap();
    for ops in [0, 1, 300, 40] {
        twins.fill(ops);
        writer.apply(&twins.batch).unwrap();
        apply(&mut twins.pairs, &twins.batch);
    }
    twins.compare(&mut writer);
    writer.close().unwrap();
    twins.read();
    for session in 0..sessions {
        eprintln!("session {session}");
        update(&mut twins);
        twins.read();
    }
    twins.store.remove().unwrap();
}

#[test]
fn the_slow_compression() {
    if let Some(plain) = choice("tokyocabinet") {
        random_batches_of(Choice { builtin: Some(SLOW_BUILTIN), ..plain }, 1, 1);
    }
}

fn update(twins: &mut Twins) {
    let mut writer = twins.store.write().unwrap();
    for _ in 0..twins.rng.u32(0..4) {
        let ops = twins.rng.usize(0..60);
        twins.fill(ops);
        writer.apply(&twins.batch).unwrap();
        apply(&mut twins.pairs, &twins.batch);
        twins.compare(&mut writer);
    }
    // A batch is committed when it is applied, however the session ends.
    if twins.rng.u32(0..3) > 0 || !twins.store.choice().kv.capabilities().atomic {
        writer.close().unwrap();
    }
}

/// Checks the longest and shortest values and keys, all bytes, and many pairs at once.
fn odd_values(name: &str) {
    for (nth, choice) in choices(name).into_iter().enumerate() {
        eprintln!("{choice}");
        let world = World::new();
        let mut twins = Twins::new(&world, choice, 5);
        let mut writer = twins.store.create().unwrap();
        odd(&mut twins, &mut writer, 0);
        writer.close().unwrap();
        twins.read();
        if nth == 0 {
            let mut writer = twins.store.write().unwrap();
            odd(&mut twins, &mut writer, 1);
            odd(&mut twins, &mut writer, 2);
            twins.compare(&mut writer);
            writer.close().unwrap();
            twins.read();
        }
        // An empty store is a valid store.
        twins.batch.clear();
        for key in twins.pairs.keys() {
            twins.batch.delete(key);
        }
        let mut writer = twins.store.write().unwrap();
        writer.apply(&twins.batch).unwrap();
        apply(&mut twins.pairs, &twins.batch);
        writer.close().unwrap();
        twins.read();
    }
}

fn odd(twins: &mut Twins, writer: &mut Writer, step: u32) {
    odd_batch(twins, step);
    writer.apply(&twins.batch).unwrap();
    apply(&mut twins.pairs, &twins.batch);
}

fn odd_batch(twins: &mut Twins, step: u32) {
    let batch = &mut twins.batch;
    batch.clear();
    let all: Vec<u8> = (0..=255).collect();
    match step {
        0 => {
            for byte in 0..=255 {
                batch.put(&[byte], &all);
                batch.put(&[byte, 0], &[byte]);
                batch.put(&[0xff, byte], b"");
                batch.put(&[&[byte; 999][..], b"k"].concat(), &[byte; 7]);
            }
            batch.put(&all, &all.repeat(9));
            batch.put(b"zeros", &vec![0; 4 << 20]);
            let random: Vec<u8> = (0..4 << 20).map(|_| twins.rng.u8(..)).collect();
            batch.put(b"random", &random);
        }
        1 => {
            for n in 0..5_000_u32 {
                batch.put(&[&b"r"[..], &n.to_be_bytes()].concat(), &n.to_le_bytes().repeat(9));
            }
            batch.put(b"random", b"");
            batch.put(b"zeros", &all);
        }
        _ => {
            batch.put(b"twice", b"first");
            batch.put(b"twice", b"second");
            batch.put(b"gone", b"soon");
            batch.delete(b"gone");
            batch.delete(b"zeros");
            batch.put(b"zeros", b"again");
            batch.put(b"random", &vec![7; 4 << 20]);
            for n in (0..5_000_u32).step_by(3) {
                batch.delete(&[&b"r"[..], &n.to_be_bytes()].concat());
            }
        }
    }
}

/// Asserts that a key or value that is too long gives an error that names the limit, and nothing of
/// the batch is stored.
fn limits_are_told(name: &str) {
    for choice in choices(name).into_iter().take(1) {
        let capabilities = choice.kv.capabilities();
        assert!(capabilities.key_len_max >= 1_000, "{choice}");
        assert!(capabilities.value_len_max >= limits::VALUE_LEN_MAX, "{choice}");
        let world = World::new();
        let mut twins = Twins::new(&world, choice, 6);
        let mut writer = twins.store.create().unwrap();
        twins.batch.put(&vec![b'k'; limits::KEY_LEN_MAX], &vec![b'v'; limits::VALUE_LEN_MAX]);
        writer.apply(&twins.batch).unwrap();
        apply(&mut twins.pairs, &twins.batch);
        writer.close().unwrap();
        if capabilities.key_len_max > 1 << 20 {
            continue;
        }
        let mut writer = twins.store.write().unwrap();
        twins.batch.clear();
        twins.batch.put(b"before", b"1");
        twins.batch.put(&vec![b'k'; capabilities.key_len_max + 1], b"v");
        let error = writer.apply(&twins.batch).unwrap_err();
        assert!(matches!(error, Error::TooLong { what: "key", .. }), "{choice}: {error}");
        let missing = writer.value(&vec![b'k'; capabilities.key_len_max + 1]).unwrap();
        assert_eq!(missing, None, "{choice}");
        writer.close().unwrap();
        // The limit is checked before anything is stored.
        twins.read();
    }
}
