//! Calls and bytes that requests cost.

use std::sync::Arc;

use barid_folders::{FolderOptions, FolderTree, Layout};
use barid_vfs::{CallKind, CountingVfs, Counts};

use crate::world::{ROOT, create, disk, layouts, list_all, options, tree};

const MAILBOXES: u64 = 300;

/// Returns the cost of a request to a tree with many mailboxes.
fn cost(layout: Layout, request: impl Fn(&FolderTree)) -> Counts {
    let disk = disk();
    let prepared = tree(&disk, layout);
    create(&prepared, "INBOX");
    for number in 0..MAILBOXES {
        create(&prepared, &format!("box{number:03}"));
    }
    let vfs = CountingVfs::new(disk);
    let mut options = FolderOptions::new(ROOT.into(), options());
    options.layout = Some(layout);
    let tree = FolderTree::open(Arc::new(vfs.clone()), options).unwrap();
    let before = vfs.counts();
    request(&tree);
    vfs.counts().since(&before)
}

#[test]
fn a_list_costs_some_calls_for_each_mailbox() {
    for layout in layouts() {
        let cost = cost(layout, |tree| {
            assert_eq!(list_all(tree).len() as u64, MAILBOXES + 1);
        });
        let calls = cost.calls() / MAILBOXES;
        eprintln!("{layout:?}: LIST of {MAILBOXES} makes {} calls", cost.calls());
        assert!(calls <= 15, "{layout:?}: {calls} calls for each mailbox");
        assert_eq!(cost.of(CallKind::Sync) + cost.of(CallKind::Write), 0);
    }
}

#[test]
fn a_name_costs_a_fixed_number_of_calls() {
    for layout in layouts() {
        let cost = cost(layout, |tree| drop(tree.spec_of(&"box042".into()).unwrap()));
        assert!(cost.calls() <= 25, "{layout:?}: {}", cost.calls());
        assert_eq!(cost.of(CallKind::List), 0, "{layout:?}");
    }
}

/// A change waits for the journal, the steps and the state.
#[test]
fn changes_have_a_fixed_number_of_barriers() {
    for layout in layouts() {
        let syncs = |request: fn(&FolderTree)| cost(layout, request).of(CallKind::Sync);
        let creation = syncs(|tree| tree.create(&"new box".into(), false, &[]).unwrap());
        let deletion = syncs(|tree| tree.delete(&"box042".into()).unwrap());
        let renaming = syncs(|tree| drop(tree.rename(&"box042".into(), &"other".into()).unwrap()));
        let subscribing = syncs(|tree| tree.subscribe(&"box042".into(), true).unwrap());
        eprintln!(
            "{layout:?}: barriers of create {creation}, delete {deletion}, rename {renaming}, \
             subscribe {subscribing}"
        );
        assert!(creation <= 12 && deletion <= 9 && renaming <= 7 && subscribing <= 2);
    }
}
