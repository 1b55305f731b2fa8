//! The outcome of a bench.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use barid_testkit::disk;
use serde::Serialize;

use super::{Facts, is_interrupted};

/// The outcome of a bench.
#[derive(Debug)]
pub struct Report<Results> {
    /// The folder with the bench's files.
    pub folder: PathBuf,
    /// `true` if the bench was stopped before its last run.
    pub interrupted: bool,
    /// Everything measured.
    pub results: Results,
    /// The tables for people.
    pub text: String,
    /// The same as JSON lines for programs, one for each side and step.
    pub json_lines: Vec<String>,
}

/// The results of a bench whose files and tables are made of them alone.
pub(crate) trait Reported: Sized {
    /// Returns all runs as CSV.
    fn raw(&self) -> String;

    /// Returns the page for people.
    fn summary(&self, facts: &Facts, complete: bool) -> String;

    /// Returns the most important tables for people.
    fn text(&self) -> String;

    /// Returns the JSON lines, one for each side and step.
    fn json_lines(&self) -> Result<Vec<String>>;

    /// Writes all files, replacing earlier ones.
    fn write(&self, folder: &Path, facts: &Facts, complete: bool) -> Result<()> {
        save(folder, "raw.csv", &self.raw())?;
        save(folder, "summary.md", &self.summary(facts, complete))
    }

    /// Runs all rounds with `run`, and writes the files after each of them and at the end.
    fn report(
        mut self,
        folder: PathBuf,
        facts: &Facts,
        run: impl FnOnce(&mut Self, &mut dyn FnMut(&Self) -> Result<()>) -> Result<()>,
    ) -> Result<Report<Self>> {
        let ended = run(&mut self, &mut |results| results.write(&folder, facts, false));
        self.write(&folder, facts, ended.is_ok())?;
        let interrupted = is_interrupted(ended, &folder)?;
        let (text, json_lines) = (self.text(), self.json_lines()?);
        Ok(Report { folder, interrupted, results: self, text, json_lines })
    }
}

/// Writes a file of a bench, replacing an earlier one.
pub(crate) fn save(folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(name);
    disk::write(&path, text.as_bytes()).with_context(|| path.display().to_string())
}

/// Serializes each item as a line of JSON.
pub(crate) fn json_lines<T: Serialize>(lines: impl Iterator<Item = T>) -> Result<Vec<String>> {
    lines.map(|line| serde_json::to_string(&line).context("a line of JSON")).collect()
}
