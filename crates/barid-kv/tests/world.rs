//! The stores under test, self-verifying pairs, and the model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_kv::compress::{Decoder, Encoder};
use barid_kv::{
    Batch, Choice, Compression, Error, Op, Reader, Result, Store, Visit, Writer, registry,
};
use barid_testkit::{Scratch, skip_or_fail};
use barid_vfs::OsVfs;
use xxhash_rust::xxh3::xxh3_64;

/// Makes a module of one test per store, each of which calls `$check(name)`.
macro_rules! for_each_store {
    ($module:ident, $check:path) => {
        mod $module {
            $crate::world::for_each_store!(@tests $check;
                memory lmdb rocksdb bdb gdbm qdbm kyotocabinet tokyocabinet tdb);
        }
    };
    (@tests $check:path; $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                $check(stringify!($name));
            }
        )*
    };
}
pub(crate) use for_each_store;

pub(crate) type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns the store of that name without compression; `None`, with a report, if it cannot be used
/// here.
pub(crate) fn choice(name: &str) -> Option<Choice> {
    let choice = Choice::parse(name).unwrap();
    match choice.kv.version() {
        Ok(_) => Some(choice),
        Err(error @ Error::Unavailable { .. }) => {
            skip_or_fail(&error.to_string());
            None
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

/// The compression that takes minutes for long runs of one byte; it has a test of its own.
pub(crate) const SLOW_BUILTIN: &str = "tcbs";

/// Returns the store of that name, without compression and with each built-in one but the slow one.
pub(crate) fn choices(name: &str) -> Vec<Choice> {
    let plain = choice(name);
    let with = plain.iter().flat_map(|plain| {
        let builtin = plain.kv.capabilities().builtin.iter();
        let builtin = builtin.filter(|name| **name != SLOW_BUILTIN);
        builtin.map(|builtin| Choice { builtin: Some(builtin), ..*plain })
    });
    plain.into_iter().chain(with).collect()
}

/// A fresh folder.
pub(crate) struct World {
    pub(crate) scratch: Scratch,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { scratch: Scratch::new("kv").unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub(crate) fn store(&self, choice: Choice) -> Store {
        store(choice, &self.path("store"))
    }
}

pub(crate) fn store(choice: Choice, path: &Path) -> Store {
    Store::new(Arc::new(OsVfs), path.to_owned(), choice)
}

/// The methods common to [`Reader`] and [`Writer`].
pub(crate) trait Session {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool>;
    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<()>;

    /// Returns a copy of the value.
    fn value(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        let there = self.get(key, &mut |value| {
            assert!(found.is_none(), "shown twice");
            found = Some(value.to_vec());
        })?;
        assert_eq!(there, found.is_some(), "shown and said to be missing, or the reverse");
        Ok(found)
    }

    /// Returns copies of the pairs with a prefix, in the order of the scan.
    fn pairs(&mut self, prefix: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut found = Vec::new();
        self.scan(prefix, &mut |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            true
        })?;
        Ok(found)
    }
}

impl Session for Reader {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.get(key, visit)
    }
    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        self.scan(prefix, visit)
    }
}

impl Session for Writer {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.get(key, visit)
    }
    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<()> {
        self.scan(prefix, visit)
    }
}

/// Applies a batch to the model.
pub(crate) fn apply(pairs: &mut Pairs, batch: &Batch) {
    for op in batch.iter() {
        match op {
            Op::Put { key, value } => drop(pairs.insert(key.to_vec(), value.to_vec())),
            Op::Delete { key } => drop(pairs.remove(key)),
        }
    }
}

/// Compares all answers of a session with these pairs.
pub(crate) fn compare(
    session: &mut dyn Session,
    pairs: &Pairs,
    ordered: bool,
    rng: &mut fastrand::Rng,
) {
    for (key, value) in pairs {
        let found = session.value(key).unwrap();
        assert!(found.as_ref() == Some(value), "get {}: {}", show(key), differ(found, value));
    }
    scanned(session, pairs, b"", ordered);
    let keys: Vec<&Vec<u8>> = pairs.keys().collect();
    // Every look-up in a large compressed store is slow.
    let len: usize = pairs.values().map(Vec::len).sum();
    for _ in 0..if len > 1 << 20 { 2 } else { 8 } {
        let Some(key) = rng.choice(&keys) else { break };
        let mut key = (*key).clone();
        scanned(session, pairs, &key, ordered);
        scanned(session, pairs, &key[..rng.usize(1..=key.len())], ordered);
        *key.last_mut().unwrap() ^= 1 << rng.u32(0..8);
        missing(session, pairs, &key);
        key.push(rng.u8(..));
        missing(session, pairs, &key);
        scanned(session, pairs, &key, ordered);
    }
    scanned(session, pairs, &[0xff], ordered);
    scanned(session, pairs, &[0xff; 300], ordered);
    stopped(session, pairs, ordered, rng);
}

fn missing(session: &mut dyn Session, pairs: &Pairs, key: &[u8]) {
    if !pairs.contains_key(key) {
        assert_eq!(session.value(key).unwrap(), None, "get {}", show(key));
    }
}

fn scanned(session: &mut dyn Session, pairs: &Pairs, prefix: &[u8], ordered: bool) {
    let mut found = session.pairs(prefix).unwrap();
    if !ordered {
        found.sort();
    }
    let expected = pairs.range(prefix.to_vec()..).take_while(|(key, _)| key.starts_with(prefix));
    let expected: Vec<_> = expected.map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(found.len(), expected.len(), "scan {}: pairs", show(prefix));
    for ((key, value), expected) in found.into_iter().zip(&expected) {
        assert_eq!(key, expected.0, "scan {}: key", show(prefix));
        let same = value == expected.1;
        assert!(same, "scan, {}: {}", show(&key), differ(Some(value), &expected.1));
    }
}

/// Asserts that a scan ends on request, and that the session can be used after that.
fn stopped(session: &mut dyn Session, pairs: &Pairs, ordered: bool, rng: &mut fastrand::Rng) {
    let after = rng.usize(0..5).min(pairs.len().saturating_sub(1));
    let mut seen = Vec::new();
    let mut visit = |key: &[u8], _: &[u8]| {
        seen.push(key.to_vec());
        seen.len() <= after
    };
    session.scan(b"", &mut visit).unwrap();
    assert_eq!(seen.len(), pairs.len().min(after + 1), "a scan that is stopped");
    if ordered {
        assert!(seen.iter().eq(pairs.keys().take(seen.len())), "the first keys");
    }
    scanned(session, pairs, b"", ordered);
}

fn show(key: &[u8]) -> String {
    let shown = key[..key.len().min(40)].escape_ascii();
    if key.len() > 40 { format!("{shown}... ({} bytes)", key.len()) } else { shown.to_string() }
}

fn differ(found: Option<Vec<u8>>, expected: &[u8]) -> String {
    let Some(found) = found else { return "missing".to_owned() };
    let at = found.iter().zip(expected).position(|(found, expected)| found != expected);
    format!("{} bytes, not {}; they differ at {at:?}", found.len(), expected.len())
}

/// Returns a value that proves its content and key: the frame of a record.
pub(crate) fn framed(key: &[u8], content: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(content.len() + 8);
    Encoder::new(Compression::NONE, None).encode(xxh3_64(key), content, &mut value);
    value
}

/// Returns the content of a value that [`framed`] returned for this key; `None` for any other
/// value.
pub(crate) fn content(key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    Decoder::new().decode(xxh3_64(key), value, &|_| None).ok().map(<[u8]>::to_vec)
}

/// Returns a value like header records: words that repeat, and some bytes that do not.
pub(crate) fn text(rng: &mut fastrand::Rng, len: usize) -> Vec<u8> {
    const WORDS: [&str; 8] =
        ["Received", "example.org", "Subject: Re: ", "list", "\r\n", "<", "20", "a@b.example"];
    let mut bytes = Vec::with_capacity(len + 16);
    while bytes.len() < len {
        bytes.extend_from_slice(rng.choice(WORDS).unwrap().as_bytes());
        bytes.push(rng.u8(..));
    }
    bytes.truncate(len);
    bytes
}

/// Returns the number of seeds to try: `usual`, or the value in the environment.
pub(crate) fn seeds(usual: usize) -> usize {
    let given = std::env::var("BARID_CRASH_SEEDS").ok();
    given.and_then(|given| given.parse().ok()).unwrap_or(usual)
}

mod names {
    use super::*;

    for_each_store!(each, crate::world::usable);

    /// Asserts that the list above contains every store: a missing library fails, and so does a
    /// missing entry.
    #[test]
    fn every_store_is_tested() {
        let listed = include_str!("world.rs").split("@tests $check;").nth(1).unwrap();
        let listed = listed.split(");").next().unwrap();
        let listed: Vec<&str> = listed.split_whitespace().collect();
        for name in usable_names() {
            assert!(listed.contains(&name), "{name} is missing in `for_each_store`");
        }
    }
}

/// Asserts that a store and each of its built-in compressions can be created and read.
fn usable(name: &str) {
    for choice in choices(name) {
        let world = World::new();
        let store = world.store(choice);
        let mut batch = Batch::new();
        batch.put(b"key", b"value");
        let mut writer = store.create().unwrap();
        writer.apply(&batch).unwrap();
        writer.close().unwrap();
        let found = Session::value(&mut store.read().unwrap(), b"key").unwrap();
        assert_eq!(found.as_deref(), Some(&b"value"[..]), "{choice}");
    }
}

/// Returns the names of all stores that may be installed.
pub(crate) fn usable_names() -> impl Iterator<Item = &'static str> {
    registry::STORES.iter().map(|store| store.name()).chain(["memory"])
}
