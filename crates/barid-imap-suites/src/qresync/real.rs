//! Writers that are real programs.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use barid_testkit::Scratch;
use barid_testkit::disk;
use barid_testkit::peers::{PeerUser, program};
use fastrand::Rng;

use super::writer::{Writer, message};
use crate::limits::CLIENT_TIMEOUT;
use crate::server::MailFormat;
use crate::wire::shown;

/// Time after which mutt is told to leave, again and again.
const KEY_INTERVAL: Duration = Duration::from_secs(1);

/// procmail, which delivers a message.
pub(super) struct ProcmailWriter {
    path: PathBuf,
    format: MailFormat,
}

impl ProcmailWriter {
    pub(super) fn new(path: PathBuf, format: MailFormat) -> Self {
        Self { path, format }
    }
}

impl Writer for ProcmailWriter {
    fn name(&self) -> &str {
        "procmail"
    }

    fn act(&mut self, rng: &mut Rng) -> io::Result<u64> {
        let slash = if self.format == MailFormat::Mbox { "" } else { "/" };
        let home = Scratch::new("procmail")?;
        let rules = home.path().join("rc");
        let text = format!(
            "DEFAULT={}{slash}\nLOGFILE={}/log\n",
            self.path.display(),
            home.path().display()
        );
        disk::write(&rules, text.as_bytes())?;
        home.hand_over()?;
        let mut command = Command::new(find("procmail")?);
        command.arg("-m").arg(&rules).stdin(Stdio::piped());
        PeerUser::get()?.run_as(&mut command, home.path());
        let mut child = command.spawn()?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(message(rng, "procmail").as_bytes())?;
        }
        let status = child.wait()?;
        if status.success() {
            return Ok(1);
        }
        let log = disk::read_text(&home.path().join("log")).unwrap_or_default();
        Err(io::Error::other(format!("procmail: {status}: {log}")))
    }
}

/// mutt, which changes flags and removes messages.
pub(super) struct MuttWriter {
    path: PathBuf,
    format: MailFormat,
}

impl MuttWriter {
    pub(super) fn new(path: PathBuf, format: MailFormat) -> Self {
        Self { path, format }
    }
}

impl Writer for MuttWriter {
    fn name(&self) -> &str {
        "mutt"
    }

    fn act(&mut self, rng: &mut Rng) -> io::Result<u64> {
        let home = Scratch::new("mutt")?;
        let settings = "set folder=~\nset sort=mailbox-order\nset quit=yes\nset delete=yes\nset resolve=no\n\
                        set mark_old=no\nset wait_key=no\nset confirmappend=no\nset move=no\n";
        let rules = home.path().join("rc");
        disk::write(&rules, settings.as_bytes())?;
        home.hand_over()?;
        let kind = if self.format == MailFormat::Mbox { "mbox" } else { "Maildir" };
        let step = "<next-entry>".repeat(rng.usize(0..10));
        let last = if rng.u32(0..3) == 0 { "<delete-message>" } else { "<toggle-new>" };
        let keys = format!("<first-entry>{step}<flag-message>{step}{last}<sync-mailbox><exit>");
        let line = format!(
            "mutt -n -F {} -m {kind} -f {} -e 'push \"{keys}\"'",
            quoted(&rules),
            quoted(&self.path)
        );
        let mut command = Command::new(find("script")?);
        command.args(["-qefc", &line, "/dev/null"]).env("TERM", "xterm");
        PeerUser::get()?.run_as(&mut command, home.path());
        let screen = home.path().join("screen");
        command.stdin(Stdio::piped()).stdout(disk::create(&screen)?).stderr(Stdio::null());
        leave(&mut command.spawn()?).map_err(|error| {
            let text = disk::read_text(&screen).unwrap_or_default();
            io::Error::other(format!("{error}; its screen: {}", shown(text.as_bytes())))
        })?;
        Ok(2)
    }
}

/// Waits for the end of mutt. After an error, such as no next message or a mailbox that has changed
/// meanwhile, it forgets the keys that were pushed, and waits for others.
fn leave(child: &mut Child) -> io::Result<()> {
    let mut input = child.stdin.take().ok_or_else(|| io::Error::other("no standard input"))?;
    let deadline = Instant::now() + CLIENT_TIMEOUT;
    let mut next_key = Instant::now() + KEY_INTERVAL;
    let mut keys = [&b"\x07x"[..], b"y", b"\x07q"].into_iter().cycle();
    while child.try_wait()?.is_none() {
        let now = Instant::now();
        if now > deadline {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::other("mutt does not end"));
        }
        if now > next_key {
            next_key = now + KEY_INTERVAL;
            // Aborts a prompt, or answers a question, and leaves. It may be ending.
            let keys = keys.next().unwrap_or_default();
            drop(input.write_all(keys).and_then(|()| input.flush()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

pub(super) fn find(name: &str) -> io::Result<PathBuf> {
    program(name).ok_or_else(|| io::Error::other(format!("no program {name}")))
}

fn quoted(path: &Path) -> String {
    format!("'\\''{}'\\''", path.display()).replace("'\\''", "\"")
}
