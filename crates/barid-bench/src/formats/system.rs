//! What each of the measured programs can be asked; one thin adapter for each.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use barid_testkit::disk;
use barid_testkit::peers::PeerUser;
use barid_testkit::usage::Sampling;

use super::answer::Answer;
use super::step::{Side, Work};
use crate::lab::Figures;

/// Called when all is prepared, just before what is measured begins.
pub(crate) type Ready<'a> = &'a mut dyn FnMut() -> Result<()>;

/// A program with a copy of the mailbox.
pub(crate) trait System {
    fn side(&self) -> Side;

    /// The files that are read when it works: its copy of the mailbox, its indexes.
    fn files(&self) -> Vec<PathBuf>;

    /// The programs that it runs, and their libraries.
    fn programs(&self) -> Vec<PathBuf>;

    /// Makes it as if the program had never seen the mailbox.
    fn reset(&mut self) -> Result<()>;

    /// Does a work in a new process, from its start to its end.
    fn run(&mut self, work: Work, sampling: Sampling, ready: Ready<'_>) -> Result<Figures>;

    /// What it answers to a work.
    fn answer(&mut self, work: Work) -> Result<Answer>;

    /// What is allocated on the disk besides the mailbox.
    fn index_bytes(&self) -> Result<u64>;
}

/// Replaces a file or folder by a copy of another one.
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

/// Gives a file or folder to the user as whom peers run.
pub(crate) fn give(path: &Path) -> Result<()> {
    let given = PeerUser::get().and_then(|user| user.take(path));
    given.with_context(|| path.display().to_string())
}

/// An error as those functions give it that are called back.
pub(crate) fn as_io(result: Result<()>) -> std::io::Result<()> {
    result.map_err(|error| std::io::Error::other(format!("{error:#}")))
}
