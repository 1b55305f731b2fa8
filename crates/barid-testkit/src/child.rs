//! The test program again as another process, which may be killed or crash.
//!
//! A test program that has children has a table of their [`Job`]s, and a test of its own that does
//! them: `child::entry`, which calls [`run`]. What a child tells its parent is lines.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Names the job of a child, and its arguments, one a line.
const JOB: &str = "BARID_TEST_JOB";
/// The test that does it.
const ENTRY: &str = "child::entry";
/// What begins a line that is meant for the parent; the test harness writes others.
const MARK: char = '\u{1}';

/// Does something with its arguments.
pub type Job = fn(&[&str]);

/// Does the job of a child; in a test run, nothing.
///
/// # Panics
/// If there is no such job.
pub fn run(jobs: &[(&str, Job)]) {
    let Ok(job) = std::env::var(JOB) else { return };
    let args: Vec<&str> = job.lines().collect();
    let found = jobs.iter().find(|(name, _)| *name == args[0]);
    let (_, run) = found.unwrap_or_else(|| panic!("no job {}", args[0]));
    run(&args[1..]);
}

/// Tells the parent a line; called in a child.
pub fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    // Without a parent there is nobody to tell.
    drop(out.write_all(format!("{MARK}{line}\n").as_bytes()).and_then(|()| out.flush()));
}

/// Another process. Killed when dropped.
#[derive(Debug)]
pub struct Child {
    process: std::process::Child,
    lines: Receiver<String>,
}

/// What a child says next.
#[derive(Debug)]
pub enum Said {
    /// A line.
    Line(String),
    /// It said nothing more and ended.
    Ended(ExitStatus),
    /// It neither said anything nor ended in time, and was killed.
    Hangs,
}

impl Child {
    /// Starts a job. Its arguments hold no line ends.
    ///
    /// # Panics
    /// If there can be no other process.
    pub fn spawn(job: &str, args: &[&str]) -> Self {
        Self::spawn_by(&[], job, args)
    }

    /// As [`Child::spawn`], through another program, given with its arguments.
    ///
    /// # Panics
    /// If there can be no other process.
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
                // Of a line that a kill cut short nothing counts.
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
    pub fn next(&mut self, timeout: Duration) -> Said {
        match self.lines.recv_timeout(timeout) {
            Ok(line) => Said::Line(line),
            Err(RecvTimeoutError::Disconnected) => Said::Ended(self.wait()),
            Err(RecvTimeoutError::Timeout) => {
                self.end();
                Said::Hangs
            }
        }
    }

    /// Waits for a line, which must be this.
    ///
    /// # Panics
    /// If it says something else, or nothing.
    pub fn says(&mut self, line: &str, timeout: Duration) {
        match self.next(timeout) {
            Said::Line(said) if said == line => {}
            other => panic!("a child: {other:?}, not {line:?}"),
        }
    }

    /// All lines that it says; it may be silent for so long.
    ///
    /// # Panics
    /// If it hangs or fails.
    pub fn finish(mut self, silence: Duration) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            match self.next(silence) {
                Said::Line(line) => lines.push(line),
                Said::Ended(status) if status.success() => return lines,
                other => panic!("a child: {other:?}, after {:?}", lines.last()),
            }
        }
    }

    /// Kills it at once, waits, and gives the lines that it said and nobody read.
    ///
    /// # Panics
    /// If it has failed before.
    pub fn kill(mut self) -> Vec<String> {
        let status = self.end();
        // One that has ended already is as good.
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

/// How a process ended, in words.
pub fn ended(status: ExitStatus) -> String {
    status.signal().map_or_else(|| status.to_string(), |signal| format!("signal {signal}"))
}
