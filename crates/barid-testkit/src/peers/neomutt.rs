//! NeoMutt (Debian `neomutt`) on a terminal of its own.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::{ANSWER_TIMEOUT_S, PeerUser, program};
use crate::pty::Pty;
use crate::usage::{Sampling, Usage, finish};
use crate::{Scratch, disk, skip_or_fail};

/// A NeoMutt with its configuration, and the file of its header cache, in a folder of its own.
#[derive(Debug)]
pub struct NeoMutt {
    scratch: Scratch,
    program: PathBuf,
    user: &'static PeerUser,
}

/// One start of NeoMutt.
#[derive(Clone, Debug)]
pub struct NeoMuttRun {
    /// Resource usage of the process.
    pub usage: Usage,
    /// Number of messages that it shows, if requested ([`NeoMuttEnd::Count`]).
    pub messages: Option<u32>,
    /// Its output on the terminal, escape sequences included.
    pub screen: String,
}

/// The last action of NeoMutt, after it has opened the mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeoMuttEnd {
    /// It leaves at once.
    Leave,
    /// It shows the number of messages, and leaves.
    Count,
}

/// The settings of a start of NeoMutt.
#[derive(Clone, Debug)]
pub struct NeoMuttSettings<'a> {
    /// The mailbox, as an absolute path.
    pub maildir: &'a Path,
    /// The file of the header cache, or a folder for it.
    pub cache: &'a Path,
    /// The store of the header cache, by NeoMutt's name.
    pub store: &'a str,
    /// The compression of each record, by NeoMutt's name, and its level.
    pub compression: Option<(&'a str, u8)>,
    /// Its last action.
    pub end: NeoMuttEnd,
}

impl NeoMuttSettings<'_> {
    /// Returns the text of the configuration file.
    pub fn text(&self) -> String {
        let maildir = quoted(self.maildir);
        let mut text = format!(
            "set read_inc = 0\nset write_inc = 0\n\
             set folder = {maildir}\nset spool_file = {maildir}\n\
             set mbox_type = Maildir\n\
             set maildir_header_cache_verify = no\n\
             set header_cache_backend = {}\n\
             set header_cache = {}\n",
            self.store,
            quoted(self.cache),
        );
        if let Some((method, level)) = self.compression {
            writeln!(text, "set header_cache_compress_method = {method}")
                .and_then(|()| writeln!(text, "set header_cache_compress_level = {level}"))
                .expect("because writing to a string does not fail");
        }
        text.push_str("set sort = date\nset quit = yes\nset mail_check_stats = no\n");
        text.push_str(match self.end {
            NeoMuttEnd::Leave => "folder-hook . exec exit\n",
            NeoMuttEnd::Count => {
                "set status_format = \"count=%m=\"\nfolder-hook . 'push <refresh><exit>'\n"
            }
        });
        text
    }

    /// Writes the configuration to `rc` and returns the command that starts `program` with it.
    pub fn command(&self, program: &Path, rc: &Path) -> io::Result<Command> {
        disk::write(rc, self.text().as_bytes())?;
        let mut command = Command::new(program);
        command.arg("-n").arg("-F").arg(rc).env("TERM", "xterm").env("LC_ALL", "C.UTF-8");
        Ok(command)
    }
}

/// Quotes a path as a word of a configuration file.
fn quoted(path: &Path) -> String {
    let mut text = String::from("\"");
    for c in path.to_string_lossy().chars() {
        if matches!(c, '"' | '\\' | '$' | '`') {
            text.push('\\');
        }
        text.push(c);
    }
    text.push('"');
    text
}

impl NeoMuttRun {
    /// Runs a command that starts NeoMutt, on a terminal of its own, until it ends in any way.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn of(mut command: Command, sampling: Sampling) -> io::Result<Self> {
        let pty = Pty::attach(&mut command)?;
        let started = Instant::now();
        let child = command.spawn()?;
        drop(command);
        let usage = finish(child, started, Duration::from_secs(ANSWER_TIMEOUT_S), sampling)?;
        let screen = String::from_utf8_lossy(&pty.output()).into_owned();
        let count = screen.split("count=").nth(1).and_then(|rest| rest.split('=').next());
        Ok(Self { usage, messages: count.and_then(|count| count.parse().ok()), screen })
    }
}

impl NeoMutt {
    /// Prepares a NeoMutt; `None` after [`skip_or_fail`] if it is not installed.
    ///
    /// # Panics
    ///
    /// With `CI=true` if it is not installed.
    pub fn new() -> Option<Self> {
        let found = program("neomutt").ok_or_else(|| io::Error::other("not installed"));
        let prepared = found.and_then(|program| {
            let scratch = Scratch::new("neomutt")?;
            Ok(Self { scratch, program, user: PeerUser::get()? })
        });
        match prepared {
            Ok(neomutt) => Some(neomutt),
            Err(error) => {
                skip_or_fail(&format!("NeoMutt (Debian package neomutt): {error}"));
                None
            }
        }
    }

    /// Returns the version line.
    pub fn version(&self) -> String {
        let output = Command::new(&self.program).arg("-v").output();
        let text = output.map(|output| output.stdout).unwrap_or_default();
        String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned()
    }

    /// Returns the file of the header cache.
    pub fn cache(&self) -> PathBuf {
        self.scratch.path().join("hcache")
    }

    /// Removes the header cache, so that the next start populates it.
    pub fn clear_cache(&self) -> io::Result<()> {
        if disk::exists(&self.cache()) { disk::remove_file(&self.cache()) } else { Ok(()) }
    }

    /// Opens a Maildir with the header cache (`tokyocabinet`, the one store of Debian's build) and
    /// leaves at once.
    pub fn open(&self, maildir: &Path, sampling: Sampling) -> io::Result<NeoMuttRun> {
        self.run(maildir, NeoMuttEnd::Leave, sampling)
    }

    /// Opens a Maildir like [`NeoMutt::open`] and returns the number of messages that it shows.
    pub fn count(&self, maildir: &Path) -> io::Result<NeoMuttRun> {
        self.run(maildir, NeoMuttEnd::Count, Sampling::Off)
    }

    fn run(&self, maildir: &Path, end: NeoMuttEnd, sampling: Sampling) -> io::Result<NeoMuttRun> {
        let maildir = std::path::absolute(maildir)?;
        let cache = self.cache();
        let settings = NeoMuttSettings {
            maildir: &maildir,
            cache: &cache,
            store: "tokyocabinet",
            compression: None,
            end,
        };
        let mut command = settings.command(&self.program, &self.scratch.path().join("rc"))?;
        self.scratch.hand_over()?;
        self.user.take(&maildir)?;
        self.user.run_as(&mut command, self.scratch.path());
        let run = NeoMuttRun::of(command, sampling)?;
        if !run.usage.status.success() {
            let (status, screen) = (run.usage.status, &run.screen);
            return Err(io::Error::other(format!("neomutt: {status}: {screen}")));
        }
        Ok(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_is_named_before_its_file() {
        let settings = NeoMuttSettings {
            maildir: Path::new("/m/a \"b\" $c"),
            cache: Path::new("/c"),
            store: "lmdb",
            compression: Some(("zstd", 1)),
            end: NeoMuttEnd::Leave,
        };
        let text = settings.text();
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} in {text}"));
        assert!(at("header_cache_backend = lmdb") < at("header_cache = \"/c\""));
        assert!(at("compress_method = zstd") < at("compress_level = 1"));
        at(r#"set spool_file = "/m/a \"b\" \$c""#);
        at("folder-hook . exec exit");
    }
}
