//! The rounds: in each, every side does all operations in turn, first as if it had never seen the
//! mailbox and then again.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};

use super::material::Material;
use super::results::{Results, Run};
use super::step::{Program, Side, Step, Turn, Work};
use super::system::System;
use crate::lab::{Figures, Progress, drop_caches, read_all, sampling, settle, stoppable};
use crate::systems::answer::Answer;

/// The programs and how to run them.
pub(crate) struct Rounds<'a> {
    pub(crate) systems: Vec<Box<dyn System>>,
    pub(crate) works: Vec<Work>,
    /// The folder for all files.
    pub(crate) folder: PathBuf,
    pub(crate) is_cold: bool,
    pub(crate) times: u32,
    pub(crate) stop: &'a AtomicBool,
}

impl Rounds<'_> {
    fn steps_of(&self, side: Side) -> Vec<Step> {
        let is_done = |step: &Step| self.works.contains(&step.work) && step.work.is_of(side);
        Step::all().filter(is_done).collect()
    }

    /// Number of progress lines that [`Rounds::run`] prints.
    pub(crate) fn steps(&self) -> usize {
        let of = |system: &dyn System| self.steps_of(system.side()).len();
        let steps: usize = self.systems.iter().map(|system| of(&**system)).sum();
        steps * (1 + self.times as usize)
    }

    /// Runs all rounds and adds each run to `results`, which keeps the runs made before an error.
    /// `after` is called after each round.
    pub(crate) fn run(
        &mut self,
        material: &Material,
        results: &mut Results,
        progress: &mut Progress<'_>,
        after: &mut dyn FnMut(&Results) -> Result<()>,
    ) -> Result<()> {
        let mut systems = std::mem::take(&mut self.systems);
        for round in 0..=self.times {
            for work in self.works.clone() {
                // The first side's answer, where the material does not determine one.
                let mut expected = material.expected(work);
                for turn in work.turns() {
                    let step = Step { work, turn: *turn };
                    for system in systems.iter_mut().filter(|system| work.is_of(system.side())) {
                        let side = system.side();
                        let at = || format!("{side} at {step}");
                        progress.say(&format!("{round:2} - {step:35} - {side}"))?;
                        let figures = self.step(round, &mut **system, step);
                        let figures = stoppable(self.stop, figures).with_context(at)?;
                        results.runs.push(Run { round, side, step, figures });
                        if round > 0 {
                            continue;
                        }
                        let checked = check(&mut **system, work, &mut expected);
                        if let Some(it) = stoppable(self.stop, checked).with_context(at)? {
                            let difference = format!("{}: {it}", at());
                            progress.screen.line(&format!("     {difference}"))?;
                            results.differences.push(difference);
                        }
                    }
                }
            }
            after(results)?;
        }
        Ok(())
    }

    /// Runs one step.
    fn step(&self, round: u32, system: &mut dyn System, step: Step) -> Result<Figures> {
        if step.turn == Turn::First {
            system.reset()?;
        }
        let (files, programs) = (system.files(), system.programs());
        // Earlier writes are on the disk; files to read are in memory, or none are if cold.
        let mut ready = || {
            settle(&self.folder)?;
            match (self.is_cold, round) {
                (true, _) => drop_caches()?,
                (false, 0) => {}
                (false, _) => read_all(&files)?,
            }
            // Programs in daily use are in memory.
            if round > 0 { read_all(&programs) } else { Ok(()) }
        };
        let figures = system.run(step.work, sampling(round), &mut ready)?;
        Ok(Figures { index_bytes: system.index_bytes()?, ..figures })
    }
}

/// Checks the answer of a side against the material, or else against that of the first side.
/// Returns a description of a tolerated difference, if there is one.
fn check(
    system: &mut dyn System,
    work: Work,
    expected: &mut Option<Answer>,
) -> Result<Option<String>> {
    let answer = system.answer(work).context("the answer")?;
    let Some(expected) = expected else {
        *expected = Some(answer);
        return Ok(None);
    };
    let is_cclient = system.side().program == Program::CClient;
    match answer.compare(expected) {
        Err(error) if is_cclient => answer.near(expected).map(Some).ok_or(error),
        compared => compared.map(|()| None),
    }
}
