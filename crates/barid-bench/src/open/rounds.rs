//! The rounds: in each, every side does all steps in turn. Round 0 checks the answers first.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::material::Material;
use super::results::{Results, Run};
use super::step::{Part, Side, Step};
use super::system::{Answers, System};
use crate::lab::{Progress, grouped, sampling, settle, stoppable};

/// The programs and how to run them.
pub(crate) struct Rounds<'a> {
    pub(crate) systems: Vec<Box<dyn System>>,
    pub(crate) parts: Vec<Part>,
    /// The folder for all files.
    pub(crate) folder: PathBuf,
    pub(crate) times: u32,
    /// Time between a change of files and the next step that opens them again.
    pub(crate) rest: Duration,
    pub(crate) stop: &'a AtomicBool,
}

impl Rounds<'_> {
    fn steps_of(&self, part: Part) -> impl Iterator<Item = Step> {
        Step::ALL.into_iter().filter(move |step| step.part() == part)
    }

    /// Number of progress lines that [`Rounds::run`] prints.
    pub(crate) fn steps(&self) -> usize {
        let steps = || self.parts.iter().flat_map(|part| self.steps_of(*part));
        let sides = |step: Step| self.systems.iter().filter(|one| step.is_of(one.side())).count();
        steps().map(sides).sum::<usize>() * (1 + self.times as usize)
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
            for part in self.parts.clone() {
                if round == 0 {
                    let compared = check(&mut systems, part, material);
                    let compared = stoppable(self.stop, compared)?;
                    progress.screen.line(&compared)?;
                    results.compared.push(compared);
                }
                for step in self.steps_of(part) {
                    self.step(round, step, &mut systems, results, progress)?;
                }
            }
            after(results)?;
        }
        Ok(())
    }

    /// Runs one step of all sides.
    fn step(
        &self,
        round: u32,
        step: Step,
        systems: &mut [Box<dyn System>],
        results: &mut Results,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        for system in systems.iter_mut().filter(|system| step.is_of(system.side())) {
            let side = system.side();
            progress.say(&format!("{round:2} - {step:25} - {side}"))?;
            let mut run = || {
                if step.follows_changes() && side == Side::Barid {
                    std::thread::sleep(self.rest);
                }
                system.prepare(step)?;
                if step != Step::MboxDelivered {
                    settle(&self.folder)?;
                }
                system.run(step, sampling(round))
            };
            let figures = stoppable(self.stop, run());
            let figures = figures.with_context(|| format!("{side} at {step}"))?;
            results.runs.push(Run { round, side, step, figures });
        }
        Ok(())
    }
}

/// Checks that all sides see the same mailbox, and returns what was compared.
fn check(systems: &mut [Box<dyn System>], part: Part, material: &Material) -> Result<String> {
    let expected = material.of(part)?.count;
    let mut first = Answers::default();
    let (mut counted, mut ordered, mut threaded) = (Vec::new(), Vec::new(), Vec::new());
    for system in systems {
        let side = system.side();
        let at = || format!("{side}: the {}", part.name());
        let answers = system.answers(part).with_context(at)?;
        if let Some(count) = answers.count {
            ensure!(count == expected, "{}: {count} messages and not {expected}", at());
            counted.push(side.name());
        }
        for (answer, first, sides) in [
            (answers.newest, &mut first.newest, &mut ordered),
            (answers.threads, &mut first.threads, &mut threaded),
        ] {
            let Some(answer) = answer else { continue };
            sides.push(side.name());
            match first {
                Some(first) => answer.compare(first).with_context(at)?,
                None => *first = Some(answer),
            }
        }
    }
    let (part, count) = (part.name(), grouped(expected));
    let mut text = format!("{part}: {count} messages for {}", counted.join(", "));
    for (what, sides) in [("the newest 50 by date", ordered), ("every thread", threaded)] {
        if sides.len() > 1 {
            text.push_str(&format!("; {what} the same for {}", sides.join(", ")));
        }
    }
    Ok(text)
}
