//! The layout of existing word lists: files written by version 1 stay readable, and the same
//! operations still write the same bytes. If this fails, raise the version in `header.rs`, keep
//! reading the old one, and add a fixture; never replace one.

use std::path::{Path, PathBuf};

use barid_vfs::{MemVfs, OpenOptions, OsVfs, Vfs};
use barid_wordlist::{Batch, Class, Counts, Error, TokenEntry, WordList, dump};

use crate::world::{DATE, create, open, path, word};

const SIZE_MAX: u64 = 1 << 20;
/// The files, as they are beside the list and among the fixtures.
const FILES: [(&str, &str); 2] = [("list", "list-v1"), ("list.log-2", "list-v1.log-2")];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn text(list: &mut dyn WordList) -> String {
    let mut text = Vec::new();
    dump(list, &mut text, None).unwrap();
    String::from_utf8(text).unwrap()
}

/// A table of several blocks with entries of all forms, and a log of two records.
fn written() -> (MemVfs, String) {
    let vfs = MemVfs::new();
    let mut list = create(&vfs);
    let mut batch = Batch::new(DATE);
    for number in 0..800 {
        let date = [DATE, DATE, 20_200_229, 0, 7, u32::MAX][number as usize % 6];
        let entry = TokenEntry { spam: 1 << (number % 32), ham: number % 3, date };
        batch.set(&word(number), entry).unwrap();
    }
    batch.set(&[b'x'; 1_023], TokenEntry { spam: 1, ham: u32::MAX, date: DATE }).unwrap();
    batch.train(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10, Class::Spam, 3);
    list.update(&batch).unwrap();
    list.rewrite(&mut |_, _| barid_wordlist::Change::Keep).unwrap();
    let mut batch = Batch::new(DATE);
    batch.change(&word(5), Counts::new(1, 0), Counts::new(0, 7)).unwrap();
    batch.train(7, Class::Ham, 0);
    list.update(&batch).unwrap();
    batch.clear();
    batch.change(b"new", Counts::new(0, 1), Counts::default()).unwrap();
    batch.untrain(7, Class::Ham);
    list.update(&batch).unwrap();
    let text = text(&mut list);
    (vfs, text)
}

#[test]
fn version_1_reads_and_writes_as_ever() {
    let (written, expected) = written();
    let (os, kept) = (OsVfs, MemVfs::new());
    kept.create_dir(Path::new("/words"), 0o700).unwrap();
    for (name, fixture_name) in FILES {
        let bytes = written.read(&path().with_file_name(name), SIZE_MAX).unwrap();
        let fixture = fixture(fixture_name);
        if os.metadata(&fixture).is_err() && std::env::var_os("BLESS_FIXTURES").is_some() {
            let file = os.open(&fixture, OpenOptions::create_new(0o644)).unwrap();
            file.write_all_at(&bytes, 0).unwrap();
        }
        let old = os.read(&fixture, SIZE_MAX).unwrap();
        assert!(old == bytes, "{name}: the layout changed without a new version");
        let file = kept.open(&path().with_file_name(name), OpenOptions::create(0o600)).unwrap();
        file.write_all_at(&old, 0).unwrap();
    }
    let mut list = open(&kept).unwrap();
    assert_eq!(text(&mut list), expected);
    assert!(list.damage().is_empty());
    let contents = [0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10, 7];
    let receipts = list.receipts(&contents).unwrap();
    assert_eq!(receipts[0].map(|found| (found.class, found.profile)), Some((Class::Spam, 3)));
    assert_eq!(receipts[1], None);
}

#[test]
fn a_later_version_is_left_alone() {
    let (vfs, _) = written();
    let mut bytes = vfs.read(path(), SIZE_MAX).unwrap();
    let copy = bytes.len() - 128;
    for at in [0, copy] {
        bytes[at + 8] = 2;
        let sum = xxhash_rust::xxh3::xxh3_64_with_seed(&bytes[at..at + 120], 0);
        bytes[at + 120..at + 128].copy_from_slice(&sum.to_le_bytes());
    }
    let file = vfs.open(path(), OpenOptions::WRITE).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    assert!(matches!(open(&vfs), Err(Error::Version { version: 2, .. })));
    assert_eq!(vfs.read(path(), SIZE_MAX).unwrap(), bytes);
}
