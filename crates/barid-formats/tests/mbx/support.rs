//! Support for these tests: a mailbox on a disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use barid_formats::{MailboxSpec, MboxOptions};
use barid_mailbox::{
    ChangeSet, EmptyKnown, Error, Extent, Known, NewMessage, ReadAs, ScanContext, Storage,
    SyncContext, SyncReport,
};
use barid_types::{FlagSet, InternalDate, Keyword, Uid};
use barid_vfs::{MemVfs, OpenOptions, Vfs};

pub(crate) use crate::support::{Cached, Seen};

use crate::support::new_ledger;

/// A mailbox on a disk.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) path: PathBuf,
    pub(crate) read_only: bool,
    pub(crate) full_check: bool,
    pub(crate) lock_timeout: Duration,
}

impl World {
    pub(crate) fn on(vfs: Arc<dyn Vfs>, path: &Path) -> Self {
        let lock_timeout = Duration::from_secs(10);
        Self { vfs, path: path.to_owned(), read_only: false, full_check: false, lock_timeout }
    }

    /// Makes a mailbox in memory.
    pub(crate) fn of(bytes: &[u8]) -> (MemVfs, Self) {
        let disk = MemVfs::new();
        for folder in ["/mail", "/state", "/tmp"] {
            disk.create_dir(Path::new(folder), 0o700).unwrap();
        }
        let path = Path::new("/mail/box");
        let file = disk.open(path, OpenOptions::create(0o600)).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        let mut world = Self::on(Arc::new(disk.clone()), path);
        world.lock_timeout = Duration::from_millis(10);
        world.pass_time();
        (disk, world)
    }

    /// Lets the racy interval pass.
    pub(crate) fn pass_time(&self) {
        self.vfs.sleep(Duration::from_secs(3));
    }

    pub(crate) fn mailbox(&self) -> Result<Box<dyn Storage>, Error> {
        let spec = MailboxSpec { format: None, path: self.path.clone() };
        let options = MboxOptions { lock_timeout: self.lock_timeout, ..MboxOptions::default() };
        barid_formats::open_with(Arc::clone(&self.vfs), &spec, options)
    }

    pub(crate) fn try_scan(&self, known: &dyn Known) -> Result<Cached, Error> {
        let mut ledger = new_ledger();
        let mut context = ScanContext {
            ledger: &mut ledger,
            read_only: self.read_only,
            full_check: self.full_check,
            will_rescan: false,
            threads: 2,
            progress: None,
        };
        let found = Cached::scan(&*self.mailbox()?, known, &mut context)?;
        for Seen { location, size, rfc822_size, header, .. } in &found.seen {
            let Some(Extent { header_len, body_len, .. }) = location.extent() else {
                panic!("no span")
            };
            assert_eq!(header_len as usize, header.len());
            assert_eq!(*size, u64::from(header_len) + body_len);
            assert_eq!(*rfc822_size, Some(*size));
        }
        assert!(found.seen.is_sorted_by(|a, b| a.uid < b.uid), "UIDs ascend");
        assert!(found.seen.last().is_none_or(|last| last.uid < found.report.uidnext));
        Ok(found)
    }

    pub(crate) fn scan(&self) -> Cached {
        self.try_scan(&EmptyKnown::default()).unwrap()
    }

    pub(crate) fn scan_again(&self, known: &Cached) -> Cached {
        known.and(self.try_scan(known).unwrap())
    }

    pub(crate) fn try_sync(
        &self,
        known: &dyn Known,
        changes: &ChangeSet,
        appends: &[NewMessage<'_>],
    ) -> Result<SyncReport, Error> {
        let mut context = SyncContext::new(known);
        context.state_dir = Some(Path::new("/state"));
        self.mailbox()?.sync(changes, appends, &mut context)
    }

    /// Changes the mailbox after a scan; checks that a cache can follow the report.
    pub(crate) fn change(&self, changes: &ChangeSet, appends: &[NewMessage<'_>]) -> SyncReport {
        let known = self.scan();
        self.pass_time();
        let mut moved = Vec::new();
        let mut tell = |message: &barid_mailbox::MovedMessage| moved.push(*message);
        let mut context = SyncContext::new(&known);
        context.moved = Some(&mut tell);
        let report = self.mailbox().unwrap().sync(changes, appends, &mut context).unwrap();
        let followed = follow(&known, &report, &moved);
        let fresh = self.scan();
        let cache = report.cache.as_ref().expect("because nobody else was here");
        let count = followed.seen.len();
        assert_eq!(followed.seen, fresh.seen[..count], "what was told is what is there");
        assert_eq!(cache.keywords, fresh.report.keywords);
        // With the reported changes, the next scan finds only the appended messages.
        let again = self.try_scan(&followed).unwrap();
        assert_eq!(again.seen, fresh.seen[count..]);
        assert!(!again.report.reset && again.report.changed.is_empty());
        report
    }

    pub(crate) fn read(&self, seen: &Seen) -> Result<Vec<u8>, Error> {
        let mut buffer = b"before".to_vec();
        let header_len = self.mailbox()?.read(&seen.location, ReadAs::Message, &mut buffer)?;
        assert_eq!(header_len, seen.header.len());
        assert_eq!(&buffer[6..6 + header_len], seen.header);
        Ok(buffer[6..].to_vec())
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.vfs.read(&self.path, 1 << 30).unwrap()
    }
}

/// Updates the known messages by the report of a change, as a cache does.
fn follow(known: &Cached, report: &SyncReport, moved: &[barid_mailbox::MovedMessage]) -> Cached {
    let mut all = known.clone();
    all.seen.retain(|seen| !report.expunged.contains(&seen.uid));
    for seen in &mut all.seen {
        if let Some(moved) = moved.iter().find(|moved| moved.uid == seen.uid) {
            (seen.flags, seen.mask) = (moved.flags, moved.keywords);
            seen.location = moved.location.unwrap();
            continue;
        }
        let Some(extent) = seen.location.extent() else { continue };
        let at = extent.offset;
        for shift in &report.shifts {
            if (shift.old_offset..shift.old_offset + shift.len).contains(&at) {
                let offset = shift.new_offset + (at - shift.old_offset);
                seen.location = Extent { offset, ..extent }.into();
            }
        }
    }
    if let Some(cache) = &report.cache {
        all.report.stamp = cache.stamp;
        all.report.state.clone_from(&cache.state);
        all.report.keywords.clone_from(&cache.keywords);
    }
    all
}

/// Returns the header of an empty file.
pub(crate) fn empty() -> Vec<u8> {
    header(0x544a_adf6, 0, &[])
}

pub(crate) fn header(uidvalidity: u32, uid_last: u32, keywords: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*mbx*\r\n{uidvalidity:08x}{uid_last:08x}\r\n").into_bytes();
    for line in 0..30 {
        bytes.extend_from_slice(keywords.get(line).map_or("", |name| name).as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.resize(2048, 0);
    bytes
}

/// Returns a line and its message.
pub(crate) fn record(text: &str, keywords: u32, flags: u16, uid: u32) -> Vec<u8> {
    let len = text.len();
    let line = format!(" 2-Dec-1992 05:53:22 -0700,{len};{keywords:08x}{flags:04x}-{uid:08x}\r\n");
    format!("{line}{text}").into_bytes()
}

/// Returns a text that depends on the number.
pub(crate) fn text(number: usize) -> String {
    let body = format!("Line of {number}.\r\n").repeat(1 + number * 7 % 60);
    format!("Subject: number {number}\r\nMessage-ID: <{number}@example.org>\r\n\r\n{body}")
}

pub(crate) fn new_message<'a>(bytes: &'a [u8], seconds: i64) -> NewMessage<'a> {
    NewMessage {
        bytes,
        internal_date: Some(InternalDate { unix_seconds: seconds, zone_minutes: 0 }),
        flags: FlagSet::EMPTY,
        keywords: Vec::new(),
        ..NewMessage::default()
    }
}

pub(crate) fn uid(number: u32) -> Uid {
    Uid::new(number).unwrap()
}

pub(crate) fn keyword(name: &str) -> Keyword {
    Keyword::new(name).unwrap()
}
