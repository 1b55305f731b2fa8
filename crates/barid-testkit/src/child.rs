//! The test program again as another process, which may be killed or crash.
//!
//! A test program with children has a table of their [`Job`]s, and a test that runs them:
//! `child::entry`, which calls [`run`]. A child reports to its parent in lines.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Environment variable with the job of a child and its arguments, one per line.
const JOB: &str = "BARID_TEST_JOB";
/// The test that runs the job.
const ENTRY: &str = "child::entry";
/// First character of a line for the parent; the test harness writes other lines.
const MARK: char = '\u{1}';

/// A function that a child runs, with its arguments.
pub type Job = fn(&[&str]);

/// Runs the job of a child; does nothing in a test run.
///
/// # Panics
/// If the job does not exist.
pub fn run(jobs: &[(&str, Job)]) {
    let Ok(job) = std::env::var(JOB) else { return };
    let args: Vec<&str> = job.lines().collect();
    let found = jobs.iter().find(|(name, _)| *name == args[0]);
    let (_, run) = found.unwrap_or_else(|| panic!("no job {}", args[0]));
    run(&args[1..]);
}

/// Sends a line to the parent; called in a child.
pub fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    // Without a parent nobody reads it.
    drop(out.write_all(format!("{MARK}{line}\n").as_bytes()).and_then(|()| out.flush()));
}

/// Another process. Killed when dropped.
#[derive(Debug)]
pub struct Child {
    process: std::process::Child,
    lines: Receiver<String>,
}

/// The next event of a child.
#[derive(Debug)]
pub enum ChildEvent {
    /// A line.
    Line(String),
    /// It ended without another line.
    Ended(ExitStatus),
    /// It neither sent a line nor ended in time, and was killed.
    Hangs,
}

impl Child {
    /// Starts a job. Its arguments must not contain line ends.
    ///
    /// # Panics
    /// If the process cannot be started.
    pub fn spawn(job: &str, args: &[&str]) -> Self {
        Self::spawn_by(&[], job, args)
    }

    /// As [`Child::spawn`], through another program, given with its arguments.
    ///
    /// # Panics
    /// If the process cannot be started.
    pub fn spawn_by(through: &[&str], job: &str, args: &[&str]) -> Self {
        let here = std::env::current_exe().expect("because a program knows its path");
        let words = through.iter().map(|word| OsStr::new(*word)).chain([here.as_os_str()]);
        let words: Vec<&OsStr> = words.collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command.args([ENTRY, "--exact", "--nocapture", "--test-threads=1"]);
        command.env(JOB, [&[job], args].concat().join("\n"));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap_or_else(|error| panic!("{job}: {error}"));
        let out = process.stdout.take().expect("because it is a pipe");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let (mut out, mut line) = (BufReader::new(out), String::new());
            while out.read_line(&mut line).is_ok_and(|len| len > 0) {
                // Ignores a line that a kill cut short.
                if let Some((_, said)) = line.split_once(MARK)
                    && let Some(said) = said.strip_suffix('\n')
                {
                    drop(sender.send(said.to_owned()));
                }
                line.clear();
            }
        });
        Self { process, lines }
    }

    /// Waits for the next line, or the end.
    pub fn next(&mut self, timeout: Duration) -> ChildEvent {
        match self.lines.recv_timeout(timeout) {
            Ok(line) => ChildEvent::Line(line),
            Err(RecvTimeoutError::Disconnected) => ChildEvent::Ended(self.wait()),
            Err(RecvTimeoutError::Timeout) => {
                self.end();
                ChildEvent::Hangs
            }
        }
    }

    /// Waits for the next line, which must be `line`.
    ///
    /// # Panics
    /// If another line or none arrives.
    pub fn says(&mut self, line: &str, timeout: Duration) {
        match self.next(timeout) {
            ChildEvent::Line(said) if said == line => {}
            other => panic!("a child: {other:?}, not {line:?}"),
        }
    }

    /// Returns all remaining lines. The child may be silent for `silence` at a time.
    ///
    /// # Panics
    /// If it hangs or fails.
    pub fn finish(mut self, silence: Duration) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            match self.next(silence) {
                ChildEvent::Line(line) => lines.push(line),
                ChildEvent::Ended(status) if status.success() => return lines,
                other => panic!("a child: {other:?}, after {:?}", lines.last()),
            }
        }
    }

    /// Returns `true` if it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.process.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Kills the child at once, waits for its end, and returns the lines that nobody has read.
    ///
    /// # Panics
    /// If it has failed before.
    pub fn kill(mut self) -> Vec<String> {
        let status = self.end();
        // One that has already ended is fine too.
        let is_killed = status.success() || status.signal() == Some(KILLED);
        assert!(is_killed, "a child: {}", ended(status));
        self.lines.iter().collect()
    }

    fn end(&mut self) -> ExitStatus {
        drop(self.process.kill());
        self.wait()
    }

    fn wait(&mut self) -> ExitStatus {
        self.process.wait().expect("because it is a child of this process")
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}

/// SIGKILL.
const KILLED: i32 = 9;

/// Describes how a process ended.
pub fn ended(status: ExitStatus) -> String {
    status.signal().map_or_else(|| status.to_string(), |signal| format!("signal {signal}"))
}
