//! Archives that are damaged, cut or hostile: clear errors, and every other message.

use std::path::PathBuf;
use std::sync::Arc;

use barid_formats::MailboxSpec;
use barid_formats::check::{CheckOptions, check};
use barid_mailbox::{Error, ReadAs, ScanContext};
use barid_mailbox_conformance::{Fixture as _, StorageHandle, text};
use barid_testkit::disk;
use barid_vfs::{OsVfs, Vfs};
use fastrand::Rng;

use super::archive::{ArchiveCommit, GitArchive, open_archive};

fn some_texts(count: u32) -> Vec<Vec<u8>> {
    let mut rng = Rng::with_seed(u64::from(count));
    (0..count).map(|number| text(number, &mut rng)).collect()
}

fn archive_of(texts: &[Vec<u8>], is_loose: bool) -> Option<GitArchive> {
    let archive = GitArchive::new()?;
    archive.init(0);
    let steps: Vec<ArchiveCommit> = texts.iter().cloned().map(ArchiveCommit::Add).collect();
    archive.commit(0, &steps, is_loose);
    Some(archive)
}

/// Returns the path of a loose object.
fn loose(archive: &GitArchive, name: &str) -> PathBuf {
    archive.epoch(0).join("objects").join(&name[..2]).join(&name[2..])
}

fn scan_error(archive: &GitArchive) -> Option<Error> {
    let storage = open_archive(&archive.path);
    let known = barid_mailbox_conformance::Mirror::default();
    let mut ledger = archive.ledger();
    let context = &mut ScanContext {
        ledger: &mut ledger,
        read_only: false,
        full_check: false,
        will_rescan: false,
        threads: 2,
        progress: None,
    };
    storage.scan(&known, &NoSinks, context).err()
}

/// Returns the damages that a check finds, none of which can be repaired.
fn damages(archive: &GitArchive) -> Vec<String> {
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    let spec = MailboxSpec::parse(&format!("public-inbox:{}", archive.path.display()));
    let report = check(&vfs, &spec, &CheckOptions::default()).unwrap();
    assert!(!report.is_repairable && report.damages.iter().all(|damage| damage.kind == "object"));
    report.damages.into_iter().map(|damage| damage.what).collect()
}

/// Sinks that ignore everything.
struct NoSinks;

impl barid_mailbox::Sinks for NoSinks {
    fn sink(&self, _chunk: u32) -> Box<dyn barid_mailbox::ScanSink + '_> {
        Box::new(Self)
    }
}

impl barid_mailbox::ScanSink for NoSinks {
    fn message(
        &mut self,
        _message: &barid_mailbox::ScannedMessage<'_>,
    ) -> Result<(), barid_mailbox::SinkError> {
        Ok(())
    }
    fn finish(self: Box<Self>) -> Result<(), barid_mailbox::SinkError> {
        Ok(())
    }
}

#[test]
fn a_missing_message_is_a_defect_until_it_comes_back() {
    let all = some_texts(5);
    let Some(archive) = archive_of(&all, true) else { return };
    let name = archive.blob_name(&all[2]);
    let path = loose(&archive, &name);
    let bytes = disk::read(&path).unwrap();
    let mut handle = StorageHandle::scanned(&archive);
    // One that is known stays, and cannot be read.
    disk::remove_file(&path).unwrap();
    assert!(handle.scan_with(true).expunged.is_empty());
    let row = handle.known.rows()[2].clone();
    let error = archive.open().read(&row.location.get(), ReadAs::Message, &mut Vec::new());
    let error = error.unwrap_err().to_string();
    assert!(error.contains(&name) && error.contains("is missing"), "{error}");
    assert!(error.contains("0.git/objects"), "{error}");
    // One that is not known yet has no UID before it can be read.
    let other = archive.at(archive.path.clone());
    let mut handle = StorageHandle::open(&other);
    let report = handle.scan();
    assert_eq!((handle.uids().len(), report.defects.len()), (4, 1));
    assert!(report.defects[0].what.contains(&name), "{:?}", report.defects);
    assert!(handle.storage.has_unread(&report.state));
    let objects = archive.epoch(0).join("objects");
    assert_eq!(damages(&archive), [format!("{name} is missing in {}", objects.display())]);
    disk::write(&path, &bytes).unwrap();
    assert!(damages(&archive).is_empty());
    let report = handle.scan();
    assert_eq!((handle.uids().len(), report.defects.len()), (5, 0));
    assert!(!report.reset && !handle.storage.has_unread(&report.state));
    // Another object in its place is damage, too.
    disk::write(&path, b"nonsense").unwrap();
    let mut fresh = StorageHandle::open(&other);
    assert_eq!(fresh.scan().defects.len(), 1);
    let error = archive.open().read(&row.location.get(), ReadAs::Message, &mut Vec::new());
    assert!(error.unwrap_err().to_string().contains("damaged"));
    // One that is deleted meanwhile is not tried again.
    archive.commit(0, &[ArchiveCommit::Add(b"Subject: a\n\n".to_vec())], true);
    disk::write(&path, &bytes).unwrap();
    archive.commit(0, &[ArchiveCommit::Delete(all[2].clone())], true);
    disk::write(&path, b"nonsense").unwrap();
    let report = fresh.scan();
    assert_eq!((report.stats.messages_read, report.defects.len()), (1, 0));
    assert!(!fresh.storage.has_unread(&report.state));
}

#[test]
fn a_commit_or_a_tree_may_be_missing() {
    let all = some_texts(4);
    let Some(archive) = archive_of(&all, true) else { return };
    let name = |what: &str| {
        let name = archive.git(&archive.epoch(0), &["rev-parse", what], b"");
        String::from_utf8_lossy(&name).trim().to_owned()
    };
    let mut handle = StorageHandle::scanned(&archive);
    let tree = name("master~1^{tree}");
    disk::remove_file(&loose(&archive, &tree)).unwrap();
    let report = handle.scan_with(true);
    assert!(report.expunged.is_empty() && !report.reset, "nothing is given up");
    assert!(report.defects[0].what.contains(&tree), "{:?}", report.defects);
    let commit = name("master~2");
    disk::remove_file(&loose(&archive, &commit)).unwrap();
    let error = scan_error(&archive).unwrap();
    assert!(matches!(&error, Error::Object { object, .. } if *object == commit), "{error}");
    assert!(damages(&archive)[0].contains(&commit));
}

#[test]
fn shallow_and_partial_clones_are_read_as_far_as_they_go() {
    let all = some_texts(10);
    let Some(archive) = archive_of(&all, false) else { return };
    let url = format!("file://{}", archive.epoch(0).display());
    archive.git(&archive.epoch(0), &["config", "uploadpack.allowFilter", "true"], b"");
    let clone = |args: &[&str], name: &str| {
        let to = archive.folder().join(name);
        let all: Vec<&str> =
            [&["clone", "-q", "--bare"], args, &[&url, to.to_str().unwrap()]].concat();
        archive.git(archive.folder(), &all, b"");
        to
    };
    let shallow = archive.at(clone(&["--depth=3"], "shallow"));
    let mut handle = StorageHandle::open(&shallow);
    let report = handle.scan();
    assert_eq!(handle.uids().len(), 3);
    assert!(report.defects[0].what.contains("shallow"), "{:?}", report.defects);
    archive.git(&shallow.path, &["fetch", "-q", "--unshallow"], b"");
    let report = handle.scan();
    assert_eq!((handle.uids().len(), report.defects.len(), report.reset), (10, 0, false));
    let partial = archive.at(clone(&["--filter=blob:none"], "partial"));
    let mut handle = StorageHandle::open(&partial);
    assert_eq!(handle.scan().defects.len(), 10, "no message is there");
    assert!(handle.uids().is_empty());
}

#[test]
fn no_damage_of_a_pack_does_harm() {
    let all = some_texts(30);
    let Some(archive) = archive_of(&all, false) else { return };
    let folder = archive.epoch(0).join("objects/pack");
    let args = ["repack", "-a", "-d", "-f", "-q", "--depth=10"];
    archive.git(&archive.epoch(0), &args, b"");
    let files: Vec<PathBuf> = disk::list(&folder).unwrap();
    let ends = |end: &str| {
        let mut files = files.iter();
        files.find(|path| path.extension().is_some_and(|found| found == end)).unwrap().clone()
    };
    let (mut read, mut failed) = (0, 0);
    for path in [ends("pack"), ends("idx")] {
        let whole = disk::read(&path).unwrap();
        disk::remove_file(&path).unwrap();
        let mut rng = Rng::with_seed(5);
        for round in 0..300 {
            let mut bytes = whole.clone();
            match round % 3 {
                0 => bytes.truncate(rng.usize(..bytes.len())),
                _ => {
                    for _ in 0..rng.u32(1..4) {
                        let at = rng.usize(..bytes.len());
                        bytes[at] ^= 1 << rng.u32(..8);
                    }
                }
            }
            disk::write(&path, &bytes).unwrap();
            let (good, bad) = read_all(&archive, &all);
            read += good;
            failed += bad;
        }
        disk::write(&path, &whole).unwrap();
    }
    assert!(read > 1_000 && failed > 100, "{read} messages are read, {failed} are not");
}

/// Reads what can be read, and compares it; returns how many messages were read and were not.
fn read_all(archive: &GitArchive, all: &[Vec<u8>]) -> (usize, usize) {
    if scan_error(archive).is_some() {
        return (0, 1);
    }
    let mut handle = StorageHandle::open(archive);
    handle.scan();
    let mut good = 0;
    for row in handle.known.rows() {
        let mut bytes = Vec::new();
        if handle.storage.read(&row.location.get(), ReadAs::Message, &mut bytes).is_ok() {
            good += usize::from(all.contains(&bytes));
        }
    }
    (good, all.len() - good)
}

#[test]
fn large_messages_are_read_in_pieces() {
    let large = [b"Subject: large\n\n".to_vec(), vec![b'x'; 17 << 20]].concat();
    for is_loose in [true, false] {
        let Some(archive) = archive_of(std::slice::from_ref(&large), is_loose) else { return };
        let handle = StorageHandle::scanned(&archive);
        let row = &handle.known.rows()[0];
        assert_eq!(row.size, large.len() as u64);
        let read = handle.storage.read(&row.location.get(), ReadAs::Message, &mut Vec::new());
        assert!(matches!(read, Err(Error::MessageTooLarge { .. })), "{read:?}");
        let stamp = handle.storage.stamp().unwrap();
        let mut message = handle.storage.open_message(&row.location.get(), &stamp).unwrap();
        assert_eq!(message.len(), large.len() as u64);
        let mut buffer = vec![0; 1 << 20];
        for offset in [0, 16 << 20, 5, large.len() - 3] {
            let len = message.read_at(&mut buffer, offset as u64).unwrap();
            assert_eq!(buffer[..len], large[offset..offset + len], "{offset}");
        }
    }
}

#[test]
fn what_is_not_an_archive_is_explained() {
    let Some(archive) = GitArchive::new() else { return };
    archive.init(0);
    let blob = archive.git(&archive.epoch(0), &["hash-object", "-w", "--stdin"], b"text");
    let head = archive.epoch(0).join("HEAD");
    disk::write(&head, b"ref: ../../../etc/passwd\n").unwrap();
    let error = scan_error(&archive).unwrap().to_string();
    assert!(error.contains("is not a ref"), "{error}");
    assert!(damages(&archive)[0].contains("is not a ref"));
    // A blob as the tip of a branch.
    disk::write(&head, &blob).unwrap();
    let error = scan_error(&archive).unwrap().to_string();
    assert!(error.contains("is a blob"), "{error}");
}

#[test]
fn messages_of_an_epoch_that_is_missing_are_not_given_up() {
    let all = some_texts(4);
    let Some(archive) = archive_of(&all[..2], false) else { return };
    for number in [1, 2] {
        archive.init(number);
        archive.commit(number, &[ArchiveCommit::Add(all[number as usize + 1].clone())], false);
    }
    let mut handle = StorageHandle::scanned(&archive);
    let uids = handle.uids();
    assert_eq!(uids.len(), 4);
    let away = archive.folder().join("away");
    for number in [1, 2] {
        let epoch = archive.epoch(number);
        for path in [epoch.join("refs/heads/master"), epoch.join("HEAD"), epoch] {
            disk::rename(&path, &away).unwrap();
            for full_check in [false, true] {
                let error = handle.try_scan(full_check).unwrap_err();
                assert!(matches!(&error, Error::Object { .. }), "{error}");
                let text = error.to_string();
                assert!(text.contains("is missing; ") && text.contains("cache clear"), "{text}");
            }
            disk::rename(&away, &path).unwrap();
            handle.scan();
            assert_eq!(handle.uids(), uids);
        }
    }
    // A damaged list of refs is an error, and not an epoch without commits.
    archive.git(&archive.epoch(2), &["pack-refs", "--all"], b"");
    let path = archive.epoch(2).join("packed-refs");
    let text = String::from_utf8(disk::read(&path).unwrap()).unwrap();
    let damaged = text.replace(" refs/heads/master", "x refs/heads/master");
    disk::write(&path, damaged.as_bytes()).unwrap();
    let error = handle.try_scan(false).unwrap_err().to_string();
    assert!(error.contains("damaged line"), "{error}");
    disk::write(&path, text.as_bytes()).unwrap();
    // Without a cache, the ledger keeps the UIDs of an epoch that has no commits, or is left out.
    for path in [archive.epoch(1).join("refs/heads/master"), archive.epoch(1)] {
        disk::rename(&path, &away).unwrap();
        handle.forget();
        handle.scan();
        assert_eq!(handle.uids().len(), 3);
        disk::rename(&away, &path).unwrap();
        handle.forget();
        handle.scan();
        assert_eq!(handle.uids(), uids);
    }
}
