//! A server that is a program of its own: `PROGRAM serve --try DIR --port 0 --separator /`.
//!
//! All that is assumed of the program is in this file: its arguments, its first line, the place of
//! its cache, and that all its processes are in one process group.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use barid_testkit::peers::PeerUser;
use barid_testkit::{Scratch, disk};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::{Login, MailFormat, MortalServer, Server, TlsListener};
use crate::limits::{START_TIMEOUT, STOP_TIMEOUT};

/// Users that exist, numbered from 1: each is a folder.
const USERS: u32 = 40;
/// Times that a folder is emptied into which others write.
const REMOVALS_MAX: u32 = 20;

/// The arguments of a program; in them `{dir}` stands for the folder of all users, `{user}` for the
/// name of a user and `{mail}` for the folder with the mail of that user.
#[derive(Clone, Debug)]
pub struct ProgramArgs {
    /// Arguments of the server.
    pub listen: Vec<String>,
    /// Arguments of a session over standard input and output; `None` if the program has no such
    /// sessions.
    pub stdio: Option<Vec<String>>,
}

impl Default for ProgramArgs {
    /// The arguments of `barid`.
    fn default() -> Self {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        Self {
            listen: words("serve --try {dir} --port 0 --separator /"),
            stdio: Some(words("serve --stdio --mail {mail} --separator /")),
        }
    }
}

/// A process and what it has printed.
#[derive(Debug)]
struct Running {
    process: Child,
    announced: Announcement,
}

/// A server that was started from a program. Ended when dropped.
#[derive(Debug)]
pub struct ProgramServer {
    name: String,
    program: PathBuf,
    args: ProgramArgs,
    format: MailFormat,
    running: Mutex<Running>,
    // Removed after the process has ended.
    scratch: Scratch,
}

impl ProgramServer {
    /// Starts a program, as an unprivileged user.
    ///
    /// # Errors
    /// If it cannot be started, or does not print its address in time.
    pub fn start(program: &Path, args: ProgramArgs, format: MailFormat) -> io::Result<Self> {
        let scratch = Scratch::new("imap-server")?;
        for folder in ["home", "mail", "cache"] {
            disk::create_dir(&scratch.path().join(folder))?;
        }
        for user in 1..=USERS {
            format.empty(&scratch.path().join("mail").join(user_name(user)))?;
        }
        scratch.hand_over()?;
        let running = Mutex::new(Running::start(program, &args, scratch.path())?);
        let stem = program.file_stem().unwrap_or_default().to_string_lossy();
        let name = format!("{stem}-{}", format.name());
        let program = program.to_path_buf();
        Ok(Self { name, program, args, format, running, scratch })
    }

    /// Returns the process id of the server.
    pub fn pid(&self) -> u32 {
        self.running().process.id()
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a folder, in which the program may be making files.
fn remove_all(path: &Path) -> io::Result<()> {
    for _ in 0..REMOVALS_MAX {
        match disk::remove_tree(path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            done => return done,
        }
    }
    Ok(())
}

/// Makes a command of the program run as the unprivileged user, with a cache of its own.
fn run_as_user(command: &mut Command, scratch: &Path) -> io::Result<()> {
    PeerUser::get()?.run_as(command, &scratch.join("home"));
    command.env("XDG_CACHE_HOME", scratch.join("cache")).env_remove("XDG_STATE_HOME");
    command.stderr(disk::open_append(&scratch.join("log"))?);
    Ok(())
}

impl Running {
    fn start(program: &Path, args: &ProgramArgs, scratch: &Path) -> io::Result<Self> {
        let mut command = Command::new(program);
        let mail = scratch.join("mail");
        command.args(args.listen.iter().map(|word| filled(word, &mail, 0)));
        run_as_user(&mut command, scratch)?;
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let announced = announcement(&mut process);
        let announced = announced.inspect_err(|_| drop(process.kill()))?;
        Ok(Self { process, announced })
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.process.id()).ok().and_then(Pid::from_raw)
    }

    fn kill(&mut self) -> io::Result<()> {
        if self.process.try_wait()?.is_none()
            && let Some(pid) = self.pid()
        {
            kill_process_group(pid, Signal::KILL)?;
            self.process.wait()?;
        }
        Ok(())
    }

    fn stop(&mut self) -> io::Result<()> {
        if self.process.try_wait()?.is_none()
            && let Some(pid) = self.pid()
        {
            kill_process(pid, Signal::TERM)?;
            let deadline = Instant::now() + STOP_TIMEOUT;
            while self.process.try_wait()?.is_none() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            self.kill()?;
        }
        Ok(())
    }
}

impl MortalServer for ProgramServer {
    fn kill(&self) -> io::Result<()> {
        self.running().kill()
    }

    fn restart(&self) -> io::Result<()> {
        let mut running = self.running();
        running.kill()?;
        *running = Running::start(&self.program, &self.args, self.scratch.path())?;
        Ok(())
    }

    fn remove_cache(&self) -> io::Result<()> {
        let cache = self.scratch.path().join("cache");
        for path in disk::list(&cache)? {
            let removed =
                if disk::is_file(&path) { disk::remove_file(&path) } else { remove_all(&path) };
            match removed {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Server for ProgramServer {
    fn name(&self) -> &str {
        &self.name
    }

    fn address(&self) -> SocketAddr {
        self.running().announced.address
    }

    fn tls(&self) -> Option<TlsListener> {
        let announced = self.running().announced.clone();
        let certificate = announced.certificate;
        announced.tls_address.map(|address| TlsListener { address, certificate })
    }

    fn login(&self, user: u32) -> Login {
        Login { name: user_name(user), password: self.running().announced.password.clone() }
    }

    fn stdio(&self, user: u32) -> io::Result<Option<Command>> {
        let Some(words) = &self.args.stdio else { return Ok(None) };
        let mut command = Command::new(&self.program);
        let mail = self.scratch.path().join("mail");
        command.args(words.iter().map(|word| filled(word, &mail, user)));
        run_as_user(&mut command, self.scratch.path())?;
        Ok(Some(command))
    }

    fn mail_dir(&self, user: u32) -> PathBuf {
        self.scratch.path().join("mail").join(user_name(user))
    }

    fn format(&self) -> MailFormat {
        self.format
    }

    fn log(&self) -> String {
        disk::read_text(&self.scratch.path().join("log")).unwrap_or_default()
    }
}

impl Drop for ProgramServer {
    fn drop(&mut self) {
        // A process that cannot be ended is litter, not a failure.
        drop(self.running().stop());
    }
}

fn user_name(user: u32) -> String {
    format!("u{user}")
}

/// Returns an argument with its place holders filled.
fn filled(word: &str, mail: &Path, user: u32) -> OsString {
    let name = user_name(user);
    let of_user = mail.join(&name);
    let word = word.replace("{dir}", &mail.to_string_lossy()).replace("{user}", &name);
    word.replace("{mail}", &of_user.to_string_lossy()).into()
}

/// The address and the password that a program prints in its first line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Announcement {
    address: SocketAddr,
    tls_address: Option<SocketAddr>,
    certificate: Option<PathBuf>,
    password: String,
}

impl Announcement {
    /// Parses `imap on 127.0.0.1:143, imaps on 127.0.0.1:993, certificate FILE, password WORD`, of
    /// which the second and the third part may be missing.
    fn parse(line: &str) -> Option<Self> {
        let part =
            |name: &str| line.trim_end().split(", ").find_map(|part| part.strip_prefix(name));
        Some(Self {
            address: part("imap on ")?.parse().ok()?,
            tls_address: part("imaps on ").and_then(|address| address.parse().ok()),
            certificate: part("certificate ").map(PathBuf::from),
            password: part("password ")?.to_owned(),
        })
    }
}

/// Waits for the line with the address.
fn announcement(process: &mut Child) -> io::Result<Announcement> {
    let output = process.stdout.take().ok_or_else(|| io::Error::other("no standard output"))?;
    let (sender, lines) = channel();
    // Reads on, so that the program never waits for a full pipe.
    std::thread::spawn(move || {
        BufReader::new(output).lines().map_while(Result::ok).for_each(|line| {
            // Nobody listens after the first line.
            drop(sender.send(line));
        });
    });
    first_announcement(&lines)
}

fn first_announcement(lines: &Receiver<String>) -> io::Result<Announcement> {
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let line = lines.recv_timeout(left);
        let line = line.map_err(|_| io::Error::other("the server printed no address"))?;
        if let Some(announced) = Announcement::parse(&line) {
            return Ok(announced);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_is_read() {
        let check = |line: &str, expected: Option<(u16, Option<u16>, &str)>| {
            let announced = Announcement::parse(line);
            let found = announced.as_ref().map(|announced| {
                let tls = announced.tls_address.map(|address| address.port());
                (announced.address.port(), tls, announced.password.as_str())
            });
            assert_eq!(found, expected, "{line}");
        };
        check("imap on 127.0.0.1:1143, password a b", Some((1143, None, "a b")));
        let line = "imap on 127.0.0.1:1, imaps on 127.0.0.1:2, certificate /a, password x";
        check(line, Some((1, Some(2), "x")));
        check("starting", None);
    }

    #[test]
    fn arguments_are_filled() {
        let check = |word, expected: &str| {
            assert_eq!(filled(word, Path::new("/m"), 3), OsString::from(expected));
        };
        check("{dir}", "/m");
        check("{mail}/x", "/m/u3/x");
        check("--user={user}", "--user=u3");
    }
}
