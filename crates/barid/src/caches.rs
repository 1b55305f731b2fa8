//! The caches of a folder: what there is, whether it is sound, and getting rid of it.
//!
//! A cache may be removed at any time; it is made again when its mailbox is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_cache::{CacheContent, CacheDir, Pruned};
use barid_formats::MailboxSpec;
use barid_vfs::{OsVfs, Vfs};

use crate::{Error, Result};

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
    let entries = folder(dir).list()?;
    Ok(entries.into_iter().map(CacheEntry::from).collect())
}

/// Checks every block of the caches of a folder, or of the one of `mailbox`.
///
/// # Errors
/// What the file system says.
pub fn verify(dir: &Path, mailbox: Option<&str>) -> Result<Vec<VerifyReport>> {
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

/// Removes the caches of a folder, or the one of `mailbox`.
///
/// # Errors
/// What the file system says.
pub fn clear(dir: &Path, mailbox: Option<&str>) -> Result<ClearReport> {
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

/// Removes the cache whose damage is the error, if that is what it is; the mailbox can then be
/// opened anew. Who holds a [`crate::Mailbox`] calls [`crate::Mailbox::heal`] instead.
///
/// # Errors
/// What the file system says.
pub fn remove_damaged(error: &Error) -> Result<bool> {
    let Error::Cache(barid_cache::Error::Damaged { path, .. }) = error else { return Ok(false) };
    match OsVfs.remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::Io { path: path.clone(), source })
        }
        _ => Ok(true),
    }
}

fn folder(dir: &Path) -> CacheDir {
    CacheDir::new(Arc::new(OsVfs), dir)
}

/// The caches of a folder, or those of `mailbox`, by the path that they were made for.
fn entries_of(dir: &Path, mailbox: Option<&str>) -> Result<Vec<barid_cache::CacheEntry>> {
    let mut entries = folder(dir).list()?;
    if let Some(mailbox) = mailbox {
        let path = MailboxSpec::parse(mailbox).path;
        let path = OsVfs.canonicalize(&path).unwrap_or(path);
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
        Self { mailbox_path, file: path, bytes, messages, format, state }
    }
}

impl From<Pruned> for ClearReport {
    fn from(pruned: Pruned) -> Self {
        Self { files: u64::from(pruned.files), bytes: pruned.bytes }
    }
}
