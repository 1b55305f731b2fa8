//! Programs that are ended in the middle of a change, wherever they are, and run again: every
//! message is there once, byte for byte.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::spam::taught;
use crate::support::{Run, Running, World, mbox, send};

/// Programs that are ended before they are done, for each case.
const ENDED: u32 = 5;
/// Programs that are started for that, at most.
const STARTS_MAX: u32 = 60;
/// Messages of a mailbox.
const MESSAGES: usize = 40;

/// Message number `number`, some of them long.
fn text(number: usize) -> String {
    let line = |line| format!("{line} of message {number}, and so on to the end of this line\n");
    let lines: String = (0..number % 7 * 90 + 1).map(line).collect();
    format!("Subject: number {number}\nMessage-ID: <{number}@x>\n\n{lines}")
}

/// The way in which a program is ended.
#[derive(Clone, Copy, Debug)]
enum End {
    Signal(Signal),
    /// A limit of the size of files, which is met in the middle of a write.
    Limit,
}

/// Ends programs at random.
struct Ender {
    rng: fastrand::Rng,
    /// The time that the program takes if it is left alone.
    whole: Duration,
    /// The limits of file sizes, in blocks of 512 bytes, among which one is chosen.
    blocks: std::ops::Range<u32>,
}

impl Ender {
    fn new(whole: Duration, blocks: std::ops::Range<u32>) -> Self {
        Self { rng: fastrand::Rng::with_seed(21), whole, blocks }
    }

    /// Starts a program and ends it; returns `true` if it was not done.
    fn end(&mut self, world: &World, args: &[&str], end: End) -> bool {
        match end {
            End::Signal(signal) => {
                let mut command = world.command();
                command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
                let mut child = Running::spawn(&mut command);
                std::thread::sleep(self.whole.mul_f32(self.rng.f32()));
                if child.try_wait().unwrap().is_none() {
                    send(&child, signal);
                }
                let was_ended = !child.wait().unwrap().success();
                if !was_ended {
                    // The first program may have been slower than the others.
                    self.whole = self.whole.mul_f32(0.9);
                }
                was_ended
            }
            End::Limit => {
                let program = world.command();
                let blocks = self.rng.u32(self.blocks.clone());
                let line = format!("ulimit -f {blocks}; exec \"$@\"");
                let mut command = Command::new("sh");
                command.args(["-c", &line, "sh"]).arg(program.get_program()).args(args);
                let run = command.current_dir(world.path("")).env("HOME", world.path("home"));
                Run::of(run.output().unwrap()).code != 0
            }
        }
    }
}

/// Sees to it that a mailbox has these messages and no others, each once.
fn check(world: &World, spec: &str, expected: &[String], what: &str) {
    let checked = world.run(&["check", spec]);
    assert_eq!(checked.code, 0, "{what}: {}{}", checked.text(), checked.stderr);
    world.ok(&["convert", spec, "maildir:checked", "--quiet"]);
    let mut counts: BTreeMap<String, i32> = BTreeMap::new();
    for folder in ["checked/new", "checked/cur"] {
        for name in world.list(folder) {
            let bytes = world.read(&format!("{folder}/{name}"));
            *counts.entry(String::from_utf8(bytes).unwrap()).or_default() += 1;
        }
    }
    expected.iter().for_each(|text| *counts.entry(text.clone()).or_default() -= 1);
    let wrong: Vec<(&str, i32)> = counts
        .iter()
        .filter(|(_, count)| **count != 0)
        .map(|(text, count)| (text.split_once("\n\n").map_or(&**text, |(head, _)| head), *count))
        .collect();
    assert!(wrong.is_empty(), "{what}: too often or, below zero, missing: {wrong:?}");
    world.remove("checked");
}

/// Ends a program until that came before its end often enough, each time in a new world; then
/// `check` gets the world.
#[expect(clippy::print_stdout, reason = "how often it was ended in time is worth a look")]
fn end_often(
    what: &str,
    ends: &[End],
    blocks: std::ops::Range<u32>,
    make: &dyn Fn() -> World,
    args: &[&str],
    check: &dyn Fn(&World, &str),
) {
    let world = make();
    let started = Instant::now();
    world.ok(args);
    let mut ender = Ender::new(started.elapsed(), blocks);
    for end in ends {
        let (mut ended, mut starts) = (0, 0);
        while ended < ENDED {
            starts += 1;
            assert!(starts < STARTS_MAX, "{what}, {end:?}: it is never in time");
            let world = make();
            let was_ended = ender.end(&world, args, *end);
            ended += u32::from(was_ended);
            check(&world, &format!("{what}, {end:?}, start {starts}"));
        }
        println!("{what}, {end:?}: {ended} of {starts} did not come to their end");
    }
}

const SIGNALS: [End; 2] = [End::Signal(Signal::KILL), End::Signal(Signal::HUP)];

/// Undoes an expunge of a mailbox of this format, and is ended meanwhile.
fn check_undo(format: &str) {
    let all: Vec<String> = (0..MESSAGES).map(text).collect();
    let spec = format!("{format}:box");
    let make = || {
        let world = World::new();
        world.write("source.mbox", mbox(&all).as_bytes());
        world.ok(&["convert", "mboxrd:source.mbox", &spec, "--quiet"]);
        world.ok(&["expunge", &spec, "2:35", "--quiet"]);
        world
    };
    end_often(
        &format!("undo of {format}"),
        &SIGNALS,
        1..2,
        &make,
        &["undo", &spec],
        &|world, what| {
            let again = world.run(&["undo", &spec]);
            // All was brought back before it was ended.
            let is_done = again.code == 1 && again.stderr.contains("no expunge is kept");
            assert!(again.code == 0 || is_done, "{what}: {} {}", again.code, again.stderr);
            check(world, &spec, &all, what);
        },
    );
}

#[test]
fn an_undo_of_an_mbox_that_was_ended_is_completed() {
    check_undo("mboxrd");
}

#[test]
fn an_undo_of_a_maildir_that_was_ended_is_completed() {
    check_undo("maildir");
}

#[test]
fn an_undo_of_an_mbx_that_was_ended_is_completed() {
    check_undo("mbx");
}

#[test]
fn an_undo_of_a_mix_that_was_ended_is_completed() {
    check_undo("mix");
}

#[test]
fn an_undo_of_an_mh_folder_that_was_ended_is_completed() {
    check_undo("mh");
}

/// All ways.
const ENDS: [End; 3] = [SIGNALS[0], SIGNALS[1], End::Limit];

#[test]
fn a_copy_to_an_mbox_that_was_ended_is_completed() {
    let old: Vec<String> = (100..102).map(text).collect();
    let new: Vec<String> = (0..MESSAGES).map(text).collect();
    let all = [old.clone(), new.clone()].concat();
    let make = || {
        let world = World::new();
        world.write("source.mbox", mbox(&new).as_bytes());
        world.write("box.mbox", mbox(&old).as_bytes());
        world
    };
    let args = ["copy", "mboxrd:source.mbox", "all", "mboxrd:box.mbox", "--dedupe", "content"];
    let len = u32::try_from(mbox(&all).len() / 512).unwrap();
    end_often("copy", &ENDS, len / 4..len, &make, &args, &|world, what| {
        let again = world.run(&args);
        assert!(again.code <= 1, "{what}: {}", again.stderr);
        check(world, "mboxrd:box.mbox", &all, what);
        check(world, "mboxrd:source.mbox", &new, what);
    });
}

/// Moves messages of a mailbox of one format to one of another, and is ended meanwhile.
fn check_move(from: &str, to: &str) {
    let old: Vec<String> = (100..102).map(text).collect();
    let new: Vec<String> = (0..MESSAGES).map(text).collect();
    let (kept, moved) = new.split_at(3);
    let [source, target] = [format!("{from}:source"), format!("{to}:target")];
    let make = || {
        let world = World::new();
        world.write("new.mbox", mbox(&new).as_bytes());
        world.write("old.mbox", mbox(&old).as_bytes());
        world.ok(&["convert", "mboxrd:new.mbox", &source, "--quiet"]);
        world.ok(&["convert", "mboxrd:old.mbox", &target, "--quiet"]);
        world
    };
    let args = ["move", &source, "4:*", &target];
    let all = [old.clone(), moved.to_vec()].concat();
    let len = u32::try_from(mbox(&all).len() / 512).unwrap();
    end_often("move", &ENDS, len / 4..len, &make, &args, &|world, what| {
        let again = world.run(&args);
        assert!(again.code <= 1, "{what}: {}", again.stderr);
        check(world, &target, &all, what);
        check(world, &source, kept, what);
    });
}

#[test]
fn a_move_from_an_mbox_to_an_mbox_that_was_ended_is_completed() {
    check_move("mboxrd", "mboxrd");
}

#[test]
fn a_move_from_a_maildir_to_an_mbx_that_was_ended_is_completed() {
    check_move("maildir", "mbx");
}

#[test]
fn a_conversion_to_an_mbox_that_was_ended_is_completed() {
    let all: Vec<String> = (0..MESSAGES).map(text).collect();
    let make = || {
        let world = World::new();
        let texts: Vec<&str> = all.iter().map(String::as_str).collect();
        world.maildir("source", &texts);
        world
    };
    let args = ["convert", "source", "mboxrd:box.mbox"];
    let len = u32::try_from(mbox(&all).len() / 512).unwrap();
    end_often("convert", &ENDS, len / 4..len, &make, &args, &|world, what| {
        let again = world.run(&args);
        let is_done = again.stderr.contains("already exists");
        assert!(again.code == 0 || is_done, "{what}: {}", again.stderr);
        check(world, "mboxrd:box.mbox", &all, what);
    });
}

#[test]
fn moving_spam_to_an_mbox_that_was_ended_is_completed() {
    let word = |word: &str, number: usize| {
        let text = text(number);
        text.replacen("\n\n", &format!("\nX-About: {word}\n\nsome {word}\n"), 1)
    };
    let spam: Vec<String> = (0..20).map(|number| word("pills", number)).collect();
    let ham: Vec<String> = (20..40).map(|number| word("minutes", number)).collect();
    let make = || {
        let world = taught();
        world.write("inbox", mbox(&[spam.clone(), ham.clone()].concat()).as_bytes());
        let teach = |class: &str, texts: &[String]| {
            let mail = world.write("mail", mbox(texts).as_bytes());
            world.ok(&["spam", "train", class, &mail, "--quiet"]);
        };
        let more = |about: &str| -> Vec<String> { (50..70).map(|at| word(about, at)).collect() };
        teach("--spam", &more("pills"));
        teach("--ham", &more("minutes"));
        world.write("caught", b"");
        world
    };
    let args = ["spam", "move", "mboxrd:inbox", "--to", "mboxrd:caught"];
    let len = u32::try_from(mbox(&spam).len() / 512).unwrap();
    end_often("spam move", &ENDS, len / 4..len, &make, &args, &|world, what| {
        let again = world.run(&args);
        assert!(again.code <= 1, "{what}: {}", again.stderr);
        check(world, "mboxrd:inbox", &ham, what);
        check(world, "mboxrd:caught", &spam, what);
    });
}

/// Appends a long message to a mailbox of this format, and is ended meanwhile.
fn check_append(format: &str) {
    let old: Vec<String> = (0..4).map(text).collect();
    let long = format!("Subject: long\n\n{}", text(6).repeat(400));
    let spec = format!("{format}:box");
    let make = || {
        let world = World::new();
        world.write("source.mbox", mbox(&old).as_bytes());
        world.write("long.eml", long.as_bytes());
        world.write("theirs.eml", text(99).as_bytes());
        world.ok(&["convert", "mboxrd:source.mbox", &spec, "--quiet"]);
        world
    };
    let len = u32::try_from(long.len() / 512).unwrap();
    let what = format!("append to {format}");
    end_often(&what, &ENDS, len / 4..len, &make, &["append", &spec, "long.eml"], &|world, what| {
        let listed = world.run(&["ls", &spec]);
        assert_eq!(listed.code, 0, "{what}: {}", listed.stderr);
        let has_long = listed.text().contains("long");
        // Whatever was left is out of the way of the next delivery.
        let next = world.run(&["append", &spec, "theirs.eml"]);
        assert_eq!(next.code, 0, "{what}: {}", next.stderr);
        let long = if has_long { vec![long.clone()] } else { Vec::new() };
        let all = [old.clone(), long, vec![text(99)]].concat();
        check(world, &spec, &all, what);
    });
}

#[test]
fn an_append_to_a_maildir_that_was_ended_leaves_nothing_or_all() {
    check_append("maildir");
}

#[test]
fn an_append_to_an_mbx_that_was_ended_leaves_nothing_or_all() {
    check_append("mbx");
}

#[test]
fn an_append_to_a_mix_that_was_ended_leaves_nothing_or_all() {
    check_append("mix");
}

#[test]
fn an_append_to_an_mh_folder_that_was_ended_leaves_nothing_or_all() {
    check_append("mh");
}
