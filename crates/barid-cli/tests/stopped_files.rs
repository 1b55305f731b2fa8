//! Changes of mailboxes with one file per message that are told to end.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Run, Running, World, send_when_caught};

/// Messages of a mailbox.
const MESSAGES: usize = 3_000;
/// Number of attempts, as a program may finish before it is told to end.
const TRIES: u64 = 40;
/// Time limit; a loaded machine takes longer than the second that a person waits.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Starts a command and tells it to end after `delay`, once it catches the signal; returns its
/// output and how long its end took.
fn stop(world: &World, args: &[&str], delay: Duration) -> (Run, Duration) {
    let mut child = world.start(args);
    std::thread::sleep(delay);
    send_when_caught(&mut child, Signal::INT);
    let told = Instant::now();
    let run = Run::of(child.wait_with_output().unwrap());
    (run, told.elapsed())
}

fn messages(world: &World, path: &str) -> u64 {
    let run = world.run(&["status", "--json", path]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    crate::support::parse_lines(&run.text())[0]["messages"].as_u64().unwrap()
}

#[test]
fn nobody_waits_for_the_lock_of_a_maildir() {
    let world = World::new();
    let path = world.maildir("box", &["Subject: a\n\n"]);
    world.ok(&["status", &path]);
    let message = world.write("message", b"Subject: b\n\n");
    let holder = format!("{}:elsewhere.example", std::process::id());
    world.write("box/dovecot-uidlist.lock", holder.as_bytes());
    let delay = Duration::from_millis(700);
    let (run, took) = stop(&world, &["append", &path, &message], delay);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("stopped after 0 of 1 messages"), "{}", run.stderr);
    assert!(run.stderr.contains("hint: "), "{}", run.stderr);
    assert!(took < ANSWER_MAX, "{took:?}");
    world.remove("box/dovecot-uidlist.lock");
    assert_eq!(messages(&world, &path), 1);
}

#[test]
fn an_expunge_that_is_told_to_end_goes_on_later() {
    let world = World::new();
    let texts: Vec<String> = (0..MESSAGES).map(|n| format!("Subject: {n}\n\nbody\n")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let path = world.maildir("box", &texts);
    world.ok(&["status", &path]);
    let mut stopped = 0;
    for round in 0..TRIES {
        let delay = Duration::from_millis(5 + round * 7 % 100);
        let (run, took) = stop(&world, &["expunge", &path, "1:*"], delay);
        let left = messages(&world, &path);
        if run.code == 2 {
            stopped += 1;
            assert!(run.stderr.contains("stopped after "), "{}", run.stderr);
            assert!(took < ANSWER_MAX, "{took:?}");
        }
        if left < MESSAGES as u64 {
            let undone = world.run(&["undo", &path]);
            assert_eq!(undone.code, 0, "{}", undone.stderr);
            assert_eq!(messages(&world, &path), MESSAGES as u64);
        }
        if stopped == 3 {
            return;
        }
    }
    println!("stopped {stopped} of {TRIES}");
    assert!(stopped > 0, "none of {TRIES} was stopped in time");
}

#[test]
fn input_that_does_not_come_is_not_waited_for() {
    use std::process::Stdio;
    let world = World::new();
    let path = world.maildir("box", &[]);
    world.ok(&["status", &path]);
    let mut command = world.command();
    command.args(["append", &path]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Running::spawn(&mut command);
    std::thread::sleep(Duration::from_millis(700));
    assert!(send_when_caught(&mut child, Signal::INT), "it ended without its input");
    let told = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(told.elapsed() < ANSWER_MAX, "it waits for its input");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(child.stdin.take());
    assert_eq!(messages(&world, &path), 0);
}
