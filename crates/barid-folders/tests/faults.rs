//! Calls that fail: lack of space, of rights, and errors of the disk.

use std::io::ErrorKind;
use std::sync::Arc;

use barid_folders::{FolderOptions, FolderTree, Layout, Result};
use barid_vfs::{CallKind, Fault, FaultEffect, FaultVfs, MemVfs};

use crate::world::{ROOT, append, create, disk, named, options, seen, tree};

type Change = fn(&FolderTree) -> Result<()>;

fn prepared(layout: Layout) -> MemVfs {
    let disk = disk();
    let tree = tree(&disk, layout);
    for name in ["INBOX", "a", "a/b", "c"] {
        create(&tree, name);
        append(&disk, &tree, name, &name.replace('/', "-"));
        tree.subscribe(&named(&tree, name), true).unwrap();
    }
    disk
}

/// Makes each call of a change fail in turn, once or from then on. Afterwards, on a disk that works
/// again, the tree is as before or as after; a change that succeeded is there.
fn check(layout: Layout, change: Change, error: ErrorKind, forever: bool, faults_min: u64) {
    let before = prepared(layout);
    let expected = seen(&before.snapshot(), &tree(&before.snapshot(), layout));
    let changed = before.snapshot();
    change(&tree(&changed, layout)).unwrap();
    let after = seen(&changed, &tree(&changed, layout));
    let mut faults = 0;
    loop {
        let disk = before.snapshot();
        let mut fault = Fault::nth(faults).with(FaultEffect::Error(error));
        if forever {
            fault = fault.forever();
        }
        let vfs = FaultVfs::new(disk.clone(), fault);
        let mut options = FolderOptions::new(ROOT.into(), options());
        options.layout = Some(layout);
        let result =
            FolderTree::open(Arc::new(vfs.clone()), options).and_then(|tree| change(&tree));
        let mut found = seen(&disk, &tree(&disk, layout));
        // A UIDVALIDITY may be used up by a creation that failed.
        let is_after = same(&found, &after);
        let is_before = same(&found, &expected);
        assert!(
            is_after || is_before && result.is_err(),
            "{layout:?} {faults} {result:?}\n{found:?}"
        );
        if is_before && !is_after {
            change(&tree(&disk, layout)).unwrap();
            found = seen(&disk, &tree(&disk, layout));
            assert!(same(&found, &after), "{layout:?} {faults}");
        }
        if !vfs.fired() {
            break;
        }
        faults += 1;
    }
    assert!(faults >= faults_min, "{faults}");
}

/// Compares without the UIDVALIDITY of the new mailbox.
fn same(found: &crate::world::Seen, expected: &crate::world::Seen) -> bool {
    let plain = |seen: &crate::world::Seen| {
        let mut seen = seen.clone();
        if let Some(content) = seen.contents.get_mut("fresh/x") {
            content.0 = 0;
        }
        seen
    };
    plain(found) == plain(expected)
}

fn check_all(change: Change, faults_min: u64) {
    for layout in [Layout::MaildirPlusPlus, Layout::NestedMaildirs] {
        check(layout, change, ErrorKind::StorageFull, false, faults_min);
        check(layout, change, ErrorKind::StorageFull, true, faults_min);
        check(layout, change, ErrorKind::PermissionDenied, false, faults_min);
    }
}

#[test]
fn creation() {
    check_all(|tree| tree.create(&named(tree, "fresh/x"), false, &[]), 40);
}

#[test]
fn deletion() {
    check_all(|tree| tree.delete(&named(tree, "a")), 40);
}

#[test]
fn renaming() {
    check_all(|tree| tree.rename(&named(tree, "a"), &named(tree, "fresh/a")).map(drop), 40);
}

#[test]
fn subscribing() {
    check_all(|tree| tree.subscribe(&named(tree, "c"), false), 10);
}

/// A full disk leaves nothing of a creation behind.
#[test]
fn a_failed_creation_leaves_nothing() {
    let disk = prepared(Layout::NestedMaildirs);
    let fault = Fault::nth(0).of(CallKind::Name).at("/home/mail/fresh/x/cur").forever();
    let vfs = FaultVfs::new(disk.clone(), fault);
    let mut options = FolderOptions::new(ROOT.into(), options());
    options.layout = Some(Layout::NestedMaildirs);
    let failing = FolderTree::open(Arc::new(vfs), options).unwrap();
    let error = failing.create(&"fresh/x".into(), false, &[]).unwrap_err();
    assert_eq!(error.code(), Some("OVERQUOTA"), "{error}");
    let names: Vec<_> = crate::world::list_all(&tree(&disk, Layout::NestedMaildirs))
        .into_iter()
        .map(|listed| listed.name)
        .collect();
    assert_eq!(names, ["INBOX", "a", "a/b", "c"]);
}
