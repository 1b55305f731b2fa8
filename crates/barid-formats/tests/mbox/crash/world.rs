//! Crashing a change at every moment.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use barid_formats::Variant;
use barid_mailbox::{Error, Recovered, SyncReport};
use barid_vfs::{CrashVfs, Fault, FaultVfs, MemVfs, OpenOptions, Vfs};
use fastrand::Rng;

use super::mailbox::PATH;
use super::scenario::{Scenario, Size};
use super::subject::{PENDING, Subject};
use super::verdict::{self, Expected, State, check_leftovers, content};

/// Number and kind of crashes of a change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Depth {
    /// Number of disks for each crash point.
    pub(super) seeds: u64,
    /// Maximum number of crash points visited per change; more are sampled.
    pub(super) points_max: usize,
    /// One in this many disks is changed by another program before the recovery; 0 for none.
    pub(super) foreign_of: u64,
    /// One in this many recoveries is crashed as well; 0 for none.
    pub(super) again_of: u64,
    /// One in this many recovered mailboxes is changed again; 0 for none.
    pub(super) next_of: u64,
}

/// Number of losses after which no more changes are tried.
const LOSSES_MAX: usize = 8;

/// Sabotage of the world or of the writer, to prove that it is detected.
#[derive(Clone, Debug, Default)]
pub(super) enum Sabotage {
    /// No sabotage.
    #[default]
    None,
    /// Every barrier is skipped.
    LyingDisk,
    /// These barriers of the writer are skipped.
    Skipped(Fault),
}

/// Number of trials.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) changes: u64,
    pub(super) points: u64,
    pub(super) disks: u64,
    pub(super) recoveries: u64,
    pub(super) completed: u64,
    pub(super) crashed_recoveries: u64,
    pub(super) delivered: u64,
    pub(super) rewritten: u64,
    pub(super) quarantined: u64,
    pub(super) stranded: u64,
    pub(super) strategies: BTreeMap<&'static str, u64>,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        for (to, from) in [
            (&mut self.changes, other.changes),
            (&mut self.points, other.points),
            (&mut self.disks, other.disks),
            (&mut self.recoveries, other.recoveries),
            (&mut self.completed, other.completed),
            (&mut self.crashed_recoveries, other.crashed_recoveries),
            (&mut self.delivered, other.delivered),
            (&mut self.rewritten, other.rewritten),
            (&mut self.quarantined, other.quarantined),
            (&mut self.stranded, other.stranded),
        ] {
            *to += from;
        }
        for (strategy, count) in &other.strategies {
            *self.strategies.entry(strategy).or_default() += count;
        }
    }
}

/// A change that is crashed.
pub(super) struct Trial<'a> {
    pub(super) subject: &'a dyn Subject,
    pub(super) scenario: &'a Scenario,
    pub(super) depth: Depth,
    pub(super) sabotage: Sabotage,
    expected: Expected,
    pub(super) tally: Tally,
}

impl<'a> Trial<'a> {
    pub(super) fn new(subject: &'a dyn Subject, scenario: &'a Scenario, depth: Depth) -> Self {
        let expected = Expected::of(scenario, scenario.old.clone(), 0);
        let (sabotage, tally) = (Sabotage::None, Tally::default());
        Self { subject, scenario, depth, sabotage, expected, tally }
    }

    pub(super) fn sabotaged(self, sabotage: Sabotage) -> Self {
        Self { sabotage, ..self }
    }

    /// Makes the change, then crashes it at every moment. The result is the disk with the change,
    /// or `None` if it was refused; the error is what was lost.
    pub(super) fn run(&mut self) -> Result<Option<MemVfs>, String> {
        let disk = &self.scenario.disk;
        if self.scenario.pending_through.is_some() {
            disk.open(Path::new(PENDING), OpenOptions::create(0o600)).unwrap();
        }
        let world = match self.sabotage {
            Sabotage::LyingDisk => CrashVfs::lying(disk),
            _ => CrashVfs::new(disk),
        };
        let vfs: Arc<dyn Vfs> = match &self.sabotage {
            Sabotage::Skipped(fault) => Arc::new(FaultVfs::new(world.vfs(), fault.clone())),
            _ => Arc::new(world.vfs()),
        };
        let report = match self.subject.change(&vfs, self.scenario) {
            // The known end is not where the delivered message begins: a scan is needed.
            Err(Error::Changed { .. }) if self.scenario.delivered.is_some() => {
                let is_old = content(&world.vfs()) == self.scenario.old;
                return if is_old { Ok(None) } else { Err("not changed, but changed".into()) };
            }
            report => report.map_err(|error| error.to_string())?,
        };
        let acknowledged = world.points();
        let after = content(&world.vfs());
        self.tally.changes += 1;
        for strategy in strategies(self.scenario, &report, after.len()) {
            *self.tally.strategies.entry(strategy).or_default() += 1;
        }
        self.expected = Expected::of(self.scenario, after, report.figures.bytes_appended);
        let step = acknowledged.div_ceil(self.depth.points_max).max(1);
        let first = self.scenario.seed as usize % step;
        for point in (first..acknowledged).step_by(step).chain([acknowledged]) {
            self.tally.points += 1;
            for number in 0..self.depth.seeds {
                let mut rng =
                    Rng::with_seed(self.scenario.seed << 32 ^ (point as u64) << 8 ^ number);
                let seed = crash_seed(&mut rng);
                let disk = world.crash_at(point, seed);
                self.tally.disks += 1;
                self.crashed(&disk, point == acknowledged, &mut rng).map_err(|loss| {
                    format!("point {point} of {acknowledged}, crash seed {seed}: {loss}")
                })?;
            }
        }
        Ok(Some(world.vfs()))
    }

    /// Recovers a disk after a crash: another program may run first, and the recovery may crash,
    /// too.
    fn crashed(&mut self, disk: &MemVfs, acknowledged: bool, rng: &mut Rng) -> Result<(), String> {
        if one_of(rng, self.depth.foreign_of) {
            let disk = disk.snapshot();
            match rng.bool() || !self.scenario.appends.is_empty() {
                true => self.delivered(&disk, acknowledged, rng)?,
                false => self.rewritten(&disk, rng)?,
            }
        }
        // A separate generator, so that the rest of the trial stays the same.
        let mut apart = rng.clone();
        if one_of(&mut apart, self.depth.foreign_of * 2) && self.scenario.appends.is_empty() {
            self.stranded(&disk.snapshot(), &mut apart)?;
        }
        if !one_of(rng, self.depth.again_of) {
            self.recover(disk)?;
            self.check(disk, acknowledged)?;
            // Pieces of an append that was never announced may make a message without a sound
            // header, or an empty file that is not a mailbox: their outcome is not promised here.
            let is_sound = acknowledged || self.scenario.appends.is_empty();
            let goes_on = is_sound && one_of(rng, self.depth.next_of);
            return if goes_on { self.go_on(disk, rng) } else { Ok(()) };
        }
        let world = CrashVfs::new(disk);
        self.recover(&world.vfs())?;
        self.check(&world.vfs(), acknowledged)?;
        for _ in 0..2 {
            let (point, seed) = (rng.usize(..=world.points()), crash_seed(rng));
            let disk = world.crash_at(point, seed);
            self.tally.crashed_recoveries += 1;
            let again = self.recover(&disk).and_then(|_| self.check(&disk, acknowledged));
            again.map_err(|loss| {
                format!("recovery, point {point} of {}, seed {seed}: {loss}", world.points())
            })?;
        }
        Ok(())
    }

    /// Checks that a recovered mailbox can be changed again.
    fn go_on(&self, disk: &MemVfs, rng: &mut Rng) -> Result<(), String> {
        let mut next = Scenario::of(disk.snapshot(), self.scenario.spec.clone());
        next.change(rng);
        // After a header that ends with the file, an append would turn it into another message.
        next.appends.clear();
        let vfs: Arc<dyn Vfs> = Arc::new(next.disk.clone());
        self.subject.change(&vfs, &next).map_err(|error| format!("the next change: {error}"))?;
        verdict::check_meaning(&next, &next.disk).map_err(|loss| format!("the next change: {loss}"))
    }

    fn recover(&mut self, disk: &MemVfs) -> Result<Recovered, String> {
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        self.tally.recoveries += 1;
        let recovered = self.subject.recover(&vfs, &self.scenario.spec);
        let recovered = recovered.map_err(|error| format!("recovery failed: {error}"))?;
        self.tally.completed += u64::from(recovered.completed);
        self.tally.quarantined += u64::from(recovered.quarantined.is_some());
        Ok(recovered)
    }

    fn check(&self, disk: &MemVfs, acknowledged: bool) -> Result<(), String> {
        let state = self.expected.check(content(disk), acknowledged)?;
        check_leftovers(disk, &self.expected, self.pending_state(state), None)
    }

    /// Returns the state that the pending changes must match; `None` if nothing was to be changed.
    fn pending_state(&self, state: State) -> Option<State> {
        self.expected.is_change().then_some(state)
    }

    /// Returns the bytes before and after a message.
    fn separators(&self) -> (&'static [u8], &'static [u8]) {
        match self.scenario.spec.variant {
            Variant::Mmdf => (b"\x01\x01\x01\x01\n", b"\x01\x01\x01\x01\n"),
            _ => (b"", b"\n"),
        }
    }

    /// Lets a delivery agent append before the recovery.
    fn delivered(
        &mut self,
        disk: &MemVfs,
        acknowledged: bool,
        rng: &mut Rng,
    ) -> Result<(), String> {
        let mail = self.deliver(disk, rng);
        self.tally.delivered += 1;
        let check = |trial: &mut Self| {
            trial.recover(disk)?;
            let state = trial.expected.check_with_tail(&content(disk), &mail)?;
            if acknowledged && state != State::New {
                return Err("the old mailbox after the acknowledgement".into());
            }
            check_leftovers(disk, &trial.expected, trial.pending_state(state), None)
        };
        check(self).map_err(|loss| format!("another delivered: {loss}"))
    }

    /// Appends a message as a delivery agent does; returns it.
    fn deliver(&self, disk: &MemVfs, rng: &mut Rng) -> Vec<u8> {
        let before = content(disk);
        let mut tail = Vec::new();
        let mut mail = Vec::new();
        // procmail does not check how the file ends; an end that only barid left is completed.
        let Scenario { appends, changes, old, .. } = self.scenario;
        let only_appends = !appends.is_empty() && changes.is_empty() && old.ends_with(b"\n");
        let looks = !only_appends || rng.bool();
        if looks && !before.is_empty() && !before.ends_with(b"\n") {
            tail.extend_from_slice(b"\n");
        }
        mail.extend_from_slice(self.separators().0);
        mail.extend_from_slice(b"From x@y Sun Sep  9 01:46:40 2001\nSubject: delivered\n\nbody\n");
        mail.extend_from_slice("delivered\n".repeat(rng.usize(1..80)).as_bytes());
        mail.extend_from_slice(self.separators().1);
        let file = disk.open(Path::new(PATH), OpenOptions::WRITE).unwrap();
        file.write_all_at(&[&*tail, &mail].concat(), before.len() as u64).unwrap();
        mail
    }

    /// Lets a delivery agent append, crashes the recovery, and lets another program change the
    /// mailbox before the next recovery: the delivered mail exists once, whatever the result of the
    /// change.
    fn stranded(&mut self, disk: &MemVfs, rng: &mut Rng) -> Result<(), String> {
        let mail = self.deliver(disk, rng);
        let world = CrashVfs::new(disk);
        self.recover(&world.vfs())?;
        for _ in 0..3 {
            let (point, seed) = (rng.usize(..=world.points()), crash_seed(rng));
            let disk = world.crash_at(point, seed);
            self.tally.stranded += 1;
            let (theirs, rewrites) = self.disturb(&disk, &mail, rng);
            let check = |content: Vec<u8>, is_put_aside: bool| {
                let copies = memchr::memmem::find_iter(&content, &mail).count();
                let is_theirs = match memchr::memmem::find(&theirs, &mail) {
                    Some(_) => content == theirs,
                    None => content.starts_with(&theirs),
                };
                match (copies, is_theirs || !is_put_aside) {
                    (1, true) => Ok(()),
                    (1, false) => Err("what they wrote was changed".to_owned()),
                    _ => Err(format!("what was delivered is there {copies} times")),
                }
            };
            let again = CrashVfs::new(&disk);
            let disturbed = self.recover(&again.vfs()).and_then(|recovered| {
                check(content(&again.vfs()), rewrites || recovered.quarantined.is_some())?;
                let disk = again.crash_at(rng.usize(..=again.points()), crash_seed(rng));
                self.recover(&disk)?;
                check(content(&disk), rewrites)
            });
            disturbed.map_err(|loss| {
                let points = world.points();
                format!("recovery, point {point} of {points}, seed {seed}, disturbed: {loss}")
            })?;
        }
        Ok(())
    }

    /// Acts as another program that rewrites a mailbox, or changes one byte before `mail`. Returns
    /// the new content, and `true` if the mailbox was rewritten.
    fn disturb(&self, disk: &MemVfs, mail: &[u8], rng: &mut Rng) -> (Vec<u8>, bool) {
        let mut theirs = content(disk);
        let end = memchr::memmem::find(&theirs, mail).unwrap_or(theirs.len());
        let rewrites = end == 0 || rng.bool();
        if rewrites {
            let mut new = self.separators().0.to_vec();
            new.extend_from_slice(b"From z@y Sun Sep  9 01:46:40 2001\nSubject: new\n\n");
            new.extend_from_slice("as long as it takes\n".repeat(rng.usize(..400)).as_bytes());
            new.extend_from_slice(self.separators().1);
            new.extend(theirs.iter().copied().filter(|byte| *byte != 0));
            theirs = new;
        } else {
            theirs[rng.usize(..end)] ^= 1;
        }
        let options = OpenOptions { truncate: rewrites, ..OpenOptions::create(0o600) };
        disk.open(Path::new(PATH), options).unwrap().write_all_at(&theirs, 0).unwrap();
        (theirs, rewrites)
    }

    /// Lets another program rewrite the mailbox before the recovery, in place or by renaming.
    fn rewritten(&mut self, disk: &MemVfs, rng: &mut Rng) -> Result<(), String> {
        let mut theirs = self.separators().0.to_vec();
        theirs.extend_from_slice(b"From z@y Sun Sep  9 01:46:40 2001\nSubject: rewritten\n\nnew\n");
        theirs.extend_from_slice(self.separators().1);
        theirs.extend(content(disk).into_iter().filter(|byte| *byte != 0));
        let renamed = rng.bool() && !self.scenario.folder_is_closed;
        let path = if renamed { "/mail/theirs" } else { PATH };
        let options = OpenOptions { truncate: true, ..OpenOptions::create(0o600) };
        disk.open(Path::new(path), options).unwrap().write_all_at(&theirs, 0).unwrap();
        if renamed {
            disk.rename(Path::new(path), Path::new(PATH)).unwrap();
        }
        self.tally.rewritten += 1;
        let check = |trial: &mut Self| {
            let recovered = trial.recover(disk)?;
            if content(disk) != theirs {
                return Err("what they wrote was changed".into());
            }
            check_leftovers(disk, &trial.expected, None, recovered.quarantined.as_deref())?;
            verdict::check_usable(trial.scenario, disk)
        };
        check(self).map_err(|loss| format!("another rewrote it (renamed: {renamed}): {loss}"))
    }
}

/// Returns an extreme crash seed, or a random one.
fn crash_seed(rng: &mut Rng) -> u64 {
    if rng.u32(..8) == 0 { rng.u64(..5) } else { rng.u64(5..) }
}

fn one_of(rng: &mut Rng, of: u64) -> bool {
    of > 0 && rng.u64(..of) == 0
}

/// Returns the strategies that a change used, according to its figures.
fn strategies(scenario: &Scenario, report: &SyncReport, after: usize) -> Vec<&'static str> {
    let figures = &report.figures;
    let (before, after) = (scenario.old.len() as u64, after as u64 - figures.bytes_appended);
    let moved = figures.bytes_moved > 0;
    let through_window = figures.bytes_journaled > 0;
    let direct = figures.bytes_moved > figures.bytes_journaled;
    let seen = [
        ("nothing to write", figures.bytes_in_place == 0 && !moved && before == after),
        ("in place, one sector", figures.bytes_in_place > 0 && !through_window),
        ("in place, journaled", figures.bytes_in_place > 0 && through_window && !moved),
        ("neighbours' padding", moved && before == after),
        ("growing", before < after),
        ("shrinking", before > after),
        ("steps upwards", direct && before < after),
        ("steps downwards", direct && before > after),
        ("window", moved && through_window),
        ("collapse", figures.bytes_collapsed > 0),
        ("append", figures.bytes_appended > 0),
        ("great rewrite", figures.bytes_moved * 2 > before && before < after),
        ("pending", scenario.pending_through.is_some() && through_window),
    ];
    seen.into_iter().filter(|(_, seen)| *seen).map(|(name, _)| name).collect()
}

/// All strategies that [`strategies`] returns.
pub(super) const STRATEGIES: [&str; 13] = [
    "nothing to write",
    "in place, one sector",
    "in place, journaled",
    "neighbours' padding",
    "growing",
    "shrinking",
    "steps upwards",
    "steps downwards",
    "window",
    "collapse",
    "append",
    "great rewrite",
    "pending",
];

/// Runs scenarios from `first` on until `points` crash points were visited, in two threads.
pub(super) fn visit(
    subject: &dyn Subject,
    size: Size,
    depth: Depth,
    first: u64,
    points: u64,
) -> Tally {
    let next = AtomicU64::new(first);
    let total = Mutex::new((Tally::default(), Vec::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let scenario = Scenario::new(seed, size);
            let mut trial = Trial::new(subject, &scenario, depth);
            let meaning = |disk: Option<MemVfs>| match disk {
                Some(disk) => verdict::check_meaning(&scenario, &disk),
                None => Ok(()),
            };
            let result = trial.run().and_then(meaning);
            let mut total = total.lock().unwrap();
            total.0.add(&trial.tally);
            if let Err(loss) = result {
                total.1.push(format!("{}: {loss}", scenario.name()));
            }
            if total.0.points >= points || total.1.len() >= LOSSES_MAX {
                break;
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let (tally, losses) = total.into_inner().unwrap();
    assert!(losses.is_empty(), "{}", losses.join("\n\n"));
    tally
}
