//! Every verb that may take long, told to end in the middle.

use std::cell::RefCell;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Output;
use std::time::{Duration, Instant};

use barid_testkit::corpus::Corpus;
use rustix::process::Signal;

use crate::support::{World, send, send_when_caught};

/// Messages of the mailbox.
const MESSAGES: u64 = 6_000;
/// Number of times that a verb is told to end until it is neither too early nor too late.
const TRIES: u32 = 40;
/// Delay of the first try.
const FIRST_DELAY: Duration = Duration::from_millis(150);
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

    /// Tells a verb to end until it ends as it should in the middle of its work; `prepare` makes
    /// everything as it was. A verb that is told to end before its work dies by the signal, so the
    /// next try comes later; one that was done is told sooner.
    fn check(&self, args: &[&str], end: End, prepare: &mut dyn FnMut()) {
        let (mut early, mut late) = (Duration::ZERO, None);
        let mut delay = FIRST_DELAY;
        for _ in 0..TRIES {
            prepare();
            let stopped = self.stop(args, delay);
            let took = stopped.as_ref().map_or(Duration::ZERO, |(_, took)| *took);
            assert!(took < ANSWER_MAX, "{args:?}: {took:?}");
            let output = stopped.map(|(output, _)| output);
            // It may come to its end meanwhile.
            let output = output.filter(|output| output.status.code().is_none_or(|code| code > 1));
            match output {
                None => late = Some(delay),
                Some(output) if output.status.signal() == Some(2) && end != End::Signal => {
                    early = delay;
                }
                Some(output) => {
                    let stderr = String::from_utf8_lossy(&output.stderr);
                    let is_it = match end {
                        End::Signal => output.status.signal() == Some(2),
                        End::Status(code, text) => {
                            output.status.code() == Some(code) && stderr.contains(text)
                        }
                    };
                    assert!(is_it, "{args:?}: {} {stderr}", output.status);
                    let (took, delay) = (took.as_millis(), delay.as_millis());
                    let time = format!("{} {took} ms after {delay} ms", args[0]);
                    self.times.borrow_mut().push(time);
                    return;
                }
            }
            if late.is_some_and(|late| late <= early + Duration::from_millis(2)) {
                // No two runs take the same time.
                (early, late) = (early / 2, late.map(|late| late * 2));
            }
            delay = late.map_or(early * 2, |late| (early + late) / 2);
        }
        panic!("{args:?} was never told to end in the middle of its work");
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
        stage.check(args, End::Signal, &mut || fresh());
    }
    println!("{:?}", stage.times.borrow());
    assert_eq!(world.run(&["status", "box"]).code, 0);
}

#[test]
fn watching_ends() {
    let world = World::new();
    let path = world.maildir("box", &["Subject: a\n\n"]);
    let mut child = world.start(&["watch", &path]);
    assert!(send_when_caught(&mut child, Signal::INT), "it ended by itself");
    let told = Instant::now();
    let output = child.wait_with_output().unwrap();
    let took = told.elapsed();
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
    let done = |text| End::Status(2, text);
    let copy = ["copy", "--create", "box", "all", "maildir:copied"];
    stage.check(&copy, done("of 6000 messages"), &mut gone("copied"));
    let copy = ["copy", "--create", "box", "all", "mboxrd:copied"];
    stage.check(&copy, done("of 6000 messages"), &mut gone("copied"));
    stage.check(
        &["convert", "box", "mix:converted"],
        done("of 6000 messages"),
        &mut gone("converted"),
    );
    let mut is_made = false;
    stage.check(&["move", "from", "all", "to"], done("messages were copied"), &mut || {
        if is_made {
            world.remove("from");
            world.remove("to");
        }
        world.ok(&["copy", "--create", "box", "all", "mboxrd:from", "-q"]);
        world.write("to", b"");
        is_made = true;
    });
    world.ok(&["move", "from", "all", "to", "-q"]);
    assert_eq!(world.ok(&["search", "--count", "to", "all"]).trim(), MESSAGES.to_string());
    world.ok(&["spam", "train", "--spam", "--uids", "1:50", "box", "-q"]);
    world.ok(&["spam", "train", "--ham", "--uids", "51:100", "box", "-q"]);
    stage.check(
        &["spam", "classify", "--rescore", "box"],
        done("interrupted before all messages were read"),
        &mut || {},
    );
    let train = ["spam", "train", "--spam", "--uids", "101:*", "box"];
    stage.check(&train, done("interrupted before all messages were read"), &mut || {});
    let mut is_expunged = false;
    stage.check(&["expunge", "box", "1:*"], done("stopped after "), &mut || {
        if is_expunged {
            world.run(&["undo", "box"]);
        }
        is_expunged = true;
    });
    world.run(&["expunge", "box", "1:*"]);
    let mut is_undone = false;
    stage.check(&["undo", "box"], done("stopped after "), &mut || {
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
    let end = End::Status(2, "steps of the repair");
    stage.check(&["check", "--repair", &path], end, &mut || spoil());
    println!("{:?}", stage.times.borrow());
    let repaired = world.run(&["check", "--repair", &path]);
    assert_eq!(repaired.code, 0, "{}", repaired.stderr);
    assert_eq!(world.run(&["check", &path]).code, 0);
    assert_eq!(
        names().len() + barid_testkit::disk::list(&world.path("box/new")).unwrap().len(),
        3000
    );
}

/// Size of an mbox in bytes that takes long to read.
const LONG_LEN: u64 = 64 << 30;

#[test]
fn a_diagnosis_ends_before_a_repair() {
    let world = World::new();
    let path = world.write("box", crate::support::mbox(&["Subject: a\n\nx\n"]).as_bytes());
    barid_testkit::disk::set_len(path.as_ref(), LONG_LEN).unwrap();
    let stage = Stage { world: &world, times: RefCell::default() };
    let args = ["check", "--repair", "mboxrd:box"];
    stage.check(&args, End::Status(2, "0 of 0 steps of the repair"), &mut || {});
    println!("{:?}", stage.times.borrow());
    assert_eq!(barid_testkit::disk::size(path.as_ref()).unwrap(), LONG_LEN);
    assert!(!world.has("box.lock"));
}

#[test]
fn waiting_for_the_lock_of_a_mix_ends() {
    let world = World::new();
    world.ok(&["append", "--create", "mix:box", &world.write("one", b"Subject: a\n\nx\n")]);
    // Others may read, and nobody may write.
    let index = barid_testkit::disk::open_read_write(&world.path("box/.mixindex")).unwrap();
    rustix::fs::flock(&index, rustix::fs::FlockOperation::LockShared).unwrap();
    let stage = Stage { world: &world, times: RefCell::default() };
    let end = End::Status(2, "interrupted while waiting for another program");
    stage.check(&["append", "box", "one"], end, &mut || {});
    stage.check(&["expunge", "box", "1"], end, &mut || {});
    let end = End::Status(2, "box/.mixindex: locked by another program");
    stage.check(&["check", "--repair", "box"], end, &mut || {});
    println!("{:?}", stage.times.borrow());
    drop(index);
    world.ok(&["append", "box", "one"]);
    assert_eq!(world.ok(&["search", "--count", "box", "all"]).trim(), "2");
}
