//! `cargo xtask crash`: the crash tests with more seeds than a test run has time for.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::args::Args;

/// The variable with the number of seeds for tests with `crash` in their names.
const SEEDS: &str = "BARID_CRASH_SEEDS";
/// The variable with the number of crash points that the writers' crash tests visit.
const POINTS: &str = "BARID_CRASH_POINTS";
/// The text before the number of crash points in the output of a test.
const MARK: &str = "crash points visited: ";
/// Least number of crash points for each writer; fewer fail the run.
const POINTS_MIN: u64 = 100_000;
/// The writers, by the names that their tests print before [`MARK`].
const WRITERS: [&str; 3] = ["mbox", "mbx", "mix"];

pub(crate) fn run(mut args: Args) -> Result<()> {
    let seeds = args.option::<u32>("--seeds")?.unwrap_or(1_000).to_string();
    let points = args.option::<u64>("--points")?.unwrap_or(POINTS_MIN);
    args.finish()?;
    let verb: &[&str] = &[
        "test",
        "--profile",
        "crash",
        "--no-fail-fast",
        "--workspace",
        "--lib",
        "--bins",
        "--tests",
    ];
    let which: &[&str] = &["--", "crash", "--include-ignored", "--nocapture"];
    let given = [verb, which].concat();
    println!("cargo {}", given.join(" "));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut child = Command::new(cargo)
        .args(&given)
        .current_dir(barid_testkit::corpora::repository())
        .env(SEEDS, seeds)
        .env(POINTS, points.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .context("cargo")?;
    let stdout = child.stdout.take().context("because it is piped")?;
    let mut visited = [0; WRITERS.len()];
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        println!("{line}");
        for (visited, writer) in visited.iter_mut().zip(WRITERS) {
            *visited += visited_in(&line, writer);
        }
    }
    if !child.wait()?.success() {
        bail!("a crash test failed");
    }
    for (visited, writer) in visited.into_iter().zip(WRITERS) {
        println!("{visited} crash points of {writer}");
        if visited < POINTS_MIN {
            bail!("that is less than {POINTS_MIN}");
        }
    }
    Ok(())
}

/// Returns the number of crash points of a writer reported in a line of output.
fn visited_in(line: &str, writer: &str) -> u64 {
    let (who, rest) = line.split_once(MARK).unwrap_or_default();
    let is_its = who.split_whitespace().next_back() == Some(writer);
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    if is_its { digits.parse().unwrap_or(0) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::visited_in;

    #[test]
    fn crash_points_are_read_from_the_output() {
        for (line, expected) in [
            ("mbx crash points visited: 120034, disks: 5", 120_034),
            ("test x ... mbx crash points visited: 7", 7),
            ("mbx crash points visited: none", 0),
            ("mix crash points visited: 7", 0),
            ("crash points visited: 7", 0),
            ("ok", 0),
        ] {
            assert_eq!(visited_in(line, "mbx"), expected, "{line}");
        }
    }
}
