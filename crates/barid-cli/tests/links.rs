//! Folders of links to found messages, from outside.
#![expect(clippy::disallowed_methods, reason = "the program is tested from outside, on real files")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use barid_testkit::peers::{NeoMutt, NeoMuttRun, program};
use barid_testkit::skip_or_fail;
use barid_testkit::usage::Sampling;

use crate::support::{World, mbox};

const ANN: &str = "From: ann@x.example\nSubject: plan\nMessage-ID: <1@x>\n\nThe budget.\n";
const BOB: &str = "From: bob@x.example\nSubject: lunch\nMessage-ID: <2@x>\n\nNo budget.\n";
const CARL: &str = "From: carl@x.example\nSubject: report\nMessage-ID: <3@x>\n\nA budget.\n";

/// A Maildir, an MH folder and an mbox with a message each, and links to all in `found`.
pub(crate) fn world() -> World {
    let world = World::new();
    world.maildir("inbox", &[BOB.replace("budget", "time").as_str(), ANN]);
    world.maildir("source", &[BOB]);
    world.ok(&["copy", "--create", "source", "all", "mh:folder"]);
    world.write("archive.mbox", mbox(&[CARL]).as_bytes());
    let made = world.ok(&[&SEARCH[..], &["budget"]].concat());
    assert_eq!(made, "found: 2 links, 1 copy\n");
    world
}

pub(crate) const SEARCH: [&str; 11] = [
    "search",
    "--output",
    "links",
    "--to",
    "found",
    "--in",
    "inbox",
    "--in",
    "folder",
    "--in",
    "archive.mbox",
];

/// Returns the file of a link by its number, relative to the world.
pub(crate) fn file(world: &World, number: usize) -> String {
    let names = world.list("found/cur");
    let name = names.iter().find(|name| name.contains(&format!(".L{number}.barid")));
    format!("found/cur/{}", name.unwrap())
}

/// Gives a file the letters of flags, as mail programs do.
pub(crate) fn flag(world: &World, number: usize, letters: &str) {
    let old = file(world, number);
    let base = old.split(":2,").next().unwrap().to_owned();
    world.rename(&old, format!("{base}:2,{letters}"));
}

pub(crate) fn flags(world: &World, mailbox: &str, uid: &str) -> String {
    let line = world.json(&["ls", mailbox, uid]);
    let flags = line[0]["flags"].as_array().unwrap().iter();
    let flags = flags.map(|flag| flag.as_str().unwrap()).filter(|flag| *flag != r"\Recent");
    flags.collect::<Vec<_>>().join(" ")
}

#[test]
fn links_lead_to_messages() {
    let world = world();
    for (number, text) in [(1, ANN), (2, BOB), (3, CARL)] {
        let name = file(&world, number);
        let found = String::from_utf8(world.read(&name)).unwrap();
        assert!(found.ends_with(text.split("\n\n").nth(1).unwrap()), "{found}");
        let is_link = fs::symlink_metadata(world.path(&name)).unwrap().is_symlink();
        assert_eq!(is_link, number < 3, "{name}");
    }
    assert!(file(&world, 1).ends_with(".L1.barid:2,S"));
    let target = fs::read_link(world.path(&file(&world, 1))).unwrap();
    assert!(target.is_absolute() && target.starts_with(world.path("inbox/cur")), "{target:?}");
    let run = world.run(&[&SEARCH[..], &["budget"]].concat());
    assert!(run.code == 2 && run.stderr.contains("found: not empty"), "{}", run.stderr);
    world.create_dir("empty");
    let made = world.json(&["search", "--output", "links", "--to", "empty", "inbox", "from:ann"]);
    assert_eq!((&made[0]["links"], &made[0]["copies"]), (&1.into(), &0.into()));
    for (args, message) in [
        (&["search", "--output", "links", "inbox", "all"][..], "needs a folder"),
        (&["search", "--to", "x", "inbox", "all"], "--to is for --output links"),
    ] {
        let run = world.run(args);
        assert!(run.code == 2 && run.stderr.contains(message), "{}", run.stderr);
    }
    assert!(!world.has("x"));
}

#[test]
fn flags_come_back_to_the_messages() {
    let world = world();
    let old = fs::read_link(world.path(&file(&world, 1))).unwrap();
    flag(&world, 1, "FRST");
    flag(&world, 2, "");
    flag(&world, 3, "FS");
    // Somebody else has flagged a message meanwhile: that stays.
    world.ok(&["flag", "archive.mbox", "1", "+answered"]);
    let told = world.ok(&["sync", "found"]);
    assert_eq!(told.matches(": flagged 1 message, ").count(), 3, "{told}");
    assert_eq!(flags(&world, "inbox", "2"), r"\Answered \Flagged \Deleted \Seen");
    assert_eq!(flags(&world, "folder", "1"), "");
    assert_eq!(flags(&world, "archive.mbox", "1"), r"\Answered \Flagged \Seen");
    // The flags have renamed the file in the Maildir, and the link follows.
    let new = fs::read_link(world.path(&file(&world, 1))).unwrap();
    assert!(new != old && !old.exists() && new.exists(), "{old:?} {new:?}");
    assert!(world.list("found/tmp").is_empty());
    let told = world.ok(&["sync", "found"]);
    assert_eq!(told.matches(": flagged 0 messages, 0 links\n").count(), 3, "{told}");
    // Only what has changed in the folder since is brought back.
    world.ok(&["flag", "inbox", "2", "-flagged"]);
    flag(&world, 1, "FRS");
    world.ok(&["sync", "found"]);
    assert_eq!(flags(&world, "inbox", "2"), r"\Answered \Seen");
    assert!(file(&world, 1).ends_with(":2,RS"), "{}", file(&world, 1));
}

#[test]
fn flags_of_messages_come_to_their_links() {
    let world = world();
    world.ok(&["flag", "inbox", "2", "+flagged", "-seen", "+todo"]);
    world.ok(&["flag", "folder", "1", "+answered"]);
    world.ok(&["flag", "archive.mbox", "1", "+draft", "+deleted"]);
    // Letters of keywords, and of \Passed, are those of mail programs, and stay.
    flag(&world, 3, "PSa");
    let told = world.ok(&["sync", "found"]);
    assert_eq!(told.matches(": flagged 0 messages, 1 link\n").count(), 2, "{told}");
    let names: Vec<_> = (1..4).map(|number| file(&world, number)).collect();
    let letters: Vec<_> = names.iter().map(|name| name.split(":2,").nth(1).unwrap()).collect();
    assert_eq!(letters, ["F", "RS", "DPSTa"], "{told}");
    for (name, text) in names.iter().zip([ANN, BOB, CARL]) {
        let found = String::from_utf8(world.read(name)).unwrap();
        assert!(found.ends_with(text.split("\n\n").nth(1).unwrap()), "{found}");
    }
    assert_eq!(flags(&world, "archive.mbox", "1"), r"\Deleted \Seen \Draft");
    // Both sides alike, and both sides with different flags.
    world.ok(&["flag", "inbox", "2", "+seen"]);
    flag(&world, 1, "FRS");
    let told = world.json(&["sync", "found"]);
    assert_eq!((&told[0]["flagged"], &told[0]["followed"]), (&1.into(), &0.into()));
    assert_eq!(flags(&world, "inbox", "2"), r"\Answered \Flagged \Seen");
    // What mail programs have put into `new` gets its flags in `cur`.
    let name = file(&world, 2);
    let base = name.split(":2,").next().unwrap().trim_start_matches("found/cur/").to_owned();
    world.rename(&name, format!("found/new/{base}"));
    world.ok(&["flag", "folder", "1", "+flagged"]);
    world.ok(&["sync", "found"]);
    assert_eq!(flags(&world, "folder", "1"), r"\Flagged");
    assert!(file(&world, 2).ends_with(":2,F") && world.list("found/new").is_empty());
    // A link that is there twice is left as it is, and so is its message.
    world.write(&format!("found/cur/{base}:2,S"), b"");
    world.ok(&["flag", "folder", "1", "-flagged"]);
    let run = world.run(&["sync", "found"]);
    assert!(run.code == 0 && run.stderr.contains("there twice"), "{}", run.stderr);
    assert_eq!(flags(&world, "folder", "1"), "");
    assert_eq!(world.list("found/cur").len(), 4);
}

#[test]
fn a_removed_link_changes_nothing() {
    let world = world();
    let before: Vec<_> = ["inbox", "folder"].map(|name| world.json(&["ls", name])).into();
    for number in 1..=3 {
        world.remove(&file(&world, number));
    }
    symlink("/nowhere", world.path("found/cur/1.other:2,F")).unwrap();
    world.ok(&["sync", "found"]);
    let after: Vec<_> = ["inbox", "folder"].map(|name| world.json(&["ls", name])).into();
    assert_eq!(before, after);
    world.remove("found");
    assert_eq!(world.ok(&["count", "archive.mbox"]), "1\n");
}

#[test]
fn a_folder_of_links_refuses_what_it_cannot_do() {
    let world = world();
    for option in ["--list", "--dry-run", "--discard-pending", "--take-over"] {
        let run = world.run(&["sync", option, "found"]);
        assert!(run.code == 2 && run.stderr.contains("a folder of links"), "{}", run.stderr);
    }
    let run = world.run(&["sync", "--read-only", "found"]);
    assert!(run.code == 2 && run.stderr.contains("--read-only forbids"), "{}", run.stderr);
    // Other UIDs: other messages.
    let list = String::from_utf8(world.read("found/.barid-links")).unwrap();
    let line = list.lines().find(|line| line.ends_with("/inbox")).unwrap();
    let number = line.split(' ').nth(1).unwrap();
    let (known, other) = (format!("mailbox {number} "), "mailbox 17 ");
    world.write("found/.barid-links", list.replacen(&known, other, 1).as_bytes());
    flag(&world, 1, "F");
    let run = world.run(&["sync", "found"]);
    assert!(run.code == 2 && run.stderr.contains("have other UIDs"), "{}", run.stderr);
    assert_eq!(flags(&world, "inbox", "2"), r"\Seen");
    world.write("found/.barid-links", b"barid-links 3\n");
    let run = world.run(&["sync", "found"]);
    assert!(run.code == 2 && run.stderr.contains("another version"), "{}", run.stderr);
}

#[test]
fn links_of_somebody_else_change_nothing() {
    let world = world();
    flag(&world, 1, "FT");
    let run = world.run(&["sync", "found", "--state-dir", "other"]);
    assert!(run.code == 2 && run.stderr.contains("not made here"), "{}", run.stderr);
    assert_eq!(flags(&world, "inbox", "2"), r"\Seen");
    // Names that are not absolute, and folders that lead elsewhere.
    let list = String::from_utf8(world.read("found/.barid-links")).unwrap();
    let line = list.lines().find(|line| line.ends_with("/inbox")).unwrap();
    let name = line.split(' ').nth(2).unwrap();
    world.write("found/.barid-links", list.replace(name, "inbox").as_bytes());
    let run = world.run(&["sync", "found"]);
    assert!(run.code == 2 && run.stderr.contains("damaged"), "{}", run.stderr);
    world.write("found/.barid-links", list.as_bytes());
    world.rename("found/new", "elsewhere");
    symlink(world.path("elsewhere"), world.path("found/new")).unwrap();
    let run = world.run(&["sync", "found"]);
    assert!(run.code == 2 && run.stderr.contains("found/new: not a folder"), "{}", run.stderr);
    assert_eq!(flags(&world, "inbox", "2"), r"\Seen");
}

#[test]
fn links_are_no_messages_of_their_own() {
    let world = world();
    let run = world.run(&["search", "--output", "links", "--to", "again", "--in", "found", "all"]);
    assert!(run.code == 2 && run.stderr.contains("a folder of links"), "{}", run.stderr);
    assert!(!world.has("again"));
    let listed = world.ok(&["ls", "--duplicates", "--tree", "."]);
    assert!(listed.contains("inbox") && !listed.contains("found"), "{listed}");
}

#[test]
fn a_mail_program_opens_a_folder_of_links() {
    let Some(neomutt) = NeoMutt::new() else { return };
    let world = world();
    world.hand_over();
    let found: &Path = &world.path("found");
    let run = neomutt.count(found).unwrap();
    assert_eq!(run.messages, Some(3), "{}", run.screen);
}

/// The settings of mutt: no questions, and a reply without a change in the editor is sent.
const MUTTRC: &str = "\
set from=me@x.example\nset hostname=x.example\nset editor=:\nset abort_unmodified=no\n\
set fast_reply=yes\nset include=no\nset copy=no\nset sendmail_wait=0\nset move=no\n\
set delete=yes\nset quit=yes\nset wait_key=no\nset mark_old=no\nset resolve=no\nset sort=from\n";

#[test]
fn a_reply_in_mutt_marks_the_message_as_answered() {
    let Some(mutt) = program("mutt") else {
        return skip_or_fail("mutt (Debian package mutt)");
    };
    let world = world();
    world.remove("found");
    world.ok(&["flag", "inbox", "2", "-seen"]);
    world.ok(&[&SEARCH[..], &["budget"]].concat());
    let sendmail = world.write("sendmail", b"#!/bin/sh\ncat >>sent\n");
    world.set_mode("sendmail", 0o700);
    let (folder, temporary) = (world.path("").display().to_string(), world.create_dir("tmp"));
    let config = format!(
        "{MUTTRC}set folder=\"{folder}\"\nset tmpdir=\"{temporary}\"\nset sendmail=\"{sendmail}\"\n"
    );
    let config = world.write("muttrc", config.as_bytes());
    // Ann's message is a link, Bob's too and only marked, Carl's a copy of one in an mbox.
    let keys = "<first-entry><reply><send-message><last-entry><reply><send-message>\
        <first-entry><next-entry><flag-message><quit>";
    // A question that was not foreseen must not wait for an answer.
    let mut command = Command::new("timeout");
    command.args(["--foreground", "60"]).arg(mutt);
    command.envs(world.command().get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.args(["-n", "-F", &config, "-f", "found", "-e", &format!("push \"{keys}\"")]);
    command.env("TERM", "xterm").current_dir(world.path(""));
    let run = NeoMuttRun::of(command, Sampling::Off).unwrap();
    let sent = String::from_utf8(world.try_bytes("sent").unwrap_or_default()).unwrap();
    for (to, id) in [("ann@x.example", "<1@x>"), ("carl@x.example", "<3@x>")] {
        assert!(sent.contains(&format!("To: {to}")), "{sent}\n{}", run.screen);
        assert!(sent.contains(&format!("In-Reply-To: {id}")), "{sent}\n{}", run.screen);
    }
    let told = world.ok(&["sync", "found"]);
    assert_eq!(told.matches(": flagged 1 message, 0 links\n").count(), 3, "{told}");
    assert_eq!(flags(&world, "inbox", "2"), r"\Answered \Seen");
    assert_eq!(flags(&world, "archive.mbox", "1"), r"\Answered \Seen");
    assert_eq!(flags(&world, "folder", "1"), r"\Flagged \Seen");
    // Nothing else has changed: all messages are there, as they were.
    assert_eq!(flags(&world, "inbox", "1"), r"\Seen");
    for (mailbox, uid, text) in [("inbox", "2", ANN), ("archive.mbox", "1", CARL)] {
        let raw = world.ok(&["show", "--raw", mailbox, uid]);
        assert!(raw.ends_with(text.split("\n\n").nth(1).unwrap()), "{raw}");
    }
    // What is changed at the message after that comes to mutt.
    world.ok(&["flag", "inbox", "2", "+flagged"]);
    world.ok(&["sync", "found"]);
    assert!(file(&world, 1).ends_with(":2,FRS"), "{}", file(&world, 1));
}
