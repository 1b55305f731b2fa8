//! Slow clients of the daemon, and clients that a slow daemon would delay.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::process::Signal;

use super::{Daemon, ask, messages};
use crate::support::{Run, Running, World, send};

/// Longer than any operation here takes.
const LONG: Duration = Duration::from_secs(60);

fn connect(daemon: &Daemon) -> UnixStream {
    let stream = daemon.connect();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

#[test]
fn who_teaches_waits_for_the_list_without_keeping_others_from_it() {
    let daemon = Daemon::start(&[]);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let lock = open(daemon.world.path("wordlist.db.lock"), flags, Mode::RUSR | Mode::WUSR).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let cores = thread::available_parallelism().unwrap().get();
    let mut teachers: Vec<UnixStream> = (0..2 * cores).map(|_| connect(&daemon)).collect();
    let texts = messages("pills", 100).split_off(50);
    for (stream, text) in teachers.iter_mut().zip(&texts) {
        let request = format!("barid-spam/1 train\nClass: spam\nLength: {}\n\n{text}", text.len());
        stream.write_all(request.as_bytes()).unwrap();
    }
    thread::sleep(Duration::from_millis(500));
    let (head, _) = ask(&mut connect(&daemon), "classify", "", &texts[0]);
    assert!(head.starts_with("barid-spam/1 ok\nstatus: spam\n"), "{head}");
    flock(&lock, FlockOperation::Unlock).unwrap();
    for stream in &mut teachers {
        let mut head = [0; 33];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(head.escape_ascii().to_string(), "barid-spam/1 ok\\nbecame: trained\\nc");
    }
    assert_eq!(daemon.end(), "");
}

#[test]
fn one_socket_does_not_starve_the_other() {
    let daemon = Daemon::start(&["--milter", "inet:127.0.0.1:0", "--connections", "2"]);
    let mut programs: Vec<UnixStream> = (0..2).map(|_| connect(&daemon)).collect();
    programs.iter_mut().for_each(|stream| drop(ask(stream, "ping", "", "")));
    let mut servers = [daemon.milter(), daemon.milter()];
    for stream in &mut servers {
        stream.write_all(b"\0\0\0\x0DO\0\0\0\x06\0\0\x01\xFF\0\0\0\0").unwrap();
        let mut answer = [0; 17];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer[..5], b"\0\0\0\x0DO");
    }
    // The limit of connections of both kinds is reached.
    let mut more = connect(&daemon);
    more.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    more.write_all(b"barid-spam/1 ping\n\n").unwrap();
    assert!(more.read(&mut [0; 8]).is_err());
    drop(programs);
    more.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(more.read(&mut [0; 5]).unwrap(), 5);
    daemon.end();
}

/// Sends a few bytes again and again; returns `true` if the connection is closed before the end.
fn is_ended(mut stream: impl std::io::Write, said: &[u8], times: usize) -> bool {
    (0..times).any(|_| {
        thread::sleep(Duration::from_millis(200));
        stream.write_all(said).is_err()
    })
}

#[test]
fn who_says_little_at_a_time_is_let_go() {
    let args = ["--milter", "inet:127.0.0.1:0", "--timeout", "1"];
    let daemon = Daemon::start(&args);
    let mut program = connect(&daemon);
    program.write_all(b"barid-spam/1 classify\nLength: 100\n\n").unwrap();
    assert!(is_ended(program, b"x", 99), "a request may take for ever");
    let mut server = daemon.milter();
    server.write_all(&packet(NEGOTIATE)).unwrap();
    // The sender of the message may be slow with each command, the mail server may not.
    let commands = [&b"C-\x004\0\x19127.0.0.1\0"[..], b"Hhost\0", b"M<>\0", b"R<>\0", b"T"];
    for command in commands {
        thread::sleep(Duration::from_millis(500));
        server.write_all(&packet(command)).unwrap();
    }
    assert!(is_ended(&server, b"\0\0\0\x05La\0b\0", 100), "a message may take for ever");
    daemon.end();
}

/// Returns a packet of the milter protocol.
fn packet(command: &[u8]) -> Vec<u8> {
    [&(command.len() as u32).to_be_bytes()[..], command].concat()
}

const NEGOTIATE: &[u8] = b"O\0\0\0\x06\0\0\x01\xFF\0\x1F\xFF\xFF";

#[test]
fn who_repeats_commands_is_let_go() {
    let daemon = Daemon::start(&["--milter", "inet:127.0.0.1:0", "--timeout", "1"]);
    for said in [&b"DCj\0host\0"[..], b"M<>\0", b"A", b"U"] {
        let mut server = daemon.milter();
        server.write_all(&packet(NEGOTIATE)).unwrap();
        assert!(is_ended(&server, &packet(said), 100), "{} may go on", said.escape_ascii());
    }
    daemon.end();
}

/// Mail servers that only send macros, as many as may be connected, do not delay another one for
/// `--timeout`.
#[test]
fn who_comes_no_further_makes_room_for_others() {
    let daemon = Daemon::start(&["--milter", "inet:127.0.0.1:0", "--timeout", "300"]);
    let mut idle: Vec<_> = (0..64).map(|_| daemon.milter()).collect();
    for server in &mut idle {
        server.write_all(&packet(NEGOTIATE)).unwrap();
        server.read_exact(&mut [0; 17]).unwrap();
    }
    let talker = thread::spawn(move || {
        let mut ended = 0;
        while ended == 0 {
            thread::sleep(Duration::from_millis(100));
            let said = idle.iter_mut().map(|server| server.write_all(&packet(b"DM\0\0\0")));
            ended = said.filter(Result::is_err).count();
        }
        ended
    });
    let mut server = daemon.milter();
    let start = Instant::now();
    for command in [NEGOTIATE, b"M<a@b>\0", b"LSubject\0pills\0", b"N", b"E"] {
        server.write_all(&packet(command)).unwrap();
    }
    let mut answer = [0; 18];
    server.read_exact(&mut answer).unwrap();
    assert_eq!(&answer[..5], b"\0\0\0\x0DO");
    assert!(start.elapsed() < LONG, "{:?}", start.elapsed());
    assert!(talker.join().unwrap() < 32, "more have to go than others need");
    daemon.end();
}

/// Runs the program, which must end in time.
fn run_in_time(world: &World, args: &[&str], input: &[u8]) -> Run {
    let mut command = world.command();
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Running::spawn(&mut command);
    child.stdin.take().unwrap().write_all(input).unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > LONG {
            panic!("{args:?} hangs");
        }
        thread::sleep(Duration::from_millis(20));
    }
    Run::of(child.wait_with_output().unwrap())
}

#[test]
fn mail_does_not_wait_for_a_daemon_that_is_stopped() {
    let daemon = Daemon::start(&[]);
    let spam = messages("pills", 30).remove(27);
    let args = ["bogofilter", "-C", "-d", ".", "-TT"];
    let expected = daemon.world.run_with_input(&args, spam.as_bytes());
    send(&daemon.child, Signal::STOP);
    let run = run_in_time(&daemon.world, &args, spam.as_bytes());
    assert_eq!((run.code, run.stdout), (expected.code, expected.stdout.clone()));
    send(&daemon.child, Signal::CONT);
    let (world, _) = daemon.end_and_keep();
    // Nobody accepts connections, and the backlog is full.
    let path = world.path("wordlist.db.socket");
    let _listener = UnixListener::bind(&path).unwrap();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        while let Ok(stream) = UnixStream::connect(&path) {
            if sender.send(stream).is_err() {
                return;
            }
        }
    });
    let mut waiting = Vec::new();
    while let Ok(stream) = receiver.recv_timeout(Duration::from_secs(1)) {
        waiting.push(stream);
    }
    assert!(!waiting.is_empty());
    let run = run_in_time(&world, &args, spam.as_bytes());
    assert_eq!((run.code, run.stdout), (expected.code, expected.stdout));
}

#[test]
fn a_path_that_is_too_long_for_a_socket_is_told() {
    let world = World::new();
    let path = format!("{}/x", "y".repeat(120));
    let run = world.run(&["spam", "daemon", "--wordlist", "words", "--socket", &path]);
    assert_eq!(run.code, 2);
    for part in ["at most 107", "122 bytes", "hint: ", "--socket"] {
        assert!(run.stderr.contains(part), "{part:?}: {}", run.stderr);
    }
}
