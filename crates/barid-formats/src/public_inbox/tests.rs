//! Repositories that git does not make.

use std::io::Write as _;
use std::path::Path;

use barid_vfs::{MemVfs, OpenOptions, Vfs};

use super::git::{ObjectKind, ObjectReader, ObjectStore, Oid, Repository, Tip};
use super::history;

const DIR: &str = "/g";

fn oid(number: u8) -> Oid {
    Oid([number; Oid::LEN])
}

/// Writes a loose object, whose name need not be its hash.
fn write(vfs: &MemVfs, number: u8, text: &[u8]) {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    let hex = String::from_utf8(oid(number).to_hex().to_vec()).unwrap();
    let folder = Path::new(DIR).join("objects").join(&hex[..2]);
    vfs.create_dir_all(&folder, 0o700).unwrap();
    let file = vfs.open(&folder.join(&hex[2..]), OpenOptions::create_new(0o600)).unwrap();
    file.write_all_at(&encoder.finish().unwrap(), 0).unwrap();
}

fn object(kind: &str, text: &[u8]) -> Vec<u8> {
    [format!("{kind} {}\0", text.len()).as_bytes(), text].concat()
}

fn commit(tree: u8, parent: Option<u8>) -> Vec<u8> {
    let parent = parent.map(|parent| format!("parent {}\n", oid(parent))).unwrap_or_default();
    let text = format!("tree {}\n{parent}committer A <a> 5 +0000\n\nx\n", oid(tree));
    object("commit", text.as_bytes())
}

fn history_of(vfs: &MemVfs, tip: u8) -> barid_mailbox::Result<history::History> {
    let store = ObjectStore::new(Path::new(DIR));
    let tip = Tip { commit: Some(oid(tip)), ..Tip::default() };
    history::read(Repository { vfs, store: &store }, &mut ObjectReader::new(), &tip, None)
}

#[test]
fn commits_in_a_circle_end() {
    let vfs = MemVfs::new();
    write(&vfs, 100, &object("tree", b""));
    for number in 1..=50 {
        // The oldest one leads back into the middle.
        write(&vfs, number, &commit(100, Some(if number == 1 { 20 } else { number - 1 })));
    }
    let error = history_of(&vfs, 50).unwrap_err().to_string();
    assert!(error.contains("is among its own ancestors"), "{error}");
    write(&vfs, 60, &commit(100, Some(60)));
    assert!(history_of(&vfs, 60).is_err());
}

#[test]
fn objects_that_lie_are_errors() {
    let vfs = MemVfs::new();
    let check = |number: u8, text: &[u8], expected: &str| {
        write(&vfs, number, text);
        let store = ObjectStore::new(Path::new(DIR));
        let repository = Repository { vfs: &vfs, store: &store };
        let mut reader = ObjectReader::new();
        let whole = reader.read(repository, oid(number), ObjectKind::Blob);
        let error = whole.unwrap_err().of(oid(number)).to_string();
        assert!(error.contains(expected), "{error}");
        assert!(reader.head(repository, oid(number)).is_err());
    };
    check(1, b"blob 5\0four", "is truncated");
    check(2, b"blob 99999999999\0x", "too large");
    check(3, b"blob x\0text", "not a loose object");
    check(4, b"cake 4\0text", "not a loose object");
    check(5, &[b'b'; 100], "not a loose object");
    check(6, b"", "not a loose object");
    check(7, &object("tree", b""), "is a tree");
    let vfs = MemVfs::new();
    write(&vfs, 1, &object("commit", b"tree of nothing\n"));
    assert!(history_of(&vfs, 1).unwrap_err().to_string().contains("is a damaged commit"));
    write(&vfs, 2, &commit(3, None));
    write(&vfs, 3, &object("tree", b"100644 m"));
    assert_eq!(history_of(&vfs, 2).unwrap().unread.map(|(count, _)| count), Some(1));
}
