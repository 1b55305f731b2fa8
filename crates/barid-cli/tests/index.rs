//! `barid index`, from outside.

use std::time::{Duration, Instant};

use barid_testkit::disk;

use crate::serve_qresync::number;
use crate::support::World;

const ANN: &str = "From: Ann Lee <ann@x.example>\nSubject: release plan\n\nThe budget.\n";
const BOB: &str = "From: bob@y.example\nSubject: Re: release plan\n\nNo budgeting.\n";

#[test]
fn an_index_is_built_shown_and_removed() {
    let world = World::new();
    let mailbox = world.maildir("box", &[ANN, BOB]);
    let status = |expected: u64| {
        let status = &world.json(&["index", "status", &mailbox])[0];
        assert_eq!((&status["covered"], &status["messages"]), (&expected.into(), &2.into()));
        status["bytes"].as_u64().unwrap()
    };
    assert_eq!(status(0), 0);
    let built = &world.json(&["index", &mailbox])[0];
    assert_eq!((&built["type"], &built["added"]), (&"index".into(), &2.into()));
    let bytes = status(2);
    assert!(bytes > 300);
    for options in [&[][..], &["--no-index"]] {
        let found = |query: &str| world.ok(&[&["search"], options, &[&mailbox, query]].concat());
        assert_eq!(found("budget"), "1:2\n");
        assert_eq!(found("body:udgetin"), "2\n");
        assert_eq!(found("-body:budgeting from:lee"), "1\n");
    }
    let text = world.ok(&["index", &mailbox]);
    assert!(text.contains("indexed   2 of 2 messages") && text.contains("added     0"), "{text}");
    let removed = &world.json(&["index", "remove", &mailbox])[0];
    assert!(removed["bytes"].as_u64().unwrap() > bytes);
    assert_eq!(status(0), 0);
}

#[test]
fn an_index_needs_a_cache_and_a_mailbox() {
    let world = World::new();
    let mailbox = world.maildir("box", &[ANN]);
    let run = world.run(&["index", "--no-cache", &mailbox]);
    assert!(run.code == 2 && run.stderr.contains("needs a cache on disk"), "{}", run.stderr);
    let run = world.run(&["index", "/nowhere"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    let run = world.run(&["index"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    let empty = world.maildir("empty", &[]);
    assert!(world.ok(&["index", &empty]).contains("0 of 0 messages"));
    world.ok(&["index", "--read-only", &mailbox]);
}

#[test]
fn the_first_search_of_many_messages_has_the_index_built() {
    let world = World::new();
    let path = world.path("many.mbox");
    let mut mbox = String::new();
    for number in 0..2_500 {
        mbox.push_str(&format!(
            "From a@b Thu Jan  1 00:00:00 2015\nSubject: n{number}\n\nx{number}y\n\n"
        ));
    }
    disk::write(path.as_ref(), mbox.as_bytes()).unwrap();
    let path = path.to_str().unwrap();
    assert_eq!(world.ok(&["search", "--no-index", path, "body:x2499y"]), "2500\n");
    let covered = || world.json(&["index", "status", path])[0]["covered"].as_u64().unwrap();
    assert_eq!(covered(), 0);
    assert_eq!(world.ok(&["search", path, "body:x2499y"]), "2500\n");
    let started = Instant::now();
    while covered() < 2_500 {
        assert!(started.elapsed() < Duration::from_secs(60), "it is not built");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(world.ok(&["search", path, "body:x2499y"]), "2500\n");
}

/// A builder that is killed leaves nothing that changes an answer, and the next goes on.
#[test]
fn a_killed_builder_changes_no_answer() {
    let world = World::new();
    let mut mbox = String::new();
    for number in 0..3_000 {
        mbox.push_str(&format!(
            "From a@b Thu Jan  1 00:00:00 2015\nSubject: n{}\n\nx{number}y {:x} {}\n\n",
            number % 97,
            number * 7_919,
            "word ".repeat(number % 50),
        ));
    }
    let path = world.write("many.mbox", mbox.as_bytes());
    let queries =
        ["body:7y", "subject:n5", "body:\"word word\" -subject:n4", "\"3y a\"", "n96 or 11"];
    let truth: Vec<String> = queries
        .iter()
        .map(|query| world.run(&["search", "--no-index", &path, query]).text())
        .collect();
    let kills = number("BARID_INDEX_KILLS", 10);
    let (mut killed, mut random) = (0, fastrand::Rng::with_seed(kills));
    while killed < kills {
        world.run(&["index", "remove", &path]);
        let mut child = world.start(&["index", &path]);
        std::thread::sleep(Duration::from_micros(random.u64(0..400_000)));
        child.kill().unwrap();
        let status = child.wait_with_output().unwrap().status;
        killed += u64::from(!status.success());
        for (query, expected) in queries.iter().zip(&truth) {
            assert_eq!(world.run(&["search", &path, query]).text(), *expected, "{query}");
        }
        if killed % 5 == 0 {
            world.ok(&["index", &path]);
            let status = &world.json(&["index", "status", &path])[0];
            assert_eq!(status["covered"], 3_000);
            for (query, expected) in queries.iter().zip(&truth) {
                assert_eq!(world.run(&["search", &path, query]).text(), *expected, "{query}");
            }
        }
    }
}
