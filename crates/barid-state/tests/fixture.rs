//! The layout of existing ledgers: a file written by an earlier version stays readable, and the
//! same operations still write the same bytes. If this fails, raise the version in `layout.rs`,
//! keep reading the old one, and add a fixture; never replace one.

use barid_vfs::{MemVfs, OpenOptions, OsVfs, Vfs};

use super::*;

const SIZE_MAX: u64 = 1 << 20;

fn fixture(version: u32) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/ledger-v{version}.bin"))
}

/// Returns a file system with a file of these bytes as the ledger.
fn disk_with(bytes: &[u8]) -> MemVfs {
    let vfs = MemVfs::new();
    vfs.create_dir(Path::new(DIR), 0o700).unwrap();
    let file = vfs.open(&ledger_path(), OpenOptions::create(0o600)).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    vfs
}

/// The UIDs that vanished.
const VANISHED: [u32; 3] = [2, 3, 5];

/// Returns a batch with every record and a number in every field.
fn written() -> (Vec<u8>, Said) {
    let vfs = MemVfs::new();
    let mut ledger = open(&vfs).unwrap();
    ledger.replace(validity(0x0102_0304), (1..=5).map(entry).collect());
    ledger.commit().unwrap();
    ledger.push(entry(0x0a0b_0c0d));
    ledger.expunge(&[uid(2), uid(3), uid(5)]);
    ledger.raise_modseq(ModSeq::new(0x1112_1314_1516_1718).unwrap());
    ledger.set_fingerprint(0x2122_2324_2526_2728);
    ledger.record_vanished(ModSeq::new(0x1112_1314_1516_1719).unwrap(), &VANISHED.map(uid));
    ledger.commit().unwrap();
    (vfs.read(&ledger_path(), SIZE_MAX).unwrap(), said(&mut ledger))
}

#[test]
fn every_version_is_read_and_the_third_written() {
    let (written, expected) = written();
    let os = OsVfs;
    if os.metadata(&fixture(3)).is_err() && std::env::var_os("BLESS_FIXTURES").is_some() {
        let file = os.open(&fixture(3), OpenOptions::create_new(0o644)).unwrap();
        file.write_all_at(&written, 0).unwrap();
    }
    for version in [1, 2, 3] {
        let kept = os.read(&fixture(version), SIZE_MAX).unwrap();
        let vfs = disk_with(&kept);
        let mut ledger = open(&vfs).unwrap();
        let mut expected = expected.clone();
        if version < 3 {
            // Nothing is known of the vanished UIDs.
            expected.modseq = 0x1112_1314_1516_1718;
            (expected.floor, expected.vanished) = (expected.modseq, Vec::new());
        }
        assert_eq!(said(&mut ledger), expected);
        assert_eq!(ledger.fingerprint(), 0x2122_2324_2526_2728);
        assert_eq!(ledger.home().unwrap(), Some((mailbox().path, mailbox().inode)));
        assert!(version < 3 || kept == written, "the layout changed without a new version");
        // The next commit converts it to the third version.
        ledger.push(entry(0x0a0b_0c0e));
        ledger.commit().unwrap();
        let expected = said(&mut ledger);
        assert_eq!(vfs.read(&ledger_path(), SIZE_MAX).unwrap()[8], 3);
        let mut again = open(&vfs).unwrap();
        assert_eq!((said(&mut again), again.notice()), (expected, None));
    }
}

#[test]
fn a_damaged_file_of_version_2_loses_nothing() {
    let bytes = OsVfs.read(&fixture(2), SIZE_MAX).unwrap();
    let uids = said(&mut open(&disk_with(&bytes)).unwrap()).uids;
    let mut told = 0;
    for at in (0..bytes.len()).filter(|at| bytes[*at] != 0) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let vfs = disk_with(&damaged);
        let mut ledger = open(&vfs).unwrap();
        assert_eq!(said(&mut ledger).uids, uids, "{at}");
        ledger.push(entry(0x0a0b_0c0e));
        ledger.commit().unwrap();
        let mut again = open(&vfs).unwrap();
        assert_eq!(said(&mut again).uids.len(), uids.len() + 1, "{at}");
        told += usize::from(again.notice().is_some());
    }
    assert!(told >= 200, "{told}");
}

#[test]
fn a_damaged_file_of_version_1_is_told() {
    let bytes = OsVfs.read(&fixture(1), SIZE_MAX).unwrap();
    let mut told = 0;
    for at in 64..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let mut ledger = open(&disk_with(&damaged)).unwrap();
        let _ = ledger.entries();
        // The last bytes of its checksum may be zeros, as of a batch that was never whole.
        assert!(ledger.notice().is_some() || ledger.uidvalidity().is_some(), "{at}");
        told += usize::from(ledger.notice().is_some_and(|notice| notice.lost));
    }
    assert!(told + 150 > bytes.len() - 64, "{told} of {}", bytes.len() - 64);
}

#[test]
fn a_later_version_is_left_alone() {
    let mut bytes = written().0;
    let len = bytes.len();
    bytes[len - 1] = 0;
    for header in [0, 4096] {
        bytes[header + 8] = 4;
        let checksum = xxhash_rust::xxh3::xxh3_64(&bytes[header..header + 56]);
        bytes[header + 56..header + 64].copy_from_slice(&checksum.to_le_bytes());
        bytes[len - 1] ^= 1;
    }
    bytes[600] = 0;
    let vfs = disk_with(&bytes);
    // One footer is whole only in its first copy, but the header decides.
    assert!(matches!(open(&vfs), Err(barid_state::Error::Version { version: 4, .. })));
    assert_eq!(vfs.read(&ledger_path(), SIZE_MAX).unwrap(), bytes);
}
