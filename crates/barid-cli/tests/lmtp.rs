//! `barid lmtp`: mail servers of all kinds, a server that is killed, and malicious clients.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use barid_testkit::peers::program;
use barid_testkit::skip_or_fail;
use rustix::process::Signal;

use crate::deliver::Site;
use crate::support::{Locked, Running, send};

/// Times that the server is killed.
const KILLED: usize = 12;
/// Random sequences of commands.
const HOSTILE: usize = 60;

/// A server on a port and on a socket.
struct Server {
    site: Site,
    child: Running,
    port: u16,
}

impl Server {
    /// Starts a server as root, if the test runs as root: it delivers in processes of the users.
    fn start(settings: &str) -> Self {
        let listen = "[[listen]]\nprotocol = \"lmtp\"\naddress = \"127.0.0.1:0\"\n";
        let site = Site::new(&format!("{listen}{settings}"));
        let (child, port) = start_in(&site, true);
        Self { site, child, port }
    }

    /// Starts a server as the owner of the mail.
    fn start_as_owner(settings: &str) -> Self {
        let listen = "[[listen]]\nprotocol = \"lmtp\"\naddress = \"127.0.0.1:0\"\n";
        let site = Site::new(&format!("{listen}{settings}"));
        let (child, port) = start_in(&site, false);
        Self { site, child, port }
    }

    fn connect(&self) -> Client {
        Client::connect(self.port)
    }
}

fn start_in(site: &Site, as_root: bool) -> (Running, u16) {
    let mut command = site.world.command();
    if !as_root {
        site.user.run_as(&mut command, &site.world.path("home/ann"));
    }
    command.args(["lmtp", "--config", "barid.toml"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = Running::spawn(&mut command);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim_end().rsplit(':').next().and_then(|port| port.parse().ok());
    (child, port.unwrap_or_else(|| panic!("{line:?}")))
}

struct Client {
    stream: TcpStream,
    lines: BufReader<TcpStream>,
}

impl Client {
    fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut client = Self { lines: BufReader::new(stream.try_clone().unwrap()), stream };
        assert_eq!(client.reply(), "220 mail.example LMTP barid is ready");
        client
    }

    /// Returns the last line of a reply; nothing at the end of the connection.
    fn reply(&mut self) -> String {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).is_err() {
                return String::new();
            }
            if line.as_bytes().get(3) != Some(&b'-') {
                return line.trim_end().to_owned();
            }
        }
    }

    fn say(&mut self, text: &str) -> String {
        if self.stream.write_all(text.as_bytes()).is_err() {
            return String::new();
        }
        self.reply()
    }

    /// Sends a message; returns the replies of all recipients, as far as they came.
    fn send(&mut self, recipients: &[&str], message: &str) -> Vec<String> {
        self.say("LHLO me\r\n");
        self.say("MAIL FROM:<a@b.example> SIZE=100 BODY=8BITMIME\r\n");
        let accepted = recipients
            .iter()
            .filter(|recipient| self.say(&format!("RCPT TO:<{recipient}>\r\n")).starts_with("250"));
        let accepted = accepted.count();
        self.say("DATA\r\n");
        let mut replies = vec![self.say(&format!("{message}\r\n.\r\n"))];
        replies.extend((1..accepted).map(|_| self.reply()));
        replies
    }
}

fn message(number: usize) -> String {
    format!("Subject: {number}\r\nMessage-ID: <{number}@x>\r\n\r\nmessage {number}")
}

/// Returns how often a message is in an inbox.
fn times(site: &Site, user: &str, number: usize) -> usize {
    let messages = site.messages(&format!("home/{user}/Maildir")).join("\n");
    messages.matches(&format!("Message-ID: <{number}@x>\n")).count()
}

#[test]
fn each_recipient_gets_the_message_and_a_reply() {
    for as_root in [true, false] {
        let settings = "[quota]\nmessages = 2\n";
        let server =
            if as_root { Server::start(settings) } else { Server::start_as_owner(settings) };
        let mut client = server.connect();
        for number in 0..2 {
            let recipients = ["ann@x.example", "eve@x.example", "bob+detail@x.example"];
            let replies = client.send(&recipients, &message(number));
            assert_eq!(replies, ["250 2.0.0 delivered"; 2]);
        }
        let replies = client.send(&["ann@x.example"], &message(2));
        assert_eq!(replies, ["552 5.2.2 the mailbox is full"]);
        for user in ["ann", "bob"] {
            let found = [0, 1, 2].map(|number| times(&server.site, user, number));
            assert_eq!(found, [1, 1, 0], "{user}");
        }
        let stored = server.site.messages("home/bob/Maildir").remove(0);
        let start = "Return-Path: <a@b.example>\nDelivered-To: bob+detail@x.example\nSubject: ";
        assert!(stored.starts_with(start) && !stored.contains('\r'), "{stored}");
        assert_eq!(client.say("QUIT\r\n"), "221 2.0.0 bye");
    }
}

#[test]
fn other_programs_deliver_by_it() {
    let server = Server::start("");
    let port = server.port.to_string();
    if program("python3").is_none() {
        skip_or_fail("python3");
    } else {
        let script = "import smtplib, sys\n\
            c = smtplib.LMTP('127.0.0.1', int(sys.argv[1]))\n\
            r = c.sendmail('a@b', ['ann', 'eve', 'bob'], '\
            Subject: 1\\nMessage-ID: <1@x>\\n\\n.dot\\n..dots\\n', ['BODY=8BITMIME'])\n\
            assert list(r) == ['eve'] and r['eve'][0] == 550, r\n\
            c.quit()\n";
        let output = Command::new("python3").args(["-c", script, &port]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for user in ["ann", "bob"] {
            let stored = server.site.messages(&format!("home/{user}/Maildir")).remove(0);
            assert!(stored.ends_with("\n\n.dot\n..dots\n"), "{stored}");
        }
    }
    if program("swaks").is_none() {
        skip_or_fail("swaks");
    } else {
        let mut swaks = Command::new("swaks");
        swaks.args(["--protocol", "LMTP", "--server", "127.0.0.1", "--port", &port]);
        swaks.args(["--to", "ann@x.example", "--from", "a@b.example", "--silent", "2"]);
        swaks.args(["--data", "Subject: 7\\nMessage-ID: <7@x>\\n\\nby swaks"]);
        let output = swaks.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(times(&server.site, "ann", 7), 1);
    }
}

#[test]
fn a_socket_of_a_killed_server_is_used_again() {
    let site = Site::new("");
    let path = site.world.path("lmtp.sock");
    let config = String::from_utf8(site.world.read("barid.toml")).unwrap();
    let listen = format!("[[listen]]\nprotocol = \"lmtp\"\nsocket = \"{}\"\n", path.display());
    site.world.write("barid.toml", format!("{config}{listen}").as_bytes());
    for _ in 0..2 {
        let mut command = site.world.command();
        command.args(["lmtp", "--config", "barid.toml"]).stdout(Stdio::piped());
        let mut child = Running::spawn(&mut command);
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut stream = UnixStream::connect(&path).unwrap();
        let mut greeting = [0; 4];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, b"220 ");
        let second = site.world.run(&["lmtp", "--config", "barid.toml"]);
        assert!(second.code != 0 && second.stderr.contains("lmtp.sock"), "{}", second.stderr);
        send(&child, Signal::KILL);
        child.wait().unwrap();
    }
}

#[test]
fn a_delivery_that_hangs_is_ended() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root delivers in processes of the users");
        return;
    }
    // Long enough for a delivery on a machine that does much else.
    let server = Server::start("[delivery]\nduplicates = \"1 h\"\ntimeout = \"10 s\"\n");
    assert_eq!(server.connect().send(&["ann"], &message(1)), ["250 2.0.0 delivered"]);
    // Deliveries to a user wait for each other for a minute.
    let path = server.site.world.path("home/ann/.local/state/barid/deliveries.lock");
    let lock = Locked::new(&path);
    let start = Instant::now();
    let replies = server.connect().send(&["ann"], &message(2));
    assert_eq!(replies, ["451 4.3.0 the delivery process has not ended after 10 s"]);
    assert!(start.elapsed() < Duration::from_secs(50), "{:?}", start.elapsed());
    assert_eq!(times(&server.site, "ann", 2), 0);
    drop(lock);
    assert_eq!(server.connect().send(&["ann"], &message(2)), ["250 2.0.0 delivered"]);
    assert_eq!(times(&server.site, "ann", 2), 1);
}

#[test]
fn root_makes_the_folders_of_virtual_users() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root delivers to other users");
        return;
    }
    let listen = "[[listen]]\nprotocol = \"lmtp\"\naddress = \"127.0.0.1:0\"\n";
    for by_lmtp in [true, false] {
        let site = Site::new(listen);
        let world = &site.world;
        world.set_mode("", 0o755);
        // As /var/lib/barid and /var/cache/barid: nobody else can make a folder there.
        for folder in ["server", "cache"] {
            world.create_dir(folder);
            std::os::unix::fs::chown(world.path(folder), Some(0), Some(0)).unwrap();
        }
        let user = site.user;
        world.write("users", b"carl@x.example:{PLAIN}secret:::::\n");
        let config = String::from_utf8(world.read("barid.toml")).unwrap();
        let mail = world.path("home").display().to_string();
        let mail = format!(
            "[mail]\nlocation = \"maildir:{mail}/%n\"\nowner = \"{}:{}\"\n",
            user.uid, user.gid
        );
        world.write("barid.toml", (config + &mail).as_bytes());
        if by_lmtp {
            let (_child, port) = start_in(&site, true);
            let replies = Client::connect(port).send(&["carl@x.example"], &message(1));
            assert_eq!(replies, ["250 2.0.0 delivered"]);
        } else {
            let mut command = world.command();
            command.args(["deliver", "--config", "barid.toml", "--user", "carl@x.example"]);
            command.stdin(Stdio::piped()).stderr(Stdio::piped());
            let mut child = Running::spawn(&mut command);
            child.stdin.take().unwrap().write_all(message(1).as_bytes()).unwrap();
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        assert_eq!(site.messages("home/carl").len(), 1);
        for folder in ["server/users", "cache/users"] {
            let found = rustix::fs::stat(world.path(folder)).unwrap();
            assert_eq!((found.st_uid, found.st_mode & 0o777), (user.uid, 0o700), "{folder}");
        }
    }
}

/// Kills the server while messages arrive, and sends those again that got no 250.
fn kill(settings: &str, seed: u64) -> (Vec<usize>, usize) {
    let mut server = Server::start_as_owner(settings);
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut number, mut killed) = (0, 0);
    while killed < KILLED {
        let mut client = server.connect();
        let pid = server.child.id();
        let after = Duration::from_micros(rng.u64(1000..60_000));
        let killer = std::thread::spawn(move || {
            std::thread::sleep(after);
            let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
            rustix::process::kill_process(pid, Signal::KILL).unwrap();
        });
        loop {
            let replies = client.send(&["ann"], &message(number));
            if replies[0].is_empty() {
                break;
            }
            assert_eq!(replies, ["250 2.0.0 delivered"]);
            assert_eq!(times(&server.site, "ann", number), 1, "{number}");
            number += 1;
        }
        killer.join().unwrap();
        killed += 1;
        server.child.wait().unwrap();
        (server.child, server.port) = start_in(&server.site, false);
        // A mail server tries again.
        let replies = server.connect().send(&["ann"], &message(number));
        assert!(replies[0].starts_with("250 "), "{replies:?}");
        number += 1;
    }
    ((0..number).map(|number| times(&server.site, "ann", number)).collect(), killed)
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill() {
    let (times, killed) = kill("", 3);
    assert!(times.iter().all(|times| (1..=2).contains(times)), "{times:?}");
    assert!(times.iter().filter(|times| **times == 2).count() <= killed, "{times:?}");
    let (times, _) = kill("[delivery]\nduplicates = \"1 h\"\n", 4);
    assert!(times.iter().all(|times| *times == 1), "{times:?}");
}

#[test]
fn malicious_clients_get_no_further() {
    let server = Server::start_as_owner("");
    let words = [
        "LHLO x\r\n",
        "MAIL FROM:<a@b>\r\n",
        "RCPT TO:<ann>\r\n",
        "RCPT TO:<../ann>\r\n",
        "DATA\r\n",
        "BDAT 18446744073709551615 LAST\r\n",
        "BDAT 5\r\n",
        "RSET\r\n",
        "NOOP\r\n",
        "\r\n",
        "\0",
        "\u{ff}",
        "RCPT TO:<ann/../../etc@x>\r\n",
        "QUIT",
        "Subject: x\r\n",
        ".\r",
        "\n.\n",
        "<",
        ">",
    ];
    let mut rng = fastrand::Rng::with_seed(5);
    for _ in 0..HOSTILE {
        let mut client = server.connect();
        for _ in 0..rng.usize(1..60) {
            let word = words[rng.usize(..words.len())];
            if client.stream.write_all(word.as_bytes()).is_err() {
                break;
            }
        }
        // The end of the connection is not the end of a message.
        let _ = client.stream.shutdown(Shutdown::Write);
        let mut rest = Vec::new();
        let _ = client.lines.read_to_end(&mut rest);
    }
    let mut long = server.connect();
    for _ in 0..200 {
        let _ = long.stream.write_all(&[b'x'; 65_536]);
    }
    let replies = server.connect().send(&["ann"], &message(1));
    assert_eq!(replies, ["250 2.0.0 delivered"]);
    assert_eq!(times(&server.site, "ann", 1), 1);
}
