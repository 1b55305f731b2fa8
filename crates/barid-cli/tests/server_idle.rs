//! Many virtual users of one uid, all in IDLE: the kernel gives a uid 128 instances of inotify, and
//! every delivery must be pushed at once all the same.
//!
//! `BARID_IDLE_USERS` is the number of users.
#![expect(clippy::disallowed_methods, reason = "the program is tested from outside, on real files")]
#![expect(clippy::print_stdout, reason = "figures are printed")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::serve_qresync::number;
use crate::support::World;
use crate::test_server::{Client, Server, is_root, kill, status, wait_for};

/// Users in a short run: more than the instances of a uid.
const USERS: u64 = 160;
/// The uid and gid of all mail, if the tests run as root.
const OWNER: u32 = 61_003;
/// Time within which a mailbox that nobody watches is not looked at.
const UNWATCHED: Duration = Duration::from_secs(25);

fn start(users: u64) -> Server {
    let world = World::new();
    let line = |user| format!("v{user}:{{PLAIN}}secret::::::\n");
    let passwd: String = (0..users).map(line).collect();
    world.write("users/passwd", passwd.as_bytes());
    let mail = world.create_dir("mail");
    let owner = if is_root() {
        chown(&mail, Some(OWNER), Some(OWNER)).unwrap();
        fs::set_permissions(world.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        OWNER
    } else {
        rustix::process::geteuid().as_raw()
    };
    let root = world.path("").display().to_string();
    let root = root.trim_end_matches('/');
    let config = format!(
        "[server]\nstate_dir = \"{root}/state\"\ncache_dir = \"{root}/cache\"\n\
         front_user = \"nobody\"\nauth_user = \"daemon\"\nadmin_socket = \"{root}/control\"\n\
         [[listen]]\nprotocol = \"imap\"\naddress = \"127.0.0.1:0\"\n\
         [[users.passwd_file]]\npath = \"{root}/users/passwd\"\n\
         [mail]\nlocation = \"maildir:{root}/mail/%u\"\nowner = \"{owner}:{owner}\"\n\
         [limits]\nconnections_per_address = 10000\nrestart_delay = \"0 s\"\n"
    );
    world.write("barid.toml", config.as_bytes());
    Server::start_in(world)
}

/// Delivers a message as mail servers do.
fn deliver(server: &Server, user: usize, number: u32) {
    let maildir = server.world.path(&format!("mail/v{user}"));
    let name = format!("{number}.M{user}.host");
    fs::write(maildir.join("tmp").join(&name), "Subject: x\r\n\r\nHello\r\n").unwrap();
    fs::rename(maildir.join("tmp").join(&name), maildir.join("new").join(&name)).unwrap();
}

/// Returns the time until a client is told that there are so many messages.
fn pushed(client: &mut Client, messages: u32) -> Duration {
    let start = Instant::now();
    loop {
        let line = client.line();
        assert!(!line.is_empty(), "the connection ended");
        if line == format!("* {messages} EXISTS\r\n") {
            return start.elapsed();
        }
    }
}

/// Delivers to each user, and returns the times until the messages are pushed, in order.
fn push_times(server: &Server, clients: &mut [Client], number: u32) -> Vec<Duration> {
    let push = |(user, client): (usize, &mut Client)| {
        deliver(server, user, number);
        pushed(client, number)
    };
    let mut times: Vec<Duration> = clients.iter_mut().enumerate().map(push).collect();
    times.sort();
    times
}

/// Returns the processes that a process has started.
fn children(parent: u32) -> Vec<(i32, String)> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc").unwrap() {
        let Ok(pid) = entry.unwrap().file_name().to_string_lossy().parse::<i32>() else { continue };
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let of = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if of == Some(parent) && !line.is_empty() {
            all.push((pid, line.split('\0').nth(3).unwrap_or_default().to_owned()));
        }
    }
    all
}

/// Returns the proportional memory of a process in KiB.
fn pss(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn log_in(server: &Server, users: u64) -> Vec<Client> {
    (0..users)
        .map(|user| {
            let mut client = server.login(&format!("v{user}"));
            client.ok("SELECT INBOX");
            client.send("t IDLE\r\n");
            assert!(client.line().starts_with("+ "));
            client
        })
        .collect()
}

#[test]
fn deliveries_to_many_users_of_one_uid_are_pushed_at_once() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let users = number("BARID_IDLE_USERS", USERS);
    let server = start(users);
    let start = Instant::now();
    let mut clients = log_in(&server, users);
    println!("{users} users logged in and in IDLE after {:?}", start.elapsed());
    let times = push_times(&server, &mut clients, 1);
    let at = |part: usize| times[(times.len() - 1) * part / 100];
    println!("pushed: median {:?}, 99% {:?}, longest {:?}", at(50), at(99), at(100));
    // Without events a mailbox is looked at every 30 s, or every second if that is known.
    assert!(at(50) < Duration::from_millis(400), "{times:?}");
    assert!(at(100) < UNWATCHED, "{times:?}");
    assert!(!server.has_logged("looked for every second"));
    let all = children(server.running.id());
    let of_role = |role: &str| all.iter().filter(|(_, of)| of == role).count();
    assert_eq!((of_role("worker") as u64, of_role("watcher")), (users, 1));
    if is_root() {
        let sum: u64 = all.iter().map(|(pid, _)| pss(*pid)).sum();
        let own = pss(server.running.id() as i32);
        println!("PSS: {} KiB a user, {own} KiB of them the supervisor's", (sum + own) / users);
        for (pid, role) in all.iter().filter(|(_, role)| role != "worker") {
            println!("PSS of {role}: {} KiB", pss(*pid));
        }
        let watcher = all.iter().find(|(_, role)| role == "watcher").unwrap().0;
        assert_eq!(status(watcher, "Seccomp:"), "2");
        assert!(status(watcher, "Uid:").starts_with(&OWNER.to_string()));
    }
    a_killed_watcher_is_replaced(&server, &mut clients);
}

fn a_killed_watcher_is_replaced(server: &Server, clients: &mut [Client]) {
    let watcher = || {
        let all = children(server.running.id());
        all.into_iter().find(|(_, role)| role == "watcher").map(|(pid, _)| pid)
    };
    let killed = watcher().unwrap();
    kill(killed);
    wait_for("another watcher", || watcher().filter(|pid| *pid != killed));
    let times = push_times(server, clients, 2);
    println!(
        "after a kill of the watcher: median {:?}, longest {:?}",
        times[times.len() / 2],
        times.last().unwrap()
    );
    assert!(times[times.len() - 1] < UNWATCHED, "{times:?}");
    let times = push_times(server, clients, 3);
    assert!(times[times.len() / 2] < Duration::from_millis(400), "{times:?}");
}
