//! Postfix itself, with its own configuration, queue and ports, on this machine only.
//!
//! Not every test machine has Postfix, since installing it replaces other mail servers; without it
//! these tests are skipped. Its packets are tested byte for byte in `exchange`.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use barid_testkit::disk;
use barid_testkit::peers::program;

use super::Daemon;
use crate::support::World;

/// Deadline of every step.
const DEADLINE: Duration = Duration::from_secs(120);

struct Postfix {
    config: PathBuf,
    program: PathBuf,
}

impl Postfix {
    /// Starts Postfix; returns it with a port for each filter.
    fn start(program: &Path, folder: &Path, filters: &[u16]) -> (Self, Vec<u16>) {
        let config = folder.join("config");
        for name in ["config", "queue", "data", "mail"] {
            disk::create_dir(&folder.join(name)).unwrap();
        }
        // Ports that were free just now.
        let sockets: Vec<TcpListener> =
            filters.iter().map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<u16> =
            sockets.iter().map(|socket| socket.local_addr().unwrap().port()).collect();
        drop(sockets);
        let dir = folder.display();
        let main = format!(
            "compatibility_level = 3.6\nqueue_directory = {dir}/queue\ndata_directory = {dir}/data\n\
             inet_interfaces = 127.0.0.1\ninet_protocols = ipv4\nmyhostname = host.example\n\
             mydestination =\nmynetworks = 127.0.0.0/8\nalias_maps =\nalias_database =\n\
             virtual_mailbox_domains = box.example\nvirtual_mailbox_base = {dir}/mail\n\
             virtual_mailbox_maps = static:all/\nvirtual_uid_maps = static:{uid}\n\
             virtual_gid_maps = static:{gid}\nvirtual_minimum_uid = 1\n\
             smtpd_peername_lookup = no\nmilter_default_action = tempfail\n\
             maillog_file = {dir}/log\nmaillog_file_prefixes = {dir}\n",
            uid = id("-u"),
            gid = id("-g"),
        );
        let mut master = String::new();
        for (port, filter) in ports.iter().zip(filters) {
            let milter = format!("  -o smtpd_milters=inet:127.0.0.1:{filter}\n");
            let _ = write!(master, "127.0.0.1:{port} inet n - n - - smtpd\n{milter}");
        }
        for (name, wakeup, most, does) in [
            ("rewrite", "-", "-", "trivial-rewrite"),
            ("bounce", "-", "0", "bounce"),
            ("defer", "-", "0", "bounce"),
            ("trace", "-", "0", "bounce"),
            ("proxymap", "-", "-", "proxymap"),
            ("error", "-", "-", "error"),
            ("retry", "-", "-", "error"),
            ("anvil", "-", "1", "anvil"),
        ] {
            let _ = writeln!(master, "{name} unix - - n {wakeup} {most} {does}");
        }
        master += "cleanup unix n - n - 0 cleanup\nqmgr unix n - n 300 1 qmgr\n\
                   virtual unix - n n - - virtual\npostlog unix-dgram n - n - 1 postlogd\n";
        disk::write(&config.join("main.cf"), main.as_bytes()).unwrap();
        disk::write(&config.join("master.cf"), master.as_bytes()).unwrap();
        disk::chown_tree(&folder.join("data"), id("-u"), id("-g")).unwrap();
        disk::chown_tree(&folder.join("mail"), id("-u"), id("-g")).unwrap();
        let postfix = Self { config, program: program.to_owned() };
        let output = postfix.command("start").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        (postfix, ports)
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("-c").arg(&self.config).arg(verb).stdin(Stdio::null());
        command
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        // The test has failed or is over; errors of stopping do not matter.
        drop(self.command("stop").output());
    }
}

/// Returns a user or group number of the user of Postfix.
fn id(which: &str) -> u32 {
    let output = Command::new("id").args([which, "postfix"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

/// Sends a message by SMTP; returns the reply to its end.
fn send(port: u16, message: &str) -> String {
    let start = Instant::now();
    let stream = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => break stream,
            Err(error) => assert!(start.elapsed() < DEADLINE, "{error}"),
        }
        thread::sleep(Duration::from_millis(50));
    };
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    let mut answer = || {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        line
    };
    assert!(answer().starts_with("220 "));
    let body = message.replace('\n', "\r\n");
    let steps = ["HELO host.example", "MAIL FROM:<a@b.example>", "RCPT TO:<c@box.example>", "DATA"];
    for step in steps {
        writer.write_all(format!("{step}\r\n").as_bytes()).unwrap();
        let answer = answer();
        assert!(answer.starts_with(['2', '3']), "{step}: {answer}");
    }
    writer.write_all(format!("{body}.\r\n").as_bytes()).unwrap();
    answer()
}

/// Returns the next delivered message.
fn delivered(folder: &Path) -> String {
    let start = Instant::now();
    let new = folder.join("mail/all/new");
    loop {
        if let Some(file) = disk::list_files(&new).unwrap_or_default().first() {
            let text = disk::read_text(file).unwrap();
            disk::remove_file(file).unwrap();
            return text;
        }
        let log = disk::read_text(&folder.join("log")).unwrap_or_default();
        assert!(start.elapsed() < DEADLINE, "nothing is delivered: {log}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn mail_comes_through_postfix() {
    let Some(program) = program("postfix").filter(|_| rustix::process::getuid().is_root()) else {
        println!("skipped: Postfix, as root");
        return;
    };
    let marks = Daemon::start(&["--milter", "inet:127.0.0.1:0"]);
    let rejects = Daemon::start(&["--milter", "inet:127.0.0.1:0", "--reject-spam"]);
    let world = World::new();
    let folder = world.path("postfix");
    disk::create_dir(&folder).unwrap();
    let (postfix, ports) = Postfix::start(&program, &folder, &[marks.port, rejects.port]);
    let message = |word: &str| {
        format!(
            "X-Bogosity: Ham, tests=bogofilter, spamicity=0.000000\nSubject: {word} 3\n\
             From: a@b.example\nx-bogosity: Ham\n\nsome {word} of day3\n"
        )
    };
    for (word, expected) in [("pills", "Spam"), ("minutes", "Ham")] {
        let answer = send(ports[0], &message(word));
        assert!(answer.starts_with("250 "), "{answer}");
        let text = delivered(&folder);
        let ours: Vec<&str> = text
            .lines()
            .filter(|line| line.to_ascii_lowercase().starts_with("x-bogosity:"))
            .collect();
        let start = format!("X-Bogosity: {expected}, tests=bogofilter, spamicity=");
        assert!(ours.len() == 1 && ours[0].starts_with(&start), "{text}");
    }
    let answer = send(ports[1], &message("pills"));
    assert_eq!(answer, "550 5.7.1 This message looks like spam\r\n");
    assert!(send(ports[1], &message("minutes")).starts_with("250 "));
    assert!(delivered(&folder).contains("\nX-Bogosity: Ham, "));
    drop(postfix);
    assert_eq!((marks.end(), rejects.end()), (String::new(), String::new()));
}
