//! A server, a user and a home for a client.

use std::cell::RefCell;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use barid_testkit::peers::{PeerUser, program};
use barid_testkit::{Scratch, disk};

use crate::limits::{CLIENT_TIMEOUT, SCREEN_STILL, SCREEN_TIMEOUT};
use crate::server::{Login, Server, TlsListener, Transport, open};
use crate::wire::{Arg, Connection, Fetched};

/// Most lines of the server's log in a report.
const LOG_LINES_MAX: usize = 30;

/// Messages in INBOX at the start.
const MESSAGES: [(&str, &str); 5] = [
    ("first", "Content-Type: text/plain; charset=utf-8\r\n\r\nbody of the first\r\n"),
    (
        "second",
        "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: \
         text/plain\r\n\r\ntext of the second\r\n--b\r\nContent-Type: application/pdf; name=a.pdf\r\n\
         Content-Transfer-Encoding: base64\r\n\r\naGVsbG8gd29ybGQ=\r\n--b--\r\n",
    ),
    ("=?utf-8?q?dr=C3=A4tte?=", "\r\nbody of the third\r\n"),
    ("fourth", "In-Reply-To: <1@example.org>\r\n\r\nbody of the fourth\r\n"),
    ("fifth", "\r\nFrom here on it is the fifth\r\n"),
];

/// A message in a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxMessage {
    /// The UID.
    pub uid: u32,
    /// The flags in lower case, sorted, without \Recent.
    pub flags: Vec<String>,
    /// The subject as written.
    pub subject: String,
}

/// A program that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) output: String,
}

/// All that a client is given: a server, a user with five messages in INBOX and an empty mailbox
/// `Archive`, and a home.
pub struct ClientContext<'s> {
    server: &'s dyn Server,
    user: u32,
    home: Scratch,
    record: RefCell<String>,
}

impl<'s> ClientContext<'s> {
    /// Replaces the mail of a user and makes a home.
    ///
    /// # Errors
    /// Errors of the file system and of the server.
    pub fn new(server: &'s dyn Server, user: u32, name: &str) -> io::Result<Self> {
        let label: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        let home = Scratch::new(&format!("client-{label}"))?;
        home.hand_over()?;
        server.prepare(user, &|_| Ok(()))?;
        let context = Self { server, user, home, record: RefCell::default() };
        let mut connection = context.connection()?;
        for (number, (subject, rest)) in MESSAGES.iter().enumerate() {
            let message = message(number + 1, subject, rest);
            connection.append("INBOX", "", message.as_bytes())?;
        }
        connection.ok("CREATE Archive")?;
        connection.ok("SUBSCRIBE Archive")?;
        connection.logout()?;
        Ok(context)
    }

    /// Returns a message as it is in INBOX, counted from 1.
    pub(super) fn message(&self, number: usize) -> String {
        let (subject, rest) = MESSAGES[number - 1];
        message(number, subject, rest)
    }

    /// Returns the port without TLS.
    pub(super) fn port(&self) -> u16 {
        self.server.address().port()
    }

    /// Returns the port with TLS, if there is one.
    pub(super) fn tls(&self) -> Option<TlsListener> {
        self.server.tls()
    }

    /// Returns the name and the password of the user.
    pub(super) fn login(&self) -> Login {
        self.server.login(self.user)
    }

    /// Returns the command of a session over standard input and output for a shell; `None` if the
    /// server has none.
    pub(super) fn tunnel(&self) -> io::Result<Option<String>> {
        Ok(self.server.stdio(self.user)?.map(|command| shell_line(&command)))
    }

    /// Returns the folder of the client.
    pub(super) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Opens a session of the user.
    pub(super) fn connection(&self) -> io::Result<Connection> {
        open(self.server, self.user, Transport::Tcp)
    }

    /// Returns everything that ran.
    pub(super) fn record(&self) -> String {
        let log = self.server.log();
        let lines: Vec<&str> = log.lines().rev().take(LOG_LINES_MAX).collect();
        let end: Vec<&str> = lines.into_iter().rev().collect();
        format!("{}\n-- server\n{}", self.record.borrow(), end.join("\n"))
    }

    /// Writes a file in the folder of the client, and returns its path.
    pub(super) fn write(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let path = self.home().join(name);
        if let Some(parent) = path.parent() {
            disk::create_dir_all(parent)?;
        }
        disk::write(&path, text.as_bytes())?;
        self.home.hand_over()?;
        Ok(path)
    }

    /// Reads a file in the folder of the client.
    pub(super) fn read(&self, name: &str) -> io::Result<String> {
        disk::read_text(&self.home().join(name))
    }

    /// Runs a program and waits for its end.
    pub(super) fn run(&self, name: &str, args: &[&str]) -> io::Result<Ended> {
        self.run_with_keys(name, args, &[])
    }

    /// As [`ClientContext::run`], but a program that fails is an error.
    pub(super) fn run_ok(&self, name: &str, args: &[&str]) -> io::Result<String> {
        let ended = self.run(name, args)?;
        if ended.status.success() {
            return Ok(ended.output);
        }
        Err(io::Error::other(format!("{name} {args:?}: {}", ended.status)))
    }

    /// Runs a command of a shell on a terminal, and types: once a text has appeared and the screen
    /// is still, the keys.
    pub(super) fn on_terminal(&self, line: &str, keys: &[(&str, &str)]) -> io::Result<Ended> {
        self.run_with_keys("script", &["-qefc", line, "/dev/null"], keys)
    }

    fn run_with_keys(&self, name: &str, args: &[&str], keys: &[(&str, &str)]) -> io::Result<Ended> {
        let path = program(name).ok_or_else(|| io::Error::other(format!("no program {name}")))?;
        let mut command = Command::new(path);
        command.args(args).current_dir(self.home());
        PeerUser::get()?.run_as(&mut command, self.home());
        command.env("TERM", "xterm").env("LC_ALL", "C.UTF-8").env_remove("XDG_CONFIG_HOME");
        let log = self.home().join("output");
        let file = disk::create(&log)?;
        command.stdout(file.try_clone()?).stderr(file);
        command.stdin(if keys.is_empty() { Stdio::null() } else { Stdio::piped() });
        let mut child = command.spawn()?;
        // The terminal stays open until the program has ended.
        let mut input = child.stdin.take();
        if let Some(input) = &mut input {
            let mut seen = 0;
            for (text, keys) in keys {
                seen = wait_for(&log, seen, text)?;
                // The program may have ended by itself, which the results show.
                drop(input.write_all(keys.as_bytes()).and_then(|()| input.flush()));
            }
        }
        let status = wait_until(&mut child, Instant::now() + CLIENT_TIMEOUT)?;
        let output = disk::read_text(&log)?;
        let shown = output.replace(['\u{1b}', '\r', '\0'], "");
        self.record.borrow_mut().push_str(&format!("$ {name} {args:?}: {status:?}\n{shown}\n"));
        let status = status.ok_or_else(|| io::Error::other(format!("{name} does not end")))?;
        Ok(Ended { status, output })
    }

    /// Returns the messages of a mailbox.
    pub(super) fn messages(&self, mailbox: &str) -> io::Result<Vec<MailboxMessage>> {
        let mut connection = self.connection()?;
        connection.ok(&format!("EXAMINE \"{mailbox}\""))?;
        let reply =
            connection.command("UID FETCH 1:* (FLAGS BODY.PEEK[HEADER.FIELDS (SUBJECT)])")?;
        let messages = reply.untagged.iter().filter_map(|line| Fetched::of(line));
        let message = |fetched: Fetched| {
            let header = fetched.get("BODY[HEADER.FIELDS (SUBJECT)]").and_then(Arg::bytes)?;
            let header = String::from_utf8_lossy(header).into_owned();
            let subject = header.trim().split_once(':')?.1.trim().to_owned();
            let uid = u32::try_from(fetched.number("UID")?).ok()?;
            Some(MailboxMessage { uid, flags: fetched.flags()?, subject })
        };
        Ok(messages.filter_map(message).collect())
    }

    /// Returns the message of a mailbox with a subject.
    pub(super) fn find(&self, mailbox: &str, subject: &str) -> io::Result<MailboxMessage> {
        let all = self.messages(mailbox)?;
        let found = all.iter().find(|message| message.subject == subject).cloned();
        found.ok_or_else(|| io::Error::other(format!("no {subject:?} in {mailbox}: {all:?}")))
    }
}

fn message(number: usize, subject: &str, rest: &str) -> String {
    format!(
        "Date: Mon, 0{number} Jan 2024 10:00:00 +0000\r\nFrom: Sender {number} <s{number}@example.org>\r\n\
         To: user@example.org\r\nSubject: {subject}\r\nMessage-ID: <{number}@example.org>\r\n{rest}"
    )
}

/// Waits until a text has been written after the first `seen` bytes of a file, and then nothing
/// more for a while. Returns the length of the file. Goes on after a time: the results show what
/// the program has done.
fn wait_for(log: &Path, seen: usize, text: &str) -> io::Result<usize> {
    let deadline = Instant::now() + SCREEN_TIMEOUT;
    let (mut len, mut still_since) = (seen, Instant::now());
    loop {
        let output = disk::read(log)?;
        if output.len() != len {
            (len, still_since) = (output.len(), Instant::now());
        }
        let new = output.get(seen..).unwrap_or_default();
        let has_text = memchr::memmem::find(new, text.as_bytes()).is_some();
        let is_still = still_since.elapsed() > SCREEN_STILL;
        if (has_text && is_still) || Instant::now() > deadline {
            return Ok(len);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits for the end of a program, and kills it at the deadline; `None` then.
fn wait_until(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns a command as a line for a shell.
fn shell_line(command: &Command) -> String {
    let quoted =
        |text: &std::ffi::OsStr| format!("'{}'", text.to_string_lossy().replace('\'', "'\\''"));
    let variables = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.to_string_lossy(), quoted(value?))));
    let words = [command.get_program()].into_iter().chain(command.get_args()).map(quoted);
    ["env".to_owned()].into_iter().chain(variables).chain(words).collect::<Vec<_>>().join(" ")
}

/// Returns an error unless a condition holds.
pub(super) fn check(is_fine: bool, text: impl FnOnce() -> String) -> io::Result<()> {
    if is_fine { Ok(()) } else { Err(io::Error::other(text())) }
}

/// Returns an error unless two values are equal.
pub(super) fn check_equal<T: PartialEq + std::fmt::Debug>(
    what: &str,
    found: T,
    expected: T,
) -> io::Result<()> {
    check(found == expected, || format!("{what}: {found:?}, expected {expected:?}"))
}

/// Returns the files of a Maildir's `cur` and `new`.
pub(super) fn maildir_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for folder in ["cur", "new"] {
        let folder = path.join(folder);
        if disk::exists(&folder) {
            files.extend(disk::list(&folder)?);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_quoted_for_a_shell() {
        let mut command = Command::new("/bin/x y");
        command.arg("it's").env("A", "b c");
        assert_eq!(shell_line(&command), "env A='b c' '/bin/x y' 'it'\\''s'");
    }
}
