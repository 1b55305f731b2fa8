//! Columns that are derived from a cache.

use std::path::PathBuf;
use std::sync::Arc;

use barid_cache::Snapshot;
use barid_vfs::{MemVfs, OpenOptions, Vfs};

use crate::changes::change;
use crate::world::{Model, build, cache_path, open};

struct Mailbox {
    disk: MemVfs,
    vfs: Arc<dyn Vfs>,
    model: Model,
    rng: fastrand::Rng,
}

fn mailbox(seed: u64) -> (Mailbox, Snapshot) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let disk = MemVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut model = Model::new();
    model.add(&mut rng, 20, false, 1);
    let snapshot = build(&vfs, &cache_path(), &model, &mut rng);
    (Mailbox { disk, vfs, model, rng }, snapshot)
}

fn all(snapshot: &Snapshot, kind: &str) -> Option<Vec<u8>> {
    let derived = snapshot.derived(kind).unwrap()?;
    derived.read(0..derived.len()).ok()
}

fn column(kind: &str) -> PathBuf {
    PathBuf::from(format!("{}.{kind}", cache_path().display()))
}

#[test]
fn bytes_come_back() {
    let (_, snapshot) = mailbox(90);
    for len in [0, 1, 65_527, 65_528, 65_529, 200_000] {
        let bytes: Vec<u8> = (0..len).map(|n| (n * 7 % 251) as u8).collect();
        snapshot.store_derived("sort-date", &bytes).unwrap();
        assert_eq!(all(&snapshot, "sort-date"), Some(bytes.clone()));
        assert_eq!(all(&snapshot, "sort-size"), None);
        let derived = snapshot.derived("sort-date").unwrap().unwrap();
        assert_eq!((derived.rows_covered(), derived.len()), (20, len as u64));
        for (start, end) in [(0, 10), (65_520, 65_540), (len / 2, len), (70, 70), (len, len + 9)] {
            let (from, to) = (len.min(start), len.min(end));
            assert_eq!(derived.read(start as u64..end as u64).unwrap(), bytes[from..to]);
        }
    }
    snapshot.remove_derived("sort-date").unwrap();
    assert_eq!(all(&snapshot, "sort-date"), None);
}

#[test]
fn damage_is_as_if_it_were_absent() {
    let (Mailbox { disk, .. }, snapshot) = mailbox(91);
    let bytes = vec![7; 100_000];
    snapshot.store_derived("threads", &bytes).unwrap();
    let path = column("threads");
    let whole = disk.read(&path, u64::MAX).unwrap();
    let file = disk.open(&path, OpenOptions::WRITE).unwrap();
    for at in (0..whole.len()).step_by(977) {
        file.write_all_at(&[whole[at] ^ 1], at as u64).unwrap();
        assert_eq!(all(&snapshot, "threads"), None, "byte {at}");
        file.write_all_at(&[whole[at]], at as u64).unwrap();
    }
    for len in (0..whole.len() as u64).step_by(977) {
        file.set_len(len).unwrap();
        assert_eq!(all(&snapshot, "threads"), None, "cut at {len}");
        file.write_all_at(&whole, 0).unwrap();
    }
    assert_eq!(all(&snapshot, "threads"), Some(bytes));
}

fn additions(snapshot: &Snapshot, kind: &str) -> Vec<Vec<u8>> {
    snapshot.derived_of_any_state(kind).unwrap().unwrap().additions().unwrap()
}

#[test]
fn additions_end_where_one_is_torn() {
    let (Mailbox { disk, .. }, snapshot) = mailbox(94);
    assert_eq!(snapshot.append_derived("ids", b"none").unwrap(), None);
    for len in [0, 65_528, 100_000] {
        snapshot.store_derived("ids", &vec![7; len]).unwrap();
        assert_eq!(additions(&snapshot, "ids"), Vec::<Vec<u8>>::new());
        let lens = snapshot.append_derived("ids", b"first").unwrap().unwrap();
        assert_eq!((lens.content, lens.additions), (len as u64, 16 + 5));
        let path = column("ids");
        let start = disk.metadata(&path).unwrap().size;
        let lens = snapshot.append_derived("ids", b"second one").unwrap().unwrap();
        assert_eq!(lens.additions, 16 + 5 + 16 + 10);
        assert_eq!(additions(&snapshot, "ids"), [&b"first"[..], b"second one"]);
        assert_eq!(all(&snapshot, "ids"), Some(vec![7; len]));
        let whole = disk.read(&path, u64::MAX).unwrap();
        let file = disk.open(&path, OpenOptions::WRITE).unwrap();
        for end in start..whole.len() as u64 {
            file.set_len(end).unwrap();
            assert_eq!(additions(&snapshot, "ids"), [b"first"], "cut at {end}");
            file.write_all_at(&whole, 0).unwrap();
        }
        for at in start as usize..whole.len() {
            file.write_all_at(&[whole[at] ^ 1], at as u64).unwrap();
            assert_eq!(additions(&snapshot, "ids"), [b"first"], "byte {at}");
            file.write_all_at(&whole, 0).unwrap();
        }
        // The next one overwrites the torn one, and bytes after it are never read.
        file.set_len(whole.len() as u64 - 1).unwrap();
        snapshot.append_derived("ids", b"2").unwrap().unwrap();
        assert_eq!(additions(&snapshot, "ids"), [&b"first"[..], b"2"]);
        // An addition copied from another offset is not valid.
        snapshot.append_derived("ids", b"first").unwrap().unwrap();
        let copied =
            disk.read(&path, u64::MAX).unwrap()[start as usize - 21..start as usize].to_vec();
        file.write_all_at(&copied, start).unwrap();
        assert_eq!(additions(&snapshot, "ids"), [b"first"]);
    }
}

#[test]
fn it_outlives_changes_but_not_a_new_file() {
    let (Mailbox { vfs, mut model, mut rng, .. }, snapshot) = mailbox(92);
    snapshot.store_derived("threads", b"first").unwrap();
    let changed = change(&snapshot, &mut model, &mut rng);
    for snapshot in [&changed, &open(&vfs, &cache_path())] {
        assert_eq!(all(snapshot, "threads"), Some(b"first".to_vec()));
        assert_eq!(snapshot.derived("threads").unwrap().unwrap().rows_covered(), 20);
    }
    let built = build(&vfs, &cache_path(), &model, &mut rng);
    assert_eq!(all(&built, "threads"), None);
}

/// After a crash the log may have lost the records on which a derived column is based, and the same
/// physical rows refer to other messages.
#[test]
fn it_does_not_outlive_the_records_it_came_from() {
    let (Mailbox { disk, vfs, model, mut rng }, snapshot) = mailbox(93);
    let before = disk.metadata(&cache_path()).unwrap().size;
    let changed = change(&snapshot, &mut model.clone(), &mut rng);
    changed.store_derived("threads", b"of the change").unwrap();
    assert_eq!(all(&changed, "threads"), Some(b"of the change".to_vec()));
    disk.open(&cache_path(), OpenOptions::WRITE).unwrap().set_len(before).unwrap();
    let reopened = open(&vfs, &cache_path());
    assert_eq!(all(&reopened, "threads"), None);
    let otherwise = change(&reopened, &mut model.clone(), &mut rng);
    assert_eq!(all(&otherwise, "threads"), None);
    assert_eq!(all(&open(&vfs, &cache_path()), "threads"), None);
}

#[test]
fn what_only_this_process_knows_is_not_stored() {
    let (Mailbox { vfs, .. }, mut snapshot) = mailbox(94);
    snapshot.detach();
    snapshot.store_derived("threads", b"mine").unwrap();
    assert_eq!(all(&open(&vfs, &cache_path()), "threads"), None);
}
