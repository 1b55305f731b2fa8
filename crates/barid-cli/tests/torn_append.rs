//! An append to an mbox that is interrupted in mid-write, and a delivery by another program before
//! the next command.

use std::process::{Command, Stdio};
use std::time::Duration;

use barid_testkit::peers::CClient;
use barid_testkit::skip_or_fail;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Run, World, mbox, send};

const OLD: &str = "Subject: old\nStatus: RO\n\nold body\n";
const THEIRS: &[u8] = b"From: b@c.example\nSubject: theirs\n\ntheir body\n";
const JOURNAL: &str = ".box.mbox.barid-journal";

/// Number of killed programs.
const KILLS: u64 = 16;

/// Lines of a message that takes a while to write.
const LINES: usize = 400_000;

/// Returns a long message with distinct lines.
fn long(lines: usize) -> String {
    let lines = (0..lines).map(|line| format!("line {line} of the body From here on\n"));
    format!("Subject: long\n\n{}", lines.collect::<String>())
}

/// Delivers a message with procmail, which adds a From_ line; returns `false` if procmail is
/// missing.
fn deliver(world: &World) -> bool {
    let rc = format!("VERBOSE=no\n:0\n{}\n", world.path("box.mbox").display());
    let rc = world.write("procmailrc", rc.as_bytes());
    let mut command = Command::new("procmail");
    command.args(["-f", "b@c.example", &*rc]).current_dir(world.path("")).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else { return false };
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), THEIRS).unwrap();
    let run = Run::of(child.wait_with_output().unwrap());
    assert_eq!(run.code, 0, "{}", run.stderr);
    true
}

/// Returns UIDs and subjects of all messages, as the next command lists them.
fn messages(world: &World) -> Vec<(String, String)> {
    let run = world.run(&["ls", "--json", "box.mbox"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let lines = crate::support::parse_lines(&run.text());
    let subject = |line: &Value| line["subject"].as_str().unwrap_or_default().to_owned();
    lines.iter().map(|line| (line["uid"].to_string(), subject(line))).collect()
}

fn subjects(messages: &[(String, String)]) -> Vec<&str> {
    messages.iter().map(|(_, subject)| &**subject).collect()
}

#[test]
fn beyond_a_limit_of_file_sizes_nothing_is_appended() {
    let world = World::new();
    for lines in [2_000, 20_000] {
        world.write("box.mbox", mbox(&[OLD]).as_bytes());
        world.write("long.eml", long(lines).as_bytes());
        let before = world.read("box.mbox");
        let limit = if lines == 2_000 { 80 } else { 700 };
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -f {limit}; exec \"$0\" append box.mbox long.eml")]);
        command.arg(env!("CARGO_BIN_EXE_barid")).current_dir(world.path(""));
        command.env("HOME", world.path("home"));
        let run = Run::of(command.output().unwrap());
        assert_eq!(run.code, 2, "{}", run.stderr);
        assert!(run.stderr.contains("error:"), "{}", run.stderr);
        assert!(world.read("box.mbox") == before, "{lines} lines");
        assert!(!world.has(JOURNAL));
        if !deliver(&world) {
            return skip_or_fail("procmail (Debian package procmail)");
        }
        assert_eq!(subjects(&messages(&world)), ["old", "theirs"]);
        world.remove("box.mbox");
    }
}

#[test]
fn what_a_killed_append_leaves_is_no_message() {
    let world = World::new();
    let long = long(LINES);
    world.write("long.eml", long.as_bytes());
    let (mut torn, mut begun) = (0, 0);
    for number in 0..KILLS {
        world.write("box.mbox", mbox(&[OLD]).as_bytes());
        let mut child = world.start(&["append", "box.mbox", "long.eml"]);
        // The first half get the signal shortly after the journal exists, the others once the
        // mailbox has grown.
        let old = mbox(&[OLD]).len() as u64;
        let grows = || barid_testkit::disk::size(&world.path("box.mbox")).unwrap() > old;
        let is_awaited = || if number < KILLS / 2 { world.has(JOURNAL) } else { grows() };
        while !is_awaited() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(100));
        }
        if number < KILLS / 2 {
            std::thread::sleep(Duration::from_millis(number));
        }
        let signal = [Signal::KILL, Signal::HUP][number as usize % 2];
        if child.try_wait().unwrap().is_none() {
            send(&child, signal);
        }
        child.wait().unwrap();
        let size = world.read("box.mbox").len();
        begun += usize::from(world.has(JOURNAL));
        torn += usize::from(size > 200 && size < long.len());
        if size < long.len() && signal == Signal::KILL {
            let check = world.run(&["check", "box.mbox"]);
            assert_eq!(check.code == 0, !world.has(JOURNAL), "{}", check.text());
        }
        if number % 4 < 3 && !deliver(&world) {
            return skip_or_fail("procmail (Debian package procmail)");
        }
        let theirs: &[&str] = if number % 4 < 3 { &["theirs"] } else { &[] };
        let all = messages(&world);
        let found = subjects(&all);
        let whole = [&["old", "long"], theirs].concat();
        assert!(found == [&["old"], theirs].concat() || found == whole, "{number}: {found:?}");
        for (uid, subject) in &all {
            let run = world.run(&["show", "--raw", "box.mbox", uid]);
            let end: &[u8] = match &**subject {
                "old" => b"\n\nold body\n",
                "theirs" => b"\n\ntheir body\n",
                _ => &long.as_bytes()[long.len() - 80..],
            };
            assert!(run.stdout.ends_with(end), "{number}: {subject}");
        }
        assert!(!world.has(JOURNAL));
        world.remove("box.mbox");
    }
    println!("{KILLS} kills, {begun} with a journal, {torn} in mid-write");
    assert!(begun > 0, "no append was interrupted");
}

/// Messages of an append to a folder of files.
const MANY: usize = 1_500;

/// Delivers a message into a folder with procmail; returns `false` if procmail is missing.
fn deliver_into(world: &World, place: &str) -> bool {
    let rc = format!("VERBOSE=no\n:0\n{}\n", world.path(place).display());
    let rc = world.write("procmailrc", rc.as_bytes());
    let mut command = Command::new("procmail");
    command.args(["-f", "b@c.example", &*rc]).current_dir(world.path("")).stdin(Stdio::piped());
    let Ok(mut child) = command.spawn() else { return false };
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), THEIRS).unwrap();
    assert!(child.wait().unwrap().success());
    true
}

/// Kills appends of many messages, and delivers after each; `place` is procmail's name of it.
fn check_folder(format: &str, place: &str) {
    let world = World::new();
    let texts: Vec<String> = (0..MANY).map(|n| format!("Subject: {n}\n\nbody {n}\n")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    world.write("many.mbox", mbox(&texts).as_bytes());
    world.write("old.eml", OLD.as_bytes());
    let (mut begun, mut delay) = (0, Duration::from_millis(400));
    for number in 0..KILLS {
        world.ok(&["append", "--create", &format!("{format}:box"), "old.eml"]);
        let mut child = world.start(&["append", "--mbox", "box", "many.mbox"]);
        std::thread::sleep(delay);
        let is_late = child.try_wait().unwrap().is_some();
        if !is_late {
            send(&child, Signal::KILL);
        }
        child.wait().unwrap();
        let files = barid_testkit::disk::list_files(&world.path("box")).unwrap().len();
        begun += usize::from(!is_late && files > 10);
        // One that was done is killed sooner, and one that had not begun later.
        delay = if is_late { delay * 3 / 4 } else { delay };
        delay = if files > 10 { delay } else { delay * 5 / 4 };
        if !deliver_into(&world, place) {
            return skip_or_fail("procmail (Debian package procmail)");
        }
        let run = world.run(&["ls", "--json", "box"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let lines = crate::support::parse_lines(&run.text());
        let subjects: Vec<&str> =
            lines.iter().filter_map(|line| line["subject"].as_str()).collect();
        let count = |subject: &str| subjects.iter().filter(|found| **found == subject).count();
        assert_eq!((count("old"), count("theirs")), (1, 1), "{format} {number}");
        assert!(subjects.len() <= MANY + 2, "{format} {number}: {}", subjects.len());
        let raw = world.run(&["show", "--raw", "box", "1:*"]);
        assert_eq!(raw.code, 0, "{}", raw.stderr);
        let raw = raw.text();
        for subject in subjects.iter().filter(|subject| subject.parse::<u32>().is_ok()) {
            assert_eq!(count(subject), 1, "{format} {number}: {subject}");
            let text = format!("Subject: {subject}\n\nbody {subject}\n");
            assert!(raw.contains(&text), "{format} {number}: {subject}");
        }
        assert!(raw.contains("their body") && raw.contains("old body"), "{format} {number}");
        world.remove("box");
    }
    assert!(begun > 0, "{format}: no append was interrupted in {KILLS} kills");
}

#[test]
fn a_delivery_after_a_killed_append_to_a_maildir_is_whole() {
    check_folder("maildir", "box/");
}

#[test]
fn a_delivery_after_a_killed_append_to_an_mh_folder_is_whole() {
    check_folder("mh", "box/.");
}

/// Bytes of all files of a mailbox.
fn size_of(path: &std::path::Path) -> u64 {
    let files = barid_testkit::disk::list_files(path).unwrap_or_default();
    let files = if files.is_empty() { vec![path.to_owned()] } else { files };
    files.iter().map(|file| barid_testkit::disk::size(file).unwrap_or(0)).sum()
}

/// Kills appends to a mailbox of c-client, which then delivers after each.
fn check_with_c_client(format: &str) {
    let Some(mut peer) = CClient::new() else { return };
    let (world, path) = (World::new(), peer.folder().join("box"));
    let (long, name) = (long(LINES), path.to_str().unwrap());
    world.write("old.eml", OLD.as_bytes());
    world.write("long.eml", long.as_bytes());
    let theirs = String::from_utf8_lossy(THEIRS).replace('\n', "\r\n");
    let theirs = format!("{}\n{theirs}", theirs.len());
    barid_testkit::disk::write(&peer.folder().join("theirs"), theirs.as_bytes()).unwrap();
    let mut torn = 0;
    for number in 0..KILLS {
        world.ok(&["append", "--create", &format!("{format}:{name}"), "old.eml"]);
        let before = size_of(&path);
        let mut child = world.start(&["append", name, "long.eml"]);
        while size_of(&path) == before && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(100));
        }
        std::thread::sleep(Duration::from_millis(number % 8));
        if child.try_wait().unwrap().is_none() {
            send(&child, Signal::KILL);
        }
        let is_whole = child.wait().unwrap().success();
        torn += usize::from(!is_whole && size_of(&path) > before);
        let file = peer.folder().join("theirs");
        let answer = peer.command(&format!("append box {}", file.display())).unwrap();
        assert_eq!(answer, ["1"], "{format} {number}");
        let run = world.run(&["ls", "--json", name]);
        assert_eq!(run.code, 0, "{format} {number}: {}", run.stderr);
        let lines = crate::support::parse_lines(&run.text());
        let mut found: Vec<&str> =
            lines.iter().filter_map(|line| line["subject"].as_str()).collect();
        found.sort_unstable();
        let all = found == ["long", "old", "theirs"];
        assert!(all || !is_whole && found == ["old", "theirs"], "{format} {number}: {found:?}");
        let raw = world.run(&["show", "--raw", name, "1:*"]);
        let raw = raw.text().replace('\r', "");
        assert!(raw.contains("old body\n") && raw.contains("their body\n"), "{format} {number}");
        assert!(!all || raw.contains(&long), "{format} {number}");
        match format == "mix" {
            true => barid_testkit::disk::remove_tree(&path).unwrap(),
            false => barid_testkit::disk::remove_file(&path).unwrap(),
        }
    }
    assert!(torn > 0, "{format}: no append was interrupted in mid-write");
}

#[test]
fn a_delivery_of_c_client_after_a_killed_append_to_an_mbx_is_whole() {
    check_with_c_client("mbx");
}

#[test]
fn a_delivery_of_c_client_after_a_killed_append_to_a_mix_is_whole() {
    check_with_c_client("mix");
}
