//! Runs other programs.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// Runs `cargo` in the repository, with its output going to the terminal.
pub(crate) fn cargo(args: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(args).envs(variables.iter().copied());
    command.current_dir(barid_testkit::corpora::repository());
    let status = command.status().with_context(|| format!("cargo {}", args.join(" ")))?;
    if !status.success() {
        bail!("failed: cargo {}", args.join(" "));
    }
    Ok(())
}

/// Runs a step under a heading, and prints how long it took.
pub(crate) fn step(name: &str, run: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("== {name}");
    let start = Instant::now();
    run()?;
    println!("== {name}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}
