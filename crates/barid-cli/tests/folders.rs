//! `barid folders`.

use serde_json::{Value, json};

use crate::support::{World, mbox};

fn find<'a>(lines: &'a [Value], name: &str) -> &'a Value {
    lines.iter().find(|line| line["name"] == name).unwrap_or_else(|| panic!("{name}: {lines:?}"))
}

#[test]
fn a_folder_of_mailboxes() {
    let world = World::new();
    world.maildir("mail/Inbox", &["Subject: a\n\n", "Subject: b\n\n"]);
    world.deliver("mail/Inbox", "new/1700000000.x.host", "Subject: c\n\n");
    world.write("mail/lists/dev.mbox", mbox(&["Subject: d\n\n"]).as_bytes());
    world.write("mail/notes.txt", b"no mailbox\n");
    let lines = world.json(&["folders", "mail"]);
    let inbox = find(&lines, "Inbox");
    assert_eq!((&inbox["messages"], &inbox["unseen"]), (&json!(3), &json!(1)));
    assert_eq!(inbox["format"], "maildir");
    let dev = find(&lines, "dev.mbox");
    assert_eq!((&dev["messages"], &dev["unseen"]), (&json!(1), &json!(1)));
    assert!(lines.iter().all(|line| line["name"] != "notes.txt"));
    assert!(find(&lines, "lists")["depth"].as_u64() < dev["depth"].as_u64());
    let text = world.ok(&["folders", "mail"]);
    assert!(text.starts_with("messages  unseen  mailbox\n"), "{text}");
    assert!(text.contains("       3       1  ") && text.contains("└─ dev.mbox"), "{text}");
}

#[test]
fn maildir_plus_plus() {
    let world = World::new();
    world.maildir("Maildir", &["Subject: a\n\n"]);
    world.maildir("Maildir/.Archive", &[]);
    world.maildir("Maildir/.Archive.2024", &["Subject: b\n\n"]);
    let lines = world.json(&["folders", "Maildir"]);
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(find(&lines, "2024")["messages"], 1);
    assert_eq!(lines[0]["depth"], 0);
}

#[test]
fn names_go_in_as_they_come_out() {
    let world = World::new();
    world.maildir("Maildir", &["Subject: a\n\n"]);
    world.maildir("Maildir/.Entw&APw-rfe", &["Subject: b\n\n"]);
    world.maildir("Maildir/.Archive.2024", &["Subject: c\n\n", "Subject: d\n\n"]);
    let lines = world.json(&["folders", "Maildir"]);
    let mut names: Vec<&str> = Vec::new();
    for line in &lines {
        names.truncate(line["depth"].as_u64().unwrap() as usize);
        names.push(line["name"].as_str().unwrap());
        if line["format"].is_string() {
            let status = world.json(&["status", &names.join("/")]);
            assert_eq!(status[0]["messages"], line["messages"], "{names:?}");
        }
    }
    assert_eq!(world.json(&["ls", "Maildir/Entwürfe"])[0]["subject"], "b");
    world.ok(&["copy", "--create", "Maildir", "1", "Maildir/Archive/2031"]);
    assert!(world.has("Maildir/.Archive.2031/cur") && !world.has("Maildir/Archive"));
    world.ok(&["copy", "--create", "Maildir", "1", "Maildir/Entwürfe/alt"]);
    assert!(world.has("Maildir/.Entw&APw-rfe.alt/cur"));
    assert_eq!(world.json(&["ls", "Maildir/Entwürfe/alt"]).len(), 1);
    world.ok(&["convert", "Maildir", "--one", "Maildir/neu"]);
    assert!(world.has("Maildir/.neu/cur"));
    world.write("mh/.mh_sequences", b"");
    world.write("mh/1", b"Subject: e\n\n");
    world.ok(&["copy", "--create", "Maildir", "1", "mh/sub"]);
    assert_eq!(world.json(&["status", "mh/sub"])[0]["format"], "mh");
    world.ok(&["copy", "--create", "Maildir", "1", "plain"]);
    assert_eq!(world.json(&["status", "plain"])[0]["format"], "mboxo");
}

#[test]
fn without_counts_nothing_is_opened() {
    let world = World::new();
    world.maildir("mail/Inbox", &["Subject: a\n\n"]);
    let lines = world.json(&["folders", "--no-counts", "mail"]);
    assert_eq!(find(&lines, "Inbox").get("messages"), None);
    assert!(!world.has("home/.cache/barid"));
    assert!(!world.has("mail/Inbox/dovecot-uidlist"));
    assert!(!world.ok(&["folders", "--no-counts", "mail"]).contains("messages"));
}

#[test]
fn an_empty_folder_has_none() {
    let world = World::new();
    world.create_dir("mail");
    let run = world.run(&["folders", "mail"]);
    assert_eq!((run.code, run.stdout.len()), (1, 0));
    assert!(run.stderr.contains("mail: no mailbox in this folder or below it"), "{}", run.stderr);
}
