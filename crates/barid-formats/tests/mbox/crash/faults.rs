//! Calls that fail in the middle of a change: the error is clear, nothing is lost, and the mailbox
//! can be used afterwards.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use barid_mailbox::Error;
use barid_vfs::{CrashVfs, Fault, FaultEffect, FaultVfs, Host as _, MemVfs, OpenOptions, Vfs};

use super::scenario::Scenario;
use super::subject::{PENDING, Subject};
use super::verdict::{
    Expected, State, check_changed, check_leftovers, check_meaning, check_usable, content,
};

/// Effects on calls: all kinds of errors that disks make, and short reads and writes.
const EFFECTS: [FaultEffect; 6] = [
    FaultEffect::Error(ErrorKind::StorageFull),
    FaultEffect::Error(ErrorKind::Other),
    FaultEffect::Short,
    FaultEffect::Error(ErrorKind::QuotaExceeded),
    FaultEffect::Error(ErrorKind::TimedOut),
    FaultEffect::Error(ErrorKind::PermissionDenied),
];

/// Number of trials, by result.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FaultTally {
    pub(super) calls: u64,
    pub(super) refused: u64,
    pub(super) unfinished: u64,
    pub(super) no_space: u64,
}

impl FaultTally {
    pub(super) fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.refused += other.refused;
        self.unfinished += other.unfinished;
        self.no_space += other.no_space;
    }
}

/// A change some of whose calls fail.
pub(super) struct FaultTrial<'a> {
    pub(super) subject: &'a dyn Subject,
    pub(super) scenario: &'a Scenario,
    expected: Expected,
    pub(super) tally: FaultTally,
}

impl<'a> FaultTrial<'a> {
    pub(super) fn new(subject: &'a dyn Subject, scenario: &'a Scenario) -> Self {
        if scenario.pending_through.is_some() {
            let pending = scenario.disk.open(Path::new(PENDING), OpenOptions::create(0o600));
            drop(pending.unwrap());
        }
        let disk = scenario.disk.snapshot();
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let report = subject.change(&vfs, scenario).unwrap();
        let expected = Expected::of(scenario, content(&disk), report.figures.bytes_appended);
        Self { subject, scenario, expected, tally: FaultTally::default() }
    }

    /// Makes every `stride`-th call fail, once or from then on.
    pub(super) fn calls(&mut self, first: u64, stride: usize) -> Result<(), String> {
        for n in (first..).step_by(stride) {
            let effect = EFFECTS[(n / stride as u64) as usize % EFFECTS.len()];
            for forever in [false, true] {
                let fault = Fault { forever, ..Fault::nth(n).with(effect) };
                let world = CrashVfs::new(&self.scenario.disk);
                let faulty = FaultVfs::new(world.vfs(), fault);
                let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
                let result = self.subject.change(&vfs, self.scenario).map(drop);
                if !faulty.fired() {
                    return Ok(());
                }
                self.tally.calls += 1;
                let judged = self.judge(result, &world.vfs()).and_then(|acknowledged| {
                    // An error that was swallowed shows when the power fails.
                    (0..3).try_for_each(|seed| {
                        self.finish(&world.crash_at(world.points(), seed), acknowledged)
                    })
                });
                judged
                    .map_err(|loss| format!("call {n}, {effect:?}, forever {forever}: {loss}"))?;
            }
        }
        Ok(())
    }

    /// Fills the disk except for `free` bytes.
    pub(super) fn full_disk(&mut self, free: u64) -> Result<(), String> {
        let disk = self.scenario.disk.snapshot();
        disk.set_free_space(Some(free));
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let result = self.subject.change(&vfs, self.scenario).map(drop);
        self.tally.calls += 1;
        self.judge(result, &disk).map(drop).map_err(|loss| format!("{free} bytes free: {loss}"))
    }

    /// Returns `true` if the change was acknowledged. An error must be a clear one, and a mailbox
    /// to which nothing was written must be unchanged.
    fn judge(&mut self, result: Result<(), Error>, disk: &MemVfs) -> Result<bool, String> {
        let acknowledged = result.is_ok();
        if let Err(error) = result {
            let shown = error.to_string();
            if !shown.contains('/') {
                return Err(format!("an error that names no file: {shown}"));
            }
            match error {
                Error::Unfinished { journal, .. } => {
                    self.tally.unfinished += 1;
                    // The only remaining work may be to sync the removal of a journal whose name is
                    // already gone.
                    let is_done = self.expected.check(content(disk), false) == Ok(State::New);
                    if disk.metadata(&journal).is_err() && !is_done {
                        return Err(format!("no journal {}: {shown}", journal.display()));
                    }
                }
                Error::NoSpace { .. } => {
                    self.tally.no_space += 1;
                    if content(disk) != self.scenario.old {
                        return Err(format!("changed in spite of {shown}"));
                    }
                }
                _ => self.tally.refused += 1,
            }
        }
        self.finish(&disk.snapshot(), acknowledged)?;
        Ok(acknowledged)
    }

    /// Opens the mailbox again on a disk that works.
    fn finish(&self, disk: &MemVfs, acknowledged: bool) -> Result<(), String> {
        disk.set_free_space(None);
        // Locks of a process that could not remove them are stale by then.
        disk.sleep(std::time::Duration::from_secs(600));
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let recovered = self.subject.recover(&vfs, &self.scenario.spec);
        recovered.map_err(|error| format!("recovery failed: {error}"))?;
        let state = match self.expected.check(content(disk), acknowledged) {
            Ok(state) => state,
            // The failure may have made the writer take another path to the same result.
            Err(_) if acknowledged => check_meaning(self.scenario, disk).map(|()| State::New)?,
            Err(what) => check_changed(self.scenario, disk)
                .map(|()| State::New)
                .map_err(|loss| format!("{what}; and as a new one: {loss}"))?,
        };
        let state = self.expected.is_change().then_some(state);
        check_leftovers(disk, &self.expected, state, None)?;
        check_usable(self.scenario, disk)
    }
}
