//! Answering and forwarding messages.

use crate::support::{Run, World, parse_lines};

const MESSAGES: [&str; 2] = [
    "Message-ID: <1@x>\nFrom: Ann <ann@x.example>\nTo: bob@x.example\nCc: cy@x.example\n\
     Subject: plan\nDate: Fri, 17 May 2024 16:20:00 +0200\n\none\ntwo\n",
    "From: ann@x.example\nSubject: other\n\nthree\n",
];

fn world() -> World {
    let world = World::new();
    world.maildir("inbox", &MESSAGES);
    world
}

/// Runs a command with an editor that is a shell script of one line, and a program that sends.
fn run(world: &World, editor: &str, args: &[&str]) -> Run {
    let script = world.write("editor", format!("#!/bin/sh\n{editor}\n").as_bytes());
    world.set_mode("editor", 0o700);
    let tmp = world.create_dir("tmp");
    let mut command = world.command();
    command.args(args).env("EDITOR", script).env("TMPDIR", tmp);
    Run::of(command.output().unwrap())
}

fn flags(world: &World) -> String {
    let line = &world.json(&["ls", "inbox", "1"])[0];
    format!("{} {}", line["flags"], line["keywords"])
}

#[test]
fn a_draft_is_printed() {
    let world = world();
    let text = world.ok(&["reply", "--from", "Bob <bob@x.example>", "inbox", "subject:plan"]);
    let (header, body) = text.split_once("\n\n").unwrap();
    for field in [
        "To: \"Ann\" <ann@x.example>",
        "From: \"Bob\" <bob@x.example>",
        "Subject: Re: plan",
        "In-Reply-To: <1@x>",
        "References: <1@x>",
    ] {
        assert!(header.lines().any(|line| line == field), "{field} is not in\n{header}");
    }
    assert_eq!(body.trim_end(), "On 2024-05-17 16:20, Ann wrote:\n> one\n> two");
    let all = world.ok(&["reply", "-a", "--no-quote", "--from", "bob@x.example", "inbox", "1"]);
    assert!(all.contains("\nCc: <cy@x.example>\n") && !all.contains("wrote:"), "{all}");
    let line = &parse_lines(&world.ok(&["reply", "inbox", "1", "--json"]))[0];
    assert_eq!(line["type"], "draft");
    assert_eq!(flags(&world), "[\"\\\\Seen\"] []");
}

#[test]
fn what_was_edited_is_sent_and_marked() {
    let world = world();
    let sent = format!("cat > {}", world.path("sent").display());
    let args = ["reply", "--send", "--sendmail", &*sent, "inbox", "1"];
    let done = run(&world, "echo thanks >> \"$1\"", &args);
    assert_eq!((done.code, &*done.text(), &*done.stderr), (0, "sent to ann@x.example\n", ""));
    let sent = String::from_utf8(world.read("sent")).unwrap();
    assert!(sent.contains("> two\n\nthanks\n") && sent.contains("Subject: Re: plan"), "{sent}");
    assert_eq!(flags(&world), "[\"\\\\Answered\",\"\\\\Seen\"] []");
    assert!(world.list("tmp").is_empty());
}

#[test]
fn a_text_that_was_not_changed_is_not_sent() {
    let world = world();
    let sent = format!("cat > {}", world.path("sent").display());
    let args = ["reply", "--send", "--sendmail", &*sent, "inbox", "1"];
    let done = run(&world, "true", &args);
    assert!(done.code == 1 && done.stderr.contains("not sent"), "{}", done.stderr);
    assert!(!world.has("sent") && world.list("tmp").is_empty());
    assert_eq!(flags(&world), "[\"\\\\Seen\"] []");
}

#[test]
fn what_could_not_be_sent_is_kept() {
    let check = |editor: &str, sendmail: &str, expected: &str, kept: &str| {
        let world = world();
        let args = ["reply", "--send", "--sendmail", sendmail, "inbox", "1"];
        let done = run(&world, editor, &args);
        assert!(done.code == 2 && done.stderr.contains(expected), "{}", done.stderr);
        let files = world.list("tmp");
        assert!(files.len() == 1 && done.stderr.contains(&files[0]), "{}", done.stderr);
        let text = String::from_utf8(world.read(&format!("tmp/{}", files[0]))).unwrap();
        assert!(text.contains(kept), "{text}");
        assert_eq!(flags(&world), "[\"\\\\Seen\"] []");
    };
    check("echo thanks >> \"$1\"", "cat > /dev/null; exit 75;", "status 75", "thanks");
    check("echo thanks >> \"$1\"", "/nowhere/sendmail", "status 127", "thanks");
    check("echo thanks >> \"$1\"; exit 3", "cat > /dev/null", "status 3", "thanks");
    check("echo 'To: nobody' > \"$1\"", "cat > /dev/null", "is not an address", "nobody");
    check("echo no header > \"$1\"", "cat > /dev/null", "line 1: \"no header\"", "no header");
}

#[test]
fn a_message_is_forwarded_whole() {
    let world = world();
    let sent = format!("cat > {}", world.path("sent").display());
    let to = ["--to", "dan@x.example", "inbox", "1"];
    let args = [&["forward", "--send", "--sendmail", &*sent], &to[..]].concat();
    let done = run(&world, "echo fyi >> \"$1\"", &args);
    assert_eq!((done.code, &*done.text(), &*done.stderr), (0, "sent to dan@x.example\n", ""));
    let message = world.read("sent");
    world.write("sent.mbox", &[b"From x Fri May 17 16:20:00 2024\n", &*message].concat());
    let structure = world.ok(&["show", "--structure", "sent.mbox", "1"]);
    assert!(structure.contains("message/rfc822"), "{structure}");
    let shown = world.ok(&["show", "--part", "2", "sent.mbox", "1"]);
    assert_eq!(shown.trim_end(), MESSAGES[0].trim_end());
    assert_eq!(flags(&world), "[\"\\\\Seen\"] [\"$Forwarded\"]");
    let inline = world.ok(&["forward", "--inline", "inbox", "1"]);
    assert!(inline.contains("Forwarded message") && inline.contains("two"), "{inline}");
}

#[test]
fn one_message_is_answered_and_it_exists() {
    let world = world();
    let check = |args: &[&str], code: i32, expected: &str| {
        let run = world.run(args);
        assert!(run.code == code && run.stderr.contains(expected), "{args:?} {}", run.stderr);
    };
    check(&["reply", "inbox", "9"], 1, "no message with UID 9");
    check(&["reply", "inbox", "from:nobody"], 1, "no message was found");
    check(&["reply", "inbox", "from:ann"], 2, "2 messages are named");
    check(&["reply", "inbox", ""], 2, "an empty list of messages");
    check(&["reply", "nowhere", "1"], 2, "nowhere");
    check(&["reply", "--list", "inbox", "1"], 2, "no mailing list");
    check(&["reply", "--from", "bob", "inbox", "1"], 2, "\"bob\" is not an address");
    check(&["forward", "--to", "bob", "inbox", "1"], 2, "\"bob\" is not an address");
    check(&["reply", "-", "1"], 2, "can only be read");
}
