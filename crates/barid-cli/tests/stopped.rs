//! A long rewrite of an mbox that is told to end, or killed: the next command completes it.

use std::time::{Duration, Instant};

use barid_testkit::boxes::{MboxOptions, MboxVariant};
use barid_testkit::corpus::Corpus;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Run, Running, World, parse_lines, send};

/// Messages of the mailbox: about 50 MB, of which a sync moves nearly all.
const MESSAGES: u64 = 12_000;
/// Number of attempts, as a program may finish before it is told to end.
const TRIES: usize = 20;
/// Number of killed programs.
const KILLS: usize = 12;
/// The path of the mailbox's journal.
const JOURNAL: &str = ".box.mbox.barid-journal";

/// A mailbox that is restored to its original state for every run.
struct Fresh<'a> {
    world: &'a World,
    path: String,
    stored: Vec<u8>,
    /// All messages, concatenated.
    raw: Vec<u8>,
}

impl<'a> Fresh<'a> {
    fn new(world: &'a World) -> Self {
        let path = world.path("box.mbox");
        let corpus = Corpus::new(7, MESSAGES);
        corpus.write_mbox(&path, MboxOptions::new(MboxVariant::Mboxo)).unwrap();
        let path = path.to_str().unwrap().to_owned();
        let stored = world.read("box.mbox");
        let raw = raw(world, &path);
        Self { world, path, stored, raw }
    }

    /// Writes the mailbox as a new file, and starts a sync.
    fn start(&self) -> Running {
        self.world.remove("box.mbox");
        self.world.write("box.mbox", &self.stored);
        self.world.start(&["sync", &self.path])
    }

    /// Checks that every message exists with its original UID.
    fn check(&self) {
        assert!(raw(self.world, &self.path) == self.raw, "all messages are as they were");
        let status = status(self.world, &self.path, &[]);
        assert_eq!(status["messages"], MESSAGES);
        assert_eq!(status["uidnext"], MESSAGES + 1);
        assert_eq!(status["unfinished"], Value::Null);
        assert!(!self.world.has(JOURNAL));
    }
}

fn raw(world: &World, path: &str) -> Vec<u8> {
    let run = world.run(&["show", "--raw", path, "1:*"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    run.stdout
}

fn status(world: &World, path: &str, more: &[&str]) -> Value {
    let run = world.run(&[&["status", "--json", path], more].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    parse_lines(&run.text()).remove(0)
}

/// Starts a sync and tells it to end as soon as it has a journal; `None` if it finished before.
fn stop(fresh: &Fresh<'_>, signal: Signal) -> Option<Run> {
    let mut child = fresh.start();
    while !fresh.world.has(JOURNAL) && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_micros(200));
    }
    if child.try_wait().unwrap().is_none() {
        send(&child, signal);
    }
    let run = Run::of(child.wait_with_output().unwrap());
    assert!([0, 2].contains(&run.code), "{}", run.stderr);
    (run.code == 2).then_some(run)
}

#[test]
fn a_sync_that_is_told_to_end_goes_on_later() {
    let world = World::new();
    let fresh = Fresh::new(&world);
    for signal in [Signal::INT, Signal::TERM] {
        let stopped = (0..TRIES).find_map(|_| stop(&fresh, signal));
        let run = stopped.expect("because one of so many is stopped in time");
        for text in ["error: ", "unfinished", "hint: ", &format!("barid sync {}", fresh.path)] {
            assert!(run.stderr.contains(text), "{text} is not in {}", run.stderr);
        }
        assert!(run.stdout.is_empty());
        let found = status(&world, &fresh.path, &["--read-only"]);
        let journal = found["unfinished"]["journal"].as_str().unwrap();
        assert!(journal.ends_with(JOURNAL), "{found}");
        assert!(!found["unfinished"]["what"].as_str().unwrap().is_empty());
        let text = world.run(&["status", &fresh.path, "--read-only"]);
        assert!(text.text().contains("unfinished     "), "{}", text.text());
        assert!(text.stderr.contains("warning: "), "{}", text.stderr);
        let run = world.run(&["expunge", &fresh.path, "1", "--dry-run"]);
        assert_eq!(run.code, 2, "what is unfinished is not changed: {}", run.stderr);

        let run = world.run(&["ls", "--limit", "1", &fresh.path]);
        assert_eq!((run.code, run.text().lines().count()), (0, 1), "{}", run.stderr);
        assert!(run.stderr.starts_with("note: "), "{}", run.stderr);
        assert!(run.stderr.contains("an interrupted change was completed"), "{}", run.stderr);
        fresh.check();
        assert!(world.ok(&["sync", &fresh.path]).contains("nothing to write"));
    }
}

#[test]
fn a_second_signal_ends_the_program_and_loses_nothing() {
    let world = World::new();
    let fresh = Fresh::new(&world);
    world.write("box.mbox.lock", std::process::id().to_string().as_bytes());
    let mut child = world.start(&["sync", &fresh.path, "--lock-timeout", "60s"]);
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < Duration::from_secs(60), "it does not end");
        send(&child, Signal::INT);
        std::thread::sleep(Duration::from_millis(20));
    }
    world.remove("box.mbox.lock");
    assert!(world.read("box.mbox") == fresh.stored);
    fresh.check();
}

#[test]
fn a_killed_sync_is_completed() {
    let world = World::new();
    let fresh = Fresh::new(&world);
    let started = Instant::now();
    assert!(fresh.start().wait().unwrap().success());
    let whole = started.elapsed();
    fresh.check();
    let mut rng = fastrand::Rng::with_seed(4);
    let (mut killed, mut begun) = (0, 0);
    for round in 0..KILLS * 20 {
        if round >= KILLS && killed > 0 && begun > 0 {
            break;
        }
        let mut child = fresh.start();
        std::thread::sleep(whole.mul_f32(rng.f32()));
        child.kill().unwrap();
        killed += usize::from(child.wait().unwrap().code().is_none());
        begun += usize::from(world.has(JOURNAL));
        let run = world.run(&["status", &fresh.path]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        fresh.check();
    }
    println!("killed {killed} of {KILLS}, {begun} with a journal");
    assert!(killed > 0 && begun > 0, "killed {killed} of {KILLS}, {begun} with a journal");
}
