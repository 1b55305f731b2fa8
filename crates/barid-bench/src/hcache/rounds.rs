//! The rounds: first everything is checked, then everything is timed, the systems in turn.

use std::sync::atomic::AtomicBool;

use anyhow::{Result, ensure};
use barid_testkit::usage::Sampling;

use super::barid::Barid;
use super::key::{Key, System as Name, Work};
use super::neomutt::NeoMutt;
use super::plan::{Cell, Plan};
use super::results::{Results, Run};
use super::system::System;
use crate::lab::{Progress, drop_caches, sampling, settle, stoppable};

/// The programs and how to run them.
#[derive(Debug)]
pub(crate) struct Rounds<'a> {
    pub(crate) barid: Barid,
    pub(crate) neomutt: Option<NeoMutt>,
    /// `true` if progress lines name the compression.
    pub(crate) has_methods: bool,
    /// `true` if the kernel's caches are dropped before each timed run.
    pub(crate) is_cold: bool,
    pub(crate) times: u32,
    pub(crate) stop: &'a AtomicBool,
}

impl Rounds<'_> {
    /// Number of progress lines that [`Rounds::run`] prints for a plan.
    pub(crate) fn steps(&self, plan: &Plan) -> usize {
        let systems = plan.cells.len() + plan.of_neomutt().count();
        systems * (1 + 2 * self.times as usize)
    }

    /// Runs all rounds and adds each run to `results`, which keeps the runs made before an error.
    /// `after` is called after each round.
    pub(crate) fn run(
        &self,
        plan: &Plan,
        results: &mut Results,
        progress: &mut Progress<'_>,
        after: &mut dyn FnMut(&Results) -> Result<()>,
    ) -> Result<()> {
        for cell in &plan.cells {
            self.check(cell, results, progress)?;
        }
        for round in 1..=self.times {
            for cell in &plan.cells {
                self.time(round, cell, results, progress)?;
            }
            after(results)?;
        }
        Ok(())
    }

    /// Populates and reloads once without timing, with memory samples, and checks that all answers
    /// are right.
    fn check(&self, cell: &Cell, results: &mut Results, progress: &mut Progress<'_>) -> Result<()> {
        self.say(0, "checking", &cell.key, progress)?;
        for work in [Work::Populate, Work::Reload, Work::Page] {
            self.step(0, &cell.key, work, results)?;
        }
        let messages = self.stoppable(self.barid.check(&cell.key))?;
        results.messages = messages;
        self.barid.forget(&cell.key)?;
        if let (Some(key), Some(neomutt)) = (&cell.neomutt, &self.neomutt) {
            self.say(0, "checking", key, progress)?;
            for work in [Work::Populate, Work::Reload] {
                self.step(0, key, work, results)?;
            }
            let theirs = self.stoppable(neomutt.check(key))?;
            neomutt.forget(key)?;
            ensure!(theirs == messages, "NeoMutt sees {theirs} messages, barid {messages}");
        }
        Ok(())
    }

    /// Times a setup and its NeoMutt counterpart.
    fn time(
        &self,
        round: u32,
        cell: &Cell,
        results: &mut Results,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let keys = || std::iter::once(&cell.key).chain(&cell.neomutt);
        for key in keys() {
            self.say(round, "populating", key, progress)?;
            self.step(round, key, Work::Populate, results)?;
        }
        // The first page also computes the sort order, so it is not timed.
        self.stoppable(self.barid.run(&cell.key, Work::Page, Sampling::Off))?;
        for key in keys() {
            self.say(round, "reloading", key, progress)?;
            self.step(round, key, Work::Reload, results)?;
            if key.system == Name::Barid {
                self.step(round, key, Work::Page, results)?;
            }
        }
        keys().try_for_each(|key| self.system(key).forget(key))
    }

    fn system(&self, key: &Key) -> &dyn System {
        match (&self.neomutt, key.system) {
            (Some(neomutt), Name::NeoMutt) => neomutt,
            _ => &self.barid,
        }
    }

    /// Makes one run; in round 0 with memory samples. Data written by populating is on the disk
    /// before the next run.
    fn step(&self, round: u32, key: &Key, work: Work, results: &mut Results) -> Result<()> {
        let system = self.system(key);
        if work == Work::Populate {
            system.forget(key)?;
        }
        self.stoppable(Ok(()))?;
        if self.is_cold && round > 0 {
            drop_caches()?;
        }
        let figures = self.stoppable(system.run(key, work, sampling(round)))?;
        results.runs.push(Run { round, side: key.clone(), step: work, figures });
        if work == Work::Populate {
            settle(&self.barid.folder)?;
        }
        Ok(())
    }

    /// Prints the next step: ` 1 - populating - lmdb`.
    fn say(&self, round: u32, doing: &str, key: &Key, progress: &mut Progress<'_>) -> Result<()> {
        let method = if self.has_methods { format!(" {}", key.method) } else { String::new() };
        let system = if key.system == Name::NeoMutt { " (neomutt)" } else { "" };
        progress.say(&format!("{round:2} - {doing:10} - {}{method}{system}", key.choice()))
    }

    fn stoppable<T>(&self, result: Result<T>) -> Result<T> {
        stoppable(self.stop, result)
    }
}
