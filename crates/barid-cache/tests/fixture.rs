//! A file of the current version stays readable, one of an older version is built again. If the
//! first fails, raise the version in `header.rs` and add a fixture; never replace one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_cache::{CacheOptions, Delta, Opened, Snapshot, verify};
use barid_mailbox::{ChangedMessage, ScanReport, Shift};
use barid_types::{FlagSet, InternalDate, KeywordMask, Uid};
use barid_vfs::{MemVfs, OpenOptions, OsVfs, Vfs};

use crate::follow::{Change, enlarge, follow, moved};
use crate::world::{
    ID, Message, Model, build_as, cache_path, compare, finish, identity, open, options, scan,
};

const SIZE_MAX: u64 = 1 << 20;

/// Caches of this version: the file, and that of the store beside it, if any.
const FIXTURES: &[(&str, (&str, &str))] = &[
    ("cache-v6", ("native", "none")),
    ("cache-v6-lz4", ("native", "lz4")),
    ("cache-v6-memory", ("memory", "none")),
];
/// A cache whose log contains moved messages.
const MOVED: &str = "cache-v6-moved";
/// Caches with rewritten columns after the first ones.
const REFRESHED: &[(&str, (&str, &str))] =
    &[("cache-v6-refreshed", ("native", "none")), ("cache-v6-refreshed-lz4", ("native", "lz4"))];

fn fixture(name: &str, suffix: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    folder.join(format!("{name}.{suffix}"))
}

fn message(uid: u32, header: &str) -> Message {
    Message {
        uid,
        header: header.as_bytes().to_vec(),
        name: (uid % 2 == 1).then(|| (format!("{uid}.M1P2.host:2,S").into_bytes(), uid == 3)),
        offset: u64::from(uid) << 33,
        separator_len: 40 + uid % 10,
        padding: 0,
        body_len: 0x0102_0304_0506,
        rfc822_size: (uid != 2).then_some(0x0102_0304_0605),
        internal_date: InternalDate { unix_seconds: 1_600_000_000, zone_minutes: -90 },
        flags: FlagSet::from_bits(uid as u8 * 5),
        keywords: u64::from(uid),
        key: 0x1112_1314_1516_1718 + u64::from(uid),
        modseq: 7,
    }
}

/// Returns the mailbox as it was built, and after the change in the log.
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

/// Returns the cache file and the content of the store beside it.
fn written(options: &CacheOptions) -> (Vec<u8>, Option<Vec<u8>>) {
    let disk = MemVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut rng = fastrand::Rng::with_seed(1);
    let (before, after) = models();
    let snapshot = build_as(&vfs, &cache_path(), &before, &mut rng, options);
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
    let cache = disk.read(&cache_path(), SIZE_MAX).unwrap();
    let store = store_path(&cache).map(|path| disk.read(&path, SIZE_MAX).unwrap());
    (cache, store)
}

/// Returns the path of the store in the header page of a cache.
fn store_path(cache: &[u8]) -> Option<PathBuf> {
    let generation = u64::from_le_bytes(cache[256..264].try_into().unwrap());
    let path = format!("{}.{generation:016x}.memory", cache_path().display());
    (generation != 0).then(|| PathBuf::from(path))
}

fn on_disk(files: &[(PathBuf, &[u8])]) -> Arc<dyn Vfs> {
    let vfs: Arc<dyn Vfs> = Arc::new(MemVfs::new());
    vfs.create_dir(Path::new("/cache"), 0o700).unwrap();
    for (path, bytes) in files {
        let file = vfs.open(path, OpenOptions::create(0o600)).unwrap();
        file.write_all_at(bytes, 0).unwrap();
    }
    vfs
}

fn keep(path: &Path, bytes: &[u8]) {
    let os = OsVfs;
    if os.metadata(path).is_err() && std::env::var_os("BLESS_FIXTURES").is_some() {
        let file = os.open(path, OpenOptions::create_new(0o644)).unwrap();
        file.write_all_at(bytes, 0).unwrap();
    }
}

fn check(name: &str, kind: (&str, &str)) {
    let (cache, store) = written(&options(kind));
    keep(&fixture(name, "bhc"), &cache);
    let kept = OsVfs.read(&fixture(name, "bhc"), SIZE_MAX).unwrap();
    assert_eq!(kept.len(), cache.len(), "the same mailbox takes as many bytes");
    let mut kept_store = None;
    if let Some(store) = &store {
        keep(&fixture(name, "store"), store);
        kept_store = Some(OsVfs.read(&fixture(name, "store"), SIZE_MAX).unwrap());
    }
    let mut rng = fastrand::Rng::with_seed(2);
    let (_, after) = models();
    for (cache, store) in [(kept, kept_store), (cache, store)] {
        let mut files = vec![(cache_path(), &cache[..])];
        if let Some(store) = &store {
            files.push((store_path(&cache).unwrap(), &store[..]));
        }
        let vfs = on_disk(&files);
        let opened = open(&vfs, &cache_path());
        assert_eq!(opened.options(), options(kind));
        compare(&opened, &after, &mut rng).unwrap();
        assert_eq!(verify(vfs, &cache_path()).unwrap().damage, None);
    }
}

#[test]
fn version_6_stays_readable() {
    for (name, kind) in FIXTURES {
        check(name, *kind);
    }
}

/// Returns a mailbox of spans before and after a change that moves two of its messages.
fn moved_models() -> (Model, Model) {
    let mut before = Model::new();
    before.messages = [2, 4, 6].map(|uid| message(uid, "Subject: one\n\n")).to_vec();
    (before.uidnext, before.highest_modseq, before.step) = (7, 7, 1);
    let mut after = before.clone();
    (after.highest_modseq, after.step) = (8, 2);
    after.messages.remove(0);
    after.messages[0].offset = 1 << 32;
    after.messages[0].padding = 64;
    after.messages[1].offset -= 1000;
    after.messages[1].flags = FlagSet::EMPTY;
    after.messages[1].modseq = 8;
    (before, after)
}

fn written_moved(kind: (&str, &str), is_large: bool) -> Vec<u8> {
    let disk = MemVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut rng = fastrand::Rng::with_seed(1);
    let (before, after) = moved_models();
    let snapshot = build_as(&vfs, &cache_path(), &before, &mut rng, &options(kind));
    let old_offset = before.messages[1].offset;
    let shift = Shift { old_offset, len: 1 << 60, new_offset: old_offset - 1000 };
    let mut change = Change {
        moved: after.messages.iter().map(moved).collect(),
        expunged: vec![Uid::new(2).unwrap()],
        shifts: vec![shift],
        modseq: 8,
    };
    if is_large {
        enlarge(&mut change);
    }
    follow(&snapshot, &after, &change).unwrap();
    disk.read(&cache_path(), SIZE_MAX).unwrap()
}

#[test]
fn moved_messages_stay_readable() {
    check_moved(MOVED, ("native", "none"), false);
    for (name, kind) in REFRESHED {
        check_moved(name, *kind, true);
    }
}

fn check_moved(name: &str, kind: (&str, &str), is_large: bool) {
    let cache = written_moved(kind, is_large);
    // The valid page is the second one if columns were rewritten.
    assert_eq!(cache[2048..2056] == *b"BARIDHC\n", is_large);
    keep(&fixture(name, "bhc"), &cache);
    let kept = OsVfs.read(&fixture(name, "bhc"), SIZE_MAX).unwrap();
    assert_eq!(kept.len(), cache.len(), "the same change takes as many bytes");
    let vfs = on_disk(&[(cache_path(), &kept)]);
    let (_, after) = moved_models();
    compare(&open(&vfs, &cache_path()), &after, &mut fastrand::Rng::with_seed(2)).unwrap();
}

#[test]
fn older_versions_are_built_anew() {
    let old = ["cache-v1", "cache-v2", "cache-v2-lz4", "cache-v2-memory"];
    let last = ["cache-v3", "cache-v3-lz4", "cache-v3-memory", "cache-v3-moved", "cache-v4"];
    let refreshed = ["cache-v4-moved", "cache-v4-refreshed", "cache-v4-refreshed-lz4"];
    let v5 = [
        "cache-v5",
        "cache-v5-lz4",
        "cache-v5-memory",
        "cache-v5-moved",
        "cache-v5-refreshed",
        "cache-v5-refreshed-lz4",
    ];
    for name in old.into_iter().chain(last).chain(refreshed).chain(v5) {
        check_old(name);
    }
}

fn check_old(name: &str) {
    let kept = OsVfs.read(&fixture(name, "bhc"), SIZE_MAX).unwrap();
    let vfs = on_disk(&[(cache_path(), &kept)]);
    let opened = Snapshot::open(Arc::clone(&vfs), &cache_path(), ID).unwrap();
    assert!(matches!(opened, Opened::Discarded { reason: "written by another version", .. }));
    assert_eq!(
        verify(vfs, &cache_path()).unwrap().damage,
        Some("written by another version".to_owned())
    );
}
