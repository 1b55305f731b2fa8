//! `barid status`.

use crate::support::{World, mbox};

const MESSAGES: [&str; 2] =
    ["Subject: one\n\nbody one\n", "Subject: two\nFrom: a@b\n\nbody of the second\n"];

#[test]
fn a_maildir_is_counted() {
    let world = World::new();
    let path = world.maildir("box", &MESSAGES);
    world.deliver("box", "new/1700000000.new.host", "Subject: three\n\n");
    let [status] = &world.json(&["status", &path])[..] else { panic!("one line") };
    assert_eq!(status["type"], "status");
    assert_eq!(status["path"], path);
    assert_eq!(status["format"], "maildir");
    assert_eq!((&status["messages"], &status["recent"]), (&3.into(), &1.into()));
    assert_eq!((&status["unseen"], &status["uidnext"]), (&1.into(), &4.into()));
    assert!(status["uidvalidity"].as_u64() > Some(0));
    assert_eq!(status["pending"], 0);
    assert_eq!(status["cache"]["state"], "populated");
    assert_eq!(status["cache"]["messages_read"], 3);
    assert!(status["cache"]["bytes"].as_u64() > Some(0));
    let extraction = &status["extraction"];
    assert!(extraction["seccomp"].is_boolean() && extraction["landlock"].is_boolean());
    assert!(extraction["pdf_reader"].is_null(), "there is no PATH: {extraction}");
    assert!(status["elapsed_ms"].is_number());
    let text = world.ok(&["status", &path]);
    assert!(text.contains("read under limits, ") && text.contains("no PDF reader"), "{text}");
}

#[test]
fn an_mbox_is_counted_and_its_cache_is_used_again() {
    let world = World::new();
    let path = world.write("box.mbox", mbox(&MESSAGES).as_bytes());
    let first = world.json(&["status", &path]);
    assert_eq!(first[0]["messages"], 2);
    assert_eq!(first[0]["cache"]["state"], "populated");
    assert_eq!(first[0]["size_bytes"], mbox(&MESSAGES).len());
    let again = world.json(&["status", &path]);
    // A file that changed a moment ago is read again, as a later change could leave the same stamp.
    let state = again[0]["cache"]["state"].as_str().unwrap();
    assert!(["fresh", "updated"].contains(&state), "{state}");
    assert!(again[0]["highestmodseq"].as_u64() >= first[0]["highestmodseq"].as_u64());
    for key in ["messages", "uidvalidity", "uidnext", "size_bytes"] {
        assert_eq!(first[0][key], again[0][key], "{key}");
    }
}

#[test]
fn without_a_cache_nothing_is_kept() {
    let world = World::new();
    let path = world.write("box.mbox", mbox(&MESSAGES).as_bytes());
    for _ in 0..2 {
        let status = world.json(&["status", "--no-cache", &path]);
        assert_eq!(status[0]["cache"]["state"], "none");
        assert_eq!(status[0]["cache"]["messages_read"], 2);
    }
    assert!(!world.has("home/.cache"));
}

#[test]
fn folders_are_chosen_by_option_environment_and_home() {
    let world = World::new();
    let path = world.write("box.mbox", mbox(&MESSAGES).as_bytes());
    world.ok(&["status", &path]);
    assert!(!world.list("home/.cache/barid").is_empty());
    world.ok(&["status", &path, "--cache-dir", "own/cache", "--state-dir", "own/state"]);
    assert!(!world.list("own/cache").is_empty());
    let mut command = world.command();
    command.env("XDG_CACHE_HOME", world.path("xdg")).args(["status", &path]);
    assert!(command.output().unwrap().status.success());
    assert!(!world.list("xdg/barid").is_empty());
}

#[test]
fn people_get_a_table() {
    let world = World::new();
    let path = world.maildir("box", &MESSAGES);
    let text = world.ok(&["status", &path]);
    for line in [
        "format         maildir\n",
        "messages       2 (0 unseen, 0 recent)\n",
        "uidnext        3\n",
    ] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
    assert!(text.contains("cache          populated, 2 messages read, "), "{text}");
}

#[test]
fn an_empty_mailbox_is_no_failure() {
    let world = World::new();
    for path in [world.maildir("box", &[]), world.write("empty.mbox", b"")] {
        assert_eq!(world.json(&["status", &path])[0]["messages"], 0, "{path}");
        assert!(world.json(&["ls", &path]).is_empty());
        assert_eq!(world.ok(&["ls", &path]), "");
        assert_eq!(world.ok(&["thread", "--imap", &path]), "* THREAD\n");
        assert_eq!(world.ok(&["thread", &path]), "");
    }
}
