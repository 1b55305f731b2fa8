//! A small process between the bench and the measured program.
//!
//! The kernel counts the memory that a process had before it executes a program towards its
//! `ru_maxrss`, and that is the memory of the process that started it. A bench that was once large
//! would therefore report large figures for everything. So the bench starts its own program again
//! as a small process that only starts the command, waits for it, and writes the kernel's
//! accounting to a file. The peak of that small process is the smallest value that can be measured,
//! and is reported.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use barid_testkit::disk;
use barid_testkit::usage::{Io, Sampling, Usage, measure};

/// The first argument that makes a program the small process. It is followed by the file of the
/// report, the deadline in seconds, the sampling interval in microseconds (0 for no samples), and
/// the command.
const ARGUMENT: &str = "__measure";

/// Count of numbers in a report.
const NUMBERS: usize = 15;

/// A program that calls [`launched`] before anything else.
#[derive(Clone, Debug)]
pub struct Launcher {
    program: PathBuf,
}

/// The resources that a command used.
#[derive(Clone, Copy, Debug)]
pub struct Launched {
    /// The kernel's accounting of the command.
    pub usage: Usage,
    /// The peak of resident memory of the process that started the command, up to its start, in
    /// bytes; a lower bound of `maxrss`.
    pub floor: u64,
}

impl Launcher {
    /// Creates a launcher that runs `program`.
    pub fn new(program: PathBuf) -> Self {
        Self { program }
    }

    /// Wraps `command` so that it runs in a small process that writes `report` and kills the
    /// command at the deadline. The result has the arguments and environment changes of `command`,
    /// but no standard streams yet.
    pub fn wrap(
        &self,
        command: &Command,
        report: &Path,
        deadline: Duration,
        sampling: Sampling,
    ) -> Command {
        let micros = match sampling {
            Sampling::Off => 0,
            Sampling::Every(interval) => interval.as_micros(),
        };
        let mut wrapped = Command::new(&self.program);
        wrapped.arg(ARGUMENT).arg(report);
        wrapped.args([deadline.as_secs().to_string(), micros.to_string()]);
        wrapped.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => wrapped.env(name, value),
                None => wrapped.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            wrapped.current_dir(folder);
        }
        wrapped
    }

    /// Runs a wrapped command to completion; reads its report and removes it.
    ///
    /// # Errors
    ///
    /// Returns an error if either process cannot be started.
    pub fn run(&self, wrapped: &mut Command, report: &Path) -> Result<Launched> {
        let status = wrapped.status().with_context(|| self.program.display().to_string())?;
        read(report).with_context(|| format!("{}: {status}", self.program.display()))
    }
}

/// Reads a report and removes it.
///
/// # Errors
///
/// Returns an error if the report is missing, or says that the command could not be started.
pub(crate) fn read(report: &Path) -> Result<Launched> {
    let text = disk::read_text(report).with_context(|| report.display().to_string())?;
    disk::remove_file(report).with_context(|| report.display().to_string())?;
    parse(&text)
}

fn parse(text: &str) -> Result<Launched> {
    if let Some(error) = text.strip_prefix("error ") {
        bail!("{}", error.trim_end());
    }
    let numbers = text.split_ascii_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>();
    let numbers: Option<[u64; NUMBERS]> = numbers.ok().and_then(|numbers| numbers.try_into().ok());
    let numbers = numbers.with_context(|| format!("{text:?} is not a report"))?;
    let [status, wall, user, sys, maxrss, anon, minor, major, blocks_in, blocks_out, rest @ ..] =
        numbers;
    let [read_chars, write_chars, read_bytes, write_bytes, floor] = rest;
    let status = i32::try_from(status).with_context(|| format!("{status} is not a status"))?;
    let usage = Usage {
        status: ExitStatus::from_raw(status),
        wall: Duration::from_nanos(wall),
        user: Duration::from_micros(user),
        sys: Duration::from_micros(sys),
        maxrss,
        anon_peak: Some(anon).filter(|bytes| *bytes > 0),
        minor_faults: minor,
        major_faults: major,
        blocks_in,
        blocks_out,
        io: Io { read_chars, write_chars, read_bytes, write_bytes },
    };
    Ok(Launched { usage, floor })
}

fn line(usage: &Usage, floor: u64) -> String {
    let numbers: [u128; NUMBERS] = [
        usage.status.into_raw().unsigned_abs().into(),
        usage.wall.as_nanos(),
        usage.user.as_micros(),
        usage.sys.as_micros(),
        usage.maxrss.into(),
        usage.anon_peak.unwrap_or(0).into(),
        usage.minor_faults.into(),
        usage.major_faults.into(),
        usage.blocks_in.into(),
        usage.blocks_out.into(),
        usage.io.read_chars.into(),
        usage.io.write_chars.into(),
        usage.io.read_bytes.into(),
        usage.io.write_bytes.into(),
        floor.into(),
    ];
    numbers.map(|number| number.to_string()).join(" ") + "\n"
}

/// Acts as the small process if the arguments of this program ask for it; the program must then
/// exit with the returned code. Must be called first in `main`, because all memory used before the
/// call is counted.
pub fn launched(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    if arguments.next()? != OsStr::new(ARGUMENT) {
        return None;
    }
    let Err(error) = launch(arguments) else { return Some(ExitCode::SUCCESS) };
    // If standard error is closed, the missing report still shows the failure.
    let _ = writeln!(io::stderr(), "error: {error}");
    Some(ExitCode::from(2))
}

fn launch(mut arguments: impl Iterator<Item = OsString>) -> io::Result<()> {
    let mut next = || arguments.next().ok_or_else(|| io::Error::other("an argument is missing"));
    let report = PathBuf::from(next()?);
    let (deadline, micros) = (number(&next()?)?, number(&next()?)?);
    let mut command = Command::new(next()?);
    command.args(arguments);
    let sampling = match micros {
        0 => Sampling::Off,
        micros => Sampling::Every(Duration::from_micros(micros)),
    };
    // The kernel counts the memory of this process at the exec, and not later.
    let floor = own_peak();
    let text = match measure(&mut command, Duration::from_secs(deadline), sampling) {
        Ok(usage) => line(&usage, floor),
        Err(error) => format!("error {}: {error}\n", command.get_program().to_string_lossy()),
    };
    disk::write(&report, text.as_bytes())
}

fn number(text: &OsStr) -> io::Result<u64> {
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.ok_or_else(|| io::Error::other("a number is missing"))
}

/// Returns the peak of this process's resident memory in bytes; 0 if the kernel does not report it.
fn own_peak() -> u64 {
    let text = disk::read_text(Path::new("/proc/self/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    kilobytes.unwrap_or(0_u64) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let text = "512 1500000 20 30 4096 0 1 2 3 4 5 6 7 8 2048\n";
        let launched = parse(text).unwrap();
        assert_eq!(launched.usage.status.code(), Some(2));
        assert_eq!((launched.usage.anon_peak, launched.floor), (None, 2048));
        assert_eq!((launched.usage.io.read_chars, launched.usage.io.write_bytes), (5, 8));
        assert_eq!(line(&launched.usage, launched.floor), text);
        for text in ["", "1 2 3", "error x: not found\n", "-1 0 0 0 0 0 0 0 0 0 0 0 0 0 0"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse("error x: gone\n").unwrap_err().to_string(), "x: gone");
    }

    #[test]
    fn other_arguments_are_left_alone() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert!(launched(words("barid ls x")).is_none());
        assert!(launched(words("barid")).is_none());
        assert!(launched(words("barid __measure /nowhere/report 1 0")).is_some());
    }
}
