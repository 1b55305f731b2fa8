//! `cargo xtask crash`: the crash tests with more seeds than a test run has time for.

use anyhow::Result;

use crate::args::Args;
use crate::install;
use crate::shell::cargo;

/// The variable in which tests with `crash` in their names find how many seeds to try.
const SEEDS: &str = "BARID_CRASH_SEEDS";

pub(crate) fn run(mut args: Args) -> Result<()> {
    let seeds = args.option::<u32>("--seeds")?.unwrap_or(1_000).to_string();
    args.finish()?;
    let verb: &[&str] = &["test", "--release", "--workspace"];
    let which: &[&str] = &["--", "crash", "--include-ignored"];
    cargo(&[verb, install::features(), which].concat(), &[(SEEDS, &seeds)])
}
