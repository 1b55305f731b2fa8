//! One HTML page of all runs under `bench/runs`: who was faster, by how much, which bars were
//! missed, and the figures of the published reports beside them.
//!
//! The page is one file that loads nothing. Equal input gives equal bytes.

mod chart;
mod csv;
mod html;
mod input;
mod markdown;
mod medians;
mod page;
mod published;
mod run_folder;
mod samples;

use std::path::{Path, PathBuf};

use anyhow::Result;

/// The files that the page is made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder with a folder for each run.
    pub runs: PathBuf,
    /// The published figures; `None` for `published.csv` beside the folder of runs, if it exists.
    pub published: Option<PathBuf>,
}

/// Returns the page. Reads every file of the runs once; the page is about as long as they are.
///
/// # Errors
///
/// Returns an error that names the file, and the line where there is one, if a file cannot be read,
/// is too large, is not UTF-8, or is not such a table as a bench leaves.
pub fn page(options: &Options) -> Result<String> {
    let runs = run_folder::read_all(&options.runs)?;
    let published = match &options.published {
        Some(path) => published::read(path)?,
        None => match beside(&options.runs) {
            Some(path) => published::read(&path)?,
            None => Vec::new(),
        },
    };
    page::render(&runs, &published)
}

/// Returns the file of published figures beside a folder of runs, if it exists.
fn beside(runs: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(runs).ok()?.with_file_name("published.csv");
    barid_testkit::disk::is_file(&path).then_some(path)
}
