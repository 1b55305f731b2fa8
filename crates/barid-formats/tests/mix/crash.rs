//! The crash world: an interrupted change leaves each message there once, byte for byte, with its
//! old flags or its new ones.
//!
//! The environment variable `BARID_CRASH_POINTS` sets the number of crash points; the default is
//! 1,500.

use std::path::Path;
use std::sync::Arc;

use barid_formats::MailboxSpec;
use barid_mailbox::{ChangeSet, Error, NewMessage, ReadAs, SyncContext};
use barid_testkit::deliveries::deliver_to_mix;
use barid_types::{Flag, FlagSet};
use barid_vfs::{CallKind, CrashVfs, Fault, FaultEffect, FaultVfs, MemVfs, Vfs};
use fastrand::Rng;

use super::support::{Cached, Content, Contents, MixBox, add, create, new_message, uid};

const PATH: &str = "/mail/box";
const POINTS: usize = 1_500;

struct Scenario {
    disk: MemVfs,
    changes: ChangeSet,
    appends: Vec<Vec<u8>>,
    /// Permitted contents of the mailbox, from before the change to after it.
    states: Vec<Contents>,
}

fn open(vfs: Arc<dyn Vfs>) -> MixBox {
    MixBox::open(vfs, Path::new(PATH))
}

fn on(disk: &MemVfs) -> MixBox {
    open(Arc::new(disk.clone()))
}

fn random_text(rng: &mut Rng) -> Vec<u8> {
    let lines = rng.usize(..60);
    let mut text = format!("Subject: {}\r\n\r\n", rng.u32(..)).into_bytes();
    for _ in 0..lines {
        text.extend_from_slice(format!("{:x}\r\n", rng.u64(..)).as_bytes());
    }
    text
}

impl Scenario {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let disk = MemVfs::new();
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let mut mailbox = create(&vfs, Path::new(PATH));
        let count = rng.u32(0..14);
        let texts: Vec<_> = (0..count).map(|_| random_text(&mut rng)).collect();
        let messages: Vec<_> = texts.iter().map(|text| new_message(text)).collect();
        if !messages.is_empty() {
            mailbox.sync(&ChangeSet::default(), &messages).unwrap();
        }
        if rng.u8(..4) == 0 {
            // A large message makes the next go to another data file.
            let large = vec![b'x'; 1 << 20];
            mailbox.sync(&ChangeSet::default(), &[new_message(&large)]).unwrap();
        }
        let mut changes = ChangeSet { drop_recent: rng.u8(..3) == 0, ..ChangeSet::default() };
        for number in 1..=count {
            match rng.u8(..6) {
                0 => changes.flags.push(add(number, FlagSet::EMPTY.with(Flag::Seen), &["todo"])),
                1 => changes.flags.push(add(number, FlagSet::EMPTY.with(Flag::Flagged), &[])),
                2 if seed.is_multiple_of(2) => changes.expunge.push(uid(number)),
                _ => {}
            }
        }
        let appends = (0..rng.usize(..3)).map(|_| random_text(&mut rng)).collect();
        let mut scenario = Self { disk, changes, appends, states: Vec::new() };
        scenario.states.push(on(&scenario.disk).now());
        let after = scenario.disk.snapshot();
        on(&after).sync(&scenario.changes, &[]).unwrap();
        scenario.states.push(on(&after).now());
        scenario.change(Arc::new(after.clone())).unwrap();
        scenario.states.push(on(&after).now());
        // The same without the changes in between, which were already made: UIDs are the same.
        scenario
    }

    fn change(&self, vfs: Arc<dyn Vfs>) -> Result<(), Error> {
        let spec = MailboxSpec::parse(PATH);
        let mailbox = barid_formats::open(Arc::clone(&vfs), &spec)?;
        let mailbox = MixBox { vfs, path: PATH.into(), mailbox };
        let known = mailbox.scan_with(&barid_mailbox::EmptyKnown::default(), false)?;
        let appends: Vec<NewMessage<'_>> = self.appends.iter().map(|t| new_message(t)).collect();
        let mut context = SyncContext::new(&known);
        mailbox.mailbox.sync(&self.changes, &appends, &mut context).map(drop)
    }

    /// Recovers, and checks the mailbox.
    fn check(&self, disk: &MemVfs, is_acknowledged: bool) -> Result<(), String> {
        let mailbox = on(disk);
        let known = barid_mailbox::EmptyKnown::default();
        let recovered = mailbox.mailbox.recover(&mut SyncContext::new(&known));
        let recovered = recovered.map_err(|error| error.to_string())?;
        if let Some(journal) = recovered.quarantined {
            return Err(format!("{} put aside", journal.display()));
        }
        let cached = mailbox.scan_with(&known, false).map_err(|error| error.to_string())?;
        if !cached.report.defects.is_empty() {
            return Err(format!("{:?}", cached.report.defects));
        }
        let found = mailbox.try_contents(&cached).map_err(|error| error.to_string())?;
        let is_known = match is_acknowledged {
            true => self.states.last() == Some(&found),
            false => self.states.contains(&found),
        };
        if !is_known {
            let uids: Vec<_> = found.keys().collect();
            return Err(format!("neither old nor new: {uids:?}"));
        }
        let strange = mailbox.files().into_keys().find(|name| name.starts_with(".barid"));
        strange.map_or(Ok(()), |name| Err(format!("{name} is left")))
    }

    fn crash(&self, seed: u64, world: &CrashVfs, vfs: Arc<dyn Vfs>) -> Result<usize, String> {
        self.change(vfs).unwrap();
        let acknowledged = world.points();
        let mut rng = Rng::with_seed(seed);
        for point in 0..=acknowledged {
            for number in 0..4 {
                let seed = if number == 0 { rng.u64(..5) } else { rng.u64(5..) };
                let disk = world.crash_at(point, seed);
                let what = |loss| format!("point {point} of {acknowledged}, seed {seed}: {loss}");
                let again = CrashVfs::new(&disk);
                self.check(&again.vfs(), point == acknowledged).map_err(what)?;
                // The recovery is interrupted, too.
                let middle = again.crash_at(rng.usize(..=again.points()), seed);
                self.check(&middle, point == acknowledged).map_err(what)?;
                if number == 1 {
                    let text = b"Subject: next\r\n\r\n";
                    on(&middle).sync(&ChangeSet::default(), &[new_message(text)]).unwrap();
                    let last = on(&middle).now().into_values().next_back();
                    assert_eq!(last.unwrap().text, text);
                }
            }
        }
        Ok(acknowledged + 1)
    }
}

#[test]
fn a_crash_at_any_moment_loses_nothing() {
    let wanted = std::env::var("BARID_CRASH_POINTS").ok();
    let wanted = wanted.map_or(POINTS, |number| number.parse().unwrap());
    let (mut points, mut seed) = (0, 0);
    while points < wanted {
        let scenario = Scenario::new(seed);
        let world = CrashVfs::new(&scenario.disk);
        let vfs: Arc<dyn Vfs> = Arc::new(world.vfs());
        match scenario.crash(seed, &world, vfs) {
            Ok(visited) => points += visited,
            Err(loss) => panic!("scenario {seed}: {loss}"),
        }
        seed += 1;
    }
    println!("mix crash points visited: {points}, of {seed} changes");
}

#[test]
fn mail_delivered_after_a_crash_stays() {
    const DELIVERED: &[u8] = b"Subject: delivered\r\n\r\nbetween crash and recovery\r\n";
    let (mut moved, mut aside) = (0, 0);
    for seed in 0..60 {
        let scenario = Scenario::new(seed);
        let world = CrashVfs::new(&scenario.disk);
        scenario.change(Arc::new(world.vfs())).unwrap();
        for (point, crash) in (0..=world.points()).flat_map(|point| [(point, 1), (point, seed)]) {
            let disk = world.crash_at(point, crash);
            let mut mailbox = on(&disk);
            let begun = mailbox.mailbox.unfinished(None).unwrap();
            let moves = begun.and_then(|begun| disk.read(&begun.journal?, 1 << 24).ok());
            let moves = moves.is_some_and(|all| memchr::memmem::find(&all, b".mix5f").is_some());
            // The behaviour of other programs with a half-written index is undefined.
            let nothing = barid_mailbox::EmptyKnown::default();
            let is_whole = |found: Cached| found.report.defects.len() <= 1;
            let is_read = || mailbox.scan_with(&nothing, false).is_ok_and(is_whole);
            let is_sound = moves || crash == 1 && is_read();
            if !is_sound || !deliver_to_mix(&disk, Path::new(PATH), DELIVERED).unwrap() {
                continue;
            }
            let again = CrashVfs::new(&disk);
            let recovered = MixBox::open(Arc::new(again.vfs()), Path::new(PATH))
                .mailbox
                .recover(&mut SyncContext::new(&barid_mailbox::EmptyKnown::default()));
            let recovered = recovered.unwrap();
            let what = format!("scenario {seed}, point {point}, crash {crash}");
            assert!(!moves || recovered.quarantined.is_none(), "{what}");
            moved += u32::from(moves);
            aside += u32::from(recovered.quarantined.is_some());
            for disk in [again.vfs().snapshot(), again.crash_at(again.points() / 2, seed)] {
                mailbox = on(&disk);
                let nothing = barid_mailbox::EmptyKnown::default();
                mailbox.mailbox.recover(&mut SyncContext::new(&nothing)).unwrap();
                let found = mailbox.try_contents(&mailbox.scan());
                let found = found.unwrap_or_else(|error| panic!("{what}, moves {moves}: {error}"));
                let texts: Vec<&[u8]> = found.values().map(|content| &content.text[..]).collect();
                let count = texts.iter().filter(|text| **text == DELIVERED).count();
                assert_eq!(count, 1, "{what}");
                for (number, before) in &scenario.states[0] {
                    let is_expunged = scenario.changes.expunge.contains(&uid(*number));
                    let is_same = |now: &Content| now.text == before.text;
                    let is_kept = is_expunged || found.get(number).is_some_and(is_same);
                    assert!(is_kept, "{what}, moves {moves}: {number}");
                }
            }
        }
    }
    assert!(moved > 10 && aside > 10, "{moved} moved, {aside} put aside");
}

#[test]
fn every_barrier_is_needed() {
    let path = |name: &str| Path::new(PATH).join(name);
    let skip = |fault: Fault| Some(fault.of(CallKind::Sync).with(FaultEffect::Skip));
    let all = || Fault::nth(0).forever();
    let sabotages = [
        ("a disk that lies", None),
        ("no fsync of the index", skip(all().at(path(".mixindex")))),
        ("no fsync of the status", skip(all().at(path(".mixstatus")))),
        ("no fsync of data", skip(all().at(path(".mix5f000000")))),
        ("no fsync of the journal", skip(all().at(path(".barid-journal")))),
        ("no fsync of the folder", skip(all().at(Path::new(PATH)))),
    ];
    for (name, fault) in sabotages {
        let is_noticed = |seed| {
            let scenario = Scenario::new(seed);
            let world = match fault {
                None => CrashVfs::lying(&scenario.disk),
                Some(_) => CrashVfs::new(&scenario.disk),
            };
            let vfs: Arc<dyn Vfs> = match &fault {
                None => Arc::new(world.vfs()),
                Some(fault) => Arc::new(FaultVfs::new(world.vfs(), fault.clone())),
            };
            scenario.crash(seed, &world, vfs).is_err()
        };
        assert!((0..30).any(is_noticed), "{name}");
    }
}

#[test]
fn a_failing_call_leaves_a_mailbox_that_can_be_used() {
    let (mut failed, mut unfinished) = (0, 0);
    for seed in 0..12 {
        let scenario = Scenario::new(seed);
        for n in 0.. {
            let disk = scenario.disk.snapshot();
            let vfs = FaultVfs::new(disk.clone(), Fault::nth(n));
            let result = scenario.change(Arc::new(vfs.clone()));
            if !vfs.fired() {
                break;
            }
            failed += u32::from(result.is_err());
            unfinished += u32::from(matches!(result, Err(Error::Unfinished { .. })));
            let checked = scenario.check(&disk, result.is_ok());
            assert_eq!(checked, Ok(()), "scenario {seed}, call {n}: {result:?}");
        }
    }
    assert!(failed > 100 && unfinished > 20, "{failed} failed, {unfinished} unfinished");
}

#[test]
fn what_is_half_moved_is_not_read() {
    let (mut readable, mut moving) = (0, 0);
    for seed in 0..8 {
        let scenario = Scenario::new(seed);
        let cached = on(&scenario.disk).scan();
        let world = CrashVfs::new(&scenario.disk);
        scenario.change(Arc::new(world.vfs())).unwrap();
        for point in 0..world.points() {
            let disk = world.crash_at(point, 1);
            let mailbox = on(&disk);
            let Some(unfinished) = mailbox.mailbox.unfinished(None).unwrap() else { continue };
            let journal = disk.read(&unfinished.journal.unwrap(), 1 << 24).unwrap();
            let moves = memchr::memmem::find(&journal, b".mix5f000000").is_some();
            // As it was known before the change: it may have moved since.
            let Some(message) = cached.seen.first() else { continue };
            let (stamp, mut buffer) = (cached.report.stamp, Vec::new());
            let location = &message.location;
            let read = mailbox.mailbox.read_known(location, ReadAs::Message, &stamp, &mut buffer);
            match read {
                Ok(_) => readable += 1,
                Err(Error::MessageGone { .. }) if moves => moving += 1,
                // It was moved before.
                Err(Error::MessageGone { .. }) if !scenario.changes.expunge.is_empty() => {}
                Err(error) => panic!("scenario {seed}, point {point}: {error}"),
            }
        }
    }
    assert!(readable > 0 && moving > 0, "{readable} readable, {moving} moving");
}
