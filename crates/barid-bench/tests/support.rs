//! Helpers of the tests of all benches.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use barid_bench::Screen;
use barid_testkit::disk;

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
