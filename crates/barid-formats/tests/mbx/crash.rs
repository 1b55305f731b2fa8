//! Power failures at every moment of a change, and calls that fail: every message exists once, with
//! the same bytes and UID, and its old flags or its new ones; appended messages are all there or
//! none of them.
//!
//! The environment variable `BARID_CRASH_POINTS` sets the number of crash points; the default is
//! 2,000.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use barid_mailbox::{ChangeSet, EmptyKnown, Error, FlagChange, NewMessage, SyncContext};
use barid_testkit::deliveries::deliver_to_mbx;
use barid_types::{Flag, FlagSet, Uid};
use barid_vfs::{CallKind, CrashVfs, Fault, FaultEffect, FaultVfs, LockKind, LockMode, MemVfs};
use barid_vfs::{OpenOptions, Vfs};
use fastrand::Rng;

use super::support::{Cached, World, header, keyword, new_message, record};

const POINTS: u64 = 2_000;

fn points() -> u64 {
    let given = std::env::var("BARID_CRASH_POINTS").ok();
    given.map_or(POINTS, |number| number.parse().expect("because it is a number"))
}

/// A mailbox and a change to be made to it.
struct Scenario {
    seed: u64,
    disk: MemVfs,
    world: World,
    known: Cached,
    texts: BTreeMap<Uid, Vec<u8>>,
    changes: ChangeSet,
    appends: Vec<Vec<u8>>,
    /// `true` if another session has the mailbox open, so that messages are hidden.
    is_shared: bool,
}

impl Scenario {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let count = rng.u32(..12);
        let mut file = header(0x544a_adf6, count, &["todo"]);
        for number in 1..=count {
            let hidden = if rng.u32(..8) == 0 { 0x8000 } else { 0 };
            let flags = hidden | rng.u16(..0x40);
            file.extend(record(&text(&mut rng, number), rng.u32(..2), flags, number));
        }
        let (disk, mut world) = World::of(&file);
        world.lock_timeout = std::time::Duration::from_secs(5);
        let known = world.scan();
        let texts = known.seen.iter().map(|seen| (seen.uid, world.read(seen).unwrap())).collect();
        let mut changes = ChangeSet { drop_recent: rng.u32(..3) == 0, ..ChangeSet::default() };
        let kind = rng.u32(..4);
        for seen in &known.seen {
            match rng.u32(..4) {
                0 if kind != 0 => changes.expunge.push(seen.uid),
                1 | 2 if kind != 1 => changes.flags.push((seen.uid, flag_change(&mut rng))),
                _ => {}
            }
        }
        let appends = (0..rng.u32(..3)).map(|n| text(&mut rng, 100 + n).into_bytes()).collect();
        let is_shared = rng.u32(..4) == 0;
        Self { seed, disk, world, known, texts, changes, appends, is_shared }
    }

    fn change(&self, vfs: Arc<dyn Vfs>) -> Result<(), Error> {
        let world = World { vfs, ..self.world.clone() };
        let mut appends: Vec<NewMessage<'_>> =
            self.appends.iter().map(|bytes| new_message(bytes, 1_000_000_000)).collect();
        if let Some(first) = appends.first_mut() {
            first.keywords = vec![keyword("todo"), keyword("Junk")];
        }
        let session = self.is_shared.then(|| {
            let session = world.vfs.open(&world.path, OpenOptions::READ);
            session.and_then(|file| {
                file.try_lock(LockKind::Flock, LockMode::Shared)?;
                Ok(file)
            })
        });
        let done = world.try_sync(&self.known, &self.changes, &appends);
        drop(session);
        done.map(drop)
    }

    /// Completes an interrupted change and checks the mailbox. Mail may have been `delivered`
    /// before.
    fn judge(&self, disk: &MemVfs, acknowledged: bool, delivered: bool) -> Result<(), String> {
        if delivered {
            assert!(deliver_to_mbx(disk, &self.world.path, DELIVERED.as_bytes()).unwrap());
        }
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let world = World { vfs, ..self.world.clone() };
        let fail = |error: Error| error.to_string();
        let mailbox = world.mailbox().map_err(fail)?;
        if mailbox.unfinished(None).map_err(fail)?.is_some() {
            let nothing = EmptyKnown::default();
            let recovered = mailbox.recover(&mut SyncContext::new(&nothing)).map_err(fail)?;
            if recovered.quarantined.is_some() {
                return Err("nobody else was here, but it is put aside".into());
            }
        }
        if mailbox.unfinished(None).map_err(fail)?.is_some() {
            return Err("still unfinished".into());
        }
        let mut found = world.try_scan(&EmptyKnown::default()).map_err(fail)?;
        self.check(&world, &found, acknowledged, delivered)?;
        if delivered {
            found = world.try_scan(&found).map(|next| found.and(next)).map_err(fail)?;
            self.check(&world, &found, acknowledged, delivered)?;
        }
        // The mailbox can be used.
        let more = new_message(b"Subject: more\r\n\r\nmore\r\n", 7);
        world.try_sync(&found, &ChangeSet::default(), &[more]).map_err(fail)?;
        let again = world.try_scan(&EmptyKnown::default()).map_err(fail)?;
        let is_one_more = again.seen.len() == found.seen.len() + 1;
        if !is_one_more || again.seen[..found.seen.len()] != found.seen {
            return Err(format!("{} messages became {}", found.seen.len(), again.seen.len()));
        }
        match again.report.defects.is_empty() {
            true => Ok(()),
            false => Err(format!("{:?}", again.report.defects)),
        }
    }

    fn check(
        &self,
        world: &World,
        found: &Cached,
        acknowledged: bool,
        delivered: bool,
    ) -> Result<(), String> {
        if found.report.uidvalidity != self.known.report.uidvalidity {
            return Err("another UIDVALIDITY".into());
        }
        let mut rest = found.seen.iter().peekable();
        for old in &self.known.seen {
            let is_expunged = self.changes.expunge.contains(&old.uid);
            let Some(now) = rest.next_if(|now| now.uid == old.uid) else {
                if is_expunged {
                    continue;
                }
                return Err(format!("{:?} is missing", old.uid));
            };
            if is_expunged && acknowledged {
                return Err(format!("{:?} is still there", old.uid));
            }
            let bytes = world.read(now).map_err(|error| error.to_string())?;
            if bytes != self.texts[&old.uid] || now.date != old.date {
                return Err(format!("{:?} is another", old.uid));
            }
            let (before, after) = (self.known.flags_of(old), self.wanted(old));
            let flags = found.flags_of(now);
            if sorted(&flags) != sorted(&after)
                && (acknowledged && !is_expunged || sorted(&flags) != sorted(&before))
            {
                return Err(format!("{:?}: {flags}, not {before} or {after}", old.uid));
            }
        }
        let mut new: Vec<_> = rest.collect();
        if delivered {
            let last = new.pop().ok_or("what was delivered is lost")?;
            let text = world.read(last).map_err(|error| error.to_string())?;
            if text != DELIVERED.as_bytes() || found.flags_of(last) != "R-" {
                return Err(format!("{:?} is not what was delivered", last.uid));
            }
        }
        if new.len() != self.appends.len() && (acknowledged || !new.is_empty()) {
            return Err(format!("{} of {} are appended", new.len(), self.appends.len()));
        }
        for (now, text) in new.into_iter().zip(&self.appends) {
            if now.uid < self.known.report.uidnext
                || world.read(now).map_err(|error| error.to_string())? != *text
            {
                return Err(format!("{:?} was appended", now.uid));
            }
        }
        Ok(())
    }

    /// Returns the flags of a message after the change.
    fn wanted(&self, old: &super::support::Seen) -> String {
        let change = self.changes.flags.iter().find(|(uid, _)| *uid == old.uid);
        let mut seen = old.clone();
        let mut names: Vec<String> = Vec::new();
        if let Some((_, change)) = change {
            let bits = seen.flags.bits() & !change.remove.bits() | change.add.bits();
            seen.flags = FlagSet::from_bits(bits);
            names = change.add_keywords.iter().map(|name| name.as_str().to_owned()).collect();
        }
        if self.changes.drop_recent {
            seen.flags = seen.flags.without(Flag::Recent);
        }
        let mut text = self.known.flags_of(&seen);
        for name in names {
            if !text.split(' ').any(|word| word == name) {
                text = format!("{text} {name}");
            }
        }
        let removed = change.map(|(_, change)| change.remove_keywords.clone()).unwrap_or_default();
        for name in removed {
            text = text.replace(&format!(" {}", name.as_str()), "");
        }
        text
    }
}

/// Mail that another program delivers after a crash.
const DELIVERED: &str = "Subject: delivered\r\n\r\nbetween crash and recovery\r\n";

fn sorted(flags: &str) -> Vec<&str> {
    let mut words: Vec<&str> = flags.split(' ').collect();
    words[1..].sort_unstable();
    words
}

fn text(rng: &mut Rng, number: u32) -> String {
    let most = if rng.u32(..6) == 0 { 9_000 } else { 700 };
    let len = rng.usize(..most);
    let body = format!("{number} {}\r\n", rng.u32(..)).repeat(len / 10);
    format!("Subject: {number}\r\nMessage-ID: <{number}@example.org>\r\n\r\n{body}")
}

fn flag_change(rng: &mut Rng) -> FlagChange {
    let flags = FlagSet::from_bits(rng.u8(..0x20));
    let mut change = FlagChange { add: flags, ..FlagChange::default() };
    change.remove = FlagSet::from_bits(rng.u8(..0x20) & !flags.bits());
    match rng.u32(..4) {
        0 => change.add_keywords = vec![keyword("todo")],
        1 => change.remove_keywords = vec![keyword("todo")],
        2 => change.add_keywords = vec![keyword(["Junk", "$Label1", "later"][rng.usize(..3)])],
        _ => {}
    }
    change
}

/// Crashes scenarios from `first` on until `points` crash points were visited; returns a
/// description of the loss, if there was any.
fn visit(
    first: u64,
    points: u64,
    world_of: &dyn Fn(&MemVfs) -> CrashVfs,
    vfs_of: &dyn Fn(MemVfs) -> Arc<dyn Vfs>,
) -> Result<u64, String> {
    let (mut seed, mut visited, mut journals) = (first, 0, 0);
    while visited < points {
        let scenario = Scenario::new(seed);
        seed += 1;
        let world = world_of(&scenario.disk);
        let done = scenario.change(vfs_of(world.vfs()));
        done.map_err(|error| format!("scenario {}: {error}", scenario.seed))?;
        let acknowledged = world.points();
        let step = acknowledged.div_ceil(120).max(1);
        for point in (0..acknowledged).step_by(step).chain([acknowledged]) {
            visited += 1;
            for crash in 0..4 {
                let disk = world.crash_at(point, seed << 20 ^ (point as u64) << 3 ^ crash);
                journals += u64::from(disk.metadata(Path::new("/mail/.box.barid-journal")).is_ok());
                let judged = scenario.judge(&disk, point == acknowledged, crash == 2);
                judged.map_err(|loss| {
                    let at = format!("point {point} of {acknowledged}, crash {crash}");
                    format!("scenario {}, {at}: {loss}", scenario.seed)
                })?;
            }
        }
    }
    println!("mbx crash points visited: {visited}, disks with a journal: {journals}");
    Ok(journals)
}

#[test]
fn a_crash_at_any_moment_loses_nothing() {
    let journals = visit(0, points(), &CrashVfs::new, &|vfs| Arc::new(vfs)).unwrap();
    assert!(journals > 100);
}

#[test]
fn a_crash_is_survived_only_because_of_the_barriers() {
    let lying = visit(0, 1_000, &CrashVfs::lying, &|vfs| Arc::new(vfs));
    assert!(lying.is_err(), "a disk that lies");
    let skip = |vfs: MemVfs, fault: Fault| -> Arc<dyn Vfs> {
        let skipped = fault.of(CallKind::Sync).with(FaultEffect::Skip);
        Arc::new(FaultVfs::new(vfs, skipped))
    };
    let file = |vfs| skip(vfs, Fault::nth(0).forever().at("/mail/box"));
    assert!(visit(0, 1_000, &CrashVfs::new, &file).is_err(), "no fsync of the mailbox");
    let journal = |vfs| skip(vfs, Fault::nth(0).forever().at("/mail/.box.barid-journal"));
    assert!(visit(0, 1_000, &CrashVfs::new, &journal).is_err(), "no fsync of the journal");
}

#[test]
fn a_crash_while_messages_are_numbered_keeps_their_uidvalidity() {
    let mut visited = 0;
    for seed in 0..40 {
        let mut rng = Rng::with_seed(seed);
        let (old, new) = (rng.u32(..5), rng.u32(1..9));
        let mut file = header(0x544a_adf6, old, &[]);
        for number in 1..=old + new {
            let uid = if number <= old { number } else { 0 };
            file.extend(record(&text(&mut rng, number), 0, 0, uid));
        }
        let (disk, world) = World::of(&file);
        let crash = CrashVfs::new(&disk);
        let on = |disk: MemVfs| World { vfs: Arc::new(disk), ..world.clone() };
        let found = on(crash.vfs()).scan();
        let uids: Vec<u32> = (1..=old + new).collect();
        assert_eq!(found.uids(), uids);
        for point in 0..=crash.points() {
            visited += 1;
            for seed in 0..4 {
                let again = on(crash.crash_at(point, seed)).scan();
                assert_eq!(again.report.uidvalidity, found.report.uidvalidity);
                let is_old = again.uids().iter().all(|uid| *uid <= 2 * (old + new));
                assert!(is_old && again.seen.len() == uids.len());
                if point == crash.points() {
                    assert_eq!(again.uids(), uids);
                }
            }
        }
    }
    assert!(visited > 200);
}

#[test]
fn a_failing_call_leaves_a_mailbox_that_can_be_used() {
    let effects = [
        FaultEffect::Error(ErrorKind::StorageFull),
        FaultEffect::Error(ErrorKind::Other),
        FaultEffect::Short,
        FaultEffect::Error(ErrorKind::PermissionDenied),
    ];
    let (mut calls, mut failed) = (0, 0);
    for seed in 0..points() / 100 {
        let scenario = Scenario::new(seed);
        for n in (seed % 3..).step_by(3) {
            let effect = effects[(n / 3) as usize % effects.len()];
            let forever = n % 2 == 0;
            let world = CrashVfs::new(&scenario.disk);
            let fault = Fault { forever, ..Fault::nth(n).with(effect) };
            let faulty = FaultVfs::new(world.vfs(), fault);
            let done = scenario.change(Arc::new(faulty.clone()));
            if !faulty.fired() {
                break;
            }
            calls += 1;
            failed += u64::from(done.is_err());
            let acknowledged = done.is_ok();
            let judge = |disk: &MemVfs| {
                let judged = scenario.judge(disk, acknowledged, false);
                judged.unwrap_or_else(|loss| {
                    panic!("scenario {seed}, call {n}, {effect:?}, {forever}: {loss} ({done:?})")
                });
            };
            judge(&world.vfs().snapshot());
            judge(&world.crash_at(world.points(), n));
        }
    }
    println!("calls that failed: {calls}, changes that did: {failed}");
    assert!(calls > 200 && failed > 100);
}
