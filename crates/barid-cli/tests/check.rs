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
        assert_eq!((run.code, run.text().contains("2 messages, nothing wrong")), (0, true));
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
        let told = "100 zeros stand behind the last message";
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
fn what_changed_since_is_not_undone() {
    let world = World::new();
    let path = world.write("box.mbox", &[mbox(&MESSAGES).as_bytes(), &[0; 100]].concat());
    assert_eq!(world.run(&["check", "--repair", &path]).code, 0);
    let more = mbox(&["Subject: three\n\nlater\n"]);
    world.write("box.mbox", (mbox(&MESSAGES) + &more).as_bytes());
    let run = world.run(&["check", "--undo", &path]);
    assert_eq!((run.code, run.stderr.contains("changed since it was repaired")), (2, true));
    assert_eq!(world.json(&["status", &path])[0]["messages"], 3);
    let run = world.run(&["check", "--repair", "--read-only", &path]);
    assert_eq!(run.code, 2);
}
