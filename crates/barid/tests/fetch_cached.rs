//! FETCH and SEARCH answered from the cache: as the messages themselves say.

use barid::fetch::FetchItems;
use barid::query::parse_imap;
use barid::{Mailbox, Uid, UidSet};

use crate::world::World;

/// A mailbox with one message.
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
    let take = &mut |bytes: &[u8]| {
        out.extend_from_slice(bytes);
        true
    };
    mailbox.fetch(&uids, &items, write, take).unwrap();
    String::from_utf8(out).unwrap()
}

/// What FETCH answers, the second time too.
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
