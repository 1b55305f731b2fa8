//! Changes of mailboxes that are another's, that fail half-way, and what is told then.

use std::path::Path;
use std::sync::Arc;

use barid_types::{Flag, FlagSet, Uid};
use barid_vfs::{Fault, FaultEffect, FaultVfs, MemVfs, Vfs};

use super::support::{Cached, World};
use crate::{
    ChangeSet, Error, FlagChange, Mailbox, NewMessage, Racy, Result, SyncContext, SyncReport,
};

const MESSAGE: &str = "From a@b Sun Sep  9 01:46:40 2001\nSubject: 1\nStatus: RO\n\nbody\n\n";

fn disk() -> MemVfs {
    let disk = MemVfs::new();
    World::on(Arc::new(disk.clone())).write(MESSAGE.repeat(60).as_bytes());
    disk
}

fn content(disk: &MemVfs) -> Vec<u8> {
    disk.read(Path::new("/mail/box"), 1 << 20).unwrap()
}

/// Flags the first messages, so many that they need a journal; of one its own sector is enough.
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
        sender: None,
    }
}

#[test]
fn a_mailbox_of_another_is_changed_without_times_of_ours() {
    for (user, racy) in [(1000, Racy::No), (2000, Racy::Possible)] {
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
            assert_eq!(cache.stamp_after.racy(), racy, "{context}");
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
