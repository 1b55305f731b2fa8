//! This program again as another process, which may be killed or crash.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Names the job of a child, and its arguments, one a line.
const JOB: &str = "BARID_KV_JOB";
/// What begins a line that is meant for the parent; the test harness writes others.
const MARK: char = '\u{1}';

/// Does something with its arguments.
type Job = fn(&[&str]);
/// The jobs there are.
const JOBS: &[(&str, Job)] = &[
    ("write", crate::processes::child_writes),
    ("count", crate::processes::child_counts),
    ("read", crate::processes::child_reads),
    ("damage", crate::crash::damage::child),
    ("die", crate::crash::killed::child),
    ("fill", crate::crash::full::child),
    ("look", crate::places::child_looks),
];

/// Does the job of a child; in a test run, nothing.
#[test]
fn entry() {
    let Ok(job) = std::env::var(JOB) else { return };
    let args: Vec<&str> = job.lines().collect();
    let (_, run) = JOBS.iter().find(|(name, _)| *name == args[0]).unwrap();
    run(&args[1..]);
}

/// Tells the parent something; called in a child.
pub(crate) fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{MARK}{line}").unwrap();
    out.flush().unwrap();
}

/// Another process. Killed when dropped.
pub(crate) struct Child {
    process: std::process::Child,
    lines: Receiver<String>,
}

/// What a child says next.
#[derive(Debug)]
pub(crate) enum Said {
    Line(String),
    /// It said nothing more and ended.
    Ended(ExitStatus),
    /// It neither said anything nor ended in time, and was killed.
    Hangs,
}

impl Child {
    pub(crate) fn spawn(job: &str, args: &[&str]) -> Self {
        Self::spawn_by(&[], job, args)
    }

    /// As [`Child::spawn`], through another program, given with its arguments.
    pub(crate) fn spawn_by(through: &[&str], job: &str, args: &[&str]) -> Self {
        let here = std::env::current_exe().unwrap();
        let words = through.iter().map(|word| OsStr::new(*word)).chain([here.as_os_str()]);
        let words: Vec<&OsStr> = words.collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command.args(["child::entry", "--exact", "--nocapture", "--test-threads=1"]);
        command.env(JOB, [&[job], args].concat().join("\n"));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if let Some((_, line)) = line.split_once(MARK) {
                    drop(sender.send(line.to_owned()));
                }
            }
        });
        Self { process, lines }
    }

    /// Waits for the next line, or the end.
    pub(crate) fn next(&mut self, timeout: Duration) -> Said {
        match self.lines.recv_timeout(timeout) {
            Ok(line) => Said::Line(line),
            Err(RecvTimeoutError::Disconnected) => Said::Ended(self.process.wait().unwrap()),
            Err(RecvTimeoutError::Timeout) => {
                self.kill();
                Said::Hangs
            }
        }
    }

    /// All lines that it says; a child that hangs or fails fails the test.
    pub(crate) fn finish(mut self, timeout: Duration) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            match self.next(timeout) {
                Said::Line(line) => lines.push(line),
                Said::Ended(status) if status.success() => return lines,
                other => panic!("a child: {other:?}, after {:?}", lines.last()),
            }
        }
    }

    /// Kills it at once, waits, and gives the lines that it said and nobody read.
    pub(crate) fn kill(&mut self) -> Vec<String> {
        // One that has ended already is as good.
        drop(self.process.kill());
        self.process.wait().unwrap();
        self.lines.iter().collect()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// How a process ended, in words.
pub(crate) fn ended(status: ExitStatus) -> String {
    status.signal().map_or_else(|| status.to_string(), |signal| format!("signal {signal}"))
}
