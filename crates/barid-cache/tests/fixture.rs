//! A file written by version 1 stays readable. If this fails, raise the version in `header.rs` and
//! add a fixture; never replace one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_cache::{Delta, verify};
use barid_formats::{ChangedMessage, ScanReport};
use barid_types::{FlagSet, InternalDate, KeywordMask, Uid};
use barid_vfs::{MemVfs, OpenOptions, OsVfs, Vfs};

use crate::world::{Message, Model, build, cache_path, compare, finish, identity, open, scan};

const SIZE_MAX: u64 = 1 << 20;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/cache-v1.bhc")
}

fn message(uid: u32, header: &str) -> Message {
    Message {
        uid,
        header: header.as_bytes().to_vec(),
        name: (uid % 2 == 1).then(|| (format!("{uid}.M1P2.host:2,S").into_bytes(), uid == 3)),
        offset: u64::from(uid) << 33,
        body_len: 0x0102_0304_0506,
        rfc822_size: (uid != 2).then_some(0x0102_0304_0605),
        internal_date: InternalDate { unix_seconds: 1_600_000_000, zone_minutes: -90 },
        flags: FlagSet::from_bits(uid as u8 * 5),
        keywords: u64::from(uid),
        key: 0x1112_1314_1516_1718 + u64::from(uid),
        modseq: 7,
    }
}

/// The mailbox as it was built, and after the change in the log.
fn models() -> (Model, Model) {
    let first = "From: A <a@example.org>\nTo: b@example.org,\n c@example.org\nSubject: one\n\
        Date: Mon, 2 Mar 2020 10:00:00 +0100\nMessage-ID: <1@example.org>\n\n";
    let second = "From: b@example.org\nSubject: Re: one\nDate: nonsense\n\
        Message-ID: <2@example.org>\n\
        References: <0@example.org> <1@example.org>\nIn-Reply-To: <1@example.org>\n\n";
    let third = "Sender: s@example.org\nReply-To: r@example.org\nCc: c@example.org\n\
        Bcc: d@example.org\nIn-Reply-To: <2@example.org>\n\n";
    let mut before = Model::new();
    before.messages = vec![message(1, first), message(2, second), message(3, third)];
    (before.uidnext, before.highest_modseq, before.step) = (4, 7, 1);
    let mut after = before.clone();
    (after.uidnext, after.highest_modseq, after.step) = (10, 8, 2);
    after.messages.remove(1);
    after.messages[0].flags = FlagSet::EMPTY;
    after.messages[0].name = Some((b"1.M1P2.host:2,".to_vec(), false));
    after.messages[0].modseq = 8;
    after.messages.push(Message { modseq: 8, ..message(9, first) });
    (before, after)
}

fn written() -> Vec<u8> {
    let disk = MemVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut rng = fastrand::Rng::with_seed(1);
    let (before, after) = models();
    let snapshot = build(&vfs, &cache_path(), &before, &mut rng);
    let delta = Delta::new(&snapshot);
    let new_uids = scan(&delta, &after.messages[2..], &mut rng);
    let first = &after.messages[0];
    let changed = ChangedMessage {
        uid: Uid::new(1).unwrap(),
        flags: first.flags,
        keywords: KeywordMask(first.keywords),
        file: first.name.clone(),
    };
    let report = ScanReport {
        new_uids,
        changed: vec![changed],
        expunged: vec![Uid::new(2).unwrap()],
        ..after.report()
    };
    delta.apply(&report, &finish(&identity(), 8)).unwrap();
    disk.read(&cache_path(), SIZE_MAX).unwrap()
}

#[test]
fn version_1_stays_readable() {
    let written = written();
    let os = OsVfs;
    if os.metadata(&fixture()).is_err() && std::env::var_os("BLESS_FIXTURES").is_some() {
        let file = os.open(&fixture(), OpenOptions::create_new(0o644)).unwrap();
        file.write_all_at(&written, 0).unwrap();
    }
    let kept = os.read(&fixture(), SIZE_MAX).unwrap();
    assert_eq!(kept.len(), written.len(), "the same mailbox takes as many bytes");
    let mut rng = fastrand::Rng::with_seed(2);
    let (_, after) = models();
    for bytes in [kept, written] {
        let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
        vfs.create_dir(Path::new("/cache"), 0o700).unwrap();
        let file = vfs.open(&cache_path(), OpenOptions::create(0o600)).unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        compare(&open(&vfs, &cache_path()), &after, &mut rng).unwrap();
        assert_eq!(verify(vfs, &cache_path()).unwrap().damage, None);
    }
}
