//! Comparison of two listings.

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use barid_testkit::disk;

use crate::limits::{COMPARE_BUFFER_LEN, LINE_SHOWN_MAX};

/// Compares two files line by line and returns the number of lines.
///
/// # Errors
///
/// Returns an error that names both files and the first line that differs.
pub(super) fn compare(one: &Path, other: &Path) -> Result<u64> {
    let open = |path: &Path| {
        let file = disk::open(path).with_context(|| path.display().to_string())?;
        anyhow::Ok(BufReader::with_capacity(COMPARE_BUFFER_LEN, file))
    };
    let (mut ours, mut theirs) = (open(one)?, open(other)?);
    let (mut our_line, mut their_line) = (Vec::new(), Vec::new());
    for lines in 0.. {
        our_line.clear();
        their_line.clear();
        ours.read_until(b'\n', &mut our_line)?;
        theirs.read_until(b'\n', &mut their_line)?;
        if our_line != their_line {
            bail!(
                "{} and {} differ in line {}: {} instead of {}",
                one.display(),
                other.display(),
                lines + 1,
                shown(&our_line),
                shown(&their_line)
            );
        }
        if our_line.is_empty() {
            return Ok(lines);
        }
    }
    unreachable!("because the lines are counted without an end")
}

/// Returns the printable beginning of a line.
fn shown(line: &[u8]) -> String {
    if line.is_empty() {
        return "the end".to_owned();
    }
    let text = String::from_utf8_lossy(&line[..line.len().min(LINE_SHOWN_MAX)]);
    text.trim_end().chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use barid_testkit::Scratch;

    fn check(one: &str, other: &str, expected: Result<u64, &str>) {
        let scratch = Scratch::new("bench-compare").unwrap();
        let paths = ["one", "other"].map(|name| scratch.path().join(name));
        disk::write(&paths[0], one.as_bytes()).unwrap();
        disk::write(&paths[1], other.as_bytes()).unwrap();
        match (compare(&paths[0], &paths[1]), expected) {
            (Ok(lines), Ok(expected)) => assert_eq!(lines, expected),
            (Err(error), Err(expected)) => {
                assert!(error.to_string().ends_with(expected), "{error}");
            }
            (result, _) => panic!("{result:?} for {one:?} and {other:?}"),
        }
    }

    #[test]
    fn the_first_difference_is_named() {
        check("", "", Ok(0));
        check("a\nb\n", "a\nb\n", Ok(2));
        check("a\nb\n", "a\nc\n", Err("differ in line 2: b instead of c"));
        check("a\n", "a\nc\n", Err("differ in line 2: the end instead of c"));
        check("a", "a\n", Err("differ in line 1: a instead of a"));
    }
}
