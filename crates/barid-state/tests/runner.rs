//! Tests of persistent state: cost, crashes, faults and the layout of files.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests, which print what they covered"
)]

mod cost;
mod crash;
mod expunged;
mod fixture;
mod identity;
mod model;
mod pending;
mod vanished;

use std::path::Path;
use std::sync::Arc;

use barid_state::{Access, Identity, Ledger, LedgerEntry, MessageKey, Vanished};
use barid_types::{ModSeq, Uid, UidValidity};
use barid_vfs::Vfs;

/// The state folder.
const DIR: &str = "/state";

fn mailbox() -> Identity {
    Identity { id: 0x0123_4567_89ab_cdef, path: "/mail/inbox".into(), inode: 77 }
}

fn ledger_path() -> std::path::PathBuf {
    Path::new(DIR).join(format!("{:032x}.ledger", mailbox().id))
}

fn open(vfs: &(impl Vfs + Clone + 'static)) -> barid_state::Result<Ledger> {
    Ledger::open(Arc::new(vfs.clone()), Path::new(DIR), &mailbox(), Access::ReadWrite)
}

fn uid(number: u32) -> Uid {
    Uid::new(number).unwrap()
}

fn validity(number: u32) -> UidValidity {
    UidValidity::new(number).unwrap()
}

fn entry(number: u32) -> LedgerEntry {
    LedgerEntry { uid: uid(number), key: MessageKey(u64::from(number).wrapping_mul(0x9e37_79b9)) }
}

/// The content of a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    uidvalidity: Option<UidValidity>,
    uidnext: Option<Uid>,
    modseq: u64,
    uids: Vec<u32>,
    floor: u64,
    /// Vanished UIDs: mod-sequence, first, last.
    vanished: Vec<(u64, u32, u32)>,
}

fn said(ledger: &mut Ledger) -> Said {
    let entries = ledger.entries().unwrap();
    assert!(entries.iter().all(|found| *found == entry(found.uid.get())));
    let uids = entries.iter().map(|entry| entry.uid.get()).collect();
    let floor = ledger.vanished_floor();
    let vanished = ledger.vanished_since(floor).unwrap().unwrap();
    if floor.get() > 1 {
        let below = ModSeq::new(floor.get() - 1).unwrap();
        assert_eq!(ledger.vanished_since(below).unwrap(), None);
    }
    let numbers = |one: &Vanished| (one.modseq.get(), one.first.get(), one.last.get());
    Said {
        uids,
        floor: floor.get(),
        vanished: vanished.iter().map(numbers).collect(),
        uidvalidity: ledger.uidvalidity(),
        uidnext: ledger.uidnext(),
        modseq: ledger.highest_modseq().get(),
    }
}

#[test]
fn every_file_of_tests_is_run() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut names = std::collections::BTreeSet::new();
    let listed = barid_vfs::OsVfs.open_dir(&dir).unwrap().list(&mut |name, _| {
        names.insert(String::from_utf8_lossy(name).into_owned());
    });
    listed.unwrap();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "cost.rs",
            "crash.rs",
            "expunged.rs",
            "fixture.rs",
            "fixtures",
            "identity.rs",
            "model.rs",
            "pending.rs",
            "runner.rs",
            "vanished.rs"
        ]
    );
}
