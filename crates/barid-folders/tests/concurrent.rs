//! Several processes that change and list one tree at a time.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use barid::{
    ChangeOptions, ChangeRequest, Mailbox, MailboxSpec, NewMessage, OpenOptions, ReadAs, at_rest,
};
use barid_folders::{FolderOptions, FolderTree, Layout};
use barid_imap::command::ListCommand;
use barid_testkit::Scratch;
use barid_vfs::{OsVfs, Vfs};

const THREADS: u64 = 4;
const CHANGES: u32 = 60;

fn tree(vfs: &Arc<dyn Vfs>, folder: &Path, layout: Layout) -> FolderTree {
    let mailboxes = OpenOptions::new(None, folder.join("state"));
    let mut options = FolderOptions::new(folder.join("mail"), mailboxes);
    options.layout = Some(layout);
    FolderTree::open(Arc::clone(vfs), options).unwrap()
}

fn names(tree: &FolderTree) -> Vec<String> {
    let all = ListCommand { patterns: vec!["*".to_owned()], ..ListCommand::default() };
    let listed = tree.list(&all).unwrap().into_iter();
    listed.filter(|listed| listed.is_selectable).map(|listed| listed.name).collect()
}

/// Every message is in one mailbox of the tree at the end, or in a deleted one.
#[test]
fn nothing_is_lost_between_processes() {
    for layout in [Layout::MaildirPlusPlus, Layout::NestedMaildirs] {
        let scratch = Scratch::new("folders").unwrap();
        let folder = scratch.path();
        let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
        let shared = tree(&vfs, folder, layout);
        shared.create(&"INBOX".into(), false, &[]).unwrap();
        for number in 0..THREADS {
            fill(&vfs, folder, &shared, number);
        }
        std::thread::scope(|scope| {
            for number in 0..THREADS {
                let vfs = &vfs;
                scope.spawn(move || change(&tree(vfs, folder, layout), number));
            }
        });
        // Everything that was deleted comes back, where its name is free.
        let mut moved = 0;
        while let Some(deleted) = shared.deleted().unwrap().pop() {
            let name = deleted.name.as_str().into();
            if shared.spec_of(&name).is_ok() {
                moved += 1;
                let free = format!("free{moved}");
                let _ = shared.rename(&name, &free.as_str().into()).unwrap();
            }
            shared.undelete(&name).unwrap();
        }
        let found = texts(&vfs, folder, &shared);
        let expected: BTreeSet<String> =
            (0..THREADS).map(|number| format!("text-{number}")).collect();
        assert_eq!(found, expected, "{layout:?}");
    }
}

fn fill(vfs: &Arc<dyn Vfs>, folder: &Path, tree: &FolderTree, number: u64) {
    let name = format!("box{number}");
    tree.create(&name.as_str().into(), false, &[]).unwrap();
    let spec = tree.spec_of(&name.as_str().into()).unwrap();
    let options = OpenOptions::new(None, folder.join("state"));
    let mut mailbox = Mailbox::open_in(Arc::clone(vfs), &spec, &options).unwrap();
    let bytes = format!("Subject: x\n\ntext-{number}\n");
    let message = NewMessage { bytes: bytes.as_bytes(), ..NewMessage::default() };
    let request = ChangeRequest { appends: &[message], ..ChangeRequest::default() };
    mailbox.change(&request, &ChangeOptions::default()).unwrap();
}

/// Renames, deletes and brings back mailboxes at random; most of it is refused.
fn change(tree: &FolderTree, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let separator = tree.separator();
    for _ in 0..CHANGES {
        let mut name = || {
            let (one, two) = (random.u32(..5), random.u32(..8));
            let text =
                if two < 5 { format!("box{one}") } else { format!("box{one}{separator}x{two}") };
            barid_imap::command::MailboxName::from(text.as_str())
        };
        let (one, other) = (name(), name());
        match random.u32(..5) {
            0 => drop(tree.create(&one, false, &[])),
            1 => drop(tree.delete(&one)),
            2 => drop(tree.undelete(&one)),
            3 => drop(tree.subscribe(&one, random.bool())),
            _ => drop(tree.rename(&one, &other)),
        }
        assert_eq!(names(tree)[0], "INBOX");
    }
}

/// Returns the texts of all messages.
fn texts(vfs: &Arc<dyn Vfs>, folder: &Path, tree: &FolderTree) -> BTreeSet<String> {
    let options = OpenOptions::new(None, folder.join("state"));
    let mut found = BTreeSet::new();
    let mut uidvalidities = BTreeSet::new();
    for name in names(tree) {
        let spec: MailboxSpec = tree.spec_of(&name.as_str().into()).unwrap();
        let mut mailbox = Mailbox::open_in(Arc::clone(vfs), &spec, &options).unwrap();
        let rest = at_rest(vfs, &spec, &options).unwrap();
        assert!(uidvalidities.insert(rest.uidvalidity().unwrap()), "{name}");
        for row in 0..mailbox.status().messages {
            let uid = mailbox.uid_of(row).unwrap();
            let message = mailbox.read(uid, ReadAs::Message).unwrap();
            let body = String::from_utf8_lossy(&message.bytes[message.header_len..]).into_owned();
            assert!(found.insert(body.trim().to_owned()), "{name}: a message is there twice");
        }
    }
    found
}
