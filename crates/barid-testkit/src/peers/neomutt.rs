//! NeoMutt (Debian `neomutt`) on a terminal of its own.

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
    /// What the process used.
    pub usage: Usage,
    /// How many messages it says the mailbox holds, if it was asked ([`NeoMutt::count`]).
    pub messages: Option<u32>,
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

    /// The version line.
    pub fn version(&self) -> String {
        let output = Command::new(&self.program).arg("-v").output();
        let text = output.map(|output| output.stdout).unwrap_or_default();
        String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned()
    }

    /// The file of the header cache.
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
        self.run(maildir, "folder-hook . exec exit\n", sampling)
    }

    /// Opens a Maildir like [`NeoMutt::open`] and tells how many messages it shows.
    pub fn count(&self, maildir: &Path) -> io::Result<NeoMuttRun> {
        let note = self.scratch.path().join("count");
        let hook = format!(
            "set status_format = \"count=%m=\"\n\
             folder-hook . 'push <refresh><exit>'\n\
             # {}\n",
            note.display()
        );
        self.run(maildir, &hook, Sampling::Off)
    }

    fn run(&self, maildir: &Path, end: &str, sampling: Sampling) -> io::Result<NeoMuttRun> {
        let maildir = std::path::absolute(maildir)?;
        let rc = self.scratch.path().join("rc");
        let text = format!(
            "set read_inc = 0\nset write_inc = 0\n\
             set folder = \"{maildir}\"\nset spool_file = \"{maildir}\"\n\
             set mbox_type = Maildir\n\
             set maildir_header_cache_verify = no\n\
             set header_cache_backend = tokyocabinet\n\
             set header_cache = \"{cache}\"\n\
             set sort = date\nset quit = yes\nset mail_check_stats = no\n{end}",
            maildir = maildir.display(),
            cache = self.cache().display(),
        );
        disk::write(&rc, text.as_bytes())?;
        self.scratch.hand_over()?;
        self.user.take(&maildir)?;
        let mut command = Command::new(&self.program);
        command.arg("-n").arg("-F").arg(&rc).env("TERM", "xterm").env("LC_ALL", "C.UTF-8");
        self.user.run_as(&mut command, self.scratch.path());
        let pty = Pty::attach(&mut command)?;
        let started = Instant::now();
        let child = command.spawn()?;
        drop(command);
        let usage = finish(child, started, Duration::from_secs(ANSWER_TIMEOUT_S), sampling)?;
        let screen = String::from_utf8_lossy(&pty.output()).into_owned();
        if !usage.status.success() {
            return Err(io::Error::other(format!("neomutt: {}: {screen}", usage.status)));
        }
        let count = screen.split("count=").nth(1).and_then(|rest| rest.split('=').next());
        Ok(NeoMuttRun { usage, messages: count.and_then(|count| count.parse().ok()) })
    }
}
