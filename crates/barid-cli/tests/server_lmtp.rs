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

use crate::support::{Locked, send};
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

/// Returns the value of a metric.
fn figure(server: &Server, name: &str) -> u64 {
    let metrics = server.metrics();
    let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("barid_{name} ")));
    line.unwrap_or_else(|| panic!("{name}: {metrics}")).parse().unwrap()
}

#[test]
fn a_user_whose_deliveries_hang_does_not_stop_those_of_others() {
    const MOST: u64 = 24;
    let server = start("[delivery]\nduplicates = \"1 h\"\n");
    let delivered = "250 2.0.0 delivered";
    assert_eq!(Sender::connect(&server).send(&["ann"], &message(0)).pop().unwrap(), delivered);
    // Deliveries to a user wait for each other for a minute.
    let path = server.world.path("ann/.local/state/barid/deliveries.lock");
    let lock = Locked::new(&path);
    let mut hanging: Vec<Sender<TcpStream>> = (0..MOST).map(|_| Sender::connect(&server)).collect();
    for (number, sender) in (1..).zip(&mut hanging) {
        sender.say("MAIL FROM:<a@b.example>\r\n");
        sender.say("RCPT TO:<ann>\r\n");
        assert!(sender.say("DATA\r\n").starts_with("354 "));
        let text = format!("{}\r\n.\r\n", message(number));
        sender.stream.get_mut().write_all(text.as_bytes()).unwrap();
    }
    wait_for("the deliveries", || (figure(&server, "deliveries") == MOST).then_some(()));
    let mut sender = Sender::connect(&server);
    let replies = sender.send(&["ann", "bob"], &message(100));
    assert_eq!(replies[4], "451 4.3.0 user ann: too many deliveries at once, try again");
    assert_eq!(replies[5], delivered);
    drop(lock);
    for sender in &mut hanging {
        assert_eq!(sender.reply(), delivered);
    }
    assert_eq!(sender.send(&["ann"], &message(100)).pop().unwrap(), delivered);
}

#[test]
fn the_ends_of_deliveries_are_counted() {
    let server = start("[delivery]\nduplicates = \"1 h\"\n[quota]\nmessages = 3\n");
    let mut sender = Sender::connect(&server);
    for number in [1, 2, 2, 3] {
        let replies = sender.send(&["ann", "nobody"], &message(number));
        assert!(replies[4].starts_with("250"), "{replies:?}");
    }
    let replies = sender.send(&["ann"], &message(4));
    assert!(replies[3].starts_with("552"), "{replies:?}");
    // A folder that cannot be written.
    let maildir = server.world.path("bob");
    fs::remove_dir_all(&maildir).unwrap();
    fs::write(&maildir, "").unwrap();
    let replies = sender.send(&["bob"], &message(5));
    assert!(replies[3].starts_with("451"), "{replies:?}");
    let names = ["delivered", "duplicates", "deliveries_deferred", "deliveries_refused"];
    let figures = names.map(|name| figure(&server, &format!("{name}_total")));
    assert_eq!(figures, [3, 1, 1, 1]);
}

#[test]
fn a_reload_changes_the_permissions_of_sockets() {
    let mut server = start("");
    let path = server.world.path("imap.sock");
    let mut before = BufReader::new(UnixStream::connect(&path).unwrap());
    let seen = |path: &PathBuf| {
        let metadata = fs::metadata(path).unwrap();
        (metadata.permissions().mode() & 0o777, metadata.gid())
    };
    let own = rustix::process::getegid().as_raw();
    assert_eq!(seen(&path), (0o660, own));
    let config = server.world.path("barid.toml");
    let text = fs::read_to_string(&config).unwrap();
    let line = format!("socket = \"{}\"\n", path.display());
    assert!(text.contains(&line));
    let reload = |count: usize, more: &str| {
        fs::write(&config, text.replace(&line, &format!("{line}{more}"))).unwrap();
        send(&server.running, Signal::HUP);
        wait_for("the reload", || {
            let log = server.log.lock().unwrap();
            let lines = log.iter().filter(|line| line.contains("was read again"));
            (lines.count() == count).then_some(())
        });
    };
    let group = if is_root() { ANN } else { own };
    reload(1, &format!("mode = \"0606\"\ngroup = \"{group}\"\n"));
    assert_eq!(seen(&path), (0o606, group));
    reload(2, "");
    assert_eq!(seen(&path), (0o660, own));
    // It is the same socket, on which connections go on and begin.
    let mut line = String::new();
    before.read_line(&mut line).unwrap();
    assert!(line.starts_with("* OK"), "{line}");
    line.clear();
    BufReader::new(UnixStream::connect(&path).unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("* OK"), "{line}");
    send(&server.running, Signal::TERM);
    wait_for("the end", || server.running.try_wait().unwrap());
}

/// Returns the values of a key of the systemd unit.
fn unit(key: &str) -> Vec<String> {
    let unit = include_str!("../../../contrib/systemd/barid.service");
    let values = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    values.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

#[test]
fn the_unit_for_systemd_can_listen_for_postfix() {
    let recipe = include_str!("../../../docs/delivery.md");
    let socket = recipe.lines().find_map(|line| line.strip_prefix("socket = \"/")).unwrap();
    let folder = format!("/{}", socket.rsplit_once('/').unwrap().0);
    assert!(unit("ReadWritePaths").contains(&format!("-{folder}")), "{folder}");
    assert!(recipe.contains(&format!("install -d -o root -g postfix -m 750 {folder}\n")));
    if !is_root() {
        println!("skipped: only root has capabilities to give up");
        return;
    }
    // ANN stands for the group of Postfix.
    let world = Server::world(&[], &|path| {
        let socket = path("postfix/barid/lmtp");
        format!(
            "[[listen]]\nprotocol = \"lmtp\"\nsocket = \"{socket}\"\ngroup = \"{ANN}\"\n\
             [[listen]]\nprotocol = \"lmtp\"\naddress = \"127.0.0.1:0\"\n"
        )
    });
    world.create_dir("postfix/barid");
    std::os::unix::fs::chown(world.path("postfix/barid"), None, Some(ANN)).unwrap();
    for (folder, mode) in [("postfix", 0o755), ("postfix/barid", 0o750)] {
        world.set_mode(folder, mode);
    }
    let capabilities = unit("CapabilityBoundingSet").into_iter();
    let capabilities = capabilities.map(|name| name.replace("CAP_", "+").to_lowercase());
    let capabilities = ["-all".to_owned()].into_iter().chain(capabilities).collect::<Vec<_>>();
    let barid = world.command();
    let mut command = std::process::Command::new("setpriv");
    command.arg("--bounding-set").arg(capabilities.join(",")).arg(barid.get_program());
    let server = Server::start_by(world, command);
    let supervisor = server.running.id() as i32;
    // Not CAP_DAC_OVERRIDE (1).
    let bounding = u64::from_str_radix(&status(supervisor, "CapBnd:"), 16).unwrap();
    assert_eq!(bounding & 0b10, 0, "{bounding:x}");
    server.login("bob").ok("SELECT INBOX");
    let path = server.world.path("postfix/barid/lmtp");
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.permissions().mode() & 0o777, metadata.gid()), (0o660, ANN));
    let mut sender = Sender::new(UnixStream::connect(&path).unwrap());
    assert_eq!(sender.send(&["ann"], &message(1)).pop().unwrap(), "250 2.0.0 delivered");
}
