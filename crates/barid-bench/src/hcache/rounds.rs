//! The rounds: first everything is checked, then everything is timed, the systems in turn.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use barid_testkit::disk;
use barid_testkit::usage::Sampling;

use super::barid::Barid;
use super::key::{Key, System as Name, Work};
use super::neomutt::NeoMutt;
use super::plan::{Cell, Plan};
use super::results::{Results, Run};
use super::system::System;
use crate::Screen;
use crate::limits::SAMPLE_INTERVAL;
use crate::run::{drop_caches, left, stoppable};

/// The programs and how they are run.
#[derive(Debug)]
pub(crate) struct Lab<'a> {
    pub(crate) barid: Barid,
    pub(crate) neomutt: Option<NeoMutt>,
    /// Whether the kernel's caches are dropped before each timed run.
    pub(crate) is_cold: bool,
    pub(crate) times: u32,
    pub(crate) stop: &'a AtomicBool,
}

/// How a bench stands.
pub(crate) struct Progress<'a> {
    pub(crate) screen: &'a mut dyn Screen,
    pub(crate) has_methods: bool,
    pub(crate) started: Instant,
    pub(crate) done: usize,
    pub(crate) total: usize,
}

impl Progress<'_> {
    /// Says what comes next: ` 1 - populating - lmdb`.
    fn say(&mut self, round: u32, doing: &str, key: &Key) -> Result<()> {
        let method = if self.has_methods { format!(" {}", key.method) } else { String::new() };
        let system = if key.system == Name::NeoMutt { " (neomutt)" } else { "" };
        let choice = key.choice();
        self.screen.line(&format!("{round:2} - {doing:10} - {choice}{method}{system}"))?;
        let left = left(self.started.elapsed(), self.done, self.total);
        self.screen.status(&format!("{} of {}{left}", self.done, self.total));
        self.done += 1;
        Ok(())
    }
}

impl Lab<'_> {
    /// Lines of progress that [`Lab::run`] says of a plan.
    pub(crate) fn steps(&self, plan: &Plan) -> usize {
        let systems = plan.cells.len() + plan.of_neomutt().count();
        systems * (1 + 2 * self.times as usize)
    }

    /// Does everything; what was measured is in `results` also if it fails. `after` is called
    /// after each round.
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

    /// Populates and reloads once without timing, with samples of the memory, and makes sure that
    /// all answers are right.
    fn check(&self, cell: &Cell, results: &mut Results, progress: &mut Progress<'_>) -> Result<()> {
        progress.say(0, "checking", &cell.key)?;
        for work in [Work::Populate, Work::Reload, Work::Page] {
            self.step(0, &cell.key, work, results)?;
        }
        let messages = self.stoppable(self.barid.check(&cell.key))?;
        results.messages = messages;
        self.barid.forget(&cell.key)?;
        if let (Some(key), Some(neomutt)) = (&cell.neomutt, &self.neomutt) {
            progress.say(0, "checking", key)?;
            for work in [Work::Populate, Work::Reload] {
                self.step(0, key, work, results)?;
            }
            let theirs = self.stoppable(neomutt.check(key))?;
            neomutt.forget(key)?;
            ensure!(theirs == messages, "NeoMutt sees {theirs} messages, barid {messages}");
        }
        Ok(())
    }

    /// Times a setup and the one of NeoMutt's beside it.
    fn time(
        &self,
        round: u32,
        cell: &Cell,
        results: &mut Results,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let keys = || std::iter::once(&cell.key).chain(&cell.neomutt);
        for key in keys() {
            progress.say(round, "populating", key)?;
            self.step(round, key, Work::Populate, results)?;
        }
        // The sort order is made when it is first asked for, which is not timed.
        self.stoppable(self.barid.run(&cell.key, Work::Page, Sampling::Off))?;
        for key in keys() {
            progress.say(round, "reloading", key)?;
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

    /// One run; in round 0 with samples of the memory. What it wrote is on the disk before the
    /// next.
    fn step(&self, round: u32, key: &Key, work: Work, results: &mut Results) -> Result<()> {
        let system = self.system(key);
        if work == Work::Populate {
            system.forget(key)?;
        }
        self.stoppable(Ok(()))?;
        if self.is_cold && round > 0 {
            drop_caches()?;
        }
        let sampling = if round == 0 { Sampling::Every(SAMPLE_INTERVAL) } else { Sampling::Off };
        let figures = self.stoppable(system.run(key, work, sampling))?;
        results.runs.push(Run { round, work, key: key.clone(), figures });
        if work == Work::Populate {
            let folder = &self.barid.folder;
            disk::sync_file_system(folder).with_context(|| folder.display().to_string())?;
        }
        Ok(())
    }

    fn stoppable<T>(&self, result: Result<T>) -> Result<T> {
        stoppable(self.stop, result)
    }
}
