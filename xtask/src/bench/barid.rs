//! The program under test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use barid_testkit::disk;
use barid_testkit::usage::{Sampling, Usage, measure};

use super::world::World;

/// Deadline for a run.
const DEADLINE: Duration = Duration::from_secs(600);
/// Memory sampling, for runs that are not timed.
pub(crate) const SAMPLING: Sampling = Sampling::Every(Duration::from_micros(500));

/// The arguments that list the newest 50 messages by date.
pub(crate) const NEWEST_50: &[&str] = &["ls", "--sort", "date", "--limit", "50"];
/// The arguments that list all messages.
pub(crate) const ALL: &[&str] = &["ls"];
/// The arguments that print the threads in the form of IMAP.
pub(crate) const THREADS: &[&str] = &["thread", "--imap"];

/// barid on one mailbox, with its own cache and state.
#[derive(Debug)]
pub(crate) struct Barid<'a> {
    world: &'a World,
    mailbox: PathBuf,
    name: String,
}

impl<'a> Barid<'a> {
    pub(crate) fn new(world: &'a World, mailbox: &Path, name: &str) -> Self {
        Self { world, mailbox: mailbox.to_path_buf(), name: name.to_owned() }
    }

    fn folder(&self, kind: &str) -> PathBuf {
        self.world.options.folder.join(format!("barid-{kind}-{}", self.name))
    }

    /// Removes cache and state, so that the next run is a first one; in a Maildir also the UID
    /// list.
    pub(crate) fn forget(&self) -> Result<()> {
        for kind in ["cache", "state"] {
            self.world.fresh_folder(&format!("barid-{kind}-{}", self.name))?;
        }
        let list = self.mailbox.join("dovecot-uidlist");
        if disk::exists(&list) {
            disk::remove_file(&list)?;
        }
        Ok(())
    }

    pub(super) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.world.program);
        command.arg("--cache-dir").arg(self.folder("cache"));
        command.arg("--state-dir").arg(self.folder("state"));
        command.args(words).arg(&self.mailbox).stdin(Stdio::null());
        self.world.user.run_as(&mut command, &self.world.options.folder);
        command
    }

    /// Runs the program and discards its output.
    pub(crate) fn measure(&self, words: &[&str], sampling: Sampling) -> Result<Usage> {
        let mut command = self.command(words);
        let usage = measure(command.stdout(Stdio::null()), DEADLINE, sampling)
            .with_context(|| self.world.program.display().to_string())?;
        ensure!(usage.status.success(), "barid {}: {}", words.join(" "), usage.status);
        Ok(usage)
    }

    /// Returns the output of the program.
    pub(crate) fn output(&self, words: &[&str]) -> Result<String> {
        let output = self.command(words).output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("barid {}: {}: {said}", words.join(" "), output.status);
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns the number of messages.
    pub(crate) fn count(&self) -> Result<u64> {
        let status = self.output(&["status", "--json"])?;
        let count = field(&status, "messages").and_then(|text| text.parse().ok());
        count.with_context(|| format!("no count in {status}"))
    }

    /// Returns the sequence numbers of the newest 50 by date, oldest first.
    pub(crate) fn newest_50(&self) -> Result<Vec<u32>> {
        let lines = self.output(&[NEWEST_50, &["--json"]].concat())?;
        let number = |line: &str| field(line, "seq")?.parse().ok();
        lines.lines().map(|line| number(line).with_context(|| line.to_owned())).collect()
    }
}

/// Returns the value of a field of a JSON object that is a number or a plain string.
fn field<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let rest = json.split(&format!("\"{name}\":")).nth(1)?.trim_start();
    match rest.strip_prefix('"') {
        Some(text) => text.split('"').next(),
        None => rest.split([',', '}', ']']).next().map(str::trim),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let json = r#"{"v":1,"seq":17,"message_id":"a@b","last":3}"#;
        assert_eq!(field(json, "seq"), Some("17"));
        assert_eq!(field(json, "message_id"), Some("a@b"));
        assert_eq!(field(json, "last"), Some("3"));
        assert_eq!(field(json, "none"), None);
    }
}
