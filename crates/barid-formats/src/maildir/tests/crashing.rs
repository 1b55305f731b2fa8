//! Power failures and failing calls at every moment of every operation: what was acknowledged is
//! there once, byte for byte, and a UID never comes to mean another message.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind::{PermissionDenied, StorageFull};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_mailbox::{ChangeSet, FlagChange, MessageRest, NewMessage, TakeRest};
use barid_types::{Flag, FlagSet, InternalDate, Uid, UidValidity};
use barid_vfs::{
    CallKind, CrashVfs, Fault, FaultEffect, FaultVfs, MemVfs, Metadata, OpenOptions, Timestamp, Vfs,
};

use super::support::{World, keyword, message, uid};

const SEEDS: u64 = 16;

/// /// What an operation promised.
#[derive(Clone, Debug, Default)]
struct Promise {
    /// UIDs that were announced, and their text.
    uids: BTreeMap<Uid, Vec<u8>>,
    /// The UIDVALIDITY under which they were announced.
    uidvalidity: Option<UidValidity>,
    /// /// Texts that must exist, whatever their UIDs.
    texts: Vec<Vec<u8>>,
    /// Flags that must be set.
    flags: BTreeMap<Uid, FlagSet>,
    /// UIDs that must be gone.
    gone: Vec<Uid>,
}

/// /// An operation; it returns its promise when it succeeds.
type Operation = fn(&mut World) -> barid_mailbox::Result<Promise>;

/// The texts of all known messages by UID.
fn texts(world: &World) -> BTreeMap<Uid, Vec<u8>> {
    world.cache.messages.keys().map(|uid| (*uid, world.read(uid.get()).unwrap())).collect()
}

/// /// Returns what the mailbox announces now.
fn announced(world: &World) -> Promise {
    let uidvalidity = world.cache.report.as_ref().map(|report| report.uidvalidity);
    Promise { uids: texts(world), uidvalidity, ..Promise::default() }
}

/// /// Scans what a crash left, with or without the cache, and compares it with `promise`. The
/// messages of `before` existed all the time, except for those that the operation may remove.
fn verify(disk: &MemVfs, survivor: &World, before: &Promise, promise: Option<&Promise>, at: &str) {
    for with_cache in [true, false] {
        let copy: MemVfs = CrashVfs::new(disk).vfs();
        let mut world = World::at(Arc::new(copy), &survivor.path, &survivor.state_dir);
        if with_cache {
            world.cache = survivor.cache.clone();
        }
        world.pass_time();
        let report = world.scan();
        let found = texts(&world);
        let mut all: Vec<&Vec<u8>> = found.values().collect();
        all.sort();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{at}: a message is there twice");
        if before.uidvalidity.is_some() {
            assert_eq!(Some(report.uidvalidity), before.uidvalidity, "{at}");
        }
        for (uid, text) in &before.uids {
            let may_go = promise.is_none_or(|promise| promise.gone.contains(uid));
            match found.get(uid) {
                Some(found) => assert_eq!(found, text, "{at}: {uid} means another message"),
                None => assert!(may_go, "{at}: {uid} is lost"),
            }
        }
        let Some(promise) = promise else { continue };
        assert!(promise.uidvalidity.is_none_or(|v| v == report.uidvalidity), "{at}: UIDVALIDITY");
        for (uid, text) in &promise.uids {
            assert_eq!(found.get(uid), Some(text), "{at}: announced {uid}");
        }
        for text in &promise.texts {
            assert_eq!(all.iter().filter(|found| **found == text).count(), 1, "{at}: appended");
        }
        for (uid, flags) in &promise.flags {
            assert_eq!(world.cache.messages[uid].flags, *flags, "{at}: flags of {uid}");
        }
        assert!(promise.gone.iter().all(|uid| !found.contains_key(uid)), "{at}: not expunged");
    }
}

/// /// Crashes `operation` at every call, then makes each of its calls fail.
fn check(prepare: fn(&mut World), expunges: &[Uid], operation: Operation, points_min: usize) {
    let disk = MemVfs::new();
    let mut world = World::new(Arc::new(disk.clone()));
    world.threads = 1;
    prepare(&mut world);
    let before = announced(&world);
    // // Only the messages that the operation removes may be missing before it is acknowledged.
    let mut kept = before.clone();
    kept.uids.retain(|uid, _| !expunges.contains(uid));

    let crash = CrashVfs::new(&disk);
    let mut running = World::at(Arc::new(crash.vfs()), &world.path, &world.state_dir);
    (running.cache, running.threads) = (world.cache.clone(), 1);
    let promise = operation(&mut running).unwrap();
    let acknowledged = crash.points();
    assert!(acknowledged >= points_min, "only {acknowledged} crash points");
    for point in 0..=acknowledged {
        for seed in 0..SEEDS {
            let at = format!("crash point {point} of {acknowledged}, seed {seed}");
            let left = crash.crash_at(point, seed);
            verify(&left, &world, &kept, None, &at);
            must_be_there(&left, &world, &kept, &at);
            if point == acknowledged {
                verify(&left, &world, &before, Some(&promise), &at);
            }
        }
    }

    let error = FaultEffect::Error;
    for effect in [error(StorageFull), error(PermissionDenied), FaultEffect::Short] {
        for n in 0.. {
            let copy = CrashVfs::new(&disk).vfs();
            let faulty = FaultVfs::new(copy.clone(), Fault::nth(n).with(effect));
            let mut running = World::at(Arc::new(copy.clone()), &world.path, &world.state_dir);
            running.vfs = Arc::new(faulty.clone());
            (running.cache, running.threads) = (world.cache.clone(), 1);
            let done = operation(&mut running);
            let at = format!("call {n} fails");
            verify(&copy, &world, &kept, None, &at);
            must_be_there(&copy, &world, &kept, &at);
            if let Ok(promise) = done {
                verify(&copy, &world, &before, Some(&promise), &at);
            }
            if !faulty.fired() {
                assert!(n >= points_min as u64, "only {n} calls");
                break;
            }
        }
    }
}

/// /// Checks that every message that nobody removes exists.
fn must_be_there(disk: &MemVfs, survivor: &World, kept: &Promise, at: &str) {
    let copy: MemVfs = CrashVfs::new(disk).vfs();
    let mut world = World::at(Arc::new(copy), &survivor.path, &survivor.state_dir);
    world.scan();
    let found = texts(&world);
    for (uid, text) in &kept.uids {
        assert_eq!(found.get(uid), Some(text), "{at}: {uid} is lost");
    }
}

fn put_three(world: &mut World) {
    for number in 1..4 {
        world.put(&format!("cur/{number}.h:2,S"), format!("Subject: {number}\n\n").as_bytes());
    }
}

fn known(world: &mut World) {
    put_three(world);
    world.put("new/4.h", b"Subject: 4\n\n");
    world.scan();
    world.pass_time();
}

fn delivered(world: &mut World) {
    known(world);
    world.put("new/5.h", b"Subject: 5\n\n");
    world.put("new/6.h", b"Subject: 6\n\n");
}

fn torn(world: &mut World) {
    delivered(world);
    let text = world.text("dovecot-uidlist");
    world.put("dovecot-uidlist", format!("{text}9 :to").as_bytes());
}

/// /// Scans; the promise consists of the announced UIDs, without those of messages that were
/// reported as unreadable.
fn scan(world: &mut World) -> barid_mailbox::Result<Promise> {
    let report = world.try_scan()?;
    let unread: Vec<Uid> = report.defects.iter().filter_map(|defect| defect.uid).collect();
    let read = world.cache.messages.iter().filter(|(uid, _)| !unread.contains(uid));
    Ok(Promise {
        uidvalidity: Some(report.uidvalidity),
        uids: read.map(|(uid, message)| (*uid, message.header.clone())).collect(),
        ..Promise::default()
    })
}

#[test]
fn the_first_uidlist() {
    check(put_three, &[], scan, 8);
}

#[test]
fn lines_appended_to_the_uidlist() {
    check(delivered, &[], scan, 6);
}

#[test]
fn the_uidlist_written_anew() {
    check(torn, &[], scan, 8);
}

#[test]
fn deliveries() {
    check(
        known,
        &[],
        |world| {
            let mut tagged = message(b"Subject: tagged\n\n");
            tagged.keywords = vec![keyword("todo")];
            tagged.flags = FlagSet::EMPTY.with(Flag::Flagged);
            let long = b"Subject: long\n\n".repeat(400);
            let appends = [message(&long), tagged, message(b"Subject: plain\n\n")];
            let report = world.sync(&ChangeSet::default(), &appends)?;
            let texts = appends.iter().map(|message| message.bytes.to_vec());
            let uids = report.appended.iter().copied().zip(texts.clone());
            Ok(Promise {
                uids: uids.filter_map(|(uid, text)| Some((uid?, text))).collect(),
                texts: texts.collect(),
                ..Promise::default()
            })
        },
        30,
    );
}

#[test]
fn many_deliveries_that_bring_their_uids() {
    check(
        known,
        &[],
        |world| {
            let texts: Vec<Vec<u8>> =
                (0..33).map(|at| format!("Subject: many {at}\n\n").into_bytes()).collect();
            let new = texts.iter().enumerate().map(|(at, text)| NewMessage {
                uid: Some(uid(10 + 3 * at as u32)),
                ..message(text)
            });
            let report = world.sync(&ChangeSet::default(), &new.collect::<Vec<_>>())?;
            let uids = report.appended.iter().zip(&texts);
            Ok(Promise {
                uids: uids.filter_map(|(uid, text)| Some(((*uid)?, text.clone()))).collect(),
                texts,
                ..Promise::default()
            })
        },
        100,
    );
}

/// A message that is a file of another folder, with its text.
#[derive(Debug)]
struct Elsewhere(Arc<dyn Vfs>, PathBuf, Vec<u8>);

impl MessageRest for Elsewhere {
    fn size(&self) -> u64 {
        self.2.len() as u64
    }

    fn read(&self, take: &mut TakeRest<'_>) -> barid_mailbox::Result<()> {
        take(&self.2)
    }

    fn link(&self, to: &Path) -> barid_mailbox::Result<Option<Metadata>> {
        crate::files::link(&*self.0, &self.1, to)
    }
}

fn known_beside_another(world: &mut World) {
    known(world);
    for number in 1..4 {
        world.put(&format!("tmp/other{number}"), format!("Subject: other {number}\n\n").as_bytes());
    }
}

/// Appends the three messages of `known_beside_another`; their flags are those of two.
fn append_others(world: &mut World, date: Option<InternalDate>) -> barid_mailbox::Result<Promise> {
    let texts = (1..4).map(|n| format!("Subject: other {n}\n\n").into_bytes());
    let others: Vec<_> = (1..4)
        .zip(texts.clone())
        .map(|(n, text)| {
            let path = world.path.join(format!("tmp/other{n}"));
            Elsewhere(Arc::clone(&world.vfs), path, text)
        })
        .collect();
    let new = others.iter().zip([true, false, true]).map(|(other, seen)| NewMessage {
        rest: Some(other),
        flags: if seen { FlagSet::EMPTY.with(Flag::Seen) } else { FlagSet::EMPTY },
        internal_date: date,
        ..NewMessage::default()
    });
    let report = world.sync(&ChangeSet::default(), &new.collect::<Vec<_>>())?;
    let uids = report.appended.iter().copied().zip(texts.clone());
    Ok(Promise {
        uids: uids.filter_map(|(uid, text)| Some((uid?, text))).collect(),
        texts: texts.collect(),
        ..Promise::default()
    })
}

#[test]
fn linked_deliveries() {
    check(known_beside_another, &[], |world| append_others(world, None), 10);
}

const OLD: InternalDate = InternalDate { unix_seconds: 86_400, zone_minutes: 0 };

/// Makes the files of the first `count` other messages old.
fn age(world: &World, count: u32) {
    let modified = Timestamp { unix_nanos: OLD.unix_seconds * 1_000_000_000 };
    for number in 1..=count {
        let path = world.path.join(format!("tmp/other{number}"));
        let file = world.vfs.open(&path, OpenOptions::WRITE).unwrap();
        file.set_times(modified, modified).unwrap();
        file.sync_all().unwrap();
    }
}

fn known_beside_old(world: &mut World) {
    known_beside_another(world);
    age(world, 3);
}

/// The date of the third message is not that of its file.
fn known_beside_two_old(world: &mut World) {
    known_beside_another(world);
    age(world, 2);
}

fn append_old(world: &mut World) -> barid_mailbox::Result<Promise> {
    append_others(world, Some(OLD))
}

#[test]
fn deliveries_linked_to_their_final_names() {
    check(known_beside_old, &[], append_old, 10);
}

#[test]
fn deliveries_that_cannot_be_linked_after_all() {
    check(known_beside_two_old, &[], append_old, 10);
}

fn inodes(world: &World, names: &[String]) -> BTreeSet<u64> {
    let inode = |name| world.vfs.metadata(&world.path.join(name)).unwrap().inode;
    names.iter().map(inode).collect()
}

fn entries(world: &World, dir: &str) -> Vec<String> {
    let mut names = Vec::new();
    let listed = world.vfs.open_dir(&world.path.join(dir)).unwrap();
    let mut list = |name: &[u8], _| names.push(format!("{dir}/{}", String::from_utf8_lossy(name)));
    listed.list(&mut list).unwrap();
    names.sort_unstable();
    names
}

#[test]
fn only_old_files_are_linked_at_once() {
    let others: Vec<String> = (1..4).map(|n| format!("tmp/other{n}")).collect();
    for (prepare, linked) in
        [(known_beside_old as fn(&mut World), 3), (known_beside_two_old as fn(&mut World), 2)]
    {
        let names_of = |date: Option<InternalDate>| {
            let disk = MemVfs::new();
            let mut world = World::new(Arc::new(disk.clone()));
            prepare(&mut world);
            let names = FaultVfs::new(disk, Fault::nth(u64::MAX).of(CallKind::Name));
            let mut running = World::at(Arc::new(names.clone()), &world.path, &world.state_dir);
            running.cache = world.cache.clone();
            append_others(&mut running, date).unwrap();
            (running, names.calls())
        };
        let (_, with_renames) = names_of(None);
        let (world, without) = names_of(Some(OLD));
        let names = [entries(&world, "cur"), entries(&world, "new")].concat();
        let shared = inodes(&world, &others).intersection(&inodes(&world, &names)).count();
        assert_eq!(shared, linked);
        // All but the first are not renamed; the link to a file that is not old is removed again.
        assert_eq!(with_renames - without, if linked == 3 { 2 } else { 0 });
        assert_eq!(entries(&world, "tmp"), others);
    }
}

#[test]
fn of_a_failed_append_nothing_is_left() {
    let mut failures = 0;
    for prepare in [known_beside_another, known_beside_old, known_beside_two_old] {
        let disk = MemVfs::new();
        let mut world = World::new(Arc::new(disk.clone()));
        prepare(&mut world);
        let messages = |world: &World| [entries(world, "cur"), entries(world, "new")].concat();
        let before = messages(&world);
        for kind in [CallKind::Name, CallKind::Stat, CallKind::Sync, CallKind::Open] {
            for n in 0.. {
                let copy = CrashVfs::new(&disk).vfs();
                let fault = Fault::nth(n).of(kind).with(FaultEffect::Error(StorageFull));
                let faulty = FaultVfs::new(copy.clone(), fault);
                let mut running = World::at(Arc::new(copy), &world.path, &world.state_dir);
                (running.cache, running.threads) = (world.cache.clone(), 1);
                running.vfs = Arc::new(faulty.clone());
                let failed = append_old(&mut running).is_err();
                if !faulty.fired() {
                    assert!(!failed);
                    break;
                }
                if failed {
                    failures += 1;
                    assert_eq!(messages(&running), before, "{kind:?} {n}");
                }
            }
        }
    }
    assert!(failures > 20, "only {failures} failures");
}

#[test]
fn flags_and_expunges() {
    check(
        known,
        &[uid(2)],
        |world| {
            let change = FlagChange {
                add: FlagSet::EMPTY.with(Flag::Flagged),
                add_keywords: vec![keyword("todo")],
                ..FlagChange::default()
            };
            let changes = ChangeSet {
                flags: vec![(uid(1), change.clone()), (uid(4), change)].into(),
                expunge: vec![uid(2)],
                drop_recent: true,
                ..ChangeSet::default()
            };
            world.sync(&changes, &[])?;
            let flagged = FlagSet::EMPTY.with(Flag::Flagged);
            Ok(Promise {
                flags: [(uid(1), flagged.with(Flag::Seen)), (uid(4), flagged)].into(),
                gone: vec![uid(2)],
                ..Promise::default()
            })
        },
        12,
    );
}

#[test]
fn a_disk_that_lies_is_found_out() {
    let disk = MemVfs::new();
    let mut world = World::new(Arc::new(disk.clone()));
    known(&mut world);
    let crash = CrashVfs::lying(&disk);
    world.vfs = Arc::new(crash.vfs());
    world.sync(&ChangeSet::default(), &[message(b"Subject: x\n\n")]).unwrap();
    let lost = (0..SEEDS).any(|seed| {
        let left = crash.crash_at(crash.points(), seed);
        let mut found = World::at(Arc::new(left), &world.path, &world.state_dir);
        found.scan();
        !texts(&found).values().any(|text| text == b"Subject: x\n\n")
    });
    assert!(lost, "without barriers something must be lost");
}
