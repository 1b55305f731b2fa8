//! bogofilter (Debian `bogofilter-bdb`): its filter, its lexer and its word list tool.
//!
//! No configuration file is read. Every run is a separate process with the message on its standard
//! input; word lists are in a folder of the test.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::program;
use crate::skip_or_fail;

/// The paths of bogofilter's programs.
#[derive(Clone, Debug)]
pub struct Bogofilter {
    filter: PathBuf,
    lexer: PathBuf,
    util: PathBuf,
}

impl Bogofilter {
    /// Finds the programs; `None` after [`skip_or_fail`] if one is missing.
    ///
    /// # Panics
    ///
    /// With `CI=true` if one is missing.
    pub fn new() -> Option<Self> {
        let found = || {
            let [filter, lexer, util] = ["bogofilter", "bogolexer", "bogoutil"].map(program);
            Some(Self { filter: filter?, lexer: lexer?, util: util? })
        };
        let found = found();
        if found.is_none() {
            skip_or_fail("bogofilter (Debian package bogofilter-bdb)");
        }
        found
    }

    /// Finds the programs of another build, by the names that Debian gives them
    /// (`bogofilter-tokyocabinet`). Packages of two builds cannot be installed together, so a
    /// missing one is neither reported nor a failure.
    pub fn of_build(build: &str) -> Option<Self> {
        let name = |tool: &str| program(&format!("{tool}-{build}"));
        let [filter, lexer, util] = ["bogofilter", "bogolexer", "bogoutil"].map(name);
        Some(Self { filter: filter?, lexer: lexer?, util: util? })
    }

    /// Returns the command `bogofilter` without arguments.
    pub fn filter_command(&self) -> Command {
        Command::new(&self.filter)
    }

    /// Returns the command `bogoutil` without arguments.
    pub fn util_command(&self) -> Command {
        Command::new(&self.util)
    }

    /// Returns the command `bogolexer` without arguments.
    pub fn lexer_command(&self) -> Command {
        Command::new(&self.lexer)
    }

    /// Runs `bogofilter` on the word list in a folder.
    ///
    /// # Errors
    ///
    /// If it cannot be run; the caller checks its exit status.
    pub fn filter(&self, folder: &Path, args: &[&str], input: &[u8]) -> io::Result<Output> {
        let mut command = self.filter_command();
        command.arg("-C").arg("-d").arg(folder).args(args);
        feed(&mut command, input)
    }

    /// Runs `bogolexer`.
    ///
    /// # Errors
    ///
    /// If it cannot be run; the caller checks its exit status.
    pub fn lexer(&self, args: &[&str], input: &[u8]) -> io::Result<Output> {
        feed(self.lexer_command().arg("-C").args(args), input)
    }

    /// Runs `bogoutil`.
    ///
    /// # Errors
    ///
    /// If it cannot be run; the caller checks its exit status.
    pub fn util<S: AsRef<OsStr>>(&self, args: &[S], input: &[u8]) -> io::Result<Output> {
        feed(Command::new(&self.util).arg("-C").args(args), input)
    }
}

/// Runs a program with `input` on its standard input, and reads its output at the same time.
///
/// # Errors
///
/// If it cannot be run; the caller checks its exit status.
pub fn feed(command: &mut Command, input: &[u8]) -> io::Result<Output> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let mut stdin = child.stdin.take().expect("because it was piped");
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || stdin.write_all(input));
        let output = child.wait_with_output();
        match writer.join().expect("because writing does not panic") {
            // A program may end before it has read everything.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => output,
        }
    })
}
