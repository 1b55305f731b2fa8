//! The interface of the measured programs; each has a thin adapter.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use barid_testkit::disk;
use barid_testkit::peers::PeerUser;
use barid_testkit::usage::Sampling;

use super::step::{Side, Work};
use crate::lab::Figures;
use crate::systems::answer::Answer;

/// Called when all is prepared, just before the measurement starts.
pub(crate) type Ready<'a> = &'a mut dyn FnMut() -> Result<()>;

/// A program with its copy of the mailbox.
pub(crate) trait System {
    fn side(&self) -> Side;

    /// Returns the files that the program reads: its copy of the mailbox and its indexes.
    fn files(&self) -> Vec<PathBuf>;

    /// Returns the programs that it runs, and their libraries.
    fn programs(&self) -> Vec<PathBuf>;

    /// Restores the state before the program first saw the mailbox.
    fn reset(&mut self) -> Result<()>;

    /// Runs an operation in a new process and measures it from start to end.
    fn run(&mut self, work: Work, sampling: Sampling, ready: Ready<'_>) -> Result<Figures>;

    /// Returns the program's answer to an operation.
    fn answer(&mut self, work: Work) -> Result<Answer>;

    /// Returns the bytes allocated on the disk besides the mailbox.
    fn index_bytes(&self) -> Result<u64>;
}

/// Replaces a file or folder with a copy of another one.
pub(crate) fn restore(from: &Path, to: &Path) -> Result<()> {
    let at = || to.display().to_string();
    if disk::list(to).is_ok() {
        disk::remove_tree(to).with_context(at)?;
    } else if disk::exists(to) {
        disk::remove_file(to).with_context(at)?;
    }
    if let Some(folder) = to.parent() {
        disk::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    copy_tree(from, to)
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    let mut waiting = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = waiting.pop() {
        match disk::list(&from) {
            Ok(entries) => {
                disk::create_dir_all(&to).with_context(|| to.display().to_string())?;
                for entry in entries {
                    let name = entry.file_name().context("a file has a name")?;
                    waiting.push((entry.clone(), to.join(name)));
                }
            }
            Err(_) => {
                disk::copy(&from, &to).with_context(|| from.display().to_string())?;
            }
        }
    }
    Ok(())
}

/// Gives a file or folder to the user that peers run as.
pub(crate) fn give(path: &Path) -> Result<()> {
    let given = PeerUser::get().and_then(|user| user.take(path));
    given.with_context(|| path.display().to_string())
}

/// Converts an error for functions that take callbacks with I/O errors.
pub(crate) fn as_io(result: Result<()>) -> std::io::Result<()> {
    result.map_err(|error| std::io::Error::other(format!("{error:#}")))
}
