//! The backend in memory passes the suite, and makes a change again that another writer outran.

use std::sync::atomic::{AtomicBool, Ordering};

use barid_mailbox::{ChangeSet, FlagChange, Known, KnownMessage, SinkError, Stamp, SyncContext};
use barid_mailbox_conformance::memory::MemoryBackend;
use barid_mailbox_conformance::{Backend, Fixture, Mirror, StorageHandle, check_all};
use barid_types::{Flag, FlagSet, KeywordTable, Uid, UidValidity};

#[test]
fn memory_passes_every_check() {
    check_all(&MemoryBackend);
}

#[test]
fn a_cache_can_follow_messages_with_names() {
    let fixture = MemoryBackend.create();
    let mut session = StorageHandle::scanned(&*fixture);
    let uids = [b"Subject: 1\n\n", b"Subject: 2\n\n"].map(|text| session.append(text));
    let add = FlagSet::EMPTY.with(Flag::Seen);
    let flags = vec![(uids[1], FlagChange { add, ..FlagChange::default() })].into();
    let changes = ChangeSet { flags, expunge: vec![uids[0]], ..ChangeSet::default() };
    session.scan();
    let report = session.try_sync(&changes, &[]).unwrap();
    assert!(report.cache.is_some());
    assert_eq!(session.contents(), StorageHandle::scanned(&*fixture).contents());
}

/// The known messages of a change in the middle of which another writer appends a message: a change
/// asks for the UIDVALIDITY once it has loaded the head.
struct Outrun<'a> {
    known: &'a Mirror,
    fixture: &'a dyn Fixture,
    is_done: AtomicBool,
}

impl Known for Outrun<'_> {
    fn stamp(&self) -> Option<Stamp> {
        self.known.stamp()
    }
    fn state(&self) -> &[u8] {
        self.known.state()
    }
    fn uidvalidity(&self) -> Option<UidValidity> {
        if !self.is_done.swap(true, Ordering::Relaxed) {
            StorageHandle::scanned(self.fixture).append(b"Subject: other\n\n");
        }
        self.known.uidvalidity()
    }
    fn uidnext(&self) -> Option<Uid> {
        self.known.uidnext()
    }
    fn keywords(&self) -> &KeywordTable {
        self.known.keywords()
    }
    fn len(&self) -> u32 {
        self.known.len()
    }
    fn visit(
        &self,
        first: u32,
        visit: &mut dyn FnMut(&KnownMessage<'_>) -> bool,
    ) -> Result<(), SinkError> {
        self.known.visit(first, visit)
    }
}

#[test]
fn a_change_that_another_writer_outran_is_made_in_the_new_head() {
    let fixture = MemoryBackend.create();
    let mut session = StorageHandle::scanned(&*fixture);
    let uid = session.append(b"Subject: first\n\n");
    let known =
        Outrun { known: &session.known, fixture: &*fixture, is_done: AtomicBool::new(false) };
    let add = FlagSet::EMPTY.with(Flag::Flagged);
    let flags = vec![(uid, FlagChange { add, ..FlagChange::default() })].into();
    let changes = ChangeSet { flags, ..ChangeSet::default() };
    fixture.open().sync(&changes, &[], &mut SyncContext::new(&known)).unwrap();
    let found: Vec<_> = StorageHandle::scanned(&*fixture).contents().into_values().collect();
    assert_eq!(found.len(), 2, "the other writer's message is there");
    assert_eq!(found[0].flags, add);
}
