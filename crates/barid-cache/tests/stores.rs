//! Caches with records in key-value stores, and moves between stores.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_cache::{CacheDir, Delta, Opened, RecordBuf, Snapshot, StoreKind, convert, verify};
use barid_kv::{Batch, Store, registry};
use barid_mailbox::ScanReport;
use barid_vfs::{MemVfs, OpenOptions, OsVfs, Vfs};

use crate::changes::change;
use crate::world::{
    ID, KINDS, Model, build_as, cache_path, compare, finish, identity, open, options, scan,
};

struct Cache {
    disk: MemVfs,
    vfs: Arc<dyn Vfs>,
    model: Model,
    rng: fastrand::Rng,
}

/// Returns a cache of some 300 messages, with a log.
fn cache(seed: u64, kind: (&str, &str)) -> (Cache, Snapshot) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let disk = MemVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut model = Model::new();
    model.add(&mut rng, 300, true, 1);
    let mut snapshot = build_as(&vfs, &cache_path(), &model, &mut rng, &options(kind));
    for _ in 0..4 {
        snapshot = change(&snapshot, &mut model, &mut rng);
    }
    (Cache { disk, vfs, model, rng }, snapshot)
}

/// Returns the store of a cache.
fn store(vfs: &Arc<dyn Vfs>, snapshot: &Snapshot) -> Store {
    let StoreKind::Kv(choice) = snapshot.options().store else { panic!("a store of its own") };
    let generation = snapshot.figures().unwrap().generation;
    snapshot.release();
    let path = format!("{}.{generation:016x}.{}", cache_path().display(), choice.kv.name());
    Store::new(Arc::clone(vfs), PathBuf::from(path), choice)
}

/// Returns the number of the stores' files, without locks and seals.
fn stores(disk: &MemVfs) -> usize {
    let mut count = 0;
    let dir = disk.open_dir(Path::new("/cache")).unwrap();
    dir.list(&mut |name, _| count += usize::from(name.ends_with(b".memory"))).unwrap();
    count
}

/// Changes the records of a store without its cache.
fn meddle(store: &Store, act: impl FnOnce(&mut Batch, &[(Vec<u8>, Vec<u8>)])) {
    let mut pairs = Vec::new();
    let mut reader = store.read().unwrap();
    let mut keep = |key: &[u8], value: &[u8]| {
        pairs.push((key.to_vec(), value.to_vec()));
        true
    };
    reader.scan(b"", &mut keep).unwrap();
    drop(reader);
    let mut batch = Batch::new();
    act(&mut batch, &pairs);
    let mut writer = store.write().unwrap();
    writer.apply(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn a_cache_is_moved_between_all_stores() {
    let (Cache { disk, vfs, model, mut rng }, snapshot) = cache(100, KINDS[0]);
    let seed = snapshot.hash_seed();
    let mut last = KINDS[0];
    let kinds = KINDS.iter().flat_map(|one| KINDS.iter().flat_map(move |two| [one, two]));
    for kind in kinds {
        let options = options(*kind);
        let moved = convert(Arc::clone(&vfs), &cache_path(), ID, &options).unwrap().unwrap();
        assert_eq!((moved.options(), moved.hash_seed()), (options, seed));
        compare(&moved, &model, &mut rng).unwrap();
        compare(&open(&vfs, &cache_path()), &model, &mut rng).unwrap();
        assert_eq!(stores(&disk), usize::from(kind.0 == "memory"), "{last:?} to {kind:?}");
        let report = verify(Arc::clone(&vfs), &cache_path()).unwrap();
        assert_eq!((report.damage, report.stale_records), (None, 0));
        last = *kind;
    }
}

#[test]
fn moving_nothing_moves_nothing() {
    let (Cache { vfs, .. }, snapshot) = cache(101, ("memory", "zstd"));
    let none = convert(Arc::clone(&vfs), &cache_path(), ID + 1, &options(KINDS[0])).unwrap();
    assert!(none.is_none(), "of another mailbox");
    let same = snapshot.convert(&options(("memory", "zstd"))).unwrap().unwrap();
    assert_eq!(same.meta().generation, snapshot.meta().generation);
    // A snapshot without the last change must not move the cache.
    let before = open(&vfs, &cache_path());
    let mut after = open(&vfs, &cache_path());
    after.restamp(after.meta().stamp, b"more").unwrap();
    assert!(before.convert(&options(KINDS[0])).unwrap().is_none());
}

#[test]
fn every_damaged_record_is_named() {
    for compression in ["none", "zstd:1"] {
        let mut rng = fastrand::Rng::with_seed(102);
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        let mut model = Model::new();
        model.add(&mut rng, 300, true, 1);
        let kind = options(("memory", compression));
        let snapshot = build_as(&vfs, &cache_path(), &model, &mut rng, &kind);
        let store = store(&vfs, &snapshot);
        let mut rows = Vec::new();
        meddle(&store, |batch, pairs| {
            let records: Vec<_> = pairs.iter().filter(|(key, _)| key[0] == b'r').collect();
            for (count, (key, value)) in records.iter().step_by(7).enumerate() {
                match count % 3 {
                    0 => batch.delete(key),
                    1 => batch.put(key, &value[..value.len() / 2]),
                    // A valid record, but that of another message.
                    _ => batch.put(key, &records[count].1),
                }
                rows.push(key.clone());
            }
        });
        let opened = open(&vfs, &cache_path());
        let mut buffer = RecordBuf::default();
        let damaged = |row: &u32| match opened.record(*row, &mut buffer) {
            Err(error) => error.is_damage(),
            Ok(_) => false,
        };
        let unreadable: Vec<u32> = (0..opened.len()).filter(damaged).collect();
        opened.release();
        let report = verify(Arc::clone(&vfs), &cache_path()).unwrap();
        let named: Vec<u32> = report.faults.iter().map(|fault| fault.row).collect();
        assert_eq!(named, unreadable);
        assert_eq!(report.faulty_records as usize, unreadable.len());
        assert_eq!(unreadable.len(), rows.len());
        assert!(report.missing_records > 0 && report.missing_records < report.faulty_records);
        for fault in &report.faults {
            assert_eq!(fault.uid.get(), model.messages[fault.row as usize].uid);
        }
        assert!(report.damage.unwrap().contains("damaged header records"));
    }
}

#[test]
fn what_is_too_much_or_missing_is_told() {
    let (Cache { vfs, mut rng, mut model, .. }, snapshot) = cache(103, ("memory", "none"));
    let gone = snapshot.expunged_rows().iter().filter(|row| **row < snapshot.base_len()).count();
    assert_eq!(snapshot.figures().unwrap().stale_records as usize, gone);
    let store = store(&vfs, &snapshot);
    meddle(&store, |batch, _| batch.put(b"r\xff\xff\xff\xff", b"left behind"));
    let report = verify(Arc::clone(&vfs), &cache_path()).unwrap();
    assert_eq!((report.damage, report.stale_records as usize), (None, gone + 1));
    // A store without its description is invalid.
    meddle(&store, |batch, _| batch.delete(b"m"));
    let opened = open(&vfs, &cache_path());
    assert!(opened.record(0, &mut RecordBuf::default()).unwrap_err().is_damage());
    opened.discard().unwrap();
    assert!(matches!(Snapshot::open(Arc::clone(&vfs), &cache_path(), ID), Ok(Opened::Absent)));
    let dir = CacheDir::new(Arc::clone(&vfs), Path::new("/cache"));
    let names = |vfs: &Arc<dyn Vfs>| {
        let mut names = Vec::new();
        let dir = vfs.open_dir(Path::new("/cache")).unwrap();
        dir.list(&mut |name, _| names.push(String::from_utf8(name.to_vec()).unwrap())).unwrap();
        names
    };
    assert_eq!(names(&vfs), ["box.bhc.lock"]);
    assert_eq!(dir.list().unwrap().len(), 0);
    let built = build_as(&vfs, &cache_path(), &model, &mut rng, &options(("memory", "none")));
    change(&built, &mut model, &mut rng);
}

#[test]
fn a_dictionary_that_is_lost_is_told() {
    let mut rng = fastrand::Rng::with_seed(104);
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let mut model = Model::new();
    model.add(&mut rng, 2_000, false, 1);
    let kind = options(("memory", "zstd+dict"));
    let snapshot = build_as(&vfs, &cache_path(), &model, &mut rng, &kind);
    let figures = snapshot.figures().unwrap();
    assert_eq!((figures.dictionaries, figures.stale_records), (vec![1], 0));
    assert!(figures.stored_bytes < figures.raw_bytes);
    let store = store(&vfs, &snapshot);
    meddle(&store, |batch, _| batch.delete(b"d\x01"));
    let report = verify(Arc::clone(&vfs), &cache_path()).unwrap();
    assert!(report.undecodable_records > 1_000 && report.damage.is_some());
    assert_eq!(report.faulty_records, report.undecodable_records);
    assert_eq!(report.dictionaries, []);
}

/// Another process built the cache again while this one has the old one open.
#[test]
fn who_comes_too_late_removes_nothing() {
    let (Cache { vfs, model, mut rng, .. }, _) = cache(105, ("memory", "none"));
    let late = open(&vfs, &cache_path());
    build_as(&vfs, &cache_path(), &model, &mut rng, &options(("memory", "lz4")));
    assert!(late.record(0, &mut RecordBuf::default()).unwrap_err().is_damage());
    late.discard().unwrap();
    compare(&open(&vfs, &cache_path()), &model, &mut rng).unwrap();
}

/// A new dictionary is trained if the kind of mail changes; old records stay readable with the old
/// one.
#[test]
fn a_dictionary_that_no_longer_fits_is_replaced() {
    let mut rng = fastrand::Rng::with_seed(106);
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let mut model = Model::new();
    model.add(&mut rng, 2_000, false, 1);
    let kind = options(("memory", "zstd+dict"));
    let mut snapshot = build_as(&vfs, &cache_path(), &model, &mut rng, &kind);
    let mut compactions = 0;
    while compactions < 3 {
        model.step += 1;
        model.highest_modseq += 1;
        let (from, modseq) = (model.messages.len(), model.highest_modseq);
        model.add(&mut rng, 500, false, modseq);
        for message in &mut model.messages[from..] {
            let word =
                |rng: &mut fastrand::Rng| format!("{:016x}{:016x}", rng.u64(..), rng.u64(..));
            let header = format!(
                "From: \"{} of the other place\" <{}@elsewhere.example>\nSubject: {} {}\n\n",
                word(&mut rng),
                word(&mut rng),
                word(&mut rng),
                word(&mut rng)
            );
            message.header = header.into_bytes();
        }
        let generation = snapshot.meta().generation;
        let delta = Delta::new(&snapshot);
        let new_uids = scan(&delta, &model.messages[from..], &mut rng);
        let report = ScanReport { new_uids, ..model.report() };
        snapshot = delta.apply(&report, &finish(&identity(), model.highest_modseq)).unwrap();
        compactions += usize::from(snapshot.meta().generation != generation);
    }
    assert_eq!(snapshot.figures().unwrap().dictionaries, [1, 2]);
    compare(&open(&vfs, &cache_path()), &model, &mut rng).unwrap();
    assert_eq!(verify(vfs, &cache_path()).unwrap().damage, None);
}

/// A power failure may bring back a store in its state before the last compaction.
#[test]
fn a_store_that_is_older_than_its_cache_is_damaged() {
    let mut rng = fastrand::Rng::with_seed(108);
    let disk = MemVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut model = Model::new();
    model.add(&mut rng, 300, true, 1);
    let kind = options(("memory", "none"));
    let mut snapshot = build_as(&vfs, &cache_path(), &model, &mut rng, &kind);
    let path = store(&vfs, &snapshot).path().to_owned();
    let before = disk.read(&path, u64::MAX).unwrap();
    let generation = snapshot.meta().generation;
    while snapshot.meta().generation == generation {
        model.step += 1;
        model.highest_modseq += 1;
        let (from, modseq) = (model.messages.len(), model.highest_modseq);
        model.add(&mut rng, 500, true, modseq);
        let delta = Delta::new(&snapshot);
        let new_uids = scan(&delta, &model.messages[from..], &mut rng);
        let report = ScanReport { new_uids, ..model.report() };
        snapshot = delta.apply(&report, &finish(&identity(), modseq)).unwrap();
    }
    let file = disk.open(&path, OpenOptions::WRITE).unwrap();
    file.set_len(before.len() as u64).unwrap();
    file.write_all_at(&before, 0).unwrap();
    let opened = open(&vfs, &cache_path());
    let error = opened.record(0, &mut RecordBuf::default()).unwrap_err();
    assert!(error.is_damage(), "{error}");
}

/// A torn record of a killed process is not mistaken for an active writer.
#[test]
fn a_cache_with_a_torn_tail_is_moved() {
    let (Cache { disk, vfs, model, mut rng }, snapshot) = cache(109, KINDS[0]);
    let len = disk.metadata(&cache_path()).unwrap().size;
    let file = disk.open(&cache_path(), OpenOptions::WRITE).unwrap();
    file.write_all_at(b"BHCL and what never came", len).unwrap();
    let moved = snapshot.convert(&options(("memory", "lz4"))).unwrap();
    compare(&moved.expect("because nobody writes"), &model, &mut rng).unwrap();
    compare(&open(&vfs, &cache_path()), &model, &mut rng).unwrap();
}

/// The stores of installed libraries, on a disk.
#[test]
fn stores_of_libraries_hold_caches() {
    let disk = TempDir::new();
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    let mut tried = 0;
    for (index, kv) in registry::STORES.iter().enumerate() {
        if kv.version().is_err() {
            continue;
        }
        let mut rng = fastrand::Rng::with_seed(107);
        let path = disk.0.join(format!("{index:032x}.bhc"));
        let mut model = Model::new();
        model.add(&mut rng, 1_200, true, 1);
        let compression = ["none", "zstd+dict", "lz4"][index % 3];
        let kind = options((kv.name(), compression));
        let mut snapshot = build_as(&vfs, &path, &model, &mut rng, &kind);
        compare(&snapshot, &model, &mut rng).unwrap();
        let generation = snapshot.meta().generation;
        while snapshot.meta().generation == generation {
            snapshot = change(&snapshot, &mut model, &mut rng);
            assert!(snapshot.store_error().is_none());
        }
        let opened = open(&vfs, &path);
        compare(&opened, &model, &mut rng).unwrap();
        opened.release();
        let report = verify(Arc::clone(&vfs), &path).unwrap();
        assert_eq!((report.damage, report.stale_records), (None, 0), "{}", kv.name());
        tried += 1;
    }
    let dir = CacheDir::new(Arc::clone(&vfs), &disk.0);
    assert_eq!(dir.list().unwrap().len(), tried);
    assert_eq!(dir.clear().unwrap().caches as usize, tried);
    let mut names = Vec::new();
    let left = vfs.open_dir(&disk.0).unwrap();
    left.list(&mut |name, _| names.push(String::from_utf8(name.to_vec()).unwrap())).unwrap();
    assert_eq!(names, Vec::<String>::new());
}

/// A folder on the disk that is removed at the end.
struct TempDir(PathBuf);

impl TempDir {
    fn new() -> Self {
        let name = format!("barid-cache-{}-{}", std::process::id(), fastrand::u64(..));
        let path = std::env::temp_dir().join(name);
        OsVfs.create_dir(&path, 0o700).unwrap();
        Self(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let mut names = Vec::new();
        if let Ok(dir) = OsVfs.open_dir(&self.0) {
            let _ = dir.list(&mut |name, _| names.push(name.to_vec()));
        }
        for name in names {
            use std::os::unix::ffi::OsStrExt as _;
            let _ = OsVfs.remove_file(&self.0.join(std::ffi::OsStr::from_bytes(&name)));
        }
        let _ = OsVfs.remove_dir(&self.0);
    }
}
