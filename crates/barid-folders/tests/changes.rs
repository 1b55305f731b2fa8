//! Changes of trees of every layout, and what is seen of them afterwards.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use barid_folders::{Error, FolderOptions, FolderTree, Renamed, Result};
use barid_vfs::{CallKind, Fault, FaultEffect, FaultVfs, OpenOptions, Vfs};

use crate::world::{
    ROOT, append, content, create, disk, layouts, list_all, named, nests, seen, selectable, trash,
    tree, tree_with,
};

/// Returns the response code of an error.
fn code<T: std::fmt::Debug>(result: Result<T>) -> &'static str {
    result.unwrap_err().code().unwrap_or("none")
}

fn delete(tree: &FolderTree, name: &str) {
    tree.delete(&named(tree, name)).unwrap();
}

fn rename(tree: &FolderTree, from: &str, to: &str) -> Result<Renamed> {
    tree.rename(&named(tree, from), &named(tree, to))
}

#[test]
fn mailboxes_are_created() {
    for layout in layouts() {
        let disk = disk();
        let tree = tree(&disk, layout);
        assert_eq!(selectable(&tree), ["INBOX"], "it is listed before it exists");
        create(&tree, "INBOX");
        assert_eq!(code(tree.create(&"inbox".into(), false, &[])), "ALREADYEXISTS");
        create(&tree, "a/b/c");
        create(&tree, "Entwürfe & mehr");
        create(&tree, "INBOX/below");
        assert_eq!(
            selectable(&tree),
            ["INBOX", "Entwürfe & mehr", "INBOX/below", "a/b/c"],
            "{layout:?}"
        );
        assert_eq!(code(tree.create(&named(&tree, "a/b/c"), false, &[])), "ALREADYEXISTS");
        let all = list_all(&tree);
        let parent = all.iter().find(|listed| listed.name == "a").unwrap();
        assert!(parent.has_children && !parent.is_selectable && parent.may_have_children);
        let inbox = &all[0];
        assert!(inbox.has_children && inbox.exists && inbox.is_selectable);
        let leaf = all.iter().find(|listed| listed.name.ends_with('c')).unwrap();
        assert_eq!(leaf.may_have_children, nests(layout));
        for name in ["a/b/c", "INBOX", "INBOX/below", "Entwürfe & mehr"] {
            assert_eq!(append(&disk, &tree, name, "x").get(), 1, "{layout:?}");
        }
        if nests(layout) {
            create(&tree, "a");
            create(&tree, "a/b/c/d");
        } else {
            assert_eq!(code(tree.create(&named(&tree, "a"), false, &[])), "ALREADYEXISTS");
            assert_eq!(code(tree.create(&named(&tree, "a/b/c/d"), false, &[])), "CANNOT");
        }
    }
}

/// A trailing separator asks for a folder only where mailboxes cannot be folders, too.
#[test]
fn a_name_may_end_with_the_separator() {
    for layout in layouts() {
        let disk = disk();
        let tree = tree(&disk, layout);
        let with_separator = named(&tree, "box/");
        tree.create(&with_separator, true, &[]).unwrap();
        assert_eq!(selectable(&tree).contains(&"box".to_owned()), nests(layout), "{layout:?}");
        assert_eq!(tree.spec_of(&with_separator).is_ok(), nests(layout));
        assert!(list_all(&tree).iter().any(|listed| listed.name == "box"));
        create(&tree, "box/x");
        tree.subscribe(&named(&tree, "box/x/"), true).unwrap();
        assert!(list_all(&tree).iter().any(|listed| listed.is_subscribed));
        let _ = rename(&tree, "box/", "other/").unwrap();
        tree.delete(&named(&tree, "other/x/")).unwrap();
        tree.delete(&with_separator).unwrap_err();
        tree.delete(&named(&tree, "other/")).unwrap();
        assert_eq!(selectable(&tree), ["INBOX"], "{layout:?}");
    }
}

#[test]
fn a_subtree_is_renamed_with_uids_and_properties() {
    for layout in layouts() {
        let disk = disk();
        let tree = tree(&disk, layout);
        let top = if nests(layout) { "box" } else { "box/top" };
        for name in [top, "box/sub", "box/sub2/deep", "boxes"] {
            create(&tree, name);
            append(&disk, &tree, name, name);
            append(&disk, &tree, name, "more");
        }
        let sub = named(&tree, "box/sub");
        tree.set_special_use(&sub, &["\\sent".to_owned()]).unwrap();
        let entry = ("/private/Comment".to_owned(), Some(b"text".to_vec()));
        tree.set_metadata(&sub, &[entry]).unwrap();
        tree.subscribe(&sub, true).unwrap();
        let before = seen(&disk, &tree);
        assert_eq!(rename(&tree, "box", "new name/box").unwrap(), Renamed::Done);
        let after = seen(&disk, &tree);
        assert_eq!(after.contents.len(), before.contents.len());
        for (name, content) in &before.contents {
            let new = match name.strip_prefix("box/").or((name == "box").then_some("")) {
                Some("") => "new name/box".to_owned(),
                Some(rest) => format!("new name/box/{rest}"),
                None => name.clone(),
            };
            assert_eq!(after.contents.get(&new), Some(content), "{layout:?} {name}");
        }
        let moved = named(&tree, "new name/box/sub");
        assert_eq!(tree.special_use(&moved).unwrap(), ["\\Sent"]);
        assert_eq!(tree.metadata(&moved).unwrap()[0].0, "/private/comment");
        assert_eq!(after.subscribed, before.subscribed, "a subscription is by name");
        assert!(tree.special_use(&sub).is_err());
        let _ = rename(&tree, "new name/box", "box").unwrap();
        assert_eq!(seen(&disk, &tree).contents, before.contents, "{layout:?}");
    }
}

#[test]
fn renames_that_cannot_be_are_refused() {
    for layout in layouts() {
        let disk = disk();
        let tree = tree(&disk, layout);
        for name in ["INBOX", "a/x", "b/x", "c"] {
            create(&tree, name);
            append(&disk, &tree, name, name);
        }
        let before = seen(&disk, &tree);
        for (from, to, expected) in [
            ("nothing", "d", "NONEXISTENT"),
            ("c", "INBOX", "ALREADYEXISTS"),
            ("c", "a/x", "ALREADYEXISTS"),
            ("c", "c", "ALREADYEXISTS"),
            ("a", "b", "ALREADYEXISTS"),
            ("a", "a/b", "CANNOT"),
            ("a", "~a", "CANNOT"),
            ("a/x", "a", "ALREADYEXISTS"),
            ("nothing", "INBOX", "ALREADYEXISTS"),
        ] {
            // In Maildir++, a name that only begins others is free.
            let is_free = !nests_in_folders(&tree) && (from, to) == ("a/x", "a");
            if !is_free {
                assert_eq!(code(rename(&tree, from, to)), expected, "{layout:?} {from} {to}");
            }
        }
        let long = "z".repeat(256);
        assert_eq!(code(rename(&tree, "a", &format!("b/{long}"))), "CANNOT");
        assert_eq!(seen(&disk, &tree), before, "{layout:?}");
    }
}

fn nests_in_folders(tree: &FolderTree) -> bool {
    tree.separator() == '/'
}

/// Upper levels are renamed first, so that the new names are free in time.
#[test]
fn a_subtree_is_renamed_to_the_name_above_it() {
    let disk = disk();
    let tree = tree(&disk, layouts()[0]);
    for name in ["a/b", "a/b/b", "a/b/b/b", "a/b/x"] {
        create(&tree, name);
        append(&disk, &tree, name, name);
    }
    let _ = rename(&tree, "a/b", "a").unwrap();
    let found: Vec<_> = seen(&disk, &tree)
        .contents
        .into_iter()
        .map(|(name, (_, messages))| (name, messages[0].1.clone()))
        .collect();
    let expected = [("a", "a/b"), ("a/b", "a/b/b"), ("a/b/b", "a/b/b/b"), ("a/x", "a/b/x")];
    assert_eq!(found, expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
}

#[test]
fn inbox_keeps_its_name() {
    for layout in layouts() {
        let disk = disk();
        let tree = tree(&disk, layout);
        assert_eq!(code(rename(&tree, "INBOX", "old")), "NONEXISTENT");
        create(&tree, "INBOX");
        create(&tree, "INBOX/below");
        append(&disk, &tree, "INBOX", "x");
        let Renamed::MoveMessages { from, to } = rename(&tree, "inbox", "old/mail").unwrap() else {
            panic!("{layout:?}");
        };
        assert_eq!(from, tree.spec_of(&"INBOX".into()).unwrap());
        assert_eq!(to, tree.spec_of(&named(&tree, "old/mail")).unwrap());
        assert_eq!(selectable(&tree), ["INBOX", "INBOX/below", "old/mail"]);
        assert_eq!(code(rename(&tree, "INBOX", "old/mail")), "ALREADYEXISTS");
        assert_eq!(code(tree.delete(&"Inbox".into())), "CANNOT");
    }
}

#[test]
fn a_deleted_mailbox_comes_back_with_its_uids() {
    for layout in layouts() {
        let disk = disk();
        let tree = tree(&disk, layout);
        create(&tree, "a/b");
        append(&disk, &tree, "a/b", "one");
        append(&disk, &tree, "a/b", "two");
        let name = named(&tree, "a/b");
        tree.set_special_use(&name, &["\\Trash".to_owned()]).unwrap();
        tree.set_metadata(&name, &[("/private/x".to_owned(), Some(vec![1]))]).unwrap();
        tree.subscribe(&name, true).unwrap();
        let before = seen(&disk, &tree);
        delete(&tree, "a/b");
        assert_eq!(code(tree.delete(&name)), "NONEXISTENT");
        assert_eq!(code(tree.spec_of(&name)), "NONEXISTENT");
        assert_eq!(tree.deleted().unwrap().len(), 1);
        assert_eq!(tree.deleted().unwrap()[0].name, name.0);
        assert_eq!(seen(&disk, &tree).subscribed, before.subscribed);
        // Another one of the name, deleted as well, is brought back first.
        create(&tree, "a/b");
        append(&disk, &tree, "a/b", "other");
        assert!(tree.metadata(&name).unwrap().is_empty());
        let other = content(&disk, &tree, "a/b");
        assert_eq!(code(tree.undelete(&name)), "ALREADYEXISTS");
        delete(&tree, "a/b");
        tree.undelete(&name).unwrap();
        assert_eq!(content(&disk, &tree, "a/b"), other, "{layout:?}");
        delete(&tree, "a/b");
        tree.purge(Duration::ZERO).unwrap();
        assert_eq!(code(tree.undelete(&name)), "NONEXISTENT");
        assert_eq!(tree.deleted().unwrap(), []);
    }
}

#[test]
fn deleted_mailboxes_are_kept_for_a_time() {
    for layout in layouts() {
        let disk = disk();
        let tree = tree_with(&disk, |options| {
            options.layout = Some(layout);
            options.keep_deleted = Duration::from_secs(100);
        });
        for name in ["a", "b"] {
            create(&tree, name);
            append(&disk, &tree, name, "x");
            delete(&tree, name);
            barid_vfs::Host::sleep(&disk, Duration::from_secs(60));
        }
        create(&tree, "c");
        delete(&tree, "c");
        let kept: Vec<_> = tree.deleted().unwrap().into_iter().map(|kept| kept.name).collect();
        assert_eq!(kept, ["b", "c"], "{layout:?}");
        assert_eq!(code(tree.undelete(&"a".into())), "NONEXISTENT");
        assert_eq!(trash(&disk).len(), 2, "{layout:?}");
        tree.undelete(&"b".into()).unwrap();
        assert_eq!(content(&disk, &tree, "b").1[0].1, "x");
        assert_eq!(trash(&disk).len(), 1);
    }
}

#[test]
fn a_mailbox_with_others_below_loses_its_content_only() {
    for layout in layouts().into_iter().filter(|layout| nests(*layout)) {
        let disk = disk();
        let tree = tree(&disk, layout);
        for name in ["a", "a/b", "a/b/c"] {
            create(&tree, name);
            append(&disk, &tree, name, name);
        }
        let before = seen(&disk, &tree);
        delete(&tree, "a/b");
        let all = list_all(&tree);
        let middle = all.iter().find(|listed| listed.name.ends_with('b')).unwrap();
        assert!(!middle.is_selectable && middle.has_children, "{layout:?}");
        assert_eq!(selectable(&tree), ["INBOX", "a", "a/b/c"]);
        let again = code(tree.delete(&named(&tree, "a/b")));
        // RFC 9051 §6.3.5; Dovecot answers as for any name that is not a mailbox.
        let expected = if nests_in_folders(&tree) { "HASCHILDREN" } else { "NONEXISTENT" };
        assert_eq!(again, expected, "{layout:?}");
        assert_eq!(seen(&disk, &tree).contents["a/b/c"], before.contents["a/b/c"]);
        tree.undelete(&named(&tree, "a/b")).unwrap();
        assert_eq!(seen(&disk, &tree), before, "{layout:?}");
        // In place of the deleted one another may be created; it is a mailbox of its own.
        delete(&tree, "a/b");
        create(&tree, "a/b");
        append(&disk, &tree, "a/b", "new");
        let (uidvalidity, messages) = content(&disk, &tree, "a/b");
        assert!(uidvalidity > before.contents["a/b"].0);
        assert_eq!(messages, [(1, "new".to_owned())]);
        assert_eq!(code(tree.undelete(&named(&tree, "a/b"))), "ALREADYEXISTS");
        // A mailbox comes back although a folder has its name, because others are below it now.
        tree.purge(Duration::ZERO).unwrap();
        let c = content(&disk, &tree, "a/b/c");
        delete(&tree, "a/b/c");
        create(&tree, "a/b/c/d");
        tree.undelete(&named(&tree, "a/b/c")).unwrap();
        assert_eq!(content(&disk, &tree, "a/b/c"), c, "{layout:?}");
        delete(&tree, "a/b/c/d");
        // What was below goes as well, and the folder that is left.
        delete(&tree, "a/b");
        delete(&tree, "a/b/c");
        if nests_in_folders(&tree) {
            delete(&tree, "a/b");
        }
        assert_eq!(selectable(&tree), ["INBOX", "a"]);
        assert_eq!(list_all(&tree).len(), 2);
    }
}

/// A state folder on another file system cannot take deleted mailboxes.
#[test]
fn deleted_mailboxes_stay_on_their_file_system() {
    for layout in layouts() {
        let disk = disk();
        create(&tree(&disk, layout), "a");
        append(&disk, &tree(&disk, layout), "a", "x");
        let before = seen(&disk, &tree(&disk, layout));
        let path = Path::new(ROOT).join(if layout == layouts()[0] { ".a" } else { "a" });
        let crosses = FaultEffect::Error(ErrorKind::CrossesDevices);
        let fault = Fault::nth(0).of(CallKind::Name).at(path).with(crosses);
        let vfs = FaultVfs::new(disk.clone(), fault);
        let mut options = FolderOptions::new(ROOT.into(), crate::world::options());
        options.layout = Some(layout);
        FolderTree::open(Arc::new(vfs.clone()), options).unwrap().delete(&"a".into()).unwrap();
        assert!(vfs.fired());
        let tree = tree(&disk, layout);
        let places = ["barid-trash", "tmp/barid-trash", ".imap/barid-trash", ".barid-trash"];
        let mut kept = places.iter().map(|place| Path::new(ROOT).join(place).join("1/mailbox"));
        assert!(kept.any(|kept| disk.metadata(&kept).is_ok()), "{layout:?}");
        assert_eq!(selectable(&tree), ["INBOX"]);
        assert_eq!(list_all(&tree).len(), 1, "{layout:?}");
        for place in places {
            let name = format!("{place}/1/mailbox");
            assert!(tree.spec_of(&name.as_str().into()).is_err(), "{layout:?} {name}");
        }
        assert!(trash(&disk).is_empty(), "{layout:?}");
        tree.undelete(&"a".into()).unwrap();
        assert_eq!(seen(&disk, &tree), before, "{layout:?}");
    }
}

#[test]
fn metadata_is_bounded_and_of_one_mailbox() {
    let disk = disk();
    let tree = tree(&disk, layouts()[0]);
    create(&tree, "a");
    let set = |name: &str, entries: &[(&str, Option<&[u8]>)]| {
        let entries: Vec<_> = entries
            .iter()
            .map(|(entry, value)| ((*entry).to_owned(), value.map(<[u8]>::to_vec)))
            .collect();
        tree.set_metadata(&name.into(), &entries)
    };
    set("a", &[("/private/X", Some(b"1")), ("/shared/y", Some(b""))]).unwrap();
    set("", &[("/private/server", Some(b"s"))]).unwrap();
    set("inbox", &[("/private/i", Some(b"i"))]).unwrap();
    assert_eq!(tree.metadata(&"a".into()).unwrap().len(), 2);
    assert_eq!(tree.metadata(&"".into()).unwrap(), [("/private/server".into(), b"s".to_vec())]);
    assert_eq!(tree.metadata(&"INBOX".into()).unwrap(), [("/private/i".into(), b"i".to_vec())]);
    assert_eq!(code(set("b", &[("/private/x", None)])), "NONEXISTENT");
    let refused = set("a", &[("/private/x", None), ("/bad", Some(b"1"))]);
    assert_eq!(code(refused), "CANNOT");
    assert_eq!(tree.metadata(&"a".into()).unwrap().len(), 2, "all or none");
    let all = tree.all_metadata().unwrap();
    assert_eq!(all.keys().map(String::as_str).collect::<Vec<_>>(), ["", "INBOX", "a"]);
    for (name, entries) in all {
        let entries: Vec<_> = entries.into_iter().collect();
        assert_eq!(entries, tree.metadata(&name.as_str().into()).unwrap(), "{name}");
    }
    set("a", &[("/PRIVATE/x", None)]).unwrap();
    assert_eq!(tree.metadata(&"a".into()).unwrap(), [("/shared/y".into(), Vec::new())]);
    let value = vec![0; 64 << 10];
    assert_eq!(code(set("a", &[("/private/l", Some(&[&value[..], b"1"].concat()))])).len(), 22);
    let names: Vec<String> = (0..101).map(|number| format!("/private/{number}")).collect();
    let many: Vec<_> = names.iter().map(|name| (name.as_str(), Some(&b"1"[..]))).collect();
    assert_eq!(code(set("a", &many)), "METADATA TOOMANY");
    let large: Vec<_> =
        names.iter().take(99).map(|name| (name.as_str(), Some(&value[..]))).collect();
    set("a", &large).unwrap();
    create(&tree, "b");
    assert_eq!(code(set("b", &large)), "METADATA TOOMANY", "all mailboxes together");
    delete(&tree, "a");
    set("b", &large).unwrap_err();
    tree.purge(Duration::ZERO).unwrap();
    set("b", &large).unwrap();
}

#[test]
fn special_uses_are_unique_and_go_with_the_mailbox() {
    let disk = disk();
    let tree = tree(&disk, layouts()[0]);
    let sent = ["\\Sent".to_owned()];
    tree.create(&"Gesendet".into(), false, &sent).unwrap();
    assert_eq!(code(tree.create(&"x".into(), false, &sent)), "USEATTR");
    assert_eq!(code(tree.create(&"x".into(), false, &["\\All".to_owned()])), "USEATTR");
    assert_eq!(code(tree.create(&"INBOX".into(), false, &sent)), "CANNOT");
    assert!(tree.spec_of(&"x".into()).is_err());
    create(&tree, "Sent");
    assert_eq!(tree.special_use(&"Sent".into()).unwrap(), Vec::<String>::new());
    delete(&tree, "Gesendet");
    assert_eq!(tree.special_use(&"Sent".into()).unwrap(), sent);
    tree.set_special_use(&"Sent".into(), &[]).unwrap();
    assert_eq!(tree.special_use(&"Sent".into()).unwrap(), Vec::<String>::new());
    tree.create(&"Gesendet".into(), false, &[]).unwrap();
    assert_eq!(tree.special_use(&"Gesendet".into()).unwrap(), Vec::<String>::new());
    assert_eq!(code(tree.set_special_use(&"nothing".into(), &sent)), "NONEXISTENT");
}

/// Mailboxes that may not be written are listed and opened.
#[test]
fn read_only_trees_are_not_changed() {
    let disk = disk();
    let layout = layouts()[0];
    create(&tree(&disk, layout), "a");
    let tree = tree_with(&disk, |options| {
        options.layout = Some(layout);
        options.mailboxes.read_only = true;
    });
    assert_eq!(selectable(&tree), ["INBOX", "a"]);
    assert!(tree.spec_of(&"a".into()).is_ok());
    for refused in [
        tree.create(&"b".into(), false, &[]),
        tree.delete(&"a".into()),
        tree.subscribe(&"a".into(), true),
        rename(&tree, "a", "b").map(drop),
        tree.set_metadata(&"a".into(), &[]),
        tree.set_special_use(&"a".into(), &[]),
        tree.purge(Duration::ZERO),
        tree.undelete(&"a".into()),
    ] {
        assert!(matches!(refused, Err(Error::Cannot { .. })), "{refused:?}");
    }
}

/// A damaged file of names hides no mailbox, and stops changes.
#[test]
fn damaged_state_stops_changes_only() {
    let disk = disk();
    let layout = layouts()[0];
    let now = tree(&disk, layout);
    create(&now, "a");
    let state = Path::new(crate::world::STATE);
    let mut folder = None;
    let dir = disk.open_dir(state).unwrap();
    dir.list(&mut |name, _| {
        let name = String::from_utf8_lossy(name).into_owned();
        folder = folder.take().or(name.starts_with("folders-").then_some(name));
    })
    .unwrap();
    let names = state.join(folder.unwrap()).join("names");
    disk.open(&names, OpenOptions::WRITE).unwrap().write_all_at(b"x", 0).unwrap();
    assert_eq!(selectable(&now), ["INBOX", "a"]);
    assert_eq!(code(now.create(&"b".into(), false, &[])), "CORRUPTION");
    disk.remove_file(&names).unwrap();
    create(&now, "b");
}
