//! Trees of mailboxes: the state of a tree, its journal, the file of subscriptions, and the
//! patterns of LIST.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid::OpenOptions;
use barid_folders::{FolderOptions, FolderTree, Layout};
use barid_imap::command::{ListCommand, ListSelection};
use barid_vfs::{MemVfs, OpenOptions as FileOptions, Vfs};

const ROOT: &str = "/home/mail";
const STATE: &str = "/home/state";
/// A file outside of the tree, which nothing may change.
const OUTSIDE: &str = "/outside";
const SUBSCRIPTIONS: &str = "/home/mail/subscriptions";

/// Returns a disk with a tree of a few mailboxes.
fn disk() -> MemVfs {
    let disk = MemVfs::new();
    disk.create_dir_all(Path::new("/home"), 0o700).expect("because the disk is empty");
    write(&disk, Path::new(OUTSIDE), b"outside");
    let tree = tree(&disk);
    for name in ["INBOX", "a", "a.b", "x"] {
        tree.create(&name.into(), false, &[]).expect("because the disk is empty");
    }
    disk
}

fn tree(disk: &MemVfs) -> FolderTree {
    let mut options = FolderOptions::new(ROOT.into(), OpenOptions::new(None, STATE.into()));
    options.layout = Some(Layout::MaildirPlusPlus);
    FolderTree::open(Arc::new(disk.clone()), options).expect("because the options are valid")
}

fn write(disk: &MemVfs, path: &Path, bytes: &[u8]) {
    let options = FileOptions { truncate: true, ..FileOptions::create(0o600) };
    let file = disk.open(path, options).expect("because its folder exists");
    file.write_all_at(bytes, 0).expect("because the disk is in memory");
}

/// Returns the folder of the tree's state.
fn state_folder(disk: &MemVfs) -> PathBuf {
    let mut found = None;
    let dir = disk.open_dir(Path::new(STATE)).expect("because the tree was changed");
    let listed = dir.list(&mut |name, _| {
        let name = String::from_utf8_lossy(name).into_owned();
        found = found.take().or_else(|| name.starts_with("folders-").then_some(name));
    });
    listed.expect("because the disk is in memory");
    Path::new(STATE).join(found.expect("because the tree was changed"))
}

fn list(patterns: Vec<String>, reference: String, subscribed: bool) -> ListCommand {
    let selection =
        ListSelection { subscribed, recursive_match: subscribed, ..ListSelection::default() };
    ListCommand { response: "LIST", reference, patterns, selection, ..ListCommand::default() }
}

/// Makes requests of all kinds; whatever they answer, nothing outside of the tree changes.
fn use_tree(disk: &MemVfs) {
    let tree = tree(disk);
    let all = list(vec!["*".to_owned()], String::new(), false);
    let listed = tree.list(&all).expect("because a damaged state hides no mailbox");
    assert!(listed[0].name == "INBOX");
    for mailbox in listed.iter().filter(|mailbox| mailbox.is_selectable) {
        let name = mailbox.name.as_str().into();
        tree.spec_of(&name).expect("because a listed mailbox can be opened");
        let _ = (tree.special_use(&name), tree.metadata(&name));
    }
    for deleted in tree.deleted().unwrap_or_default() {
        let _ = tree.undelete(&deleted.name.as_str().into());
    }
    let _ = tree.create(&"new.box".into(), false, &["\\Sent".to_owned()]);
    let _ = tree.rename(&"a".into(), &"other".into());
    let _ = tree.delete(&"x".into());
    let _ = tree.purge(std::time::Duration::ZERO);
    let outside = disk.read(Path::new(OUTSIDE), 99).expect("because nothing may remove it");
    assert!(outside == b"outside");
    let mut top = Vec::new();
    let dir = disk.open_dir(Path::new("/")).expect("because the disk is in memory");
    dir.list(&mut |name, _| top.push(name.to_vec())).expect("because the disk is in memory");
    top.sort();
    assert!(top == [&b"home"[..], b"outside"], "{top:?}");
}

/// The file with the state of a tree.
pub(crate) fn names(bytes: &[u8]) {
    let disk = disk();
    write(&disk, &state_folder(&disk).join("names"), bytes);
    use_tree(&disk);
}

/// A journal, which is completed or undone.
pub(crate) fn journal(bytes: &[u8]) {
    let disk = disk();
    write(&disk, &state_folder(&disk).join("journal"), bytes);
    use_tree(&disk);
}

/// A file of subscriptions: what is added is there, and what is removed is not.
pub(crate) fn subscriptions(bytes: &[u8]) {
    let disk = disk();
    write(&disk, Path::new(SUBSCRIPTIONS), bytes);
    let tree = tree(&disk);
    let all = list(vec!["*".to_owned()], String::new(), true);
    let names = || -> Vec<String> {
        let listed = tree.list(&all).expect("because any file can be read");
        listed.into_iter().filter(|listed| listed.is_subscribed).map(|l| l.name).collect()
    };
    let before = names();
    let name = "a.b".into();
    tree.subscribe(&name, true).expect("because the mailbox exists");
    assert!(names().iter().any(|name| name == "a.b"));
    tree.subscribe(&name, false).expect("because the file can be written");
    let after = names();
    assert!(after == before.into_iter().filter(|name| name != "a.b").collect::<Vec<_>>());
}

/// A reference and patterns of LIST, each on a line.
pub(crate) fn patterns(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines().map(|line| line.chars().take(1000).collect::<String>());
    let reference = lines.next().unwrap_or_default();
    let patterns: Vec<String> = lines.take(20).collect();
    let tree = tree(&disk());
    let all = tree.list(&list(vec!["*".to_owned()], String::new(), false));
    let all = all.expect("because the disk is in memory");
    let found = tree.list(&list(patterns, reference, false));
    for listed in found.expect("because the disk is in memory") {
        assert!(all.contains(&listed));
    }
}

pub(crate) fn names_seeds() -> Vec<Vec<u8>> {
    vec![include_bytes!("../../../barid-folders/tests/fixtures/names-v1.bin").to_vec()]
}

pub(crate) fn journal_seeds() -> Vec<Vec<u8>> {
    vec![include_bytes!("../../../barid-folders/tests/fixtures/journal-v1.bin").to_vec()]
}

pub(crate) fn subscription_seeds() -> Vec<Vec<u8>> {
    ["V\t2\n\na\tb\n&AOQ-\nINBOX\nc\x01td\n", "a.b\nINBOX\n\u{e4}.x\n", "inbox\n", ""]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
}

pub(crate) fn pattern_seeds() -> Vec<Vec<u8>> {
    ["\n*\n%", "a.\n%\n*", "\n%.%\n*b\na*%", "\ninbox\nIn%"].map(|t| t.as_bytes().to_vec()).to_vec()
}
