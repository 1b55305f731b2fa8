//! `barid deliver`: what mail servers and mail fetchers hand over, once and durably.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use barid_testkit::peers::{PeerUser, program};
use barid_testkit::usage::{Sampling, measure};
use barid_testkit::{disk, skip_or_fail};
use rustix::process::Signal;

use crate::support::{Run, Running, World, send};

/// Deliveries that are killed.
const KILLED: usize = 40;

/// Users with their mail, and a configuration.
pub(crate) struct Site {
    pub(crate) world: World,
    pub(crate) user: &'static PeerUser,
}

impl Site {
    /// Makes the users `ann` and `bob`; `settings` are further sections of the configuration.
    pub(crate) fn new(settings: &str) -> Self {
        let (world, user) = (World::new(), PeerUser::get().unwrap());
        let root = world.path("").display().to_string();
        let root = root.trim_end_matches('/');
        let line = |name: &str| {
            let home = world.create_dir(&format!("home/{name}"));
            format!("{name}:{{PLAIN}}secret:{}:{}::{home}::\n", user.uid, user.gid)
        };
        let users = line("ann") + &line("bob");
        let users = world.write("users", users.as_bytes());
        let config = format!(
            "{settings}\n[server]\nstate_dir = \"{root}/server\"\ncache_dir = \"{root}/cache\"\n\
             hostname = \"mail.example\"\n[[users.passwd_file]]\npath = \"{users}\"\n"
        );
        world.write("barid.toml", config.as_bytes());
        world.hand_over();
        Self { world, user }
    }

    /// Returns the program as the user `ann` would start it.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.world.command();
        self.user.run_as(&mut command, &self.world.path("home/ann"));
        command.arg("deliver").args(args);
        command
    }

    fn start(&self, args: &[&str], input: &[u8]) -> Running {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Running::spawn(&mut command);
        // A program that refuses a message need not read it.
        let _ = child.stdin.take().unwrap().write_all(input);
        child
    }

    fn deliver(&self, args: &[&str], input: &[u8]) -> Run {
        Run::of(self.start(args, input).wait_with_output().unwrap())
    }

    /// Delivers a message, which must succeed.
    fn ok(&self, args: &[&str], input: &[u8]) {
        let run = self.deliver(args, input);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}");
    }

    /// Returns the messages of a Maildir of a user, in any order.
    pub(crate) fn messages(&self, maildir: &str) -> Vec<String> {
        let mut messages = Vec::new();
        for folder in ["new", "cur"] {
            let folder = format!("{maildir}/{folder}");
            if !self.world.has(&folder) {
                continue;
            }
            for name in self.world.list(&folder) {
                let bytes = self.world.read(&format!("{folder}/{name}"));
                messages.push(String::from_utf8(bytes).unwrap());
            }
        }
        messages
    }

    fn count(&self, maildir: &str) -> usize {
        self.messages(maildir).len()
    }
}

const INBOX: &str = "home/ann/Maildir";
const MESSAGE: &[u8] = b"From: a@b.example\nSubject: one\nMessage-ID: <1@b.example>\n\nHello\n";

#[test]
fn a_message_is_stored_as_users_expect_it() {
    let site = Site::new("");
    site.ok(&["--sender", "a@b.example", "--recipient", "ann@c.example"], MESSAGE);
    let start = "Return-Path: <a@b.example>\nDelivered-To: ann@c.example\nFrom: a@b.example\n";
    let messages = site.messages(INBOX);
    assert!(messages.len() == 1 && messages[0].starts_with(start), "{messages:?}");
    assert!(messages[0].ends_with("\n\nHello\n"));
    let from_line = [b"From x@y.example Mon Jan  1 00:00:00 2024\n", MESSAGE].concat();
    site.ok(&["--mail", "mbox:~/mail", "--mailbox", "Lists/rust"], &from_line);
    let mbox = String::from_utf8(site.world.read("home/ann/mail/Lists/rust")).unwrap();
    assert!(mbox.starts_with("From x@y.example "), "{mbox}");
    assert_eq!(mbox.matches("Return-Path: <x@y.example>\n").count(), 1, "{mbox}");
    assert_eq!(mbox.matches("\nFrom ").count(), 0, "{mbox}");
}

#[test]
fn rules_flags_spam_and_duplicates_work() {
    let site = Site::new(
        "[delivery]\nduplicates = \"1 h\"\ndetail_mailbox = true\n\
         [delivery.spam]\nmailbox = \"Junk\"\n\
         [[delivery.rule]]\nlist_id = \"l.example\"\nmailbox = \"Lists.l\"\n\
         flags = [\"\\\\Seen\", \"list\"]\n",
    );
    let config = site.world.path("barid.toml").display().to_string();
    let args = ["--config", config.as_str(), "--user", "ann"];
    let list = |id: u32| format!("List-Id: <L.example>\nMessage-ID: <{id}@x>\n\nbody\n");
    site.ok(&args, list(1).as_bytes());
    site.ok(&args, list(1).as_bytes());
    site.ok(&args, list(2).as_bytes());
    assert_eq!(site.count("home/ann/Maildir/.Lists.l"), 2);
    let names = site.world.list("home/ann/Maildir/.Lists.l/cur");
    assert!(names.iter().all(|name| name.ends_with(":2,Sa")), "{names:?}");
    let subscribed = site.world.read("home/ann/Maildir/subscriptions");
    assert!(String::from_utf8_lossy(&subscribed).contains("Lists\tl\n"));
    let other = |id: u32, word: &str| format!("Message-ID: <{id}@y>\n\n{word} {word}s of {id}\n");
    site.ok(&args, other(1, "minute").as_bytes());
    assert_eq!((site.count(INBOX), site.world.has("home/ann/Maildir/.Junk")), (1, false));
    for (class, word) in [("--spam", "pill"), ("--ham", "minute")] {
        for id in 0..25 {
            let mut train = site.world.command();
            site.user.run_as(&mut train, &site.world.path("home/ann"));
            train.args(["spam", "train", class]).stdin(Stdio::piped()).stdout(Stdio::null());
            let mut child = Running::spawn(&mut train);
            child.stdin.take().unwrap().write_all(other(id, word).as_bytes()).unwrap();
            assert!(child.wait().unwrap().success());
        }
    }
    site.ok(&args, other(100, "pill").as_bytes());
    site.ok(&args, other(101, "minute").as_bytes());
    assert_eq!((site.count(INBOX), site.count("home/ann/Maildir/.Junk")), (2, 1));
    let detail = ["--config", config.as_str(), "--user", "ann+Lists.l@example.org"];
    site.ok(&detail, other(102, "pill").as_bytes());
    let invented = ["--config", config.as_str(), "--user", "ann+Invented@example.org"];
    let run = site.deliver(&invented, other(103, "pill").as_bytes());
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("Invented: cannot be used"), "{}", run.stderr);
    assert_eq!((site.count("home/ann/Maildir/.Lists.l"), site.count(INBOX)), (3, 3));
    assert!(!site.world.has("home/ann/Maildir/.Invented"));
}

#[test]
fn failures_have_the_exit_codes_of_sysexits() {
    let site = Site::new("[quota]\nmessages = 1\n[limits]\nmessage_size = \"100 KB\"\n");
    let config = site.world.path("barid.toml").display().to_string();
    let check = |args: &[&str], input: &[u8], code: i32, text: &str| {
        let run = site.deliver(args, input);
        assert_eq!(run.code, code, "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(text), "{args:?}: {}", run.stderr);
    };
    let of = |user| ["--config", config.as_str(), "--user", user];
    check(&of("eve"), MESSAGE, 67, "no such user");
    check(&of("ann"), b"", 65, "empty");
    check(&of("ann"), b"From x@y Mon Jan  1 00:00:00 2024\n", 65, "empty");
    check(&of("ann"), &[b"A: 1\n\n", vec![b'x'; 110_000].as_slice()].concat(), 73, "more than");
    check(&of("ann"), MESSAGE, 0, "");
    check(&of("ann"), MESSAGE, 73, "full");
    check(&of("bob"), MESSAGE, 0, "");
    check(&["--config", "/nowhere/barid.toml", "--user", "ann"], MESSAGE, 75, "barid.toml:1:1");
    site.world.write("broken.toml", b"[serve]\n");
    check(&["--config", "broken.toml", "--user", "ann"], MESSAGE, 75, "did you mean `server`");
    site.world.rename("users", "users.away");
    check(&of("ann"), MESSAGE, 75, "users");
    assert_eq!(site.count(INBOX), 1);
    if rustix::process::getuid().is_root() {
        let run = site.world.run_with_input(&["deliver"], MESSAGE);
        assert_eq!(run.code, 77, "{}", run.stderr);
    }
}

#[test]
fn root_delivers_as_the_user() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let site = Site::new("");
    site.world.set_mode("users", 0o600);
    site.world.set_mode("barid.toml", 0o600);
    let owner = |name: &str| {
        let mut stat = Command::new("stat");
        stat.args(["-c", "%u:%g"]).arg(site.world.path(name));
        String::from_utf8(stat.output().unwrap().stdout).unwrap()
    };
    let args = ["deliver", "--config", "barid.toml", "--user", "ann+x@example.org"];
    let large = [MESSAGE, vec![b'y'; 3_000_000].as_slice()].concat();
    for input in [MESSAGE, &large] {
        let run = site.world.run_with_input(&args, input);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    }
    assert_eq!(site.count(INBOX), 2);
    let expected = format!("{}:{}\n", site.user.uid, site.user.gid);
    for name in site.world.list("home/ann/Maildir/new") {
        assert_eq!(owner(&format!("home/ann/Maildir/new/{name}")), expected);
    }
}

#[test]
fn a_large_message_does_not_stay_in_memory() {
    let site = Site::new("");
    let line = [&[b'x'; 71][..], b"\n"].concat().repeat(14_563);
    let path =
        site.world.write("large", &[b"Subject: large\n\n", line.repeat(90).as_slice()].concat());
    let mut command = site.command(&["--mail", "mbox:~/mail"]);
    command.stdin(disk::open(Path::new(&path)).unwrap());
    // Not the peak of all resident memory, in which that of this process counts until the exec.
    let sampling = Sampling::Every(Duration::from_millis(2));
    let usage = measure(&mut command, Duration::from_secs(300), sampling).unwrap();
    assert!(usage.status.success());
    let anonymous = usage.anon_peak.expect("because it takes longer than a sample");
    println!("94 MB delivered with {} MB of memory", anonymous >> 20);
    assert!(anonymous < 16 << 20, "{anonymous}");
    let size = site.world.read("home/ann/mail/inbox").len();
    assert!(size > 90 * line.len(), "{size}");
}

/// Kills deliveries at random and repeats each until it succeeds; returns how often each message is
/// there and how many were killed.
fn kill(site: &Site, args: &[&str], seed: u64) -> (Vec<usize>, usize) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let text = |number: usize| {
        format!("Subject: s\nMessage-ID: <k{number}@x>\n\n{}\n", "body ".repeat(number * 300))
    };
    let started = std::time::Instant::now();
    site.ok(args, text(KILLED).as_bytes());
    let mut whole = started.elapsed();
    let mut killed = 0;
    for number in 0..KILLED {
        for attempt in 0.. {
            let child = site.start(args, text(number).as_bytes());
            if attempt < 3 {
                std::thread::sleep(whole.mul_f32(rng.f32() * 1.1));
                send(&child, Signal::KILL);
            }
            let output = child.wait_with_output().unwrap();
            if output.status.success() {
                // The machine may have become faster since.
                whole = if attempt < 3 { whole.mul_f32(0.9) } else { whole };
                break;
            }
            assert!(attempt < 3, "{}", String::from_utf8_lossy(&output.stderr));
            killed += 1;
        }
    }
    let messages = site.messages(INBOX).join("\n");
    let times = |number| messages.matches(&format!("Message-ID: <k{number}@x>")).count();
    ((0..=KILLED).map(times).collect(), killed)
}

#[test]
fn a_killed_delivery_is_repeated_and_nothing_is_lost() {
    let site = Site::new("");
    let (times, killed) = kill(&site, &[], 1);
    assert!(killed > KILLED / 4, "{killed}");
    assert!(times.iter().all(|times| (1..=4).contains(times)), "{times:?}");
    let more: usize = times.iter().map(|times| times - 1).sum();
    assert!(more <= killed, "{times:?}");
}

#[test]
fn a_killed_delivery_makes_no_duplicates_if_they_are_suppressed() {
    let site = Site::new("");
    let (times, killed) = kill(&site, &["--duplicates", "1 h"], 2);
    assert!(killed > KILLED / 4, "{killed}");
    assert!(times.iter().all(|times| *times == 1), "{times:?}");
}

#[test]
fn a_full_disk_is_worth_another_try() {
    let site = Site::new("");
    let (uid, gid) = (site.user.uid, site.user.gid);
    if !rustix::process::getuid().is_root() {
        return;
    }
    site.world.write("large", &[MESSAGE, vec![b'x'; 3_000_000].as_slice()].concat());
    site.world.write("small", MESSAGE);
    let script = format!(
        "mount -t tmpfs -o size=2m,uid={uid},gid={gid} none home/ann || exit 77\n\
         for message in large small; do\n\
         setpriv --reuid {uid} --regid {gid} --clear-groups env HOME=$PWD/home/ann $barid deliver \
         --mail mbox:~/mail < $message; echo $?; done\n\
         grep -c ^From home/ann/mail/inbox; wc -c < home/ann/mail/inbox"
    );
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", &script])
        .env("barid", env!("CARGO_BIN_EXE_barid"))
        .current_dir(site.world.path("."));
    let run = Run::of(command.output().unwrap());
    if run.code == 77 {
        return skip_or_fail("a file system in memory");
    }
    let text = run.text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() == 4 && lines[..2] == ["75", "0"], "{text} {}", run.stderr);
    assert_eq!(lines[2], "2", "the From_ line and the field From: {text}");
    assert!(lines[3].parse::<u64>().unwrap() < 1000, "{text}");
}

/// Runs a shell script as the user, with the program as `$barid`.
fn script(site: &Site, script: &str, input: &[u8]) -> Run {
    let mut command = Command::new("sh");
    command.env_clear().env("PATH", "/usr/bin:/bin").env("barid", env!("CARGO_BIN_EXE_barid"));
    site.user.run_as(&mut command, &site.world.path("home/ann"));
    command.args(["-c", script]).current_dir(site.world.path("home/ann"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Running::spawn(&mut command);
    child.stdin.take().unwrap().write_all(input).unwrap();
    Run::of(child.wait_with_output().unwrap())
}

#[test]
fn procmail_delivers_by_it() {
    let site = Site::new("");
    // It sets HOME to that of the user of the system.
    let home = site.world.path("home/ann").display().to_string();
    let deliver = format!("/usr/bin/env HOME={home} {} deliver", env!("CARGO_BIN_EXE_barid"));
    let recipe =
        format!(":0 w\n* ^Subject:.*one\n| {deliver} --mailbox Lists.one\n:0 w\n| {deliver}\n");
    site.world.write("home/ann/rc", recipe.as_bytes());
    site.world.hand_over();
    let two = b"From: a@b.example\nSubject: two\n\nHello\n";
    if program("procmail").is_none() {
        skip_or_fail("procmail");
    } else {
        for message in [MESSAGE, two] {
            let run = script(&site, "procmail -m rc", message);
            assert_eq!(run.code, 0, "{}", run.stderr);
        }
        assert_eq!(site.count(INBOX), 1);
        assert_eq!(site.count("home/ann/Maildir/.Lists.one"), 1);
        let stored = site.messages(INBOX).remove(0);
        assert!(
            stored.starts_with("From: a@b.example\n") && !stored.contains("\nFrom "),
            "{stored}"
        );
    }
}

#[test]
fn waiting_for_other_deliveries_does_not_lose_them() {
    let site = Site::new("");
    let message = |number| format!("Subject: {number}\nMessage-ID: <{number}@x>\n\nbody\n");
    let args = ["--duplicates", "1 h", "--mail", "mbox:~/mail"];
    let children: Vec<Running> =
        (0..12).map(|number| site.start(&args, message(number / 2).as_bytes())).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let mbox = String::from_utf8(site.world.read("home/ann/mail/inbox")).unwrap();
    for number in 0..6 {
        assert_eq!(mbox.matches(&format!("Message-ID: <{number}@x>")).count(), 1, "{mbox}");
    }
    assert!(site.world.has("home/ann/.local/state/barid/deliveries"));
}
