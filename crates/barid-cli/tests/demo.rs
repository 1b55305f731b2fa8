//! `barid demo` with few messages.

use crate::support::World;

#[test]
fn it_shows_what_took_how_long_and_leaves_nothing_behind() {
    let world = World::new();
    let text = world.ok(&["demo", "--messages", "300"]);
    for part in ["Making 300 messages in ", "The newest of ", "Times", "open again"] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    assert!(world.list(".").is_empty(), "{:?}", world.list("."));
}

#[test]
fn it_keeps_the_mailboxes_when_asked() {
    let world = World::new();
    let lines = world.json(&["demo", "--messages", "100", "--keep"]);
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| line["messages"] == 100 && line["all_ms"].is_number()));
    let [folder] = &world.list(".")[..] else { panic!("{:?}", world.list(".")) };
    for name in ["Maildir", "archive.mbox"] {
        let path = world.path(folder).join(name);
        assert_eq!(world.json(&["ls", path.to_str().unwrap()]).len(), 100);
    }
}
