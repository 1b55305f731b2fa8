//! What each of the measured programs can be asked; one thin adapter for each.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, anyhow};
use barid_testkit::disk;
use barid_testkit::usage::{Sampling, Usage};

use super::key::{Key, Work};
use crate::Figures;

/// A program that keeps a header cache.
pub(crate) trait System {
    /// Removes everything that the program keeps of the mailbox, so that it begins anew.
    fn forget(&self, key: &Key) -> Result<()>;

    /// Does a work once.
    fn run(&self, key: &Key, work: Work, sampling: Sampling) -> Result<Figures>;

    /// Makes sure, after it has populated, that its answers are right; tells how many messages
    /// it sees.
    fn check(&self, key: &Key) -> Result<u64>;
}

/// An empty folder in place of whatever was there.
pub(super) fn fresh_folder(path: &Path) -> Result<()> {
    if disk::exists(path) {
        disk::remove_tree(path).map_err(|error| anyhow!("{}: {error}", path.display()))?;
    }
    disk::create_dir_all(path).map_err(|error| anyhow!("{}: {error}", path.display()))
}

/// The error of a command that did not end well, with the file of what it printed.
pub(super) fn failure(line: &str, usage: &Usage, output: &Path) -> anyhow::Error {
    let printed = disk::read_text(output).unwrap_or_default();
    let first = printed.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
    let first: String = first.chars().filter(|c| !c.is_control()).collect();
    anyhow!("{line}: {}; it printed to {}: {first}", usage.status, output.display())
}

/// A command as it is typed.
pub(super) fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| quoted(&word.to_string_lossy())).collect();
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_=/.,:+%@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_can_be_pasted() {
        let mut command = Command::new("a/b");
        command.args(["--x=1", "my mail", "it's", ""]);
        assert_eq!(command_line(&command), "a/b --x=1 'my mail' 'it'\\''s' ''");
    }
}
