//! NeoMutt's header caches.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use barid_testkit::disk;
use barid_testkit::peers::{NeoMuttEnd, NeoMuttRun, NeoMuttSettings};
use barid_testkit::usage::Sampling;

use super::key::{Key, Work};
use super::system::System;
use crate::lab::{Figures, fresh_folder};
use crate::systems::neomutt::NeoMuttProcess;

/// NeoMutt on one Maildir.
#[derive(Debug)]
pub(crate) struct NeoMutt {
    pub(crate) process: NeoMuttProcess,
    pub(crate) maildir: PathBuf,
    /// The folder for the caches of this bench.
    pub(crate) folder: PathBuf,
}

impl NeoMutt {
    fn place(&self, key: &Key) -> PathBuf {
        self.folder.join(key.file_name())
    }

    fn start(&self, key: &Key, end: NeoMuttEnd, sampling: Sampling) -> Result<NeoMuttRun> {
        self.settings(key, |settings| {
            let settings = NeoMuttSettings { end, ..settings.clone() };
            self.process.start(&settings, &self.place(key), sampling)
        })
    }

    /// Writes the configuration of a setup and returns the command that starts it.
    pub(crate) fn command(&self, key: &Key, end: NeoMuttEnd) -> Result<Command> {
        self.settings(key, |settings| {
            let settings = NeoMuttSettings { end, ..settings.clone() };
            self.process.command(&settings, &self.place(key))
        })
    }

    /// Calls `work` with NeoMutt's settings for a setup.
    pub(crate) fn settings<T>(&self, key: &Key, work: impl FnOnce(&NeoMuttSettings<'_>) -> T) -> T {
        work(&NeoMuttSettings {
            maildir: &self.maildir,
            cache: &self.place(key).join("cache"),
            store: &key.store,
            compression: key.method.neomutt_setting(),
            end: NeoMuttEnd::Leave,
        })
    }
}

impl System for NeoMutt {
    fn forget(&self, key: &Key) -> Result<()> {
        fresh_folder(&self.place(key).join("cache"))
    }

    fn run(&self, key: &Key, _: Work, sampling: Sampling) -> Result<Figures> {
        let run = self.start(key, NeoMuttEnd::Leave, sampling)?;
        let cache = self.place(key).join("cache");
        let bytes = disk::allocated(&cache).with_context(|| cache.display().to_string())?;
        Ok(Figures { index_bytes: bytes, ..Figures::of_process(&run.usage) })
    }

    /// Checks that NeoMutt has made a database, and returns its number of messages.
    fn check(&self, key: &Key) -> Result<u64> {
        let cache = self.place(key).join("cache");
        let files = disk::list_files(&cache).with_context(|| cache.display().to_string())?;
        let is_filled = |path: &PathBuf| disk::size(path).is_ok_and(|size| size > 0);
        ensure!(files.iter().any(is_filled), "NeoMutt has left no database in {}", cache.display());
        let run = self.start(key, NeoMuttEnd::Count, Sampling::Off)?;
        run.messages.map(u64::from).context("NeoMutt does not say how many messages there are")
    }
}
