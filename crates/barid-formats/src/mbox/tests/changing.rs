//! Changes of messages through [`Mailbox::sync`]: results of a later scan, of a cache that follows,
//! and files left behind.

use std::path::Path;

use barid_mailbox::{
    ChangeSet, EmptyKnown, Error, FlagChange, MovedMessage, NewMessage, Result, StampRules,
    Storage, SyncContext, SyncReport,
};
use barid_types::{Flag, FlagSet, Uid};

use super::support::{Cached, World};
use crate::file_stamps::{FileStampRules, FileStamps};

const FROM: &str = "From a@b Sun Sep  9 01:46:40 2001\n";

/// Creates a mailbox of `count` messages without any owned field.
fn world(count: u32) -> World {
    let message = |at| format!("{FROM}Subject: {at}\n\nbody of message {at}\n\n");
    World::new((0..count).map(message).collect::<String>().as_bytes())
}

fn uid(number: u32) -> Uid {
    Uid::new(number).unwrap()
}

fn flagged(numbers: &[u32]) -> ChangeSet {
    let add = FlagSet::EMPTY.with(Flag::Seen).with(Flag::Flagged);
    let change = FlagChange { add, ..FlagChange::default() };
    let flags = numbers.iter().map(|number| (uid(*number), change.clone())).collect();
    ChangeSet { flags, ..ChangeSet::default() }
}

/// Applies a change, with a ledger; returns the messages reported to `moved` too.
fn sync(
    world: &World,
    known: &Cached,
    changes: &ChangeSet,
    appends: &[NewMessage<'_>],
) -> Result<(SyncReport, Vec<MovedMessage>)> {
    let mut ledger = world.ledger();
    let mut moved = Vec::new();
    let mut take = |message: &MovedMessage| moved.push(*message);
    let mut context = SyncContext::new(known);
    context.ledger = Some(&mut ledger);
    context.state_dir = Some(Path::new("/state"));
    context.moved = Some(&mut take);
    let report = world.mailbox().sync(changes, appends, &mut context)?;
    Ok((report, moved))
}

/// Returns a cache that follows `report`, after comparing it with a scan of the whole file.
fn follow(world: &World, known: &Cached, report: &SyncReport, moved: &[MovedMessage]) -> Cached {
    let state = report.cache.clone().unwrap();
    assert!(FileStamps::of(&state.stamp).are_settled());
    let mut followed = known.clone();
    let whole = world.scan();
    let kept = |uid: &Uid| !report.expunged.contains(uid);
    followed.uids.retain(kept);
    followed.seen = whole.seen.clone();
    assert_eq!(followed.uids, whole.uids);
    for told in moved {
        let at = whole.uids.iter().position(|uid| *uid == told.uid).unwrap();
        assert_eq!(Some(whole.seen[at].location()), told.location);
        assert_eq!(whole.seen[at].flags, told.flags);
    }
    followed.report.stamp = state.stamp;
    followed.report.state = state.state;
    followed.report.keywords = state.keywords;
    followed.report.uidnext = whole.report.uidnext;
    followed
}

#[test]
fn a_cache_that_follows_has_nothing_to_read() {
    let world = world(50);
    let mut known = world.scan();
    let expunge = ChangeSet { expunge: vec![uid(1), uid(7), uid(50)], ..flagged(&[2, 30]) };
    let write_uids = ChangeSet { write_uids: true, drop_recent: true, ..ChangeSet::default() };
    for changes in [flagged(&[3, 49]), write_uids, flagged(&[4]), expunge] {
        let (report, moved) = sync(&world, &known, &changes, &[]).unwrap();
        assert_eq!(report.expunged, changes.expunge);
        known = follow(&world, &known, &report, &moved);
        let again = world.try_scan(&known).unwrap();
        assert_eq!(again.report.stats.bytes_read, 0, "the stamp is believed");
        assert!(again.seen.is_empty() && again.report.expunged.is_empty());
        let state = report.cache.unwrap();
        assert_eq!(state.stamp, state.stamp_after);
        // Every later change, however soon, changes the stamp.
        world.append(b"");
        assert_eq!(
            world.mailbox().file_stamps().unwrap().files,
            FileStamps::of(&state.stamp).files
        );
        let size = FileStamps::of(&state.stamp).files[0].size;
        let file = world.vfs.open(&world.path, barid_vfs::OpenOptions::WRITE).unwrap();
        let mut last = [0];
        file.read_exact_at(&mut last, size - 1).unwrap();
        file.write_all_at(&last, size - 1).unwrap();
        assert_ne!(
            world.mailbox().file_stamps().unwrap().files,
            FileStamps::of(&state.stamp).files
        );
        known.report.stamp = world.mailbox().stamp().unwrap();
        world.pass_time();
    }
}

#[test]
fn what_is_appended_with_a_change_is_all_that_is_left_to_read() {
    let world = world(10);
    let known = world.scan();
    let changes = ChangeSet { write_uids: true, ..flagged(&[2]) };
    let new = NewMessage {
        bytes: b"Subject: new\n\nnew\n",
        internal_date: None,
        flags: FlagSet::EMPTY,
        keywords: Vec::new(),
        ..NewMessage::default()
    };
    let (report, moved) = sync(&world, &known, &changes, &[new.clone(), new]).unwrap();
    assert_eq!(report.appended, [Some(uid(11)), Some(uid(12))]);
    assert_eq!(report.figures.size_after, world.mailbox().file_stamps().unwrap().files[0].size);
    let state = report.cache.clone().unwrap();
    assert!(FileStampRules.has_grown(&state.stamp, &state.stamp_after));
    assert!(state.stamp_after.is_same(&world.mailbox().stamp().unwrap()));
    let mut followed = known.clone();
    followed.report.stamp = state.stamp;
    followed.report.state = state.state;
    followed.report.keywords = state.keywords;
    let again = world.try_scan(&followed).unwrap();
    assert!(again.report.tail_verified && !again.report.reset);
    assert_eq!(again.uids(), [11, 12]);
    assert_eq!(moved.last().map(|message| message.uid), Some(uid(10)));
}

#[test]
fn after_an_append_alone_a_cache_follows_too() {
    let world = world(10);
    let known = world.scan();
    let new = NewMessage {
        bytes: b"Subject: new\n\nnew\n",
        internal_date: None,
        flags: FlagSet::EMPTY,
        keywords: Vec::new(),
        ..NewMessage::default()
    };
    let (report, moved) =
        sync(&world, &known, &ChangeSet::default(), std::slice::from_ref(&new)).unwrap();
    assert!(moved.is_empty());
    let state = report.cache.clone().unwrap();
    assert!(FileStampRules.has_grown(&state.stamp, &state.stamp_after));
    assert!(state.stamp_after.is_same(&world.mailbox().stamp().unwrap()));
    assert!(
        [state.stamp, state.stamp_after].iter().all(|stamp| FileStamps::of(stamp).are_settled())
    );
    let figures = report.figures;
    assert_eq!(figures.size_before + figures.bytes_appended, figures.size_after);
    let mut followed = known.clone();
    followed.report.stamp = state.stamp;
    followed.report.state = state.state;
    let again = world.try_scan(&followed).unwrap();
    assert!(again.report.tail_verified && !again.report.reset);
    assert_eq!(again.uids(), [11]);
    // A file that may differ from the known state is not followed.
    let (report, _) = sync(&world, &followed, &ChangeSet::default(), &[new]).unwrap();
    assert_eq!(report.cache, None);
}

#[test]
fn messages_that_cannot_be_written_are_named() {
    let line = format!("X-Long: {}\n", "y".repeat(1000));
    let long = line.repeat(1024 * 1024 / line.len() + 1);
    let text = format!("{FROM}Subject: 1\n\nbody\n\n{FROM}{long}\nbody\n\n");
    let world = World::new(text.as_bytes());
    let known = world.scan();
    let mut context = SyncContext::new(&known);
    context.dry_run = true;
    let dry = world.mailbox().sync(&flagged(&[1, 2]), &[], &mut context).unwrap();
    let (report, moved) = sync(&world, &known, &flagged(&[1, 2]), &[]).unwrap();
    for report in [dry, report] {
        assert_eq!((report.unwritable, report.unwritable_count), (vec![uid(2)], 1));
    }
    for message in moved {
        assert_eq!(message.flags.contains(Flag::Flagged), message.uid == uid(1));
    }
    assert!(!world.scan().seen[1].flags.contains(Flag::Flagged));
}

#[test]
fn the_ledger_forgets_what_the_file_knows_but_no_number() {
    let world = world(20);
    let known = world.scan();
    assert_eq!(world.ledger().entries().unwrap().len(), 20);
    sync(&world, &known, &flagged(&[5]), &[]).unwrap();
    assert_eq!(world.ledger().entries().unwrap().len(), 20);
    let known = world.scan();
    let changes = ChangeSet { write_uids: true, ..ChangeSet::default() };
    sync(&world, &known, &changes, &[]).unwrap();
    let mut ledger = world.ledger();
    assert!(ledger.entries().unwrap().is_empty());
    assert_eq!(ledger.uidnext(), Some(uid(21)));
    assert_eq!(ledger.uidvalidity(), Some(known.report.uidvalidity));
    let again = world.scan();
    assert_eq!(again.uids, known.uids);
    assert_eq!(again.report.uidvalidity, known.report.uidvalidity);
}

#[test]
fn what_changed_behind_our_back_is_not_written_over() {
    let world = world(20);
    let known = world.scan();
    let text = world.vfs.read(&world.path, 1 << 20).unwrap();
    let mut other = text.clone();
    other.drain(..FROM.len() + 10);
    world.write(&[FROM.as_bytes(), b"S", &other].concat());
    let before = world.vfs.read(&world.path, 1 << 20).unwrap();
    let result = sync(&world, &known, &flagged(&[5]), &[]);
    assert!(matches!(result, Err(Error::Changed { .. })), "{result:?}");
    assert_eq!(world.vfs.read(&world.path, 1 << 20).unwrap(), before);
    assert!(world.mailbox().unfinished(None).unwrap().is_none());
}

#[test]
fn what_was_delivered_since_stays_for_the_next_scan() {
    let world = world(20);
    let known = world.scan();
    world.append(format!("{FROM}Subject: late\n\nlate\n\n").as_bytes());
    let (report, _) = sync(&world, &known, &flagged(&[5, 20]), &[]).unwrap();
    let state = report.cache.unwrap();
    let mut followed = known.clone();
    followed.report.stamp = state.stamp;
    followed.report.state = state.state;
    let again = world.try_scan(&followed).unwrap();
    assert!(!again.report.reset);
    assert_eq!(again.uids(), [21]);
    assert_eq!(again.seen[0].header, b"Subject: late\n\n");
}

#[test]
fn a_delivery_is_all_that_is_read_though_the_first_header_is_padded() {
    let message = |at, len| format!("{FROM}Subject: {at}\n\n{}\n", "a line\n".repeat(len));
    let text = [message(1, 3_000), message(2, 9), message(3, 9), message(4, 90_000)].concat();
    let world = World::new(text.as_bytes());
    let write_uids = ChangeSet { write_uids: true, ..ChangeSet::default() };
    sync(&world, &world.scan(), &write_uids, &[]).unwrap();
    let expunge = ChangeSet { expunge: vec![uid(1)], ..ChangeSet::default() };
    let (report, _) = sync(&world, &world.scan(), &expunge, &[]).unwrap();
    assert_eq!(report.figures.size_after, report.figures.size_before, "it becomes padding");
    let known = world.scan();
    world.pass_time();
    world.append(message(5, 9).as_bytes());
    let again = world.try_scan(&known).unwrap();
    assert_eq!((again.report.tail_verified, again.uids()), (true, vec![5]));
    let read = again.report.stats.bytes_read;
    assert!(read < 100_000, "{read}");
}

#[test]
fn a_dry_run_writes_nothing_and_says_what_would_be() {
    let world = world(200);
    let known = world.scan();
    let changes = ChangeSet { write_uids: true, drop_recent: true, ..ChangeSet::default() };
    let before = world.vfs.read(&world.path, 1 << 20).unwrap();
    let mut context = SyncContext::new(&known);
    context.dry_run = true;
    let dry = world.mailbox().sync(&changes, &[], &mut context).unwrap();
    assert_eq!(world.vfs.read(&world.path, 1 << 20).unwrap(), before);
    let (report, _) = sync(&world, &known, &changes, &[]).unwrap();
    let figures = barid_mailbox::SyncFigures { bytes_journaled: 0, ..report.figures };
    assert_eq!(barid_mailbox::SyncFigures { bytes_journaled: 0, ..dry.figures }, figures);
}

#[test]
fn a_dry_run_says_that_there_is_no_room() {
    let disk = barid_vfs::MemVfs::new();
    let world = World::on(std::sync::Arc::new(disk.clone()));
    world.write(format!("{FROM}Subject: a\n\nbody\n\n").repeat(200).as_bytes());
    let known = world.scan();
    let changes = ChangeSet { write_uids: true, ..ChangeSet::default() };
    let mut context = SyncContext::new(&known);
    context.dry_run = true;
    disk.set_free_space(Some(5000));
    let result = world.mailbox().sync(&changes, &[], &mut context);
    assert!(matches!(result, Err(Error::NoSpace { free: 5000, .. })), "{result:?}");
}

#[test]
fn nothing_is_unfinished_where_nothing_was_begun() {
    let world = world(3);
    assert_eq!(world.mailbox().unfinished(Some(Path::new("/state"))).unwrap(), None);
    let known = EmptyKnown::default();
    let recovered = world.mailbox().recover(&mut SyncContext::new(&known)).unwrap();
    assert_eq!(recovered, barid_mailbox::Recovered::default());
    // The named journal is missing.
    world.vfs.set_xattr(&world.path, "user.barid.journal", b".box.barid-journal").unwrap();
    let found = world.mailbox().unfinished(None).unwrap().unwrap();
    assert_eq!(found.journal, None);
    let result = world.mailbox().recover(&mut SyncContext::new(&known));
    assert!(matches!(result, Err(Error::Unrecoverable { .. })), "{result:?}");
}

#[test]
fn ranges_are_collapsed_where_it_is_known_what_a_crash_leaves() {
    let message = |at, len| format!("{FROM}Subject: {at}\n\n{}\n", "a line\n".repeat(len));
    let bytes = [message(1, 9), message(2, 50_000), message(3, 900_000)].concat();
    let expunge = ChangeSet { expunge: vec![uid(2)], ..ChangeSet::default() };
    for known_to in [true, false] {
        let disk = barid_vfs::MemVfs::new();
        disk.set_collapses(known_to);
        let world = World::on(std::sync::Arc::new(disk));
        world.write(bytes.as_bytes());
        let known = world.scan();
        let mut context = SyncContext::new(&known);
        context.dry_run = true;
        let dry = world.mailbox().sync(&expunge, &[], &mut context).unwrap();
        let (report, _) = sync(&world, &known, &expunge, &[]).unwrap();
        assert_eq!(dry.figures.bytes_collapsed, report.figures.bytes_collapsed);
        assert_eq!(report.figures.bytes_collapsed > 0, known_to, "{:?}", report.figures);
    }
}
