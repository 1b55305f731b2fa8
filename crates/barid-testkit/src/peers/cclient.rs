//! UW c-client (Debian `libc-client2007e-dev`, `uw-mailutils`), through the driver
//! `peers/cclient.c`, which is compiled here on first use.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{ANSWER_TIMEOUT_S, BarrierLog, PeerUser, program};
use crate::usage::{Sampling, Usage, finish};
use crate::{Scratch, corpora, disk, skip_or_fail};

/// A running driver, and the home folder that contains its mailboxes.
///
/// c-client detects the format from the file: put an mbox into [`CClient::folder`] and open it by
/// its file name; other formats by name as well, `#driver.mbx/box`. It has no Maildir support.
/// Opening an mbox rewrites it; [`CClient::command`] with `examine` does not.
#[derive(Debug)]
pub struct CClient {
    scratch: Scratch,
    home: PathBuf,
    user: &'static PeerUser,
    started: Instant,
    child: Option<Arc<Mutex<Child>>>,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Messages that the library has logged since this was last cleared.
    pub messages: Vec<String>,
    log: Option<BarrierLog>,
}

impl CClient {
    /// Compiles (once) and starts the driver; `None` after [`skip_or_fail`] if it cannot be built.
    ///
    /// # Panics
    ///
    /// With `CI=true` if the library or a C compiler is missing.
    pub fn new() -> Option<Self> {
        Self::new_in(None, false)
    }

    /// Like [`CClient::new`] with an existing folder as its home, whose owner is changed. With
    /// `is_counted` strace counts the driver's barriers ([`CClient::barriers`]), which slows it
    /// down.
    ///
    /// # Panics
    ///
    /// As for [`CClient::new`].
    pub fn new_in(home: Option<&Path>, is_counted: bool) -> Option<Self> {
        match Self::start(home, is_counted, &mut || Ok(())) {
            Ok(peer) => Some(peer),
            Err(error) => {
                skip_or_fail(&format!("c-client (Debian package libc-client2007e-dev): {error}"));
                None
            }
        }
    }

    /// Like [`CClient::new_in`]; calls `ready` after all preparations, just before the driver is
    /// started.
    ///
    /// # Errors
    ///
    /// If the driver cannot be built or started, or `ready` fails.
    pub fn new_when(home: &Path, ready: &mut dyn FnMut() -> io::Result<()>) -> io::Result<Self> {
        Self::start(Some(home), false, ready)
    }

    fn start(
        home: Option<&Path>,
        is_counted: bool,
        ready: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<Self> {
        let scratch = Scratch::new("cclient")?;
        let home = match home {
            Some(home) => home.to_owned(),
            None => {
                let home = scratch.path().join("home");
                disk::create_dir(&home)?;
                home
            }
        };
        let driver = scratch.path().join("cclient");
        compile(&driver)?;
        let log = is_counted.then(|| BarrierLog::create(scratch.path())).transpose()?;
        scratch.hand_over()?;
        let user = PeerUser::get()?;
        user.take(&home)?;
        let mut command = match &log {
            Some(log) => log.command(&driver),
            None => Command::new(&driver),
        };
        command.current_dir(&home).stdin(Stdio::piped()).stdout(Stdio::piped());
        user.run_as(&mut command, &home);
        ready()?;
        let started = Instant::now();
        let mut child = command.spawn()?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("because it was piped"));
        let child = Some(Arc::new(Mutex::new(child)));
        let messages = Vec::new();
        Ok(Self { scratch, home, user, started, child, input, output, messages, log })
    }

    /// Returns the process id of the driver.
    pub fn pid(&self) -> Option<u32> {
        let child = self.child.as_ref()?.lock().ok()?;
        Some(child.id())
    }

    /// Returns the time since the driver was started.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the number of the driver's barriers so far, if they are counted.
    pub fn barriers(&self) -> Option<u64> {
        self.log.as_ref().map(BarrierLog::count)
    }

    /// Returns the home folder of the process: mailboxes in it are opened by their names.
    pub fn folder(&self) -> PathBuf {
        self.home.clone()
    }

    /// Opens a mailbox in place of the one that was open. Returns the number of its messages.
    pub fn open(&mut self, name: &str) -> io::Result<u32> {
        self.scratch.hand_over()?;
        self.user.take(&self.home)?;
        let lines = self.command(&format!("open {name}"))?;
        let count = lines.first().and_then(|line| line.parse().ok());
        count.ok_or_else(|| io::Error::other(format!("open {name}: {:?}", self.messages)))
    }

    /// Sends `THREAD` over all messages, by `REFERENCES` or `ORDEREDSUBJECT`. Returns the text
    /// after `* THREAD `.
    pub fn thread(&mut self, algorithm: &str) -> io::Result<String> {
        Ok(self.command(&format!("thread {algorithm}"))?.concat())
    }

    /// Sends `SORT` over all messages by keys as on the wire (`REVERSE DATE SUBJECT`).
    pub fn sort(&mut self, keys: &str) -> io::Result<Vec<u32>> {
        let text = self.command(&format!("sort {keys}"))?.concat();
        let numbers = text.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>();
        numbers.map_err(|_| io::Error::other(format!("sort {keys}: {text}")))
    }

    /// Sends a command of the driver (`peers/cclient.c` lists them). Returns its lines. Messages of
    /// the library are added to [`CClient::messages`]. Bytes that are not UTF-8 are replaced.
    pub fn command(&mut self, text: &str) -> io::Result<Vec<String>> {
        let input = self.input.as_mut().expect("because only the end takes it");
        writeln!(input, "{text}")?;
        let guard = Deadline::start(self.child.clone());
        let mut lines = Vec::new();
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            if self.output.read_until(b'\n', &mut bytes)? == 0 {
                let said = self.messages.join("; ");
                return Err(io::Error::other(format!("the driver has gone at {text}: {said}")));
            }
            let line = String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap_or(&bytes));
            match line.strip_prefix("! ") {
                Some(message) => self.messages.push(message.to_owned()),
                None if line == "." => break,
                None => lines.push(line.into_owned()),
            }
        }
        drop(guard);
        Ok(lines)
    }

    /// Closes the mailbox, ends the process, and returns its resource usage.
    pub fn quit(mut self) -> io::Result<Usage> {
        self.command("close")?;
        self.input = None;
        let child = self.child.take().and_then(Arc::into_inner);
        let child = child.expect("because no deadline runs").into_inner();
        let child = child.expect("because no holder of the lock panics");
        finish(child, self.started, Duration::from_secs(ANSWER_TIMEOUT_S), Sampling::Off)
    }

    /// Returns the command `mailutil` (Debian `uw-mailutils`) with a folder as its home, whose
    /// owner is changed.
    ///
    /// # Errors
    ///
    /// If it is missing.
    pub fn mailutil_command(home: &Path, args: &[&str]) -> io::Result<Command> {
        let mailutil = program("mailutil").ok_or_else(|| io::Error::other("no mailutil"))?;
        let mut command = Command::new(mailutil);
        let user = PeerUser::get()?;
        user.take(home)?;
        user.run_as(&mut command, home);
        command.args(args).current_dir(home);
        Ok(command)
    }

    /// Runs `mailutil` (Debian `uw-mailutils`) with [`CClient::folder`] as its home. Returns its
    /// output.
    pub fn mailutil(&self, args: &[&str]) -> io::Result<String> {
        self.scratch.hand_over()?;
        let output = Self::mailutil_command(&self.folder(), args)?.output()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        if output.status.success() { Ok(text) } else { Err(io::Error::other(text)) }
    }
}

impl Drop for CClient {
    fn drop(&mut self) {
        if let Some(child) = self.child.take()
            && let Ok(mut child) = child.lock()
        {
            // It may have ended by itself; it is reaped in both cases.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Kills the driver unless it is dropped in time.
struct Deadline {
    done: Option<std::sync::mpsc::Sender<()>>,
    watcher: Option<std::thread::JoinHandle<()>>,
}

impl Deadline {
    fn start(child: Option<Arc<Mutex<Child>>>) -> Self {
        let (done, watch) = std::sync::mpsc::channel::<()>();
        let watcher = std::thread::spawn(move || {
            let in_time = watch.recv_timeout(Duration::from_secs(ANSWER_TIMEOUT_S));
            if in_time == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
                && let Some(Ok(mut child)) = child.as_ref().map(|child| child.lock())
            {
                // It may have just ended, which is fine.
                drop(child.kill());
            }
        });
        Self { done: Some(done), watcher: Some(watcher) }
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.done = None;
        if let Some(watcher) = self.watcher.take() {
            watcher.join().expect("because the watcher does not panic");
        }
    }
}

/// Compiles the driver to `to`.
fn compile(to: &Path) -> io::Result<()> {
    static COMPILED: Mutex<Option<Vec<u8>>> = Mutex::new(None);
    let mut compiled = COMPILED.lock().expect("because compiling does not panic");
    if compiled.is_none() {
        let source = corpora::repository().join("peers/cclient.c");
        // Started by a bare name without PATH, gcc does not find its parts.
        let mut cc = Command::new(program("cc").unwrap_or_else(|| "cc".into()));
        cc.args(["-O1", "-w", "-o"]).arg(to).arg(source).arg("-lc-client");
        let output = cc.output()?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        *compiled = Some(disk::read(to)?);
    }
    // A program that another thread has open for writing cannot be started (ETXTBSY), so each
    // driver has its own copy, written by a process that has ended by then.
    let bytes = compiled.as_deref().expect("because it was filled above");
    disk::write(&to.with_extension("new"), bytes)?;
    let mut install = Command::new("install");
    let status = install.args(["-m", "755"]).arg(to.with_extension("new")).arg(to).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other("install failed")) }
}
