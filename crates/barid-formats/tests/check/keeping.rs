//! Cost of check, repair and undo, and their behaviour when something fails.

use std::path::Path;
use std::sync::Arc;

use barid_mailbox::Error;
use barid_vfs::{
    CallKind, CountingVfs, Fault, FaultEffect, FaultVfs, MemVfs, OpenOptions, Vfs as _,
};
use fastrand::Rng;

use super::cases;
use super::world::{Box_, Case, View, image};
use crate::mbx::support::{header, record};

fn case(format: &str, name: &str) -> Case {
    let case = cases().into_iter().find(|case| case.format == format && case.name == name);
    case.unwrap_or_else(|| panic!("{format}: {name}"))
}

/// Returns a mailbox with this damage.
fn damaged(case: &Case) -> Box_ {
    let mut rng = Rng::with_seed(1);
    let mut mailbox = (case.build)(&mut rng);
    (case.damage)(&mut mailbox, &mut rng);
    mailbox
}

/// Returns a view through a layer that makes a call fail.
fn view_through(mailbox: &Box_, fault: Fault) -> View {
    let vfs = Arc::new(FaultVfs::new(mailbox.disk.clone(), fault));
    View { vfs, ..View::of(&mailbox.disk, &mailbox.spec) }
}

/// Returns a view through a layer that counts.
fn counting(mailbox: &Box_) -> (View, CountingVfs<MemVfs>) {
    let vfs = CountingVfs::new(mailbox.disk.clone());
    let view = View { vfs: Arc::new(vfs.clone()), ..View::of(&mailbox.disk, &mailbox.spec) };
    (view, vfs)
}

#[test]
fn a_sound_mbx_is_not_read_whole() {
    let text = format!("Subject: x\r\n\r\n{}", "some words in a line\r\n".repeat(20_000));
    let mut file = header(0x544a_adf6, 8, &[]);
    (1..=8).for_each(|uid| file.extend(record(&text, 0, 0x10, uid)));
    let mailbox = Box_::new("mbx:/mail/box", "/mail", Vec::new());
    mailbox.put("box", &file);
    let (view, counts) = counting(&mailbox);
    assert_eq!(view.check().unwrap().damages, []);
    let read = counts.counts().bytes().read;
    assert!(read < file.len() as u64 / 2, "{read} of {} bytes", file.len());
}

/// A message that contains lines which look like messages, before a damaged line.
#[test]
fn lines_within_a_message_are_walked_once() {
    let within: Vec<u8> = (0..2000).flat_map(|_| record("text\r\n", 0, 0, 1)).collect();
    let text = format!("Subject: x\r\n\r\n{}", String::from_utf8(within).unwrap());
    let mut file = header(0x544a_adf6, 3, &[]);
    file.extend(record(&text, 0, 0x10, 1));
    let damaged = file.len();
    (2..=3).for_each(|uid| file.extend(record("Subject: y\r\n\r\ntext\r\n", 0, 0x10, uid)));
    file[damaged..damaged + 9].fill(b'?');
    let mailbox = Box_::new("mbx:/mail/box", "/mail", Vec::new());
    mailbox.put("box", &file);
    let (view, counts) = counting(&mailbox);
    let found = view.check().unwrap();
    assert_eq!(found.messages, 3, "{:?}", found.damages);
    let read = counts.counts().bytes().read;
    assert!(read < 20 * file.len() as u64, "{read} of {} bytes", file.len());
}

#[test]
fn a_name_is_made_durable_once() {
    let syncs = |name: &str| {
        let mailbox = damaged(&case("maildir", name));
        let (view, counts) = counting(&mailbox);
        view.repair().unwrap().kept.unwrap();
        counts.counts().of(CallKind::Sync)
    };
    // One repair renames within a folder, the other from one folder to another.
    assert_eq!(syncs("flags in `new`"), syncs("flags out of order") + 1);
}

#[test]
fn a_journal_that_cannot_be_looked_at_is_told() {
    let journals = [
        ("mbx", "magic", "/mail/.box.barid-journal"),
        ("mbox", "UID twice", "/mail/.box.barid-journal"),
        ("mix", "no index", "/mail/box/.barid-journal"),
    ];
    for (format, name, journal) in journals {
        let mailbox = damaged(&case(format, name));
        let effect = FaultEffect::Error(std::io::ErrorKind::PermissionDenied);
        let fault = || Fault::nth(0).of(CallKind::Stat).at(journal).with(effect).forever();
        let before = image(&mailbox.disk, Path::new("/"));
        for result in [
            view_through(&mailbox, fault()).check().map(drop),
            view_through(&mailbox, fault()).repair().map(drop),
            view_through(&mailbox, fault()).undo().map(drop),
        ] {
            let error = result.expect_err(format);
            assert!(
                matches!(&error, Error::Io { path, .. } if path == Path::new(journal)),
                "{error}"
            );
        }
        assert_eq!(image(&mailbox.disk, Path::new("/")), before, "{format}");
    }
}

#[test]
fn what_cannot_be_kept_is_named() {
    for name in ["kept", "manifest"] {
        let mailbox = damaged(&case("mbx", "magic"));
        let path = Path::new("/side/1/1").join(name);
        let before = mailbox.get("box");
        let error = view_through(&mailbox, Fault::nth(0).of(CallKind::Write).at(&path));
        let error = error.repair().unwrap_err();
        assert!(matches!(&error, Error::Io { path: named, .. } if *named == path), "{error}");
        assert_eq!(mailbox.get("box"), before);
    }
}

/// Only the bytes of the last repair are read and undone.
#[test]
fn an_earlier_repair_does_not_matter() {
    let mailbox = damaged(&case("mbx", "magic"));
    let view = View::of(&mailbox.disk, &mailbox.spec);
    view.repair().unwrap();
    mailbox.patch("box", 23, b"xx");
    let before = mailbox.get("box");
    view.repair().unwrap();
    let kept = mailbox.disk.read(Path::new("/side/1/1/kept"), 1 << 20).unwrap();
    put(&mailbox.disk, "/side/1/1/kept", &vec![b'?'; kept.len()]);
    let undone = view.undo().unwrap().unwrap();
    assert_eq!(undone.kept, Path::new("/side/1/2"));
    assert_eq!(mailbox.get("box"), before);
    let error = view.undo().unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    assert_eq!(mailbox.get("box"), before);
}

fn put(disk: &MemVfs, path: &str, bytes: &[u8]) {
    let file = disk.open(Path::new(path), OpenOptions::WRITE).unwrap();
    file.write_all_at(bytes, 0).unwrap();
}
