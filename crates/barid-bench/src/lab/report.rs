//! The outcome of a bench.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use barid_testkit::disk;
use serde::Serialize;

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

/// Writes a file of a bench, replacing an earlier one.
pub(crate) fn save(folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(name);
    disk::write(&path, text.as_bytes()).with_context(|| path.display().to_string())
}

/// Serializes each item as a line of JSON.
pub(crate) fn json_lines<T: Serialize>(lines: impl Iterator<Item = T>) -> Result<Vec<String>> {
    lines.map(|line| serde_json::to_string(&line).context("a line of JSON")).collect()
}
