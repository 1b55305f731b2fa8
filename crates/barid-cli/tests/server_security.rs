//! The server of many users under attack: who reads what the network sends, slow clients, and the
//! work for users who do not exist.
#![expect(clippy::disallowed_methods, reason = "the program is tested from outside, on real files")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{lchown, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use crate::serve_qresync::number;
use crate::support::World;
use crate::test_server::{ANN, BOB, Client, Server, is_root, kill, status, wait_for};

/// Slow connections.
const SLOW: u64 = 1000;

/// Returns the processes of the server, the supervisor first.
fn processes(supervisor: i32) -> Vec<i32> {
    let mut all = vec![supervisor];
    for entry in fs::read_dir("/proc").unwrap() {
        let Ok(pid) = entry.unwrap().file_name().to_string_lossy().parse::<i32>() else { continue };
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let parent =
            stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        if parent == Some(supervisor) {
            all.push(pid);
        }
    }
    all
}

/// Returns the inodes of the established TCP connections to ports of this machine.
fn connections(ports: &[u16]) -> BTreeSet<String> {
    let mut inodes = BTreeSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in fs::read_to_string(table).unwrap_or_default().lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let port = u16::from_str_radix(fields[1].rsplit(':').next().unwrap(), 16).unwrap();
            if ports.contains(&port) && fields[3] == "01" {
                inodes.insert(format!("socket:[{}]", fields[9]));
            }
        }
    }
    inodes
}

#[test]
fn no_process_that_reads_the_network_is_root() {
    if !is_root() {
        println!("skipped: only root can start processes of other users");
        return;
    }
    let lmtp = "[[listen]]\nprotocol = \"lmtp\"\naddress = \"127.0.0.1:0\"\n";
    let server = Server::start_with_files(&[], &|_| lmtp.to_owned());
    let (mut ann, mut bob) = (server.login("ann"), server.login("bob"));
    let (_before_login, _mail) = (server.client(), Client::new(server.address("lmtp")));
    let metrics = TcpStream::connect(server.address("metrics")).unwrap();
    ann.ok("SELECT INBOX");
    bob.ok("SELECT INBOX");
    let ports = ["imap", "imaps", "lmtp", "metrics"].map(|name| server.address(name).port());
    let connections =
        wait_for("all connections", || Some(connections(&ports)).filter(|all| all.len() == 5));
    let supervisor = server.running.id() as i32;
    let mut readers: BTreeMap<i32, usize> = BTreeMap::new();
    let all = processes(supervisor);
    for pid in &all {
        let role = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
        for fd in fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
            let Ok(link) = fs::read_link(fd.unwrap().path()) else { continue };
            if connections.contains(link.to_str().unwrap()) {
                *readers.entry(*pid).or_default() += 1;
            }
        }
        let is_any_root = status(*pid, "Uid:").split(' ').any(|id| id == "0");
        assert_eq!(is_any_root, *pid == supervisor, "{role}");
        if *pid != supervisor {
            assert_eq!(status(*pid, "CapEff:"), "0000000000000000", "{role}");
            assert_eq!(status(*pid, "CapPrm:"), "0000000000000000", "{role}");
            assert_eq!(status(*pid, "NoNewPrivs:"), "1", "{role}");
            let filtered = if role.contains("auth") { "0" } else { "2" };
            assert_eq!(status(*pid, "Seccomp:"), filtered, "{role}");
        }
    }
    // Supervisor, front, auth, lmtp and two workers.
    assert_eq!(all.len(), 6);
    assert!(!readers.contains_key(&supervisor), "{readers:?}");
    let expected = BTreeMap::from([(server.pid("front"), 4), (server.pid("lmtp"), 1)]);
    assert_eq!(readers, expected);
    drop(metrics);
}

#[test]
fn a_user_works_among_slow_connections() {
    let count = number("BARID_SLOW", SLOW);
    let server = Server::start_with("connections_per_address = 100000", "");
    let mut ann = server.login("ann");
    ann.ok("SELECT INBOX");
    let quiet = latencies(&mut ann);
    let (stop, address) = (AtomicBool::new(false), server.imap);
    let (busy, logins, alive) = std::thread::scope(|scope| {
        let slow = scope.spawn(|| crawl(address, count, &stop));
        wait_for("the slow connections", || {
            let metrics = server.metrics();
            let line =
                metrics.lines().find_map(|line| line.strip_prefix("barid_connections_total "));
            line.unwrap().parse::<u64>().unwrap().ge(&count).then_some(())
        });
        let busy = latencies(&mut ann);
        let login = || {
            let start = Instant::now();
            server.login("bob").ok("NOOP");
            start.elapsed()
        };
        let mut logins: Vec<Duration> = (0..10).map(|_| login()).collect();
        logins.sort();
        stop.store(true, Ordering::Relaxed);
        (busy, logins, slow.join().unwrap())
    });
    println!("{count} slow connections, {alive} of them alive at the end");
    println!(
        "NOOP alone: median {:?}, longest {:?}",
        quiet[quiet.len() / 2],
        quiet.last().unwrap()
    );
    println!(
        "NOOP among them: median {:?}, longest {:?}",
        busy[busy.len() / 2],
        busy.last().unwrap()
    );
    println!("login among them: median {:?}, longest {:?}", logins[5], logins[9]);
    assert!(busy[busy.len() - 1] < Duration::from_secs(10), "{busy:?}");
    assert!(logins[9] < Duration::from_secs(20), "{logins:?}");
    assert!(alive > 0);
}

/// Returns the times of commands, in order.
fn latencies(client: &mut Client) -> Vec<Duration> {
    let time = |_| {
        let start = Instant::now();
        client.ok("NOOP");
        start.elapsed()
    };
    let mut all: Vec<Duration> = (0..100).map(time).collect();
    all.sort();
    all
}

/// Opens connections, and sends a command on each, byte by byte; returns the number of those that
/// the server has not closed.
fn crawl(address: SocketAddr, count: u64, stop: &AtomicBool) -> usize {
    let connect = |_| TcpStream::connect(address).unwrap();
    let mut all: Vec<TcpStream> = (0..count).map(connect).collect();
    for byte in b"a LOGIN ".iter().chain(std::iter::repeat(&b'x')) {
        // Those that the server has closed to make room for others fail.
        all.retain_mut(|stream| stream.write_all(&[*byte]).is_ok());
        if stop.load(Ordering::Relaxed) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    all.len()
}

/// Returns the processor time of a process in ticks of 10 ms.
fn processor_time(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Connects from an address of the loopback interface, of which each has its own back-off.
fn client_from(number: u8, server: &Server) -> Client {
    let socket: OwnedFd = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from(([127, 0, 9, number], 0))).unwrap();
    connect(&socket, &server.imap).unwrap();
    Client::over(socket.into())
}

#[test]
fn users_who_do_not_exist_cost_as_much_as_others() {
    const TRIES: u8 = 6;
    let server = Server::start();
    let hash = "$2b$11$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZabcde";
    let user = |name: &str| format!("{name}:{{BLF-CRYPT}}{hash}:1000:1000::/nonexistent::\n");
    let users: String = (0..TRIES).map(|number| user(&format!("known{number}"))).collect();
    server.world.write("users/passwd", users.as_bytes());
    let auth = server.pid("auth");
    let mut number = 0;
    let mut work = |name: &str| {
        let before = processor_time(auth);
        for of_name in 0..TRIES {
            number += 1;
            let mut client = client_from(number, &server);
            let answer = client.command(&format!("LOGIN {name}{of_name} wrong"));
            let expected = "t NO [AUTHENTICATIONFAILED]";
            assert!(answer.starts_with(expected), "{answer}");
        }
        processor_time(auth) - before
    };
    let (known, unknown) = (work("known"), work("unknown"));
    println!("{TRIES} logins: {known} ticks for known users, {unknown} for unknown ones");
    assert!(known >= 10, "the hash costs too little to be measured: {known}");
    assert!(unknown * 3 >= known * 2 && known * 3 >= unknown * 2, "{known} {unknown}");
}

#[test]
fn bytes_before_starttls_are_dropped() {
    let server = Server::start();
    let url = format!("imap://localhost:{}/", server.imap.port());
    let listed = server.curl(&url, &["-uann:secret", "--ssl-reqd"]);
    assert!(listed.0 && listed.1.contains("INBOX"), "{listed:?}");
    // Commands behind STARTTLS in the same packet belong to nobody known: TLS begins with garbage,
    // and none of them is answered.
    let mut client = server.client();
    assert!(client.greeting.contains("STARTTLS"), "{}", client.greeting);
    client.send("a STARTTLS\r\nb NOOP\r\nc LOGIN ann secret\r\n");
    assert!(client.line().starts_with("a OK"));
    client.send("d NOOP\r\n");
    let rest = client.rest();
    assert!(!rest.contains("b OK") && !rest.contains("c OK") && !rest.contains("d OK"), "{rest}");
    assert!(server.admin(&["sessions"]).is_empty());
}

#[test]
fn passwords_in_clear_are_refused_from_elsewhere() {
    // Only a connection from another address of this machine can stand for one from elsewhere.
    let Some(address) = own_address() else {
        println!("skipped: this machine has no address besides the loopback");
        return;
    };
    let world_address = format!("\n[[listen]]\nprotocol = \"imap\"\naddress = \"{address}:0\"\n");
    let server = Server::start_with("", &world_address);
    let log = server.log.lock().unwrap().join("\n");
    let port = log.split(&format!("imap on {address}:")).nth(1).unwrap();
    let port: u16 = port.split([',', '"', '\n']).next().unwrap().parse().unwrap();
    let mut client = Client::new((address, port).into());
    assert!(client.greeting.contains("LOGINDISABLED"), "{}", client.greeting);
    assert!(!client.greeting.contains("AUTH="), "{}", client.greeting);
    assert!(client.command("LOGIN ann secret").contains("NO [PRIVACYREQUIRED]"));
    assert!(!client.command("AUTHENTICATE PLAIN AGFubgBzZWNyZXQ=").contains("t OK"));
}

/// Returns an address of this machine that is not the loopback's.
fn own_address() -> Option<std::net::IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent; the system only chooses the address from which it would.
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

#[test]
fn who_parses_is_not_root() {
    if !is_root() {
        println!("skipped: only root can start processes of other users");
        return;
    }
    let server = Server::start();
    let (_ann, _bob) = (server.login("ann"), server.login("bob"));
    let ids = |id: u32| [id.to_string(), id.to_string(), id.to_string(), id.to_string()].join(" ");
    for (user, pid) in server.workers() {
        let id = if user == "ann" { ANN } else { BOB };
        assert_eq!(status(pid, "Uid:"), ids(id));
        assert_eq!(status(pid, "Gid:"), ids(id));
        assert_eq!(status(pid, "Groups:"), "");
        assert_eq!(status(pid, "CapEff:"), "0000000000000000");
        assert_eq!(status(pid, "NoNewPrivs:"), "1");
    }
    for part in ["front", "auth"] {
        let pid = server.pid(part);
        assert!(!status(pid, "Uid:").split(' ').any(|id| id == "0"), "{part}");
        assert_eq!(status(pid, "Groups:"), "");
        assert_eq!(status(pid, "CapEff:"), "0000000000000000");
        assert_eq!(status(pid, "NoNewPrivs:"), "1");
    }
    // 2 is a filter of system calls.
    assert_eq!(status(server.pid("front"), "Seccomp:"), "2");
    let path = server.world.path("ann/Maildir");
    let metadata = fs::metadata(path).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&metadata), ANN);
}

#[test]
fn a_server_without_root_serves_its_own_uid_only() {
    let world = World::new();
    let refuse = |text: &str, expected: &str| {
        world.write("barid.toml", text.as_bytes());
        let config = world.path("barid.toml");
        let run = world.run(&["serve", "--config", config.to_str().unwrap()]);
        assert_eq!(run.code, 2, "{}", run.stderr);
        assert!(run.stderr.contains(expected), "{}", run.stderr);
    };
    refuse("", "no [[listen]]");
    refuse("[server]\nx = 1\n", "unknown key");
    if is_root() {
        let listen = "[[listen]]\nprotocol = \"imap\"\naddress = \"127.0.0.1:0\"\n";
        refuse(listen, "needs server.front_user");
        refuse(&format!("[server]\nfront_user = \"root\"\n{listen}"), "uid or gid is 0");
    } else {
        let listen = "[[listen]]\nprotocol = \"imap\"\naddress = \"127.0.0.1:0\"\n";
        refuse(&format!("{listen}[users.pam]\nservice = \"x\"\n"), "started as root");
    }
}

#[test]
fn mail_outside_the_users_folders_is_out_of_reach() {
    let server = Server::start();
    let secret = server.world.create_dir("elsewhere/cur");
    for folder in ["elsewhere/new", "elsewhere/tmp"] {
        server.world.create_dir(folder);
    }
    fs::write(Path::new(&secret).join("1.M1.x:2,"), "Subject: hidden\r\n\r\n").unwrap();
    for folder in ["elsewhere", "elsewhere/cur", "elsewhere/new", "elsewhere/tmp"] {
        server.world.set_mode(folder, 0o777);
    }
    let mut ann = server.login("ann");
    ann.ok("SELECT INBOX");
    // A link within the Maildir to a folder that file permissions would allow.
    let link = server.world.path("ann/Maildir/.Elsewhere");
    symlink(server.world.path("elsewhere"), link).unwrap();
    let answer = ann.command("SELECT Elsewhere");
    assert!(!answer.contains("t OK"), "{answer}");
    ann.ok("NOOP");
}

/// Starts a server whose users have one uid, and homes in the folder `mail`.
fn start_with_one_uid(location: &dyn Fn(&World) -> String, more: &str) -> Server {
    let world = World::new();
    let users = ["ann", "bob"].map(|user| {
        let home = world.path(&format!("mail/{user}"));
        format!("{user}:{{PLAIN}}secret::::{}::\n", home.display())
    });
    world.write("users/passwd", users.concat().as_bytes());
    for folder in ["mail", "mail/ann", "mail/bob"] {
        world.create_dir(folder);
        give_to_ann(&world, folder);
    }
    let location = location(&world);
    let mut mail = format!("location = \"{location}\"\n");
    if is_root() {
        world.set_mode("", 0o755);
        mail += &format!("owner = \"{ANN}:{ANN}\"\n");
    }
    Server::write_config_of_mail(&world, &mail, more);
    Server::start_in(world)
}

/// Gives a file to the uid of the processes of users.
fn give_to_ann(world: &World, path: &str) {
    if is_root() {
        lchown(world.path(path), Some(ANN), Some(ANN)).unwrap();
    }
}

#[test]
fn a_link_in_the_place_of_a_folder_does_not_lead_to_another_user() {
    let server = start_with_one_uid(&|_| "maildir:%h".to_owned(), "");
    let path = |name: &str| server.world.path(name);
    server.login("ann").ok("SELECT INBOX");
    server.login("bob").ok("SELECT INBOX");
    for (folder, target) in
        [("mail/ann/.local", "mail/bob"), ("mail/ann/.cache/barid", "mail/bob/cur")]
    {
        for (_, pid) in server.workers() {
            kill(pid);
        }
        wait_for("the end of the workers", || server.workers().is_empty().then_some(()));
        // A process of ann could do the same: it can write to her folder.
        let before = path(&format!("{folder}.before"));
        fs::rename(path(folder), &before).unwrap();
        symlink(path(target), path(folder)).unwrap();
        give_to_ann(&server.world, folder);
        let answer = server.client().command("LOGIN ann secret");
        assert!(answer.contains("t NO [UNAVAILABLE]"), "{answer}");
        wait_for("the reason", || server.has_logged("is not followed").then_some(()));
        fs::remove_file(path(folder)).unwrap();
        fs::rename(before, path(folder)).unwrap();
    }
    // Nothing was made in the folders of bob, who is served.
    assert!(!path("mail/bob/state").exists());
    assert_eq!(fs::read_dir(path("mail/bob/cur")).unwrap().count(), 0);
    server.login("bob").ok("SELECT INBOX");
}

#[test]
fn links_of_the_administrator_lead_to_the_mail() {
    // The configuration names the first link, whoever owns it; root owns the second.
    let location = |world: &World| {
        world.create_dir("disk");
        give_to_ann(world, "disk");
        symlink(world.path("disk"), world.path("mail/linked")).unwrap();
        give_to_ann(world, "mail/linked");
        if is_root() {
            world.create_dir("other");
            give_to_ann(world, "other");
            symlink(world.path("other"), world.path("disk/bob")).unwrap();
        }
        format!("maildir:{}/%u", world.path("mail/linked").display())
    };
    let server = start_with_one_uid(&location, "");
    server.login("ann").ok("SELECT INBOX");
    server.login("bob").ok("SELECT INBOX");
    assert!(server.world.path("disk/ann/cur").is_dir());
    let of_bob = if is_root() { "other/cur" } else { "disk/bob/cur" };
    assert!(server.world.path(of_bob).is_dir());
}
