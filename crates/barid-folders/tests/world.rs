//! Trees in memory, and all that can be seen of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use barid::{
    ChangeOptions, ChangeRequest, FormatName, Mailbox, NewMessage, OpenOptions, ReadAs, Uid,
};
use barid_folders::{FolderOptions, FolderTree, Layout};
use barid_imap::backend::ListedMailbox;
use barid_imap::command::{ListCommand, MailboxName};
use barid_vfs::{MemVfs, OpenOptions as FileOptions, Vfs};

/// The root of all trees.
pub(crate) const ROOT: &str = "/home/mail";
/// The state folder.
pub(crate) const STATE: &str = "/home/state";

pub(crate) fn options() -> OpenOptions {
    OpenOptions::new(None, STATE.into())
}

/// Returns the layouts that tests try, with the separator of each.
pub(crate) fn layouts() -> Vec<Layout> {
    let format = |name| FormatName::named(name).unwrap().format();
    let files = ["mboxrd", "mbx", "mix", "mh"].map(|name| Layout::Files(format(name)));
    [Layout::MaildirPlusPlus, Layout::NestedMaildirs].into_iter().chain(files).collect()
}

/// Returns `true` if mailboxes of a layout can contain others.
pub(crate) fn nests(layout: Layout) -> bool {
    !matches!(layout, Layout::Files(format) if !format.is_folder())
}

pub(crate) fn disk() -> MemVfs {
    let disk = MemVfs::new();
    disk.create_dir_all(Path::new("/home"), 0o700).unwrap();
    disk
}

pub(crate) fn tree(disk: &MemVfs, layout: Layout) -> FolderTree {
    tree_with(disk, |options| options.layout = Some(layout))
}

pub(crate) fn tree_with(disk: &MemVfs, set: impl FnOnce(&mut FolderOptions)) -> FolderTree {
    let mut options = FolderOptions::new(ROOT.into(), options());
    set(&mut options);
    FolderTree::open(Arc::new(disk.clone()), options).unwrap()
}

/// Returns a name with the separator of a tree in place of slashes.
pub(crate) fn named(tree: &FolderTree, name: &str) -> MailboxName {
    name.replace('/', &tree.separator().to_string()).as_str().into()
}

pub(crate) fn open(disk: &MemVfs, tree: &FolderTree, name: &str) -> Mailbox {
    let spec = tree.spec_of(&named(tree, name)).unwrap();
    Mailbox::open_in(Arc::new(disk.clone()), &spec, &options()).unwrap()
}

/// Appends a message with a text as its subject and body.
pub(crate) fn append(disk: &MemVfs, tree: &FolderTree, name: &str, text: &str) -> Uid {
    let mut mailbox = open(disk, tree, name);
    let bytes = format!("Subject: {text}\nMessage-ID: <{text}@x>\n\n{text}\n");
    let message = NewMessage { bytes: bytes.as_bytes(), ..NewMessage::default() };
    let request = ChangeRequest { appends: &[message], ..ChangeRequest::default() };
    mailbox.change(&request, &ChangeOptions::default()).unwrap().appended[0]
}

pub(crate) fn create(tree: &FolderTree, name: &str) {
    tree.create(&named(tree, name), false, &[]).unwrap();
}

/// Returns the answer to `LIST "" *`.
pub(crate) fn list_all(tree: &FolderTree) -> Vec<ListedMailbox> {
    let all =
        ListCommand { response: "LIST", patterns: vec!["*".to_owned()], ..ListCommand::default() };
    tree.list(&all).unwrap()
}

/// Content of a mailbox: UIDVALIDITY, and the first words of messages by UID.
pub(crate) type Content = (u32, Vec<(u32, String)>);

/// All that can be seen of a tree.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) listed: Vec<ListedMailbox>,
    pub(crate) contents: BTreeMap<String, Content>,
    pub(crate) metadata: BTreeMap<String, Vec<(String, Vec<u8>)>>,
    pub(crate) subscribed: Vec<String>,
    pub(crate) deleted: Vec<String>,
}

pub(crate) fn content(disk: &MemVfs, tree: &FolderTree, name: &str) -> Content {
    let mut mailbox = open(disk, tree, name);
    let status = mailbox.status();
    let rows = 0..status.messages;
    let messages = rows.map(|row| {
        let uid = mailbox.uid_of(row).unwrap();
        let message = mailbox.read(uid, ReadAs::Message).unwrap();
        let body = String::from_utf8_lossy(&message.bytes[message.header_len..]).into_owned();
        (uid.get(), body.trim().to_owned())
    });
    (status.uidvalidity.get(), messages.collect())
}

/// Looks at everything. Opens every mailbox.
pub(crate) fn seen(disk: &MemVfs, tree: &FolderTree) -> Seen {
    let listed = list_all(tree);
    let separator = tree.separator().to_string();
    let (mut contents, mut metadata) = (BTreeMap::new(), BTreeMap::new());
    for mailbox in listed.iter().filter(|mailbox| mailbox.is_selectable) {
        let name = MailboxName::from(mailbox.name.as_str());
        if tree.spec_of(&name).is_err() {
            // INBOX is listed before it exists.
            continue;
        }
        let plain = mailbox.name.replace(&separator, "/");
        contents.insert(plain.clone(), content(disk, tree, &plain));
        metadata.insert(plain, tree.metadata(&name).unwrap());
    }
    let mut subscribed =
        ListCommand { response: "LIST", patterns: vec!["*".to_owned()], ..ListCommand::default() };
    subscribed.selection.subscribed = true;
    let subscribed = tree.list(&subscribed).unwrap().into_iter().map(|listed| listed.name);
    let deleted = tree.deleted().unwrap().into_iter().map(|deleted| deleted.name);
    Seen {
        subscribed: subscribed.collect(),
        deleted: deleted.collect(),
        listed,
        contents,
        metadata,
    }
}

/// Returns the names of the mailboxes that can be selected.
pub(crate) fn selectable(tree: &FolderTree) -> Vec<String> {
    let all = list_all(tree).into_iter().filter(|listed| listed.is_selectable);
    all.map(|listed| listed.name.replace(tree.separator(), "/")).collect()
}

/// Writes a new file and the folders above it.
pub(crate) fn write(disk: &MemVfs, path: &Path, text: &str) {
    disk.create_dir_all(path.parent().unwrap(), 0o700).unwrap();
    let file = disk.open(path, FileOptions::create_new(0o600)).unwrap();
    file.write_all_at(text.as_bytes(), 0).unwrap();
}

/// Makes a Maildir in the root, with one message and a list of UIDs.
pub(crate) fn maildir(disk: &MemVfs, name: &str, uidlist: &str) {
    let folder = Path::new(ROOT).join(name);
    for part in ["new", "cur", "tmp"] {
        disk.create_dir_all(&folder.join(part), 0o700).unwrap();
    }
    write(disk, &folder.join("cur/one:2,S"), "Subject: one\n\none\n");
    write(disk, &folder.join("dovecot-uidlist"), uidlist);
}

/// Returns the names in the folder of deleted mailboxes.
pub(crate) fn trash(disk: &MemVfs) -> Vec<String> {
    let names = |path: &Path| {
        let mut found = Vec::new();
        let Ok(dir) = disk.open_dir(path) else { return found };
        dir.list(&mut |name, _| found.push(String::from_utf8_lossy(name).into_owned())).unwrap();
        found
    };
    let state = Path::new(STATE);
    let folders = names(state).into_iter().filter(|name| name.starts_with("folders-"));
    folders.flat_map(|folder| names(&state.join(folder).join("trash"))).collect()
}
