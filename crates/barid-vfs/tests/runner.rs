//! The tests that every file system of this crate has to pass.
#![expect(clippy::unwrap_used, reason = "tests")]

mod conformance;
mod interrupted;
mod locking;
mod model;
mod owners;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_vfs::{CountingVfs, CrashVfs, FileType, MemVfs, OsVfs, Vfs};

/// Runs a test in an empty directory of every file system.
fn each(name: &str, test: impl Fn(&Arc<dyn Vfs>, &Path)) {
    let base = std::env::temp_dir().join(format!("barid-vfs-{}-{name}", std::process::id()));
    let mut worlds: Vec<(Arc<dyn Vfs>, PathBuf)> = vec![(Arc::new(OsVfs), base)];
    let dir = PathBuf::from("/dir");
    worlds.push((Arc::new(MemVfs::new()), dir.clone()));
    worlds.push((Arc::new(CountingVfs::new(MemVfs::new())), dir.clone()));
    worlds.push((Arc::new(CrashVfs::new(&MemVfs::new()).vfs()), dir));
    for (vfs, dir) in worlds {
        vfs.create_dir(&dir, 0o700).unwrap();
        let canonical = vfs.canonicalize(&dir).unwrap();
        test(&vfs, &canonical);
        remove_all(vfs.as_ref(), &dir);
    }
}

fn remove_all(vfs: &dyn Vfs, root: &Path) {
    let mut dirs = vec![root.to_owned()];
    let mut at = 0;
    while let Some(dir) = dirs.get(at).cloned() {
        let mut files = Vec::new();
        let listed = vfs.open_dir(&dir).unwrap().list(&mut |name, file_type| {
            let path = dir.join(String::from_utf8_lossy(name).as_ref());
            if file_type == FileType::Dir { &mut dirs } else { &mut files }.push(path);
        });
        listed.unwrap();
        files.iter().for_each(|file| vfs.remove_file(file).unwrap());
        at += 1;
    }
    dirs.iter().rev().for_each(|dir| vfs.remove_dir(dir).unwrap());
}

fn names(vfs: &dyn Vfs, dir: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let listed = vfs.open_dir(dir).unwrap().list(&mut |name, _| {
        assert!(names.insert(String::from_utf8_lossy(name).into_owned()), "listed twice");
    });
    listed.unwrap();
    names
}

#[test]
fn every_file_of_tests_is_run() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let found = names(&OsVfs, &dir);
    assert_eq!(
        found.into_iter().collect::<Vec<_>>(),
        ["conformance.rs", "interrupted.rs", "locking.rs", "model.rs", "owners.rs", "runner.rs"]
    );
}
