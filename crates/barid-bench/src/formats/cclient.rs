//! UW c-client behind its driver, started as a new process for each operation.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use barid_testkit::disk;
use barid_testkit::peers::CClient as Peer;
use barid_testkit::usage::{Sampling, Usage, measure};
use barid_testkit::watch::so_far;

use super::material::RARE_WORD;
use super::step::{Program, Side, Store, Work};
use super::system::{Ready, System, as_io, give, restore};
use crate::lab::{Figures, fresh_folder, with_libraries};
use crate::limits::{BODIES_AT_ONCE, STEP_DEADLINE};
use crate::systems::answer::{Answer, content_hash, numbers, threads};

/// c-client with its copy of the mailbox.
#[derive(Debug)]
pub(crate) struct CClient {
    pub(crate) store: Store,
    /// The side's own folder: `home/box` is the mailbox, `first` an untouched copy of it.
    pub(crate) folder: PathBuf,
    /// The mbox that is converted.
    pub(crate) source: PathBuf,
}

/// The prefix of error messages of the library.
const ERROR: &str = "2 ";

/// The mailbox by c-client's name; c-client only looks in its home folder.
const NAME: &str = "box";

impl CClient {
    pub(crate) fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    fn start(&self, ready: Ready<'_>) -> Result<Peer> {
        Peer::new_when(&self.home(), &mut || as_io(ready())).context("c-client")
    }

    fn open(&self) -> Result<Peer> {
        let mut session = self.start(&mut || Ok(()))?;
        command(&mut session, &format!("open {NAME}"))?;
        Ok(session)
    }

    /// Returns the command of an operation on the open mailbox.
    fn command_of(work: Work) -> Option<String> {
        match work {
            Work::Select | Work::Convert => None,
            Work::Fetch => Some("fetch full".to_owned()),
            Work::All => Some("fetch all".to_owned()),
            Work::Thread => Some("thread REFERENCES".to_owned()),
            Work::Search => Some(format!("search {RARE_WORD}")),
        }
    }

    fn contents(session: &mut Peer) -> Result<Answer> {
        let count = count(session)?;
        let mut hashes = Vec::with_capacity(count as usize);
        for first in (1..=count).step_by(BODIES_AT_ONCE) {
            let last = first + BODIES_AT_ONCE as u64 - 1;
            let mut message = Vec::new();
            for line in command(session, &format!("bodies {first} {last}"))? {
                match line.strip_prefix(' ') {
                    Some(text) => {
                        message.extend_from_slice(text.as_bytes());
                        message.push(b'\n');
                    }
                    None => {
                        ensure!(line == "=", "c-client says {line:?}");
                        hashes.push(content_hash(&message));
                        message.clear();
                    }
                }
            }
        }
        Ok(Answer::Contents(hashes))
    }

    /// Makes the initial mailbox.
    pub(crate) fn fill(&self) -> Result<()> {
        fresh_folder(&self.home())?;
        self.copy_to(NAME, &mut || Ok(()))?;
        restore(&self.home().join(NAME), &self.folder.join("first"))
    }

    /// Copies the mbox with `mailutil`.
    fn copy_to(&self, name: &str, ready: Ready<'_>) -> Result<Usage> {
        restore(&self.source, &self.home().join("source"))?;
        let target = format!("#driver.{}/{name}", self.store.name());
        let mut command = Peer::mailutil_command(&self.home(), &["copy", "source", &target])?;
        ready()?;
        run(&mut command)
    }
}

/// Runs a peer's command, which prints little, to completion.
pub(crate) fn run(command: &mut Command) -> Result<Usage> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    let usage = measure(command, STEP_DEADLINE, Sampling::Off).with_context(|| name.clone())?;
    ensure!(usage.status.success(), "{name}: {}", usage.status);
    Ok(usage)
}

/// Returns the answer to a command.
///
/// # Errors
///
/// Returns an error if the library reports one.
fn command(session: &mut Peer, text: &str) -> Result<Vec<String>> {
    session.messages.clear();
    let lines = session.command(text).context("c-client")?;
    let is_error = |said: &&String| {
        said.starts_with(ERROR)
            || ["needs ", "not opened", "unknown "].iter().any(|s| said.starts_with(s))
    };
    if let Some(said) = session.messages.iter().find(is_error) {
        bail!("c-client at {text}: {said}");
    }
    Ok(lines)
}

fn count(session: &mut Peer) -> Result<u64> {
    let status = command(session, "status")?.concat();
    let count = status.split(' ').next().and_then(|word| word.parse().ok());
    count.with_context(|| format!("c-client's status is {status:?}"))
}

impl System for CClient {
    fn side(&self) -> Side {
        Side::new(Program::CClient, self.store)
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.home(), self.source.clone()]
    }

    fn programs(&self) -> Vec<PathBuf> {
        let mut command = Command::new("cc");
        let output = command.arg("-print-file-name=libc-client.so").output();
        let text = output.map(|output| output.stdout).unwrap_or_default();
        let library = PathBuf::from(String::from_utf8_lossy(&text).trim());
        let mut files = if library.is_absolute() { with_libraries(&library) } else { Vec::new() };
        files.push("/usr/bin/mailutil".into());
        files
    }

    fn reset(&mut self) -> Result<()> {
        let home = self.home();
        if disk::exists(&home) {
            disk::remove_tree(&home).with_context(|| home.display().to_string())?;
        }
        restore(&self.folder.join("first"), &home.join(NAME))?;
        give(&home)
    }

    fn run(&mut self, work: Work, _: Sampling, ready: Ready<'_>) -> Result<Figures> {
        if work == Work::Convert {
            return Ok(Figures::of_process(&self.copy_to("converted", ready)?));
        }
        let mut session = self.start(ready)?;
        command(&mut session, &format!("open {NAME}"))?;
        if let Some(text) = Self::command_of(work) {
            command(&mut session, &text)?;
        }
        let watched = so_far(session.pid().context("c-client has gone")?);
        let usage = session.quit().context("c-client")?;
        // The kernel's figure at exit includes the peak of the parent process.
        Ok(Figures { maxrss_bytes: watched.maxrss, ..Figures::of_process(&usage) })
    }

    fn answer(&mut self, work: Work) -> Result<Answer> {
        if work == Work::Convert {
            self.reset()?;
            self.copy_to("converted", &mut || Ok(()))?;
            let mut session = self.start(&mut || Ok(()))?;
            command(&mut session, "open converted")?;
            return Self::contents(&mut session);
        }
        let mut session = self.open()?;
        match work {
            Work::Select | Work::Convert => count(&mut session).map(Answer::Count),
            Work::Fetch => Self::contents(&mut session),
            Work::All => {
                let lines = command(&mut session, "sizes")?;
                let size = |line: &String| {
                    let size = line.parse().with_context(|| format!("the size {line:?}"));
                    size.map(|size| (size, None))
                };
                lines.iter().map(size).collect::<Result<_>>().map(Answer::Summaries)
            }
            Work::Thread => {
                let count = usize::try_from(count(&mut session)?)?;
                threads(&command(&mut session, "thread REFERENCES")?.concat(), count)
            }
            Work::Search => {
                numbers(&command(&mut session, &format!("search {RARE_WORD}"))?.join(" "))
            }
        }
    }

    fn index_bytes(&self) -> Result<u64> {
        Ok(0)
    }
}
