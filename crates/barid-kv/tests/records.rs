//! Records in stores: every compression of records, in every store, with dictionaries that change.

use std::collections::BTreeMap;
use std::sync::Arc;

use barid_kv::compress::{Decoder, Dictionary, Encoder, Method};
use barid_kv::{Batch, Choice, Compression, Reader, Store};

use crate::world::{Session as _, World, choices, for_each_store};

for_each_store!(compressed, crate::records::every_compression);

const RECORDS: u32 = 700;

/// Every method at its usual level, and the ends of the scales.
const COMPRESSIONS: [&str; 9] =
    ["none", "lz4", "zstd", "zstd:1", "zstd:22", "zlib:1", "zlib", "zlib:9", "zstd+dict"];

fn every_compression(name: &str) {
    for (nth, choice) in choices(name).into_iter().enumerate() {
        let all = COMPRESSIONS.iter().filter(|text| nth == 0 || ["none", "zstd"].contains(*text));
        for text in all {
            eprintln!("{choice}, {text}");
            round(choice, Compression::parse(text).unwrap());
        }
    }
}

/// Returns a record like a cache's header records; the n-th in some version.
fn record(n: u32, version: u64) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(u64::from(n) << 8 | version);
    match n {
        0 => return Vec::new(),
        1 => return vec![0; 4 << 20],
        2 => return (0..=255).cycle().take(100_000).collect(),
        3 => return (0..30_000).map(|_| rng.u8(..)).collect(),
        _ => {}
    }
    let (list, host) = (rng.u32(0..5), rng.u32(0..40));
    let mut bytes = n.to_le_bytes().to_vec();
    let text = format!(
        "From: Person {host} <person{host}@host{host}.example.org>\n\
         To: list-{list}@lists.example.org\nSubject: Re: [PATCH v{version} {list}/9] mm: fix {}\n\
         Message-ID: <{:x}.{:x}@host{host}.example.org>\nList-Id: <list-{list}.example.org>\n",
        rng.u32(..),
        rng.u64(..),
        rng.u64(..),
    );
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

fn key(n: u32) -> Vec<u8> {
    [&b"r"[..], &n.to_be_bytes()].concat()
}

/// Trains a dictionary on the records to be written and adds it to the batch.
fn train(batch: &mut Batch, compression: Compression, id: u8, version: u64) -> Arc<Dictionary> {
    let samples: Vec<Vec<u8>> = (4..RECORDS).map(|n| record(n, version)).collect();
    let lens: Vec<usize> = samples.iter().map(Vec::len).collect();
    let bytes = Dictionary::train(&samples.concat(), &lens, 8 * 1024);
    let bytes = bytes.expect("because there is enough to learn from");
    batch.put(&[b'd', id], &bytes);
    Arc::new(Dictionary::new(id, &bytes, compression.level).unwrap())
}

/// Writes every `step`-th record in a version, with a new dictionary if the method uses one.
fn write(batch: &mut Batch, compression: Compression, (version, step): (u64, usize)) -> usize {
    batch.clear();
    let id = version as u8 + 1;
    let wanted = compression.method == Method::ZstdDict;
    let dictionary = wanted.then(|| train(batch, compression, id, version));
    let mut encoder = Encoder::new(compression, dictionary.as_ref());
    let mut len = 0;
    for n in (0..RECORDS).step_by(step) {
        batch.put_with(&key(n), |bytes| {
            let start = bytes.len();
            encoder.encode(u64::from(n), &record(n, version), bytes);
            len += if n > 3 { bytes.len() - start } else { 0 };
        });
    }
    len
}

fn round(choice: Choice, compression: Compression) {
    let world = World::new();
    let store = world.store(choice);
    let mut batch = Batch::new();
    let mut versions = BTreeMap::new();
    let len = write(&mut batch, compression, (0, 1));
    if compression.method == Method::ZstdDict {
        let raw: usize = (4..RECORDS).map(|n| record(n, 0).len()).sum();
        assert!(len * 2 < raw, "{choice}: {len} of {raw} bytes");
    }
    versions.extend((0..RECORDS).map(|n| (n, 0)));
    let mut writer = store.create().unwrap();
    writer.apply(&batch).unwrap();
    writer.close().unwrap();
    check(&store, &versions);

    // A newer dictionary does not make older records unreadable.
    let mut writer = store.write().unwrap();
    for (version, step) in [(1, 3), (2, 7)] {
        write(&mut batch, compression, (version, step));
        for n in (0..RECORDS).skip(5).step_by(5 * step) {
            batch.delete(&key(n));
        }
        writer.apply(&batch).unwrap();
        versions.extend((0..RECORDS).step_by(step).map(|n| (n, version)));
        versions.retain(|n, _| *n < 5 || !(n - 5).is_multiple_of(5 * step as u32));
    }
    writer.close().unwrap();
    check(&store, &versions);
}

/// Returns the dictionaries in the store.
fn dictionaries(reader: &mut Reader) -> BTreeMap<u8, Arc<Dictionary>> {
    let pairs = reader.pairs(b"d").unwrap();
    let parse = |(key, bytes): (Vec<u8>, Vec<u8>)| {
        (key[1], Arc::new(Dictionary::new(key[1], &bytes, 3).unwrap()))
    };
    pairs.into_iter().map(parse).collect()
}

fn check(store: &Store, versions: &BTreeMap<u32, u64>) {
    let mut reader = store.read().unwrap();
    let known = dictionaries(&mut reader);
    let known = |id: u8| known.get(&id).cloned();
    let mut decoder = Decoder::new();
    for n in 0..RECORDS {
        let mut right = None;
        let there = reader.get(&key(n), &mut |stored| {
            let record_found = decoder.decode(u64::from(n), stored, &known).unwrap();
            right = Some(versions.get(&n).is_some_and(|v| record(n, *v) == record_found));
            assert!(decoder.decode(u64::from(n) + 1, stored, &known).is_err());
        });
        assert_eq!(there.unwrap(), versions.contains_key(&n), "record {n}");
        assert_ne!(right, Some(false), "record {n}");
    }
    let mut seen = 0;
    reader
        .scan(b"r", &mut |key, stored| {
            let n = u32::from_be_bytes(key[1..].try_into().unwrap());
            let found = decoder.decode(u64::from(n), stored, &known).unwrap();
            assert!(found == record(n, versions[&n]), "record {n} in a scan");
            seen += 1;
            true
        })
        .unwrap();
    assert_eq!(seen, versions.len());
}
