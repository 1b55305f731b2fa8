//! `barid-bench report`: makes a page of all runs.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use barid_bench::report::{self, Options};
use barid_testkit::disk;
use clap::{Args, ValueHint};

use super::GlobalArgs;

const EXAMPLES: &str = "\
Examples:
  barid-bench report --out runs.html           of the runs under bench/runs
  barid-bench report ~/runs > runs.html        of the runs in another folder
  barid-bench report --published other.csv     with other published figures beside them

A run is a folder with the files that a bench leaves: README.md, summary.md, raw.csv or
results.json. The page is one file, loads nothing, and is the same for the same runs.

Exit status: 2 if a file of a run cannot be read as what it is; the message names file and line.";

/// Make an HTML page of all runs that were kept
///
/// Medians, spread, the fastest side of each step, bars passed and missed, as charts and tables,
/// beside the figures of published reports. Runs nothing.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct ReportArgs {
    /// The folder with a folder for each run
    #[arg(value_name = "RUNS", value_hint = ValueHint::DirPath, default_value = "bench/runs")]
    runs: PathBuf,
    /// Take the published figures from FILE
    ///
    /// Default: published.csv beside RUNS, if it exists.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    published: Option<PathBuf>,
    /// Write the page to FILE instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,
}

/// Makes the page.
pub(super) fn run(global: &GlobalArgs, args: &ReportArgs) -> anyhow::Result<ExitCode> {
    ensure!(!global.json, "the report is a page: it has no JSON");
    let options = Options { runs: args.runs.clone(), published: args.published.clone() };
    let page = report::page(&options)?;
    match &args.out {
        Some(path) => {
            disk::write(path, page.as_bytes()).with_context(|| path.display().to_string())?;
        }
        None => io::stdout().lock().write_all(page.as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}
