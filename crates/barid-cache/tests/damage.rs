//! Damaged files: the damage is detected, or every value is right; a wrong value is never returned.

use std::sync::Arc;

use barid_cache::{Opened, Snapshot, verify};
use barid_vfs::{MemVfs, OpenOptions, Vfs};

use crate::changes::change;
use crate::follow::{SOME, follow, plan};
use crate::world::{History, Model, build, cache_path, open, scan_nothing};

/// Returns a cache with a log, and its history.
fn cache(seed: u64, files: bool) -> (MemVfs, History, fastrand::Rng) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (disk, mut history) = (MemVfs::new(), History::default());
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut model = Model::new();
    model.add(&mut rng, 250, files, 1);
    let mut snapshot = build(&vfs, &cache_path(), &model, &mut rng);
    history.note(&model);
    for step in 0..3 {
        snapshot = if step == 1 && !files {
            let change = plan(&mut model, &mut rng, SOME);
            follow(&snapshot, &model, &change).unwrap()
        } else {
            change(&snapshot, &mut model, &mut rng)
        };
        history.note(&model);
    }
    (disk, history, rng)
}

fn size(disk: &MemVfs) -> u64 {
    disk.metadata(&cache_path()).unwrap().size
}

#[test]
fn a_file_cut_anywhere() {
    for files in [false, true] {
        let (disk, history, mut rng) = cache(40, files);
        let len = size(&disk);
        let mut found = [0; 2];
        for cut in 0..200 {
            // Half of the cuts are in the log, which is the end of the file.
            let start = if cut % 2 == 0 { 0 } else { len.saturating_sub(40_000) };
            let copy = disk.snapshot();
            let at = rng.u64(start..len);
            copy.open(&cache_path(), OpenOptions::WRITE).unwrap().set_len(at).unwrap();
            let vfs: Arc<dyn Vfs> = Arc::new(copy);
            found[usize::from(history.step_found(&vfs, &mut rng).is_some())] += 1;
        }
        assert!(found.iter().all(|count| *count > 20), "{found:?}");
    }
}

#[test]
fn a_byte_flipped_anywhere() {
    for files in [false, true] {
        let (disk, history, mut rng) = cache(41, files);
        let len = size(&disk);
        let mut found = [0; 2];
        for _ in 0..200 {
            let copy = disk.snapshot();
            flip(&copy, rng.u64(..len), 1 << rng.u8(..8));
            let vfs: Arc<dyn Vfs> = Arc::new(copy);
            let step = history.step_found(&vfs, &mut rng);
            let report = verify(Arc::clone(&vfs), &cache_path()).unwrap();
            // A cache that reads without an error also verifies without one, and vice versa, except
            // for parts that the model does not read.
            assert!(step.is_some() || report.damage.is_some());
            found[usize::from(step.is_some())] += 1;
        }
        assert!(found.iter().all(|count| *count > 5), "{found:?}");
    }
}

#[test]
fn stretches_of_zeros() {
    let (disk, history, mut rng) = cache(42, true);
    let len = size(&disk);
    for _ in 0..100 {
        let copy = disk.snapshot();
        let file = copy.open(&cache_path(), OpenOptions::WRITE).unwrap();
        let at = rng.u64(..len / 512) * 512;
        let zeros = vec![0; rng.usize(1..64) * 512];
        file.write_all_at(&zeros, at).unwrap();
        let vfs: Arc<dyn Vfs> = Arc::new(copy);
        history.step_found(&vfs, &mut rng);
    }
}

fn flip(disk: &MemVfs, at: u64, bits: u8) {
    let file = disk.open(&cache_path(), OpenOptions::WRITE).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ bits], at).unwrap();
}

fn reason(disk: MemVfs, id: u128) -> &'static str {
    match Snapshot::open(Arc::new(disk), &cache_path(), id).unwrap() {
        Opened::Discarded { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn reasons_are_told() {
    let (disk, _, _) = cache(43, false);
    let id = crate::world::ID;
    let changed = |at: u64, bits: u8| {
        let copy = disk.snapshot();
        flip(&copy, at, bits);
        copy
    };
    let cut = |len: u64| {
        let copy = disk.snapshot();
        copy.open(&cache_path(), OpenOptions::WRITE).unwrap().set_len(len).unwrap();
        copy
    };
    assert_eq!(reason(disk.snapshot(), id + 1), "it belongs to another mailbox");
    assert_eq!(reason(changed(0, 1), id), "not a cache file");
    assert_eq!(reason(changed(8, 1), id), "written by another version");
    assert_eq!(reason(changed(700, 2), id), "the header is damaged");
    assert_eq!(reason(cut(100), id), "shorter than a header page");
    assert_eq!(reason(cut(8192), id), "truncated");
}

#[test]
fn an_intact_file_verifies() {
    for files in [false, true] {
        let (disk, _, _) = cache(44, files);
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let report = verify(Arc::clone(&vfs), &cache_path()).unwrap();
        assert_eq!((report.damage, report.torn_bytes, report.log_records), (None, 0, 3));
        assert_eq!(report.messages, open(&vfs, &cache_path()).len());
        assert!(report.blocks >= 5);
    }
}

#[test]
fn a_torn_tail_is_cut_by_the_next_writer() {
    let (disk, mut history, mut rng) = cache(45, false);
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let (len, last) = (size(&disk), history.0.last().unwrap().clone());
    let file = disk.open(&cache_path(), OpenOptions::WRITE).unwrap();
    file.write_all_at(b"BHCL and what never came", len).unwrap();
    let report = verify(Arc::clone(&vfs), &cache_path()).unwrap();
    assert_eq!((report.damage, report.torn_bytes), (None, 24));
    assert_eq!(history.step_found(&vfs, &mut rng), Some(last.step));
    let snapshot = scan_nothing(&open(&vfs, &cache_path()), &mut history, &mut rng);
    assert!(snapshot.store_error().is_none());
    assert_eq!(history.step_found(&vfs, &mut rng), Some(last.step + 1));
    assert_eq!(verify(vfs, &cache_path()).unwrap().torn_bytes, 0);
}

/// The layout matches `docs/formats/cache.md`: a change must come with a new version.
#[test]
fn the_layout_is_that_of_version_6() {
    let (disk, history, _) = cache(46, false);
    let bytes = disk.read(&cache_path(), u64::MAX).unwrap();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(&bytes[..8], b"BARIDHC\n");
    assert_eq!((half(8), half(64)), (6, 250));
    assert_eq!((half(12), word(24)), (1, word(96 + 16)));
    assert_eq!(&bytes[40..56], crate::world::ID.to_le_bytes());
    let columns: Vec<_> =
        (0..5).map(|n| 96 + n * 32).map(|at| (word(at + 8), half(at + 24))).collect();
    assert_eq!(columns[0], (250, 96));
    assert_eq!((columns[1], columns[2].1, columns[3].1), ((250, 40), 12, 24));
    assert_eq!(columns[4], (1, 4));
    let first = &history.0[0].messages[0];
    let core = word(96) as usize;
    assert_eq!(half(core + 8), 1);
    let row = core + 16;
    assert_eq!((half(row), bytes[row + 4]), (first.uid, first.flags.bits()));
    assert_eq!(word(row + 8).cast_signed(), first.internal_date.unix_seconds);
    assert_eq!((word(row + 32), word(row + 40)), (first.keywords, 1));
    assert_eq!(
        (word(row + 56), word(row + 64), word(row + 72)),
        (first.key, first.offset, first.body_len)
    );
    assert_eq!(half(row + 80) as usize, first.header.len());
    let log = word(56) as usize;
    assert_eq!((&bytes[log..log + 4], word(log + 8)), (&b"BHCL"[..], 1));
    assert_eq!((word(log + 16), word(72)), (word(16), 376));
    assert_eq!((word(296), half(304)), (log as u64, 250));
    assert!(bytes[2048..4096].iter().all(|byte| *byte == 0));
    assert!(
        bytes[256..376].iter().enumerate().all(|(at, byte)| *byte == 0 || (24..52).contains(&at))
    );
}
