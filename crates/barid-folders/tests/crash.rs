//! Power failures at every moment of every change of a tree.
//!
//! The environment variable `BARID_CRASH_SEEDS` sets the number of states of the disk that are
//! visited for each crash point (`cargo xtask crash`).

use std::time::Duration;

use barid_folders::{FolderTree, Layout, Renamed, Result};
use barid_vfs::{CrashVfs, MemVfs};

use crate::world::{append, create, disk, layouts, maildir, named, nests, open, seen, trash, tree};

/// Returns the number of states of the disk for each crash point.
fn seeds() -> u64 {
    let given = std::env::var("BARID_CRASH_SEEDS").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(12)
}

type Change<'a> = dyn Fn(&FolderTree) -> Result<()> + 'a;

/// Makes a tree with messages, subscriptions, special uses and metadata.
fn prepared(layout: Layout) -> MemVfs {
    let disk = disk();
    let tree = tree(&disk, layout);
    create(&tree, "INBOX");
    let mut names = vec!["INBOX", "alone", "box"];
    create(&tree, "alone");
    if nests(layout) {
        create(&tree, "box");
        create(&tree, "box/sub");
        create(&tree, "box/sub/deep");
        names.extend(["box/sub", "box/sub/deep"]);
    } else {
        create(&tree, "box/sub");
        create(&tree, "box/low/deep");
        names.retain(|name| *name != "box");
        names.extend(["box/sub", "box/low/deep"]);
    }
    for name in names {
        append(&disk, &tree, name, &format!("one-{}", name.replace('/', "-")));
        append(&disk, &tree, name, &format!("two-{}", name.replace('/', "-")));
        tree.subscribe(&named(&tree, name), true).unwrap();
    }
    let sub = named(&tree, "box/sub");
    tree.set_special_use(&sub, &["\\Drafts".to_owned()]).unwrap();
    let comment = ("/private/comment".to_owned(), Some(b"hello".to_vec()));
    tree.set_metadata(&sub, &[comment]).unwrap();
    disk
}

/// Crashes a change at every point, and compares what is found then with the states before and
/// after. Returns the number of crash points, or the first state that is neither.
fn crash(
    layout: Layout,
    disk: &MemVfs,
    change: &Change<'_>,
    make: fn(&MemVfs) -> CrashVfs,
) -> std::result::Result<usize, String> {
    let before = seen(&disk.snapshot(), &tree(&disk.snapshot(), layout));
    let world = make(disk);
    change(&tree(&world.vfs(), layout)).unwrap();
    let points = world.points();
    let after_disk = world.vfs().snapshot();
    let after = seen(&after_disk, &tree(&after_disk, layout));
    for point in 0..=points {
        for seed in 0..seeds() {
            let found_disk = world.crash_at(point, seed);
            let found = seen(&found_disk, &tree(&found_disk, layout));
            if found != after && (point == points || found != before) {
                return Err(format!(
                    "{layout:?} point {point} of {points} seed {seed}:\n{found:?}\nis not\n\
                     {before:?}\nor\n{after:?}"
                ));
            }
        }
    }
    Ok(points)
}

fn check(layout: Layout, disk: &MemVfs, change: &Change<'_>) -> usize {
    crash(layout, disk, change, CrashVfs::new).unwrap_or_else(|wrong| panic!("{wrong}"))
}

fn check_all(name: &str, points_min: usize, change: &dyn Fn(&FolderTree, bool) -> Result<()>) {
    let mut all = 0;
    for layout in layouts() {
        let disk = prepared(layout);
        let nests = nests(layout);
        all += check(layout, &disk, &|tree| change(tree, nests));
    }
    eprintln!("{name}: {all} crash points, {} seeds each", seeds());
    assert!(all >= points_min, "{name}: {all}");
}

#[test]
fn creation() {
    check_all("creation", 150, &|tree, _| {
        tree.create(&named(tree, "fresh/x/y"), false, &["\\Sent".to_owned()])
    });
}

#[test]
fn deletion() {
    check_all("deletion", 100, &|tree, _| tree.delete(&named(tree, "alone")));
}

#[test]
fn deletion_of_a_mailbox_with_others_below() {
    check_all("deletion of a mailbox with others below", 100, &|tree, nests| {
        tree.delete(&named(tree, if nests { "box/sub" } else { "box/low/deep" }))
    });
}

#[test]
fn renaming_of_a_subtree() {
    check_all("renaming of a subtree", 120, &|tree, _| {
        let renamed = tree.rename(&named(tree, "box"), &named(tree, "fresh/place"))?;
        assert_eq!(renamed, Renamed::Done);
        Ok(())
    });
}

#[test]
fn subscribing() {
    check_all("subscribing", 40, &|tree, _| tree.subscribe(&named(tree, "alone"), false));
}

#[test]
fn properties() {
    check_all("properties", 30, &|tree, _| {
        let entry = ("/shared/comment".to_owned(), Some(vec![7; 3000]));
        tree.set_metadata(&named(tree, "alone"), &[entry])
    });
    check_all("special uses", 30, &|tree, _| {
        tree.set_special_use(&named(tree, "alone"), &["\\Junk".to_owned()])
    });
}

#[test]
fn undoing_a_deletion() {
    let mut all = 0;
    for layout in layouts() {
        for name in ["alone", "box/sub"] {
            let disk = prepared(layout);
            let before = seen(&disk.snapshot(), &tree(&disk.snapshot(), layout));
            let now = tree(&disk, layout);
            now.delete(&named(&now, name)).unwrap();
            all += check(layout, &disk, &|tree| tree.undelete(&named(tree, name)));
            now.undelete(&named(&now, name)).unwrap();
            assert_eq!(seen(&disk, &now), before, "{layout:?} {name}");
        }
    }
    eprintln!("undoing a deletion: {all} crash points, {} seeds each", seeds());
    assert!(all >= 200);
}

#[test]
fn purging() {
    for layout in layouts() {
        let disk = prepared(layout);
        let now = tree(&disk, layout);
        now.delete(&named(&now, "alone")).unwrap();
        let purge: &Change<'_> = &|tree| tree.purge(Duration::ZERO);
        assert!(check(layout, &disk, purge) >= 8, "{layout:?}");
        // What a crash leaves of the files goes with the next purge.
        let world = CrashVfs::new(&disk);
        purge(&tree(&world.vfs(), layout)).unwrap();
        for point in 0..=world.points() {
            let left = world.crash_at(point, 9);
            purge(&tree(&left, layout)).unwrap();
            assert_eq!(trash(&left), [""; 0], "{layout:?} {point}");
        }
    }
}

/// A mailbox that needs another UIDVALIDITY has it before it has the new name.
#[test]
fn renumbering() {
    let layout = Layout::MaildirPlusPlus;
    let disk = disk();
    let now = tree(&disk, layout);
    create(&now, "INBOX");
    for name in [".a", ".b"] {
        maildir(&disk, name, "3 V4000000000 N8 G00000000000000000000000000000001\n7 :one\n");
    }
    now.delete(&"a".into()).unwrap();
    let world = CrashVfs::new(&disk);
    let rename = |tree: &FolderTree| tree.rename(&"b".into(), &"a".into());
    let _ = rename(&tree(&world.vfs(), layout)).unwrap();
    for point in 0..=world.points() {
        for seed in 0..seeds() {
            let disk = world.crash_at(point, seed);
            let found = seen(&disk, &tree(&disk, layout)).contents;
            let (name, (uidvalidity, messages)) =
                found.iter().find(|(n, _)| *n != "INBOX").unwrap();
            assert_eq!((found.len(), messages.len(), messages[0].0), (2, 1, 7));
            assert!(name == "b" && point < world.points() || *uidvalidity == 4_000_000_001);
        }
    }
    eprintln!("renumbering: {} crash points, {} seeds each", world.points(), seeds());
    assert!(world.points() >= 15);
}

/// A recovery that is interrupted goes on at the next try.
#[test]
fn recovery_may_crash_too() {
    let mut points = 0;
    for layout in [Layout::MaildirPlusPlus, Layout::NestedMaildirs] {
        let disk = prepared(layout);
        let before = seen(&disk.snapshot(), &tree(&disk.snapshot(), layout));
        let world = CrashVfs::new(&disk);
        let now = tree(&world.vfs(), layout);
        let _ = now.rename(&named(&now, "box"), &named(&now, "fresh/place")).unwrap();
        let after_disk = world.vfs().snapshot();
        let after = seen(&after_disk, &tree(&after_disk, layout));
        for point in (0..=world.points()).step_by(3) {
            let crashed = world.crash_at(point, 5 + point as u64);
            let recovery = CrashVfs::new(&crashed);
            let _ = tree(&recovery.vfs(), layout).deleted().unwrap();
            for second in (0..=recovery.points()).step_by(2) {
                let left = recovery.crash_at(second, 7 + second as u64);
                let found = seen(&left, &tree(&left, layout));
                assert!(found == before || found == after, "{layout:?} {point} {second}");
                points += 1;
            }
        }
    }
    eprintln!("recovery: {points} crash points");
    assert!(points >= 50);
}

/// Crash tests that pass without barriers would test nothing.
#[test]
fn a_tree_without_barriers_is_caught() {
    let layout = Layout::MaildirPlusPlus;
    let disk = prepared(layout);
    let rename =
        |tree: &FolderTree| tree.rename(&named(tree, "box"), &named(tree, "fresh")).map(drop);
    let found = std::panic::catch_unwind(|| crash(layout, &disk, &rename, CrashVfs::lying));
    // A state file that is torn cannot be read at all.
    assert!(found.is_err() || found.is_ok_and(|found| found.is_err()));
}

/// Nothing of a mailbox is lost while it is open.
#[test]
fn an_open_mailbox_keeps_its_messages() {
    let layout = Layout::MaildirPlusPlus;
    let disk = prepared(layout);
    let now = tree(&disk, layout);
    let mailbox = open(&disk, &now, "alone");
    let _ = now.rename(&named(&now, "alone"), &named(&now, "other")).unwrap();
    assert_eq!(mailbox.status().messages, 2);
    assert_eq!(open(&disk, &now, "other").status().messages, 2);
}
