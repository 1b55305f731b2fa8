//! Saved messages keep the promises of a storage that can only be read: texts, UIDs, stamps, and
//! random changes by other programs, followed by two handles; and nothing is ever written.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use barid_formats::{FormatName, MailboxSpec, open};
use barid_mailbox::{ChangeSet, Error, FlagChange, NewMessage, ReadAs, Storage};
use barid_mailbox_conformance::{Fixture, StorageHandle, canonical, state_ledger, text};
use barid_state::Ledger;
use barid_types::{Flag, FlagSet, Uid};
use barid_vfs::{Host as _, MemVfs, OpenOptions, Vfs};
use fastrand::Rng;

const STATE_DIR: &str = "/state";

/// A folder of saved messages, or the path of one, on a disk in memory.
struct Saved {
    disk: MemVfs,
    path: PathBuf,
}

impl Saved {
    fn new(path: &str) -> Self {
        let saved = Self { disk: MemVfs::new(), path: path.into() };
        for folder in ["/mail", "/mail/box", STATE_DIR, "/tmp"] {
            saved.disk.create_dir(Path::new(folder), 0o700).unwrap();
        }
        saved
    }

    /// Writes a file as other programs save one, and lets so much time pass that it is not being
    /// written any more.
    fn save(&self, name: &str, text: &[u8]) {
        let path = Path::new("/mail/box").join(name);
        let file =
            self.disk.open(&path, OpenOptions { truncate: true, ..OpenOptions::create(0o600) });
        file.unwrap().write_all_at(text, 0).unwrap();
        self.disk.sleep(Duration::from_secs(3));
    }

    fn remove(&self, name: &str) {
        self.disk.remove_file(&Path::new("/mail/box").join(name)).unwrap();
        self.disk.sleep(Duration::from_secs(3));
    }

    fn rename(&self, from: &str, to: &str) {
        let path = |name| Path::new("/mail/box").join(name);
        self.disk.rename(&path(from), &path(to)).unwrap();
        self.disk.sleep(Duration::from_secs(3));
    }

    /// Returns everything in the folder: names, bytes and the time of the last change.
    fn bytes(&self) -> BTreeMap<Vec<u8>, (Vec<u8>, i64)> {
        let mut all = BTreeMap::new();
        let folder = Path::new("/mail/box");
        let dir = self.disk.open_dir(folder).unwrap();
        let mut names = Vec::new();
        dir.list(&mut |name, _| names.push(name.to_vec())).unwrap();
        for name in names {
            let path = folder.join(std::str::from_utf8(&name).unwrap());
            let changed = self.disk.metadata(&path).unwrap().changed.unix_nanos;
            all.insert(name, (self.disk.read(&path, u64::MAX).unwrap(), changed));
        }
        all
    }
}

impl Fixture for Saved {
    fn open(&self) -> Box<dyn Storage> {
        let spec = MailboxSpec { format: FormatName::named("eml"), path: self.path.clone() };
        open(Arc::new(self.disk.clone()), &spec).unwrap()
    }

    fn ledger(&self) -> Ledger {
        state_ledger(Arc::new(self.disk.clone()), Path::new(STATE_DIR))
    }

    fn pass_time(&self) {
        self.disk.sleep(Duration::from_secs(3));
    }
}

fn numbers(handle: &StorageHandle<'_>) -> Vec<u32> {
    handle.uids().iter().map(|uid| uid.get()).collect()
}

/// Returns the texts by UID.
fn texts(handle: &StorageHandle<'_>) -> BTreeMap<u32, Vec<u8>> {
    handle.contents().into_iter().map(|(uid, content)| (uid.get(), content.text)).collect()
}

#[test]
fn messages_have_uids_in_the_order_of_names_and_keep_them() {
    let saved = Saved::new("/mail/box");
    let mut rng = Rng::with_seed(3);
    let all: Vec<Vec<u8>> = (0..6).map(|number| text(number, &mut rng)).collect();
    for (name, text) in [("10.eml", &all[2]), ("9.eml", &all[1]), ("1.EML", &all[0])] {
        saved.save(name, text);
    }
    saved.save("notes.txt", b"not a message\n");
    saved.save(".hidden.eml", &all[5]);
    let mut handle = StorageHandle::scanned(&saved);
    assert_eq!(numbers(&handle), [1, 2, 3]);
    let first = texts(&handle);
    assert_eq!(
        first.values().cloned().collect::<Vec<_>>(),
        [0, 1, 2].map(|at: usize| canonical(&all[at]))
    );
    for row in handle.known.rows() {
        assert_eq!(row.flags, FlagSet::EMPTY.with(Flag::Seen));
        for read_as in [ReadAs::Message, ReadAs::Quoted, ReadAs::Stored] {
            let (bytes, header_len) = handle.read(row, read_as).unwrap();
            assert_eq!(bytes, all[row.uid.get() as usize - 1], "the bytes of the file");
            assert!(bytes[..header_len].ends_with(b"\n\n"));
        }
    }
    // One before the others, one renamed, one gone.
    saved.save("0.eml", &all[3]);
    saved.rename("10.eml", "a.eml");
    saved.remove("9.eml");
    let report = handle.scan();
    assert_eq!((numbers(&handle), report.expunged), (vec![1, 3, 4], vec![Uid::new(2).unwrap()]));
    assert_eq!(texts(&handle)[&4], canonical(&all[3]));
    assert_eq!(texts(&handle)[&3], canonical(&all[2]));
    // Without a cache the ledger knows them.
    handle.forget();
    handle.scan();
    assert_eq!(numbers(&handle), [1, 3, 4]);
    assert_eq!(texts(&StorageHandle::scanned(&saved)), texts(&handle));
    // Another text under a name is another message.
    saved.save("0.eml", &all[4]);
    handle.scan_with(true);
    assert_eq!(numbers(&handle), [1, 3, 5]);
}

#[test]
fn one_file_is_a_mailbox_whatever_its_name() {
    for name in ["one.eml", "saved"] {
        let saved = Saved::new(&format!("/mail/box/{name}"));
        saved.save(name, b"Subject: x\n\ntext\n");
        saved.save("other.eml", b"Subject: y\n\ntext\n");
        let mut handle = StorageHandle::scanned(&saved);
        assert_eq!(texts(&handle), [(1, b"Subject: x\n\ntext\n".to_vec())].into());
        let stamp = handle.storage.stamp().unwrap();
        saved.save("third.eml", b"Subject: z\n\ntext\n");
        assert!(handle.storage.stamp().unwrap().is_same(&stamp));
        saved.save(name, b"Subject: changed\n\ntext\n");
        assert!(!handle.storage.stamp().unwrap().is_same(&stamp));
        handle.scan();
        assert_eq!(texts(&handle), [(2, b"Subject: changed\n\ntext\n".to_vec())].into());
    }
}

/// Checks that a mailbox whose first message is known refuses flags, expunges and appends.
pub(crate) fn check_refuses_changes(handle: &mut StorageHandle<'_>) {
    let caps = handle.storage.caps();
    assert!(!caps.append && !caps.flags && !caps.expunge && caps.keywords_max == 0);
    let uid = Uid::new(1).unwrap();
    let mut flags = ChangeSet::default();
    let add = FlagSet::EMPTY.with(Flag::Flagged);
    flags.flags.extend([(uid, FlagChange { add, ..FlagChange::default() })]);
    let expunge = ChangeSet { expunge: vec![uid], ..ChangeSet::default() };
    let new = [NewMessage { bytes: b"Subject: b\n\n", ..NewMessage::default() }];
    for (changes, appends) in [(flags, &[][..]), (expunge, &[]), (ChangeSet::default(), &new)] {
        let refused = handle.try_sync(&changes, appends);
        assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
    }
}

#[test]
fn nothing_is_written() {
    let saved = Saved::new("/mail/box");
    saved.save("a.eml", b"Subject: a\n\na\n");
    let before = saved.bytes();
    let mut handle = StorageHandle::scanned(&saved);
    handle.storage.identity(true).unwrap();
    assert!(barid_state_attribute(&saved).is_none(), "no identity");
    check_refuses_changes(&mut handle);
    handle.scan_with(true);
    assert_eq!(saved.bytes(), before);
}

fn barid_state_attribute(saved: &Saved) -> Option<Vec<u8>> {
    saved.disk.xattr(Path::new("/mail/box"), "user.barid.id").unwrap_or_default()
}

#[test]
fn a_settled_stamp_proves_that_nothing_changed() {
    let saved = Saved::new("/mail/box");
    saved.save("a.eml", b"Subject: a\n\na\n");
    let mut handle = StorageHandle::scanned(&saved);
    saved.pass_time();
    let stamp = handle.storage.stamp().unwrap();
    assert!(handle.storage.stamp_rules().unsettled_nanos(&stamp) <= 0);
    assert_eq!(handle.scan().stats.dirs_listed, 0, "an unchanged folder is not listed");
    assert!(saved.open().stamp().unwrap().is_same(&stamp));
    saved.save("b.eml", b"Subject: b\n\nb\n");
    assert!(!saved.open().stamp().unwrap().is_same(&stamp));
    assert_eq!(handle.scan().stats.messages_read, 1, "only the new message is read");
}

#[test]
fn what_others_do_is_followed() {
    let mut steps = 0;
    for seed in 0..8 {
        let saved = Saved::new("/mail/box");
        let mut rng = Rng::with_seed(seed);
        // By UID, what two handles must find: each message under the UID that it got first.
        let (mut files, mut made): (BTreeMap<String, Vec<u8>>, u32) = Default::default();
        let mut handles = [StorageHandle::scanned(&saved), StorageHandle::scanned(&saved)];
        let mut by_text: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        for _ in 0..40 {
            let some = files.keys().nth(rng.usize(..files.len().max(1))).cloned();
            match (rng.u8(..5), some) {
                (0, Some(name)) => {
                    saved.remove(&name);
                    files.remove(&name);
                }
                (1, Some(name)) => {
                    let to = format!("{}-{made}.eml", rng.u32(..30));
                    if !files.contains_key(&to) {
                        saved.rename(&name, &to);
                        let text = files.remove(&name).unwrap();
                        files.insert(to, text);
                    }
                }
                (2, Some(name)) => {
                    made += 1;
                    let text = text(made, &mut rng);
                    // A program that saves again replaces the file.
                    saved.remove(&name);
                    saved.save(&name, &text);
                    files.insert(name, text);
                }
                _ => {
                    made += 1;
                    let (name, text) = (format!("{}.eml", rng.u32(..40)), text(made, &mut rng));
                    if let Entry::Vacant(free) = files.entry(name) {
                        saved.save(free.key(), &text);
                        free.insert(text);
                    }
                }
            }
            let turn = rng.usize(..2);
            if rng.u8(..10) == 0 {
                handles[turn].forget();
            }
            handles[turn].scan();
            let found = texts(&handles[turn]);
            let mut expected: Vec<Vec<u8>> = files.values().map(|text| canonical(text)).collect();
            let mut has: Vec<Vec<u8>> = found.values().cloned().collect();
            expected.sort();
            has.sort();
            assert_eq!(has, expected, "seed {seed}");
            for (uid, text) in found {
                let first = *by_text.entry(text).or_insert(uid);
                assert_eq!(first, uid, "seed {seed}: a message keeps its UID");
            }
            steps += 1;
        }
        let uids: std::collections::BTreeSet<u32> = by_text.values().copied().collect();
        assert_eq!(uids.len(), by_text.len(), "seed {seed}: no UID is given twice");
    }
    assert_eq!(steps, 320);
}
