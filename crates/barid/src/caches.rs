//! The caches of a folder: what there is, whether it is sound, and getting rid of it.
//!
//! A cache may be removed at any time; it is made again when its mailbox is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_cache::{CacheContent, CacheDir, CacheOptions, Opened, Pruned, Snapshot, StoreKind};
use barid_kv::Compression;
use barid_vfs::{OsVfs, Vfs};

use crate::error::{damaged_file, is_out_of_reach, is_refused};
use crate::{Error, OpenOptions, Result};

/// Whether a cache is of use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// Its header is sound.
    Ok,
    /// It will be made anew, for this reason.
    Damaged(String),
}

/// One cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheEntry {
    /// The mailbox when it was last opened; empty if the cache cannot tell.
    pub mailbox_path: PathBuf,
    /// The cache file.
    pub file: PathBuf,
    /// Bytes of it and of what is derived from it.
    pub bytes: u64,
    /// Its messages.
    pub messages: u32,
    /// The name of the mailbox's format; empty if the cache cannot tell.
    pub format: String,
    /// Whether it is of use.
    pub state: EntryState,
    /// What it is made of; `None` if the cache cannot tell.
    pub figures: Option<CacheFigures>,
}

/// What a cache is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheFigures {
    /// What it is kept in.
    pub options: CacheOptions,
    /// Names the files of its store.
    pub generation: u64,
    /// Bytes of all its files.
    pub bytes: u64,
    /// Bytes of its header records as they are stored.
    pub records_bytes: u64,
    /// Bytes of its header records before they were compressed.
    pub records_raw_bytes: u64,
    /// Records of messages that are gone; removed when the cache is next written anew.
    pub stale_records: u64,
    /// The ids of the dictionaries that records were compressed with.
    pub dictionaries: Vec<u8>,
}

impl CacheFigures {
    /// How much smaller records are than uncompressed; `None` if there are none.
    pub fn ratio(&self) -> Option<f64> {
        let (raw, stored) = (self.records_raw_bytes, self.records_bytes);
        (stored > 0).then(|| raw as f64 / stored as f64)
    }
}

/// A cache that was moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// Its messages.
    pub messages: u32,
    /// What it was kept in.
    pub from: CacheOptions,
    /// What it is kept in now.
    pub to: CacheOptions,
    /// Bytes of all its files before.
    pub bytes_before: u64,
    /// Bytes of all its files now.
    pub bytes_after: u64,
}

/// What a check of a whole cache found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyReport {
    /// The mailbox.
    pub mailbox_path: PathBuf,
    /// The cache file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub problems: Vec<String>,
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClearReport {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Lists the caches of a folder; reads the header of each.
///
/// # Errors
/// What the file system says.
pub fn list(dir: &Path) -> Result<Vec<CacheEntry>> {
    list_of(dir, None)
}

/// As [`list`], the caches of `mailbox` only, if it is given.
///
/// # Errors
/// What the file system says.
pub fn list_of(dir: &Path, mailbox: Option<&Path>) -> Result<Vec<CacheEntry>> {
    let figured = |entry: barid_cache::CacheEntry| {
        let figures = figures(&entry);
        CacheEntry { figures, ..entry.into() }
    };
    Ok(entries_of(dir, mailbox)?.into_iter().map(figured).collect())
}

/// Checks every block of the caches of a folder, or of the one of `mailbox`.
///
/// # Errors
/// What the file system says.
pub fn verify(dir: &Path, mailbox: Option<&Path>) -> Result<Vec<VerifyReport>> {
    let mut reports = Vec::new();
    for entry in entries_of(dir, mailbox)? {
        let found = barid_cache::verify(Arc::new(OsVfs), &entry.path)?;
        let CacheEntry { mailbox_path, file, .. } = entry.into();
        reports.push(VerifyReport {
            mailbox_path,
            file,
            problems: found.damage.into_iter().collect(),
        });
    }
    Ok(reports)
}

/// Moves the cache of `mailbox` to another store or compression, without reading the mailbox; what
/// is not given stays as it is. `None` if there is no cache of use.
///
/// Until the new cache is whole the old one stays in use.
///
/// # Errors
/// A damaged cache, a store that cannot be used here, another process that writes the cache, what
/// the file system says.
pub fn convert(
    dir: &Path,
    mailbox: &Path,
    store: Option<StoreKind>,
    compression: Option<Compression>,
) -> Result<Option<Converted>> {
    let Some(entry) = entries_of(dir, Some(mailbox))?.into_iter().next() else { return Ok(None) };
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    let Opened::Fresh(snapshot) = Snapshot::open(vfs, &entry.path, entry.id)? else {
        return Ok(None);
    };
    let from = snapshot.options();
    let to = CacheOptions {
        store: store.unwrap_or(from.store),
        compression: compression.unwrap_or(from.compression),
    };
    let Some(converted) = snapshot.convert(&to)? else {
        return Err(barid_cache::Error::from(barid_kv::Error::Busy { path: entry.path }).into());
    };
    converted.release();
    let after = entries_of(dir, Some(mailbox))?.into_iter().next();
    Ok(Some(Converted {
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
/// What the file system says.
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

/// Removes the caches of mailboxes that are gone, and what interrupted writers left behind.
///
/// # Errors
/// What the file system says.
pub fn prune(dir: &Path) -> Result<ClearReport> {
    let is_gone = |content: &CacheContent| {
        let found = OsVfs.metadata(&content.mailbox);
        found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    };
    Ok(folder(dir).prune(&is_gone)?.into())
}

/// How a program goes on that opens the mailbox anew after an error of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// As before: the damaged cache was removed. It was kept in this, if that is known.
    Anew(Option<CacheOptions>),
    /// With no cache folder: the cache may be sound, but cannot be used here or now.
    Without,
}

/// Tells how to go on after an error, and removes the cache if it is damaged; `None` if the error
/// is not the cache's, or is that the store which `options` ask for cannot be used here. Who holds
/// a [`crate::Mailbox`] calls [`crate::Mailbox::heal`] instead.
///
/// # Errors
/// What the file system says.
pub fn recover(error: &Error, options: &OpenOptions) -> Result<Option<Recovery>> {
    let Error::Cache(error) = error else { return Ok(None) };
    if is_refused(error, options) {
        return Ok(None);
    }
    if is_out_of_reach(error) {
        return Ok(Some(Recovery::Without));
    }
    let Some(path) = damaged_file(error) else { return Ok(None) };
    let dir = folder(path.parent().unwrap_or(Path::new("")));
    let lies_beside = |cache: &Path| {
        path.as_os_str().as_encoded_bytes().starts_with(cache.as_os_str().as_encoded_bytes())
    };
    let Some(entry) = dir.list()?.into_iter().find(|entry| lies_beside(&entry.path)) else {
        return Ok(Some(Recovery::Anew(None)));
    };
    dir.clear_one(entry.id)?;
    Ok(Some(Recovery::Anew(None)))
}

/// What a cache is made of; `None` if it cannot tell.
fn figures(entry: &barid_cache::CacheEntry) -> Option<CacheFigures> {
    let opened = Snapshot::open(Arc::new(OsVfs), &entry.path, entry.id);
    let Ok(Opened::Fresh(snapshot)) = opened else { return None };
    Some(CacheFigures {
        options: snapshot.options(),
        generation: 0,
        bytes: entry.bytes,
        records_bytes: 0,
        records_raw_bytes: 0,
        stale_records: 0,
        dictionaries: Vec::new(),
    })
}

/// What the cache of an open mailbox is made of.
pub(crate) fn figures_of(dir: &Path, id: u128) -> Result<Option<CacheFigures>> {
    let entry = folder(dir).list()?.into_iter().find(|entry| entry.id == id);
    Ok(entry.as_ref().and_then(figures))
}

fn folder(dir: &Path) -> CacheDir {
    CacheDir::new(Arc::new(OsVfs), dir)
}

/// The caches of a folder, or those of `mailbox`, by the path that they were made for.
fn entries_of(dir: &Path, mailbox: Option<&Path>) -> Result<Vec<barid_cache::CacheEntry>> {
    let mut entries = folder(dir).list()?;
    if let Some(mailbox) = mailbox {
        let path = OsVfs.canonicalize(mailbox).unwrap_or_else(|_| mailbox.to_owned());
        let is_of = |content: &CacheContent| content.mailbox == path;
        entries.retain(|entry| entry.content.as_ref().is_ok_and(is_of));
    }
    Ok(entries)
}

impl From<barid_cache::CacheEntry> for CacheEntry {
    fn from(entry: barid_cache::CacheEntry) -> Self {
        let barid_cache::CacheEntry { path, bytes, content, .. } = entry;
        let (mailbox_path, messages, format, state) = match content {
            Ok(content) => (content.mailbox, content.messages, content.format, EntryState::Ok),
            Err(reason) => {
                (PathBuf::new(), 0, String::new(), EntryState::Damaged(reason.to_owned()))
            }
        };
        Self { mailbox_path, file: path, bytes, messages, format, state, figures: None }
    }
}

impl From<Pruned> for ClearReport {
    fn from(pruned: Pruned) -> Self {
        Self { files: u64::from(pruned.files), bytes: pruned.bytes }
    }
}
