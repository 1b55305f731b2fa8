//! Calls that fail, and files that change under the scan.

use std::path::Path;
use std::sync::Arc;

use barid_mailbox::{
    EmptyKnown, Error, ScanContext, ScanSink, ScannedMessage, SinkError, Sinks, Storage,
};
use barid_vfs::{
    CallKind, Fault, FaultEffect, FaultVfs, LockKind, LockMode, MemVfs, OpenOptions, Vfs,
};

use super::support::World;

const FROM: &str = "From a@b Thu Nov 19 10:00:00 2026\n";

fn file(count: usize) -> String {
    (0..count).map(|number| format!("{FROM}A: {number}\n\nbody\n\n")).collect()
}

#[test]
fn a_failing_call_is_an_error_or_does_no_harm() {
    let mut failed = 0;
    for n in 0.. {
        let disk = MemVfs::new();
        let whole = World::on(Arc::new(disk.clone()));
        whole.write(file(20).as_bytes());
        let expected = whole.scan();
        whole.append(file(5).replace("A:", "B:").as_bytes());
        let faulty = FaultVfs::new(disk.clone(), Fault::nth(n));
        let mut world = World { vfs: Arc::new(faulty.clone()), ..World::on(Arc::new(disk)) };
        world.options.window_len = 256;
        let ledger = whole.ledger();
        let found = world.try_scan_with(ledger, &expected);
        failed += u32::from(found.is_err());
        if let Ok(found) = found {
            let found = expected.and(found);
            assert_eq!(found.uids(), (1..=25).collect::<Vec<_>>(), "call {n}");
        }
        assert_eq!(whole.scan().uids(), (1..=25).collect::<Vec<_>>(), "call {n}");
        if !faulty.fired() {
            break;
        }
    }
    assert!(failed >= 6, "{failed}");
}

/// A sink that cuts the file when it gets the first message.
struct Cut<'a>(&'a World);

impl Sinks for Cut<'_> {
    fn sink(&self, _chunk: u32) -> Box<dyn ScanSink + '_> {
        Box::new(Self(self.0))
    }
}

impl ScanSink for Cut<'_> {
    fn message(&mut self, _message: &ScannedMessage<'_>) -> Result<(), SinkError> {
        let file = self.0.vfs.open(&self.0.path, OpenOptions::WRITE)?;
        Ok(file.set_len(FROM.len() as u64)?)
    }
    fn finish(self: Box<Self>) -> Result<(), SinkError> {
        Ok(())
    }
}

#[test]
fn a_file_that_is_cut_meanwhile_is_an_error() {
    let mut world = World::new(file(100).as_bytes());
    world.options.window_len = 64;
    let mut ledger = world.ledger();
    let mut context = ScanContext {
        ledger: &mut ledger,
        read_only: false,
        full_check: false,
        will_rescan: false,
        threads: 1,
        progress: None,
    };
    let result = world.mailbox().scan(&EmptyKnown::default(), &Cut(&world), &mut context);
    assert!(matches!(result, Err(Error::Changed { .. })), "{result:?}");
}

#[test]
fn a_writer_is_waited_for_and_readers_are_not() {
    let world = World::new(file(1).as_bytes());
    let other = world.vfs.open(&world.path, OpenOptions::WRITE).unwrap();
    for kind in [LockKind::Fcntl, LockKind::Flock] {
        assert!(other.try_lock(kind, LockMode::Exclusive).unwrap());
        let found = world.try_scan(&EmptyKnown::default());
        assert!(matches!(found, Err(Error::Locked { .. })), "{kind:?}");
        assert!(other.try_lock(kind, LockMode::Shared).unwrap());
        assert_eq!(world.scan().seen.len(), 1, "{kind:?}");
        other.unlock(kind).unwrap();
    }
    let missing = Path::new("/mail/none");
    let mailbox = crate::MboxMailbox::open(Arc::clone(&world.vfs), missing, None).unwrap();
    assert!(barid_mailbox::Storage::stamp(&mailbox).is_err());
}

#[test]
fn a_journal_that_is_removed_at_this_moment_is_none() {
    let disk = MemVfs::new();
    let mut world = World::on(Arc::new(disk.clone()));
    world.write(file(3).as_bytes());
    let journal = world.path.with_file_name(".box.barid-journal");
    disk.open(&journal, OpenOptions::create_new(0o600)).unwrap();
    assert!(world.mailbox().unfinished(None).unwrap().is_some());
    let gone = FaultEffect::Error(std::io::ErrorKind::NotFound);
    let faulty = FaultVfs::new(disk, Fault::nth(0).of(CallKind::Open).at(journal).with(gone));
    world.vfs = Arc::new(faulty.clone());
    assert_eq!(world.mailbox().unfinished(None).unwrap(), None);
    assert!(faulty.fired());
}
