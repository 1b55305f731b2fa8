//! Cache files modified by an attacker who can compute their checksums.

use std::sync::Arc;

use barid_cache::{Opened, Snapshot};
use barid_types::Uid;
use barid_vfs::{MemVfs, OpenOptions, Vfs};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::world::{ID, Model, build_as, cache_path, open, options};

/// Returns a forged packed cache.
fn forged(messages: usize, forge: impl FnOnce(&mut Vec<u8>)) -> Arc<dyn Vfs> {
    let mut rng = fastrand::Rng::with_seed(47);
    let disk = MemVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut model = Model::new();
    model.add(&mut rng, messages, false, 1);
    build_as(&vfs, &cache_path(), &model, &mut rng, &options(("native", "lz4")));
    let mut bytes = disk.read(&cache_path(), u64::MAX).unwrap();
    forge(&mut bytes);
    let file = disk.open(&cache_path(), OpenOptions::WRITE).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    vfs
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[test]
fn a_table_that_leads_two_columns_to_one_block() {
    let vfs = forged(250, |bytes| {
        let blocks = (0..5).map(|column| 96 + column * 32).map(|at| {
            let per_block = 65_520 / (word(bytes, at + 24) & 0xffff_ffff);
            word(bytes, at + 8).div_ceil(per_block)
        });
        let blocks = blocks.sum::<u64>() as usize;
        let table = word(bytes, 272) as usize;
        let end = table + 8 + 12 * blocks;
        // The first block of the core rows becomes that of the first UIDs, which is far shorter.
        bytes.copy_within(end - 12..end, table + 8);
        let checksum = xxh3_64_with_seed(&bytes[table + 8..end], word(bytes, 24));
        bytes[table..table + 8].copy_from_slice(&checksum.to_le_bytes());
    });
    let snapshot = open(&vfs, &cache_path());
    for uid in [1, 2, 100] {
        assert!(snapshot.row_of_uid(Uid::new(uid).unwrap()).unwrap_err().is_damage());
    }
    assert!(snapshot.core(0).unwrap_err().is_damage());
}

#[test]
fn columns_that_begin_where_no_file_does() {
    let vfs = forged(2_000, |bytes| {
        bytes[96..104].fill(0xff);
        bytes[16..24].fill(0);
        let checksum = xxh3_64(&bytes[..2048]);
        bytes[16..24].copy_from_slice(&checksum.to_le_bytes());
    });
    let opened = Snapshot::open(vfs, &cache_path(), ID).unwrap();
    assert!(matches!(opened, Opened::Discarded { .. }), "{opened:?}");
}
