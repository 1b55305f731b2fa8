//! Changes of other users' mailboxes, changes that fail half-way, and their errors.

use std::path::Path;
use std::sync::Arc;

use barid_mailbox::{
    ChangeSet, Error, FlagChange, NewMessage, Result, Storage, SyncContext, SyncReport,
};
use barid_types::{Flag, FlagSet, Uid};
use barid_vfs::{
    Fault, FaultEffect, FaultVfs, LockKind, LockMode, MemVfs, OpenOptions, OsVfs, Vfs,
};

use super::support::{Cached, World};
use crate::file_stamps::FileStamps;
use crate::mbox::change::{AppendJournal, IntentBuilder};
use crate::mbox::lock::{MboxLockPurpose, MboxWriteLocks};
use crate::mbox::{MboxMailbox, MboxOptions};

const MESSAGE: &str = "From a@b Sun Sep  9 01:46:40 2001\nSubject: 1\nStatus: RO\n\nbody\n\n";

fn disk() -> MemVfs {
    let disk = MemVfs::new();
    World::on(Arc::new(disk.clone())).write(MESSAGE.repeat(60).as_bytes());
    disk
}

fn content(disk: &MemVfs) -> Vec<u8> {
    disk.read(Path::new("/mail/box"), 1 << 20).unwrap()
}

/// Returns a change that removes \Seen from the first `count` messages: one is written within its
/// sector, many need a journal.
fn flagged(count: u32) -> ChangeSet {
    let change = FlagChange { remove: FlagSet::EMPTY.with(Flag::Seen), ..FlagChange::default() };
    let flags = (1..=count).map(|uid| (Uid::new(uid).unwrap(), change.clone())).collect();
    ChangeSet { flags, ..ChangeSet::default() }
}

fn sync(
    world: &World,
    known: &Cached,
    changes: &ChangeSet,
    appends: &[NewMessage<'_>],
) -> Result<SyncReport> {
    let mut ledger = world.ledger();
    let mut context = SyncContext::new(known);
    context.ledger = Some(&mut ledger);
    context.state_dir = Some(Path::new("/state"));
    world.mailbox().sync(changes, appends, &mut context)
}

fn new_message() -> NewMessage<'static> {
    NewMessage {
        bytes: b"Subject: new\n\nnew\n",
        internal_date: None,
        flags: FlagSet::EMPTY,
        keywords: Vec::new(),
        ..NewMessage::default()
    }
}

#[test]
fn a_mailbox_of_another_is_changed_without_times_of_ours() {
    for (user, is_settled) in [(1000, true), (2000, false)] {
        for (count, appends) in [(1, 0), (40, 0), (1, 1), (40, 1), (0, 1)] {
            let disk = disk();
            let world = World::on(Arc::new(disk.as_user(user)));
            let known = world.scan();
            let before = content(&disk);
            let new = vec![new_message(); appends];
            let report = sync(&world, &known, &flagged(count), &new).unwrap();
            assert_ne!(content(&disk), before);
            let context = format!("user {user}, {count} flagged, {appends} appended");
            let cache = report.cache.unwrap();
            assert_eq!(FileStamps::of(&cache.stamp_after).are_settled(), is_settled, "{context}");
            assert_eq!(report.failed, Vec::<String>::new(), "{context}");
            assert_eq!(world.scan().uids.len(), 60 + appends, "{context}");
        }
    }
}

#[test]
fn an_error_does_not_deny_what_is_durable() {
    let (mut unfinished, mut not_appended, mut failed) = (0, 0, 0);
    for kind in [std::io::ErrorKind::StorageFull, std::io::ErrorKind::PermissionDenied] {
        for n in 0.. {
            let disk = disk();
            let known = World::on(Arc::new(disk.clone())).scan();
            let before = content(&disk);
            let fault = Fault::nth(n).under("/mail").with(FaultEffect::Error(kind));
            let faulty = FaultVfs::new(disk.clone(), fault);
            let world =
                World { vfs: Arc::new(faulty.clone()), ..World::on(Arc::new(disk.clone())) };
            let result = sync(&world, &known, &flagged(40), &[new_message()]);
            if !faulty.fired() {
                result.unwrap();
                break;
            }
            let now = content(&disk);
            match result {
                Ok(report) => failed += report.failed.len(),
                Err(Error::NotAppended { .. }) => {
                    not_appended += 1;
                    assert!(now.starts_with(&before[..40]) && now != before, "call {n}");
                }
                Err(Error::Unfinished { what, .. }) => {
                    unfinished += 1;
                    assert!(what.ends_with("no message was appended"), "call {n}: {what}");
                }
                Err(error) => assert!(now == before, "call {n}: {error}"),
            }
        }
    }
    assert!(
        unfinished > 5 && not_appended > 1 && failed > 0,
        "{unfinished} {not_appended} {failed}"
    );
}

/// Returns a disk with an interrupted change that moves all messages.
fn begun() -> MemVfs {
    for n in 0.. {
        let disk = disk();
        let known = World::on(Arc::new(disk.clone())).scan();
        let under = "/mail/box";
        let fault = Fault::nth(n).of(barid_vfs::CallKind::Sync).at(under);
        let vfs = Arc::new(FaultVfs::new(disk.clone(), fault));
        let world = World { vfs, ..World::on(Arc::new(disk.clone())) };
        let changes = ChangeSet { expunge: vec![Uid::MIN], write_uids: true, ..flagged(9) };
        let result = sync(&world, &known, &changes, &[]);
        let is_named = disk.xattr(Path::new(BOX), ATTRIBUTE).unwrap().is_some();
        if matches!(result, Err(Error::Unfinished { .. })) && is_named {
            return disk;
        }
    }
    unreachable!("because some sync comes after the first step");
}

const BOX: &str = "/mail/box";
const JOURNAL: &str = "/mail/.box.barid-journal";
const ATTRIBUTE: &str = "user.barid.journal";

fn recover_at(disk: &MemVfs, path: &str) -> Result<barid_mailbox::Recovered> {
    let known = barid_mailbox::EmptyKnown::default();
    let mut context = SyncContext::new(&known);
    context.state_dir = Some(Path::new("/state"));
    let world = World { path: path.into(), ..World::on(Arc::new(disk.clone())) };
    world.mailbox().recover(&mut context)
}

fn copy(disk: &MemVfs, from: &str, to: &str) {
    let bytes = disk.read(Path::new(from), 1 << 24).unwrap();
    let options = barid_vfs::OpenOptions::create_new(0o600);
    disk.open(Path::new(to), options).unwrap().write_all_at(&bytes, 0).unwrap();
    if let Some(value) = disk.xattr(Path::new(from), ATTRIBUTE).unwrap() {
        disk.set_xattr(Path::new(to), ATTRIBUTE, &value).unwrap();
    }
}

/// Checks that a recovery is refused with `expected`, and changes nothing.
fn check_refused(disk: &MemVfs, path: &str, expected: &str) {
    let files = [path, BOX, JOURNAL].map(|path| disk.read(Path::new(path), 1 << 24).ok());
    match recover_at(disk, path) {
        Err(Error::Unrecoverable { what, .. }) => assert!(what.contains(expected), "{what}"),
        other => panic!("{expected}: {other:?}"),
    }
    let now = [path, BOX, JOURNAL].map(|path| disk.read(Path::new(path), 1 << 24).ok());
    assert!(now == files, "{expected}");
}

#[test]
fn a_change_that_was_begun_goes_on() {
    let disk = begun();
    assert!(recover_at(&disk, BOX).unwrap().completed);
    assert!(disk.metadata(Path::new(JOURNAL)).is_err());
    // After a move within the file system it is still the same file.
    let disk = begun();
    disk.rename(Path::new(BOX), Path::new("/mail/old")).unwrap();
    World::on(Arc::new(disk.clone())).write(b"");
    assert_eq!(recover_at(&disk, BOX).unwrap(), barid_mailbox::Recovered::default());
    assert!(disk.metadata(Path::new(JOURNAL)).is_ok());
    assert!(recover_at(&disk, "/mail/old").unwrap().completed);
    // After the file was replaced, the journal belongs to no file.
    let disk = begun();
    disk.remove_file(Path::new(BOX)).unwrap();
    World::on(Arc::new(disk.clone())).write(b"");
    assert!(recover_at(&disk, BOX).unwrap().quarantined.is_some());
    // After a restore of both, file and journal still belong together.
    let disk = begun();
    copy(&disk, BOX, "/mail/new");
    disk.rename(Path::new("/mail/new"), Path::new(BOX)).unwrap();
    assert!(recover_at(&disk, BOX).unwrap().completed);
}

#[test]
fn a_copy_leaves_the_journal_to_its_original() {
    let disk = begun();
    copy(&disk, BOX, "/mail/copy");
    check_refused(&disk, "/mail/copy", "it is a copy of /mail/box in the middle of a change");
    assert!(recover_at(&disk, BOX).unwrap().completed);
    check_refused(&disk, "/mail/copy", "is missing");
}

#[test]
fn a_journal_that_anybody_can_have_made_is_not_followed() {
    let disk = begun();
    disk.set_mode(Path::new(JOURNAL), 0o620).unwrap();
    check_refused(&disk, BOX, "it is not used");
    disk.set_mode(Path::new(JOURNAL), 0o600).unwrap();
    disk.hard_link(Path::new(JOURNAL), Path::new("/mail/link")).unwrap();
    check_refused(&disk, BOX, "it is not used");
    disk.remove_file(Path::new("/mail/link")).unwrap();
    assert!(recover_at(&disk, BOX).unwrap().completed);
    // Without the attribute the journal is ignored, whatever its content.
    let planted = begun().read(Path::new(JOURNAL), 1 << 24).unwrap();
    let victim = self::disk();
    let options = barid_vfs::OpenOptions::create_new(0o600);
    let stranger = victim.as_user(666);
    stranger.open(Path::new(JOURNAL), options).unwrap().write_all_at(&planted, 0).unwrap();
    let before = content(&victim);
    assert_eq!(recover_at(&victim, BOX).unwrap(), barid_mailbox::Recovered::default());
    assert_eq!(content(&victim), before);
    let world = World::on(Arc::new(victim.clone()));
    sync(&world, &world.scan(), &flagged(40), &[]).unwrap();
    assert_ne!(content(&victim), before);
    assert_eq!(victim.read(Path::new(JOURNAL), 1 << 24).unwrap(), planted);
}

#[test]
fn the_attribute_leads_to_places_of_journals_only() {
    let disk = begun();
    let value = disk.xattr(Path::new(BOX), ATTRIBUTE).unwrap().unwrap();
    let id = String::from_utf8(value[..32].to_vec()).unwrap();
    for place in ["../state/x", "/home/victim/x", "x", "/state/x", ".x", "/state/a/x.mbox-journal"]
    {
        disk.set_xattr(Path::new(BOX), ATTRIBUTE, format!("{id} {place}").as_bytes()).unwrap();
        check_refused(&disk, BOX, "names a file that cannot be a journal");
    }
    disk.set_xattr(Path::new(BOX), ATTRIBUTE, b".box.barid-journal").unwrap();
    check_refused(&disk, BOX, "names a file that cannot be a journal");
    let other = format!("{} .box.barid-journal", "0".repeat(32));
    disk.set_xattr(Path::new(BOX), ATTRIBUTE, other.as_bytes()).unwrap();
    check_refused(&disk, BOX, "does not belong to it");
    disk.set_xattr(Path::new(BOX), ATTRIBUTE, &value).unwrap();
    assert!(recover_at(&disk, BOX).unwrap().completed);
}

#[test]
fn a_journal_of_another_version_or_none_at_all_is_left_alone() {
    for (at, bytes, expected) in [
        (8, &[9][..], "of version 9"),
        (0, b"something else"[..].as_ref(), "is not a journal"),
        (0, &[0; 512], "is empty"),
    ] {
        let disk = begun();
        let journal = disk.open(Path::new(JOURNAL), barid_vfs::OpenOptions::WRITE).unwrap();
        journal.write_all_at(bytes, at).unwrap();
        check_refused(&disk, BOX, expected);
    }
    let disk = begun();
    let journal = disk.open(Path::new(JOURNAL), barid_vfs::OpenOptions::WRITE).unwrap();
    journal.write_all_at(b"!", 100).unwrap();
    let aside = recover_at(&disk, BOX).unwrap().quarantined.unwrap();
    assert!(disk.metadata(&aside).is_ok());
    assert_eq!(disk.xattr(Path::new(BOX), ATTRIBUTE).unwrap(), None);
}

#[test]
fn an_append_completes_a_change_only_if_no_session_has_the_mailbox() {
    let disk = begun();
    disk.create_dir(Path::new("/tmp"), 0o777).unwrap();
    let world = World::on(Arc::new(disk.clone()));
    let metadata = disk.metadata(Path::new(BOX)).unwrap();
    let path = format!("/tmp/.{:x}.{:x}", metadata.device, metadata.inode);
    let options = barid_vfs::OpenOptions::create(0o666);
    let session = disk.open(Path::new(&path), options).unwrap();
    session.write_all_at(b"4711", 0).unwrap();
    assert!(session.try_lock(LockKind::Flock, LockMode::Exclusive).unwrap());
    let before = content(&disk);
    let append = || {
        let known = barid_mailbox::EmptyKnown::default();
        let mut context = SyncContext::new(&known);
        context.state_dir = Some(Path::new("/state"));
        world.mailbox().sync(&ChangeSet::default(), &[new_message()], &mut context)
    };
    let refused = append();
    assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
    assert_eq!(content(&disk), before);
    session.unlock(LockKind::Flock).unwrap();
    append().unwrap();
    assert_eq!(disk.xattr(Path::new(BOX), ATTRIBUTE).unwrap(), None);
    assert_eq!(world.scan().uids.len(), 60);
}

#[test]
fn a_journal_of_the_superuser_is_the_mailbox_owners() {
    const BOB: u32 = 54_321;
    const SPOOLER: u32 = 54_322;
    if !rustix::process::geteuid().is_root() {
        barid_testkit::skip_or_fail("owners of journals: only the superuser can give files away");
        return;
    }
    let scratch = barid_testkit::Scratch::new("owners").unwrap();
    let path = scratch.path().join("spool/box");
    let (vfs, folder) = (Arc::new(OsVfs), path.parent().unwrap());
    vfs.create_dir(folder, 0o755).unwrap();
    let options = OpenOptions::create_new(0o600);
    let file = vfs.open(&path, options).unwrap();
    file.write_all_at(MESSAGE.repeat(60).as_bytes(), 0).unwrap();
    for (path, user) in [(folder, SPOOLER), (&path, BOB)] {
        let user = Some(rustix::fs::Uid::from_raw(user));
        rustix::fs::chown(path, user, None).unwrap();
    }
    let mailbox = MboxMailbox::open_with(vfs.clone(), &path, None, MboxOptions::default()).unwrap();
    let locks = MboxWriteLocks::acquire(&mailbox, MboxLockPurpose::Append).unwrap();
    let intent = IntentBuilder::new(file.metadata().unwrap().size);
    AppendJournal::begin(&mailbox, &locks, None, intent, None).unwrap().unwrap();
    drop(locks);
    let journal = vfs.metadata(&folder.join(".box.barid-journal")).unwrap();
    assert_eq!((journal.uid, journal.mode), (BOB, 0o600));
    assert!(mailbox.unfinished(None).unwrap().unwrap().journal.is_some(), "it is followed");
}

#[test]
fn a_quota_is_met_before_anything_is_moved() {
    for kind in [std::io::ErrorKind::QuotaExceeded, std::io::ErrorKind::StorageFull] {
        let disk = disk();
        let known = World::on(Arc::new(disk.clone())).scan();
        let before = content(&disk);
        let fault = Fault::nth(0).of(barid_vfs::CallKind::Resize).under(JOURNAL);
        let faulty = FaultVfs::new(disk.clone(), fault.with(FaultEffect::Error(kind)));
        let world = World { vfs: Arc::new(faulty.clone()), ..World::on(Arc::new(disk.clone())) };
        let result = sync(&world, &known, &flagged(40), &[]);
        assert!(matches!(result, Err(Error::NoSpace { .. })) && faulty.fired(), "{result:?}");
        assert_eq!(content(&disk), before);
        assert!(disk.metadata(Path::new(JOURNAL)).is_err());
    }
}
