//! `barid watch`: lines for changes that others make.

use std::io::{BufRead as _, BufReader};
use std::process::ChildStdout;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Run, Running, World, mbox, parse_lines, send};

const ONE: &str = "From: Ann Ex <ann@a.example>\nSubject: one\n\nHello.\n";
const TWO: &str = "From: Bo <bo@b.example>\nSubject: two\n\nHello.\n";

/// A watch whose lines are read one by one.
struct Watching {
    child: Running,
    lines: BufReader<ChildStdout>,
}

impl Watching {
    /// Starts a watch, and waits until it has reported that it watches.
    fn start(world: &World, args: &[&str], mailboxes: &[&str]) -> Self {
        let mut child = world.start(&[&["watch", "--json"], args, mailboxes].concat());
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut watching = Self { child, lines };
        for mailbox in mailboxes {
            let line = watching.next();
            assert_eq!(
                (&line["event"], &line["mailbox"]),
                (&"watching".into(), &(*mailbox).into())
            );
        }
        watching
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        let mut lines = parse_lines(&line);
        assert_eq!(lines.len(), 1, "it has ended");
        assert_eq!(lines[0]["type"], "watch");
        lines.remove(0)
    }

    /// Tells the watch to end; it must succeed without further lines.
    fn end(mut self, signal: Signal) {
        send(&self.child, signal);
        let mut line = String::new();
        assert_eq!(self.lines.read_line(&mut line).unwrap(), 0, "{line}");
        let run = Run::of(self.child.wait_with_output().unwrap());
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    }
}

/// Makes the changes that every format supports; `deliver` adds a second message.
fn check(world: &World, args: &[&str], mailbox: &str, deliver: &dyn Fn()) {
    let mut watching = Watching::start(world, args, &[mailbox]);
    deliver();
    let line = watching.next();
    assert_eq!(line["event"], "new", "{line}");
    assert_eq!((&line["uid"], &line["subject"]), (&2.into(), &"two".into()));
    assert_eq!(line["from"][0]["address"], "bo@b.example");

    world.ok(&["flag", mailbox, "1", "+flagged", "+todo"]);
    let line = watching.next();
    assert_eq!((&line["event"], &line["uid"]), (&"flags".into(), &1.into()), "{line}");
    assert!(line["flags"].as_array().unwrap().contains(&"\\Flagged".into()), "{line}");
    assert_eq!(line["keywords"], serde_json::json!(["todo"]));

    world.ok(&["expunge", mailbox, "1"]);
    let line = watching.next();
    assert_eq!((&line["event"], &line["uid"]), (&"expunged".into(), &1.into()), "{line}");
    watching.end(Signal::INT);
}

#[test]
fn changes_are_told_as_they_happen() {
    for args in [&[][..], &["--poll", "--interval", "50ms"]] {
        let world = World::new();
        let maildir = world.maildir("dir", &[ONE]);
        check(&world, args, &maildir, &|| world.deliver("dir", "new/1700000000.M9.host", TWO));
        world.write("box.mbox", mbox(&[ONE]).as_bytes());
        let (one, two) = (world.write("one", ONE.as_bytes()), world.write("two", TWO.as_bytes()));
        for (format, name) in [("mbx", "box.mbx"), ("mix", "box.mix")] {
            world.ok(&["append", "--create", &format!("{format}:{name}"), &one]);
        }
        for name in ["box.mbox", "box.mbx", "box.mix"] {
            check(&world, args, name, &|| drop(world.ok(&["append", name, &two])));
        }
        world.create_dir("mh");
        world.write("mh/1", ONE.as_bytes());
        let mh = world.write("mh/.mh_sequences", b"");
        let mh = mh.strip_suffix("/.mh_sequences").unwrap();
        check(&world, args, mh, &|| drop(world.write("mh/2", TWO.as_bytes())));
    }
}

/// Messages whose files exist before they are complete are reported once, when they are complete.
#[test]
fn a_message_that_is_being_written_is_told_when_it_is_whole() {
    for args in [&[][..], &["--poll", "--interval", "20ms"]] {
        let world = World::new();
        let maildir = world.maildir("dir", &[ONE]);
        world.write("mh/1", ONE.as_bytes());
        let mh = world.write("mh/.mh_sequences", b"");
        let mh = mh.strip_suffix("/.mh_sequences").unwrap();
        for (mailbox, file) in [(&*maildir, "dir/new/1700000000.M9.host"), (mh, "mh/2")] {
            let mut watching = Watching::start(&world, args, &[mailbox]);
            for end in [0, 20, 45, TWO.len()] {
                world.write(file, &TWO.as_bytes()[..end]);
                std::thread::sleep(std::time::Duration::from_millis(150));
            }
            let line = watching.next();
            assert_eq!((&line["event"], &line["uid"]), (&"new".into(), &2.into()), "{line}");
            assert_eq!(line["subject"], "two", "{mailbox}: {line}");
            watching.end(Signal::INT);
        }
        // A message that never gets a body is reported, too.
        let mut watching = Watching::start(&world, args, &[&maildir]);
        world.write("dir/new/1700000001.M9.host", b"Subject: three\n");
        let line = watching.next();
        assert_eq!((&line["uid"], &line["subject"]), (&3.into(), &"three".into()), "{line}");
        watching.end(Signal::INT);
    }
}

#[test]
fn people_read_lines() {
    let world = World::new();
    let maildir = world.maildir("dir", &[ONE]);
    let other = world.maildir("other", &[ONE]);
    world.ok(&["status", &maildir]);
    let child = world.start(&["watch", "--timeout", "20s", "--once", &maildir, &other]);
    // Changes since the opening are reported as well, and the watch ends with them.
    while !world.has("home/.cache/barid") || world.list("home/.cache/barid").len() < 2 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    world.deliver("other", "new/1700000000.M9.host", TWO);
    let run = Run::of(child.wait_with_output().unwrap());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let line = run.text();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[..4], [&other[..], "new", "2", "N----"], "{line}");
    assert!(line.ends_with("  two\n") && line.lines().count() == 1, "{line}");
}

#[test]
fn nothing_that_changes_in_time_matches_nothing() {
    let world = World::new();
    let maildir = world.maildir("dir", &[ONE]);
    let run = world.run(&["watch", "--timeout", "50ms", &maildir]);
    assert_eq!((run.code, run.text().as_str(), run.stderr.as_str()), (1, "", ""));
    let run = world.run(&["watch", "nowhere"]);
    assert_eq!(run.code, 2);
}

#[test]
fn a_command_is_told_in_its_environment() {
    let world = World::new();
    let maildir = world.maildir("dir", &[ONE]);
    let command = "printf '%s|' \"$BARID_EVENT\" \"$BARID_UID\" \"$BARID_FLAGS\" \"$BARID_FROM\" \
                   \"$BARID_SUBJECT\" \"$BARID_MAILBOX\" >> told; echo >> told; exit 3";
    let mut watching = Watching::start(&world, &["--exec", command], &[&maildir]);
    let evil =
        "From: \"$(touch evil)\" <a@b.example>\nSubject: `touch evil`; touch evil\n\nHello.\n";
    world.deliver("dir", "new/1700000000.M9.host", evil);
    watching.next();
    world.ok(&["expunge", &maildir, "1"]);
    watching.next();
    let told = || world.try_bytes("told").map_or(0, |told| told.split(|b| *b == b'\n').count());
    while told() < 3 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    send(&watching.child, Signal::TERM);
    let run = Run::of(watching.child.wait_with_output().unwrap());
    assert_eq!(run.code, 0);
    assert!(run.stderr.contains("warning: the command of --exec failed:"), "{}", run.stderr);
    let told = String::from_utf8(world.read("told")).unwrap();
    let lines: Vec<&str> = told.lines().collect();
    assert!(
        lines[0].starts_with("new|2|\\Recent|$(touch evil)|`touch evil`; touch evil|"),
        "{told}"
    );
    assert_eq!(lines[1], format!("expunged|1||||{maildir}|"));
    assert!(!world.has("evil"));
}

#[test]
fn a_tree_is_watched_with_the_mailboxes_that_appear_in_it() {
    let world = World::new();
    world.maildir("mail/a", &[ONE]);
    world.maildir("mail/lists/b", &[ONE]);
    let mut child = world.start(&["watch", "--json", "--index", "--tree", "mail"]);
    let lines = BufReader::new(child.stdout.take().unwrap());
    let mut watching = Watching { child, lines };
    let mut names: Vec<String> =
        (0..2).map(|_| watching.next()["mailbox"].as_str().unwrap().to_owned()).collect();
    names.sort_unstable();
    assert_eq!(names, ["mail/a", "mail/lists/b"]);
    world.deliver("mail/lists/b", "new/2.x", TWO);
    let line = watching.next();
    let found = (&line["mailbox"], &line["event"], &line["subject"]);
    assert_eq!(found, (&"mail/lists/b".into(), &"new".into(), &"two".into()));
    world.maildir("mail/c", &[ONE]);
    let line = watching.next();
    let found = (&line["mailbox"], &line["event"], &line["subject"]);
    assert_eq!(found, (&"mail/c".into(), &"new".into(), &"one".into()));
    watching.end(Signal::TERM);
    let run = world.run(&["watch", "--tree", "mail/c/cur"]);
    assert!(run.code == 1 && run.stderr.contains("no mailbox in this folder"), "{}", run.stderr);
}
