//! Repositories that git does not make.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use barid_vfs::{CallKind, CountingVfs, MemVfs, OpenOptions, Vfs};

use super::git::{GitObjects, ObjectKind, ObjectReader, Oid, OpenPacks, Repository, Tip};
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

fn history_of(vfs: &MemVfs, tip: u8) -> barid_mailbox::Result<history::EpochHistory> {
    let store = GitObjects::new(Path::new(DIR), Arc::default());
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
        let store = GitObjects::new(Path::new(DIR), Arc::default());
        let repository = Repository { vfs: &vfs, store: &store };
        let mut reader = ObjectReader::new();
        let whole = reader.read(repository, oid(number), ObjectKind::Blob);
        let error = whole.unwrap_err().of(oid(number)).to_string();
        assert!(error.contains(expected), "{error}");
        assert!(reader.head(repository, oid(number)).is_err());
    };
    check(1, b"blob 5\0four", "is truncated");
    check(2, b"blob 99999999999\0x", "too large");
    check(8, b"blob 18446744073709551615\0x", "claims an impossible size");
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

/// Bytes of an entry before its zlib stream: `kind` as a number, and `size`.
fn entry_head(kind: u8, size: usize) -> Vec<u8> {
    let (mut head, mut rest) = (vec![kind << 4 | (size & 15) as u8], size >> 4);
    while rest > 0 {
        *head.last_mut().unwrap() |= 0x80;
        head.push((rest & 0x7f) as u8);
        rest >>= 7;
    }
    head
}

/// Writes a pack of entries: the name, the head (with the base of a delta), and the data.
fn write_pack(vfs: &dyn Vfs, git_dir: &str, name: &str, entries: &[(Oid, Vec<u8>, Vec<u8>)]) {
    let count = (entries.len() as u32).to_be_bytes();
    let mut pack = [&b"PACK\0\0\0\x02"[..], &count].concat();
    let mut places = Vec::new();
    for (oid, head, data) in entries {
        places.push((*oid, pack.len() as u32));
        pack.extend_from_slice(head);
        let fast = flate2::Compression::fast();
        let mut encoder = flate2::write::ZlibEncoder::new(&mut pack, fast);
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap();
    }
    pack.extend_from_slice(&[0; 20]);
    places.sort_unstable();
    let mut index = b"\xfftOc\0\0\0\x02".to_vec();
    for first in 0..=255 {
        let below = places.iter().filter(|(oid, _)| oid.0[0] <= first).count() as u32;
        index.extend_from_slice(&below.to_be_bytes());
    }
    places.iter().for_each(|(oid, _)| index.extend_from_slice(&oid.0));
    index.resize(index.len() + places.len() * 4, 0);
    places.iter().for_each(|(_, at)| index.extend_from_slice(&at.to_be_bytes()));
    index.extend_from_slice(&[0; 40]);
    let folder = Path::new(git_dir).join("objects/pack");
    vfs.create_dir_all(&folder, 0o700).unwrap();
    for (end, bytes) in [("pack", &pack), ("idx", &index)] {
        let path = folder.join(format!("pack-{name}.{end}"));
        let file = vfs.open(&path, OpenOptions::create_new(0o600)).unwrap();
        file.write_all_at(bytes, 0).unwrap();
    }
}

/// Returns a delta of a base of `base_len` bytes to `len` bytes, which copies 64 KB at a time.
fn expanding_delta(base_len: usize, len: usize) -> Vec<u8> {
    let mut delta = Vec::new();
    for size in [base_len, len] {
        let mut rest = size;
        while rest >= 0x80 {
            delta.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        delta.push(rest as u8);
    }
    // Offset 0, and no bytes of the length: 64 KB.
    delta.resize(delta.len() + len / 0x1_0000, 0x80);
    delta
}

#[test]
fn deltas_have_a_budget_of_memory_and_work() {
    const LARGE: usize = 32 << 20;
    let vfs = MemVfs::new();
    let base = vec![b'x'; 0x1_0000];
    let mut entries = vec![(oid(1), entry_head(3, base.len()), base)];
    for number in 2..=80 {
        let base_len = if number == 2 { 0x1_0000 } else { LARGE };
        let delta = expanding_delta(base_len, LARGE);
        let head = [entry_head(7, delta.len()), oid(number - 1).0.to_vec()].concat();
        entries.push((oid(number), head, delta));
    }
    write_pack(&vfs, DIR, "1", &entries);
    let store = GitObjects::new(Path::new(DIR), Arc::default());
    let repository = Repository { vfs: &vfs, store: &store };
    let mut reader = ObjectReader::new();
    let head = reader.head(repository, oid(4)).unwrap();
    assert_eq!(head.size, LARGE as u64);
    assert!(head.turn.is_some(), "one thread at a time has a large delta in memory");
    drop(head);
    assert!(reader.head(repository, oid(1)).unwrap().turn.is_none());
    let error = reader.read(repository, oid(80), ObjectKind::Blob).unwrap_err().to_string();
    assert!(error.contains("more than 1 GB"), "{error}");
}

#[test]
fn files_of_all_epochs_are_bounded_together() {
    const PACKS: u8 = 40;
    // Bytes that are read when a pack is opened: of its index, and of itself.
    const FANOUT_LEN: u64 = 8 + 256 * 4;
    const PACK_HEAD_LEN: u64 = 12;
    let vfs = CountingVfs::new(MemVfs::new());
    let open = Arc::<OpenPacks>::default();
    let stores = ["/a", "/b", "/c"].map(|dir| {
        for number in 0..PACKS {
            let entry = (oid(number), entry_head(3, 1), vec![number]);
            write_pack(&vfs, dir, &number.to_string(), &[entry]);
        }
        GitObjects::new(Path::new(dir), Arc::clone(&open))
    });
    let mut reader = ObjectReader::new();
    let mut read_all = || {
        for store in &stores {
            for number in 0..PACKS {
                let repository = Repository { vfs: &vfs, store };
                let bytes = reader.read(repository, oid(number), ObjectKind::Blob).unwrap();
                assert_eq!(*bytes, [number]);
            }
        }
    };
    read_all();
    assert_eq!(open.len(), super::git::limits::PACKS_OPEN_MAX);
    // The pages of files that were opened again are still in the cache.
    let before = vfs.counts();
    read_all();
    let cost = vfs.counts().since(&before);
    let opened = cost.of(CallKind::Open) / 2;
    assert_eq!(opened, u64::from(PACKS) * 3, "all packs were closed meanwhile");
    assert_eq!(cost.bytes().read, opened * (FANOUT_LEN + PACK_HEAD_LEN), "{cost:?}");
}

#[test]
fn damage_hides_no_other_copy() {
    let vfs = MemVfs::new();
    let head = entry_head(3, 5);
    // The pack is damaged, and there is a loose copy.
    write_pack(&vfs, DIR, "1", &[(oid(1), head.clone(), b"good".to_vec())]);
    write(&vfs, 1, &object("blob", b"good1"));
    // The loose file and one pack are damaged, and a pack has a copy.
    write(&vfs, 2, b"nonsense");
    write_pack(&vfs, DIR, "2", &[(oid(2), vec![0], b"".to_vec())]);
    write_pack(&vfs, DIR, "3", &[(oid(2), head, b"good2".to_vec())]);
    // Alternates that are not a file are passed over.
    let alternates = Path::new(DIR).join("objects/info/alternates");
    vfs.create_dir_all(&alternates, 0o700).unwrap();
    let store = GitObjects::new(Path::new(DIR), Arc::default());
    let repository = Repository { vfs: &vfs, store: &store };
    let mut reader = ObjectReader::new();
    for (number, expected) in [(1, b"good1"), (2, b"good2")] {
        let bytes = reader.read(repository, oid(number), ObjectKind::Blob).unwrap();
        assert_eq!(*bytes, expected);
        assert_eq!(*reader.head(repository, oid(number)).unwrap().bytes, expected);
        let mut read = [0; 5];
        reader.open(repository, oid(number)).unwrap().read_at(&mut read, 0).unwrap();
        assert_eq!(&read, expected);
    }
}
