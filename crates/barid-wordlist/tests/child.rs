//! This program again as another process, which may be killed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, ExitStatus, Stdio};

/// Names the job of a child, and its arguments, one a line.
const JOB: &str = "BARID_WORDLIST_JOB";
/// What begins a line that is meant for the parent; the test harness writes others.
const MARK: char = '\u{1}';

/// Does something with its arguments.
type Job = fn(&[&str]);
/// The jobs there are.
const JOBS: &[(&str, Job)] = &[
    ("train", crate::processes::child_trains),
    ("read", crate::processes::child_reads),
    ("count", crate::processes::child_counts),
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
    lines: std::thread::JoinHandle<Vec<String>>,
}

impl Child {
    pub(crate) fn spawn(job: &str, args: &[&str]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["child::entry", "--exact", "--nocapture", "--test-threads=1"]);
        command.env(JOB, [&[job], args].concat().join("\n"));
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        let lines = std::thread::spawn(move || {
            let lines = out.lines().map_while(Result::ok);
            lines.filter_map(|line| Some(line.split_once(MARK)?.1.to_owned())).collect()
        });
        Self { process, lines }
    }

    /// Waits until it ends; what it said.
    pub(crate) fn finish(mut self) -> (ExitStatus, Vec<String>) {
        let status = self.process.wait().unwrap();
        (status, self.lines.join().unwrap())
    }

    /// Kills it at once; what it had said.
    pub(crate) fn kill(mut self) -> Vec<String> {
        // One that has ended already is as good.
        drop(self.process.kill());
        self.finish().1
    }
}
