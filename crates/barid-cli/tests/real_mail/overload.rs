//! Oversized, overlong, and non-mail input: correct answers in bounded memory.

use std::process::Command;
use std::time::Duration;

use barid_testkit::disk;
use barid_testkit::peers::PeerUser;
use barid_testkit::usage::{Sampling, Usage, measure};

use serde_json::Value;

use super::run;
use crate::support::{World, parse_lines};

const MB: u64 = 1 << 20;

/// Memory limit for reading, for any length of a line or message.
const STREAMED_MAX: u64 = 64 * MB;

const FROM: &str = "From a@b.example Tue Mar  5 12:22:10 2024\n";

/// Measures a run that must succeed; prints its peak memory and returns it.
#[expect(clippy::print_stdout, reason = "figures of a test")]
fn memory(world: &World, title: &str, args: &[&str]) -> u64 {
    let mut command = world.command();
    command.env("TZ", "UTC").args(args).stdout(disk::create(&world.path("out")).unwrap());
    let sampling = Sampling::Every(Duration::from_millis(2));
    let usage: Usage = measure(&mut command, Duration::from_secs(100), sampling).unwrap();
    assert!(usage.status.success(), "{title} {args:?}: {:?}", usage.status);
    let peak = usage.anon_peak.expect("because the run takes longer than an interval");
    println!("{title}, {}: {:.1} MB, {:?}", args[0], peak as f64 / MB as f64, usage.wall);
    peak
}

/// Lists and threads a mailbox of one long message with the subject `subject`.
fn check_streamed(world: &World, title: &str, path: &str, subject: &str) {
    assert!(memory(world, title, &["ls", "--json", path]) < STREAMED_MAX, "{title}");
    let lines = parse_lines(&String::from_utf8(world.read("out")).unwrap());
    assert_eq!(lines.len(), 1, "{title}");
    assert_eq!(lines[0]["subject"], subject, "{title}");
    assert!(memory(world, title, &["thread", "--full-check", path]) < STREAMED_MAX, "{title}");
}

/// Appends `byte` `count` times.
fn extend(path: &str, byte: u8, count: u64) {
    let block = vec![byte; MB as usize];
    for _ in 0..count / MB {
        disk::append(path.as_ref(), &block).unwrap();
    }
}

#[test]
fn a_line_of_200_mb() {
    let world = World::new();
    let path = world.write("box.mbox", format!("{FROM}Subject: long\n\n").as_bytes());
    extend(&path, b'a', 200 * MB);
    check_streamed(&world, "a line of 200 MB", &path, "long");
}

#[test]
fn a_line_of_1_gb_of_nuls() {
    let world = World::new();
    let head = format!("{FROM}Subject: nuls\n\nx");
    let path = world.write("box.mbox", head.as_bytes());
    disk::set_len(path.as_ref(), 1024 * MB).unwrap();
    disk::append(path.as_ref(), b"\n").unwrap();
    check_streamed(&world, "a line of 1 GB", &path, "nuls");
}

#[test]
fn a_header_of_100_mb() {
    let world = World::new();
    let path = world.write("one.mbox", format!("{FROM}Subject: wide\nX-Long: ").as_bytes());
    extend(&path, b'b', 100 * MB);
    disk::append(path.as_ref(), b"\n\nbody\n").unwrap();
    check_streamed(&world, "a field of 100 MB", &path, "wide");
    let path = world.write("many.mbox", format!("{FROM}Subject: high\n").as_bytes());
    let lines = "X-Field: some text that says nothing\n".repeat(MB as usize / 37);
    for _ in 0..100 {
        disk::append(path.as_ref(), lines.as_bytes()).unwrap();
    }
    disk::append(path.as_ref(), b"\nbody\n").unwrap();
    check_streamed(&world, "a header of 100 MB", &path, "high");
    let maildir = world.maildir("box", &[]);
    let file = world.path("box/cur/1600000000.M0.host:2,S");
    disk::copy(&world.path("many.mbox"), &file).unwrap();
    assert!(memory(&world, "a header of 100 MB in a Maildir", &["ls", &maildir]) < STREAMED_MAX);
}

#[test]
fn a_subject_of_20_mb() {
    let world = World::new();
    let path = world.write("box.mbox", format!("{FROM}Subject: ").as_bytes());
    extend(&path, b'c', 20 * MB);
    disk::append(path.as_ref(), b"\n\nbody\n").unwrap();
    assert!(memory(&world, "a subject of 20 MB", &["ls", &path]) < STREAMED_MAX);
}

#[test]
fn a_million_empty_messages() {
    const COUNT: usize = 1_000_000;
    let world = World::new();
    let path = world.write("box.mbox", format!("{FROM}\n").repeat(COUNT).as_bytes());
    let first = memory(&world, "a million empty messages", &["status", "--json", &path]);
    let text = String::from_utf8(world.read("out")).unwrap();
    assert!(text.contains(&format!("\"messages\":{COUNT},")), "{text}");
    memory(&world, "a million empty messages", &["thread", "-n", "50", &path]);
    let again = memory(&world, "again", &["ls", "--limit", "50", &path]);
    assert_eq!(parse_count(&world), 50);
    assert!(first < 512 * MB && again < STREAMED_MAX, "{first} {again}");
}

fn parse_count(world: &World) -> usize {
    String::from_utf8(world.read("out")).unwrap().lines().count()
}

#[test]
fn uids_that_descend() {
    const COUNT: usize = 100_000;
    let world = World::new();
    let message = |n| format!("{FROM}Subject: {n}\nX-UID: {}\n\nx\n\n", COUNT - n);
    let text: String = (0..COUNT).map(message).collect();
    let path = world.write("box.mbox", text.as_bytes());
    let peak = memory(&world, "UIDs that descend", &["ls", "--json", &path]);
    let first = world.read("out");
    let lines = parse_lines(std::str::from_utf8(&first).unwrap());
    assert_eq!(lines.len(), COUNT);
    let uids: Vec<u64> = lines.iter().map(|line| line["uid"].as_u64().unwrap()).collect();
    assert!(uids.is_sorted_by(|one, two| one < two));
    let is_subject = |(n, line): (usize, &Value)| line["subject"].as_str() == Some(&n.to_string());
    assert!(lines.iter().enumerate().all(is_subject));
    world.remove("home/.cache");
    memory(&world, "UIDs that descend, without the cache", &["ls", "--json", &path]);
    assert!(world.read("out") == first, "the same UIDs without the cache");
    assert!(peak < 128 * MB, "{peak}");
}

#[test]
fn what_is_no_file() {
    let world = World::new();
    let fifo = world.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for path in [fifo.to_str().unwrap(), "/dev/null", "/dev/zero"] {
        for format in ["", "mbox:", "maildir:"] {
            for command in ["status", "ls", "thread"] {
                let spec = format!("{format}{path}");
                let run = run(&world, &[command, &spec]);
                assert_eq!((run.code, run.stdout.len()), (2, 0), "{command} {spec}");
                let told = run.stderr.starts_with("error: ") && run.stderr.contains(path);
                assert!(told && run.stderr.contains("\nhint: "), "{}", run.stderr);
            }
        }
    }
}

#[test]
fn nuls_in_mail() {
    let world = World::new();
    let mail =
        format!("{FROM}Subject: a\0b\nFrom: \0\nX\0Y: z\n\nbo\0dy\n\n{FROM}Subject: c\n\n\n");
    let path = world.write("box.mbox", mail.as_bytes());
    let lines = world.json(&["ls", &path]);
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["subject"], "a\0b");
    let shown = world.run(&["show", "--raw", &path, "1"]).stdout;
    assert!(shown.ends_with(b"bo\0dy\n"), "{}", shown.escape_ascii());
    assert!(!world.ok(&["show", &path, "1"]).contains('\0'));
    assert!(!world.ok(&["ls", &path]).contains('\0'));
}

#[test]
fn cut_at_every_byte() {
    let world = World::new();
    let whole = format!(
        "{FROM}Subject: one\nX-UID: 5\nContent-Length: 2\n\nx\n\n{FROM}Subject: two\n folded\n\ny\n\n"
    );
    for len in 0..=whole.len() {
        let path = world.write("box.mbox", &whole.as_bytes()[..len]);
        let run = run(&world, &["ls", "--json", "--no-cache", &path]);
        if (1..5).contains(&len) {
            assert_eq!(run.code, 2, "{len}: {}", run.stderr);
            continue;
        }
        assert!(run.code == 0 || len < FROM.len(), "{len}: {} {}", run.code, run.stderr);
        assert!(parse_lines(&run.text()).len() <= 2, "{len}");
    }
}

#[test]
fn a_content_length_that_lies() {
    let world = World::new();
    let mail = |length| format!("{FROM}Content-Length: {length}\nSubject: x\n\nbody\n\n");
    let path = world.write("box.mbox", [mail(5), mail(500), mail(3)].concat().as_bytes());
    let quiet = run(&world, &["ls", "--no-cache", &path]);
    assert_eq!((quiet.code, &*quiet.stderr), (0, ""));
    let told = run(&world, &["ls", "--no-cache", "-v", &path]);
    assert_eq!((told.code, told.text().lines().count()), (0, 3));
    for offset in [mail(5).len(), mail(5).len() + mail(500).len()] {
        let place =
            format!("box.mbox: at offset {offset}: Content-Length does not lead to a From_ line");
        assert!(told.stderr.contains(&place), "{}", told.stderr);
    }
}

/// Runs as another user, since root may read everything.
#[test]
fn what_may_not_be_read() {
    let world = World::new();
    let file = world.write("box.mbox", format!("{FROM}Subject: x\n\n\n").as_bytes());
    let maildir = world.maildir("box", &["Subject: one\n\n", "Subject: two\n\n"]);
    world.set_mode("box.mbox", 0);
    world.create_dir("home");
    let user = PeerUser::get().unwrap();
    user.take(&world.path("home")).unwrap();
    let program = world.path("program");
    // `cp` makes the copy: a child started concurrently by another test would inherit this
    // process's open file, and a file open for writing cannot be executed.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_barid")).arg(&program).status();
    assert!(copied.unwrap().success());
    let check = |args: &[&str], path: &str, code: i32, told: &str| {
        let mut command = Command::new(&program);
        user.run_as(command.env_clear().args(args), &world.path("home"));
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
        assert!(stderr.contains(path) && stderr.contains(told), "{args:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    };
    for command in ["status", "ls", "thread"] {
        assert_eq!(check(&[command, &file], &file, 2, "Permission denied"), "");
    }
    // One of two messages is unreadable: both are listed, and every opening reports it.
    world.set_mode("box/cur/1600000000.M0.host:2,S", 0);
    for args in [&["ls", "--json"][..], &["ls", "--json"], &["ls", "--json", "--full-check"]] {
        let args = [args, &[&*maildir]].concat();
        let listed = check(&args, "box: UID 1: cannot be read: ", 2, "Permission denied");
        assert_eq!(parse_lines(&listed).len(), 2);
        assert!(listed.contains("\"subject\":\"two\""), "{listed}");
        assert!(!listed.contains("\"subject\":\"one\""), "{listed}");
    }
    check(&["status", &maildir], "box: UID 1: cannot be read: ", 2, "Permission denied");
    let shown = check(&["show", &maildir, "1:2"], "1600000000.M0", 2, "Permission denied");
    assert!(shown.contains("two"), "{shown}");
    // The message is read as soon as possible, with the same UID.
    world.set_mode("box/cur/1600000000.M0.host:2,S", 0o644);
    let listed = check(&["ls", "--json", &maildir], "", 0, "");
    let line = &parse_lines(&listed)[0];
    assert_eq!((&line["uid"], &line["subject"]), (&1.into(), &"one".into()), "{listed}");
    world.set_mode("box/cur/1600000000.M0.host:2,S", 0);
    world.set_mode("box/cur", 0);
    assert_eq!(check(&["ls", &maildir], &maildir, 2, "Permission denied"), "");
    world.set_mode("box/cur", 0o755);
}
