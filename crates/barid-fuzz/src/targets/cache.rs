//! Files that may vanish: the header cache, its derived columns, and records in stores.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use barid::{ReadAs, Uid};
use barid_cache::{Opened, RecordBuf, Snapshot};
use barid_kv::Compression;
use barid_kv::compress::{Decoder, Encoder, Packer, Unpacker};
use barid_vfs::{MemVfs, OpenOptions, Vfs};

use super::mailbox::{MAILDIR, MBOX, replaced, seed};
use crate::world::World;

/// An mbox with a compressed cache.
pub(crate) static PACKED: LazyLock<World> =
    LazyLock::new(|| World::new("mboxrd").compressed("lz4"));
/// A compressed mbox with restart points.
pub(crate) static RESTARTS: LazyLock<World> = LazyLock::new(|| {
    let large = include_bytes!("../../seeds/large.gz");
    let world = World::empty("/mail/box.gz").with(Path::new("/mail/box.gz"), large);
    let mut mailbox = world.open(&world.options()).expect("because it is a mailbox");
    drop(mailbox.read(Uid::MIN, ReadAs::Message));
    world
});

/// Greatest length of an unpacked block.
const RAW_LEN_MAX: usize = 256 << 10;
/// Identity of the mailbox in the fixtures of the cache.
const FIXTURE_ID: u128 = 0x1234_5678_9abc_def0_0fed_cba9_8765_4321;
const FIXTURE_PATH: &str = "/cache.bhc";

/// Uses a world with another file of its cache. Its answers are those without a cache: no answer
/// depends on the cache.
pub(crate) fn unsealed(world: &World, text: &str, bytes: &[u8]) {
    let path = world.path(text);
    let world = world.with(&path, bytes);
    world.answers_alike();
    world.exercise();
}

/// Uses a world with another file of its cache whose checksums are right.
pub(crate) fn sealed(world: &World, text: &str, bytes: &[u8], seal: fn(&mut [u8])) {
    let mut bytes = bytes.to_vec();
    seal(&mut bytes);
    replaced(world, text, &bytes);
}

/// A cache file of any version, without its mailbox: everything in it is read.
pub(crate) fn cache_file(bytes: &[u8]) {
    let memory = MemVfs::new();
    let file = memory.open(Path::new(FIXTURE_PATH), OpenOptions::create(0o600));
    let file = file.expect("because a disk in memory does not fail");
    file.write_all_at(bytes, 0).expect("because a disk in memory does not fail");
    let vfs: Arc<dyn Vfs> = Arc::new(memory);
    let path = Path::new(FIXTURE_PATH);
    drop(barid_cache::verify(Arc::clone(&vfs), path));
    let Ok(Opened::Fresh(snapshot)) = Snapshot::open(vfs, Path::new(FIXTURE_PATH), FIXTURE_ID)
    else {
        return;
    };
    let (mut name, mut record) = (Vec::new(), RecordBuf::default());
    for row in 0..snapshot.len().min(1 << 12) {
        drop(snapshot.core(row));
        drop(snapshot.location(row, &mut name).map(drop));
        drop(snapshot.record(row, &mut record).map(drop));
    }
    drop(snapshot.cores(0..snapshot.len(), &mut |_, _| {}));
    drop(snapshot.uids());
}

/// Cache files of this version and of earlier ones.
pub(crate) fn cache_file_seeds() -> Vec<Vec<u8>> {
    macro_rules! fixtures {
        ($($name:literal)*) => {
            vec![$(include_bytes!(concat!("../../../barid-cache/tests/fixtures/", $name)).to_vec()),*]
        };
    }
    fixtures!["cache-v6.bhc" "cache-v6-moved.bhc" "cache-v6-refreshed.bhc" "cache-v6-lz4.bhc"
        "cache-v6-refreshed-lz4.bhc" "cache-v5.bhc" "cache-v4-moved.bhc" "cache-v1.bhc"]
}

/// Caches of both kinds of mailbox.
pub(crate) fn cache_seeds() -> Vec<Vec<u8>> {
    vec![seed(&MBOX, ".bhc"), seed(&MAILDIR, ".bhc")]
}

/// A record of a store, and a packed block.
pub(crate) fn record(bytes: &[u8]) {
    let mut decoder = Decoder::new();
    if let Ok(raw) = decoder.decode(0, bytes, &|_| None) {
        let raw = raw.to_vec();
        let mut again = Vec::new();
        Encoder::new(Compression::NONE, None).encode(0, &raw, &mut again);
        assert_eq!(decoder.decode(0, &again, &|_| None), Ok(raw.as_slice()));
    }
    let mut out = Vec::new();
    let _ = Unpacker::new().unpack(bytes, RAW_LEN_MAX, &mut out);
    assert!(out.len() <= RAW_LEN_MAX);
}

/// A record whose checksum is right.
pub(crate) fn record_sealed(bytes: &[u8]) {
    let (Some((head, payload)), mut out) = (bytes.split_first_chunk::<5>(), Vec::new()) else {
        return;
    };
    // The seed is of no generation and number; the version and coding are part of it.
    let seed = u64::from(head[0]) << 48;
    let sum = xxhash_rust::xxh3::xxh3_64_with_seed(payload, seed) as u32;
    out.push(head[0]);
    out.extend_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(payload);
    record(&out);
}

/// Records and blocks of every coding.
pub(crate) fn record_seeds() -> Vec<Vec<u8>> {
    let raw = crate::seeds::SEARCHED.repeat(3);
    let mut seeds = Vec::new();
    for method in ["none", "lz4", "zlib:6", "zstd:3"] {
        let compression: Compression = method.parse().expect("because it is a method");
        let mut record = Vec::new();
        Encoder::new(compression, None).encode(0, &raw, &mut record);
        seeds.push(record);
        let mut block = Vec::new();
        Packer::new(compression).pack(24, &raw, &mut block);
        seeds.push(block);
    }
    seeds
}
