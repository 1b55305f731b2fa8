//! The program under test.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;
use barid_testkit::disk;
use barid_testkit::usage::Sampling;

use crate::lab::{Figures, Runner, fresh_folder};

/// Adds the options by which cache and state are in a folder.
pub(crate) fn in_folder<'a>(command: &'a mut Command, folder: &Path) -> &'a mut Command {
    command.arg("--cache-dir").arg(folder.join("cache"));
    command.arg("--state-dir").arg(folder.join("state"))
}

/// Empties the cache and the state in a folder, so that the next run is a first one.
pub(crate) fn forget(folder: &Path) -> Result<()> {
    fresh_folder(&folder.join("cache"))?;
    fresh_folder(&folder.join("state"))
}

/// Returns the bytes that cache and state in a folder take on the disk.
pub(crate) fn index_bytes(folder: &Path) -> Result<u64> {
    let bytes = |name| disk::allocated(&folder.join(name));
    Ok(bytes("cache")? + bytes("state")?)
}

/// barid with a cache and state for each of several mailboxes, which `name` selects.
#[derive(Debug)]
pub(crate) struct BaridProcess {
    pub(crate) program: PathBuf,
    pub(crate) runner: Runner,
}

impl BaridProcess {
    fn folder(&self, name: &str) -> PathBuf {
        self.runner.folder.join(format!("barid-{name}"))
    }

    fn command(&self, name: &str, words: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(&self.program);
        in_folder(&mut command, &self.folder(name)).args(words);
        command
    }

    /// Empties cache and state.
    pub(crate) fn forget(&self, name: &str) -> Result<()> {
        forget(&self.folder(name))
    }

    /// Runs the program with its output discarded, and measures it.
    pub(crate) fn run(&self, name: &str, words: &[String], sampling: Sampling) -> Result<Figures> {
        let usage = self.runner.run(&self.command(name, words), Stdio::null(), sampling)?;
        let index_bytes = index_bytes(&self.folder(name))?;
        Ok(Figures { index_bytes, ..Figures::of_process(&usage) })
    }

    /// Returns the output of the program.
    pub(crate) fn text(&self, name: &str, words: &[&str]) -> Result<String> {
        self.runner.text(&self.command(name, words), 0)
    }
}
