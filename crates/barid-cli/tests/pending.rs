//! Pending changes of an mbox, who may write them, and obstacles.

use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use barid::vfs::{LockKind, LockMode, OpenOptions, OsVfs, Vfs as _};
use barid_testkit::boxes::{MboxOptions, MboxVariant};
use barid_testkit::corpus::Corpus;
use barid_testkit::peers::PeerUser;
use barid_testkit::skip_or_fail;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Run, World, mbox, send};

const MESSAGES: [&str; 3] = [
    "Subject: one\nStatus: RO\n\nbody one\n",
    "Subject: two\nStatus: RO\n\nbody two\n",
    "Subject: three\nStatus: RO\n\nbody three\n",
];

fn make(world: &World) -> String {
    world.write("box.mbox", mbox(&MESSAGES).as_bytes())
}

fn status(world: &World, path: &str) -> Value {
    world.json(&["status", path]).remove(0)
}

fn flags(world: &World, path: &str) -> Vec<Value> {
    world.json(&["ls", path]).iter().map(|line| line["flags"].clone()).collect()
}

#[test]
fn flags_are_shown_before_they_are_written() {
    let world = World::new();
    let path = make(&world);
    let before = world.read("box.mbox");
    let text = world.ok(&["flag", &path, "1:2", "+flagged", "+todo"]);
    let follows = format!("; 2 changes pending: `barid sync {path}` writes them\n");
    assert!(text.starts_with(&format!("{path}: flagged 2 messages, in ")), "{text}");
    assert!(text.ends_with(&follows), "{text}");
    assert!(world.read("box.mbox") == before, "the mailbox is as it was");
    let flagged = json!(["\\Flagged", "\\Seen"]);
    assert_eq!(flags(&world, &path), [flagged.clone(), flagged.clone(), json!(["\\Seen"])]);
    assert_eq!(world.json(&["ls", &path])[1]["keywords"], json!(["todo"]));
    world.ok(&["flag", &path, "3", "-seen"]);
    let found = status(&world, &path);
    assert_eq!((&found["pending"], &found["unseen"]), (&json!(3), &json!(1)));
    assert_eq!(found["unfinished"], Value::Null);
    let text = world.ok(&["status", &path]);
    assert!(text.contains("pending        3 changes, which `barid sync` writes\n"), "{text}");

    let text = world.ok(&["sync", &path]);
    assert!(text.contains("wrote flags and UIDs of 3 messages") && !text.contains("pending"));
    assert!(world.read("box.mbox") != before, "they are in the mailbox");
    assert_eq!(status(&world, &path)["pending"], 0);
    assert_eq!(flags(&world, &path), [flagged.clone(), flagged, json!([])]);
    let stored = String::from_utf8(world.read("box.mbox")).unwrap();
    assert!(stored.contains("\nX-Keywords: todo"), "{stored}");
}

#[test]
fn a_keyword_that_an_mbox_cannot_hold_is_not_accepted() {
    let world = World::new();
    let path = make(&world);
    let before = world.read("box.mbox");
    world.write("new.eml", b"Subject: new\n\nbody\n");
    let long = "k".repeat(51);
    let many: Vec<String> = (0..31).map(|number| format!("+k{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let (bad, flag) = ("gr\u{f6}\u{df}e", ["flag", &path, "1"]);
    let cases: [(&[&str], &[&str], [&str; 2]); 5] = [
        (&flag, &["+gr\u{f6}\u{df}e"], ["gr\u{f6}\u{df}e", "ASCII"]),
        (&flag, &[&format!("+{long}")], [&long, "50 bytes"]),
        (&flag, &many, ["\"k30\"", "30 keywords"]),
        (&flag, &["+a", &format!("+{bad}"), "--write-through"], [bad, "ASCII"]),
        (&["append", &path], &["--flags", bad, "new.eml"], [bad, "ASCII"]),
    ];
    for (command, more, expected) in cases {
        let args = [command, more].concat();
        refused(&world, &world.run(&args), &[&expected[..], &["hint: "]].concat(), &before);
    }
    assert_eq!(status(&world, &path)["pending"], 0);
    world.ok(&["sync", &path]);
}

#[test]
fn what_is_pending_is_listed_and_dropped() {
    let world = World::new();
    let path = make(&world);
    let text = world.ok(&["sync", "--list", &path]);
    assert_eq!(text, format!("{path}: nothing is pending\n"));
    world.ok(&["flag", &path, "2", "+flagged", "+todo", "-seen"]);
    let text = world.ok(&["sync", "--list", &path]);
    assert_eq!(text, "UID 2: +\\Flagged +todo -\\Seen\n");
    let line = world.json(&["sync", "--list", &path]).remove(0);
    let expected = json!([2, ["\\Flagged", "todo"], ["\\Seen"]]);
    assert_eq!(json!([line["uid"], line["add"], line["remove"]]), expected);
    let text = world.ok(&["sync", "--discard-pending", &path]);
    assert_eq!(text, format!("{path}: dropped 1 pending change\n"));
    assert_eq!(status(&world, &path)["pending"], 0);
    assert_eq!(flags(&world, &path)[1], json!(["\\Seen"]));
}

#[test]
fn what_is_pending_for_a_file_that_was_replaced_is_told_and_taken_over() {
    let world = World::new();
    let path = make(&world);
    world.ok(&["flag", &path, "2", "+flagged"]);
    world.write("new", mbox(&[MESSAGES[1], MESSAGES[2]]).as_bytes());
    let (new, old) = (world.path("new"), world.path("box.mbox"));
    OsVfs.rename(&new, &old).unwrap();
    let run = world.run(&["status", "--json", &path]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("1 change pending for an earlier file"), "{}", run.stderr);
    let line: Value = serde_json::from_str(run.text().trim()).unwrap();
    assert_eq!((&line["pending"], &line["pending_earlier"]), (&json!(0), &json!(1)));
    let text = world.ok(&["sync", "--take-over", &path]);
    assert!(text.contains("wrote flags"), "{text}");
    assert_eq!(flags(&world, &path)[0], json!(["\\Flagged", "\\Seen"]));
    assert_eq!(status(&world, &path)["pending_earlier"], 0);
}

#[test]
fn flags_may_be_written_at_once() {
    let world = World::new();
    let path = make(&world);
    world.ok(&["sync", &path]);
    let line = world.json(&["flag", "--write-through", &path, "2", "+answered"]).remove(0);
    assert_eq!((&line["flagged"], &line["pending"]), (&json!(1), &json!(0)));
    let figures = &line["figures"];
    assert_eq!(figures["messages_written"], 1);
    assert!((1..=6).contains(&figures["barriers"].as_u64().unwrap()), "{figures}");
    assert_eq!((&figures["bytes_moved"], &figures["bytes_appended"]), (&json!(0), &json!(0)));
    assert_eq!(figures["size_before"], figures["size_after"]);
    assert_eq!(flags(&world, &path)[1], json!(["\\Answered", "\\Seen"]));
}

#[test]
fn what_has_the_flag_already_is_not_counted() {
    let world = World::new();
    let path = make(&world);
    let flag = |more: &[&str]| {
        let line = world.json(&[&["flag", &path][..], more].concat()).remove(0);
        (line["flagged"].as_u64().unwrap(), line["flagged_now"].as_u64().unwrap())
    };
    assert_eq!(flag(&["1:2", "+todo"]), (2, 2));
    assert_eq!(flag(&["all", "+todo"]), (1, 1));
    assert_eq!(flag(&["all", "+todo"]), (0, 0));
    assert_eq!(flag(&["2", "+todo", "--dry-run"]), (0, 0));
    // The written ones had pending changes.
    assert_eq!(flag(&["1", "+todo", "--write-through"]), (3, 0));
    assert_eq!(flag(&["1:2", "-todo", "--write-through"]), (2, 2));
    assert_eq!(flag(&["all", "-todo", "--write-through"]), (1, 1));
    let text = world.ok(&["flag", "--write-through", &path, "all", "-todo"]);
    assert!(text.starts_with(&format!("{path}: no message needs a change")), "{text}");
}

#[test]
fn a_change_of_messages_writes_what_is_pending() {
    for command in [&["expunge", "1"][..], &["append", "new.eml"]] {
        let world = World::new();
        let path = make(&world);
        world.write("new.eml", b"Subject: new\n\nbody\n");
        world.ok(&["flag", &path, "3", "+draft"]);
        let line = world.json(&[&[command[0], &path], &command[1..]].concat()).remove(0);
        assert_eq!((&line["flagged"], &line["pending"]), (&json!(1), &json!(0)), "{line}");
        let stored = String::from_utf8(world.read("box.mbox")).unwrap();
        assert!(stored.contains("\nX-Status: T"), "{stored}");
    }
}

/// Checks that a change failed and changed nothing.
fn refused(world: &World, run: &Run, expected: &[&str], before: &[u8]) {
    assert_eq!(run.code, 2, "{}", run.stderr);
    for text in expected {
        assert!(run.stderr.contains(text), "{text} is not in {}", run.stderr);
    }
    assert!(run.stdout.is_empty() && world.read("box.mbox") == before);
}

#[test]
fn the_holder_of_a_lock_is_named() {
    let world = World::new();
    let path = make(&world);
    let before = world.read("box.mbox");
    world.ok(&["status", &path]);
    let own = std::process::id().to_string();
    let quick = ["expunge", &path, "2", "--lock-timeout", "100ms"];

    world.write("box.mbox.lock", own.as_bytes());
    refused(&world, &world.run(&quick), &["error: ", "locked by", &own, "hint: "], &before);
    world.remove("box.mbox.lock");

    for (kind, others) in [(LockKind::Fcntl, "dotlock,flock"), (LockKind::Flock, "fcntl")] {
        // A separate file: in the first one an expunged message does not get its UID back.
        let world = World::new();
        let path = make(&world);
        let quick = ["expunge", &path, "2", "--lock-timeout", "100ms"];
        world.ok(&["status", &path]);
        let file = OsVfs.open(Path::new(&path), OpenOptions::WRITE).unwrap();
        assert!(file.try_lock(kind, LockMode::Shared).unwrap());
        refused(&world, &world.run(&quick), &["locked by", &path], &before);
        world.ok(&["expunge", &path, "2", "--locks", others]);
        drop(file);
    }
}

#[test]
fn a_waiting_request_for_a_lock_ends_nothing() {
    let world = World::new();
    let path = make(&world);
    world.write("box.mbox.lock", std::process::id().to_string().as_bytes());
    let mut child = world.start(&["expunge", &path, "2", "--lock-timeout", "60s"]);
    wait_for(&mut child, || world.has("home/.local/state/barid"));
    // The signal never ends the program, whenever it comes; usually the program is waiting by then.
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(20));
        assert!(child.try_wait().unwrap().is_none(), "it waits");
        send(&child, Signal::USR2);
    }
    world.remove("box.mbox.lock");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(flags(&world, &path).len(), 2);
}

/// Waits until a condition of the running program is met.
fn wait_for(child: &mut Child, is_there: impl Fn() -> bool) {
    while !is_there() {
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs the program as a user who is subject to permissions; `None` if that is impossible.
fn run_as_user(world: &World, args: &[&str]) -> Option<Run> {
    let home = world.path("home");
    let mut command = world.command();
    PeerUser::get().unwrap().run_as(command.args(args), &home);
    match command.output() {
        Ok(output) => Some(Run::of(output)),
        Err(error) => {
            skip_or_fail(&format!("the program as another user: {error}"));
            None
        }
    }
}

#[test]
fn a_file_that_may_not_be_written_stays_as_it_is() {
    let world = World::new();
    let path = make(&world);
    let before = world.read("box.mbox");
    world.create_dir("home");
    world.hand_over();
    world.set_mode("box.mbox", 0o444);
    for command in [&["expunge", &path, "2"][..], &["sync", &path], &["append", &path, "box.mbox"]]
    {
        let Some(run) = run_as_user(&world, command) else { return };
        refused(&world, &run, &["error: ", &path, "Permission denied"], &before);
    }
    let Some(run) = run_as_user(&world, &["ls", &path]) else { return };
    assert_eq!(run.code, 0, "{}", run.stderr);
}

#[test]
fn a_folder_that_may_not_be_written_is_no_obstacle() {
    let world = World::new();
    world.create_dir("folder");
    let path = world.write("folder/box.mbox", mbox(&MESSAGES).as_bytes());
    world.create_dir("home");
    world.hand_over();
    world.set_mode("folder", 0o555);
    let Some(run) = run_as_user(&world, &["expunge", &path, "2"]) else { return };
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let Some(run) = run_as_user(&world, &["ls", "--json", &path]) else { return };
    assert_eq!(run.text().lines().count(), 2);
    assert_eq!(world.list("folder"), ["box.mbox"]);
    world.set_mode("folder", 0o755);
}

#[test]
fn what_is_compressed_is_only_read() {
    let world = World::new();
    make(&world);
    if !Command::new("gzip").arg(world.path("box.mbox")).status().is_ok_and(|s| s.success()) {
        return skip_or_fail("the program `gzip`");
    }
    let path = world.path("box.mbox.gz");
    let path = path.to_str().unwrap();
    let before = world.read("box.mbox.gz");
    for command in [&["flag", path, "1", "+draft"][..], &["expunge", path, "1"], &["sync", path]] {
        let run = world.run(command);
        assert_eq!((run.code, run.stdout.len()), (2, 0), "{command:?}: {}", run.stderr);
        assert!(run.stderr.contains("error: ") && run.stderr.contains(path), "{}", run.stderr);
        assert!(world.read("box.mbox.gz") == before);
    }
}

/// Runs a shell script in which `disk` is a file system of this size, with the mailbox on it;
/// `None` if none can be mounted.
fn on_small_disk(world: &World, megabytes: u32, script: &str) -> Option<Run> {
    world.create_dir("disk");
    let is_root = rustix::process::getuid().is_root();
    let line = format!(
        "mount -t tmpfs -o size={megabytes}m none disk || exit 77; cp box.mbox disk; {script}"
    );
    let mut command = Command::new("unshare");
    let environment = world.command();
    let environment = environment.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command
        .args([if is_root { "-m" } else { "-rm" }, "sh", "-c", &line])
        .envs(environment)
        .env("barid", env!("CARGO_BIN_EXE_barid"))
        .current_dir(world.path("."));
    let output = command.output().ok().filter(|output| output.status.code() != Some(77));
    output.map(Run::of)
}

#[test]
fn a_full_disk_is_told_and_costs_nothing() {
    let world = World::new();
    let corpus = Corpus::new(11, 700);
    let options = MboxOptions::new(MboxVariant::Mboxo);
    let len = corpus.write_mbox(&world.path("box.mbox"), options).unwrap().bytes;
    let megabytes = (len / 1_048_576) as u32 + 2;
    world.write("large.eml", &[b"Subject: large\n\n", &vec![b'x'; 4_000_000][..]].concat());
    for command in ["sync disk/box.mbox", "append disk/box.mbox large.eml"] {
        let script = format!(
            "$barid {command}; echo $?; cmp box.mbox disk/box.mbox && ls -A disk; \
             $barid ls disk/box.mbox | wc -l"
        );
        let Some(run) = on_small_disk(&world, megabytes, &script) else {
            return println!("skipped: a small file system cannot be mounted here");
        };
        assert_eq!(run.text(), "2\nbox.mbox\n700\n", "{command}: {}", run.stderr);
        assert!(run.stderr.starts_with("error: "), "{}", run.stderr);
        let told = ["are free", "No space left"].iter().any(|text| run.stderr.contains(text));
        assert!(told && run.stderr.contains("make room"), "{}", run.stderr);
        world.remove("disk");
    }
}
