//! NeoMutt, on its own terminal.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use barid_testkit::disk;
use barid_testkit::peers::{NeoMuttRun, NeoMuttSettings};
use barid_testkit::usage::Sampling;

use crate::lab::{Launcher, command_line, failure, read_launched};
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

    /// Returns `true` if it has both the store and the compression; `None` is no compression.
    pub(crate) fn has(&self, store: &str, method: Option<&str>) -> bool {
        let has_method = |name: &str| self.methods.iter().any(|method| method == name);
        self.stores.iter().any(|own| own == store) && method.is_none_or(has_method)
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

/// A NeoMutt that is started anew for each run.
#[derive(Debug)]
pub(crate) struct NeoMuttProcess {
    pub(crate) program: PathBuf,
    pub(crate) launcher: Launcher,
}

impl NeoMuttProcess {
    /// Writes the configuration into a folder and returns the command that starts NeoMutt with it.
    pub(crate) fn command(&self, settings: &NeoMuttSettings<'_>, folder: &Path) -> Result<Command> {
        let command = settings.command(&self.program, &folder.join("neomuttrc"));
        let mut command = command.with_context(|| folder.display().to_string())?;
        command.env("HOME", folder);
        Ok(command)
    }

    /// Runs NeoMutt to its end and measures it. If it fails, its screen is left in the folder.
    pub(crate) fn start(
        &self,
        settings: &NeoMuttSettings<'_>,
        folder: &Path,
        sampling: Sampling,
    ) -> Result<NeoMuttRun> {
        let command = self.command(settings, folder)?;
        let line = command_line(&command);
        let report = folder.join("usage");
        let command = self.launcher.wrap(&command, &report, NEOMUTT_DEADLINE, sampling);
        let mut run = NeoMuttRun::of(command, Sampling::Off).with_context(|| line.clone())?;
        run.usage = read_launched(&report).with_context(|| line.clone())?.usage;
        if !run.usage.status.success() {
            let screen = folder.join("screen");
            disk::write(&screen, run.screen.as_bytes())
                .with_context(|| screen.display().to_string())?;
            return Err(failure(&line, &run.usage, &screen));
        }
        Ok(run)
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
        assert!(build.has("lmdb", None) && build.has("lmdb", Some("zstd")));
        assert!(!build.has("tdb", None) && !build.has("lmdb", Some("gzip")));
    }

    #[test]
    fn a_build_without_compression_has_none() {
        let build = Build::parse("NeoMutt 1\nstorage: tokyocabinet\n\nConfigure options: --lz4\n");
        assert!(build.has("tokyocabinet", None));
        assert!(!build.has("tokyocabinet", Some("lz4")));
        assert_eq!(
            Build::parse("something else"),
            Build { version: "something else".into(), ..Build::default() }
        );
    }
}
