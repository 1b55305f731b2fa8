//! Writers at the same time.

use std::collections::BTreeSet;
use std::thread;

use barid_types::{Flag, Uid};

use super::{adding, expunging};
use crate::fixture::Fixture;
use crate::session::StorageHandle;
use crate::texts::canonical;

/// Number of threads.
const WRITERS: u32 = 4;
/// Messages that each of them appends.
const ROUNDS: u32 = 12;
/// Number of searches for a message while others move it.
const READS_MAX: u32 = 1_000;

pub(super) fn nothing_is_lost_among_four_writers(fixture: &dyn Fixture) {
    StorageHandle::scanned(fixture);
    let expected: Vec<(Vec<u8>, Uid)> = thread::scope(|scope| {
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || write(fixture, writer))).collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    let found = StorageHandle::scanned(fixture);
    let contents = found.contents();
    assert_eq!(contents.len(), expected.len());
    for (text, uid) in &expected {
        let content = &contents[uid];
        assert!(content.text == *text, "UID {uid}");
        assert!(content.flags.contains(Flag::Flagged), "UID {uid}");
    }
    let uids: BTreeSet<_> = expected.iter().map(|(_, uid)| uid).collect();
    assert_eq!(uids.len(), expected.len(), "no UID is given twice");
}

/// Appends messages, flags them all and expunges every fourth; returns those left, by UID.
fn write(fixture: &dyn Fixture, writer: u32) -> Vec<(Vec<u8>, Uid)> {
    let mut session = StorageHandle::scanned(fixture);
    let mut left = Vec::new();
    for round in 0..ROUNDS {
        let text = super::texts(1_000 * (writer + 1) + round, 1).remove(0);
        session.append(&text);
        let text = canonical(&text);
        let uid = find(&mut session, &text);
        let report = session.sync(&adding(uid, Flag::Flagged), &[]);
        assert_eq!(report.gone, [], "nobody else expunges the message");
        match round % 4 {
            0 => drop(session.sync(&expunging(&[uid]), &[])),
            _ => left.push((text, uid)),
        }
    }
    left
}

/// Returns the UID of a text, which may move while it is read.
fn find(session: &mut StorageHandle<'_>, text: &[u8]) -> Uid {
    for _ in 0..READS_MAX {
        let contents = session.contents_in_place();
        if let Some((uid, _)) = contents.iter().find(|(_, content)| content.text == text) {
            return *uid;
        }
        session.scan();
    }
    panic!("an appended message is not scanned");
}
