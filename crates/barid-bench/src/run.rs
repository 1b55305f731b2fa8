//! What every bench does: it is told to stop, says how much is left, makes folders, runs commands.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use barid_testkit::disk;
use barid_testkit::usage::Usage;

/// The bench was told to stop.
#[derive(Debug)]
pub(crate) struct Stopped;

impl std::fmt::Display for Stopped {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("interrupted")
    }
}

impl std::error::Error for Stopped {}

/// Whether a bench was told to stop; an error that ended it otherwise tells where the rest is.
pub(crate) fn is_interrupted(ended: Result<()>, folder: &Path) -> Result<bool> {
    match ended {
        Ok(()) => Ok(false),
        Err(error) if error.is::<Stopped>() => Ok(true),
        Err(error) => {
            let kept = format!("what was measured before is in {}", folder.display());
            Err(error.context(kept))
        }
    }
}

/// A folder that is removed with everything in it.
pub(crate) struct Litter(pub(crate) PathBuf);

impl Litter {
    pub(crate) fn new(folder: PathBuf) -> Result<Self> {
        disk::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self(folder))
    }
}

impl Drop for Litter {
    fn drop(&mut self) {
        // What cannot be removed is litter, not a failure.
        drop(disk::remove_tree(&self.0));
    }
}

/// A result, or [`Stopped`]: a run that ends while the bench is being stopped counts for nothing,
/// as the signal reached it as well.
pub(crate) fn stoppable<T>(stop: &AtomicBool, result: Result<T>) -> Result<T> {
    if stop.load(Ordering::Relaxed) { Err(Stopped.into()) } else { result }
}

/// How long the rest may take.
pub(crate) fn left(elapsed: Duration, done: usize, total: usize) -> String {
    if done == 0 {
        return String::new();
    }
    let seconds = elapsed.as_secs_f64() / done as f64 * total.saturating_sub(done) as f64;
    match seconds {
        _ if seconds < 90.0 => format!(", about {seconds:.0} s left"),
        _ if seconds < 5400.0 => format!(", about {:.0} min left", seconds / 60.0),
        _ => format!(", about {:.1} h left", seconds / 3600.0),
    }
}

/// Makes the kernel forget all it has read.
pub(crate) fn drop_caches() -> Result<()> {
    disk::drop_caches().context(
        "the kernel's caches cannot be dropped: that takes the right to write \
         /proc/sys/vm/drop_caches, usually root's",
    )
}

/// A new folder for a bench, or an empty one that was named.
pub(crate) fn make_folder(name: &str, out: Option<&Path>) -> Result<PathBuf> {
    let (parent, process) = (std::env::temp_dir(), std::process::id());
    let numbered = (0..).map(|n| parent.join(format!("barid-bench-{name}-{process}-{n}")));
    let mut candidates = numbered.take_while(|_| out.is_none());
    let folder = match out {
        Some(folder) => {
            let is_free = !disk::exists(folder) || disk::list(folder).is_ok_and(|l| l.is_empty());
            ensure!(is_free, "{}: not an empty folder", folder.display());
            std::path::absolute(folder)?
        }
        None => candidates.find(|path| !disk::exists(path)).context("no name is free")?,
    };
    match disk::create_dir_all(&folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            bail!("{}: {error}", folder.display())
        }
        other => other.with_context(|| folder.display().to_string())?,
    }
    Ok(folder)
}

/// An empty folder in place of whatever was there.
pub(crate) fn fresh_folder(path: &Path) -> Result<()> {
    if disk::exists(path) {
        disk::remove_tree(path).map_err(|error| anyhow!("{}: {error}", path.display()))?;
    }
    disk::create_dir_all(path).map_err(|error| anyhow!("{}: {error}", path.display()))
}

/// The error of a command that did not end well, with the file of what it printed.
pub(crate) fn failure(line: &str, usage: &Usage, output: &Path) -> anyhow::Error {
    let printed = disk::read_text(output).unwrap_or_default();
    let first = printed.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
    let first: String = first.chars().filter(|c| !c.is_control()).collect();
    anyhow!("{line}: {}; it printed to {}: {first}", usage.status, output.display())
}

/// A command as it is typed.
pub(crate) fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| quoted(&word.to_string_lossy())).collect();
    words.join(" ")
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_=/.,:+%@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// What a program's `--version` prints.
pub(crate) fn version(program: &Path) -> Result<String> {
    let output = Command::new(program).arg("--version").output();
    let output = output.with_context(|| program.display().to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    ensure!(!text.is_empty(), "{}: does not tell its version", program.display());
    Ok(text)
}

/// `1 run`, `1,234 runs`.
pub(crate) fn counted(number: u64, name: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {name}{plural}", grouped(number))
}

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let chunks = digits.as_bytes().rchunks(3).rev().map(|chunk| String::from_utf8_lossy(chunk));
    chunks.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_rounded() {
        let check = |seconds, done, total, expected| {
            assert_eq!(left(Duration::from_secs(seconds), done, total), expected);
        };
        check(9, 0, 5, "");
        check(9, 3, 5, ", about 6 s left");
        check(60, 1, 5, ", about 4 min left");
        check(3600, 1, 5, ", about 4.0 h left");
    }

    #[test]
    fn command_lines_can_be_pasted() {
        let mut command = Command::new("a/b");
        command.args(["--x=1", "my mail", "it's", ""]);
        assert_eq!(command_line(&command), "a/b --x=1 'my mail' 'it'\\''s' ''");
    }

    #[test]
    fn numbers_are_grouped() {
        let check = |number, expected| assert_eq!(grouped(number), expected);
        check(0, "0");
        check(999, "999");
        check(1_234_567, "1,234,567");
        assert_eq!(counted(1, "run"), "1 run");
        assert_eq!(counted(1200, "run"), "1,200 runs");
    }
}
