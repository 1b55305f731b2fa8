//! The layout of ledgers on people's disks: a file written by version 1 stays readable, and the
//! same operations still write the same bytes. If this fails, raise the version in `layout.rs`,
//! keep reading the old one, and add a fixture; never replace one.

use barid_types::ModSeq;
use barid_vfs::{MemVfs, OpenOptions, OsVfs, Vfs};

use super::*;

const SIZE_MAX: u64 = 1 << 20;

fn fixture() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/ledger-v1.bin")
}

/// A batch of every record and a number in every field.
fn written() -> (Vec<u8>, Said) {
    let vfs = MemVfs::new();
    let mut ledger = open(&vfs).unwrap();
    ledger.replace(validity(0x0102_0304), (1..=5).map(entry).collect());
    ledger.commit().unwrap();
    ledger.push(entry(0x0a0b_0c0d));
    ledger.expunge(&[uid(2), uid(3), uid(5)]);
    ledger.raise_modseq(ModSeq::new(0x1112_1314_1516_1718).unwrap());
    ledger.set_fingerprint(0x2122_2324_2526_2728);
    ledger.commit().unwrap();
    (vfs.read(&ledger_path(), SIZE_MAX).unwrap(), said(&mut ledger))
}

#[test]
fn version_1_reads_and_writes_as_ever() {
    let (written, expected) = written();
    let os = OsVfs;
    if os.metadata(&fixture()).is_err() && std::env::var_os("BLESS_FIXTURES").is_some() {
        let file = os.open(&fixture(), OpenOptions::create_new(0o644)).unwrap();
        file.write_all_at(&written, 0).unwrap();
    }
    let kept = os.read(&fixture(), SIZE_MAX).unwrap();
    let vfs = MemVfs::new();
    vfs.create_dir(Path::new(DIR), 0o700).unwrap();
    let file = vfs.open(&ledger_path(), OpenOptions::create(0o600)).unwrap();
    file.write_all_at(&kept, 0).unwrap();
    let mut ledger = open(&vfs).unwrap();
    assert_eq!(said(&mut ledger), expected);
    assert_eq!(ledger.fingerprint(), 0x2122_2324_2526_2728);
    assert!(kept == written, "the layout changed without a new version");
}

#[test]
fn a_later_version_is_left_alone() {
    let vfs = MemVfs::new();
    vfs.create_dir(Path::new(DIR), 0o700).unwrap();
    let mut bytes = written().0;
    bytes[8] = 2;
    let at = bytes.len() - 144 + 8;
    bytes[at] = 2;
    let file = vfs.open(&ledger_path(), OpenOptions::create(0o600)).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    assert!(matches!(open(&vfs), Err(barid_state::Error::Version { version: 2, .. })));
    assert_eq!(vfs.read(&ledger_path(), SIZE_MAX).unwrap(), bytes);
}
