//! Helpers of the tests of all benches.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use barid_bench::Screen;
use barid_testkit::{Scratch, disk, skip_or_fail};

/// Records the output, and stops the bench at a line with the given prefix.
#[derive(Default)]
pub(crate) struct Listener<'a> {
    pub(crate) lines: Vec<String>,
    stop_at: Option<(&'a str, &'a AtomicBool)>,
}

impl<'a> Listener<'a> {
    pub(crate) fn stopping_at(line: &'a str, stop: &'a AtomicBool) -> Self {
        Self { lines: Vec::new(), stop_at: Some((line, stop)) }
    }

    /// Checks that all expected lines were printed.
    pub(crate) fn check(&self, expected: &[&str]) {
        for line in expected {
            assert!(self.lines.iter().any(|said| said == line), "{line} in {:#?}", self.lines);
        }
    }
}

impl Screen for Listener<'_> {
    fn line(&mut self, text: &str) -> io::Result<()> {
        if let Some((_, stop)) = self.stop_at.filter(|(line, _)| text.starts_with(line)) {
            stop.store(true, Ordering::Relaxed);
        }
        self.lines.push(text.to_owned());
        Ok(())
    }

    fn folder(&mut self, folder: &Path) -> io::Result<()> {
        self.line(&format!("Running in {}", folder.display()))
    }

    fn status(&mut self, _: &str) {}
}

/// Returns a program that stands in for a real one.
pub(crate) fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Returns the text of a file of a bench.
pub(crate) fn text(folder: &Path, name: &str) -> String {
    disk::read_text(&folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Checks that a text contains all expected parts.
pub(crate) fn check_parts(text: &str, expected: &[&str]) {
    for part in expected {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

/// Checks that a bench refuses its options after a change, with an error that has the part
/// `expected`.
pub(crate) fn check_refused<Options, Report>(
    options: fn(&Path) -> Options,
    change: fn(&mut Options),
    run: fn(&Options, &mut dyn Screen, &AtomicBool) -> anyhow::Result<Report>,
    expected: &str,
) {
    let scratch = Scratch::new("bench").unwrap();
    let mut options = options(&scratch.path().join("out"));
    change(&mut options);
    let ended = run(&options, &mut Listener::default(), &AtomicBool::new(false));
    let error = ended.err().unwrap_or_else(|| panic!("no error: {expected}"));
    check_parts(&format!("{error:#}"), &[expected]);
}

/// A folder in which the program `barid-bench` runs, removed when dropped.
pub(crate) struct World {
    scratch: Scratch,
}

/// The results of a run of the program.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { scratch: Scratch::new("bench").unwrap() }
    }

    /// Creates a world if the program under test is beside `barid-bench`: the tests of the whole
    /// workspace build it.
    pub(crate) fn with_barid() -> Option<Self> {
        let barid = Path::new(env!("CARGO_BIN_EXE_barid-bench")).with_file_name("barid");
        if !disk::exists(&barid) {
            skip_or_fail("the program barid (cargo build -p barid-cli)");
            return None;
        }
        Some(Self::new())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Returns the program with its own environment.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_barid-bench"));
        command
            .env_clear()
            .env("LC_ALL", "C.UTF-8")
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.scratch.path())
            .current_dir(self.scratch.path())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let Output { status, stdout, stderr } = self.command().args(args).output().unwrap();
        let code = status.code().expect("because the program is not killed");
        let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8(text).unwrap());
        Ran { code, stdout, stderr }
    }

    /// Runs the program, which must succeed without output on standard error.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let Ran { code, stdout, stderr } = self.run(args);
        assert_eq!((code, stderr.as_str()), (0, ""), "{args:?}");
        stdout
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        disk::read(&self.path(name)).unwrap()
    }

    /// Returns the names in a folder, sorted.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        let found = disk::list(&self.path(name)).unwrap();
        let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        let mut names: Vec<String> = found.iter().map(name).collect();
        names.sort();
        names
    }
}
