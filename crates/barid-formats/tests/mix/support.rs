//! Support for these tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_formats::MailboxSpec;
use barid_mailbox::{
    ChangeSet, EmptyKnown, Error, FlagChange, Known, MovedMessage, NewMessage, ReadAs, ScanContext,
    ScanReport, Storage, SyncContext, SyncReport,
};
use barid_types::{FlagSet, InternalDate, Keyword, Uid};
use barid_vfs::{OpenOptions, Vfs};

pub(super) use crate::support::{Cached, Seen};

use crate::support::new_ledger;

/// Visible content of a message: its flags, its keywords, its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) flags: FlagSet,
    pub(super) keywords: Vec<String>,
    pub(super) text: Vec<u8>,
}

pub(super) type Contents = BTreeMap<u32, Content>;

/// A mailbox under test.
pub(super) struct MixBox {
    pub(super) vfs: Arc<dyn Vfs>,
    pub(super) path: PathBuf,
    pub(super) mailbox: Box<dyn Storage>,
}

impl MixBox {
    pub(super) fn open(vfs: Arc<dyn Vfs>, path: &Path) -> Self {
        let spec = MailboxSpec::parse(path.to_str().unwrap());
        let mailbox = barid_formats::open(Arc::clone(&vfs), &spec).unwrap();
        assert_eq!(mailbox.format().name(), "mix");
        Self { vfs, path: path.to_owned(), mailbox }
    }

    pub(super) fn scan_with(&self, known: &dyn Known, full_check: bool) -> Result<Cached, Error> {
        let mut ledger = new_ledger();
        let mut context = ScanContext {
            ledger: &mut ledger,
            read_only: false,
            full_check,
            will_rescan: false,
            threads: 2,
            progress: None,
        };
        Cached::scan(&*self.mailbox, known, &mut context)
    }

    /// Scans without known messages.
    pub(super) fn scan(&self) -> Cached {
        let found = self.scan_with(&EmptyKnown::default(), false).unwrap();
        assert!(found.report.reset);
        found
    }

    /// Scans with known messages; a cache must then know what a complete scan finds.
    pub(super) fn rescan(&self, known: &Cached) -> (ScanReport, Cached) {
        let new = self.scan_with(known, false).unwrap();
        let report = new.report.clone();
        let cached = known.and(new);
        assert_eq!(self.contents(&cached), self.contents(&self.scan()));
        (report, cached)
    }

    pub(super) fn read(&self, message: &Seen) -> Result<Vec<u8>, Error> {
        let mut buffer = Vec::new();
        let header_len = self.mailbox.read(&message.location, ReadAs::Message, &mut buffer)?;
        assert!(header_len <= buffer.len());
        Ok(buffer)
    }

    pub(super) fn try_contents(&self, cached: &Cached) -> Result<Contents, Error> {
        let mut contents = Contents::new();
        for message in &cached.seen {
            let text = self.read(message)?;
            assert_eq!(text.len() as u64, message.size);
            let keywords = cached.report.keywords.select(message.mask);
            let keywords = keywords.map(|keyword| keyword.as_str().to_owned()).collect();
            let content = Content { flags: message.flags, keywords, text };
            assert!(contents.insert(message.uid.get(), content).is_none());
        }
        Ok(contents)
    }

    pub(super) fn contents(&self, cached: &Cached) -> Contents {
        self.try_contents(cached).unwrap()
    }

    pub(super) fn now(&self) -> Contents {
        self.contents(&self.scan())
    }

    pub(super) fn sync(
        &mut self,
        changes: &ChangeSet,
        appends: &[NewMessage<'_>],
    ) -> Result<SyncReport, Error> {
        let known = self.scan();
        self.mailbox.sync(changes, appends, &mut SyncContext::new(&known))
    }

    /// Changes the mailbox, and follows the change as a cache does: the result must match the
    /// mailbox.
    pub(super) fn sync_following(
        &mut self,
        known: &Cached,
        changes: &ChangeSet,
        appends: &[NewMessage<'_>],
    ) -> (SyncReport, Cached) {
        let mut moved = Vec::new();
        let mut take = |message: &MovedMessage| moved.push(*message);
        let mut context = SyncContext::new(known);
        context.moved = Some(&mut take);
        let report = self.mailbox.sync(changes, appends, &mut context).unwrap();
        let synced = report.cache.clone().unwrap();
        let mut cached = known.clone();
        cached.seen.retain(|message| !report.expunged.contains(&message.uid));
        for moved in moved {
            let found = cached.seen.iter_mut().find(|message| message.uid == moved.uid);
            let message = found.unwrap();
            (message.flags, message.mask) = (moved.flags, moved.keywords);
            message.location = moved.location.unwrap();
        }
        cached.report.stamp = synced.stamp;
        cached.report.state = synced.state;
        cached.report.keywords = synced.keywords;
        let (scanned, after) = self.rescan(&cached);
        assert!(!scanned.reset && scanned.changed.is_empty() && scanned.expunged.is_empty());
        assert_eq!(scanned.stats.messages_read, appends.len() as u64);
        assert!(after.report.stamp.is_same(&synced.stamp_after));
        (report, after)
    }

    /// Returns all files, by name.
    pub(super) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let dir = self.vfs.open_dir(&self.path).unwrap();
        let mut names = Vec::new();
        dir.list(&mut |name, _| names.push(String::from_utf8(name.to_vec()).unwrap())).unwrap();
        for name in names {
            let bytes = self.vfs.read(&self.path.join(&name), 1 << 30).unwrap();
            files.insert(name, bytes);
        }
        files
    }
}

/// Writes files to a folder.
pub(super) fn write_files<'a>(
    vfs: &dyn Vfs,
    path: &Path,
    files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) {
    vfs.create_dir_all(path, 0o700).unwrap();
    for (name, bytes) in files {
        let options = OpenOptions { truncate: true, ..OpenOptions::create(0o600) };
        let file = vfs.open(&path.join(name), options).unwrap();
        file.write_all_at(bytes, 0).unwrap();
    }
}

/// Creates a mailbox as c-client does.
pub(super) fn create(vfs: &Arc<dyn Vfs>, path: &Path) -> MixBox {
    let meta = "S5f000000\r\nV5f000000\r\nL00000000\r\nN5f000000\r\n";
    let files: [(&str, &[u8]); 4] = [
        (".mix5f000000", b""),
        (".mixindex", b""),
        (".mixmeta", meta.as_bytes()),
        (".mixstatus", b""),
    ];
    write_files(&**vfs, path, files);
    MixBox::open(Arc::clone(vfs), path)
}

pub(super) fn new_message(bytes: &[u8]) -> NewMessage<'_> {
    NewMessage {
        bytes,
        internal_date: Some(InternalDate { unix_seconds: 1_000_000_000, zone_minutes: 60 }),
        flags: FlagSet::EMPTY,
        keywords: Vec::new(),
        ..NewMessage::default()
    }
}

pub(super) fn uid(number: u32) -> Uid {
    Uid::new(number).unwrap()
}

pub(super) fn keyword(name: &str) -> Keyword {
    Keyword::new(name).unwrap()
}

pub(super) fn add(number: u32, flags: FlagSet, keywords: &[&str]) -> (Uid, FlagChange) {
    let add_keywords = keywords.iter().map(|name| keyword(name)).collect();
    (uid(number), FlagChange { add: flags, add_keywords, ..FlagChange::default() })
}
