//! A folder with mailboxes, and the program to run on them.
#![expect(clippy::disallowed_methods, reason = "the program is tested from outside, on real files")]

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Once};
use std::time::{Duration, SystemTime};

use barid_testkit::Scratch;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT};

/// A folder of mailboxes, removed when dropped.
pub(crate) struct World {
    scratch: Scratch,
}

/// The results of a run of the program.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { scratch: Scratch::new("cli").unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Returns the program with its own environment.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_barid"));
        command
            .env_clear()
            .env("LC_ALL", "C.UTF-8")
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.scratch.path())
            .current_dir(self.scratch.path())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Run {
        Run::of(self.command().args(args).output().unwrap())
    }

    /// Starts the program.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        let mut command = self.command();
        Running::spawn(command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// Gives all files to the user of [`barid_testkit::peers::PeerUser`].
    pub(crate) fn hand_over(&self) {
        self.scratch.hand_over().unwrap();
    }

    /// Runs the program with `input` on standard input.
    pub(crate) fn run_with_input(&self, args: &[&str], input: &[u8]) -> Run {
        let mut command = self.command();
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Running::spawn(&mut command);
        // A program that refuses need not read; its exit code and its messages are looked at.
        match child.stdin.take().unwrap().write_all(input) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            written => written.unwrap(),
        }
        Run::of(child.wait_with_output().unwrap())
    }

    /// Runs the program, which must succeed without output on standard error.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let run = self.run(args);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}");
        run.text()
    }

    /// Runs the program with `--json`; every line must be an object with version and type.
    pub(crate) fn json(&self, args: &[&str]) -> Vec<Value> {
        parse_lines(&self.ok(&[args, &["--json"]].concat()))
    }

    /// Makes a Maildir of these messages, read and not new; they arrived a second apart.
    pub(crate) fn maildir(&self, name: &str, messages: &[&str]) -> String {
        let path = self.path(name);
        for folder in ["cur", "new", "tmp"] {
            fs::create_dir_all(path.join(folder)).unwrap();
        }
        for (number, message) in messages.iter().enumerate() {
            self.deliver(
                name,
                &format!("cur/{}.M{number}.host:2,S", 1_600_000_000 + number),
                message,
            );
        }
        path.to_str().unwrap().to_owned()
    }

    /// Delivers a message to a Maildir; its arrival is the time in its name.
    pub(crate) fn deliver(&self, maildir: &str, file: &str, message: &str) {
        let path = self.path(maildir).join(file);
        // The file is complete when it gets its name, as in any delivery.
        let delivered = self.path(maildir).join(".delivered");
        fs::write(&delivered, message).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let seconds = name.split('.').next().unwrap().parse().unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        fs::File::options().append(true).open(&delivered).unwrap().set_modified(time).unwrap();
        fs::rename(delivered, path).unwrap();
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// Returns the bytes of a file; `None` for a folder.
    pub(crate) fn try_bytes(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.path(name)).ok()
    }

    pub(crate) fn create_dir(&self, name: &str) -> String {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn remove(&self, name: &str) {
        let path = self.path(name);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }

    pub(crate) fn rename(&self, name: &str, to: impl AsRef<Path>) {
        fs::rename(self.path(name), self.scratch.path().join(to)).unwrap();
    }

    pub(crate) fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn try_read(&self, name: &str) -> bool {
        self.try_bytes(name).is_some()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Returns the names in a folder, sorted.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        list(&self.path(name))
    }
}

impl Run {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().expect("because the program is not killed"),
            stdout: output.stdout,
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).unwrap()
    }
}

/// A process that ends with the test that started it, on success and on failure.
pub(crate) struct Running(Option<Child>);

impl Running {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        static SIGNALS: Once = Once::new();
        SIGNALS.call_once(catch_ignored_signals);
        Self(Some(command.spawn().unwrap()))
    }

    /// Waits for the end of the process, like [`Child::wait_with_output`].
    pub(crate) fn wait_with_output(mut self) -> std::io::Result<Output> {
        self.0.take().expect("because only this takes it").wait_with_output()
    }
}

/// Waits until a program catches a signal, and sends it; returns whether it did so before its end.
pub(crate) fn send_when_caught(child: &mut Child, signal: Signal) -> bool {
    let bit = 1 << (signal.as_raw() - 1);
    while child.try_wait().unwrap().is_none() {
        if signals(&child.id().to_string(), "SigCgt:") & bit != 0 {
            send(child, signal);
            return true;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    false
}

/// Returns a set of signals from the status of a process: bit 0 for signal 1. A process that has
/// ended has none.
fn signals(process: &str, set: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix(set)).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap()
}

/// Catches the signals that this process was started to ignore. A shell without job control ignores
/// SIGINT for what it starts in the background, and so would the programs that tests interrupt; a
/// caught signal has its default action in a new program.
fn catch_ignored_signals() {
    let ignored = signals("self", "SigIgn:");
    for signal in [SIGHUP, SIGINT, SIGQUIT] {
        if ignored >> (signal - 1) & 1 == 1 {
            signal_hook::flag::register(signal, Arc::default()).unwrap();
        }
    }
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect("because only who waits for its end takes it")
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("because only who waits for its end takes it")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // The process may have ended already.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Sends a signal to a program that has not been waited for.
pub(crate) fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Returns messages as an mbox, with From_ lines.
pub(crate) fn mbox<T: std::fmt::Display>(messages: &[T]) -> String {
    let separate = |message: &T| format!("From a@b.example Tue Mar  5 12:22:10 2024\n{message}\n");
    messages.iter().map(separate).collect()
}

pub(crate) fn parse_lines(text: &str) -> Vec<Value> {
    let parse = |line| {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert!(line.starts_with("{\"v\":1,\"type\":\""), "{line}");
        assert!(value["type"].is_string());
        value
    };
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines().map(parse).collect()
}

/// A file with a lock that others wait for, until this is dropped.
pub(crate) struct Locked(OwnedFd);

impl Locked {
    pub(crate) fn new(path: &Path) -> Self {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty()).unwrap();
        flock(&file, FlockOperation::LockExclusive).unwrap();
        Self(file)
    }
}

impl Drop for Locked {
    /// Closing is not enough: a program that another test starts now may have the descriptor, too.
    fn drop(&mut self) {
        flock(&self.0, FlockOperation::Unlock).unwrap();
    }
}

/// Returns the names of the test sources.
pub(crate) fn sources() -> Vec<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    list(&dir).iter().filter_map(|name| name.strip_suffix(".rs")).map(str::to_owned).collect()
}

/// Compares a text with the file `tests/<name>`, or writes it there with `UPDATE_GOLDEN=1`.
pub(crate) fn check_golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(text == expected, "{name} differs (UPDATE_GOLDEN=1 writes it anew):\n{text}");
}

fn list(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
