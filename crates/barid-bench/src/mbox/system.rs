//! What each of the measured programs can be asked; one thin adapter for each.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use barid_testkit::disk;
use barid_testkit::peers::PeerUser;
use barid_testkit::usage::{Sampling, Usage};
use barid_testkit::watch::Watched;
use barid_types::FlagSet;

use super::material::Material;
use super::model::Model;
use super::step::{Figures, Side, Step};
use crate::Launcher;
use crate::limits::STEP_DEADLINE;
use crate::run::{command_line, failure};

/// How a round is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    /// How memory is looked at.
    pub(crate) sampling: Sampling,
    /// Whether strace counts barriers.
    pub(crate) is_counted: bool,
}

/// A program with a copy of the mailbox.
pub(crate) trait System {
    fn side(&self) -> Side;

    /// Its copy of the mailbox.
    fn file(&self) -> &Path;

    /// Begins anew with a fresh copy, which is there already.
    fn begin(&mut self, mode: Mode) -> Result<()>;

    /// What must be done before a step and is not timed.
    fn prepare(&mut self, step: Step, model: &Model) -> Result<()>;

    /// Does a step; `model` is what the mailbox holds before.
    fn run(&mut self, step: Step, model: &Model, material: &Material) -> Result<Figures>;

    /// UIDs and flags as the program sees them.
    fn view(&mut self) -> Result<Vec<(u32, FlagSet)>>;

    /// What is allocated on the disk besides the mailbox.
    fn index_bytes(&self) -> Result<u64>;

    /// Ends it, and removes all but the copy of the mailbox.
    fn end(&mut self) -> Result<()>;
}

impl Figures {
    /// Of a whole process.
    pub(crate) fn of_process(usage: &Usage) -> Self {
        Self {
            real_s: usage.wall.as_secs_f64(),
            user_s: usage.user.as_secs_f64(),
            sys_s: usage.sys.as_secs_f64(),
            maxrss_bytes: usage.maxrss,
            anon_bytes: usage.anon_peak,
            read_chars: usage.io.read_chars,
            write_chars: usage.io.write_chars,
            read_bytes: usage.io.read_bytes,
            write_bytes: usage.io.write_bytes,
            ..Self::default()
        }
    }

    /// Of a part of a session.
    pub(crate) fn of_session(watched: &Watched) -> Self {
        Self {
            real_s: watched.wall.as_secs_f64(),
            user_s: watched.user.as_secs_f64(),
            sys_s: watched.sys.as_secs_f64(),
            maxrss_bytes: watched.maxrss,
            anon_bytes: watched.anon_peak,
            read_chars: watched.io.read_chars,
            write_chars: watched.io.write_chars,
            read_bytes: watched.io.read_bytes,
            write_bytes: watched.io.write_bytes,
            ..Self::default()
        }
    }
}

/// Runs commands to their ends in a folder for what they print.
#[derive(Clone, Debug)]
pub(crate) struct Runner {
    pub(crate) launcher: Launcher,
    pub(crate) folder: PathBuf,
}

impl Runner {
    /// Runs a command with `stdout` as its output.
    ///
    /// # Errors
    ///
    /// When it does not end well.
    pub(crate) fn run(
        &self,
        command: &Command,
        stdout: Stdio,
        sampling: Sampling,
    ) -> Result<Usage> {
        let line = command_line(command);
        let (errors, report) = (self.folder.join("stderr"), self.folder.join("usage"));
        let file = disk::create(&errors).with_context(|| errors.display().to_string())?;
        let mut command = self.launcher.wrap(command, &report, STEP_DEADLINE, sampling);
        command.stdin(Stdio::null()).stdout(stdout).stderr(file);
        let launched = self.launcher.run(&mut command, &report);
        let usage = launched.with_context(|| short(&line))?.usage;
        if !usage.status.success() {
            return Err(failure(&short(&line), &usage, &errors));
        }
        Ok(usage)
    }

    /// Reads a whole file.
    pub(crate) fn read(&self, file: &Path, sampling: Sampling) -> Result<Figures> {
        let mut command = Command::new("dd");
        command.arg(format!("if={}", file.display())).args(["of=/dev/null", "bs=1M"]);
        Ok(Figures::of_process(&self.run(&command, Stdio::null(), sampling)?))
    }
}

/// Gives a mailbox and its folder to the user as whom peers run: they make their locks beside it.
pub(crate) fn take(file: &Path) -> Result<()> {
    let folder = file.parent().context("the file is in a folder")?;
    let taken = PeerUser::get().and_then(|user| user.take(folder));
    taken.with_context(|| folder.display().to_string())
}

/// A command line that an error can show.
pub(crate) fn short(line: &str) -> String {
    const LEN_MAX: usize = 200;
    match line.char_indices().nth(LEN_MAX) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    }
}
