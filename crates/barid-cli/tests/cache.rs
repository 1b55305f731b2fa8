//! `barid cache`.

use crate::support::{World, mbox};

fn world() -> (World, String, String) {
    let world = World::new();
    let maildir = world.maildir("box", &["Subject: one\n\n", "Subject: two\n\n"]);
    let mbox = world.write("box.mbox", mbox(&["Subject: three\n\n"]).as_bytes());
    world.ok(&["ls", &maildir, "--sort", "date"]);
    world.ok(&["thread", &mbox]);
    (world, maildir, mbox)
}

#[test]
fn caches_are_listed() {
    let (world, maildir, mbox) = world();
    let lines = world.json(&["cache", "status"]);
    assert_eq!(lines.len(), 2);
    for (path, messages, format) in [(&maildir, 2, "maildir"), (&mbox, 1, "mboxo")] {
        let line = lines.iter().find(|line| line["mailbox"] == **path).unwrap();
        assert_eq!((&line["messages"], &line["format"]), (&messages.into(), &format.into()));
        assert_eq!(line["state"], "ok");
        assert!(line["bytes"].as_u64() > Some(0));
    }
    let text = world.ok(&["cache", "status"]);
    assert!(text.contains(&maildir) && text.contains("2 caches"), "{text}");
}

#[test]
fn caches_are_verified() {
    let (world, maildir, _) = world();
    let lines = world.json(&["cache", "verify"]);
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| line["ok"] == true));
    assert_eq!(world.json(&["cache", "verify", &maildir]).len(), 1);
    for command in ["verify", "clear"] {
        let run = world.run(&["cache", command, "nowhere"]);
        assert_eq!((run.code, run.stdout.len()), (1, 0));
        assert!(run.stderr.contains("nowhere: no cache"), "{}", run.stderr);
    }
    let status = world.json(&["cache", "status"]);
    for line in &status {
        let file = line["file"].as_str().unwrap();
        let name = format!("home/.cache/barid/{}", file.rsplit('/').next().unwrap());
        let mut bytes = world.read(&name);
        let middle = bytes.len() / 2;
        bytes.truncate(middle);
        world.write(&name, &bytes);
    }
    let run = world.run(&["cache", "verify", "--json"]);
    assert_eq!(run.code, 2);
    assert!(run.text().contains("\"ok\":false"), "{}", run.text());
}

#[test]
fn a_cleared_cache_changes_no_uid() {
    let (world, maildir, mbox) = world();
    let before = [world.json(&["ls", &maildir]), world.json(&["ls", &mbox])];
    let validity = world.json(&["status", &mbox])[0]["uidvalidity"].clone();
    let removed = world.json(&["cache", "clear", &maildir]);
    assert!(removed[0]["files"].as_u64() > Some(0) && removed[0]["bytes"].as_u64() > Some(0));
    assert_eq!(world.json(&["cache", "status"]).len(), 1);
    for (args, code) in [(&["cache", "clear"][..], 2), (&["cache", "clear", ""], 1)] {
        let run = world.run(args);
        assert_eq!(run.code, code, "{args:?}: {}", run.stderr);
        assert_eq!(world.json(&["cache", "status"]).len(), 1);
    }
    world.ok(&["cache", "clear", "--all"]);
    assert!(world.json(&["cache", "status"]).is_empty());
    assert_eq!([world.json(&["ls", &maildir]), world.json(&["ls", &mbox])], before);
    assert_eq!(world.json(&["status", &mbox])[0]["uidvalidity"], validity);
}

#[test]
fn caches_of_mailboxes_that_are_gone_are_pruned() {
    let (world, maildir, _) = world();
    let none = world.json(&["cache", "prune"]);
    assert_eq!(none[0]["files"], 0);
    world.remove("box.mbox");
    let text = world.ok(&["cache", "prune"]);
    assert!(text.starts_with("removed "), "{text}");
    let left = world.json(&["cache", "status"]);
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["mailbox"], maildir);
}

#[test]
fn no_cache_folder_is_an_empty_list() {
    let world = World::new();
    assert!(world.json(&["cache", "status"]).is_empty());
    assert!(world.json(&["cache", "verify"]).is_empty());
    assert_eq!(world.json(&["cache", "prune"])[0]["files"], 0);
    let run = world.run(&["cache", "clear", "nowhere"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
}

/// Printed lines are not printed again, and the rest is complete.
#[test]
fn damage_found_late_costs_a_warning() {
    let world = World::new();
    let subject = "a subject that is as long as many are, and a little longer";
    let messages: Vec<String> =
        (0..12_000).map(|n| format!("Subject: {subject} {n}\n\n")).collect();
    let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
    let path = world.write("box.mbox", mbox(&messages).as_bytes());
    for args in [["ls", "--json"], ["thread", "--json"]] {
        let args = [&args[..], &[&path]].concat();
        let before = world.ok(&args);
        let file = world.json(&["cache", "status"])[0]["file"].as_str().unwrap().to_owned();
        let mut cache = barid_testkit::disk::read(file.as_ref()).unwrap();
        cache[800_000] ^= 1;
        barid_testkit::disk::write(file.as_ref(), &cache).unwrap();
        let run = world.run(&args);
        assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
        assert!(run.text() == before, "{args:?}");
        assert!(run.stderr.contains("rebuilt"), "{args:?}: {}", run.stderr);
        let again = world.run(&args);
        assert_eq!((again.code, again.stderr.as_str()), (0, ""), "{args:?}");
    }
}

#[test]
fn damage_found_while_listing_costs_a_warning() {
    let world = World::new();
    let messages: Vec<String> = (0..3000).map(|n| format!("Subject: {n}\n\n")).collect();
    let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
    let path = world.write("box.mbox", mbox(&messages).as_bytes());
    let before = world.ok(&["ls", &path]);
    let file = world.json(&["cache", "status"])[0]["file"].as_str().unwrap().to_owned();
    // After the header, which is checked on opening.
    let mut cache = barid_testkit::disk::read(file.as_ref()).unwrap();
    cache[8192..8200].copy_from_slice(b"!damage!");
    barid_testkit::disk::write(file.as_ref(), &cache).unwrap();
    let run = world.run(&["ls", &path]);
    assert_eq!((run.code, String::from_utf8_lossy(&run.stdout).into_owned()), (0, before));
    assert!(run.stderr.contains("rebuilt"), "{}", run.stderr);
    let again = world.run(&["ls", &path]);
    assert_eq!((again.code, again.stderr.as_str()), (0, ""));
}
