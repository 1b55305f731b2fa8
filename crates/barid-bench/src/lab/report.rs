//! How a bench ends.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use barid_testkit::disk;
use serde::Serialize;

/// How a bench ended.
#[derive(Debug)]
pub struct Report<Results> {
    /// The folder with its files.
    pub folder: PathBuf,
    /// Whether it was told to stop before its last run.
    pub interrupted: bool,
    /// Everything that was measured.
    pub results: Results,
    /// The tables for people.
    pub text: String,
    /// The same for programs: JSON, a line for each side and step.
    pub json_lines: Vec<String>,
}

/// Writes a file of a bench, over that of before.
pub(crate) fn save(folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(name);
    disk::write(&path, text.as_bytes()).with_context(|| path.display().to_string())
}

/// Lines of JSON.
pub(crate) fn json_lines<T: Serialize>(lines: impl Iterator<Item = T>) -> Result<Vec<String>> {
    lines.map(|line| serde_json::to_string(&line).context("a line of JSON")).collect()
}
