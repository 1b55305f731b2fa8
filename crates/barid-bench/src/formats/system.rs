//! What each of the measured programs can be asked; one thin adapter for each.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context as _, Result};
use barid_testkit::disk;
use barid_testkit::peers::PeerUser;
use barid_testkit::usage::{Sampling, Usage};

use super::answer::Answer;
use super::step::{Side, Work};
use crate::limits::READ_BUFFER_LEN;
use crate::mbox::{Figures, Runner};

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

/// Runs a command whose output goes through a pipe and is thrown away.
pub(crate) fn run_piped(runner: &Runner, command: &Command, sampling: Sampling) -> Result<Usage> {
    let (mut reader, writer) = std::io::pipe()?;
    let drain = thread::spawn(move || {
        let mut buffer = vec![0; READ_BUFFER_LEN];
        while reader.read(&mut buffer).is_ok_and(|len| len > 0) {}
    });
    let usage = runner.run(command, Stdio::from(writer), sampling);
    drain.join().expect("because reading does not panic");
    usage
}

/// Reads all files below some paths, so that they are in memory.
pub(crate) fn read_all(paths: &[PathBuf]) -> Result<()> {
    let mut waiting = paths.to_vec();
    let mut buffer = vec![0; READ_BUFFER_LEN];
    while let Some(path) = waiting.pop() {
        match disk::list(&path) {
            Ok(entries) => waiting.extend(entries),
            Err(_) if !disk::is_file(&path) => {}
            Err(_) => {
                let mut file = disk::open(&path).with_context(|| path.display().to_string())?;
                while file.read(&mut buffer).with_context(|| path.display().to_string())? > 0 {}
            }
        }
    }
    Ok(())
}

/// A program and its libraries, as far as `ldd` tells them.
pub(crate) fn with_libraries(program: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(program).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let libraries = text.split_ascii_whitespace().filter(|word| word.starts_with('/'));
    std::iter::once(program.to_owned()).chain(libraries.map(PathBuf::from)).collect()
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
