//! The rounds: the servers do each step in turn.

use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};

use super::answers::{answer, compare};
use super::results::{Results, Run};
use super::step::{Load, MailFormat, Step};
use super::work::Bench;
use crate::lab::{Progress, stoppable};

/// The servers and how to run them.
pub(crate) struct Rounds<'a> {
    pub(crate) benches: Vec<Bench<'a>>,
    pub(crate) steps: Vec<Step>,
    pub(crate) times: u32,
    pub(crate) stop: &'a AtomicBool,
}

impl Rounds<'_> {
    /// Number of progress lines that [`Rounds::run`] prints.
    pub(crate) fn lines(&self) -> usize {
        let of =
            |step: &Step| self.benches.iter().filter(|bench| step.is_of(bench.system.side)).count();
        self.steps.iter().map(of).sum::<usize>() * (1 + self.times as usize)
    }

    /// Runs all rounds of each step and adds each run to `results`, which keeps the runs made
    /// before an error. `after` is called after each step.
    pub(crate) fn run(
        mut self,
        results: &mut Results,
        progress: &mut Progress<'_>,
        after: &mut dyn FnMut(&Results) -> Result<()>,
    ) -> Result<()> {
        let mut prepared: Option<(Load, MailFormat)> = None;
        for step in self.steps.clone() {
            let mail = (step.work.load(), step.format);
            if prepared != Some(mail) {
                self.prepare(step, prepared, progress)?;
                prepared = Some(mail);
            }
            for round in 0..=self.times {
                self.round(step, round, results, progress)?;
            }
            // Idle servers would be in the way of the next step, and keep its memory.
            self.benches.iter_mut().for_each(Bench::stop);
            after(results)?;
        }
        Ok(())
    }

    /// Makes the mail of a step for each server.
    fn prepare(
        &mut self,
        step: Step,
        before: Option<(Load, MailFormat)>,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let (load, format) = (step.work.load(), step.format);
        if let Some(bench) = self.benches.first()
            && before.is_some()
        {
            bench.material.forget()?;
        }
        for bench in self.benches.iter_mut().filter(|bench| step.is_of(bench.system.side)) {
            let side = bench.system.side;
            progress.screen.status(&format!("making the mail of {step}: {side}"));
            stoppable(self.stop, bench.prepare(load, format, 1 + self.times))?;
        }
        Ok(())
    }

    /// Runs a step once with each server; in every other round in reverse order.
    fn round(
        &mut self,
        step: Step,
        round: u32,
        results: &mut Results,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        let mut benches: Vec<_> =
            self.benches.iter_mut().filter(|bench| step.is_of(bench.system.side)).collect();
        if round % 2 == 1 {
            benches.reverse();
        }
        let mut expected = None;
        for bench in benches {
            let side = bench.system.side;
            let at = || format!("{side} at {step}");
            progress.say(&format!("{round:2} - {step:25} - {side}"))?;
            let figures = stoppable(self.stop, bench.run(step, round)).with_context(at)?;
            results.runs.push(Run { round, side, step, figures });
            if round > 0 {
                continue;
            }
            let found = stoppable(self.stop, answer(bench, step)).with_context(at)?;
            match (&expected, found) {
                (Some(expected), Some(found)) => {
                    if let Some(note) = compare(&found, expected).with_context(at)? {
                        progress.screen.line(&note)?;
                    }
                }
                (None, found) => expected = found,
                (Some(_), None) => {}
            }
        }
        Ok(())
    }
}
