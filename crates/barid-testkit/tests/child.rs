//! Children of tests: their lines and their ends.

use std::time::{Duration, Instant};

use barid_testkit::child::{self, Child, ChildEvent, Job, print_line};

const SILENCE: Duration = Duration::from_secs(60);

const JOBS: &[(&str, Job)] = &[
    ("echo", |args| args.iter().for_each(|word| print_line(word))),
    ("fail", |_| panic!("as it was asked to")),
    ("stay", |_| {
        print_line("here");
        std::thread::sleep(SILENCE);
    }),
];

#[test]
fn entry() {
    child::run(JOBS);
}

#[test]
fn a_child_says_lines_and_ends() {
    assert_eq!(Child::spawn("echo", &["a", "", "b c"]).finish(SILENCE), ["a", "", "b c"]);
    let mut child = Child::spawn_by(&["env"], "echo", &["x"]);
    child.says("x", SILENCE);
    assert!(matches!(child.next(SILENCE), ChildEvent::Ended(status) if status.success()));
}

#[test]
fn a_child_that_hangs_is_killed() {
    let mut child = Child::spawn("stay", &[]);
    child.says("here", SILENCE);
    assert!(matches!(child.next(Duration::from_millis(1)), ChildEvent::Hangs));
    let child = Child::spawn("stay", &[]);
    let begun = Instant::now();
    drop(child);
    assert!(begun.elapsed() < SILENCE);
}

#[test]
#[should_panic(expected = "a child")]
fn a_child_that_fails_fails_its_parent() {
    drop(Child::spawn("fail", &[]).finish(SILENCE));
}

#[test]
#[should_panic(expected = "a child")]
fn a_child_that_has_failed_fails_who_kills_it() {
    let mut child = Child::spawn("fail", &[]);
    assert!(matches!(child.next(SILENCE), ChildEvent::Ended(_)));
    drop(child.kill());
}
