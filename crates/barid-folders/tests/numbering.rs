//! UIDVALIDITYs of names over time (RFC 9051 §6.3.4 to §6.3.6).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use barid_folders::{FolderTree, Layout};
use barid_vfs::{Host as _, MemVfs, Timestamp, Vfs};

use crate::world::{
    ROOT, append, content, create, disk, layouts, maildir, named, nests, selectable, tree, write,
};

/// `imaptest`'s scripts `uidvalidity` and `uidvalidity-rename`, on every layout and within one
/// second.
#[test]
fn names_never_show_other_messages_under_a_uidvalidity() {
    for layout in layouts() {
        let disk = disk();
        let tree = tree(&disk, layout);
        for name in ["box", "box2"] {
            create(&tree, name);
            append(&disk, &tree, name, name);
        }
        let (first, _) = content(&disk, &tree, "box");
        let _ = tree.rename(&"box".into(), &"box3".into()).unwrap();
        let _ = tree.rename(&"box2".into(), &"box".into()).unwrap();
        let (second, _) = content(&disk, &tree, "box");
        assert_ne!(first, second, "{layout:?}");
        tree.delete(&"box".into()).unwrap();
        create(&tree, "box");
        append(&disk, &tree, "box", "new");
        let (third, _) = content(&disk, &tree, "box");
        assert!(third > first.max(second), "{layout:?}");
    }
}

/// Random changes: a pair of name and UIDVALIDITY always means the same messages, and a mailbox
/// that is created has a UIDVALIDITY above all that its name has had.
#[test]
fn a_name_and_a_uidvalidity_mean_the_same_messages() {
    let mut compared = 0;
    for (number, layout) in layouts().into_iter().enumerate() {
        let disk = disk();
        let tree = tree(&disk, layout);
        let mut random = fastrand::Rng::with_seed(number as u64);
        let mut history = History::default();
        for step in 0..150 {
            change(&disk, &tree, &mut random, step);
            for name in selectable(&tree) {
                if tree.spec_of(&named(&tree, &name)).is_ok() {
                    let (uidvalidity, messages) = content(&disk, &tree, &name);
                    compared += history.check(&name, uidvalidity, &messages);
                }
            }
            if random.u32(..4) == 0 {
                disk.sleep(Duration::from_millis(700));
            }
        }
    }
    eprintln!("names and UIDVALIDITYs: {compared} messages compared");
    assert!(compared > 5000);
}

/// Texts by name, UIDVALIDITY and UID.
#[derive(Default)]
struct History(BTreeMap<(String, u32), BTreeMap<u32, String>>);

impl History {
    fn check(&mut self, name: &str, uidvalidity: u32, messages: &[(u32, String)]) -> usize {
        let known = self.0.entry((name.to_owned(), uidvalidity)).or_default();
        for (uid, text) in messages {
            let known = known.entry(*uid).or_insert_with(|| text.clone());
            assert_eq!(known, text, "{name} {uidvalidity} {uid}");
        }
        messages.len()
    }
}

fn change(disk: &MemVfs, tree: &FolderTree, random: &mut fastrand::Rng, step: u32) {
    let names = ["a", "b", "a/x", "b/x", "c"];
    let name = |random: &mut fastrand::Rng| names[random.usize(..names.len())];
    let (one, other) = (name(random), name(random));
    match random.u32(..6) {
        0 => drop(tree.create(&named(tree, one), false, &[])),
        1 => drop(tree.delete(&named(tree, one))),
        2 => drop(tree.rename(&named(tree, one), &named(tree, other))),
        3 => drop(tree.undelete(&named(tree, one))),
        _ => {
            let existing = selectable(tree);
            let existing: Vec<_> = existing.iter().filter(|name| *name != "INBOX").collect();
            if !existing.is_empty() {
                let target = existing[random.usize(..existing.len())];
                append(disk, tree, target, &format!("text-{step}"));
            }
        }
    }
}

/// Mailboxes of other programs may have any UIDVALIDITY.
#[test]
fn uidvalidities_of_other_programs_count() {
    let (disk, layout) = (disk(), Layout::MaildirPlusPlus);
    let tree = tree(&disk, layout);
    create(&tree, "INBOX");
    for name in [".a", ".b", ".c"] {
        maildir(&disk, name, "3 V4000000000 N8 G00000000000000000000000000000001\n7 :one\n");
    }
    let (uidvalidity, messages) = content(&disk, &tree, "a");
    assert_eq!((uidvalidity, messages[0].0), (4_000_000_000, 7));
    tree.delete(&"a".into()).unwrap();
    // The second of the name has another UIDVALIDITY, and keeps its UIDs.
    let _ = tree.rename(&"b".into(), &"a".into()).unwrap();
    let (renumbered, messages) = content(&disk, &tree, "a");
    assert_eq!((renumbered, messages[0].0), (4_000_000_001, 7));
    // A name that was not in use does not need one.
    let _ = tree.rename(&"c".into(), &"d".into()).unwrap();
    assert_eq!(content(&disk, &tree, "d").0, 4_000_000_000);
    create(&tree, "c");
    assert_eq!(content(&disk, &tree, "c").0, 4_000_000_002);
}

#[test]
fn an_mbox_cannot_be_given_another_uidvalidity() {
    let disk = disk();
    let layout = layouts().into_iter().find(|layout| !nests(*layout)).unwrap();
    let tree = tree(&disk, layout);
    disk.create_dir_all(Path::new(ROOT), 0o700).unwrap();
    for name in ["a", "b"] {
        let text = "From x Thu Jan  1 00:00:00 1970\nX-IMAPbase: 77 0000000003\nX-UID: 3\n\nb\n";
        write(&disk, &Path::new(ROOT).join(name), text);
    }
    tree.delete(&"a".into()).unwrap();
    let refused = tree.rename(&"b".into(), &"a".into()).unwrap_err();
    assert_eq!(refused.code(), Some("CANNOT"));
    assert_eq!(content(&disk, &tree, "b").0, 77);
}

/// The record of Dovecot is read and raised.
#[test]
fn dovecots_record_is_kept() {
    let (disk, layout) = (disk(), Layout::MaildirPlusPlus);
    let tree = tree(&disk, layout);
    disk.create_dir_all(Path::new(ROOT), 0o700).unwrap();
    let later = disk.now().unix_seconds() as u32 + 1000;
    write(&disk, &Path::new(ROOT).join("dovecot-uidvalidity"), &format!("{later:08x}"));
    write(&disk, &Path::new(ROOT).join(format!("dovecot-uidvalidity.{later:08x}")), "");
    create(&tree, "a");
    assert_eq!(content(&disk, &tree, "a").0, later + 1);
    let record = disk.read(&Path::new(ROOT).join("dovecot-uidvalidity"), 99).unwrap();
    assert_eq!(record, format!("{:08x}", later + 1).as_bytes());
}

/// UIDVALIDITYs rise although the clock is set back.
#[test]
fn the_clock_may_be_set_back() {
    for layout in layouts() {
        let disk = disk();
        let tree = tree(&disk, layout);
        let mut seen = BTreeSet::new();
        for hours in 0..5 {
            create(&tree, "a");
            let uidvalidity = content(&disk, &tree, "a").0;
            assert!(seen.last().is_none_or(|last| *last < uidvalidity), "{layout:?}");
            seen.insert(uidvalidity);
            tree.delete(&"a".into()).unwrap();
            let earlier = disk.now().unix_nanos - hours * 3_600_000_000_000;
            disk.set_now(Timestamp { unix_nanos: earlier });
        }
    }
}

/// Without extended attributes a renamed mailbox may get new UIDs, but never those of another.
#[test]
fn file_systems_without_attributes_do() {
    for layout in layouts() {
        let disk = disk();
        disk.set_xattrs(false);
        let tree = tree(&disk, layout);
        let mut history = History::default();
        let mut look = |name: &str| {
            let (uidvalidity, messages) = content(&disk, &tree, name);
            history.check(name, uidvalidity, &messages);
            messages.len()
        };
        for name in ["a", "b"] {
            create(&tree, name);
            append(&disk, &tree, name, &format!("first-{name}"));
            append(&disk, &tree, name, &format!("second-{name}"));
            look(name);
        }
        tree.delete(&"b".into()).unwrap();
        let _ = tree.rename(&"a".into(), &"b".into()).unwrap();
        assert_eq!(look("b"), 2, "{layout:?}");
        create(&tree, "a");
        append(&disk, &tree, "a", "third");
        assert_eq!(look("a"), 1);
        tree.delete(&"b".into()).unwrap();
        tree.undelete(&"b".into()).unwrap();
        assert_eq!(look("b"), 2);
    }
}
