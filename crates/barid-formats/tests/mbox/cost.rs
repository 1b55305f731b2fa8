//! Cost of incremental work.

use std::path::Path;
use std::sync::Arc;

use barid_formats::MboxMailbox;
use barid_mailbox::{
    Extent, Known, KnownMessage, MessageName, ReadAs, ScanContext, ScanReport, ScanSink,
    ScannedMessage, SinkError, Sinks, Stamp, Storage,
};
use barid_state::{Access, Identity, Ledger};
use barid_testkit::boxes::{MboxOptions, MboxVariant};
use barid_testkit::corpus::Corpus;
use barid_types::{KeywordTable, Uid, UidValidity};
use barid_vfs::{CallKind, CountingVfs, Host as _, MemVfs, OpenOptions, Vfs};

struct Nowhere;

impl Sinks for Nowhere {
    fn sink(&self, _chunk: u32) -> Box<dyn ScanSink + '_> {
        Box::new(Self)
    }
}

impl ScanSink for Nowhere {
    fn message(&mut self, _message: &ScannedMessage<'_>) -> Result<(), SinkError> {
        Ok(())
    }
    fn finish(self: Box<Self>) -> Result<(), SinkError> {
        Ok(())
    }
}

/// The known state that a tail scan needs, and no more.
struct Last(ScanReport);

impl Known for Last {
    fn stamp(&self) -> Option<Stamp> {
        Some(self.0.stamp)
    }
    fn state(&self) -> &[u8] {
        &self.0.state
    }
    fn uidvalidity(&self) -> Option<UidValidity> {
        Some(self.0.uidvalidity)
    }
    fn uidnext(&self) -> Option<Uid> {
        Some(self.0.uidnext)
    }
    fn keywords(&self) -> &KeywordTable {
        &self.0.keywords
    }
    fn len(&self) -> u32 {
        self.0.new_uids.len() as u32
    }
    fn visit(
        &self,
        first: u32,
        visit: &mut dyn FnMut(&KnownMessage<'_>) -> bool,
    ) -> Result<(), SinkError> {
        let uid = self.0.new_uids[first as usize];
        let location =
            barid_mailbox::Location::from(MessageName { name: b"", in_new: false, mark: 0 });
        let (flags, keywords, key, size) = Default::default();
        visit(&KnownMessage { uid, flags, keywords, location, key, size });
        Ok(())
    }
}

#[test]
fn one_message_appended_costs_a_few_calls() {
    let disk = MemVfs::new();
    let path = Path::new("/box");
    disk.create_dir(Path::new("/state"), 0o700).unwrap();
    let corpus = Corpus::new(3, 5_001);
    let options = MboxOptions::new(MboxVariant::Mboxo);
    let mut bytes = Vec::new();
    (0..5_000).for_each(|number| options.render(&corpus.message(number), &mut bytes));
    let file = disk.open(path, OpenOptions::create(0o600)).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    disk.sleep(std::time::Duration::from_secs(10));

    let counting = CountingVfs::new(disk.clone());
    let vfs: Arc<dyn Vfs> = Arc::new(counting.clone());
    let mailbox = MboxMailbox::open(Arc::clone(&vfs), path, None).unwrap();
    let identity = Identity { id: 1, path: path.to_owned(), inode: 1 };
    let state: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut ledger =
        Ledger::open(state, Path::new("/state"), &identity, Access::ReadWrite).unwrap();
    let mut scan = |known: &dyn Known| {
        let ledger = &mut ledger;
        let mut context = ScanContext {
            ledger,
            read_only: false,
            full_check: false,
            will_rescan: false,
            threads: 2,
            progress: None,
        };
        mailbox.scan(known, &Nowhere, &mut context).unwrap()
    };
    let report = scan(&barid_mailbox::EmptyKnown::default());
    assert_eq!(report.new_uids.len(), 5_000);

    let mut message = Vec::new();
    options.render(&corpus.message(5_000), &mut message);
    file.write_all_at(&message, bytes.len() as u64).unwrap();
    disk.sleep(std::time::Duration::from_secs(10));
    let before = counting.counts();
    let known = Last(report);
    let report = scan(&known);
    let cost = counting.counts().since(&before);
    assert!(report.tail_verified && !report.reset);
    assert_eq!(report.new_uids.iter().map(|uid| uid.get()).collect::<Vec<_>>(), [5_001]);
    assert!(cost.calls() <= 10, "{cost:?}");
    assert!(cost.bytes().read <= 64 * 1024, "{cost:?}");
    assert_eq!(cost.bytes().written, 0);

    let known = Last(ScanReport { new_uids: vec![Uid::MIN; 5_001], ..report });
    let before = counting.counts();
    let report = scan(&known);
    let cost = counting.counts().since(&before);
    assert!(!report.reset && report.new_uids.is_empty());
    assert_eq!(cost.of(CallKind::Read), 0, "an unchanged file is not read: {cost:?}");
    let mut buffer = Vec::new();
    let location = barid_mailbox::Location::from(Extent {
        offset: 0,
        separator_len: bytes.iter().position(|byte| *byte == b'\n').unwrap() as u32 + 1,
        header_len: 0,
        body_len: 10,
    });
    let before = counting.counts();
    mailbox.read(&location, ReadAs::Stored, &mut buffer).unwrap();
    assert!(counting.counts().since(&before).calls() <= 4);
}
