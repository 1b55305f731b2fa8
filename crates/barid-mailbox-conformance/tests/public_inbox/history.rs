//! Messages, their order, dates and UIDs, while the archive grows and is rewritten.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use barid_formats::{MailboxSpec, detect, open};
use barid_mailbox::ReadAs;
use barid_mailbox_conformance::{Fixture as _, StorageHandle, text};
use barid_testkit::disk;
use barid_types::{Flag, FlagSet, Uid};
use barid_vfs::{CountingVfs, OsVfs, Vfs as _};
use fastrand::Rng;

use super::archive::{ArchiveCommit, EPOCH_SECONDS, GitArchive, open_on};
use crate::saved::check_refuses_changes;

/// Returns the stored texts by UID.
fn texts(handle: &StorageHandle<'_>) -> BTreeMap<u32, Vec<u8>> {
    let rows = handle.known.rows().iter();
    rows.map(|row| (row.uid.get(), handle.read(row, ReadAs::Stored).unwrap().0)).collect()
}

fn numbers(handle: &StorageHandle<'_>) -> Vec<u32> {
    handle.uids().iter().map(|uid| uid.get()).collect()
}

fn some_texts(count: u32) -> Vec<Vec<u8>> {
    let mut rng = Rng::with_seed(u64::from(count));
    (0..count).map(|number| text(number, &mut rng)).collect()
}

fn add(text: &[u8]) -> ArchiveCommit {
    ArchiveCommit::Add(text.to_vec())
}

fn delete(text: &[u8]) -> ArchiveCommit {
    ArchiveCommit::Delete(text.to_vec())
}

#[test]
fn messages_come_in_the_order_of_commits_and_epochs() {
    let Some(archive) = GitArchive::new() else { return };
    let all = some_texts(6);
    archive.init(0);
    archive.commit(
        0,
        &[add(&all[0]), add(&all[1]), ArchiveCommit::Nothing, ArchiveCommit::Other, add(&all[2])],
        false,
    );
    archive.init(1);
    archive.commit(1, &[add(&all[3]), delete(&all[1]), add(&all[0]), add(b"")], true);
    archive.init(2);
    let mut handle = StorageHandle::scanned(&archive);
    let expected = [(1, &all[0]), (2, &all[2]), (3, &all[3])];
    assert_eq!(texts(&handle), expected.map(|(uid, text)| (uid, text.clone())).into());
    let dates: Vec<i64> = handle.known.rows().iter().map(|row| row.date.unix_seconds).collect();
    assert_eq!(dates, [0, 4, 0].map(|seconds| EPOCH_SECONDS + seconds));
    for row in handle.known.rows() {
        assert_eq!(row.flags, FlagSet::EMPTY.with(Flag::Seen));
        assert_eq!(row.date.zone_minutes, 90);
        for read_as in [ReadAs::Message, ReadAs::Quoted, ReadAs::Stored] {
            let (bytes, header_len) = handle.read(row, read_as).unwrap();
            assert!(bytes[..header_len].ends_with(b"\n\n"));
        }
    }
    // Without a cache the ledger knows them.
    handle.forget();
    assert_eq!(handle.scan().stats.messages_read, 3);
    assert_eq!(numbers(&handle), [1, 2, 3]);
    // A message that was deleted and comes again is another one.
    archive.commit(2, &[add(&all[1]), delete(&all[0]), add(&all[4])], false);
    let report = handle.scan();
    assert_eq!(report.expunged, [Uid::new(1).unwrap()]);
    assert_eq!((report.stats.messages_read, report.reset), (2, false));
    assert_eq!(numbers(&handle), [2, 3, 4, 5]);
    // Deleted and added in one scan, and added although it is there.
    archive.commit(2, &[delete(&all[4]), add(&all[4]), add(&all[2])], true);
    let report = handle.scan();
    assert_eq!((report.expunged, numbers(&handle)), (vec![Uid::new(5).unwrap()], vec![2, 3, 4, 6]));
    assert_eq!(texts(&StorageHandle::scanned(&archive)), texts(&handle));
}

#[test]
fn a_rewritten_history_changes_no_other_uid() {
    let Some(archive) = GitArchive::new() else { return };
    let all = some_texts(8);
    let steps: Vec<ArchiveCommit> = all[..5].iter().map(|text| add(text)).collect();
    archive.init(0);
    archive.init(1);
    archive.commit(0, &steps, false);
    archive.commit(1, &[add(&all[5]), add(&all[6])], true);
    let mut handle = StorageHandle::scanned(&archive);
    assert_eq!(numbers(&handle), [1, 2, 3, 4, 5, 6, 7]);
    // public-inbox-purge leaves an empty blob, and public-inbox-edit another text.
    let mut purged = steps.clone();
    purged[1] = add(b"");
    purged[3] = add(&all[7]);
    archive.rewrite(0, &purged);
    let report = handle.scan();
    assert!(!report.reset);
    assert_eq!(report.stats.messages_read, 1, "only the edited message is read");
    assert_eq!(report.expunged, [2, 4].map(|uid| Uid::new(uid).unwrap()));
    assert_eq!(numbers(&handle), [1, 3, 5, 6, 7, 8]);
    assert_eq!(texts(&handle)[&8], all[7]);
    // With a lost cache, too.
    purged[0] = add(b"");
    archive.rewrite(0, &purged);
    handle.forget();
    handle.scan();
    assert_eq!(numbers(&handle), [3, 5, 6, 7, 8]);
    assert_eq!(handle.scan_with(true).stats.messages_read, 0, "a full check reads the commits");
}

#[test]
fn objects_may_be_anywhere() {
    let Some(archive) = GitArchive::new() else { return };
    let mut rng = Rng::with_seed(7);
    // Each text repeats most of the one before, so that packs have chains of deltas.
    let mut body: Vec<u64> = (0..400).map(|_| rng.u64(..)).collect();
    let mut next = |number: u32| {
        body.drain(..20);
        body.extend((0..20).map(|_| rng.u64(..)));
        let body: String = body.iter().map(|line| format!("{line}\n")).collect();
        format!("Subject: {number}\n\n{body}").into_bytes()
    };
    let mut all: Vec<Vec<u8>> = (0..60).map(&mut next).collect();
    // One that is stored as a stream rather than read at once.
    all.push([b"Subject: large\n\n".to_vec(), vec![b'x'; 300_000]].concat());
    all.push(format!("{}\nbody\n", "X-Long: 0123456789\n".repeat(20_000)).into_bytes());
    let steps: Vec<ArchiveCommit> = all.iter().map(|text| add(text)).collect();
    archive.init(0);
    archive.commit(0, &steps[..20], true);
    archive.commit(0, &steps[20..40], false);
    archive.commit(0, &steps[40..], false);
    let expected: Vec<Vec<u8>> = all.clone();
    let check = |path: &Path, what: &str| {
        let opened = archive.at(path.to_owned());
        let handle = StorageHandle::scanned(&opened);
        assert_eq!(texts(&handle).into_values().collect::<Vec<_>>(), expected, "{what}");
        texts(&handle)
    };
    let opened = archive.at(archive.path.clone());
    let kept = StorageHandle::scanned(&opened);
    check(&archive.path, "loose and several packs");
    let (epoch, folder) = (archive.epoch(0), archive.folder().to_owned());
    archive.git(&epoch, &["pack-refs", "--all"], b"");
    check(&archive.path, "packed refs");
    archive.git(&epoch, &["repack", "-a", "-d", "-f", "-q", "--depth=20", "--window=60"], b"");
    let listed = archive.git(&epoch, &["verify-pack", "-v", &pack(&epoch)], b"");
    let listed = String::from_utf8_lossy(&listed).into_owned();
    assert!(listed.contains("chain length = 5"), "chains of deltas");
    // A handle that has files open finds objects that moved.
    assert_eq!(texts(&kept), check(&archive.path, "deltas"));
    archive.git(
        &epoch,
        &["-c", "repack.useDeltaBaseOffset=false", "repack", "-a", "-d", "-f", "-q"],
        b"",
    );
    check(&archive.path, "deltas by name");
    check(&epoch, "a single epoch");
    let clone = |args: &[&str], to: &str| {
        let to = folder.join(to);
        let all: Vec<&str> =
            [&["clone", "-q"], args, &[epoch.to_str().unwrap()], &[to.to_str().unwrap()]].concat();
        archive.git(&folder, &all, b"");
        to
    };
    check(&clone(&["--mirror"], "0.git"), "a mirror");
    check(&clone(&["--shared", "--bare"], "shared"), "alternates");
    check(&clone(&[], "worktree"), "a clone with a work tree");
    // Alternates that are relative, missing, and a circle.
    let alternates = "../../0.git/objects\n/nowhere\n# comment\n../objects\n";
    let shared = folder.join("shared/objects/info/alternates");
    disk::write(&shared, alternates.as_bytes()).unwrap();
    disk::create_dir_all(&folder.join("0.git/objects/info")).unwrap();
    disk::write(&folder.join("0.git/objects/info/alternates"), b"../../shared/objects\n").unwrap();
    check(&folder.join("shared"), "a circle of alternates");
    assert_eq!(texts(&kept).len(), all.len(), "the old handle");
}

/// Returns the path of the only index of a repository.
fn pack(git_dir: &Path) -> String {
    let listed = disk::list(&git_dir.join("objects/pack")).unwrap();
    let index = listed.into_iter().find(|path| path.extension().is_some_and(|end| end == "idx"));
    index.unwrap().to_str().unwrap().to_owned()
}

#[test]
fn a_path_is_detected_when_it_is_opened() {
    let Some(archive) = GitArchive::new() else { return };
    let detected = |path: &Path| {
        let spec = MailboxSpec::parse(path.to_str().unwrap());
        open(Arc::new(OsVfs), &spec).map(|storage| storage.format().name())
    };
    assert!(detected(&archive.path).is_err(), "no epochs");
    archive.init(0);
    assert_eq!(detected(&archive.path).unwrap(), "public-inbox");
    assert!(detect(&OsVfs, &archive.path).unwrap().is_none(), "not in trees");
    assert!(detected(&archive.epoch(0)).is_err(), "a repository without a message");
    archive.commit(0, &[add(&some_texts(1)[0])], false);
    assert_eq!(detected(&archive.epoch(0)).unwrap(), "public-inbox");
    // A repository of anything else is one only by name.
    let other = archive.folder().join("other");
    archive.git(archive.folder(), &["init", "-q", "-b", "master", "other"], b"");
    disk::write(&other.join("m"), b"text").unwrap();
    disk::write(&other.join("n"), b"text").unwrap();
    archive.git(&other, &["add", "m", "n"], b"");
    let identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"];
    archive.git(&other, &[&identity[..], &["commit", "-q", "-m", "x"]].concat(), b"");
    assert!(detected(&other).is_err());
    let spec = MailboxSpec::parse(&format!("public-inbox:{}", other.display()));
    assert!(open(Arc::new(OsVfs), &spec).is_ok());
    // Without a message in its newest commit, it is not one by name either.
    let commit_all = |message: &str| {
        archive.git(&other, &["add", "-A"], b"");
        archive.git(&other, &[&identity[..], &["commit", "-q", "-m", message]].concat(), b"");
        open(Arc::new(OsVfs), &spec).unwrap_err().to_string()
    };
    disk::remove_file(&other.join("m")).unwrap();
    let error = commit_all("no message");
    assert!(error.contains("neither a file `m` nor a file `d`"), "{error}");
    disk::remove_file(&other.join("n")).unwrap();
    disk::create_dir(&other.join("ab")).unwrap();
    disk::write(&other.join("ab/cdef"), b"Subject: a\n\n").unwrap();
    let error = commit_all("version 1");
    assert!(error.contains("public-inbox v1"), "{error}");
    let spec = MailboxSpec::parse(&format!("public-inbox:{}", archive.folder().display()));
    let error = open(Arc::new(OsVfs), &spec).unwrap_err();
    assert!(error.to_string().contains("no git/ with epochs"), "{error}");
}

#[test]
fn nothing_is_written() {
    let Some(archive) = GitArchive::new() else { return };
    archive.init(0);
    archive.commit(0, &[add(&some_texts(1)[0])], false);
    let tree = || -> Vec<(std::path::PathBuf, Vec<u8>)> {
        let files = disk::list_files(&archive.path).unwrap();
        files.into_iter().map(|path| (path.clone(), disk::read(&path).unwrap())).collect()
    };
    let before = tree();
    let mut handle = StorageHandle::scanned(&archive);
    handle.storage.identity(true).unwrap();
    assert!(OsVfs.xattr(&archive.path, "user.barid.id").unwrap_or_default().is_none());
    check_refuses_changes(&mut handle);
    handle.scan_with(true);
    texts(&handle);
    assert_eq!(tree(), before);
}

#[test]
fn the_refs_of_the_newest_epoch_are_watched() {
    let Some(archive) = GitArchive::new() else { return };
    archive.init(0);
    archive.init(1);
    let epoch = archive.epoch(1);
    let expected = [archive.path.join("git"), epoch.clone(), epoch.join("refs/heads")];
    assert_eq!(archive.open().watched_folders(), expected);
}

#[test]
fn a_scan_costs_as_much_as_there_is_new() {
    let Some(archive) = GitArchive::new() else { return };
    let all = some_texts(3_000);
    let steps: Vec<ArchiveCommit> = all.iter().map(|text| add(text)).collect();
    archive.init(0);
    archive.commit(0, &steps[..2_990], false);
    let mut handle = StorageHandle::scanned(&archive);
    let stamp = handle.storage.stamp().unwrap();
    archive.commit(0, &steps[2_990..2_999], false);
    assert!(!archive.open().stamp().unwrap().is_same(&stamp));
    let vfs = Arc::new(CountingVfs::new(OsVfs));
    handle.storage = open_on(vfs.clone(), &archive.path);
    let before = vfs.counts();
    let report = handle.scan();
    assert_eq!(report.stats.messages_read, 9);
    let bytes = vfs.counts().since(&before).bytes().read;
    assert!(bytes < 200_000, "{bytes} bytes are read");
    let before = vfs.counts();
    assert_eq!(handle.scan().stats.messages_read, 0);
    let bytes = vfs.counts().since(&before).bytes().read;
    assert!(bytes < 1_000, "{bytes} bytes are read of an unchanged archive");
    // A message that cannot be read is tried again without all commits.
    archive.commit(0, &steps[2_999..], true);
    let name = archive.blob_name(&all[2_999]);
    let path = archive.epoch(0).join("objects").join(&name[..2]).join(&name[2..]);
    let text = disk::read(&path).unwrap();
    disk::remove_file(&path).unwrap();
    for _ in 0..3 {
        let before = vfs.counts();
        assert_eq!(handle.scan().defects.len(), 1);
        let bytes = vfs.counts().since(&before).bytes().read;
        assert!(bytes < 100_000, "{bytes} bytes are read");
    }
    disk::write(&path, &text).unwrap();
    let report = handle.scan();
    assert_eq!((report.stats.messages_read, report.defects.len()), (1, 0));
    assert!(!handle.storage.has_unread(&report.state));
    assert_eq!(handle.uids().len(), 3_000);
}

#[test]
fn what_git_does_is_followed() {
    let mut steps_done = 0;
    for seed in 0..4 {
        let Some(archive) = GitArchive::new() else { return };
        let mut rng = Rng::with_seed(seed);
        // Steps of each epoch; what is there, by text, and the UID under which it was seen first.
        let mut epochs: Vec<Vec<ArchiveCommit>> = vec![Vec::new()];
        archive.init(0);
        let (mut made, mut firsts) = (0, BTreeMap::<Vec<u8>, u32>::new());
        let mut handles = [StorageHandle::scanned(&archive), StorageHandle::scanned(&archive)];
        for _ in 0..25 {
            let last = epochs.len() - 1;
            let mut new = Vec::new();
            let is_rewritten = match rng.u8(..10) {
                0 => {
                    epochs.push(Vec::new());
                    archive.init(last as u32 + 1);
                    false
                }
                1 | 2 => {
                    let live = live(&epochs);
                    new.extend(live.get(rng.usize(..live.len().max(1))).map(|text| delete(text)));
                    false
                }
                3 if !epochs[last].is_empty() => {
                    // A purge of what is not deleted: that of a deletion would bring it back.
                    let at = rng.usize(..epochs[last].len());
                    if matches!(epochs[last][at], ArchiveCommit::Add(_)) {
                        epochs[last][at] = add(b"");
                    }
                    true
                }
                4 => {
                    archive.git(&archive.epoch(last as u32), &["gc", "-q", "--prune=now"], b"");
                    false
                }
                _ => {
                    for _ in 0..rng.u32(1..4) {
                        made += 1;
                        new.push(add(&text(made, &mut rng)));
                    }
                    false
                }
            };
            let last = epochs.len() - 1;
            if is_rewritten {
                archive.rewrite(last as u32, &epochs[last]);
            } else if !new.is_empty() {
                archive.commit(last as u32, &new, rng.bool());
                epochs[last].extend(new);
            }
            let handle = &mut handles[rng.usize(..2)];
            if rng.u8(..8) == 0 {
                handle.forget();
            }
            handle.scan();
            let found = texts(handle);
            assert_eq!(found.values().cloned().collect::<Vec<_>>(), live(&epochs), "seed {seed}");
            for (uid, text) in found {
                assert_eq!(*firsts.entry(text).or_insert(uid), uid, "seed {seed}: UIDs stay");
            }
            steps_done += 1;
        }
        let uids: std::collections::BTreeSet<u32> = firsts.values().copied().collect();
        assert_eq!(uids.len(), firsts.len(), "seed {seed}: no UID is given twice");
    }
    assert_eq!(steps_done, 100);
}

/// Returns the texts that steps leave, in their order.
fn live(epochs: &[Vec<ArchiveCommit>]) -> Vec<Vec<u8>> {
    let mut live: Vec<Vec<u8>> = Vec::new();
    for step in epochs.iter().flatten() {
        match step {
            ArchiveCommit::Add(text) if !text.is_empty() && !live.contains(text) => {
                live.push(text.clone())
            }
            ArchiveCommit::Delete(text) => live.retain(|other| other != text),
            _ => {}
        }
    }
    live
}
