//! The rounds: in each, every side does all steps on a fresh copy, step by step in turn.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use barid_testkit::disk;
use barid_testkit::usage::Sampling;

use super::material::{Material, stored};
use super::model::Model;
use super::results::{Results, Run};
use super::step::{Side, Step};
use super::system::{Mode, System};
use crate::lab::{
    Figures, Progress, Runner, drop_caches, fresh_folder, sampling, settle, stoppable,
};

/// The programs and how to run them.
pub(crate) struct Rounds<'a> {
    /// Groups of sides that take turns; the sides of a group have their copies on the disk
    /// together.
    pub(crate) groups: Vec<Vec<Box<dyn System>>>,
    pub(crate) runner: Runner,
    pub(crate) is_cold: bool,
    pub(crate) times: u32,
    pub(crate) stop: &'a AtomicBool,
}

impl Rounds<'_> {
    /// Number of progress lines that [`Rounds::run`] prints.
    pub(crate) fn steps(&self) -> usize {
        let of = |side| Step::ALL.iter().filter(|step| step.is_of(side)).count();
        let sides = self.groups.iter().flatten().map(|system| of(system.side()));
        (1 + sides.sum::<usize>()) * (1 + self.times as usize)
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
        let mut groups = std::mem::take(&mut self.groups);
        for round in 0..=self.times {
            let (step, side) = (Step::Copy, Side::Copy);
            progress.say(&format!("{round:2} - {step:24} - {side}"))?;
            let figures = self.copy(&material.base, sampling(round))?;
            results.runs.push(Run { round, side, step, figures });
            for group in &mut groups {
                self.round(round, group, material, results, progress)?;
            }
            after(results)?;
        }
        Ok(())
    }

    fn mode(&self, round: u32) -> Mode {
        Mode { sampling: sampling(round), is_counted: round == 0 }
    }

    /// Runs all steps of the sides of a group.
    fn round(
        &self,
        round: u32,
        group: &mut [Box<dyn System>],
        material: &Material,
        results: &mut Results,
        progress: &mut Progress<'_>,
    ) -> Result<()> {
        for system in &mut *group {
            let file = system.file();
            fresh_folder(file.parent().context("the file is in a folder")?)?;
            disk::copy(&material.base, file).with_context(|| file.display().to_string())?;
            system.begin(self.mode(round))?;
        }
        let mut model = material.model.clone();
        for step in Step::ALL {
            let after = model.after(step, &material.batch(step).hashes);
            for system in group.iter_mut().filter(|system| step.is_of(system.side())) {
                let side = system.side();
                progress.say(&format!("{round:2} - {step:24} - {side}"))?;
                let figures = self.step(round, system.as_mut(), (step, &model), material);
                let figures = stoppable(self.stop, figures);
                let figures = figures.with_context(|| format!("{side} at {step:?}"))?;
                results.runs.push(Run { round, side, step, figures });
                if round == 0 && !step.is_read() {
                    let checked = stoppable(self.stop, check(system.as_mut(), step, &after));
                    checked.with_context(|| format!("{side} after {step:?}"))?;
                }
            }
            model = after;
        }
        for system in group {
            system.end()?;
            remove(system.file())?;
        }
        Ok(())
    }

    /// Runs one step. Earlier writes are on the disk before it starts.
    fn step(
        &self,
        round: u32,
        system: &mut dyn System,
        (step, model): (Step, &Model),
        material: &Material,
    ) -> Result<Figures> {
        system.prepare(step, model)?;
        self.ready(round)?;
        let figures = match step.is_read() {
            true => self.runner.read(system.file(), sampling(round))?,
            false => system.run(step, model, material)?,
        };
        let file_bytes = disk::size(system.file())?;
        Ok(Figures { file_bytes, index_bytes: system.index_bytes()?, ..figures })
    }

    fn ready(&self, round: u32) -> Result<()> {
        settle(&self.runner.folder)?;
        if self.is_cold && round > 0 { drop_caches() } else { Ok(()) }
    }

    /// Copies the mailbox and waits until the copy is on the disk.
    fn copy(&self, base: &Path, sampling: Sampling) -> Result<Figures> {
        let copy: PathBuf = self.runner.folder.join("copy.mbox");
        let mut command = Command::new("sh");
        command.args(["-c", COPY, "sh"]).arg(base).arg(&copy);
        self.ready(u32::from(self.is_cold))?;
        let usage = stoppable(self.stop, self.runner.run(&command, Stdio::null(), sampling))?;
        let file_bytes = disk::size(&copy)?;
        remove(&copy)?;
        Ok(Figures { file_bytes, ..Figures::of_process(&usage) })
    }
}

/// The script that copies.
pub(crate) const COPY: &str = "cp --reflink=never \"$1\" \"$2\" && sync \"$2\"";

fn remove(file: &Path) -> Result<()> {
    disk::remove_file(file).with_context(|| file.display().to_string())
}

/// Checks a side's file and the UIDs and flags that it sees after a step.
fn check(system: &mut dyn System, step: Step, model: &Model) -> Result<()> {
    let view = system.view().context("what it sees cannot be asked")?;
    model.compare_view(&view)?;
    // Peers write status headers at times of their own; their view has been compared.
    let has_status = system.side() == Side::Barid && step != Step::FlagLater;
    model.compare_file(&stored(system.file())?, has_status)
}
