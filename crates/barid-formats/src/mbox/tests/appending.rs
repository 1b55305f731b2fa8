//! Appends, and the states that crashes leave.

use std::path::Path;
use std::sync::Arc;

use barid_mailbox::{ChangeSet, EmptyKnown, Error, NewMessage, ReadAs, Storage, SyncContext};
use barid_types::{Flag, FlagSet, InternalDate, Keyword};
use barid_vfs::{CrashVfs, Fault, FaultVfs, MemVfs, Vfs};

use super::support::World;
use crate::mbox::Variant;

fn message(bytes: &[u8]) -> NewMessage<'_> {
    NewMessage {
        bytes,
        internal_date: Some(InternalDate { unix_seconds: 1_000_000_000, zone_minutes: 0 }),
        flags: FlagSet::EMPTY,
        keywords: Vec::new(),
        sender: Some("a b@c"),
        stored: None,
        uid: None,
        uidnext: None,
        rest: None,
    }
}

fn append(world: &World, messages: &[NewMessage<'_>]) -> barid_mailbox::Result<()> {
    let mailbox = world.try_mailbox()?;
    let known = EmptyKnown::default();
    let mut context = SyncContext::new(&known);
    mailbox.sync(&ChangeSet::default(), messages, &mut context).map(|report| {
        assert_eq!(report.appended.len(), messages.len());
    })
}

fn file(world: &World) -> String {
    String::from_utf8(world.vfs.read(&world.path, 1 << 30).unwrap()).unwrap()
}

const FROM: &str = "From ab@c Sun Sep  9 01:46:40 2001\n";

/// Checks the bytes added to a file, and that the message is read back as `back`.
fn check(variant: Variant, before: &str, text: &str, added: &str, back: &str) {
    let mut world = World::new(before.as_bytes());
    world.variant = Some(variant);
    append(&world, &[message(text.as_bytes())]).unwrap();
    assert_eq!(file(&world).strip_prefix(before).unwrap(), added, "{variant:?} {before:?}");
    let cached = world.scan();
    let last = cached.seen.last().unwrap();
    let read = String::from_utf8(world.read(last, ReadAs::Message)).unwrap();
    assert_eq!(read, back, "{variant:?} {before:?}");
    assert_eq!(last.date.unix_seconds, 1_000_000_000);
    assert!(last.flags.contains(Flag::Recent));
}

#[test]
fn lines_end_as_those_of_the_mailbox() {
    let crlf = |text: &str| text.replace('\n', "\r\n");
    let text = "A: 1\nB: 2\n\nFrom x\nlast";
    for (variant, length, body) in [
        (Variant::Mboxo, "", ">From x\nlast\n"),
        (Variant::Mboxrd, "", ">From x\nlast\n"),
        (Variant::Mboxcl, "Content-Length: 13\n", ">From x\nlast"),
        (Variant::Mboxcl2, "Content-Length: 12\n", "From x\nlast"),
    ] {
        let before = crlf(&format!("{FROM}A: 0\nContent-Length: 6\n\nbody\n"));
        let mut world = World::new(before.as_bytes());
        world.variant = Some(variant);
        let message =
            NewMessage { flags: [Flag::Seen].into_iter().collect(), ..message(text.as_bytes()) };
        append(&world, &[message]).unwrap();
        let file = file(&world);
        let added = file.strip_prefix(&before).unwrap();
        let head = crlf(&format!("\n{FROM}A: 1\nB: 2\nStatus: R\n{length}\n"));
        assert_eq!(added, format!("{head}{}\r\n", crlf(body)), "{variant:?}");
        assert_eq!(world.scan().seen.len(), 2, "{variant:?}");
    }
    // A message that came with CRLF keeps it.
    let from = crlf(FROM);
    let old = format!("{from}A: 0\r\n\r\nbody\r\n\r\n");
    let text = crlf("A: 1\n\nbody\n");
    check(Variant::Mboxo, &old, &text, &format!("{from}{text}\r\n"), &text);
}

#[test]
fn each_variant_quotes_in_its_way() {
    let text = "A: 1\n\nFrom x\n>From y\n";
    let o = "A: 1\n\n>From x\n>From y\n";
    check(Variant::Mboxo, "", text, &format!("{FROM}{o}\n"), o);
    let rd = "A: 1\n\n>From x\n>>From y\n";
    check(Variant::Mboxrd, "", text, &format!("{FROM}{rd}\n"), text);
    let cl = "A: 1\nContent-Length: 16\n\n>From x\n>From y\n";
    check(Variant::Mboxcl, "", text, &format!("{FROM}{cl}\n"), cl);
    let cl2 = "A: 1\nContent-Length: 15\n\nFrom x\n>From y\n";
    check(Variant::Mboxcl2, "", text, &format!("{FROM}{cl2}\n"), cl2);
    let bar = "\u{1}\u{1}\u{1}\u{1}\n";
    check(Variant::Mmdf, "", text, &format!("{bar}{FROM}{text}{bar}"), text);
}

#[test]
fn what_is_missing_at_the_end_is_added() {
    let old = format!("{FROM}\nold");
    let new = format!("{FROM}A: 1\n\nnew\n\n");
    let text = "A: 1\n\nnew";
    for (end, added) in [("", "\n\n"), ("\n", "\n"), ("\n\n", ""), ("\r\n", "\n"), ("\r\n\r\n", "")]
    {
        let back = "A: 1\n\nnew\n";
        check(Variant::Mboxo, &format!("{old}{end}"), text, &format!("{added}{new}"), back);
    }
    let bar = "\u{1}\u{1}\u{1}\u{1}\n";
    let old = format!("{bar}{FROM}\nold");
    let new = format!("{bar}{FROM}A: 1\n\nnew\n{bar}");
    for (end, added) in [("", format!("\n{bar}")), ("\n", bar.to_owned())] {
        let back = "A: 1\n\nnew\n";
        check(Variant::Mmdf, &format!("{old}{end}"), text, &format!("{added}{new}"), back);
    }
}

#[test]
fn owned_fields_are_replaced() {
    let world = World::new(b"");
    let text = "Status: RO\nA: 1\nX-UID: 9\n x\nContent-Length: 7\nFrom x\n\nbody\n";
    let mut new = message(text.as_bytes());
    new.flags = FlagSet::EMPTY.with(Flag::Seen).with(Flag::Flagged).with(Flag::Draft);
    new.keywords = ["$Forwarded", "todo"].iter().filter_map(|name| Keyword::new(name)).collect();
    append(&world, &[new]).unwrap();
    let owned = "Status: R\nX-Status: FT\nX-Keywords: $Forwarded todo\n";
    assert_eq!(file(&world), format!("{FROM}A: 1\n>From x\n{owned}\nbody\n\n"));
    let cached = world.scan();
    assert!(cached.seen[0].flags.contains(Flag::Draft));
    assert_eq!(cached.seen[0].keywords, ["$Forwarded", "todo"]);
}

#[test]
fn what_was_never_scanned_cannot_be_changed() {
    let world = World::new(b"");
    let changes = ChangeSet { drop_recent: true, ..ChangeSet::default() };
    let known = EmptyKnown::default();
    let error = world.mailbox().sync(&changes, &[], &mut SyncContext::new(&known));
    assert!(matches!(error, Err(Error::Changed { .. })));
    assert!(world.mailbox().caps().flags && world.mailbox().caps().expunge);
}

#[test]
fn a_lock_of_another_is_respected_and_named() {
    let world = World::new(b"");
    let lock = barid_vfs::DotLock::path_of(&world.path);
    let held = world.vfs.open(&lock, barid_vfs::OpenOptions::create(0o600)).unwrap();
    held.write_all_at(b"1:elsewhere", 0).unwrap();
    match append(&world, &[message(b"A: 1\n\n")]) {
        Err(Error::Locked { holder, .. }) => {
            assert_eq!(holder, "process 1 on elsewhere (lock file)")
        }
        other => panic!("{other:?}"),
    }
    world.vfs.sleep(std::time::Duration::from_secs(600));
    append(&world, &[message(b"A: 1\n\n")]).unwrap();
    assert!(world.vfs.metadata(&lock).is_err(), "the stale lock is broken and ours is gone");
}

#[test]
fn an_error_leaves_the_file_as_it_was() {
    let old = format!("{FROM}A: 0\n\nold\n");
    let mut failed = 0;
    for n in 0.. {
        let disk = MemVfs::new();
        World::on(Arc::new(disk.clone())).write(old.as_bytes());
        let faulty = FaultVfs::new(disk.clone(), Fault::nth(n));
        let world = World { vfs: Arc::new(faulty.clone()), ..World::on(Arc::new(disk.clone())) };
        let result = append(&world, &[message(b"A: 1\n\nnew\n")]);
        let fired = faulty.fired();
        let text = file(&World::on(Arc::new(disk)));
        match result {
            Ok(()) => assert!(text.starts_with(&old) && text.ends_with("new\n\n"), "call {n}"),
            Err(_) => assert_eq!(text, old, "call {n}"),
        }
        failed += u32::from(fired);
        if !fired {
            break;
        }
    }
    assert!(failed > 10, "{failed}");
}

#[test]
fn a_crash_keeps_what_was_there_and_what_was_acknowledged() {
    // The folder is synced only where the journal may lose its name.
    let points = [false, true].map(crash_two_appends);
    assert_eq!(points[0], points[1] + 2);
}

/// Crashes two appends at every point, and returns the number of points.
fn crash_two_appends(syncs_names: bool) -> usize {
    let old = format!("{FROM}A: 0\n\nold\n\n{FROM}B: 0\n\nolder\n");
    let disk = MemVfs::new();
    World::on(Arc::new(disk.clone())).write(old.as_bytes());
    disk.sync_dir(std::path::Path::new("/mail")).unwrap();
    disk.set_syncs_names(syncs_names);
    let world = CrashVfs::new(&disk);
    let live = World::on(Arc::new(world.vfs()));
    let big = format!("A: 1\n\n{}", "a line of the body\n".repeat(200));
    append(&live, &[message(big.as_bytes()), message(b"A: 2\n\ntwo\n")]).unwrap();
    let first = world.points();
    append(&live, &[message(b"A: 3\n\nthree\n")]).unwrap();
    let second = world.points();
    assert!(second > 15, "{second}");
    for point in 0..=second {
        for seed in 0..60 {
            let found = World::on(Arc::new(world.crash_at(point, seed)));
            found.recover();
            let cached = found.scan();
            assert!(cached.seen.len() <= 5, "point {point} seed {seed}");
            let read: Vec<_> =
                cached.seen.iter().map(|seen| found.read(seen, ReadAs::Message)).collect();
            let expected: &[&[u8]] = match point {
                point if point >= second => &[
                    b"A: 0\n\nold\n",
                    b"B: 0\n\nolder\n",
                    big.as_bytes(),
                    b"A: 2\n\ntwo\n",
                    b"A: 3\n\nthree\n",
                ],
                point if point >= first => {
                    &[b"A: 0\n\nold\n", b"B: 0\n\nolder\n", big.as_bytes(), b"A: 2\n\ntwo\n"]
                }
                _ => &[b"A: 0\n\nold\n", b"B: 0\n\nolder\n"],
            };
            assert!(read.len() >= expected.len(), "point {point} seed {seed}");
            for (read, expected) in read.iter().zip(expected) {
                let text = String::from_utf8_lossy(read);
                assert_eq!(read, expected, "point {point} seed {seed}: {text}");
            }
            append(&found, &[message(b"A: 4\n\nfour\n")]).unwrap();
            let again = found.scan();
            let last = found.read(again.seen.last().unwrap(), ReadAs::Message);
            assert_eq!(last, b"A: 4\n\nfour\n", "point {point} seed {seed}");
            let first = found.read(&again.seen[0], ReadAs::Message);
            assert_eq!(first, b"A: 0\n\nold\n", "point {point} seed {seed}");
        }
    }
    second
}

#[test]
fn a_crash_of_the_first_append_leaves_a_mailbox() {
    let bar = "\u{1}\u{1}\u{1}\u{1}\n";
    let sender = "s".repeat(600);
    for variant in [Variant::Mboxo, Variant::Mmdf, Variant::Mboxcl2] {
        let disk = MemVfs::new();
        World::on(Arc::new(disk.clone())).write(b"");
        disk.sync_dir(std::path::Path::new("/mail")).unwrap();
        let world = CrashVfs::new(&disk);
        let mut live = World::on(Arc::new(world.vfs()));
        live.variant = Some(variant);
        let big = format!("A: 1\n\n{}", "a line of the body\n".repeat(200));
        let new = NewMessage { sender: Some(&sender), ..message(big.as_bytes()) };
        append(&live, &[new]).unwrap();
        let acknowledged = world.points();
        for point in 0..=acknowledged {
            for seed in 0..60 {
                let disk = world.crash_at(point, seed);
                let text = disk.read(&live.path, 1 << 20).unwrap();
                let context = format!(
                    "{variant:?}, point {point} of {acknowledged}, seed {seed}: {:?}",
                    String::from_utf8_lossy(&text[..text.len().min(700)])
                );
                let mut found = World::on(Arc::new(disk));
                found.variant = Some(variant);
                let spec = |format| crate::MailboxSpec { format, path: found.path.clone() };
                let format = match variant {
                    Variant::Mmdf => crate::FormatName::named("mmdf"),
                    _ => None,
                };
                let opened = crate::open(Arc::clone(&found.vfs), &spec(format));
                assert!(opened.is_ok(), "{opened:?} {context}");
                found.recover();
                let cached = found.try_scan(&EmptyKnown::default());
                let cached = cached.unwrap_or_else(|error| panic!("{error} {context}"));
                if point == acknowledged {
                    let first = found.read(&cached.seen[0], ReadAs::Message);
                    assert!(first.ends_with(b"a line of the body\n"), "{context}");
                }
                append(&found, &[message(b"A: 4\n\nfour\n")]).unwrap();
                let again = found.scan();
                let last = found.read(again.seen.last().unwrap(), ReadAs::Message);
                assert!(last.ends_with(b"\n\nfour\n"), "{context}");
                let text = found.vfs.read(&found.path, 1 << 20).unwrap();
                let start = text.trim_ascii_start();
                let lead = if variant == Variant::Mmdf { bar } else { "" };
                assert!(start.starts_with(format!("{lead}From ").as_bytes()), "{context}");
            }
        }
    }
}

#[test]
fn what_others_deliver_after_zeros_is_seen() {
    for zeros in [1, 600] {
        let zeros = "\0".repeat(zeros);
        for lead in ["", "\n"] {
            let world = World::new(format!("{zeros}{lead}{FROM}A: 1\n\none\n\n").as_bytes());
            let cached = world.scan();
            assert_eq!(world.read(&cached.seen[0], ReadAs::Message), b"A: 1\n\none\n");
            append(&world, &[message(b"A: 2\n\ntwo\n")]).unwrap();
            let again = world.scan_again(&cached);
            assert_eq!(again.uids(), [1, 2]);
        }
    }
}

/// Appends a message to a mailbox whose folder cannot be written.
fn append_in_closed_folder(has_xattrs: bool) -> MemVfs {
    let disk = MemVfs::new();
    let world = World::on(Arc::new(disk.clone()));
    world.write(format!("{FROM}A: 1\n\nold\n\n").as_bytes());
    disk.set_mode(Path::new("/mail"), 0o500).unwrap();
    disk.set_xattrs(has_xattrs);
    let known = EmptyKnown::default();
    let mut context = SyncContext::new(&known);
    context.state_dir = Some(Path::new("/state"));
    let messages = [message(b"A: 2\n\nnew\n")];
    world.mailbox().sync(&ChangeSet::default(), &messages, &mut context).unwrap();
    assert_eq!(world.scan().uids.len(), 2);
    disk
}

#[test]
fn messages_are_delivered_where_no_journal_can_be_found_again() {
    for has_xattrs in [true, false] {
        let disk = append_in_closed_folder(has_xattrs);
        let mut journals = 0;
        let is_journal = |name: &[u8]| name.ends_with(b"journal");
        let mut count = |name: &[u8], _| journals += u32::from(is_journal(name));
        disk.open_dir(Path::new("/state")).unwrap().list(&mut count).unwrap();
        assert_eq!(journals, 0, "{has_xattrs}");
    }
}
