//! Measures a store: `kv-cost NAME[:BUILTIN] FOLDER [RECORDS]`.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a measurement")]

use std::sync::Arc;
use std::time::Instant;

use barid_kv::{Batch, Choice, Store};
use barid_vfs::OsVfs;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let choice = Choice::parse(&args[0]).unwrap();
    let path = std::path::Path::new(&args[1]).join(format!("kv-cost-{}", choice.kv.name()));
    let records: u32 = args.get(2).map_or(100_000, |records| records.parse().unwrap());
    let store = Store::new(Arc::new(OsVfs), path, choice);
    store.remove().unwrap();
    let step = |what: &str, start: Instant| {
        println!("{what} {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
        Instant::now()
    };
    let value = values();

    let start = Instant::now();
    let mut writer = store.create().unwrap();
    let mut batch = Batch::new();
    let mut raw = 0;
    for number in 0..records {
        let (key, value) = (key(number), value(number));
        raw += key.len() + value.len();
        batch.put(&key, value);
        if batch.bytes_len() >= 256 * 1024 {
            writer.apply(&batch).unwrap();
            batch.clear();
        }
    }
    writer.apply(&batch).unwrap();
    writer.close().unwrap();
    let start = step("create", start);

    let mut reader = store.read().unwrap();
    let start = step("open", start);
    let mut found = 0;
    for number in 0..records {
        assert!(reader.get(&key(number), &mut |value| found += value.len()).unwrap());
    }
    let start = step("gets", start);
    let mut scanned = 0;
    reader
        .scan(b"", &mut |key, value| {
            scanned += key.len() + value.len();
            true
        })
        .unwrap();
    let start = step("scan", start);
    assert_eq!((raw, raw), (scanned, found + records as usize * 5));
    drop(reader);

    let mut writer = store.write().unwrap();
    writer.apply(&Batch::new()).unwrap();
    drop(writer);
    let start = step("drop a writer", start);
    drop(store.read().unwrap());
    step("probe", start);
    let space = store.space().unwrap();
    let percent = 100.0 * space.allocated as f64 / raw as f64;
    println!("raw {raw}, size {}, allocated {} ({percent:.1} %)", space.size, space.allocated);
    store.remove().unwrap();
}

fn key(number: u32) -> [u8; 5] {
    let mut key = *b"r0000";
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Returns a source of values of about 500 bytes each, half of them random.
fn values() -> impl Fn(u32) -> &'static [u8] {
    let mut rng = fastrand::Rng::with_seed(7);
    let bytes: Vec<u8> =
        (0..1 << 20).map(|at| if at & 8 == 0 { b'a' } else { rng.u8(..) }).collect();
    let bytes: &[u8] = Vec::leak(bytes);
    move |number| {
        let number = number as usize;
        let from = number * 7919 % (bytes.len() - 1000);
        &bytes[from..from + 300 + number * 131 % 401]
    }
}
