//! Test support of formats with a file per message: a mailbox, and a cache in memory that follows
//! it.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use barid_mailbox::{
    ChangeSet, FlagChange, KnownMessage, Location, MessageName, NewMessage, ReadAs, Result,
    ScanContext, ScanReport, ScanSink, ScannedMessage, SinkError, Sinks, Storage, SyncContext,
    SyncReport,
};
use barid_state::{Access, Identity, Ledger, MessageKey};
use barid_types::{FlagSet, InternalDate, Keyword, KeywordMask, KeywordTable, Uid};
use barid_vfs::{CallKind, MeanwhileVfs, MemVfs, OpenOptions, Vfs};

use crate::remembered::{Remembered, known_of_remembered};

/// A message as the cache stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cached {
    pub(crate) name: Vec<u8>,
    pub(crate) in_new: bool,
    pub(crate) mark: u32,
    pub(crate) flags: FlagSet,
    pub(crate) mask: KeywordMask,
    pub(crate) key: MessageKey,
    pub(crate) header: Vec<u8>,
    pub(crate) size: u64,
    pub(crate) rfc822_size: Option<u64>,
    pub(crate) date: InternalDate,
}

impl Cached {
    pub(crate) fn location(&self) -> Location<'_> {
        Location::from(MessageName { name: &self.name, in_new: self.in_new, mark: self.mark })
    }
}

/// Content of a cache.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cache {
    pub(crate) report: Option<ScanReport>,
    pub(crate) messages: BTreeMap<Uid, Cached>,
    table: KeywordTable,
    /// `true` to have scans of a Maildir load all messages.
    pub(crate) has_many_new: bool,
    /// Number of times that names of files were asked for which are not in `new`.
    pub(crate) loads: Arc<AtomicU32>,
}

known_of_remembered!(Cache);

impl Remembered for Cache {
    fn report(&self) -> Option<&ScanReport> {
        self.report.as_ref()
    }
    fn table(&self) -> &KeywordTable {
        &self.table
    }
    fn messages(&self) -> impl Iterator<Item = KnownMessage<'_>> {
        self.messages.iter().map(|(uid, cached)| KnownMessage {
            uid: *uid,
            flags: cached.flags,
            keywords: cached.mask,
            location: cached.location(),
            key: cached.key,
            size: cached.size,
        })
    }
    fn has_many_new(&self) -> bool {
        self.has_many_new
    }
    fn visited(&self, all_in_new: bool) {
        self.loads.fetch_add(u32::from(!all_in_new), Ordering::Relaxed);
    }
}

/// Stores the messages of the finished chunks.
#[derive(Default)]
struct Remember(Mutex<BTreeMap<u32, Vec<(Uid, Cached)>>>);

struct Chunk<'a>(u32, Vec<(Uid, Cached)>, &'a Remember);

impl Sinks for Remember {
    fn sink(&self, chunk: u32) -> Box<dyn ScanSink + '_> {
        Box::new(Chunk(chunk, Vec::new(), self))
    }
}

impl ScanSink for Chunk<'_> {
    fn message(&mut self, message: &ScannedMessage<'_>) -> std::result::Result<(), SinkError> {
        let Some(MessageName { name, in_new, mark }) = message.location.message_name() else {
            unreachable!("because a message is a file");
        };
        let cached = Cached {
            name: name.to_vec(),
            in_new,
            mark,
            flags: message.flags,
            mask: message.keywords,
            key: message.key,
            header: message.header.to_vec(),
            size: message.size,
            rfc822_size: message.rfc822_size,
            date: message.internal_date,
        };
        self.1.push((message.uid.expect("because these formats give UIDs at once"), cached));
        Ok(())
    }

    fn finish(self: Box<Self>) -> std::result::Result<(), SinkError> {
        let earlier = self.2.0.lock().unwrap().insert(self.0, self.1);
        assert!(earlier.is_none(), "a chunk is finished once");
        Ok(())
    }
}

/// Returns what another program does that hides a file from that many listings of its folder: it
/// renames the file before a listing, and back before the next `stat` of the folder.
pub(crate) fn hider(
    disk: &MemVfs,
    path: &str,
    listings: u32,
) -> impl Fn(CallKind, &Path) + Send + Sync + use<> {
    let (disk, path, left) = (disk.clone(), PathBuf::from(path), AtomicU32::new(listings));
    let away = path.with_file_name(".away");
    move |kind, called| {
        // Another thread looks at other files meanwhile.
        let is_of_folder = Some(called) == path.parent();
        if kind == CallKind::List
            && is_of_folder
            && left.load(Ordering::Relaxed) > 0
            && disk.rename(&path, &away).is_ok()
        {
            left.fetch_sub(1, Ordering::Relaxed);
        }
        if kind == CallKind::Stat && is_of_folder {
            let _ = disk.rename(&away, &path);
        }
    }
}

/// Returns a file system with such a program ([`hider`]).
pub(crate) fn hiding(disk: &MemVfs, path: &str, listings: u32) -> Arc<dyn Vfs> {
    Arc::new(MeanwhileVfs::new(disk.clone(), hider(disk, path, listings)))
}

/// A format with a file per message.
pub(crate) trait Kind: Storage + Sized {
    /// The subfolders of a mailbox, which is a folder itself.
    const FOLDERS: &[&str];
    /// `true` if a scan needs a persistent ledger.
    const NEEDS_LEDGER: bool;
    /// Opens a mailbox.
    fn at(vfs: Arc<dyn Vfs>, path: PathBuf) -> Self;
    /// Returns the text for a file's name in [`World::lines`].
    fn shown(name: &str, in_new: bool) -> String;
}

/// A mailbox at `/box` (or elsewhere) and its cache.
pub(crate) struct World<K> {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) path: PathBuf,
    pub(crate) state_dir: PathBuf,
    pub(crate) cache: Cache,
    pub(crate) read_only: bool,
    pub(crate) full_check: bool,
    pub(crate) threads: usize,
    pub(crate) kind: PhantomData<K>,
}

impl<K: Kind> World<K> {
    /// Makes an empty mailbox.
    pub(crate) fn new(vfs: Arc<dyn Vfs>) -> Self {
        let world = Self::at(vfs, Path::new("/box"), Path::new("/state"));
        for folder in [""].iter().chain(K::FOLDERS) {
            world.vfs.create_dir_all(&world.path.join(folder), 0o700).unwrap();
        }
        world
    }

    /// Makes the world of a mailbox that exists already, or will.
    pub(crate) fn at(vfs: Arc<dyn Vfs>, path: &Path, state_dir: &Path) -> Self {
        vfs.create_dir_all(state_dir, 0o700).unwrap();
        Self {
            vfs,
            path: path.to_owned(),
            state_dir: state_dir.to_owned(),
            cache: Cache::default(),
            read_only: false,
            full_check: false,
            threads: 2,
            kind: PhantomData,
        }
    }

    pub(crate) fn mailbox(&self) -> K {
        K::at(Arc::clone(&self.vfs), self.path.clone())
    }

    pub(crate) fn ledger(&self) -> Result<Ledger> {
        let identity = Identity { id: 7, path: self.path.clone(), inode: 1 };
        let vfs = Arc::clone(&self.vfs);
        Ok(Ledger::open(vfs, &self.state_dir, &identity, Access::ReadWrite)?)
    }

    /// Writes a file, as another program would.
    pub(crate) fn put(&self, name: &str, content: &[u8]) {
        let path = self.path.join(name);
        let options = OpenOptions { truncate: true, ..OpenOptions::create(0o600) };
        self.vfs.open(&path, options).unwrap().write_all_at(content, 0).unwrap();
    }

    /// Renames a file, as another program would.
    pub(crate) fn rename(&self, from: &str, to: &str) {
        self.vfs.rename(&self.path.join(from), &self.path.join(to)).unwrap();
    }

    pub(crate) fn remove(&self, name: &str) {
        self.vfs.remove_file(&self.path.join(name)).unwrap();
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8(self.vfs.read(&self.path.join(name), 1 << 20).unwrap()).unwrap()
    }

    /// Lets the racy interval pass.
    pub(crate) fn pass_time(&self) {
        self.vfs.sleep(Duration::from_secs(3));
    }

    /// Scans, and updates the cache.
    pub(crate) fn scan(&mut self) -> ScanReport {
        self.try_scan().unwrap()
    }

    pub(crate) fn try_scan(&mut self) -> Result<ScanReport> {
        let sinks = Remember::default();
        let mut ledger = self.ledger()?;
        let mut context = ScanContext {
            ledger: &mut ledger,
            read_only: self.read_only,
            full_check: self.full_check,
            will_rescan: false,
            threads: self.threads,
            progress: None,
        };
        let report = self.mailbox().scan(&self.cache, &sinks, &mut context)?;
        ledger.commit()?;
        ledger.unlock();
        self.follow(&report, sinks);
        match ledger.is_persistent() || !K::NEEDS_LEDGER {
            true => Ok(report),
            false => Err(barid_mailbox::Error::Unsupported {
                path: self.path.clone(),
                what: "no ledger",
            }),
        }
    }

    /// Updates the cache by the report, and checks what must always be true.
    fn follow(&mut self, report: &ScanReport, sinks: Remember) {
        let cache = &mut self.cache;
        if report.reset {
            cache.messages.clear();
        }
        for uid in &report.expunged {
            assert!(cache.messages.remove(uid).is_some(), "{uid} was known");
        }
        for changed in &report.changed {
            let cached = cache.messages.get_mut(&changed.uid).unwrap();
            (cached.flags, cached.mask) = (changed.flags, changed.keywords);
            if let Some((name, in_new)) = &changed.file {
                (cached.name, cached.in_new) = (name.clone(), *in_new);
            }
        }
        let last = cache.messages.keys().next_back().copied();
        let fresh: Vec<(Uid, Cached)> =
            sinks.0.into_inner().unwrap().into_values().flatten().collect();
        assert!(fresh.is_sorted_by_key(|(uid, _)| *uid), "in mailbox order");
        assert!(fresh.first().is_none_or(|(uid, _)| Some(*uid) > last), "new ones come last");
        assert!(fresh.last().is_none_or(|(uid, _)| *uid < report.uidnext), "below UIDNEXT");
        for (uid, cached) in fresh {
            assert!(cache.messages.insert(uid, cached).is_none());
        }
        let mut names: Vec<_> = cache.messages.values().map(|m| (&m.name, m.in_new)).collect();
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "no file is there twice");
        cache.table = report.keywords.clone();
        cache.report = Some(report.clone());
    }

    /// Syncs; the cache follows at the next scan.
    pub(crate) fn sync(
        &self,
        changes: &ChangeSet,
        appends: &[NewMessage<'_>],
    ) -> Result<SyncReport> {
        self.sync_with(changes, appends, false)
    }

    /// Syncs as [`World::sync`] does, or as a dry run.
    pub(crate) fn sync_with(
        &self,
        changes: &ChangeSet,
        appends: &[NewMessage<'_>],
        dry_run: bool,
    ) -> Result<SyncReport> {
        let mut ledger = self.ledger()?;
        let mut context = SyncContext::new(&self.cache);
        context.ledger = Some(&mut ledger);
        context.dry_run = dry_run;
        self.mailbox().sync(changes, appends, &mut context)
    }

    /// Syncs as [`World::sync`] does, and stops once this much progress is reported.
    pub(crate) fn sync_until(
        &self,
        changes: &ChangeSet,
        appends: &[NewMessage<'_>],
        done: u64,
    ) -> Result<SyncReport> {
        let stop = AtomicBool::new(false);
        let progress = |at: u64, _: u64| {
            stop.fetch_or(at >= done, Ordering::Relaxed);
        };
        let mut ledger = self.ledger()?;
        let mut context = SyncContext::new(&self.cache);
        context.ledger = Some(&mut ledger);
        context.stop = Some(&stop);
        context.progress = Some(&progress);
        self.mailbox().sync(changes, appends, &mut context)
    }

    /// Returns UID, file and flags of every known message, one line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |(uid, m): (&Uid, &Cached)| {
            let keywords: Vec<&str> =
                self.cache.table.select(m.mask).map(Keyword::as_str).collect();
            let name = String::from_utf8_lossy(&m.name);
            let shown = K::shown(&name, m.in_new);
            let flags: Vec<&str> = m.flags.iter().map(|flag| &flag.name()[1..]).collect();
            format!("{uid} {shown} {}", [flags, keywords].concat().join(","))
        };
        self.cache.messages.iter().map(line).map(|line| line.trim_end().to_owned()).collect()
    }

    pub(crate) fn uids(&self) -> Vec<u32> {
        self.cache.messages.keys().map(|uid| uid.get()).collect()
    }

    /// Returns the bytes of a known message.
    pub(crate) fn read(&self, uid: u32) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let cached = &self.cache.messages[&Uid::new(uid).unwrap()];
        self.mailbox().read(&cached.location(), ReadAs::Message, &mut bytes)?;
        Ok(bytes)
    }

    /// Empties the cache, as if it had been deleted.
    pub(crate) fn forget(&mut self) {
        self.cache = Cache::default();
    }
}

/// Makes a UID.
pub(crate) fn uid(number: u32) -> Uid {
    Uid::new(number).unwrap()
}

/// Makes a message to be appended.
pub(crate) fn message(bytes: &[u8]) -> NewMessage<'_> {
    NewMessage {
        bytes,
        internal_date: None,
        flags: FlagSet::EMPTY,
        keywords: Vec::new(),
        ..NewMessage::default()
    }
}

/// Makes a change of one message's flags.
pub(crate) fn flagged(number: u32, add: FlagSet, remove: FlagSet) -> ChangeSet {
    let change = FlagChange { add, remove, ..FlagChange::default() };
    ChangeSet { flags: vec![(uid(number), change)].into(), ..ChangeSet::default() }
}

/// Makes a keyword.
pub(crate) fn keyword(name: &str) -> Keyword {
    Keyword::new(name).unwrap()
}
