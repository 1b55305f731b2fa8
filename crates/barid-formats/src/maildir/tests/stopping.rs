//! Changes that are stopped on request: finished parts are complete, and the rest is unchanged.

use std::path::Path;
use std::sync::Arc;

use barid_mailbox::{ChangeSet, Error, FlagChange};
use barid_types::{Flag, FlagSet};
use barid_vfs::{CrashVfs, MemVfs, Vfs as _};

use super::support::{World, message, uid};

const MESSAGES: u32 = 1500;

fn world() -> World {
    let mut world = World::new(Arc::new(MemVfs::new()));
    for number in 1..=MESSAGES {
        let text = format!("Subject: {number}\n\n");
        world.put(&format!("cur/{number}.h:2,"), text.as_bytes());
    }
    world.scan();
    world.pass_time();
    world
}

fn left_in_tmp(world: &World) -> usize {
    let mut left = 0;
    world.vfs.open_dir(Path::new("/box/tmp")).unwrap().list(&mut |_, _| left += 1).unwrap();
    left
}

#[test]
fn an_expunge_stops_between_two_batches() {
    let mut world = world();
    let all: Vec<_> = (1..=MESSAGES).map(uid).collect();
    let changes = ChangeSet { expunge: all, ..ChangeSet::default() };
    let error = world.sync_until(&changes, &[], 600).unwrap_err();
    let Error::Stopped { done, total, .. } = error else { panic!("{error}") };
    assert_eq!(total, u64::from(MESSAGES));
    assert!((600..1200).contains(&done), "{done}");
    world.scan();
    assert_eq!(world.uids(), (done as u32 + 1..=MESSAGES).collect::<Vec<_>>());
    // // The same change is continued.
    assert_eq!(world.sync(&changes, &[]).unwrap().figures.messages_expunged, total - done);
}

#[test]
fn a_change_of_flags_stops_between_two_messages() {
    let mut world = world();
    let add: FlagSet = [Flag::Seen].into_iter().collect();
    let mut changes = ChangeSet::default();
    (1..=MESSAGES)
        .for_each(|at| changes.flags.push((uid(at), FlagChange { add, ..FlagChange::default() })));
    let error = world.sync_until(&changes, &[], 100).unwrap_err();
    let Error::Stopped { done, .. } = error else { panic!("{error}") };
    world.scan();
    let seen = world.cache.messages.values().filter(|m| m.flags.contains(Flag::Seen)).count();
    assert!((100..200).contains(&done) && seen as u64 == done, "{done} {seen}");
}

#[test]
fn an_append_that_stops_leaves_nothing() {
    let mut world = world();
    let appends = vec![message(b"Subject: new\n\n"); 300];
    let error = world.sync_until(&ChangeSet::default(), &appends, 100).unwrap_err();
    assert!(matches!(error, Error::Stopped { done: 0, total: 300, .. }), "{error}");
    world.scan();
    assert_eq!((world.uids().len(), left_in_tmp(&world)), (MESSAGES as usize, 0));
}

#[test]
fn nobody_waits_for_a_lock_who_is_told_to_stop() {
    let mut world = world();
    world.put("dovecot-uidlist.lock", b"1:elsewhere");
    let began = world.vfs.now();
    let appends = vec![message(b"Subject: new\n\n"); 16];
    let result = world.sync_until(&ChangeSet::default(), &appends, 16);
    let waited = world.vfs.now().unix_nanos - began.unix_nanos;
    assert!(matches!(result, Err(Error::Stopped { .. })), "{result:?}");
    assert!(waited < 1_000_000_000, "{waited} ns");
    world.remove("dovecot-uidlist.lock");
    world.scan();
    assert_eq!((world.uids().len(), left_in_tmp(&world)), (MESSAGES as usize, 0));
}

#[test]
fn what_was_changed_before_a_lock_was_given_up_is_told_and_durable() {
    let disk = MemVfs::new();
    let mut before = World::new(Arc::new(disk.clone()));
    for number in 1..=16 {
        before.put(&format!("new/{number}.h"), format!("Subject: {number}\n\n").as_bytes());
    }
    before.scan();
    before.put("dovecot-uidlist.lock", b"1:elsewhere");
    for folder in ["/", "/box", "/box/new", "/box/cur"] {
        disk.sync_dir(Path::new(folder)).unwrap();
    }
    let crashing = CrashVfs::new(&disk);
    let world = World { cache: before.cache, ..World::new(Arc::new(crashing.vfs())) };
    let add: FlagSet = [Flag::Seen].into_iter().collect();
    let mut changes = ChangeSet { drop_recent: true, ..ChangeSet::default() };
    (1..=16)
        .for_each(|at| changes.flags.push((uid(at), FlagChange { add, ..FlagChange::default() })));
    let error = world.sync_until(&changes, &[], 16).unwrap_err();
    assert!(matches!(error, Error::Stopped { done: 16, total: 32, .. }), "{error}");
    let disk = crashing.crash_at(crashing.points(), 7);
    let mut seen = 0;
    let mut count = |name: &[u8], _| seen += u32::from(name.ends_with(b":2,S"));
    disk.open_dir(Path::new("/box/cur")).unwrap().list(&mut count).unwrap();
    assert_eq!(seen, 16);
    world.remove("dovecot-uidlist.lock");
}
