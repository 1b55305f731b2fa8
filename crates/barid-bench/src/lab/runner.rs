//! Runs programs to completion.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context as _, Result, anyhow, ensure};
use barid_testkit::disk;
use barid_testkit::peers::program;
use barid_testkit::usage::{Sampling, Usage};

use super::{Figures, Launcher, command_line, short};
use crate::limits::{READ_BUFFER_LEN, SAMPLE_INTERVAL, STEP_DEADLINE};

/// Runs commands to completion; `folder` receives their output.
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
    /// Returns an error if the command cannot be started or exits with an error status.
    pub(crate) fn run(
        &self,
        command: &Command,
        stdout: Stdio,
        sampling: Sampling,
    ) -> Result<Usage> {
        self.run_or_empty(command, stdout, sampling, 0)
    }

    /// Like [`Runner::run`] for a search that exits with status `empty` if it finds nothing.
    pub(crate) fn run_or_empty(
        &self,
        command: &Command,
        stdout: Stdio,
        sampling: Sampling,
        empty: i32,
    ) -> Result<Usage> {
        let line = command_line(command);
        let (errors, report) = (self.folder.join("stderr"), self.folder.join("usage"));
        let file = disk::create(&errors).with_context(|| errors.display().to_string())?;
        let mut command = self.launcher.wrap(command, &report, STEP_DEADLINE, sampling);
        command.stdin(Stdio::null()).stdout(stdout).stderr(file);
        let launched = self.launcher.run(&mut command, &report);
        let usage = launched.with_context(|| short(&line))?.usage;
        if !usage.status.success() && usage.status.code() != Some(empty) {
            return Err(failure(&short(&line), &usage, &errors));
        }
        Ok(usage)
    }

    /// Runs a command whose output goes through a pipe and is discarded.
    pub(crate) fn run_piped(&self, command: &Command, sampling: Sampling) -> Result<Usage> {
        let (mut reader, writer) = std::io::pipe()?;
        let drain = thread::spawn(move || {
            let mut buffer = vec![0; READ_BUFFER_LEN];
            while reader.read(&mut buffer).is_ok_and(|len| len > 0) {}
        });
        let usage = self.run(command, Stdio::from(writer), sampling);
        drain.join().expect("because reading does not panic");
        usage
    }

    /// Runs a command as [`Runner::run_or_empty`] does, not sampled, and returns its output.
    pub(crate) fn text(&self, command: &Command, empty: i32) -> Result<String> {
        let path = self.folder.join("output");
        let at = || path.display().to_string();
        let file = disk::create(&path).with_context(at)?;
        self.run_or_empty(command, file.into(), Sampling::Off, empty)?;
        disk::read_text(&path).with_context(at)
    }

    /// Reads a whole file with `dd` and returns the figures.
    pub(crate) fn read(&self, file: &Path, sampling: Sampling) -> Result<Figures> {
        let mut command = Command::new("dd");
        command.arg(format!("if={}", file.display())).args(["of=/dev/null", "bs=1M"]);
        Ok(Figures::of_process(&self.run(&command, Stdio::null(), sampling)?))
    }
}

/// Returns how memory is sampled in a round: only in round 0, since samples would disturb timing.
pub(crate) fn sampling(round: u32) -> Sampling {
    if round == 0 { Sampling::Every(SAMPLE_INTERVAL) } else { Sampling::Off }
}

/// Returns the error of a failed command, with the file of its output.
pub(crate) fn failure(line: &str, usage: &Usage, output: &Path) -> anyhow::Error {
    let printed = disk::read_text(output).unwrap_or_default();
    let first = printed.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
    let first: String = first.chars().filter(|c| !c.is_control()).collect();
    anyhow!("{line}: {}; it printed to {}: {first}", usage.status, output.display())
}

/// Returns the output of a program's `--version`.
pub(crate) fn version(program: &Path) -> Result<String> {
    let output = Command::new(program).arg("--version").output();
    let output = output.with_context(|| program.display().to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    ensure!(!text.is_empty(), "{}: does not tell its version", program.display());
    Ok(text)
}

/// c-client's version, for a report.
pub(crate) const CCLIENT: &str = "UW c-client 2007f, as Debian has it (libc-client2007e)";

/// Returns the version of the installed Dovecot, for a report.
pub(crate) fn dovecot() -> Result<String> {
    let version = program("dovecot").as_deref().map(version).transpose()?;
    Ok(format!("Dovecot {}", version.unwrap_or_default()))
}

/// Returns a program and its libraries, as far as `ldd` lists them.
pub(crate) fn with_libraries(program: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(program).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let libraries = text.split_ascii_whitespace().filter(|word| word.starts_with('/'));
    std::iter::once(program.to_owned()).chain(libraries.map(PathBuf::from)).collect()
}
