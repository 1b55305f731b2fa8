//! The program under test, as a separate process.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use barid_testkit::disk;
use barid_testkit::usage::{Sampling, Usage};

use super::compare::compare;
use super::key::{Key, Work};
use super::system::System;
use crate::lab::{Figures, Launcher, command_line, failure, fresh_folder};
use crate::limits::RUN_DEADLINE;

/// The arguments that list the newest page.
const PAGE: [&str; 5] = ["ls", "--sort", "date", "--limit", "50"];

/// barid on one mailbox.
#[derive(Debug)]
pub(crate) struct Barid {
    pub(crate) program: PathBuf,
    pub(crate) maildir: PathBuf,
    /// The folder for the caches of this bench.
    pub(crate) folder: PathBuf,
    pub(crate) launcher: Launcher,
}

impl Barid {
    /// Returns the smallest peak of resident memory that can be measured, in bytes.
    pub(crate) fn floor(&self) -> Result<u64> {
        let mut command = Command::new(&self.program);
        let report = self.folder.join("usage");
        command.arg("--version");
        let mut command = self.launcher.wrap(&command, &report, RUN_DEADLINE, Sampling::Off);
        let launched = self.launcher.run(command.stdout(Stdio::null()), &report)?;
        Ok(launched.floor)
    }

    fn place(&self, key: &Key) -> PathBuf {
        self.folder.join(key.file_name())
    }

    /// Returns the program with cache and state of this setup. It does not write to the mailbox.
    fn command(&self, key: &Key, is_cached: bool, words: &[&str]) -> Command {
        let place = self.place(key);
        let mut command = Command::new(&self.program);
        if is_cached {
            command.arg("--cache-dir").arg(place.join("cache"));
        } else {
            command.arg("--no-cache");
        }
        command.arg("--state-dir").arg(place.join("state")).arg("--read-only").args(words);
        command.arg(&self.maildir);
        command
    }

    /// Returns the command for an operation.
    pub(crate) fn work(&self, key: &Key, work: Work) -> Command {
        match work {
            Work::Populate => {
                let (choice, method) = (key.choice(), key.method.to_string());
                let words = ["--store", &choice, "--compress", &method, "cache", "populate"];
                self.command(key, true, &words)
            }
            Work::Reload => self.command(key, true, &["ls"]),
            Work::Page => self.command(key, true, &PAGE),
        }
    }

    /// Runs a command to completion with `stdout` as its output.
    fn measure(
        &self,
        key: &Key,
        command: &Command,
        stdout: Stdio,
        sampling: Sampling,
    ) -> Result<Usage> {
        let line = command_line(command);
        let place = self.place(key);
        let (errors, report) = (place.join("stderr"), place.join("usage"));
        let file = disk::create(&errors).with_context(|| errors.display().to_string())?;
        let mut command = self.launcher.wrap(command, &report, RUN_DEADLINE, sampling);
        command.stdin(Stdio::null()).stdout(stdout).stderr(file);
        let launched = self.launcher.run(&mut command, &report);
        let usage = launched.with_context(|| line.clone())?.usage;
        if !usage.status.success() {
            return Err(failure(&line, &usage, &errors));
        }
        Ok(usage)
    }

    /// Lists all messages as JSON into a file, and returns the file.
    fn list(&self, key: &Key, is_cached: bool) -> Result<PathBuf> {
        let name = if is_cached { "cached.jsonl" } else { "uncached.jsonl" };
        let path = self.place(key).join(name);
        let file = disk::create(&path).with_context(|| path.display().to_string())?;
        let command = self.command(key, is_cached, &["ls", "--json"]);
        self.measure(key, &command, file.into(), Sampling::Off)?;
        Ok(path)
    }
}

impl System for Barid {
    fn forget(&self, key: &Key) -> Result<()> {
        let place = self.place(key);
        fresh_folder(&place.join("cache"))?;
        fresh_folder(&place.join("state"))
    }

    fn run(&self, key: &Key, work: Work, sampling: Sampling) -> Result<Figures> {
        let usage = self.measure(key, &self.work(key, work), Stdio::null(), sampling)?;
        let cache = self.place(key).join("cache");
        let bytes = disk::allocated(&cache).with_context(|| cache.display().to_string())?;
        Ok(Figures { index_bytes: bytes, ..Figures::of_process(&usage) })
    }

    /// Checks that the listing through the cache is byte for byte the one without a cache.
    fn check(&self, key: &Key) -> Result<u64> {
        let (cached, uncached) = (self.list(key, true)?, self.list(key, false)?);
        let lines = compare(&cached, &uncached)?;
        remove(&[&cached, &uncached])?;
        Ok(lines)
    }
}

fn remove(paths: &[&Path]) -> Result<()> {
    paths
        .iter()
        .try_for_each(|path| disk::remove_file(path).with_context(|| path.display().to_string()))
}
