//! `cargo xtask fuzz`: the targets of `barid-fuzz` for as long as wanted.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use barid_testkit::corpora;

use crate::args::Args;
use crate::shell::cargo;

/// The text between a target and the number of an input in the output.
const MARK: &str = ": input ";

pub(crate) fn run(args: Args) -> Result<()> {
    let words = args.rest();
    cargo(&["build", "--quiet", "--profile", "fuzz", "--package", "barid-fuzz"], &[])?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some((target, number)) = fuzz(&words)? else { return Ok(()) };
    // An abort, such as that of a stack that overflows, cannot be caught: find its input.
    println!("{target}: the process ended at input {number} or soon after it");
    let first = number.to_string();
    match fuzz(&[&target, "--first", &first, "--each", "--seconds", "60"])? {
        None => bail!("{target}: from input {first} on, it did not happen again"),
        Some((_, number)) => {
            let number = number.to_string();
            drop(fuzz(&[&target, "--save", &number])?);
            bail!("{target}: input {number} ends the process");
        }
    }
}

/// Runs the program. Returns the last target and number that it reported if a signal ended it.
fn fuzz(words: &[&str]) -> Result<Option<(String, u64)>> {
    let program = corpora::target_folder().join("fuzz/barid-fuzz");
    let mut child = Command::new(&program)
        .args(words)
        .current_dir(corpora::repository())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| program.display().to_string())?;
    let stdout = child.stdout.take().context("because it is piped")?;
    let mut last = None;
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        let number = number_in(&line);
        if number.is_none() || !words.contains(&"--each") {
            println!("{line}");
        }
        last = number.or(last);
    }
    let status = child.wait()?;
    match (status.success(), status.code(), last) {
        (true, _, _) => Ok(None),
        (false, None, Some(last)) => Ok(Some(last)),
        (false, _, _) => bail!("a target failed"),
    }
}

/// Returns the target and the number of an input in a line of output.
fn number_in(line: &str) -> Option<(String, u64)> {
    let (target, number) = line.split_once(MARK).or_else(|| line.split_once(": from input "))?;
    Some((target.to_owned(), number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::number_in;

    #[test]
    fn numbers_are_read_from_the_output() {
        let check = |line: &str, expected| assert_eq!(number_in(line), expected, "{line}");
        check("dates: input 17", Some(("dates".to_owned(), 17)));
        check("dates: from input 9", Some(("dates".to_owned(), 9)));
        check("dates: input 17: Panic(\"x\")", None);
        check("dates: 20 inputs, the slowest 3 with 1ms", None);
    }
}
