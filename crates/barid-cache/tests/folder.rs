//! The folder of caches.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use barid_cache::{Builder, CacheDir, CacheOptions, Finish, file_name};
use barid_state::Identity;
use barid_vfs::{MemVfs, OpenOptions, Vfs};

use crate::world::{Model, finish, options, scan};

fn folder() -> (Arc<dyn Vfs>, CacheDir) {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let mut rng = fastrand::Rng::with_seed(80);
    for id in [3, 7] {
        let mut model = Model::new();
        model.add(&mut rng, 10 * id as usize, false, 1);
        let identity = Identity { id, path: PathBuf::from(format!("/mail/{id}")), inode: 5 };
        let builder =
            Builder::create(Arc::clone(&vfs), &path(id), &CacheOptions::default()).unwrap();
        let new_uids = scan(&builder, &model.messages, &mut rng);
        let report = barid_mailbox::ScanReport { new_uids, ..model.report() };
        let finish = Finish { identity: &identity, ..finish(&identity, 1) };
        let snapshot = builder.finish(&report, &finish).unwrap();
        snapshot.store_derived("sort-date", &[1; 100]).unwrap();
    }
    put(&vfs, "notes.txt");
    let dir = CacheDir::new(Arc::clone(&vfs), Path::new("/caches"));
    (vfs, dir)
}

fn path(id: u128) -> PathBuf {
    Path::new("/caches").join(file_name(id))
}

fn put(vfs: &Arc<dyn Vfs>, name: &str) {
    let path = Path::new("/caches").join(name);
    vfs.open(&path, OpenOptions::create(0o600)).unwrap().write_all_at(b"x", 0).unwrap();
}

fn names(vfs: &Arc<dyn Vfs>) -> Vec<String> {
    let mut names = Vec::new();
    let dir = vfs.open_dir(Path::new("/caches")).unwrap();
    dir.list(&mut |name, _| names.push(String::from_utf8(name.to_vec()).unwrap())).unwrap();
    names.sort();
    names
}

#[test]
fn caches_are_listed() {
    let (vfs, dir) = folder();
    put(&vfs, &file_name(9));
    let entries = dir.list().unwrap();
    assert_eq!(entries.iter().map(|entry| entry.id).collect::<Vec<_>>(), [3, 7, 9]);
    let content = entries[1].content.as_ref().unwrap();
    assert_eq!((&*content.mailbox, content.messages), (Path::new("/mail/7"), 70));
    assert_eq!((&*content.format, content.inode), ("mboxrd", 5));
    assert_eq!(entries[2].content, Err("shorter than a header page"));
    let size = |path: &Path| vfs.metadata(path).unwrap().size;
    assert!(entries[0].bytes > size(&path(3)));
    let bytes: u64 = entries.iter().map(|entry| entry.bytes).sum();
    assert_eq!(dir.total_bytes().unwrap(), bytes);
}

#[test]
fn what_is_gone_or_no_use_is_pruned() {
    let (vfs, dir) = folder();
    put(&vfs, &file_name(9));
    put(&vfs, &format!("{}.sort-date", file_name(11)));
    put(&vfs, &format!("{}.tmp0000000000000000", file_name(7)));
    let kept = dir.prune(&|content| content.mailbox == Path::new("/mail/3")).unwrap();
    assert_eq!((kept.caches, kept.files), (2, 4));
    let temporary = format!("{}.tmp0000000000000000", file_name(7));
    let seven = [file_name(7), format!("{}.sort-date", file_name(7)), temporary];
    assert_eq!(names(&vfs), [&seven[..], &["notes.txt".to_owned()]].concat());
    // A writer may still be writing a young file.
    vfs.sleep(Duration::from_secs(4000));
    assert_eq!(dir.prune(&|_| false).unwrap().files, 1);
    assert_eq!(names(&vfs), [&seven[..2], &["notes.txt".to_owned()]].concat());
}

#[test]
fn clearing_leaves_what_is_not_ours() {
    let (vfs, dir) = folder();
    let cleared = dir.clear().unwrap();
    assert_eq!((cleared.caches, cleared.files), (2, 4));
    assert_eq!(names(&vfs), ["notes.txt"]);
    assert_eq!((dir.list().unwrap(), dir.total_bytes().unwrap()), (Vec::new(), 0));
}

#[test]
fn a_folder_that_is_missing_is_empty() {
    let dir = CacheDir::new(Arc::new(MemVfs::new()), Path::new("/none"));
    assert_eq!((dir.list().unwrap(), dir.clear().unwrap()), Default::default());
}

#[test]
fn stores_belong_to_their_caches() {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    let mut rng = fastrand::Rng::with_seed(81);
    let mut model = Model::new();
    model.add(&mut rng, 50, false, 1);
    let kind = options(("memory", "lz4"));
    for id in [3, 7] {
        let identity = Identity { id, path: PathBuf::from(format!("/mail/{id}")), inode: 5 };
        let builder = Builder::create(Arc::clone(&vfs), &path(id), &kind).unwrap();
        let new_uids = scan(&builder, &model.messages, &mut rng);
        let report = barid_mailbox::ScanReport { new_uids, ..model.report() };
        builder.finish(&report, &finish(&identity, 1)).unwrap();
    }
    let dir = CacheDir::new(Arc::clone(&vfs), Path::new("/caches"));
    let entries = dir.list().unwrap();
    let content = entries[0].content.as_ref().unwrap();
    assert_eq!(content.options, kind);
    assert!(content.stored_bytes > 0 && content.stored_bytes < content.raw_bytes);
    assert!(entries[0].bytes > vfs.metadata(&path(3)).unwrap().allocated);
    // A file that no cache names may be unfinished; later it counts as left behind.
    let orphan = format!("{}.00000000000000aa.rocksdb", file_name(3));
    vfs.create_dir(&Path::new("/caches").join(&orphan), 0o700).unwrap();
    put(&vfs, &format!("{orphan}/000001.sst"));
    put(&vfs, &format!("{}.00000000000000ab.lmdb", file_name(5)));
    let before = names(&vfs).len();
    assert_eq!(dir.prune(&|_| false).unwrap().files, 0);
    vfs.sleep(Duration::from_secs(4000));
    let pruned = dir.prune(&|content| content.mailbox == Path::new("/mail/7")).unwrap();
    assert_eq!(pruned.caches, 1);
    assert!(pruned.files >= 4, "{pruned:?}");
    let left = names(&vfs);
    assert!(left.len() < before && left.iter().all(|name| name.starts_with(&file_name(3))));
    assert!(left.iter().any(|name| name.ends_with(".memory")));
    dir.clear_one(3).unwrap();
    assert_eq!(names(&vfs), Vec::<String>::new());
}
