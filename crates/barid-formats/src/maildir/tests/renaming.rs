//! Files that mbsync renames: `,U=` and a number at the end of the base name.

use std::path::Path;
use std::sync::Arc;

use barid_types::{Flag, FlagSet};
use barid_vfs::MemVfs;

use super::support::{World, flagged};

/// A Maildir of two messages that has been scanned, with a list of their UIDs.
fn world() -> World {
    let mut world = World::new(Arc::new(MemVfs::new()));
    world.put("cur/10.h:2,S", b"Subject: a\n\n");
    world.put("new/20.h", b"Subject: b\n\n");
    world.scan();
    assert_eq!(world.uids(), [1, 2]);
    world.pass_time();
    world
}

/// Scans with what is known, and again as if nothing were.
fn check(world: &mut World, lines: &[&str]) {
    for _ in 0..2 {
        world.pass_time();
        world.scan();
        assert_eq!(world.lines(), lines);
    }
    world.forget();
    world.scan();
    assert_eq!(world.lines(), lines, "without a cache");
}

#[test]
fn a_renamed_message_keeps_its_uid() {
    let mut world = world();
    world.rename("cur/10.h:2,S", "cur/10.h,U=7:2,S");
    world.rename("new/20.h", "new/20.h,U=8:2,");
    world.pass_time();
    let report = world.scan();
    assert_eq!((report.reset, report.expunged.len(), report.stats.messages_read), (false, 0, 0));
    let text = world.text("dovecot-uidlist");
    assert!(text.contains("\n1 :10.h,U=7\n2 :20.h,U=8\n"), "{text}");
    check(&mut world, &["1 cur/10.h,U=7:2,S Seen", "2 new/20.h,U=8:2, Recent"]);
}

#[test]
fn a_renamed_message_is_changed_as_others() {
    let mut world = world();
    world.rename("cur/10.h:2,S", "cur/10.h,U=7:2,S");
    world.pass_time();
    world.scan();
    let flags: FlagSet = [Flag::Flagged].into_iter().collect();
    world.sync(&flagged(1, flags, FlagSet::EMPTY), &[]).unwrap();
    world.pass_time();
    world.scan();
    world.rename("cur/10.h,U=7:2,FS", "cur/10.h,U=7:2,FRS");
    check(&mut world, &["1 cur/10.h,U=7:2,FRS Answered,Flagged,Seen", "2 new/20.h Recent"]);
}

#[test]
fn a_renamed_message_is_recognised_with_other_flags() {
    let mut world = world();
    world.rename("new/20.h", "cur/20.h,U=3:2,RS");
    check(&mut world, &["1 cur/10.h:2,S Seen", "2 cur/20.h,U=3:2,RS Answered,Seen"]);
}

#[test]
fn two_files_that_are_there_are_two_messages() {
    let mut world = world();
    world.put("cur/10.h,U=7:2,S", b"Subject: a\n\n");
    let lines = ["1 cur/10.h:2,S Seen", "2 new/20.h Recent", "3 cur/10.h,U=7:2,S Seen"];
    check(&mut world, &lines);
}

#[test]
fn another_file_is_another_message() {
    for text in ["Subject: a\n\n", "Subject: longer\n\n"] {
        let mut world = world();
        // It is made first, since inodes may be given out again.
        world.put("tmp/x", text.as_bytes());
        world.remove("cur/10.h:2,S");
        world.rename("tmp/x", "cur/10.h,U=7:2,S");
        check(&mut world, &["2 new/20.h Recent", "3 cur/10.h,U=7:2,S Seen"]);
    }
}

#[test]
fn one_of_two_new_names_is_not_chosen() {
    let mut world = world();
    let link = |to: &str| {
        let at = |name: &str| world.path.join(name);
        world.vfs.hard_link(&at("cur/10.h:2,S"), &at(to)).unwrap();
    };
    link("cur/10.h,U=7:2,S");
    link("cur/10.h,U=9:2,S");
    world.remove("cur/10.h:2,S");
    world.pass_time();
    world.scan();
    assert_eq!(world.uids(), [2, 3, 4]);
}

#[test]
fn whoever_lists_the_new_name_first_is_right() {
    let mut world = world();
    world.rename("cur/10.h:2,S", "cur/10.h,U=7:2,S");
    let text = world.text("dovecot-uidlist") + "3 :10.h,U=7\n";
    world.put("dovecot-uidlist", text.as_bytes());
    check(&mut world, &["2 new/20.h Recent", "3 cur/10.h,U=7:2,S Seen"]);
}

#[test]
fn what_could_not_be_listed_is_listed_later() {
    let mut world = world();
    world.rename("cur/10.h:2,S", "cur/10.h,U=7:2,S");
    world.pass_time();
    world.read_only = true;
    world.scan();
    assert!(!world.text("dovecot-uidlist").contains("U=7"));
    assert_eq!(world.uids(), [1, 2]);
    world.read_only = false;
    world.put("new/30.h", b"Subject: c\n\n");
    world.rename("new/20.h", "new/20.h,U=8:2,");
    world.pass_time();
    world.scan();
    let text = world.text("dovecot-uidlist");
    assert!(text.contains("\n1 :10.h,U=7\n2 :20.h,U=8\n3 :30.h\n"), "{text}");
    assert!(world.vfs.metadata(Path::new("/box/cur/10.h,U=7:2,S")).is_ok());
    assert_eq!(world.uids(), [1, 2, 3]);
}
