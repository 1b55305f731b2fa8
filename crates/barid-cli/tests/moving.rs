//! Moving messages to another mailbox.

use crate::support::{Run, World, mbox, parse_lines};

const MESSAGES: [&str; 3] = [
    "From: ann@x.example\nSubject: alpha\n\none\n",
    "From: bob@x.example\nSubject: beta\n\ntwo\n",
    "From: ann@x.example\nSubject: gamma\n\nFrom here\n",
];

fn world() -> World {
    let world = World::new();
    world.maildir("inbox", &MESSAGES);
    world.write("old", mbox(&["Subject: before\n\nx\n"]).as_bytes());
    world
}

fn subjects(world: &World, mailbox: &str) -> Vec<String> {
    let lines = world.json(&["ls", mailbox]);
    lines.iter().map(|line| line["subject"].as_str().unwrap().to_owned()).collect()
}

fn check(run: &Run, code: i32, out: &str, err: &str) {
    assert!(run.code == code && run.text().starts_with(out), "{}{}", run.text(), run.stderr);
    match err {
        "" => assert_eq!(run.stderr, ""),
        err => assert!(run.stderr.contains(err), "{}", run.stderr),
    }
}

#[test]
fn messages_leave_one_mailbox_for_the_other() {
    let world = world();
    world.ok(&["flag", "inbox", "2", "+flagged", "+todo"]);
    let run = world.run(&["move", "inbox", "2", "mboxrd:old"]);
    check(&run, 0, "inbox -> mboxrd:old: moved 1 message, in ", "");
    assert_eq!(subjects(&world, "inbox"), ["alpha", "gamma"]);
    let moved = &world.json(&["ls", "old", "--sort", "subject"])[1];
    let flags = ("beta", "[\"\\\\Flagged\",\"\\\\Seen\",\"\\\\Recent\"]", "[\"todo\"]");
    let found = (moved["flags"].to_string(), moved["keywords"].to_string());
    assert_eq!((moved["subject"].as_str().unwrap(), &*found.0, &*found.1), flags);
    let run = world.run(&["move", "inbox", "from:ann", "mboxrd:old", "--json"]);
    let line = &parse_lines(&run.text())[0];
    assert_eq!(
        (&line["type"], &line["moved"], &line["found"]),
        (&"move".into(), &2.into(), &0.into())
    );
    assert_eq!(line["uids"].to_string(), "[[1,3],[3,4]]");
    assert_eq!((subjects(&world, "inbox").len(), subjects(&world, "old").len()), (0, 4));
    let run = world.run(&["move", "inbox", "from:ann", "old"]);
    check(&run, 1, "inbox -> old: moved 0 messages", "");
    let run = world.run(&["move", "inbox", "7,9", "old"]);
    check(&run, 1, "inbox -> old: moved 0 messages", "no message with UID 7");
    world.ok(&["move", "mboxrd:old", "all", "mix:new", "--create"]);
    assert_eq!((subjects(&world, "old").len(), subjects(&world, "new").len()), (0, 4));
}

#[test]
fn what_would_be_moved_is_counted() {
    let world = world();
    let run = world.run(&["move", "--dry-run", "inbox", "1:2", "old"]);
    check(&run, 0, "inbox -> old: would move 2 messages\n", "");
    let run = world.run(&["move", "--dry-run", "--read-only", "--json", "inbox", "all", "old"]);
    let line = &parse_lines(&run.text())[0];
    assert_eq!((&line["moved"], &line["dry_run"]), (&3.into(), &true.into()));
    let run = world.run(&["move", "--dry-run", "inbox", "from:nobody", "old"]);
    check(&run, 1, "inbox -> old: would move 0 messages\n", "");
    assert_eq!((subjects(&world, "inbox").len(), subjects(&world, "old").len()), (3, 1));
}

#[test]
fn every_copy_is_compared_before_its_message_leaves() {
    let world = world();
    // An mbox of this kind has `From ` lines quoted, and readers do not undo that.
    let run = world.run(&["move", "inbox", "all", "mboxo:old", "--proof", "proof"]);
    check(
        &run,
        2,
        "UID 3 differs: content\ninbox -> mboxo:old: moved 2 messages",
        "1 message stayed",
    );
    assert_eq!(subjects(&world, "inbox"), ["gamma"]);
    assert_eq!(subjects(&world, "old"), ["alpha", "beta", "gamma", "before"]);
    let proofs = parse_lines(&String::from_utf8(world.read("proof")).unwrap());
    assert_eq!(proofs.last().unwrap()["same"], 2);
    let run = world.run(&["move", "inbox", "all", "mh:folder", "--create", "--proof", "proof"]);
    check(&run, 0, "inbox -> mh:folder: moved 1 message", "");
}

#[test]
fn what_cannot_be_moved_is_explained() {
    let world = world();
    let gz = world.write("box.mbox", mbox(&MESSAGES).as_bytes());
    for (args, err) in [
        (&["move", "inbox", "1", "nowhere"][..], "nowhere: "),
        (&["move", "nowhere", "1", "old"], "nowhere: "),
        (&["move", "inbox", "1", "inbox"], "the target is the mailbox itself"),
        (&["move", "inbox", "", "old"], "an empty list of messages: nothing is moved"),
        (
            &["move", "inbox", "subject:\"\"", "old"],
            "an empty text is in every message: nothing is moved",
        ),
        (&["move", "inbox", "1", "old", "--read-only"], "--read-only forbids it"),
        (&["move", "inbox", "1", "old", "--uidvalidity", "7"], "not 7: nothing is changed"),
        (&["move", "inbox", "1"], "required"),
    ] {
        let run = world.run(args);
        assert!(run.code == 2 && run.stderr.contains(err), "{args:?}: {}", run.stderr);
    }
    assert_eq!((subjects(&world, "inbox").len(), subjects(&world, "old").len()), (3, 1));
    // What only reads cannot give anything away.
    let compressed = std::process::Command::new("gzip").arg(gz).status();
    if compressed.is_ok_and(|status| status.success()) {
        let run = world.run(&["move", "box.mbox.gz", "1", "old"]);
        assert_eq!((run.code, subjects(&world, "old").len()), (2, 1), "{}", run.stderr);
    }
}
