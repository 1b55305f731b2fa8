//! `barid check`.

use crate::support::{World, mbox, parse_lines};

const MESSAGES: [&str; 2] =
    ["Subject: one\n\nbody one\n", "Subject: two\nFrom: a@b\n\nbody of the second\n"];

#[test]
fn a_sound_mailbox_is_said_to_be_sound() {
    let world = World::new();
    let mbox = world.write("box.mbox", mbox(&MESSAGES).as_bytes());
    let maildir = world.maildir("box", &MESSAGES);
    for path in [mbox, maildir] {
        let run = world.run(&["check", &path]);
        assert_eq!((run.code, run.text().contains("2 messages, no damage")), (0, true));
        let run = world.run(&["check", "--repair", &path]);
        assert_eq!((run.code, run.text().contains("nothing was repaired")), (0, true));
        assert_eq!(world.run(&["check", "--undo", &path]).code, 1);
    }
}

#[test]
fn damage_is_told_repaired_and_undone() {
    let world = World::new();
    let damaged = [mbox(&MESSAGES).as_bytes(), &[0; 100]].concat();
    let path = world.write("box.mbox", &damaged);
    let bytes = || world.read("box.mbox");
    for args in [&["check", &path][..], &["check", "--repair", "--dry-run", &path]] {
        let run = world.run(args);
        let told = "100 zeros follow the last message";
        assert_eq!((run.code, run.text().contains(told)), (2, true), "{}", run.text());
        assert_eq!(bytes(), damaged);
    }
    let found = parse_lines(&world.run(&["check", "--json", &path]).text());
    let [damage, summary] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&damage["type"], &damage["kind"]), (&"damage".into(), &"zeros-at-end".into()));
    assert_eq!(damage["offset"], damaged.len() - 100);
    assert_eq!(damage["severity"], "warning");
    assert_eq!((&summary["type"], &summary["repairable"]), (&"check".into(), &true.into()));
    let done = world.json(&["check", "--repair", &path]);
    assert_eq!((&done[1]["repaired"], &done[1]["left"]), (&true.into(), &0.into()));
    assert_eq!(done[1]["bytes_kept"], 100);
    assert_eq!(bytes(), mbox(&MESSAGES).as_bytes());
    let undone = world.json(&["check", "--undo", &path]);
    assert_eq!((&undone[0]["type"], &undone[0]["files"]), (&"repair_undone".into(), &1.into()));
    assert_eq!(bytes(), damaged);
    assert_eq!(world.run(&["check", "--undo", &path]).code, 1);
}

#[test]
fn what_is_kept_is_listed_and_forgotten() {
    let world = World::new();
    let damaged = [mbox(&MESSAGES).as_bytes(), &[0; 100]].concat();
    let path = world.write("box.mbox", &damaged);
    let run = world.run(&["check", "--list-kept", &path]);
    assert_eq!((run.code, run.text().contains("no repair is kept")), (1, true), "{}", run.text());
    assert_eq!(world.run(&["check", "--discard", &path]).code, 1);
    world.ok(&["check", "--repair", &path]);
    world.ok(&["check", "--undo", &path]);
    world.ok(&["check", "--repair", &path]);
    let kept = world.json(&["check", "--list-kept", &path]);
    let told = |at: usize| {
        (kept[at]["number"].as_u64(), kept[at]["state"].as_str(), kept[at]["changes"].as_u64())
    };
    assert_eq!(told(0), (Some(2), Some("kept"), Some(1)), "{kept:?}");
    assert_eq!(told(1), (Some(1), Some("undone"), Some(1)), "{kept:?}");
    assert_eq!(kept[0]["type"], "kept_repair");
    assert!(kept[0]["bytes"].as_u64() > Some(100) && kept[0]["date"].is_string(), "{kept:?}");
    let text = world.ok(&["check", "--list-kept", &path]);
    assert_eq!(text.lines().count(), 3, "{text}");
    let run = world.run(&["check", "--discard", "--read-only", &path]);
    assert_eq!(run.code, 2);
    assert!(world.ok(&["check", "--discard", &path]).contains("forgot 2 repairs"));
    assert_eq!(world.run(&["check", "--undo", &path]).code, 1);
    assert_eq!(world.run(&["check", "--list-kept", &path]).code, 1);
    for more in ["--repair", "--undo", "--list-kept"] {
        assert_eq!(world.run(&["check", "--discard", more, &path]).code, 2);
    }
}

#[test]
fn what_changed_since_is_not_undone() {
    let world = World::new();
    let path = world.write("box.mbox", &[mbox(&MESSAGES).as_bytes(), &[0; 100]].concat());
    assert_eq!(world.run(&["check", "--repair", &path]).code, 0);
    let more = mbox(&["Subject: three\n\nlater\n"]);
    world.write("box.mbox", (mbox(&MESSAGES) + &more).as_bytes());
    let run = world.run(&["check", "--undo", &path]);
    assert_eq!((run.code, run.stderr.contains("changed since it was repaired")), (2, true));
    assert!(run.stderr.contains("hint: `barid check` shows"), "{}", run.stderr);
    assert_eq!(world.json(&["status", &path])[0]["messages"], 3);
    let run = world.run(&["check", "--repair", "--read-only", &path]);
    assert_eq!(run.code, 2);
}
