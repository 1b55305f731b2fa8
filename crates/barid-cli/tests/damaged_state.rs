//! Damaged state: every command reports it, and UIDs that mean other messages are refused.

use std::path::PathBuf;

use barid::vfs::{OpenOptions, OsVfs, Vfs as _};
use serde_json::Value;

use crate::support::{World, mbox};

const MESSAGES: [&str; 5] = [
    "Subject: one\n\nbody one\n",
    "Subject: two\n\nbody two\n",
    "Subject: three\n\nbody three\n",
    "Subject: four\n\nbody four\n",
    "Subject: five\n\nbody five\n",
];

/// Returns the file in the state folder with this suffix.
fn state_file(world: &World, suffix: &str) -> PathBuf {
    let state = world.path("home/.local/state/barid");
    let mut found = Vec::new();
    let mut take = |name: &[u8], _| {
        let name = String::from_utf8_lossy(name).into_owned();
        found.extend(name.ends_with(suffix).then_some(name));
    };
    OsVfs.open_dir(&state).unwrap().list(&mut take).unwrap();
    assert_eq!(found.len(), 1, "{suffix}");
    state.join(&found[0])
}

fn uidvalidity(world: &World, path: &str) -> String {
    let run = world.run(&["--json", "--no-cache", "status", path]);
    let status: Value = serde_json::from_slice(&run.stdout).unwrap();
    status["uidvalidity"].to_string()
}

#[test]
fn uids_are_refused_after_a_renumbering() {
    let world = World::new();
    let path = world.write("box.mbox", mbox(&MESSAGES).as_bytes());
    let before = uidvalidity(&world, &path);
    let ledger = state_file(&world, ".ledger");
    let size = OsVfs.metadata(&ledger).unwrap().size;
    let file = OsVfs.open(&ledger, OpenOptions::WRITE).unwrap();
    (0..size).step_by(90).for_each(|at| file.write_all_at(&[0xa5; 8], at).unwrap());
    // The old numbering is unreadable; the new UIDVALIDITY is the second in which it is assigned.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let after = uidvalidity(&world, &path);
    assert_ne!(before, after);
    let new = world.write("new.eml", b"Subject: new\n\nnew\n");
    let refused: [&[&str]; 4] = [
        &["expunge", &path, "4"],
        &["flag", &path, "4", "+seen"],
        &["copy", "--create", &path, "2:4", "other"],
        &["expunge", "--uidvalidity", &before, &path, "4"],
    ];
    for args in refused {
        let run = world.run(args);
        assert_eq!(run.code, 2, "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains("nothing is changed"), "{}", run.stderr);
    }
    // Neither delivery, nor reading, nor commands without UIDs.
    for args in [
        &["append", &path, &new][..],
        &["ls", &path],
        &["show", &path, "4"],
        &["flag", &path, "all", "+flagged"],
        &["expunge", "--uidvalidity", &after, &path, "4"],
    ] {
        let run = world.run(args);
        assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains("messages have new UIDs"), "{args:?}: {}", run.stderr);
    }
    assert_eq!(world.run(&["check", &path]).code, 2);
    assert_eq!(world.run(&["check", "--repair", &path]).code, 0);
    world.ok(&["expunge", &path, "3"]);
    world.ok(&["check", &path]);
}
