//! The statically linked `bogofilter`, and its handover to `barid`.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use barid_testkit::peers::{Bogofilter, feed};
use barid_testkit::{Scratch, disk, skip_or_fail};

const SPAM: &[u8] = b"Subject: cheap watches\n\nbuy cheap watches now\n";
const HAM: &[u8] = b"Subject: meeting\n\nthe meeting is on monday\n";

/// A program that is open for writing cannot be executed, and processes started at the same time
/// inherit open files.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Returns the folder with the programs that `cargo xtask test` makes.
fn dist() -> Option<PathBuf> {
    let found = std::env::var_os("BARID_DIST").map(PathBuf::from);
    if found.is_none() {
        skip_or_fail("BARID_DIST names no folder that `cargo xtask dist` made");
    }
    found
}

fn run(program: &Path, args: &[&str], list: &Path, input: &[u8]) -> Output {
    let mut command = Command::new(program);
    feed(command.args(args).arg("-C").arg("-d").arg(list), input).unwrap()
}

#[test]
fn it_is_static_and_answers_as_the_large_program() {
    let Some(dist) = dist() else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new("dist").unwrap();
    let (filter, barid) = (dist.join("bogofilter"), dist.join("barid"));
    // A dynamically linked program contains the name of the dynamic linker.
    let has = |program: &Path| {
        let bytes = disk::read(program).unwrap();
        bytes.windows(8).take(1 << 16).any(|name| name == b"/ld-linu")
    };
    assert!(has(&barid) && !has(&filter));

    let lists = [scratch.path().join("one"), scratch.path().join("other")];
    for (args, input) in [("-s", SPAM), ("-n", HAM), ("-p", SPAM), ("-TT", HAM), ("-vvv", HAM)] {
        let [one, other] = &lists;
        let small = run(&filter, &[args], one, input);
        let large = run(&barid, &["bogofilter", args], other, input);
        assert_eq!(small, large, "{args}");
        assert!(small.status.code() < Some(3), "{args}: {small:?}");
    }
    let dumped = |program: PathBuf, list: &Path| {
        let output =
            Command::new(program).arg("-d").arg(list.join("wordlist.db")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };
    let [one, other] = lists.map(|list| dumped(dist.join("bogoutil"), &list));
    assert!(one == other && one.windows(5).any(|word| word == b"cheap"), "{one:?}");
    let mut lexer = Command::new(dist.join("bogolexer"));
    let words = feed(lexer.args(["-C", "-p"]), HAM).unwrap().stdout;
    assert!(words.starts_with(b"subj:meeting\n"), "{}", words.escape_ascii());
}

#[test]
fn a_list_of_another_database_is_handed_over_with_all_that_was_not_read() {
    let Some(dist) = dist() else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(peer) = Bogofilter::new() else { return };
    let scratch = Scratch::new("dist").unwrap();
    let list = scratch.path().join("list");
    disk::create_dir(&list).unwrap();
    assert!(peer.filter(&list, &["-s"], SPAM).unwrap().status.success());
    let filter = scratch.path().join("bogofilter");
    disk::copy(&dist.join("bogofilter"), &filter).unwrap();

    // No `barid` is beside the program, nor in the search path.
    let mut command = Command::new(&filter);
    let alone = command.env("PATH", "/nonexistent").args(["-C", "-d"]).arg(&list);
    let alone = feed(alone, HAM).unwrap();
    let said = String::from_utf8_lossy(&alone.stderr);
    assert_eq!(alone.status.code(), Some(3), "{said}");
    assert!(said.contains("wordlist.db") && said.contains("barid itself"), "{said}");

    let barid = scratch.path().join("barid");
    // A script copied over a program has its execute permission.
    disk::copy(&filter, &barid).unwrap();
    disk::write(&barid, b"#!/bin/sh\necho \"$@\"\ncat\nexit 2\n").unwrap();
    let handed = run(&filter, &["-p"], &list, HAM);
    let expected = format!("bogofilter -p -C -d {}\n", list.display());
    assert_eq!(handed.status.code(), Some(2), "{handed:?}");
    assert_eq!(handed.stdout, [expected.as_bytes(), HAM].concat());
}

/// Started in place of bogofilter, the small program uses bogofilter's list through the large one.
#[test]
fn a_list_of_another_database_is_used_in_its_place() {
    let Some(dist) = dist() else { return };
    let Some(peer) = Bogofilter::new() else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new("dist").unwrap();
    let filter = dist.join("bogofilter");
    assert!(peer.filter(scratch.path(), &["-s"], SPAM).unwrap().status.success());
    assert!(run(&filter, &["-n"], scratch.path(), HAM).status.success());
    assert!(peer.filter(scratch.path(), &["-n"], HAM).unwrap().status.success());
    for args in [&["-TT"][..], &["-p"], &["-vvv"]] {
        for message in [SPAM, HAM] {
            let ours = run(&filter, args, scratch.path(), message);
            let theirs = peer.filter(scratch.path(), args, message).unwrap();
            assert_eq!(ours, theirs, "{args:?}");
        }
    }
}

/// A daemon stops answering after the message was read: another program would have no message.
#[test]
fn what_was_read_is_not_handed_over() {
    let Some(dist) = dist() else { return };
    let Some(peer) = Bogofilter::new() else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new("dist").unwrap();
    let list = scratch.path().join("list");
    disk::create_dir(&list).unwrap();
    assert!(peer.filter(&list, &["-s"], SPAM).unwrap().status.success());
    let daemon = UnixListener::bind(list.join("wordlist.db.socket")).unwrap();
    let gone = std::thread::spawn(move || drop(daemon.accept().unwrap()));
    let filtered = run(&dist.join("bogofilter"), &["-p"], &list, HAM);
    gone.join().unwrap();
    let said = String::from_utf8_lossy(&filtered.stderr);
    assert_eq!((filtered.status.code(), &filtered.stdout[..]), (Some(3), &b""[..]), "{said}");
    assert!(said.contains("wordlist.db"), "{said}");
}

#[test]
fn the_bench_takes_the_small_program() {
    let Some(dist) = dist() else { return };
    if Bogofilter::new().is_none() {
        return;
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new("dist").unwrap();
    let out = scratch.path().join("out");
    let mut command = Command::new(dist.join("barid-bench"));
    command.args("spam --spam 3 --ham 4 --singles 2 --tokens 5000 -t 1".split(' '));
    let ran = command.args(["-w", "register each", "--output"]).arg(&out).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let summary = disk::read_text(&out.join("summary.md")).unwrap();
    assert!(summary.contains("bogofilter beside barid, statically linked"), "{summary}");
    assert!(
        summary.contains("\nbogofilter -C -d DIR/drop-in/own -M -s < DIR/spam.mbox"),
        "{summary}"
    );
}
