//! A server of many users, started for a test, and its clients.
#![expect(clippy::disallowed_methods, reason = "the program is tested from outside, on real files")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Running, World};

/// Time within which everything happens that is waited for.
pub(crate) const SOON: Duration = Duration::from_secs(60);
/// The uid and gid of Ann and of Bob, if the tests run as root.
pub(crate) const ANN: u32 = 61_001;
pub(crate) const BOB: u32 = 61_002;

/// A server with the users ann and bob, whose password is `secret`.
pub(crate) struct Server {
    pub(crate) running: Running,
    pub(crate) log: Arc<Mutex<Vec<String>>>,
    pub(crate) imap: SocketAddr,
    pub(crate) imaps: SocketAddr,
    pub(crate) metrics: SocketAddr,
    pub(crate) world: World,
}

/// Returns the path of a file of the server.
pub(crate) type PathOf<'p> = &'p dyn Fn(&str) -> String;

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Waits until something is so.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < SOON, "{what} does not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with("", "")
    }

    pub(crate) fn start_with(limits: &str, more: &str) -> Self {
        Self::start_with_files(&[], &|_| format!("[limits]\n{limits}\n{more}\n"))
    }

    /// Starts a server with further files, and sections of the configuration that know their paths.
    pub(crate) fn start_with_files(
        files: &[(&str, &str)],
        more: &dyn Fn(PathOf<'_>) -> String,
    ) -> Self {
        Self::start_in(Self::world(files, more))
    }

    /// Makes the folder of a server, with further files and sections of the configuration.
    pub(crate) fn world(files: &[(&str, &str)], more: &dyn Fn(PathOf<'_>) -> String) -> World {
        let world = World::new();
        for (name, text) in files {
            world.write(name, text.as_bytes());
        }
        let ids = |id: u32| if is_root() { format!("{id}:{id}") } else { ":".to_owned() };
        let users = ["ann", "bob"].map(|user| {
            let id = ids(if user == "ann" { ANN } else { BOB });
            format!("{user}:{{PLAIN}}secret:{id}::{}::\n", world.path(user).display())
        });
        world.write("users/passwd", users.concat().as_bytes());
        for (user, id) in [("ann", ANN), ("bob", BOB)] {
            world.create_dir(user);
            world.set_mode(user, 0o700);
            if is_root() {
                chown(world.path(user), Some(id), Some(id)).unwrap();
            }
        }
        if is_root() {
            fs::set_permissions(world.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self::write_config(&world, &more(&|name| world.path(name).display().to_string()));
        world
    }

    /// Starts a server with `barid.toml` of a folder.
    pub(crate) fn start_in(world: World) -> Self {
        let command = world.command();
        Self::start_by(world, command)
    }

    /// Starts a server with `barid.toml` of a folder by a command that lacks its arguments.
    pub(crate) fn start_by(world: World, mut command: Command) -> Self {
        let config = world.path("barid.toml");
        command.args(["serve", "--config", config.to_str().unwrap()]).stderr(Stdio::piped());
        let mut running = Running::spawn(&mut command);
        let log = Arc::new(Mutex::new(Vec::new()));
        let (lines, stderr) = (Arc::clone(&log), running.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                lines.lock().unwrap().push(line);
            }
        });
        let ready = wait_for("the start", || {
            let lines = log.lock().unwrap();
            let has_ended = running.try_wait().unwrap().is_some();
            assert!(!has_ended, "the server has ended: {lines:#?}");
            lines.iter().find(|line| line.contains("ready:")).cloned()
        });
        let none = ([127, 0, 0, 1], 0).into();
        let address = |protocol: &str| address_in(&ready, protocol).unwrap_or(none);
        let (imap, imaps, metrics) = (address("imap"), address("imaps"), address("metrics"));
        Self { running, log, imap, imaps, metrics, world }
    }

    /// Returns the TCP address of a protocol, as the server has announced it.
    pub(crate) fn address(&self, protocol: &str) -> SocketAddr {
        let log = self.log.lock().unwrap();
        let ready = log.iter().find(|line| line.contains("ready:")).unwrap();
        address_in(ready, protocol).unwrap()
    }

    pub(crate) fn write_config(world: &World, more: &str) {
        Self::write_config_of_mail(world, "location = \"maildir:~/Maildir\"\n", more);
    }

    /// Writes a certificate, and `barid.toml` with a section `[mail]`.
    pub(crate) fn write_config_of_mail(world: &World, mail: &str, more: &str) {
        if !world.path("cert.pem").exists() {
            let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
            world.write("cert.pem", made.cert.pem().as_bytes());
            world.write("key.pem", made.signing_key.serialize_pem().as_bytes());
        }
        let path = |name: &str| world.path(name).display().to_string();
        let text = format!(
            "[server]\nstate_dir = \"{}\"\ncache_dir = \"{}\"\nfront_user = \"nobody\"\n\
             auth_user = \"daemon\"\nadmin_socket = \"{}\"\n\
             [[listen]]\nprotocol = \"imap\"\naddress = \"127.0.0.1:0\"\n\
             [[listen]]\nprotocol = \"imaps\"\naddress = \"127.0.0.1:0\"\n\
             [[tls]]\ncertificate = \"{}\"\nkey = \"{}\"\n\
             [[users.passwd_file]]\npath = \"{}\"\n\
             [mail]\n{mail}\
             [metrics]\naddress = \"127.0.0.1:0\"\n{more}",
            path("state"),
            path("cache"),
            path("control/socket"),
            path("cert.pem"),
            path("key.pem"),
            path("users/passwd"),
        );
        world.write("barid.toml", text.as_bytes());
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.imap)
    }

    pub(crate) fn login(&self, user: &str) -> Client {
        let mut client = self.client();
        let answer = client.command(&format!("LOGIN {user} secret"));
        assert!(answer.ends_with("Logged in\r\n"), "{answer}: {:#?}", self.log.lock().unwrap());
        client
    }

    pub(crate) fn admin(&self, args: &[&str]) -> Vec<Value> {
        let socket = self.world.path("control/socket");
        let first = ["admin", "--json", "--socket", socket.to_str().unwrap()];
        let run = self.world.run(&[&first, args].concat());
        assert!(run.code < 2, "{args:?}: {}", run.stderr);
        run.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn pid(&self, part: &str) -> i32 {
        wait_for(part, || {
            let status = self.admin(&["status"]).remove(0);
            status[part].as_i64().map(|pid| pid as i32)
        })
    }

    pub(crate) fn workers(&self) -> Vec<(String, i32)> {
        let status = self.admin(&["status"]).remove(0);
        let workers = status["workers"].as_array().unwrap().iter();
        let of = |worker: &Value| {
            let user = worker["user"].as_str().unwrap().to_owned();
            (user, worker["pid"].as_i64().unwrap() as i32)
        };
        let mut workers: Vec<_> = workers.map(of).collect();
        workers.sort();
        workers
    }

    pub(crate) fn metrics(&self) -> String {
        http(self.metrics, "/metrics")
    }

    pub(crate) fn has_logged(&self, text: &str) -> bool {
        self.log.lock().unwrap().iter().any(|line| line.contains(text))
    }

    /// Runs curl over TLS; returns its output.
    pub(crate) fn curl(&self, url: &str, args: &[&str]) -> (bool, String) {
        let mut command = Command::new("curl");
        command.args(["-sS", "--cacert"]).arg(self.world.path("cert.pem"));
        command.args(["--resolve", &format!("localhost:{}:127.0.0.1", self.imap.port())]);
        command.args(["--resolve", &format!("localhost:{}:127.0.0.1", self.imaps.port())]);
        let output = command.args(args).arg(url).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), text + &String::from_utf8_lossy(&output.stderr))
    }
}

pub(crate) fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// A client that speaks IMAP in clear.
pub(crate) struct Client {
    pub(crate) stream: BufReader<TcpStream>,
    pub(crate) greeting: String,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap())
    }

    pub(crate) fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(SOON)).unwrap();
        let mut client = Self { stream: BufReader::new(stream), greeting: String::new() };
        client.greeting = client.line();
        client
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// Returns a line; empty at the end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        // A connection that is reset has ended.
        let _ = self.stream.read_line(&mut line);
        line
    }

    /// Returns the lines of an answer, or all until the end of the connection.
    pub(crate) fn answer(&mut self, tag: &str) -> String {
        let mut text = String::new();
        loop {
            let line = self.line();
            text.push_str(&line);
            if line.is_empty() || line.starts_with(&format!("{tag} ")) {
                return text;
            }
        }
    }

    pub(crate) fn command(&mut self, command: &str) -> String {
        // The connection may have ended.
        let _ = self.stream.get_mut().write_all(format!("t {command}\r\n").as_bytes());
        self.answer("t")
    }

    pub(crate) fn ok(&mut self, command: &str) -> String {
        let answer = self.command(command);
        assert!(answer.lines().last().unwrap_or("").starts_with("t OK"), "{command}: {answer}");
        answer
    }

    pub(crate) fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        let _ = self.stream.read_to_end(&mut rest);
        String::from_utf8_lossy(&rest).into_owned()
    }
}

/// Returns a field of the status of a process.
pub(crate) fn status(pid: i32, field: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the answer to a GET over HTTP.
pub(crate) fn http(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Returns the TCP address of a protocol in the line that announces the addresses.
fn address_in(ready: &str, protocol: &str) -> Option<SocketAddr> {
    let address = |text: &str| text.split([',', ' ', '"']).next()?.parse().ok();
    ready.split(&format!("{protocol} on ")).skip(1).find_map(address)
}
