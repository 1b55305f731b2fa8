//! Mail that tries to overload the spam filter: it is classified, or refused by its size, in
//! bounded memory.

use std::process::Stdio;
use std::time::Duration;

use barid::WHOLE_LEN_MAX;
use barid_testkit::disk;
use barid_testkit::usage::{Sampling, measure};

use crate::support::World;

const MB: usize = 1 << 20;

/// Memory limit of a run besides the message: buffers, and data about its words.
const BESIDE_MAX: u64 = 48 * MB as u64;

/// Copies of a message in memory: the original, and the filter's view of it.
const COPIES_MAX: u64 = 2;

/// Interval between memory samples.
const INTERVAL: Duration = Duration::from_millis(2);

/// Deadline of a run; it ends hangs, also on a machine with much other work.
const DEADLINE: Duration = Duration::from_secs(900);

const HEAD: &str = "From: a@b.example\nSubject: much\nMIME-Version: 1.0\n";

/// Makes a world whose filter knows a message of each kind.
fn trained() -> World {
    let world = World::new();
    world.create_dir("list");
    for (class, text) in [("--spam", "Subject: pills\n\npills\n"), ("--ham", "Subject: a\n\nb\n")] {
        let args = ["spam", "train", class, "--wordlist", "list/wordlist.db"];
        assert_eq!(world.run_with_input(&args, text.as_bytes()).code, 0);
    }
    world
}

/// Classifies a message in three ways, and measures the memory. bogofilter takes messages of any
/// size; `barid spam` refuses those that are not read as a whole.
fn check(text: &[u8]) {
    let world = trained();
    let message = world.write("message", text);
    let own = ["spam", "classify", "--wordlist", "list/wordlist.db"];
    let modern = [&own[..], &["--profile", "modern"]].concat();
    for args in [&["bogofilter", "-C", "-d", "list", "-T"][..], &own, &modern] {
        let mut command = world.command();
        let input = disk::open(message.as_ref()).unwrap();
        command.args(args).stdin(Stdio::from(input));
        command.stdout(disk::create(&world.path("out")).unwrap());
        command.stderr(disk::create(&world.path("err")).unwrap());
        let usage = measure(&mut command, DEADLINE, Sampling::Every(INTERVAL)).unwrap();
        if args[0] == "spam" && text.len() as u64 > WHOLE_LEN_MAX {
            let said = String::from_utf8(world.read("err")).unwrap();
            assert!(said.contains("too large"), "{args:?}: {said}");
            assert_eq!((usage.status.code(), world.read("out").len()), (Some(2), 0), "{args:?}");
            assert!(usage.anon_peak.unwrap_or(0) < BESIDE_MAX, "{args:?}: {:?}", usage.anon_peak);
            continue;
        }
        // The exit codes of bogofilter: 0 spam, 1 ham, 2 unsure.
        assert!(usage.status.code().is_some_and(|code| code <= 2), "{args:?}: {:?}", usage.status);
        let most = COPIES_MAX * text.len() as u64 + BESIDE_MAX;
        // A run shorter than the interval has no sample.
        let peak = usage.anon_peak.unwrap_or(0);
        assert!(peak < most, "{args:?}: {peak} bytes of {most}");
        assert_eq!(world.read("out").split(|byte| *byte == b'\n').count(), 2, "{args:?}: a line");
    }
}

#[test]
fn a_token_of_100_mb() {
    let mut text = format!("{HEAD}\n").into_bytes();
    text.resize(text.len() + 100 * MB, b'a');
    check(&text);
}

#[test]
fn a_token_20_million_times() {
    check(&[format!("{HEAD}\n").into_bytes(), b"word ".repeat(20 * MB)].concat());
}

#[test]
fn ten_thousand_parts() {
    let part = "--q\nContent-Type: text/html\n\n<p>part\n";
    let kind = "Content-Type: multipart/mixed; boundary=q\n\n";
    check(format!("{HEAD}{kind}{}--q--\n", part.repeat(10_000)).as_bytes());
}

#[test]
fn parts_a_thousand_deep() {
    let mut multipart = HEAD.to_owned();
    let mut nested = HEAD.to_owned();
    for depth in 0..1_000 {
        multipart += &format!("Content-Type: multipart/mixed; boundary=b{depth}\n\n--b{depth}\n");
        nested += &format!("Content-Type: message/rfc822\n\nSubject: n{depth}\n");
    }
    check(format!("{multipart}\n\ndeep\n").as_bytes());
    check(format!("{nested}\ndeep\n").as_bytes());
}

#[test]
fn tags_and_comments_without_end() {
    let head = format!("{HEAD}Content-Type: text/html\n\n").into_bytes();
    for piece in [&b"<a href=\""[..], b"<!-- ", b"<", b"&amp;&#12", b"a<b>", b"</"] {
        check(&[head.clone(), piece.repeat(8 * MB / piece.len())].concat());
    }
}

#[test]
fn base64_of_a_bomb_and_of_one_token() {
    // Zeros compressed a thousandfold, twice, begin much like this; nothing unpacks them.
    let bomb =
        "eNrswYEAAAAAgKD9qReqAgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n".repeat(100_000);
    let zip = "Content-Type: application/zip\nContent-Transfer-Encoding: base64\n\n";
    check(format!("{HEAD}{zip}{bomb}").as_bytes());
    let text = "Content-Type: text/plain\nContent-Transfer-Encoding: base64\n\n";
    let line = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB\n";
    check(format!("{HEAD}{text}{}", line.repeat(300_000)).as_bytes());
}

/// The words of a message may be much longer than the message; they are written as they are found.
#[test]
fn words_that_are_printed_are_not_kept() {
    let world = World::new();
    let text = [format!("{HEAD}\n").into_bytes(), b"word ".repeat(MB)].concat();
    let message = world.write("message", &text);
    let mut command = world.command();
    command.args(["bogolexer", "-C", "-p", "--multi-token-count=5", "-I", &message]);
    command.stdout(disk::create(&world.path("out")).unwrap());
    let usage = measure(&mut command, DEADLINE, Sampling::Every(INTERVAL)).unwrap();
    assert!(usage.status.success());
    let (peak, printed) = (usage.anon_peak.unwrap(), world.read("out").len() as u64);
    let most = COPIES_MAX * text.len() as u64 + BESIDE_MAX;
    assert!(printed > most && peak < most / 2, "{peak} bytes of {most} for {printed}");
}
