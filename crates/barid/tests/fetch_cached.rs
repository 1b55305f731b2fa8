//! FETCH and SEARCH answered from the cache: the same as from the messages themselves.

use std::path::{Path, PathBuf};

use barid::fetch::FetchItems;
use barid::query::parse_imap;
use barid::{ChangeOptions, ChangeRequest, Flag, FlagChange, Mailbox, Uid, UidSet};
use barid_vfs::{OpenOptions, Vfs};

use crate::world::World;

/// Creates a mailbox with one message.
fn with_message(message: &str) -> World {
    let world = World::mbox(1);
    world.write_mbox(format!("From a@b Mon Jan  5 10:00:00 2026\n{message}").as_bytes());
    world.wait();
    world
}

fn fetch(mailbox: &mut Mailbox, items: &str) -> String {
    let uids: Vec<Uid> = mailbox.uids().unwrap().iter().copied().filter_map(Uid::new).collect();
    let mut out = Vec::new();
    let items = FetchItems::parse(items).unwrap();
    let write: &barid::fetch::WriteFetched<'_> = &|fetched, out| fetched.write_imap(out);
    let take = &mut |bytes: &mut Vec<u8>| {
        out.extend_from_slice(bytes);
        true
    };
    mailbox.fetch(&uids, &items, write, take).unwrap();
    String::from_utf8(out).unwrap()
}

/// Checks the answer of FETCH, the second time too.
fn check_fetch(message: &str, items: &str, expected: &str) {
    let mut mailbox = with_message(message).open();
    for _ in 0..2 {
        assert_eq!(fetch(&mut mailbox, items), format!("* 1 FETCH ({expected})\r\n"), "{message}");
    }
}

#[test]
fn an_envelope_has_the_addresses_of_all_fields_of_a_name() {
    check_fetch(
        "To: a@b\nFrom: f@g\nSubject: one\nTo: c@d\nSubject: two\nCc: x@y\n\nbody\n",
        "ENVELOPE",
        "ENVELOPE (NIL \"one\" ((NIL NIL \"f\" \"g\")) ((NIL NIL \"f\" \"g\")) \
         ((NIL NIL \"f\" \"g\")) ((NIL NIL \"a\" \"b\")(NIL NIL \"c\" \"d\")) \
         ((NIL NIL \"x\" \"y\")) NIL NIL NIL)",
    );
}

#[test]
fn a_search_looks_at_all_fields_of_a_name() {
    let message = "To: ann@b\nSubject: one\nTo: bob@d\nSubject: two\nMessage-ID: <1@x>\n\
        Message-ID: <2@x>\n\nbody\n";
    let mut mailbox = with_message(message).open();
    let mut check = |program: &str, expected: bool| {
        let program_of = parse_imap(program.as_bytes()).unwrap().program;
        let found = mailbox.search(&program_of, &UidSet::new()).unwrap();
        assert_eq!(found.rows.len(), usize::from(expected), "{program}");
    };
    check("TO ann", true);
    check("TO bob", true);
    check("SUBJECT two", true);
    check("HEADER message-id 2@", true);
    check("HEADER to eve", false);
    check("NOT TO bob", false);
    check("CC bob", false);
}

const STRUCTURES: &str = "BODYSTRUCTURE BODY";

/// Returns the answer of FETCH for structures, and the bytes of the mailbox read for it.
fn structures(world: &World) -> (String, u64) {
    let mut mailbox = world.open();
    let before = world.vfs.counts();
    let answers = fetch(&mut mailbox, STRUCTURES);
    (answers, world.vfs.counts().since(&before).bytes_under(world.path()).read)
}

/// Returns the answer with an empty cache.
fn structures_from_scratch(world: &World) -> String {
    fetch(&mut world.open_from_scratch(), STRUCTURES)
}

fn check_structures(world: &World, is_read: bool) {
    let (answers, read) = structures(world);
    assert_eq!(answers, structures_from_scratch(world));
    assert_eq!(read > 0, is_read, "{read}");
}

#[test]
fn structures_are_read_once() {
    for mut world in [World::maildir(5), World::mbox(5)] {
        world.deliver(60);
        world.wait();
        check_structures(&world, true);
        check_structures(&world, false);
        world.deliver(5);
        world.wait();
        // The other messages are not read again.
        let first = structures(&world);
        let second = structures(&world);
        assert!(second.1 == 0 && first.1 < 200_000, "{} {}", first.1, second.1);
        assert_eq!((&first.0, &first.0), (&second.0, &structures_from_scratch(&world)));
        // Whatever becomes of the rows of the cache.
        let mut mailbox = world.open();
        let uids: Vec<Uid> = mailbox.uids().unwrap().iter().copied().filter_map(Uid::new).collect();
        let seen = FlagChange { add: [Flag::Seen].into_iter().collect(), ..FlagChange::default() };
        let flags = uids[3..].iter().map(|uid| (*uid, seen.clone())).collect();
        let expunge = uids[..3].to_vec();
        let request = ChangeRequest { flags, expunge, ..ChangeRequest::default() };
        mailbox.change(&request, &ChangeOptions::default()).unwrap();
        world.wait();
        check_structures(&world, false);
    }
}

#[test]
fn a_few_new_structures_are_stored_beside_the_others() {
    let mut world = World::maildir(6);
    world.deliver(40);
    world.wait();
    check_structures(&world, true);
    for count in [1, 3, 1] {
        world.deliver(count);
        world.wait();
        let before = world.memory.read(&kept(&world), u64::MAX).unwrap();
        let written = world.vfs.counts();
        structures(&world);
        let written = world.vfs.counts().since(&written);
        let written = written.bytes_under(&kept(&world)).written;
        assert!(written > 0 && written < before.len() as u64 / 4, "{written}");
        let after = world.memory.read(&kept(&world), u64::MAX).unwrap();
        assert!(after.starts_with(&before));
        check_structures(&world, false);
    }
}

#[test]
fn another_body_has_another_structure() {
    let world = with_message("Subject: one\n\nbody\n");
    check_structures(&world, true);
    world.write_mbox(b"From a@b Mon Jan  5 10:00:00 2026\nSubject: one\n\nanother\nbody\n");
    world.wait();
    check_structures(&world, true);
    check_structures(&world, false);
}

/// Returns the file in which structures are stored.
fn kept(world: &World) -> PathBuf {
    let mut found = None;
    let mut look = |name: &[u8], _| {
        let name = String::from_utf8(name.to_vec()).unwrap();
        if name.ends_with(".structures") {
            found = Some(Path::new("/cache").join(name));
        }
    };
    world.memory.open_dir(Path::new("/cache")).unwrap().list(&mut look).unwrap();
    found.unwrap()
}

#[test]
fn damaged_structures_are_read_again() {
    let mut world = World::maildir(7);
    world.deliver(20);
    world.wait();
    check_structures(&world, true);
    let path = kept(&world);
    let whole = world.memory.read(&path, u64::MAX).unwrap();
    for at in (0..whole.len()).step_by(41) {
        let file = world.memory.open(&path, OpenOptions::WRITE).unwrap();
        file.write_all_at(&[!whole[at]], at as u64).unwrap();
        assert_eq!(structures(&world).0, structures_from_scratch(&world), "{at}");
        check_structures(&world, false);
    }
}

#[test]
fn a_structure_of_very_many_parts_is_not_kept() {
    let parts = "--x\nContent-Type: a/b\n\n\n".repeat(9_000);
    let message = format!("Content-Type: multipart/mixed; boundary=x\n\n{parts}");
    let world = with_message(&message);
    check_structures(&world, true);
    check_structures(&world, true);
}
