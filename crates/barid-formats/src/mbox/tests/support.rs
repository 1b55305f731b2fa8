//! //! Helpers shared by the mbox tests: a mailbox in memory, and sinks that record messages.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use barid_mailbox::{
    Extent, Known, KnownMessage, Location, ReadAs, Result, ScanContext, ScanReport, ScanSink,
    ScannedMessage, SinkError, Sinks, Storage,
};
use barid_state::{Access, Identity, Ledger, MessageKey};
use barid_types::{FlagSet, InternalDate, KeywordMask, KeywordTable, Uid};
use barid_vfs::{MemVfs, OpenOptions, Vfs};

use crate::mbox::{MboxMailbox, MboxOptions, Variant};
use crate::remembered::{Remembered, known_of_remembered};

/// /// A message as passed to a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) offset: u64,
    pub(super) separator_len: u32,
    pub(super) header: Vec<u8>,
    pub(super) body_len: u64,
    pub(super) date: InternalDate,
    pub(super) flags: FlagSet,
    pub(super) keywords: Vec<String>,
    pub(super) mask: KeywordMask,
    pub(super) key: MessageKey,
}

impl Seen {
    pub(super) fn location(&self) -> Location<'static> {
        Location::from(Extent {
            offset: self.offset,
            separator_len: self.separator_len,
            header_len: self.header.len() as u32,
            body_len: self.body_len,
        })
    }
}

/// /// Records the messages of finished chunks.
#[derive(Debug, Default)]
pub(super) struct Remember {
    chunks: Mutex<Vec<(u32, Vec<Seen>)>>,
}

struct Chunk<'a> {
    chunk: u32,
    seen: Vec<Seen>,
    all: &'a Remember,
}

impl Sinks for Remember {
    fn sink(&self, chunk: u32) -> Box<dyn ScanSink + '_> {
        Box::new(Chunk { chunk, seen: Vec::new(), all: self })
    }
}

impl ScanSink for Chunk<'_> {
    fn message(&mut self, message: &ScannedMessage<'_>) -> std::result::Result<(), SinkError> {
        let Some(Extent { offset, separator_len, header_len, body_len }) =
            message.location.extent()
        else {
            unreachable!("because an mbox has spans");
        };
        assert_eq!(header_len as usize, message.header.len());
        assert_eq!(message.size, u64::from(header_len) + body_len);
        self.seen.push(Seen {
            offset,
            separator_len,
            header: message.header.to_vec(),
            body_len,
            date: message.internal_date,
            flags: message.flags,
            keywords: Vec::new(),
            mask: message.keywords,
            key: message.key,
        });
        Ok(())
    }

    fn finish(self: Box<Self>) -> std::result::Result<(), SinkError> {
        let mut chunks = self.all.chunks.lock().unwrap();
        assert!(chunks.iter().all(|(chunk, _)| *chunk != self.chunk), "finished once");
        chunks.push((self.chunk, self.seen));
        Ok(())
    }
}

impl Remember {
    fn into_seen(self, keywords: &KeywordTable) -> Vec<Seen> {
        let mut chunks = self.chunks.into_inner().unwrap();
        chunks.sort_by_key(|(chunk, _)| *chunk);
        let mut seen: Vec<Seen> = chunks.into_iter().flat_map(|(_, seen)| seen).collect();
        for message in &mut seen {
            let names = keywords.select(message.mask);
            message.keywords = names.map(|name| name.as_str().to_owned()).collect();
            message.keywords.sort();
            message.mask = KeywordMask(0);
        }
        seen
    }
}

/// Content of a cache after a scan.
#[derive(Clone, Debug)]
pub(super) struct Cached {
    pub(super) report: ScanReport,
    pub(super) seen: Vec<Seen>,
    pub(super) uids: Vec<Uid>,
}

known_of_remembered!(Cached);

impl Remembered for Cached {
    fn report(&self) -> Option<&ScanReport> {
        Some(&self.report)
    }
    fn table(&self) -> &KeywordTable {
        &self.report.keywords
    }
    fn messages(&self) -> impl Iterator<Item = KnownMessage<'_>> {
        self.seen.iter().zip(&self.uids).map(|(seen, uid)| KnownMessage {
            uid: *uid,
            flags: seen.flags,
            keywords: seen.mask,
            location: seen.location(),
            key: seen.key,
            size: seen.header.len() as u64 + seen.body_len,
        })
    }
}

impl Cached {
    /// Returns the UIDs as numbers.
    pub(super) fn uids(&self) -> Vec<u32> {
        self.uids.iter().map(|uid| uid.get()).collect()
    }

    /// /// Returns the cache after a scan that started with this cache.
    pub(super) fn and(&self, next: Self) -> Self {
        if next.report.reset {
            return next;
        }
        let mut all = self.clone();
        all.report = next.report;
        all.seen.extend(next.seen);
        all.uids.extend(next.uids);
        all
    }
}

/// A file in memory, and the state folder of its ledger.
pub(super) struct World {
    pub(super) vfs: Arc<dyn Vfs>,
    pub(super) path: PathBuf,
    pub(super) options: MboxOptions,
    pub(super) variant: Option<Variant>,
    pub(super) threads: usize,
    pub(super) full_check: bool,
}

impl World {
    /// Completes or undoes an unfinished change.
    pub(super) fn recover(&self) {
        let known = barid_mailbox::EmptyKnown::default();
        let mut context = barid_mailbox::SyncContext::new(&known);
        self.mailbox().recover(&mut context).unwrap();
    }

    pub(super) fn new(bytes: &[u8]) -> Self {
        let world = Self::on(Arc::new(MemVfs::new()));
        world.write(bytes);
        world
    }

    pub(super) fn on(vfs: Arc<dyn Vfs>) -> Self {
        vfs.create_dir_all(Path::new("/mail"), 0o700).unwrap();
        vfs.create_dir_all(Path::new("/state"), 0o700).unwrap();
        let options = MboxOptions {
            zone: Some(jiff::tz::TimeZone::UTC),
            lock_timeout: Duration::from_millis(10),
            ..MboxOptions::default()
        };
        let path = PathBuf::from("/mail/box");
        Self { vfs, path, options, variant: None, threads: 1, full_check: false }
    }

    /// Replaces the content of the file, in place.
    pub(super) fn write(&self, bytes: &[u8]) {
        let file = self.vfs.open(&self.path, OpenOptions::create(0o600)).unwrap();
        file.set_len(0).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        self.pass_time();
    }

    /// Appends to the file.
    pub(super) fn append(&self, bytes: &[u8]) {
        let file = self.vfs.open(&self.path, OpenOptions::WRITE).unwrap();
        let size = file.metadata().unwrap().size;
        file.write_all_at(bytes, size).unwrap();
        self.pass_time();
    }

    /// Lets the racy interval pass.
    pub(super) fn pass_time(&self) {
        self.vfs.sleep(Duration::from_secs(3));
    }

    pub(super) fn mailbox(&self) -> MboxMailbox {
        self.try_mailbox().unwrap()
    }

    pub(super) fn try_mailbox(&self) -> Result<MboxMailbox> {
        let vfs = Arc::clone(&self.vfs);
        MboxMailbox::open_with(vfs, &self.path, self.variant, self.options.clone())
    }

    pub(super) fn ledger(&self) -> Ledger {
        let identity = Identity { id: 7, path: self.path.clone(), inode: 1 };
        let vfs = Arc::clone(&self.vfs);
        Ledger::open(vfs, Path::new("/state"), &identity, Access::ReadWrite).unwrap()
    }

    pub(super) fn try_scan(&self, known: &dyn Known) -> Result<Cached> {
        self.try_scan_with(self.ledger(), known)
    }

    pub(super) fn try_scan_with(&self, mut ledger: Ledger, known: &dyn Known) -> Result<Cached> {
        let mut context = ScanContext {
            ledger: &mut ledger,
            read_only: false,
            full_check: self.full_check,
            will_rescan: false,
            threads: self.threads,
            progress: None,
        };
        let sinks = Remember::default();
        let report = self.try_mailbox()?.scan(known, &sinks, &mut context)?;
        ledger.commit()?;
        let seen = sinks.into_seen(&report.keywords);
        let uids = report.new_uids.clone();
        assert_eq!(seen.len(), uids.len());
        assert!(uids.windows(2).all(|pair| pair[0] < pair[1]), "UIDs ascend");
        Ok(Cached { report, seen, uids })
    }

    pub(super) fn scan(&self) -> Cached {
        self.try_scan(&barid_mailbox::EmptyKnown::default()).unwrap()
    }

    pub(super) fn scan_again(&self, known: &Cached) -> Cached {
        known.and(self.try_scan(known).unwrap())
    }

    pub(super) fn read(&self, seen: &Seen, read_as: ReadAs) -> Vec<u8> {
        let mut buffer = Vec::new();
        self.mailbox().read(&seen.location(), read_as, &mut buffer).unwrap();
        buffer
    }
}
