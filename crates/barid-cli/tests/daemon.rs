//! `barid spam daemon`: requests of programs and mail servers, and malicious clients.

mod exchange;
mod miltertest;
mod patience;
mod postfix;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{Running, World, mbox, send};

/// Returns messages of a kind, each with distinct words.
fn messages(word: &str, count: u32) -> Vec<String> {
    let message = |n| format!("Subject: {word} {n}\nFrom: a@b.example\n\nsome {word} of day{n}\n");
    (0..count).map(message).collect()
}

/// A daemon whose filter knows spam about pills and ham about minutes.
pub(crate) struct Daemon {
    pub(crate) world: World,
    child: Running,
    port: u16,
}

impl Daemon {
    fn start(args: &[&str]) -> Self {
        let world = World::new();
        for (class, word) in [("--spam", "pills"), ("--ham", "minutes")] {
            let file = world.write("mail", mbox(&messages(word, 25)).as_bytes());
            world.ok(&["spam", "train", "--wordlist", "wordlist.db", class, &file]);
        }
        Self::start_in(world, args)
    }

    pub(crate) fn start_in(world: World, args: &[&str]) -> Self {
        Self::start_with(world, &[&["--wordlist", "wordlist.db"], args].concat())
    }

    /// Starts a daemon with a list of any name.
    pub(crate) fn start_with(world: World, args: &[&str]) -> Self {
        let mut command = world.command();
        command.args(["spam", "daemon"]).args(args);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Running::spawn(command);
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let place = line.strip_prefix("listening at ").expect("because it says so");
        assert!(place.contains(".socket"), "{line:?}");
        let port = line.trim_end().rsplit(':').next().and_then(|port| port.parse().ok());
        Self { world, child, port: port.unwrap_or_default() }
    }

    fn socket(&self) -> PathBuf {
        self.world.path("wordlist.db.socket")
    }

    pub(crate) fn connect(&self) -> UnixStream {
        UnixStream::connect(self.socket()).unwrap()
    }

    fn milter(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Ends the daemon, which must succeed; returns its output.
    fn end(self) -> String {
        self.end_and_keep().1
    }

    pub(crate) fn end_and_keep(self) -> (World, String) {
        send(&self.child, Signal::TERM);
        self.wait()
    }

    /// Waits for the daemon, which was told to end.
    fn wait(mut self) -> (World, String) {
        let code = self.child.wait().unwrap().code();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(code, Some(0), "{said}");
        assert!(!self.world.has("wordlist.db.socket"), "the socket is left behind");
        (self.world, said)
    }
}

/// Sends a request on a connection; returns the header and the body of the answer.
pub(crate) fn ask(
    stream: &mut UnixStream,
    verb: &str,
    fields: &str,
    body: &str,
) -> (String, String) {
    let request = format!("barid-spam/1 {verb}\n{fields}Length: {}\n\n{body}", body.len());
    stream.write_all(request.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let (mut head, mut len) = (String::new(), 0);
    loop {
        let mut line = String::new();
        assert!(reader.read_line(&mut line).unwrap() > 0, "no answer behind {head:?}");
        if let Some(value) = line.strip_prefix("length: ") {
            len = value.trim_end().parse().unwrap();
        }
        if line == "\n" {
            break;
        }
        head += &line;
    }
    let mut body = vec![0; len];
    reader.read_exact(&mut body).unwrap();
    (head, String::from_utf8_lossy(&body).into_owned())
}

#[test]
fn programs_ask_and_teach() {
    let daemon = Daemon::start(&[]);
    let mut stream = daemon.connect();
    let spam = messages("pills", 30).remove(27);
    let (head, _) = ask(&mut stream, "classify", "", &spam);
    assert!(head.starts_with("barid-spam/1 ok\nstatus: spam\nspamicity: "), "{head}");
    assert!(head.contains("\nx-bogosity: Spam, tests=bogofilter, spamicity="), "{head}");
    let (_, tokens) = ask(&mut stream, "classify", "Explain: yes\n", &spam);
    assert!(tokens.contains(" 25 0 pills\n"), "{tokens}");
    // Training by other processes takes effect at once.
    let file = daemon.world.write("one.eml", spam.as_bytes());
    let list = ["--wordlist", "wordlist.db"];
    daemon.world.ok(&[&["spam", "train", "--ham", &file][..], &list].concat());
    let (_, tokens) = ask(&mut stream, "classify", "Explain: yes\n", &spam);
    assert!(tokens.contains(" 25 1 pills\n"), "{tokens}");
    let (head, _) = ask(&mut stream, "retrain", "Class: spam\n", &spam);
    assert!(head.contains("\nbecame: moved\nclass: spam\n"), "{head}");
    let (head, _) = ask(&mut stream, "train", "Class: ham\n", &spam);
    assert!(head.contains("\nbecame: otherwise\n"), "{head}");
    let (head, _) = ask(&mut stream, "untrain", "", &spam);
    assert!(head.contains("\nbecame: untrained\n"), "{head}");
    let dump = daemon.world.ok(&["spam", "dump", "--wordlist", "wordlist.db"]);
    assert!(dump.contains("\npills 25 0 "), "{dump}");
    for (verb, fields) in [("train", ""), ("train", "Class: other\n"), ("what", "")] {
        assert!(ask(&mut stream, verb, fields, &spam).0.starts_with("barid-spam/1 error\n"));
    }
    assert!(ask(&mut stream, "ping", "", "").0.starts_with("barid-spam/1 ok\n"));
    let (head, counts) = ask(&mut stream, "counts", "", "minutes\0nowhere\0");
    assert!(head.starts_with("barid-spam/1 ok\n"), "{head}");
    assert_eq!(counts.as_bytes(), [0, 0, 0, 0, 25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for tokens in ["", "no end", "\0", "a\0\0", &("x".repeat(2000) + "\0")] {
        let (head, _) = ask(&mut stream, "counts", "", tokens);
        assert!(head.starts_with("barid-spam/1 error\n"), "{tokens:?}: {head}");
    }
    assert_eq!(daemon.end(), "");
}

#[test]
fn bogofilters_drop_in_asks_it() {
    let daemon = Daemon::start(&["--verbose"]);
    let spam = messages("pills", 30).remove(27);
    let run = |args: &[&str]| {
        let args = [&["bogofilter", "-C", "-d", "."][..], args].concat();
        daemon.world.run_with_input(&args, spam.as_bytes())
    };
    let args: [&[&str]; 3] = [&["-vvv"], &["-TT"], &["-p"]];
    let asked = args.map(run);
    // Registering bypasses the daemon, and takes effect in it.
    assert_eq!(run(&["-n"]).code, 0);
    assert_ne!(run(&["-vvv"]).stdout, asked[0].stdout);
    assert_eq!(run(&["-N"]).code, 0);
    let (world, said) = daemon.end_and_keep();
    let count = said.lines().filter(|line| line.starts_with("note: the counts of ")).count();
    assert_eq!(count, 4, "a question for each that scores: {said}");
    // Without the daemon the answers are the same.
    for (asked, args) in asked.iter().zip(args) {
        let args = [&["bogofilter", "-C", "-d", "."][..], args].concat();
        let alone = world.run_with_input(&args, spam.as_bytes());
        assert_eq!((alone.code, &alone.stdout), (asked.code, &asked.stdout), "{args:?}");
    }
}

#[test]
fn a_socket_that_was_left_behind_is_replaced_and_one_in_use_is_not() {
    let mut daemon = Daemon::start(&[]);
    let second = ["spam", "daemon", "--wordlist", "wordlist.db"];
    let run = daemon.world.run(&second);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("another daemon"), "{}", run.stderr);
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    assert!(daemon.world.has("wordlist.db.socket"));
    let Daemon { mut world, .. } = daemon;
    for (mode, expected) in [(&[][..], 0o600), (&["--socket-mode", "660"][..], 0o660)] {
        let daemon = Daemon::start_in(world, mode);
        let found = rustix::fs::stat(daemon.socket()).unwrap().st_mode & 0o777;
        assert_eq!(found, expected);
        ask(&mut daemon.connect(), "ping", "", "");
        (world, _) = daemon.end_and_keep();
    }
    let world = World::new();
    world.write("wordlist.db.socket", b"precious");
    let run = world.run(&second);
    assert_eq!((run.code, run.stderr.contains("not a socket")), (2, true), "{}", run.stderr);
    assert_eq!(world.read("wordlist.db.socket"), b"precious");
}

#[test]
fn what_runs_is_finished_and_who_waits_is_let_go() {
    let daemon = Daemon::start(&[]);
    let mut waiting = daemon.connect();
    ask(&mut waiting, "ping", "", "");
    // Half a request before the daemon is told to end, the rest after.
    let spam = messages("pills", 30).remove(27);
    let request = format!("barid-spam/1 classify\nLength: {}\n\n{spam}", spam.len());
    let (first, rest) = request.split_at(40);
    let mut busy = daemon.connect();
    busy.write_all(first.as_bytes()).unwrap();
    thread::sleep(Duration::from_millis(300));
    send(&daemon.child, Signal::HUP);
    assert_eq!(waiting.read(&mut [0; 8]).unwrap(), 0, "it still waits");
    busy.write_all(rest.as_bytes()).unwrap();
    let mut answer = String::new();
    busy.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("barid-spam/1 ok\nstatus: spam\n"), "{answer}");
    assert_eq!(daemon.wait().1, "");
}

#[test]
fn those_who_mean_no_good_end_alone() {
    let args = ["--milter", "inet:127.0.0.1:0", "--timeout", "1", "--connections", "4"];
    let args = [&args[..], &["--message-size", "100000"]].concat();
    let daemon = Daemon::start(&args);
    // More connections than are allowed, silent or slow.
    let idle: Vec<UnixStream> = (0..6).map(|_| daemon.connect()).collect();
    let mut random = fastrand::Rng::with_seed(9);
    for _ in 0..30 {
        let mut bytes: Vec<u8> = (0..random.usize(1..300)).map(|_| random.u8(..)).collect();
        if random.bool() {
            // An impossible length.
            bytes.splice(0..0, [0xFF; 4]);
        }
        let mut stream = daemon.milter();
        // The daemon may close the connection early.
        let _ = stream.write_all(&bytes);
        drop(stream);
        let mut stream = daemon.connect();
        let _ = stream.write_all(&bytes);
    }
    let mut stream = daemon.connect();
    let large = "x".repeat(100_001);
    let head = format!("barid-spam/1 classify\nLength: {}\n\n", large.len());
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("barid-spam/1 error\n"), "{answer}");
    drop(idle);
    let mut stream = daemon.connect();
    assert!(ask(&mut stream, "ping", "", "").0.starts_with("barid-spam/1 ok\n"));
    daemon.end();
}
