//! Rewritten columns in an existing file: unchanged parts are not copied, processes that have the
//! file open keep their state, and a writer may be interrupted anywhere.

use std::path::Path;
use std::sync::Arc;

use barid_cache::{Snapshot, verify};
use barid_vfs::{CountingVfs, MemVfs, OpenOptions, Vfs};

use crate::changes::change;
use crate::follow::{Change, Rates, SOME, enlarge, follow, plan};
use crate::world::{
    History, Model, build_as, cache_path, compare, compare_kept, open, options, scan_nothing,
};

/// Offset of the second header page.
const SECOND_PAGE: u64 = 2048;

const ALL: Rates = Rates { expunged: 0, changed: 50, moved: 100, shifted: 10 };
const ONE_IN_TEN_GONE: Rates = Rates { expunged: 10, ..ALL };

/// Returns a disk with the cache of a mailbox of spans.
fn built(messages: usize, kind: (&str, &str), rng: &mut fastrand::Rng) -> (MemVfs, Model) {
    let disk = MemVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut model = Model { spans: true, ..Model::new() };
    model.add(rng, messages, false, 3);
    build_as(&vfs, &cache_path(), &model, rng, &options(kind));
    (disk, model)
}

fn large(model: &mut Model, rng: &mut fastrand::Rng, rates: Rates) -> Change {
    let mut change = plan(model, rng, rates);
    enlarge(&mut change);
    change
}

fn inode(vfs: &Arc<dyn Vfs>) -> u64 {
    vfs.metadata(&cache_path()).unwrap().inode
}

fn len(vfs: &Arc<dyn Vfs>) -> u64 {
    vfs.metadata(&cache_path()).unwrap().size
}

#[test]
fn what_did_not_change_is_neither_read_nor_written() {
    const ROWS: u64 = 9_500;
    // Cores, restated messages, heads and first UIDs.
    const MOST: u64 = ROWS * (96 + 40) + 64 * 1024;
    let mut rng = fastrand::Rng::with_seed(60);
    let (disk, mut model) = built(ROWS as usize, ("native", "none"), &mut rng);
    let counting = CountingVfs::new(disk);
    let vfs: Arc<dyn Vfs> = Arc::new(counting.clone());
    let (known, inode_before) = (open(&vfs, &cache_path()), inode(&vfs));
    let change = plan(&mut model, &mut rng, ALL);
    let before = counting.counts();
    let snapshot = follow(&known, &model, &change).unwrap();
    let bytes = counting.counts().since(&before).bytes_under(Path::new("/cache"));
    assert!(bytes.read <= MOST && bytes.written <= MOST, "{bytes:?}");
    assert_eq!(inode(&vfs), inode_before);
    compare(&snapshot, &model, &mut rng).unwrap();
    compare(&open(&vfs, &cache_path()), &model, &mut rng).unwrap();
}

/// The same file is reused until more of it is unused than used.
#[test]
fn files_do_not_grow_for_ever() {
    let kinds = [("native", "none"), ("native", "zstd:1"), ("memory", "none")];
    for (kind, rates) in kinds.into_iter().flat_map(|kind| [(kind, ALL), (kind, ONE_IN_TEN_GONE)]) {
        let mut rng = fastrand::Rng::with_seed(61);
        let (disk, mut model) = built(1_500, kind, &mut rng);
        let vfs: Arc<dyn Vfs> = Arc::new(disk);
        let (built_len, mut refreshed) = (len(&vfs), 0);
        let mut snapshot = open(&vfs, &cache_path());
        let mut files = vec![inode(&vfs)];
        for step in 0..16 {
            let change = large(&mut model, &mut rng, rates);
            snapshot = follow(&snapshot, &model, &change).unwrap();
            compare(&snapshot, &model, &mut rng).unwrap();
            compare_kept(&snapshot, &model, &mut rng);
            if step % 2 == 0 {
                snapshot = open(&vfs, &cache_path());
                compare(&snapshot, &model, &mut rng).unwrap();
            }
            // Packed columns become longer: the first flags were more alike.
            assert!(len(&vfs) <= built_len * 9 / 4, "{} of {built_len}", len(&vfs));
            match inode(&vfs) {
                inode if files.last() == Some(&inode) => refreshed += 1,
                inode => files.push(inode),
            }
        }
        // Records must be removed from a store if messages are gone.
        let is_copied = kind.0 != "native" && rates.expunged > 0;
        assert_eq!(refreshed > 0, !is_copied, "{kind:?}, {rates:?}");
        assert!(files.len() > 1, "{kind:?}, {rates:?}");
        let report = verify(Arc::clone(&vfs), &cache_path()).unwrap();
        assert_eq!((report.damage, report.messages), (None, model.messages.len() as u32));
    }
}

/// A log of repeated changes of the same messages is compacted in the file.
#[test]
fn a_long_log_is_compacted_in_place() {
    let mut rng = fastrand::Rng::with_seed(62);
    let (disk, mut model) = built(12_000, ("native", "none"), &mut rng);
    let vfs: Arc<dyn Vfs> = Arc::new(disk);
    let mut snapshot = open(&vfs, &cache_path());
    let (inode_before, generation) = (inode(&vfs), snapshot.meta().generation);
    let rates = Rates { changed: 20, ..Rates::default() };
    let mut before = (snapshot.clone(), model.clone());
    while snapshot.meta().generation == generation {
        before = (snapshot.clone(), model.clone());
        let change = plan(&mut model, &mut rng, rates);
        snapshot = follow(&snapshot, &model, &change).unwrap();
        assert!(snapshot.store_error().is_none());
    }
    compare(&snapshot, &model, &mut rng).unwrap();
    compare(&open(&vfs, &cache_path()), &model, &mut rng).unwrap();
    assert_eq!(inode(&vfs), inode_before);

    // Another process, whose log is as long, does not compact again.
    let ((late, mut then), len_before) = (before, len(&vfs));
    let change = plan(&mut then, &mut rng, Rates { changed: 30, ..rates });
    compare(&follow(&late, &then, &change).unwrap(), &then, &mut rng).unwrap();
    assert_eq!(len(&vfs), len_before);
    compare(&open(&vfs, &cache_path()), &model, &mut rng).unwrap();
}

/// A process that has the file open continues to read by its old page, and does not write.
#[test]
fn who_has_the_file_open_is_not_disturbed() {
    let mut rng = fastrand::Rng::with_seed(63);
    let (disk, mut model) = built(2_000, ("native", "none"), &mut rng);
    let vfs: Arc<dyn Vfs> = Arc::new(disk);
    let mut readers: Vec<(Snapshot, Model)> = vec![(open(&vfs, &cache_path()), model.clone())];
    let inode_before = inode(&vfs);
    for rates in [ALL, ONE_IN_TEN_GONE] {
        let known = open(&vfs, &cache_path());
        let change = large(&mut model, &mut rng, rates);
        follow(&known, &model, &change).unwrap();
        readers.push((open(&vfs, &cache_path()), model.clone()));
    }
    assert_eq!(inode(&vfs), inode_before);
    let gone = 2_000 - model.messages.len() as u64;
    assert!(gone > 0);
    let (last, _) = readers.pop().unwrap();
    assert_eq!(last.figures().unwrap().stale_records, gone);
    for (reader, then) in readers {
        compare(&reader, &then, &mut rng).unwrap();
        let mut history = History(vec![then]);
        let detached = scan_nothing(&reader, &mut history, &mut rng);
        compare(&detached, history.0.last().unwrap(), &mut rng).unwrap();
        let mut after = history.0.last().unwrap().clone();
        let change = large(&mut after, &mut rng, ALL);
        assert!(follow(&reader, &after, &change).is_err());
        compare(&open(&vfs, &cache_path()), &model, &mut rng).unwrap();
    }
}

/// An interrupted write of a page leaves the page before it valid, and later writes are not
/// affected by the torn page.
#[test]
fn a_torn_page_does_not_count() {
    let mut rng = fastrand::Rng::with_seed(64);
    for at in [0, 12, 16, 200, 376, 600] {
        let (disk, before) = built(300, ("native", "none"), &mut rng);
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let mut after = before.clone();
        let change_made = large(&mut after, &mut rng, SOME);
        follow(&open(&vfs, &cache_path()), &after, &change_made).unwrap();
        compare(&open(&vfs, &cache_path()), &after, &mut rng).unwrap();
        let file = disk.open(&cache_path(), OpenOptions::WRITE).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, SECOND_PAGE + at).unwrap();
        file.write_all_at(&[!byte[0]], SECOND_PAGE + at).unwrap();

        let mut model = before;
        let mut snapshot = open(&vfs, &cache_path());
        compare(&snapshot, &model, &mut rng).unwrap();
        model.step += 100;
        for _ in 0..3 {
            snapshot = change(&snapshot, &mut model, &mut rng);
            assert!(snapshot.store_error().is_none());
            compare(&open(&vfs, &cache_path()), &model, &mut rng).unwrap();
        }
        let change_made = large(&mut model, &mut rng, SOME);
        follow(&snapshot, &model, &change_made).unwrap();
        compare(&open(&vfs, &cache_path()), &model, &mut rng).unwrap();
        assert_eq!(verify(Arc::clone(&vfs), &cache_path()).unwrap().damage, None);
    }
}
