//! Tests that the exit status of a command only covers what it was asked to do, and not changes
//! accepted before: a script that repeats a delivery would duplicate the mail.

use crate::spam::{messages, taught};
use crate::support::{Run, World, mbox};

/// The first message stays, the last one is removed, and between them are three that differ only in
/// their bodies.
const MESSAGES: [&str; 5] = [
    "Subject: one\nMessage-ID: <1@x>\n\nbody one\n",
    "Subject: twin\n\nbody two\n",
    "Subject: twin\n\nbody three\n",
    "Subject: twin\n\nbody four\n",
    "Subject: five\n\nbody five\n",
];

/// The verbs that change a mailbox, each with arguments that succeed.
const VERBS: [&[&str]; 8] = [
    &["append", "box.mbox", "new.eml"],
    &["append", "--mbox", "box.mbox", "other.mbox"],
    &["copy", "other.mbox", "all", "box.mbox"],
    &["expunge", "box.mbox", "1"],
    &["expunge", "--keep-expunged", "no", "box.mbox", "1"],
    &["flag", "--write-through", "box.mbox", "1", "+answered"],
    &["flag", "box.mbox", "1", "+answered"],
    &["undo", "box.mbox"],
];

/// Makes a mailbox with a message that can be brought back and with pending changes.
fn world(pending: &[&str]) -> World {
    let world = World::new();
    world.write("box.mbox", mbox(&MESSAGES).as_bytes());
    world.write("new.eml", b"Subject: new\n\nbody\n");
    world.write("other.mbox", mbox(&["Subject: other\n\nbody\n"]).as_bytes());
    world.write("kept.mbox", mbox(&MESSAGES).as_bytes());
    world.ok(&["append", "box.mbox", "new.eml"]);
    world.ok(&["expunge", "box.mbox", "6"]);
    for uid in pending {
        world.ok(&["flag", "box.mbox", uid, "+flagged"]);
    }
    world
}

/// Replaces the mailbox with these messages, as another program would.
fn rewrite(world: &World, messages: &[&str]) {
    let file = barid::vfs::OsVfs;
    let options = barid::vfs::OpenOptions { truncate: true, ..barid::vfs::OpenOptions::WRITE };
    let file = barid::vfs::Vfs::open(&file, &world.path("box.mbox"), options).unwrap();
    file.write_all_at(mbox(messages).as_bytes(), 0).unwrap();
}

fn check(verb: &[&str], run: &Run, code: i32, warning: &str) {
    assert_eq!(run.code, code, "{verb:?}: {}", run.stderr);
    assert!(run.stderr.contains(warning), "{verb:?}: {}", run.stderr);
    assert!(!run.stderr.contains("error:"), "{verb:?}: {}", run.stderr);
}

#[test]
fn a_pending_change_of_a_message_that_is_gone_is_a_warning() {
    let warning = "warning: the pending changes of 1 message (UID 5) are dropped";
    for verb in VERBS {
        let world = world(&["5"]);
        rewrite(&world, &MESSAGES[..4]);
        let run = world.run(verb);
        // A change that is only accepted leaves the others pending.
        let is_accepted = verb[..2] == ["flag", "box.mbox"];
        check(verb, &run, 0, if is_accepted { "" } else { warning });
    }
    let world = world(&["5"]);
    rewrite(&world, &MESSAGES[..4]);
    check(&["sync"], &world.run(&["sync", "box.mbox"]), 1, warning);
    check(&["sync"], &world.run(&["sync", "box.mbox"]), 0, "");
}

#[test]
fn a_pending_change_that_may_mean_several_messages_is_a_warning() {
    let warning = "warning: 1 pending change may belong to one of several messages";
    let twins = [MESSAGES[0], MESSAGES[1], MESSAGES[2]];
    let run = |verb: &[&str]| {
        let world = world(&["4"]);
        rewrite(&world, &twins);
        world.run(verb)
    };
    for verb in VERBS {
        let is_accepted = verb[..2] == ["flag", "box.mbox"];
        check(verb, &run(verb), 0, if is_accepted { "" } else { warning });
    }
    check(&["sync"], &run(&["sync", "box.mbox"]), 2, warning);
}

#[test]
fn a_header_that_cannot_be_written_is_a_warning_unless_it_was_asked_for() {
    let huge = format!("Subject: huge\nX-Long: {}\n\nbody\n", "x".repeat(1 << 20));
    let warning = "the headers of 1 message (UID 2) cannot be rewritten";
    for verb in VERBS {
        let world = World::new();
        world.write("box.mbox", mbox(&[MESSAGES[0], &huge, MESSAGES[4]]).as_bytes());
        world.write("new.eml", b"Subject: new\n\nbody\n");
        world.write("other.mbox", mbox(&["Subject: other\n\nbody\n"]).as_bytes());
        world.ok(&["append", "box.mbox", "new.eml"]);
        world.ok(&["expunge", "box.mbox", "4"]);
        world.ok(&["flag", "box.mbox", "2", "+flagged"]);
        let is_accepted = verb[..2] == ["flag", "box.mbox"];
        check(verb, &world.run(verb), 0, if is_accepted { "" } else { warning });
    }
}

#[test]
fn what_the_command_named_itself_counts() {
    let world = world(&["5"]);
    rewrite(&world, &MESSAGES[..4]);
    for verb in
        [&["flag", "--write-through", "box.mbox", "9", "+seen"][..], &["expunge", "box.mbox", "9"]]
    {
        let run = world.run(verb);
        assert_eq!(run.code, 1, "{verb:?}: {}", run.stderr);
    }
    let run = world.run(&["append", "--json", "box.mbox", "new.eml"]);
    let line: serde_json::Value = serde_json::from_str(run.text().trim()).unwrap();
    assert_eq!(line["missing_uids"], serde_json::json!([]));
    assert_eq!(line["pending_gone_uids"], serde_json::json!([5]));
}

#[test]
fn a_conversion_is_not_judged_by_what_was_pending() {
    let world = world(&["1", "5"]);
    rewrite(&world, &MESSAGES[..4]);
    check(&["convert"], &world.run(&["convert", "box.mbox", "maildir:converted"]), 0, "");
    let flagged = world.json(&["search", "maildir:converted", "is:flagged"]);
    assert_eq!(flagged.len(), 1, "what is pending for a message that is there counts");
}

#[test]
fn moved_spam_is_not_judged_by_what_was_pending() {
    let world = taught();
    let mail = [messages("pills", 2), messages("minutes", 3)].concat();
    let mail: Vec<&str> = mail.iter().map(String::as_str).collect();
    world.write("box.mbox", mbox(&mail).as_bytes());
    world.ok(&["flag", "box.mbox", "5", "+flagged"]);
    rewrite(&world, &mail[..4]);
    let verb = ["spam", "move", "box.mbox", "--to", "mbox:caught", "--create"];
    let warning = "warning: the pending changes of 1 message (UID 5) are dropped";
    check(&verb, &world.run(&verb), 0, warning);
    assert_eq!(world.json(&["status", "caught"])[0]["messages"], 2);
    assert_eq!(world.json(&["status", "box.mbox"])[0]["messages"], 2);
}
