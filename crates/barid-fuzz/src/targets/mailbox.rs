//! Mailboxes of every format: one file of them is the input.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::LazyLock;

use barid::{Folder, MailboxSpec};
use barid_formats::compression_of;
use barid_message::{decode_utf7, encode_utf7};

use crate::world::World;

/// Worlds with everything, by the name of their format.
pub(crate) static MBOX: LazyLock<World> = LazyLock::new(|| World::new("mboxrd"));
pub(crate) static MBOXCL2: LazyLock<World> = LazyLock::new(|| World::new("mboxcl2"));
pub(crate) static MMDF: LazyLock<World> = LazyLock::new(|| World::new("mmdf"));
pub(crate) static MBX: LazyLock<World> = LazyLock::new(|| World::new("mbx"));
pub(crate) static MIX: LazyLock<World> = LazyLock::new(|| World::new("mix"));
pub(crate) static MH: LazyLock<World> = LazyLock::new(|| World::new("mh"));
pub(crate) static MAILDIR: LazyLock<World> = LazyLock::new(|| World::new("maildir"));
pub(crate) static INBOX: LazyLock<World> = LazyLock::new(archive);
/// A disk without a mailbox.
static EMPTY: LazyLock<World> = LazyLock::new(|| World::empty("/mail/box"));

/// Uses a world in which the first file with `text` in its path has this content.
pub(crate) fn replaced(world: &World, text: &str, bytes: &[u8]) {
    world.with(&world.path(text), bytes).exercise();
}

/// Returns the content of the first file with `text` in its path.
pub(crate) fn seed(world: &World, text: &str) -> Vec<u8> {
    world.bytes(&world.path(text))
}

/// Makes an archive of public-inbox with one pack.
fn archive() -> World {
    let world = World::empty("public-inbox:/mail/box");
    let epoch = Path::new("/mail/box/git/0.git");
    for folder in ["refs/heads", "objects/pack"] {
        let made = world.vfs().create_dir_all(&epoch.join(folder), 0o700);
        made.expect("because a disk in memory does not fail");
    }
    let files: [(&str, &[u8]); 4] = [
        ("HEAD", b"ref: refs/heads/master\n"),
        ("refs/heads/master", b"b5c3590b782eb464b1ba3180a05a15e2bc93941a\n"),
        ("objects/pack/pack-1.pack", include_bytes!("../../seeds/archive.pack")),
        ("objects/pack/pack-1.idx", include_bytes!("../../seeds/archive.idx")),
    ];
    files.iter().fold(world, |world, (name, bytes)| world.with(&epoch.join(name), bytes))
}

/// A file of which nobody says what it is.
pub(crate) fn any_file(bytes: &[u8]) {
    let world = EMPTY.with(Path::new("/mail/box"), bytes);
    world.answers_alike();
    world.exercise();
}

/// A compressed mbox, named as its first bytes say.
pub(crate) fn compressed_file(bytes: &[u8]) {
    let path = format!("/mail/box.{}", compression_of(bytes).unwrap_or("gz"));
    let world = World::empty(&path).with(Path::new(&path), bytes);
    world.answers_alike();
    world.exercise();
}

/// Mailboxes that are one file.
pub(crate) fn any_file_seeds() -> Vec<Vec<u8>> {
    let worlds = [&MBOX, &MBOXCL2, &MMDF, &MBX];
    let mut seeds: Vec<Vec<u8>> = worlds.iter().map(|world| seed(world, "/mail/box")).collect();
    seeds.push(
        b"\n\nFrom a@b Thu Jan  1 00:00:00 1970\n\nFrom c Thu Jan  1 00:00 1970\nX: y\n\n".to_vec(),
    );
    seeds
}

/// Compressed mailboxes.
pub(crate) fn compressed_seeds() -> Vec<Vec<u8>> {
    vec![
        include_bytes!("../../seeds/box.gz").to_vec(),
        include_bytes!("../../seeds/box.bz2").to_vec(),
        include_bytes!("../../seeds/box.xz").to_vec(),
        include_bytes!("../../seeds/box.zst").to_vec(),
    ]
}

/// Returns the bytes as a file name: without those that no name has.
fn file_name(bytes: &[u8]) -> Vec<u8> {
    let mut name: Vec<u8> = bytes.iter().copied().filter(|byte| !b"/\0".contains(byte)).collect();
    name.truncate(255);
    if [&b""[..], b".", b".."].contains(&name.as_slice()) { b"x".to_vec() } else { name }
}

/// Name of a message in a Maildir: in `cur`, and in `new`.
pub(crate) fn maildir_name(bytes: &[u8]) {
    let name = file_name(bytes);
    for folder in ["cur", "new"] {
        let path = Path::new("/mail/box").join(folder).join(OsStr::from_bytes(&name));
        let world = MAILDIR.with(&path, b"Subject: named\n\ntext\n");
        world.exercise();
    }
}

/// Names of messages in a Maildir.
pub(crate) fn maildir_name_seeds() -> Vec<Vec<u8>> {
    let in_folder = MAILDIR.files().into_iter().filter(|path| path.starts_with("/mail/box/cur"));
    let name = |path: std::path::PathBuf| path.file_name().map(|name| name.as_bytes().to_vec());
    let mut seeds: Vec<Vec<u8>> = in_folder.filter_map(name).collect();
    seeds.push(b"1700000000.M1P2V3I4_5.host,S=20,W=21,U=9:2,FRSTabc".to_vec());
    seeds
}

/// Name of a folder and a mailbox: modified UTF-7 (RFC 3501 §5.1.3), and `FORMAT:PATH`.
pub(crate) fn names(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some(name) = decode_utf7(bytes) {
        assert_eq!(decode_utf7(encode_utf7(&name).as_bytes()), Some(name));
    }
    MailboxSpec::parse(&text);
    let path = Path::new("/mail").join(OsStr::from_bytes(&file_name(bytes)));
    let world = EMPTY.with(&path, b"From a@b Thu Jan  1 00:00:00 1970\n\nx\n");
    let folders: Option<Vec<Folder>> = barid::folders(&*world.vfs(), Path::new("/mail")).ok();
    for folder in folders.unwrap_or_default() {
        drop(barid::place_in_tree(&*world.vfs(), &folder.path));
    }
}
