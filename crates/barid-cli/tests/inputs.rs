//! Mailboxes that are only read: saved messages, and what is on standard input.

use crate::support::{Run, World, mbox, parse_lines};

const MESSAGES: [&str; 3] = [
    "From: ann@x.example\nSubject: alpha\n\none\n",
    "From: bob@x.example\nSubject: beta\n\ntwo\n",
    "From: ann@x.example\nSubject: gamma\n\nFrom here\nno line end",
];

/// A world with a folder of saved messages, among them other files.
fn world() -> World {
    let world = World::new();
    for (name, message) in ["10.eml", "9.eml", "x y.EML"].iter().zip(MESSAGES) {
        world.write(&format!("saved/{name}"), message.as_bytes());
    }
    world.write("saved/notes.txt", b"not a message\n\n");
    world
}

fn subjects(run: &Run) -> Vec<String> {
    let lines = parse_lines(&run.text());
    lines.iter().map(|line| line["subject"].as_str().unwrap_or("-").to_owned()).collect()
}

fn ls(world: &World, mailbox: &str) -> Vec<String> {
    let run = world.run(&["ls", mailbox, "--json"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{mailbox}");
    let mut found = subjects(&run);
    found.sort();
    found
}

fn refuse(run: &Run, text: &str) {
    assert!(run.code == 2 && run.stderr.contains(text), "{} {}", run.code, run.stderr);
}

#[test]
fn a_folder_of_saved_messages_is_a_mailbox() {
    let world = world();
    assert_eq!(ls(&world, "saved"), ["alpha", "beta", "gamma"]);
    let status = &world.json(&["status", "saved"])[0];
    let found = (&status["format"], &status["messages"], &status["cache"]["state"]);
    assert_eq!(found, (&"eml".into(), &3.into(), &"fresh".into()));
    // By the order of names, and the bytes of the file.
    for (uid, at) in [("1", 1), ("2", 0), ("3", 2)] {
        assert_eq!(world.run(&["show", "saved", uid, "--raw"]).text(), MESSAGES[at]);
    }
    assert_eq!(world.ok(&["search", "saved", "from:ann"]), "2:3\n");
    assert_eq!(ls(&world, "saved/9.eml"), ["beta"]);
    assert_eq!(ls(&world, "eml:saved/notes.txt"), ["-"]);
    world.ok(&["copy", "saved", "all", "mboxrd:box", "--create", "--proof", "proof"]);
    assert_eq!(ls(&world, "mboxrd:box"), ["alpha", "beta", "gamma"]);
    world.ok(&["convert", "saved", "maildir:all"]);
    assert_eq!(ls(&world, "all"), ["alpha", "beta", "gamma"]);
    world.write("saved/a.eml", b"Subject: delta\n\nx\n");
    assert_eq!(ls(&world, "saved"), ["alpha", "beta", "delta", "gamma"]);
    assert_eq!(world.run(&["show", "saved", "1", "--raw"]).text(), MESSAGES[1]);
    // In a tree they are not mailboxes.
    let folders = world.run(&["folders", "."]).text();
    assert!(folders.contains("box") && !folders.contains("saved"), "{folders}");
}

#[test]
fn saved_messages_are_never_changed() {
    let world = world();
    let before: Vec<_> =
        world.list("saved").iter().map(|it| world.read(&format!("saved/{it}"))).collect();
    for (args, text) in [
        (&["flag", "saved", "1", "+flagged"][..], "can only be read"),
        (&["expunge", "saved", "1"], "can only be read"),
        (&["append", "saved", "saved/9.eml"], "can only be read"),
        (&["move", "saved", "1", "mboxrd:box", "--create"], ""),
        (&["copy", "saved/9.eml", "all", "saved"], "can only be read"),
        (&["convert", "saved", "eml:new"], "can only be read"),
    ] {
        refuse(&world.run(args), text);
    }
    let check = world.run(&["check", "saved"]);
    assert_eq!(check.code, 0, "{}", check.stderr);
    let after: Vec<_> =
        world.list("saved").iter().map(|it| world.read(&format!("saved/{it}"))).collect();
    assert_eq!((before, world.list("saved").len()), (after, 4));
    assert!(!world.has("new"));
}

#[test]
fn standard_input_is_a_mailbox() {
    let world = World::new();
    let all = mbox(&MESSAGES);
    let check = |args: &[&str], input: &[u8], expected: &[&str]| {
        let run = world.run_with_input(&[args, &["--json"]].concat(), input);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}");
        assert_eq!(subjects(&run), expected, "{args:?}");
    };
    check(&["ls", "-"], all.as_bytes(), &["alpha", "beta", "gamma"]);
    check(&["ls", "mboxrd:-", "--limit", "1"], all.as_bytes(), &["gamma"]);
    check(&["search", "-", "from:ann"], all.as_bytes(), &["alpha", "gamma"]);
    check(&["ls", "-"], MESSAGES[1].as_bytes(), &["beta"]);
    check(&["ls", "-"], b"", &[]);
    let run = world.run_with_input(&["show", "-", "1", "--raw"], MESSAGES[2].as_bytes());
    assert_eq!(run.text(), MESSAGES[2]);
    // Larger than what is kept in memory, as a message and as an mbox.
    let long = format!("Subject: long\n\n{}", "a line of it\n".repeat(500_000));
    check(&["ls", "-"], long.as_bytes(), &["long"]);
    check(
        &["ls", "-"],
        mbox(&[long.as_str(), "Subject: short\n\nx\n"]).as_bytes(),
        &["long", "short"],
    );
    let run = world.run_with_input(&["copy", "-", "2", "mboxrd:box", "--create"], all.as_bytes());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert_eq!(ls(&world, "mboxrd:box"), ["beta"]);
    assert!(!world.has("-"));
    world.write("-", all.as_bytes());
    assert_eq!(ls(&world, "./-").len(), 3);
}

#[test]
fn what_standard_input_cannot_be_is_explained() {
    let world = World::new();
    let all = mbox(&MESSAGES);
    let message = world.write("one.eml", MESSAGES[0].as_bytes());
    world.write("box", all.as_bytes());
    for args in [
        &["flag", "-", "1", "+seen"][..],
        &["expunge", "-", "1"],
        &["move", "-", "1", "box"],
        &["move", "box", "1", "-"],
        &["copy", "box", "1", "-"],
        &["copy", "box", "1", "-", "--create"],
        &["convert", "-", "mix:new"],
        &["append", "-", &message],
        &["cache", "populate", "-"],
        &["check", "-"],
    ] {
        refuse(&world.run_with_input(args, all.as_bytes()), "can only be read");
    }
    assert!(!world.has("-"));
    refuse(&world.run_with_input(&["ls", "-"], b"\0\x7fELF"), "binary file");
    refuse(&world.run_with_input(&["ls", "mbx:-"], all.as_bytes()), "header of an mbx");
}

#[test]
fn hostile_input_is_bounded() {
    let world = World::new();
    // A header without an end, a message of one line, and bytes that are no text.
    let header = format!("Subject: long\nX: {}", "x".repeat(20 << 20));
    let line = format!("Subject: line\n\n{}", "y".repeat(20 << 20));
    let bytes: Vec<u8> =
        (0..=255_u8).cycle().skip(1).filter(|byte| *byte != 0).take(100_000).collect();
    let odd = [b"Subject: odd\n\n".as_slice(), &bytes, b"\0\0"].concat();
    for (name, bytes) in [("a", header.as_bytes()), ("b", line.as_bytes()), ("c", &odd), ("d", b"")]
    {
        world.write(&format!("saved/{name}.eml"), bytes);
    }
    // Names that are no messages, and one that cannot be read.
    world.create_dir("saved/folder.eml");
    rustix::fs::symlink("nowhere", world.path("saved/link.eml")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(2100));
    let run = world.run(&["ls", "saved", "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let mut found = subjects(&run);
    found.sort();
    assert_eq!(found, ["-", "line", "long", "odd"]);
    // A compressed mailbox that is cut, or is nothing but its promise.
    let gz = b"\x1f\x8b\x08\0\0\0\0\0\0\x03";
    for input in [&gz[..], &gz[..5], b"BZh9", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"] {
        let run = world.run_with_input(&["ls", "-"], input);
        assert!(run.code == 2 || run.text().is_empty(), "{:?} {}", input, run.text());
    }
}
