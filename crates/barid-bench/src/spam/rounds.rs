//! The rounds: in each, every side does all steps in turn.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use barid_testkit::disk;

use super::answer::Answer;
use super::material::{Material, write_list};
use super::results::{Results, Run};
use super::step::{List, Step};
use super::system::Filter;
use crate::lab::{Figures, Progress, drop_caches, read_all, settle, stoppable};

/// The filters and how to run them.
pub(crate) struct Rounds<'a> {
    pub(crate) filters: Vec<Filter>,
    pub(crate) steps: Vec<Step>,
    /// Tokens of the small, the middle and the large list.
    pub(crate) tokens: [u64; 3],
    /// The folder for all files.
    pub(crate) folder: PathBuf,
    pub(crate) times: u32,
    pub(crate) stop: &'a AtomicBool,
}

impl Rounds<'_> {
    /// Number of progress lines that [`Rounds::run`] prints.
    pub(crate) fn steps(&self) -> usize {
        let of = |filter: &Filter| self.steps.iter().filter(|step| step.is_of(filter.side)).count();
        self.filters.iter().map(of).sum::<usize>() * (1 + self.times as usize)
    }

    /// Runs all rounds and adds each run to `results`, which keeps the runs made before an error.
    /// `after` is called after each round.
    pub(crate) fn run(
        &self,
        material: &Material,
        results: &mut Results,
        progress: &mut Progress<'_>,
        after: &mut dyn FnMut(&Results) -> Result<()>,
    ) -> Result<()> {
        self.make_lists(material, progress)?;
        for round in 0..=self.times {
            for step in &self.steps {
                let mut expected = None;
                for filter in self.filters.iter().filter(|filter| step.is_of(filter.side)) {
                    let side = filter.side;
                    let at = || format!("{side} at {step}");
                    progress.say(&format!("{round:2} - {step:25} - {side}"))?;
                    let figures = self.step(filter, *step, material);
                    let figures = stoppable(self.stop, figures).with_context(at)?;
                    results.runs.push(Run { round, side, step: *step, figures });
                    if round == 0 {
                        let checked = check(filter, *step, material, &mut expected);
                        stoppable(self.stop, checked).with_context(at)?;
                    }
                }
            }
            after(results)?;
        }
        Ok(())
    }

    /// Trains every filter, and loads the lists of all sizes that it needs.
    fn make_lists(&self, material: &Material, progress: &mut Progress<'_>) -> Result<()> {
        let mut dump = None;
        for filter in &self.filters {
            let at = || filter.side.to_string();
            progress.screen.status(&format!("learning: {}", filter.side));
            filter.reset(List::Own)?;
            let learned = filter.run(Step::Register, material, &mut || Ok(()));
            stoppable(self.stop, learned).with_context(at)?;
            if dump.is_none() {
                dump = Some(filter.dump(List::Own).with_context(at)?);
            }
        }
        let dump = dump.context("there is no filter")?;
        let lists = [List::Small, List::Middle, List::Large];
        for (list, tokens) in lists.into_iter().zip(self.tokens) {
            let needs = |side| self.steps.iter().any(|it| it.list() == list && it.is_of(side));
            if !self.filters.iter().any(|filter| needs(filter.side)) {
                continue;
            }
            let text = self.folder.join("list.txt");
            write_list(&dump, tokens, &text)?;
            for filter in self.filters.iter().filter(|filter| needs(filter.side)) {
                progress.screen.status(&format!("{tokens} tokens: {}", filter.side));
                let loaded = stoppable(self.stop, filter.load(list, &text));
                loaded.with_context(|| filter.side.to_string())?;
            }
            disk::remove_file(&text).with_context(|| text.display().to_string())?;
        }
        Ok(())
    }

    /// Runs one step.
    fn step(&self, filter: &Filter, step: Step, material: &Material) -> Result<Figures> {
        if step == Step::Register {
            filter.reset(List::Own)?;
        }
        let mail = [&material.spam.mbox, &material.ham.mbox, &material.singles].map(Clone::clone);
        // Earlier writes are on the disk; files to read are in memory, except the list if cold.
        let mut ready = || {
            settle(&self.folder)?;
            if step == Step::ClassifyCold {
                drop_caches()?;
            } else {
                read_all(&[filter.list(step.list())])?;
            }
            read_all(&mail)?;
            read_all(&filter.programs())
        };
        filter.run(step, material, &mut ready)
    }
}

/// Checks that a side gives the answer of the first one.
fn check(
    filter: &Filter,
    step: Step,
    material: &Material,
    expected: &mut Option<Answer>,
) -> Result<()> {
    let answer = filter.answer(step, material).context("the answer")?;
    match expected {
        Some(expected) => answer.compare(expected),
        None => {
            *expected = Some(answer);
            Ok(())
        }
    }
}
