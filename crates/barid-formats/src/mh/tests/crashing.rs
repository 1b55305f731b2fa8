//! Power failures and failing calls at every moment of every operation: what was acknowledged is
//! there once, byte for byte, and a UID never comes to mean another message.

use std::collections::BTreeMap;
use std::io::ErrorKind::{PermissionDenied, StorageFull};
use std::sync::Arc;

use barid_mailbox::{ChangeSet, FlagChange, NewMessage};
use barid_types::{Flag, FlagSet, Uid, UidValidity};
use barid_vfs::{CrashVfs, Fault, FaultEffect, FaultVfs, MemVfs};

use super::support::{World, flagged, keyword, message, uid};

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
    let uids = world.cache.messages.iter().map(|(uid, m)| (*uid, m.header.clone())).collect();
    Promise { uids, uidvalidity, ..Promise::default() }
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

/// Three messages.
fn put_three(world: &mut World) {
    for number in 1..4 {
        world.put(&number.to_string(), format!("Subject: {number}\n\n").as_bytes());
    }
    world.put(".mh_sequences", b"cur: 2\nunseen: 2-3\nodd\n");
}

fn known(world: &mut World) {
    put_three(world);
    world.scan();
    world.pass_time();
}

fn renumbered(world: &mut World) {
    known(world);
    world.rename("3", "30");
    world.remove("1");
    world.put("31", b"Subject: new\n\n");
}

/// /// Scans; the promise consists of the announced UIDs.
fn scan(world: &mut World) -> barid_mailbox::Result<Promise> {
    let report = world.try_scan()?;
    Ok(Promise {
        uidvalidity: Some(report.uidvalidity),
        uids: world.cache.messages.iter().map(|(uid, m)| (*uid, m.header.clone())).collect(),
        ..Promise::default()
    })
}

#[test]
fn the_first_uids() {
    check(put_three, &[], scan, 4);
}

#[test]
fn a_renumbered_folder() {
    check(renumbered, &[uid(1)], |world| Ok(Promise { gone: vec![uid(1)], ..scan(world)? }), 2);
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
            world.sync(&ChangeSet::default(), &appends)?;
            Ok(Promise {
                texts: appends.iter().map(|message| message.bytes.to_vec()).collect(),
                ..Promise::default()
            })
        },
        20,
    );
}

#[test]
fn deliveries_that_bring_their_uids() {
    check(
        known,
        &[],
        |world| {
            let texts: [&[u8]; 3] = [b"Subject: a\n\n", b"Subject: b\n\n", b"Subject: c\n\n"];
            let wished = [uid(10), uid(20), uid(15)];
            let new = texts.iter().zip(wished).enumerate().map(|(at, (text, uid))| {
                let flags = FlagSet::EMPTY.with([Flag::Seen, Flag::Flagged, Flag::Draft][at]);
                NewMessage { uid: Some(uid), flags, ..message(text) }
            });
            let report = world.sync(&ChangeSet::default(), &new.collect::<Vec<_>>())?;
            let uids = report.appended.iter().zip(texts);
            Ok(Promise {
                uids: uids.filter_map(|(uid, text)| Some(((*uid)?, text.to_vec()))).collect(),
                texts: texts.map(<[u8]>::to_vec).to_vec(),
                ..Promise::default()
            })
        },
        20,
    );
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
                flags: vec![(uid(1), change.clone()), (uid(3), change)].into(),
                expunge: vec![uid(2)],
                ..ChangeSet::default()
            };
            world.sync(&changes, &[])?;
            let flagged = FlagSet::EMPTY.with(Flag::Flagged);
            Ok(Promise {
                flags: [(uid(1), flagged.with(Flag::Seen)), (uid(3), flagged)].into(),
                gone: vec![uid(2)],
                ..Promise::default()
            })
        },
        8,
    );
}

#[test]
fn flags_are_the_old_ones_or_the_new_ones() {
    let disk = MemVfs::new();
    let mut world = World::new(Arc::new(disk.clone()));
    known(&mut world);
    let crash = CrashVfs::new(&disk);
    let mut running = World::at(Arc::new(crash.vfs()), &world.path, &world.state_dir);
    running.cache = world.cache.clone();
    let seen = FlagSet::EMPTY.with(Flag::Seen);
    running.sync(&flagged(2, seen.with(Flag::Answered), FlagSet::EMPTY), &[]).unwrap();
    let (mut old, mut new) = (0, 0);
    for point in 0..=crash.points() {
        for seed in 0..SEEDS {
            let left: MemVfs = crash.crash_at(point, seed);
            let mut found = World::at(Arc::new(left), &world.path, &world.state_dir);
            found.scan();
            match found.cache.messages[&uid(2)].flags {
                FlagSet::EMPTY => old += 1,
                flags => {
                    assert_eq!(flags, seen.with(Flag::Answered), "point {point}, seed {seed}");
                    new += 1;
                }
            }
            assert_eq!(found.cache.messages[&uid(3)].flags, FlagSet::EMPTY);
            assert!(found.text(".mh_sequences").contains("cur: 2\n"));
        }
    }
    assert!(old > 0 && new > 0, "{old} old, {new} new");
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
