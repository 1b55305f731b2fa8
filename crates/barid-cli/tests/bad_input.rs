//! Input that is not a mailbox, cannot be read, or is too large.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::support::{World, mbox};

const COMMANDS: [&[&str]; 4] = [&["status"], &["ls"], &["thread"], &["status", "--json"]];

/// Runs every command, which must fail with one error that names `path`.
fn check(world: &World, path: &str, expected: &str) {
    for command in COMMANDS {
        let run = world.run(&[command, &[path]].concat());
        assert_eq!(run.code, 2, "{command:?} {path}: {}", run.stderr);
        assert!(run.stdout.is_empty());
        assert!(run.stderr.starts_with("error: "), "{}", run.stderr);
        assert!(run.stderr.contains(path) && run.stderr.contains(expected), "{}", run.stderr);
        assert_eq!(run.stderr.matches("error: ").count(), 1, "{}", run.stderr);
    }
}

#[test]
fn a_missing_path() {
    let world = World::new();
    let path = world.path("nowhere");
    check(&world, path.to_str().unwrap(), "No such file or directory");
    let run = world.run(&["folders", "nowhere"]);
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.contains("nowhere") && run.stderr.contains("No such file"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_folder_that_is_no_mailbox() {
    let world = World::new();
    let path = world.create_dir("folder");
    check(&world, &path, "not a mailbox");
    assert!(world.run(&["status", &path]).stderr.contains("\nhint: "));
    world.write("folder/notes.txt", b"hello");
    check(&world, &path, "not a mailbox");
}

#[test]
fn a_file_that_is_no_mailbox() {
    let world = World::new();
    let path = world.write("noise", &(0..=255).cycle().take(100_000).collect::<Vec<u8>>());
    check(&world, &path, "not a mailbox");
    let path = world.write("text.txt", b"just some text\nin lines\n");
    check(&world, &path, "not a mailbox");
}

#[test]
fn no_permission() {
    let world = World::new();
    let path = world.write("box.mbox", b"From a@b Tue Mar  5 12:22:10 2024\nSubject: x\n\n\n");
    world.set_mode("box.mbox", 0o000);
    if world.try_read("box.mbox") {
        println!("skipped: this user may read everything");
        return;
    }
    check(&world, &path, "Permission denied");
}

#[test]
fn a_mailbox_cut_in_the_middle_of_a_header() {
    let world = World::new();
    let path = world.write("box.mbox", b"From a@b Tue Mar  5 12:22:10 2024\nSubject: one\n\nx\n\nFrom a@b Tue Mar  5 12:22:10 2024\nSubj");
    assert_eq!(world.json(&["ls", &path]).len(), 2);
}

#[test]
fn a_message_that_vanished_is_reported() {
    let world = World::new();
    let path = world.maildir("box", &["Subject: one\n\n", "Subject: two\n\n"]);
    world.ok(&["ls", &path]);
    world.remove("box/cur/1600000000.M0.host:2,S");
    assert_eq!(world.json(&["ls", &path]).len(), 1);
    let run = world.run(&["show", &path, "1"]);
    assert_eq!((run.code, run.stdout.len()), (1, 0), "{}", run.stderr);
}

#[test]
fn a_damaged_cache_is_told_and_made_anew() {
    let world = World::new();
    let path = world.maildir("box", &["Subject: one\n\n"]);
    world.ok(&["status", &path, "--cache-dir", "cache"]);
    for file in world.list("cache") {
        let file = format!("cache/{file}");
        let mut bytes = world.read(&file);
        bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
        world.write(&file, &bytes);
    }
    let run = world.run(&["ls", &path, "--cache-dir", "cache"]);
    assert_eq!(run.code, 0);
    assert!(run.text().contains("one"));
    assert!(run.stderr.starts_with("warning: "), "{:?}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    world.ok(&["ls", &path, "--cache-dir", "cache"]);
}

#[test]
fn folders_that_cannot_be_written_do_not_stop_reading() {
    let world = World::new();
    let path = world.maildir("box", &["Subject: one\n\n"]);
    world.write("file", b"");
    let run = world.run(&["ls", &path, "--cache-dir", "file/cache"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.text().contains("one") && run.stderr.starts_with("warning: "), "{}", run.stderr);
    let quiet = world.run(&["ls", "-q", &path, "--cache-dir", "file/cache"]);
    assert_eq!((quiet.code, quiet.stderr.as_str()), (0, ""));
}

#[test]
fn a_home_is_not_needed() {
    let world = World::new();
    let path = world.maildir("box", &["Subject: one\n\n"]);
    let run = |args: &[&str]| world.command().env_remove("HOME").args(args).output().unwrap();
    let output = run(&["ls", &path]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("hint: name one with --state-dir DIR"), "{error}");
    assert!(run(&["ls", &path, "--state-dir", "state"]).status.success());
}

#[test]
fn a_name_that_is_no_utf8() {
    let world = World::new();
    world.maildir("mail/box", &["Subject: one\n\n"]);
    let name = OsStr::from_bytes(b"mail/b\xff\xfed");
    world.rename("mail/box", name);
    let run = |args: [&OsStr; 2]| world.command().args(args).output().unwrap();
    for args in
        [["status".as_ref(), name], ["ls".as_ref(), name], ["folders".as_ref(), "mail".as_ref()]]
    {
        let output = run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!output.stdout.is_empty());
    }
}

#[test]
fn a_compressed_mbox_that_is_cut_is_told_every_time() {
    let world = World::new();
    let messages: Vec<String> = (0..200).map(|n| format!("Subject: {n}\n\n{n:032x}\n")).collect();
    let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
    let plain = world.write("box.mbox", mbox(&messages).as_bytes());
    let packed = std::process::Command::new("gzip").args(["-c", &plain]).output().unwrap().stdout;
    let path = world.write("cut.mbox.gz", &packed[..packed.len() / 2]);
    for _ in 0..2 {
        let run = world.run(&["ls", &path]);
        assert_eq!(run.code, 2, "{}", run.stderr);
        assert!(run.stderr.contains("cannot be decompressed"), "{}", run.stderr);
        assert!(!run.stdout.is_empty());
    }
}
