//! The caches of a folder: listing, checking, converting and removing them.
//!
//! A cache may be removed at any time; it is made again when its mailbox is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_cache::{CacheContent, CacheDir, CacheOptions, Figures, Opened, Pruned};
use barid_cache::{RecordFault, Snapshot, StoreKind};
use barid_kv::Compression;
use barid_state::Identity;
use barid_types::Uid;
use barid_vfs::{OsVfs, Vfs};

use crate::error::{damaged_file, is_out_of_reach, is_refused};
use crate::{Error, OpenOptions, Result};

/// Number of attempts at a cache that other processes replace meanwhile.
const TRIES_MAX: u32 = 3;

/// Condition of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// Its header is sound.
    Ok,
    /// It will be rebuilt, for this reason.
    Damaged(String),
    /// It may be sound, but its store cannot be used here or now, for this reason.
    Unusable(String),
}

/// One cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheEntry {
    /// Path of the mailbox when it was last opened; empty if it is unknown.
    pub mailbox_path: PathBuf,
    /// The cache file.
    pub file: PathBuf,
    /// Bytes allocated for the cache, its store and its derived snapshots.
    pub bytes: u64,
    /// Number of messages; 0 if the cache is damaged.
    pub messages: u32,
    /// Name of the mailbox's format; empty if the cache is damaged.
    pub format: String,
    /// Condition of the cache.
    pub state: EntryState,
    /// Store, compression and sizes; `None` if the cache is damaged.
    pub figures: Option<CacheFigures>,
}

/// Store, compression and sizes of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheFigures {
    /// Store and compression.
    pub options: CacheOptions,
    /// Bytes allocated for the cache, its store and its derived snapshots.
    pub bytes: u64,
    /// Bytes of its header records before compression.
    pub records_raw_bytes: u64,
    /// Bytes of its header records as stored, without the store's own overhead.
    pub records_bytes: u64,
    /// Figures that only the store can report; `None` if it was not queried, or cannot be.
    pub store: Option<StoreFigures>,
}

/// Figures that the store of a cache reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreFigures {
    /// Number in the names of its files; 0 for the native store.
    pub generation: u64,
    /// Number of records of messages that are gone; removed when the cache is compacted.
    pub stale_records: u64,
    /// Ids of the dictionaries that records were compressed with.
    pub dictionaries: Vec<u8>,
}

impl CacheFigures {
    /// Returns the compression ratio of the records: raw bytes divided by stored bytes. `None` if
    /// there are no records, or if the store compresses by itself, which does not report sizes.
    pub fn ratio(&self) -> Option<f64> {
        let (raw, stored) = (self.records_raw_bytes, self.records_bytes);
        let is_told = self.options.store.builtin().is_none_or(|builtin| builtin == "none");
        (stored > 0 && is_told).then(|| raw as f64 / stored as f64)
    }

    /// Creates the figures of a cache whose files take `bytes`.
    pub(crate) fn new(figures: Figures, bytes: u64) -> Self {
        let Figures { generation, stale_records, dictionaries, .. } = figures;
        Self {
            options: figures.options,
            bytes,
            records_raw_bytes: figures.raw_bytes,
            records_bytes: figures.stored_bytes,
            store: Some(StoreFigures { generation, stale_records, dictionaries }),
        }
    }
}

/// Result of moving a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvertedCache {
    /// Number of messages.
    pub messages: u32,
    /// Store and compression before.
    pub from: CacheOptions,
    /// Store and compression now.
    pub to: CacheOptions,
    /// Bytes of all its files before.
    pub bytes_before: u64,
    /// Bytes of all its files now.
    pub bytes_after: u64,
}

/// Result of checking a whole cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyReport {
    /// Path of the mailbox; empty if it is unknown.
    pub mailbox_path: PathBuf,
    /// The cache file.
    pub file: PathBuf,
    /// Store and compression, if they can still be read.
    pub options: Option<CacheOptions>,
    /// Problems found.
    pub problems: Vec<String>,
    /// `true` if the cache is damaged, `false` if it is sound or could not be checked.
    pub damaged: bool,
    /// Header records that differ from what was written, in mailbox order; only the first of very
    /// many.
    pub records: Vec<DamagedRecord>,
}

/// A header record that differs from what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRecord {
    /// The row of its message.
    pub row: u32,
    /// The UID of its message.
    pub uid: Uid,
    /// The problem.
    pub what: String,
}

/// Files that were removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClearReport {
    /// Number of files.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
}

/// Lists the caches of a folder; reads the header of each.
///
/// # Errors
/// Errors of the file system.
pub fn list(dir: &Path) -> Result<Vec<CacheEntry>> {
    Ok(folder(dir).list()?.into_iter().map(CacheEntry::from).collect())
}

/// Lists caches as [`list`] does, but only those of `mailbox` if it is given; queries their stores
/// as well.
///
/// # Errors
/// Errors of the file system.
pub fn list_all_of(dir: &Path, mailbox: Option<&Path>) -> Result<Vec<CacheEntry>> {
    let ask = |entry: barid_cache::CacheEntry| {
        let answer = steady(&entry.path, barid_cache::Result::is_err, || ask_store(&entry));
        let mut entry = named(entry, mailbox);
        if let Some(figures) = &mut entry.figures {
            match answer {
                Ok(answer) => figures.store = answer,
                Err(error) if is_out_of_reach(&error) => {
                    entry.state = EntryState::Unusable(error.to_string());
                }
                Err(error) => entry.state = EntryState::Damaged(error.to_string()),
            }
        }
        entry
    };
    Ok(entries_of(dir, mailbox)?.into_iter().map(ask).collect())
}

/// Runs `act` on the cache at `path`, and repeats it if it failed while another process replaced
/// the cache.
fn steady<T>(path: &Path, is_bad: impl Fn(&T) -> bool, act: impl Fn() -> T) -> T {
    let looks = || OsVfs.metadata(path).ok().map(|found| (found.inode, found.changed));
    for _ in 1..TRIES_MAX {
        let before = looks();
        let done = act();
        if !is_bad(&done) || looks() == before {
            return done;
        }
    }
    act()
}

/// Returns the figures that the store of a cache reports.
fn ask_store(entry: &barid_cache::CacheEntry) -> barid_cache::Result<Option<StoreFigures>> {
    match Snapshot::open(Arc::new(OsVfs), &entry.path, entry.id)? {
        Opened::Fresh(snapshot) => Ok(CacheFigures::new(snapshot.figures()?, 0).store),
        _ => Ok(None),
    }
}

/// Returns the store and compression of the cache of `mailbox`; `None` if there is no cache, or if
/// it is damaged.
///
/// # Errors
/// Errors of the file system.
pub fn options_of(dir: &Path, mailbox: &Path) -> Result<Option<CacheOptions>> {
    let entry = entries_of(dir, Some(mailbox))?.into_iter().next();
    Ok(entry.and_then(|entry| entry.options))
}

/// Sets the requested mailbox in an entry whose cache does not name its own.
fn named(entry: barid_cache::CacheEntry, mailbox: Option<&Path>) -> CacheEntry {
    let mut entry = CacheEntry::from(entry);
    if let (Some(mailbox), true) = (mailbox, entry.mailbox_path.as_os_str().is_empty()) {
        entry.mailbox_path = canonical(mailbox);
    }
    entry
}

/// Checks every block and every header record of the caches of a folder, or of the one of
/// `mailbox`.
///
/// # Errors
/// Errors of the file system.
pub fn verify(dir: &Path, mailbox: Option<&Path>) -> Result<Vec<VerifyReport>> {
    let entries = entries_of(dir, mailbox)?.into_iter();
    entries.filter_map(|entry| verify_one(entry, mailbox).transpose()).collect()
}

/// Returns the report on one cache; `None` if it is gone by now.
fn verify_one(
    entry: barid_cache::CacheEntry,
    mailbox: Option<&Path>,
) -> Result<Option<VerifyReport>> {
    let is_bad = |found: &barid_cache::Result<barid_cache::VerifyReport>| {
        found.as_ref().is_ok_and(|found| found.damage.is_some())
    };
    let check = || barid_cache::verify(Arc::new(OsVfs), &entry.path);
    let found = steady(&entry.path, is_bad, check);
    let options = entry.options;
    let CacheEntry { mailbox_path, file, .. } = named(entry, mailbox);
    let (problems, damaged, records) = match found {
        Ok(found) => {
            let damaged = found.damage.is_some();
            (found.damage.into_iter().collect(), damaged, damaged_records(&found.faults))
        }
        Err(error @ barid_cache::Error::Store(_)) => {
            (vec![format!("cannot be checked: {error}")], false, Vec::new())
        }
        Err(barid_cache::Error::Io { source, .. })
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Some(VerifyReport { mailbox_path, file, options, problems, damaged, records }))
}

fn damaged_records(faults: &[RecordFault]) -> Vec<DamagedRecord> {
    let named = |fault: &RecordFault| DamagedRecord {
        row: fault.row,
        uid: fault.uid,
        what: fault.kind.to_string(),
    };
    faults.iter().map(named).collect()
}

/// Moves the cache of `mailbox` to another store or compression, without reading the mailbox; an
/// argument of `None` leaves that part as it is. Returns `None` if there is no cache.
///
/// The old cache stays in use until the new one is complete.
///
/// # Errors
/// A damaged cache, a store that cannot be used here, another process that writes the cache, errors
/// of the file system.
pub fn convert(
    dir: &Path,
    mailbox: &Path,
    store: Option<StoreKind>,
    compression: Option<Compression>,
) -> Result<Option<ConvertedCache>> {
    let Some(entry) = entries_of(dir, Some(mailbox))?.into_iter().next() else { return Ok(None) };
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    let snapshot = match Snapshot::open(vfs, &entry.path, entry.id)? {
        Opened::Fresh(snapshot) => snapshot,
        Opened::Absent => return Ok(None),
        Opened::Discarded { reason, .. } => {
            return Err(barid_cache::Error::NoUse { path: entry.path, reason }.into());
        }
    };
    let from = snapshot.options();
    let to = CacheOptions {
        store: store.unwrap_or(from.store),
        compression: compression.unwrap_or(from.compression),
    };
    let to = to.effective();
    let Some(converted) = snapshot.convert(&to)? else {
        return Err(barid_cache::Error::from(barid_kv::Error::Busy { path: entry.path }).into());
    };
    converted.release();
    let after = entries_of(dir, Some(mailbox))?.into_iter().next();
    Ok(Some(ConvertedCache {
        messages: converted.len(),
        from,
        to,
        bytes_before: entry.bytes,
        bytes_after: after.map_or(0, |entry| entry.bytes),
    }))
}

/// Removes the caches of a folder, or the one of `mailbox`.
///
/// # Errors
/// Errors of the file system.
pub fn clear(dir: &Path, mailbox: Option<&Path>) -> Result<ClearReport> {
    if mailbox.is_none() {
        return Ok(folder(dir).clear()?.into());
    }
    let mut report = ClearReport::default();
    for entry in entries_of(dir, mailbox)? {
        let removed = ClearReport::from(folder(dir).clear_one(entry.id)?);
        report.files += removed.files;
        report.bytes += removed.bytes;
    }
    Ok(report)
}

/// Removes the caches of mailboxes that are gone, and files that interrupted writers left behind.
///
/// # Errors
/// Errors of the file system.
pub fn prune(dir: &Path) -> Result<ClearReport> {
    let is_gone = |content: &CacheContent| {
        let found = OsVfs.metadata(&content.mailbox);
        found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    };
    Ok(folder(dir).prune(&is_gone)?.into())
}

/// Next step of a program that opens the mailbox anew after an error of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheRecovery {
    /// Open as before: the cache was replaced by another process.
    Again,
    /// Open as before: the damaged cache was removed. The value is its store and compression, if
    /// known.
    Anew(Option<CacheOptions>),
    /// Open without a cache folder: the cache may be sound, but cannot be used here or now.
    Without,
}

/// Decides how to continue after an error, and removes the cache if it is damaged; `None` if the
/// error is not the cache's, or is that the store in `options` cannot be used here. A caller with a
/// [`crate::Mailbox`] calls [`crate::Mailbox::heal`] instead.
///
/// # Errors
/// Errors of the file system.
pub fn recover(error: &Error, options: &OpenOptions) -> Result<Option<CacheRecovery>> {
    let error = match error {
        Error::Superseded { .. } => return Ok(Some(CacheRecovery::Again)),
        Error::Cache(error) => error,
        _ => return Ok(None),
    };
    if is_refused(error, options) {
        return Ok(None);
    }
    if is_out_of_reach(error) {
        return Ok(Some(CacheRecovery::Without));
    }
    let Some(path) = damaged_file(error) else { return Ok(None) };
    let dir = folder(path.parent().unwrap_or(Path::new("")));
    let lies_beside = |cache: &Path| {
        path.as_os_str().as_encoded_bytes().starts_with(cache.as_os_str().as_encoded_bytes())
    };
    let Some(entry) = dir.list()?.into_iter().find(|entry| lies_beside(&entry.path)) else {
        return Ok(Some(CacheRecovery::Anew(None)));
    };
    if dir.clear_one(entry.id).is_err() {
        return Ok(Some(CacheRecovery::Without));
    }
    Ok(Some(CacheRecovery::Anew(entry.content.ok().map(|content| content.options))))
}

fn folder(dir: &Path) -> CacheDir {
    CacheDir::new(Arc::new(OsVfs), dir)
}

/// Returns the caches of a folder, or those of `mailbox`: found by the path that they were made
/// for; a damaged one by the mailbox's identity, which names its file.
fn entries_of(dir: &Path, mailbox: Option<&Path>) -> Result<Vec<barid_cache::CacheEntry>> {
    let mut entries = folder(dir).list()?;
    if let Some(mailbox) = mailbox {
        let path = canonical(mailbox);
        let id = Identity::of(&OsVfs, &path, false).ok().map(|identity| identity.id);
        entries.retain(|entry| match &entry.content {
            Ok(content) => content.mailbox == path,
            Err(_) => id == Some(entry.id),
        });
    }
    Ok(entries)
}

fn canonical(mailbox: &Path) -> PathBuf {
    OsVfs.canonicalize(mailbox).unwrap_or_else(|_| mailbox.to_owned())
}

impl From<barid_cache::CacheEntry> for CacheEntry {
    fn from(entry: barid_cache::CacheEntry) -> Self {
        let barid_cache::CacheEntry { path: file, bytes, content, .. } = entry;
        match content {
            Ok(content) => Self {
                mailbox_path: content.mailbox,
                file,
                bytes,
                messages: content.messages,
                format: content.format,
                state: EntryState::Ok,
                figures: Some(CacheFigures {
                    options: content.options,
                    bytes,
                    records_raw_bytes: content.raw_bytes,
                    records_bytes: content.stored_bytes,
                    store: None,
                }),
            },
            Err(reason) => Self {
                mailbox_path: PathBuf::new(),
                file,
                bytes,
                messages: 0,
                format: String::new(),
                state: EntryState::Damaged(reason.to_owned()),
                figures: None,
            },
        }
    }
}

impl From<Pruned> for ClearReport {
    fn from(pruned: Pruned) -> Self {
        Self { files: u64::from(pruned.files), bytes: pruned.bytes }
    }
}
