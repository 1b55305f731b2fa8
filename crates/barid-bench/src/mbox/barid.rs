//! The program under test, started as a new process for each step.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use barid_testkit::disk;
use barid_testkit::peers::BarrierLog;
use barid_testkit::usage::Sampling;
use barid_types::{Flag, FlagSet};
use serde::Deserialize;

use super::material::Material;
use super::model::{Model, lists};
use super::step::{Side, Step};
use super::system::{Mode, System};
use crate::lab::{Figures, Runner};
use crate::limits::ARGUMENT_LEN_MAX;
use crate::systems::barid::{forget, in_folder, index_bytes};

/// barid with its copy of the mailbox.
#[derive(Debug)]
pub(crate) struct Barid {
    pub(crate) program: PathBuf,
    pub(crate) file: PathBuf,
    pub(crate) runner: Runner,
    pub(crate) mode: Mode,
}

/// The fields read from a line of `ls --json`.
#[derive(Deserialize)]
struct Line {
    seq: u32,
    uid: u32,
    #[serde(default)]
    flags: Vec<String>,
}

impl Barid {
    /// Returns the folder of cache and state.
    fn folder(&self) -> PathBuf {
        self.runner.folder.join("barid")
    }

    /// Returns the arguments of a step, without cache and state.
    pub(crate) fn words(&self, step: Step, model: &Model, material: &Material) -> Vec<String> {
        let mailbox = self.file.display().to_string();
        let uid = || model.targets(step).first().map_or(0, |number| model.uid(*number)).to_string();
        let words: &[&str] = match step {
            Step::FlagOne => &["flag", &mailbox, &uid(), "+flagged", "--write-through"],
            Step::FlagLater => &["flag", &mailbox, &uid(), "+answered"],
            Step::FlagAll => &["flag", &mailbox, "1:*", "+seen", "--write-through"],
            Step::ExpungeSmall | Step::ExpungeLarge => &["expunge", &mailbox, &uid()],
            Step::ExpungeThird => &["expunge", &mailbox, "--deleted"],
            Step::Append | Step::AppendBatch => &["append", &mailbox],
            Step::Open => &["status", &mailbox],
            _ => &["sync", &mailbox],
        };
        let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        if matches!(step, Step::Append | Step::AppendBatch) {
            let files = &material.batch(step).files;
            words.extend(files.iter().map(|file| file.display().to_string()));
        }
        words
    }

    fn add_words(&self, command: &mut Command, words: &[String]) {
        in_folder(command, &self.folder()).args(words);
    }

    fn command(&self, words: &[String]) -> Command {
        let mut command = Command::new(&self.program);
        self.add_words(&mut command, words);
        command
    }
}

impl System for Barid {
    fn side(&self) -> Side {
        Side::Barid
    }

    fn file(&self) -> &Path {
        &self.file
    }

    fn begin(&mut self, mode: Mode) -> Result<()> {
        self.mode = mode;
        forget(&self.folder())
    }

    /// Marks the messages that the step will expunge, as the peers do: their list would be longer
    /// than an argument may be.
    fn prepare(&mut self, step: Step, model: &Model) -> Result<()> {
        if step != Step::ExpungeThird {
            return Ok(());
        }
        let uids: Vec<_> = model.targets(step).iter().map(|number| model.uid(*number)).collect();
        for list in lists(&uids, ARGUMENT_LEN_MAX) {
            let mailbox = self.file.display().to_string();
            let words = ["flag", &mailbox, &list, "+deleted", "--write-through"];
            let command = self.command(&words.map(str::to_owned));
            self.runner.run(&command, Stdio::null(), Sampling::Off)?;
        }
        Ok(())
    }

    fn run(&mut self, step: Step, model: &Model, material: &Material) -> Result<Figures> {
        let words = self.words(step, model, material);
        let log = self.mode.is_counted.then(|| BarrierLog::create(&self.runner.folder));
        let log = log.transpose()?;
        let mut command = match &log {
            Some(log) => log.command(&self.program),
            None => Command::new(&self.program),
        };
        self.add_words(&mut command, &words);
        let usage = self.runner.run(&command, Stdio::null(), self.mode.sampling)?;
        let barriers = log.as_ref().map(BarrierLog::count);
        Ok(Figures { barriers, ..Figures::of_process(&usage) })
    }

    fn view(&mut self) -> Result<Vec<(u32, FlagSet)>> {
        let path = self.runner.folder.join("barid-listing.jsonl");
        let file = disk::create(&path).with_context(|| path.display().to_string())?;
        let words = ["ls", "--json", &self.file.display().to_string()].map(str::to_owned);
        self.runner.run(&self.command(&words), file.into(), Sampling::Off)?;
        let text = disk::read_text(&path)?;
        disk::remove_file(&path)?;
        let parse = |text: &str| {
            let line: Line = serde_json::from_str(text).with_context(|| text.to_owned())?;
            let flag = |name: &String| Flag::ALL.into_iter().find(|flag| flag.name() == name);
            Ok((line.seq, line.uid, line.flags.iter().filter_map(flag).collect()))
        };
        // The listing is ordered by date.
        let mut lines = text.lines().map(parse).collect::<Result<Vec<(u32, u32, FlagSet)>>>()?;
        lines.sort_unstable_by_key(|(seq, _, _)| *seq);
        Ok(lines.into_iter().map(|(_, uid, flags)| (uid, flags)).collect())
    }

    fn index_bytes(&self) -> Result<u64> {
        index_bytes(&self.folder())
    }

    fn end(&mut self) -> Result<()> {
        forget(&self.folder())
    }
}
