//! Every verb that may take long, told to end in the middle.

use std::cell::RefCell;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Output;
use std::time::{Duration, Instant};

use barid_testkit::corpus::Corpus;
use rustix::process::Signal;

use crate::support::{World, send};

/// Messages of the mailbox.
const MESSAGES: u64 = 6_000;
/// Milliseconds after which a verb is told to end; one that is done by then is tried again.
const DELAYS_MS: [u64; 10] = [150, 80, 40, 20, 300, 60, 10, 600, 5, 30];
/// A loaded machine takes longer than the second that a person waits.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The end of a verb that was told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The signal ends it, as nothing is half done.
    Signal,
    /// Its own exit status, and a text on standard error.
    Status(i32, &'static str),
}

/// A mailbox with which verbs are tried.
struct Stage<'w> {
    world: &'w World,
    /// The times that verbs took to end.
    times: RefCell<Vec<String>>,
}

impl Stage<'_> {
    /// Starts a verb and tells it to end; `None` if it was done before.
    fn stop(&self, args: &[&str], delay: Duration) -> Option<(Output, Duration)> {
        let mut child = self.world.start(args);
        std::thread::sleep(delay);
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        let told = Instant::now();
        send(&child, Signal::INT);
        Some((child.wait_with_output().unwrap(), told.elapsed()))
    }

    /// Tells a verb to end until it was not done before; `prepare` makes everything as it was.
    fn check(&self, args: &[&str], ends: &[End], prepare: &mut dyn FnMut()) {
        for delay in DELAYS_MS {
            prepare();
            let Some((output, took)) = self.stop(args, Duration::from_millis(delay)) else {
                continue;
            };
            assert!(took < ANSWER_MAX, "{args:?}: {took:?}");
            if output.status.code().is_some_and(|code| code < 2) {
                // It came to its end meanwhile.
                continue;
            }
            let stderr = String::from_utf8_lossy(&output.stderr);
            let is_it = |end: &End| match end {
                End::Signal => output.status.signal() == Some(2),
                End::Status(code, text) => {
                    output.status.code() == Some(*code) && stderr.contains(text)
                }
            };
            assert!(ends.iter().any(is_it), "{args:?}: {} {stderr}", output.status);
            let time = format!("{} {} ms after {delay} ms", args[0], took.as_millis());
            self.times.borrow_mut().push(time);
            return;
        }
        panic!("{args:?} was always done before it was told to end");
    }
}

#[test]
fn verbs_that_read_end_at_once() {
    let world = World::new();
    Corpus::new(3, MESSAGES).write_maildir(&world.path("box")).unwrap();
    let stage = Stage { world: &world, times: RefCell::default() };
    let fresh = || {
        for folder in ["home/.cache", "home/.local"] {
            if world.has(folder) {
                world.remove(folder);
            }
        }
    };
    for args in [
        &["ls", "--no-cache", "box"][..],
        &["search", "--no-cache", "box", "BODY nothing-of-that-kind"],
        &["thread", "--no-cache", "box"],
        &["check", "box"],
        &["cache", "populate", "--full", "box"],
    ] {
        stage.check(args, &[End::Signal], &mut || fresh());
    }
    println!("{:?}", stage.times.borrow());
    assert_eq!(world.run(&["status", "box"]).code, 0);
}

#[test]
fn watching_ends() {
    let world = World::new();
    let path = world.maildir("box", &["Subject: a\n\n"]);
    let stage = Stage { world: &world, times: RefCell::default() };
    let (output, took) = stage.stop(&["watch", &path], Duration::from_millis(800)).unwrap();
    assert!(took < ANSWER_MAX, "{took:?}");
    assert_eq!((output.status.code(), output.status.signal()), (Some(0), None));
}

#[test]
fn verbs_that_write_say_what_is_done() {
    let world = World::new();
    Corpus::new(3, MESSAGES).write_maildir(&world.path("box")).unwrap();
    world.ok(&["status", "box"]);
    let stage = Stage { world: &world, times: RefCell::default() };
    let gone = |name: &'static str| {
        let world = &world;
        move || {
            if world.has(name) {
                world.remove(name);
            }
        }
    };
    // While a mailbox is opened nothing is half done.
    let done = |text| [End::Signal, End::Status(2, text)];
    let copy = ["copy", "--create", "box", "all", "maildir:copied"];
    stage.check(&copy, &done("messages"), &mut gone("copied"));
    let copy = ["copy", "--create", "box", "all", "mboxrd:copied"];
    stage.check(&copy, &done("messages"), &mut gone("copied"));
    stage.check(&["convert", "box", "mix:converted"], &done("messages"), &mut gone("converted"));
    world.ok(&["spam", "train", "--spam", "--uids", "1:50", "box", "-q"]);
    world.ok(&["spam", "train", "--ham", "--uids", "51:100", "box", "-q"]);
    stage.check(&["spam", "classify", "--rescore", "box"], &done(""), &mut || {});
    let train = ["spam", "train", "--spam", "--uids", "101:*", "box"];
    stage.check(&train, &done(""), &mut || {});
    let mut is_expunged = false;
    stage.check(&["expunge", "box", "1:*"], &done("messages were done"), &mut || {
        if is_expunged {
            world.run(&["undo", "box"]);
        }
        is_expunged = true;
    });
    world.run(&["expunge", "box", "1:*"]);
    let mut is_undone = false;
    stage.check(&["undo", "box"], &done("messages were done"), &mut || {
        if is_undone {
            world.run(&["expunge", "box", "1:*"]);
        }
        is_undone = true;
    });
    world.run(&["undo", "box"]);
    let listed = world.ok(&["search", "--count", "box", "all"]);
    println!("{:?}", stage.times.borrow());
    assert_eq!(listed.trim(), MESSAGES.to_string());
}

#[test]
fn a_repair_ends_between_two_steps_and_goes_on() {
    let world = World::new();
    let texts: Vec<String> = (0..3000).map(|n| format!("Subject: {n}\n\nbody\n")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let path = world.maildir("box", &texts);
    // Messages under names that `cur` should not have: a repair renames each.
    let names = || barid_testkit::disk::list(&world.path("box/cur")).unwrap();
    let spoil = || {
        for path in names() {
            let name = path.to_str().unwrap();
            if let Some(bare) = name.strip_suffix(":2,S") {
                barid_testkit::disk::rename(&path, bare.as_ref()).unwrap();
            }
        }
    };
    spoil();
    let found = world.run(&["check", &path]);
    println!("{}", found.text().lines().take(2).collect::<Vec<_>>().join("\n"));
    let stage = Stage { world: &world, times: RefCell::default() };
    let ends = [End::Signal, End::Status(2, "steps of the repair were done")];
    stage.check(&["check", "--repair", &path], &ends, &mut || spoil());
    println!("{:?}", stage.times.borrow());
    let repaired = world.run(&["check", "--repair", &path]);
    assert_eq!(repaired.code, 0, "{}", repaired.stderr);
    assert_eq!(world.run(&["check", &path]).code, 0);
    assert_eq!(
        names().len() + barid_testkit::disk::list(&world.path("box/new")).unwrap().len(),
        3000
    );
}
