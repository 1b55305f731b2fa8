//! NeoMutt, on its own terminal.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use barid_testkit::disk;
use barid_testkit::peers::{NeoMuttEnd, NeoMuttRun, NeoMuttSettings};
use barid_testkit::usage::Sampling;

use super::key::{Key, Work};
use super::method::Method;
use super::system::System;
use crate::lab::{Figures, Launcher, command_line, failure, fresh_folder, read_launched};
use crate::limits::NEOMUTT_DEADLINE;

/// Version and compiled-in features of a NeoMutt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Build {
    /// Name and version.
    pub(crate) version: String,
    /// The stores of its header cache.
    pub(crate) stores: Vec<String>,
    /// The compressions of records.
    pub(crate) methods: Vec<String>,
}

impl Build {
    /// Runs `neomutt -v` and parses its output.
    pub(crate) fn of(program: &Path) -> Result<Self> {
        let line = format!("{} -v", program.display());
        let output = Command::new(program).arg("-v").output().with_context(|| line.clone())?;
        let build = Self::parse(&String::from_utf8_lossy(&output.stdout));
        ensure!(!build.stores.is_empty(), "{line}: names no storage, so it has no header cache");
        Ok(build)
    }

    /// Parses the output of `neomutt -v`.
    fn parse(text: &str) -> Self {
        let text = without_escapes(text);
        let list = |name: &str| {
            let found = text.lines().find_map(|line| line.trim().strip_prefix(name));
            let words = found.unwrap_or_default().split([',', ' ']).filter(|word| !word.is_empty());
            words.map(str::to_owned).collect()
        };
        Self {
            version: text.lines().next().unwrap_or_default().trim().to_owned(),
            stores: list("storage:"),
            methods: list("compression:"),
        }
    }

    /// Returns `true` if it has both the store and the compression.
    pub(crate) fn has(&self, store: &str, method: Method) -> bool {
        let has_method = |name: &str| self.methods.iter().any(|method| method == name);
        self.stores.iter().any(|own| own == store)
            && (method.is_none() || has_method(method.of_neomutt().name()))
    }
}

/// Removes terminal control sequences: `ESC [ ... letter`.
fn without_escapes(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(
            part.trim_start_matches(|c: char| !c.is_ascii_alphabetic())
                .get(1..)
                .unwrap_or_default(),
        );
    }
    plain
}

/// NeoMutt on one Maildir.
#[derive(Debug)]
pub(crate) struct NeoMutt {
    pub(crate) program: PathBuf,
    pub(crate) maildir: PathBuf,
    /// The folder for the caches of this bench.
    pub(crate) folder: PathBuf,
    pub(crate) launcher: Launcher,
}

impl NeoMutt {
    fn place(&self, key: &Key) -> PathBuf {
        self.folder.join(key.file_name())
    }

    fn start(&self, key: &Key, end: NeoMuttEnd, sampling: Sampling) -> Result<NeoMuttRun> {
        let place = self.place(key);
        let command = self.command(key, end)?;
        let line = command_line(&command);
        let report = place.join("usage");
        let command = self.launcher.wrap(&command, &report, NEOMUTT_DEADLINE, sampling);
        let mut run = NeoMuttRun::of(command, Sampling::Off).with_context(|| line.clone())?;
        run.usage = read_launched(&report).with_context(|| line.clone())?.usage;
        if !run.usage.status.success() {
            let screen = place.join("screen");
            disk::write(&screen, run.screen.as_bytes())
                .with_context(|| screen.display().to_string())?;
            return Err(failure(&line, &run.usage, &screen));
        }
        Ok(run)
    }

    /// Writes the configuration of a setup and returns the command that starts it.
    pub(crate) fn command(&self, key: &Key, end: NeoMuttEnd) -> Result<Command> {
        let place = self.place(key);
        let rc = place.join("neomuttrc");
        let command = self.settings(key, |settings| {
            NeoMuttSettings { end, ..settings.clone() }.command(&self.program, &rc)
        });
        let mut command = command.with_context(|| place.display().to_string())?;
        command.env("HOME", &place);
        Ok(command)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_read() {
        let text = "NeoMutt 20220429\nCopyright\n\nlibidn: 1.41\n\
                    \x1b[1mstorage:\x1b[0m tokyocabinet, lmdb\ncompression: lz4, zlib, zstd\n";
        let build = Build::parse(text);
        assert_eq!(build.version, "NeoMutt 20220429");
        assert_eq!(build.stores, ["tokyocabinet", "lmdb"]);
        assert_eq!(build.methods, ["lz4", "zlib", "zstd"]);
        let has = |store, method| build.has(store, Method::parse(method).unwrap());
        assert!(has("lmdb", "none") && has("lmdb", "zstd+dict:3") && !has("tdb", "none"));
    }

    #[test]
    fn a_build_without_compression_has_none() {
        let build = Build::parse("NeoMutt 1\nstorage: tokyocabinet\n\nConfigure options: --lz4\n");
        assert!(build.has("tokyocabinet", Method::NONE));
        assert!(!build.has("tokyocabinet", Method::parse("lz4").unwrap()));
        assert_eq!(
            Build::parse("something else"),
            Build { version: "something else".into(), ..Build::default() }
        );
    }
}
