//! `barid export`.
#![expect(clippy::disallowed_methods, reason = "the program is tested from outside, on real files")]

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use crate::support::World;

const ANN: &str = "From: ann@x.example\nSubject: plan\nStatus: RO\nX-UID: 9\nMessage-ID: <1@x>\n\n\
    >From here\nFrom there\n";
const BOB: &str = "From: bob@x.example\nSubject: lunch\nMessage-ID: <2@x>\n\nNow?\n";

#[test]
fn messages_become_files() {
    let world = World::new();
    let mbox = format!(
        "From ann Thu Jan  1 12:00:00 2015\n{}\nFrom bob Fri Jan  2 12:00:00 2015\n{BOB}\n",
        ANN.replace("\nFrom there", "\n>From there")
    );
    world.write("box", mbox.as_bytes());
    let before = fs::read(world.path("box")).unwrap();
    assert_eq!(
        world.ok(&["export", "mboxrd:box", "subject:plan", "--to", "case"]),
        "case: 1 message\n"
    );
    assert_eq!(world.list("case"), ["1.eml"]);
    let message = fs::read_to_string(world.path("case/1.eml")).unwrap();
    assert!(message.starts_with("From: ann@x.example\nSubject: plan\nMessage-ID: <1@x>\n\n"));
    assert!(message.contains("\nFrom there\n"), "{message}");
    assert_eq!(fs::metadata(world.path("case/1.eml")).unwrap().mtime(), 1_420_113_600);
    // Nothing is replaced, and the folder is a mailbox.
    let lines = world.json(&["export", "mboxrd:box", "all", "--to", "case"]);
    assert_eq!((&lines[0]["uid"], &lines[0]["path"]), (&1.into(), &"case/1-2.eml".into()));
    assert_eq!((&lines[1]["type"], &lines[1]["bytes"]), (&"exported".into(), &BOB.len().into()));
    assert_eq!(world.list("case"), ["1-2.eml", "1.eml", "2.eml"]);
    assert_eq!(fs::read_to_string(world.path("case/1.eml")).unwrap(), message);
    assert_eq!(world.ok(&["count", "case", "from:ann"]), "2\n");
    assert_eq!(fs::read(world.path("box")).unwrap(), before);
}

#[test]
fn nothing_is_exported_that_is_not_named() {
    let world = World::new();
    world.maildir("inbox", &[ANN, BOB]);
    let check = |args: &[&str], code: i32, files: Option<&[&str]>| {
        let run = world.run(&[&["export", "--to", "dir"][..], args].concat());
        assert_eq!(run.code, code, "{args:?}: {}", run.stderr);
        match files {
            Some(files) => assert_eq!(world.list("dir"), files, "{args:?}"),
            None => assert!(!world.path("dir").exists(), "{args:?}"),
        }
    };
    check(&["inbox"], 2, None);
    check(&["--in", "inbox"], 2, None);
    check(&["inbox", "subject:none"], 1, None);
    check(&["--in", "inbox", "subject:none"], 1, None);
    check(&["inbox", "7"], 1, None);
    check(&["missing", "all"], 2, None);
    check(&["inbox", "2,7"], 1, Some(&["2.eml"]));
    check(&["inbox", "from:x", "-subject:plan"], 0, Some(&["2-2.eml", "2.eml"]));
    // A file in the place of the folder stays.
    world.write("file", b"x");
    let run = world.run(&["export", "inbox", "all", "--to", "file"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("file"), "{}", run.stderr);
    assert_eq!(fs::read(world.path("file")).unwrap(), b"x");
}

#[test]
fn messages_of_several_mailboxes_have_their_mailbox() {
    let world = World::new();
    world.maildir("inbox", &[ANN, BOB]);
    world.maildir("tree/old", &[BOB]);
    let args = ["export", "--in", "inbox", "--tree", "tree", "--to", "dir"];
    let lines = world.json(&[&args[..], &["--duplicates", "from:bob"]].concat());
    let places: Vec<_> = lines.iter().map(|line| (&line["mailbox"], &line["path"])).collect();
    assert_eq!(places[0], (&"inbox".into(), &"dir/2.eml".into()));
    assert_eq!(places[1], (&"tree/old".into(), &"dir/1.eml".into()));
    // A copy is exported once.
    let lines = world.json(&[&args[..], &["from:bob"]].concat());
    assert_eq!(lines.len(), 1);
}
