//! //! Names that other programs hide from listings by renaming files: no message is considered
//! gone because of that.

use std::path::Path;
use std::sync::Arc;

use barid_mailbox::{ChangeSet, DefectKind, Error};
use barid_types::{Flag, FlagSet};
use barid_vfs::{CallKind, MeanwhileVfs, MemVfs, OpenOptions, Vfs};

use super::support::{World, flagged, hiding, uid};
use crate::maildir::layout::{HEAD_LEN, PASSES_MAX};
use crate::worlds::hider;

/// A Maildir of two messages in `cur`, and its disk.
fn world() -> (World, MemVfs) {
    let disk = MemVfs::new();
    let world = World::new(Arc::new(disk.clone()));
    world.put("cur/1.h:2,S", b"Subject: one\n\n");
    world.put("cur/2.h:2,S", b"Subject: two\n\n");
    (world, disk)
}

fn seen() -> FlagSet {
    [Flag::Seen].into_iter().collect()
}

/// /// Renames the file of a message that the next scan has listed, before it is read, and hides
/// the new name from that many listings.
fn renamed_before_it_is_read(listings: u32) -> (World, MemVfs) {
    let (mut world, disk) = world();
    world.pass_time();
    let hide = hider(&disk, "/box/cur/2.h:2,FS", listings);
    let others = disk.clone();
    world.vfs = Arc::new(MeanwhileVfs::new(disk.clone(), move |kind, path| {
        if kind == CallKind::Open && path == Path::new("/box/cur/2.h:2,S") {
            let _ = others.rename(path, Path::new("/box/cur/2.h:2,FS"));
        }
        hide(kind, path);
    }));
    (world, disk)
}

#[test]
fn what_is_renamed_before_it_is_read_is_found() {
    for listings in 0..PASSES_MAX {
        let (mut world, _) = renamed_before_it_is_read(listings);
        let report = world.scan();
        assert_eq!(report.defects, [], "{listings} listings");
        assert_eq!(world.lines(), ["1 cur/1.h:2,S Seen", "2 cur/2.h:2,FS Flagged,Seen"]);
    }
}

#[test]
fn what_no_listing_shows_is_told_and_looked_for_again() {
    let (mut world, disk) = renamed_before_it_is_read(u32::MAX);
    let report = world.scan();
    assert_eq!(world.uids(), [1]);
    let kinds: Vec<DefectKind> = report.defects.iter().map(|defect| defect.kind).collect();
    assert_eq!(kinds, [DefectKind::Arriving]);
    world.vfs = Arc::new(disk);
    world.pass_time();
    assert_eq!(world.scan().defects, []);
    assert_eq!(world.lines()[1], "2 cur/2.h:2,FS Flagged,Seen");
}

/// /// When the scan began, only `new` had changed. This was observed on a loaded machine, where a
/// program that moves messages is sometimes slower than the racy interval.
#[test]
fn what_moves_to_cur_before_new_is_listed_is_found() {
    let (mut world, disk) = world();
    world.pass_time();
    world.scan();
    world.pass_time();
    world.put("new/3.h", b"Subject: three\n\n");
    let others = disk.clone();
    world.vfs = Arc::new(MeanwhileVfs::new(disk, move |kind, path| {
        if kind == CallKind::List && path == Path::new("/box/new") {
            let _ = others.rename(Path::new("/box/new/3.h"), Path::new("/box/cur/3.h:2,"));
        }
    }));
    world.scan();
    assert_eq!(world.lines(), ["1 cur/1.h:2,S Seen", "2 cur/2.h:2,S Seen", "3 cur/3.h:2,"]);
}

#[test]
fn what_moves_to_new_before_cur_is_listed_is_found() {
    let (mut world, disk) = world();
    world.pass_time();
    world.scan();
    world.pass_time();
    world.put("cur/3.h:2,", b"Subject: three\n\n");
    let others = disk.clone();
    world.vfs = Arc::new(MeanwhileVfs::new(disk, move |kind, path| {
        if kind == CallKind::List && path == Path::new("/box/cur") {
            let _ = others.rename(Path::new("/box/cur/3.h:2,"), Path::new("/box/new/3.h"));
        }
    }));
    world.scan();
    assert_eq!(world.lines()[2..], ["3 new/3.h Recent"]);
}

#[test]
fn a_long_header_is_whole_although_its_file_is_renamed_while_it_is_read() {
    let (mut world, disk) = world();
    let long = [b"X: ".to_vec(), vec![b'x'; 3 * HEAD_LEN], b"\n\n".to_vec()].concat();
    world.put("cur/2.h:2,S", &long);
    world.pass_time();
    let others = disk.clone();
    world.vfs = Arc::new(MeanwhileVfs::new(disk, move |kind, path| {
        // // The first part of the header was read, and the file is closed.
        if kind == CallKind::Close && path == Path::new("/box/cur/2.h:2,S") {
            let _ = others.rename(path, Path::new("/box/cur/2.h:2,FS"));
        }
    }));
    world.scan();
    assert_eq!(world.lines()[1], "2 cur/2.h:2,FS Flagged,Seen");
    assert_eq!(world.cache.messages[&uid(2)].header, long);
}

/// /// Scans, then renames message 2 as another program would, and hides it from that many
/// listings.
fn renamed_since_the_scan(listings: u32) -> (World, MemVfs) {
    let (mut world, disk) = world();
    world.scan();
    world.pass_time();
    world.rename("cur/2.h:2,S", "cur/2.h:2,RS");
    world.vfs = hiding(&disk, "/box/cur/2.h:2,RS", listings);
    (world, disk)
}

#[test]
fn a_change_finds_what_some_listings_do_not_show() {
    for listings in 0..PASSES_MAX {
        let (mut world, _) = renamed_since_the_scan(listings);
        let flags: FlagSet = [Flag::Flagged].into_iter().collect();
        let report = world.sync(&flagged(2, flags, FlagSet::EMPTY), &[]).unwrap();
        assert_eq!(report.gone, [], "{listings} listings");
        world.scan();
        assert_eq!(world.lines()[1], "2 cur/2.h:2,FRS Answered,Flagged,Seen");
    }
}

#[test]
fn a_change_of_what_no_listing_shows_is_to_be_repeated() {
    let flags: FlagSet = [Flag::Flagged].into_iter().collect();
    let of_flags = flagged(2, flags, FlagSet::EMPTY);
    let expunge = ChangeSet { expunge: vec![uid(1), uid(2)], ..ChangeSet::default() };
    for (changes, left) in [(of_flags, 2), (expunge, 1)] {
        for dry_run in [true, false] {
            let (mut world, disk) = renamed_since_the_scan(u32::MAX);
            let result = world.sync_with(&changes, &[], dry_run);
            assert!(matches!(result, Err(Error::Changed { .. })), "{result:?}");
            world.vfs = Arc::new(disk);
            world.pass_time();
            world.scan();
            // // The other changes are made.
            assert_eq!(world.uids().len(), if dry_run { 2 } else { left });
            assert_eq!(world.lines().last().unwrap(), "2 cur/2.h:2,RS Answered,Seen");
            let known = ChangeSet { expunge: vec![uid(2)], ..changes.clone() };
            assert_eq!(world.sync(&known, &[]).unwrap().gone, []);
        }
    }
}

/// /// A scanned Maildir with two messages that share a base name.
fn twins() -> (World, MemVfs) {
    let disk = MemVfs::new();
    let mut world = World::new(Arc::new(disk.clone()));
    world.put("cur/1.h:2,S", b"Subject: one\n\n");
    world.scan();
    world.put("cur/1.h:2,F", b"Subject: two\n\n");
    world.scan();
    world.pass_time();
    world.scan();
    assert_eq!(world.lines(), ["1 cur/1.h:2,S Seen", "2 cur/1.h:2,F Flagged"]);
    world.pass_time();
    (world, disk)
}

#[test]
fn a_twin_that_a_listing_does_not_show_keeps_its_uid() {
    for name in ["1.h:2,FR", "1.h:2,RS"] {
        for listings in [1, 3, u32::MAX] {
            let (mut world, disk) = twins();
            match name {
                "1.h:2,FR" => world.rename("cur/1.h:2,F", "cur/1.h:2,FR"),
                _ => world.rename("cur/1.h:2,S", "cur/1.h:2,RS"),
            }
            world.vfs = hiding(&disk, &format!("/box/cur/{name}"), listings);
            let report = world.scan();
            assert_eq!((report.expunged, world.uids()), (vec![], vec![1, 2]), "{name}, {listings}");
            world.vfs = Arc::new(disk);
            world.pass_time();
            world.scan();
            assert_eq!(world.uids(), [1, 2]);
            assert!(world.lines().iter().any(|line| line.contains(name)), "{:?}", world.lines());
            assert_eq!(world.read(1).unwrap(), b"Subject: one\n\n");
            assert_eq!(world.read(2).unwrap(), b"Subject: two\n\n");
        }
    }
}

#[test]
fn a_twin_that_is_gone_is_expunged() {
    for (name, left) in [("cur/1.h:2,F", [1]), ("cur/1.h:2,S", [2])] {
        let (mut world, _) = twins();
        world.remove(name);
        world.pass_time();
        world.scan();
        assert_eq!(world.uids(), left);
        let text = if left == [1] { b"Subject: one\n\n" } else { b"Subject: two\n\n" };
        assert_eq!(world.read(left[0]).unwrap(), text);
    }
    // Another file under a twin's name is another message.
    let (mut world, _) = twins();
    world.put("tmp/new", b"Subject: three\n\n");
    world.rename("tmp/new", "cur/1.h:2,F");
    world.pass_time();
    world.scan();
    assert_eq!(world.uids(), [1, 3]);
}

#[test]
fn a_change_never_takes_a_twin_for_the_message() {
    for (removed, target, other) in [("1.h:2,S", 1, "1.h:2,F"), ("1.h:2,F", 2, "1.h:2,S")] {
        let (mut world, _) = twins();
        world.remove(&format!("cur/{removed}"));
        let expunge = ChangeSet { expunge: vec![uid(target)], ..ChangeSet::default() };
        let result = world.sync(&expunge, &[]);
        assert!(matches!(result, Err(Error::Changed { .. })), "{result:?}");
        let result = world.sync(&flagged(target, seen(), FlagSet::EMPTY), &[]);
        assert!(matches!(result, Err(Error::Changed { .. })), "{result:?}");
        let path = world.path.join("cur").join(other);
        assert!(world.vfs.open(&path, OpenOptions::READ).is_ok(), "{other} is untouched");
        assert_eq!(world.scan().expunged, [uid(target)]);
    }
}

#[test]
fn a_change_of_flags_never_replaces_a_twin() {
    for (target, add, remove) in [(2, Flag::Seen, Flag::Flagged), (1, Flag::Flagged, Flag::Seen)] {
        let (mut world, _) = twins();
        let [add, remove] = [add, remove].map(|flag| [flag].into_iter().collect::<FlagSet>());
        for _ in 0..2 {
            world.sync(&flagged(target, add, remove), &[]).unwrap();
            world.scan();
            world.pass_time();
            assert_eq!(world.uids(), [1, 2], "{:?}", world.lines());
            assert!(world.cache.messages.values().all(|message| message.flags == add));
            assert_eq!(world.read(1).unwrap(), b"Subject: one\n\n");
            assert_eq!(world.read(2).unwrap(), b"Subject: two\n\n");
        }
        world.sync(&flagged(target, remove, add), &[]).unwrap();
        world.scan();
        assert_eq!(world.uids(), [1, 2], "{:?}", world.lines());
        assert_eq!(world.cache.messages[&uid(target)].flags, remove);
    }
}
