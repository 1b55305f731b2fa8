//! LMTP in the server of many users, and Unix sockets.
#![expect(clippy::disallowed_methods, reason = "the program is tested from outside, on real files")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::send;
use crate::test_server::{ANN, BOB, SOON, Server, is_root, kill, status, wait_for};

/// Kills of processes while messages arrive.
const KILLED: u64 = 10;

fn start(more: &str) -> Server {
    Server::start_with_files(&[], &|path| {
        format!(
            "[[listen]]\nprotocol = \"lmtp\"\naddress = \"127.0.0.1:0\"\n\
             [[listen]]\nprotocol = \"lmtp\"\nsocket = \"{}\"\nmode = \"0600\"\n\
             [[listen]]\nprotocol = \"imap\"\nsocket = \"{}\"\n{more}",
            path("lmtp.sock"),
            path("imap.sock"),
        )
    })
}

/// A client that speaks LMTP, over any kind of socket.
struct Sender<S> {
    stream: BufReader<S>,
}

impl Sender<TcpStream> {
    fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address("lmtp")).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        Self::new(stream)
    }
}

impl<S: std::io::Read + std::io::Write> Sender<S> {
    fn new(stream: S) -> Self {
        let mut sender = Self { stream: BufReader::new(stream) };
        assert!(sender.reply().starts_with("220 "));
        assert!(sender.say("LHLO me\r\n").starts_with("250 "));
        sender
    }

    /// Returns the last line of a reply; nothing at the end of the connection.
    fn reply(&mut self) -> String {
        loop {
            let mut line = String::new();
            let read = self.stream.read_line(&mut line);
            if read.is_err() || line.as_bytes().get(3) != Some(&b'-') {
                return line.trim_end().to_owned();
            }
        }
    }

    fn say(&mut self, text: &str) -> String {
        match self.stream.get_mut().write_all(text.as_bytes()) {
            Ok(()) => self.reply(),
            Err(_) => String::new(),
        }
    }

    /// Sends a message; returns the replies, as far as they came.
    fn send(&mut self, recipients: &[&str], message: &str) -> Vec<String> {
        let mut replies = vec![self.say("MAIL FROM:<a@b.example>\r\n")];
        replies.extend(recipients.iter().map(|to| self.say(&format!("RCPT TO:<{to}>\r\n"))));
        let accepted = replies[1..].iter().filter(|reply| reply.starts_with("250")).count();
        if accepted == 0 {
            self.say("RSET\r\n");
            return replies;
        }
        replies.push(self.say("DATA\r\n"));
        let first = self.say(&format!("{message}\r\n.\r\n"));
        replies.push(first);
        replies.extend((1..accepted).map(|_| self.reply()));
        replies
    }
}

fn message(number: u64) -> String {
    format!("Subject: {number}\r\nMessage-ID: <{number}@x>\r\n\r\nmessage {number}")
}

/// Returns the messages of an INBOX, with their files. A session may move a message meanwhile.
fn messages(server: &Server, user: &str) -> Vec<(PathBuf, String)> {
    let mut all = BTreeMap::new();
    for folder in ["new", "cur"] {
        let Ok(files) = fs::read_dir(server.world.path(&format!("{user}/Maildir/{folder}"))) else {
            continue;
        };
        for file in files {
            let path = file.unwrap().path();
            let Ok(bytes) = fs::read(&path) else { continue };
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let name = name.split(':').next().unwrap().to_owned();
            all.insert(name, (path, String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    all.into_values().collect()
}

fn times(server: &Server, user: &str, number: u64) -> usize {
    let all = messages(server, user);
    all.iter().filter(|(_, text)| text.contains(&format!("Message-ID: <{number}@x>"))).count()
}

#[test]
fn mail_is_delivered_by_processes_of_the_users() {
    let server = start("[limits]\nmessage_size = \"1 MB\"\n");
    // Sessions learn of it at once.
    let mut ann = server.login("ann");
    ann.ok("SELECT INBOX");
    ann.send("t IDLE\r\n");
    assert!(ann.line().starts_with("+ "));
    let mut sender = Sender::connect(&server);
    let to = ["ann@x.example", "eve@x.example", "bob+lists@x.example"];
    let replies = sender.send(&to, &message(1));
    let delivered = "250 2.0.0 delivered";
    assert_eq!(replies[2], "550 5.1.1 no such user");
    assert_eq!(replies[5..], [delivered, delivered], "{replies:?}");
    assert_eq!(ann.line(), "* 1 EXISTS\r\n");
    for (user, id, to) in [("ann", ANN, "ann@x.example"), ("bob", BOB, "bob+lists@x.example")] {
        let found = messages(&server, user);
        let start = format!("Return-Path: <a@b.example>\nDelivered-To: {to}\nSubject: 1\n");
        assert!(found.len() == 1 && found[0].1.starts_with(&start), "{found:?}");
        if is_root() {
            assert_eq!(fs::metadata(&found[0].0).unwrap().uid(), id);
        }
    }
    // A large message is not kept in memory meanwhile; one that is too large is refused.
    let large = format!("{}\r\n{}", message(2), "0123456789\r\n".repeat(60_000));
    assert_eq!(sender.send(&["ann"], &large).pop().unwrap(), delivered);
    assert_eq!(times(&server, "ann", 2), 1);
    let too_large = format!("{}\r\n{}", message(3), "0123456789\r\n".repeat(100_000));
    assert!(sender.send(&["ann"], &too_large).pop().unwrap().starts_with("552 5.3.4"));
    let mut local = Sender::new(UnixStream::connect(server.world.path("lmtp.sock")).unwrap());
    assert_eq!(local.send(&["bob"], &message(4)).pop().unwrap(), delivered);
    assert_eq!(times(&server, "bob", 4), 1);
    assert!(server.has_logged("lmtp session=1 text=\"delivered to ann@x.example"));
    let lmtp = server.pid("lmtp");
    assert_eq!(status(lmtp, "Seccomp:"), "2");
    if is_root() {
        assert!(!status(lmtp, "Uid:").split(' ').any(|id| id == "0"));
    }
}

#[test]
fn clients_on_a_unix_socket_log_in_in_clear() {
    let mut server = start("");
    let path = server.world.path("imap.sock");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    let mut stream = BufReader::new(UnixStream::connect(&path).unwrap());
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    assert!(line.contains("AUTH=PLAIN"), "{line}");
    stream.get_mut().write_all(b"a LOGIN ann secret\r\nb SELECT INBOX\r\nc LOGOUT\r\n").unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("a OK") && rest.contains("b OK") && rest.contains("c OK"), "{rest}");
    send(&server.running, Signal::TERM);
    wait_for("the end", || server.running.try_wait().unwrap());
    assert!(!path.exists());
}

#[test]
fn what_was_acknowledged_is_there_after_kills() {
    let server = start("[limits]\nrestart_delay = \"0 s\"\n[delivery]\nduplicates = \"1 h\"\n");
    let mut rng = fastrand::Rng::with_seed(9);
    let (mut number, mut acknowledged) = (0, Vec::new());
    for round in 0..KILLED {
        let victim = ["lmtp", "auth"][(round % 2) as usize];
        let pid = server.pid(victim);
        let after = Duration::from_millis(rng.u64(1..150));
        let killer = std::thread::spawn(move || {
            std::thread::sleep(after);
            kill(pid);
        });
        let mut sender = Sender::connect(&server);
        loop {
            number += 1;
            let replies = sender.send(&["ann"], &message(number));
            let last = replies.last().unwrap();
            match last.as_str() {
                "250 2.0.0 delivered" => acknowledged.push(number),
                // Auth or the whole process is gone: the mail server tries again.
                _ if last.starts_with("4") || last.is_empty() => {}
                _ => panic!("{replies:?}"),
            }
            if killer.is_finished() {
                break;
            }
        }
        killer.join().unwrap();
        wait_for("the next process", || {
            let next = server.pid(victim);
            (next != pid).then_some(())
        });
    }
    assert!(acknowledged.len() as u64 > KILLED, "{acknowledged:?}");
    for number in acknowledged {
        assert_eq!(times(&server, "ann", number), 1, "{number}");
    }
}
