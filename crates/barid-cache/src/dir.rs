//! The folder of caches.

mod tree;

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_kv::registry;
use barid_vfs::{FileType, Metadata, Vfs, is_temporary};

use crate::error::{Error, Result};
use crate::options::CacheOptions;
use crate::snapshot::{Opened, Snapshot};

/// Suffix of a cache file name, after the id.
const SUFFIX: &str = ".bhc";
/// Hexadecimal digits of an id.
const ID_LEN: usize = 32;
/// Hexadecimal digits of the generation of a store.
const GENERATION_LEN: usize = 16;
/// Age in seconds at which files that no cache names count as left behind.
const TEMPORARY_AGE_MIN: i64 = 3600;

/// Returns the name of the cache file of a mailbox.
pub fn file_name(id: u128) -> String {
    format!("{id:032x}{SUFFIX}")
}

/// A folder of caches.
#[derive(Clone, Debug)]
pub struct CacheDir {
    vfs: Arc<dyn Vfs>,
    path: PathBuf,
}

/// One cache of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheEntry {
    /// The id of the mailbox.
    pub id: u128,
    /// The cache file.
    pub path: PathBuf,
    /// Bytes allocated for it, its store and its derived columns.
    pub bytes: u64,
    /// Its content, or one line with the reason why it cannot be used.
    pub content: std::result::Result<CacheContent, &'static str>,
    /// The options it was created with, if they can still be read.
    pub options: Option<CacheOptions>,
}

/// Data about the content of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheContent {
    /// The path of the mailbox when it was scanned.
    pub mailbox: PathBuf,
    /// Its inode at that time.
    pub inode: u64,
    /// The name of its format.
    pub format: String,
    /// Number of its messages.
    pub messages: u32,
    /// The options it was created with.
    pub options: CacheOptions,
    /// Bytes of its header records.
    pub raw_bytes: u64,
    /// Their stored size in bytes, without overhead of the store.
    pub stored_bytes: u64,
}

/// Counts of removed caches and files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Number of caches.
    pub caches: u32,
    /// Number of files, including derived columns and leftovers.
    pub files: u32,
    /// Size of these files, in bytes.
    pub bytes: u64,
}

/// A file of the folder, or a folder of a store.
struct CacheFile {
    name: Vec<u8>,
    metadata: Metadata,
    /// Bytes allocated; for a folder those of its content.
    bytes: u64,
    /// The part of a cache that it is.
    part: Part,
}

/// A part of a mailbox's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The cache file itself, its lock or a derived column.
    Cache,
    /// A part of the store of a generation.
    Store(u64),
    /// An unfinished or abandoned file of a writer.
    Temporary,
}

/// The files of the folder by their mailbox, and those left behind.
#[derive(Default)]
struct Files {
    by_id: BTreeMap<u128, Vec<CacheFile>>,
    left_behind: Vec<CacheFile>,
}

/// The cache among the files of an id, and the files that are parts of it.
struct Judged<'a> {
    entry: Option<CacheEntry>,
    own: Vec<&'a CacheFile>,
    /// Old stores that no cache names.
    left_behind: Vec<&'a CacheFile>,
}

impl CacheDir {
    /// Returns the folder `path`, which need not exist.
    pub fn new(vfs: Arc<dyn Vfs>, path: &Path) -> Self {
        Self { vfs, path: path.to_owned() }
    }

    /// Returns the caches of the folder, by id. Opens each.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn list(&self) -> Result<Vec<CacheEntry>> {
        let files = self.files()?;
        let entries = files.by_id.iter().map(|(id, files)| Ok(self.judge(*id, files)?.entry));
        entries.filter_map(Result::transpose).collect()
    }

    /// Returns the cache of one mailbox, if it exists. Opens it.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn entry(&self, id: u128) -> Result<Option<CacheEntry>> {
        let files = self.files_of(Some(id))?;
        let files = files.by_id.get(&id).map(Vec::as_slice).unwrap_or_default();
        Ok(self.judge(id, files)?.entry)
    }

    /// Returns the bytes allocated for all caches, stores, derived columns and leftovers.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn total_bytes(&self) -> Result<u64> {
        let files = self.files()?;
        let all = files.by_id.values().flatten().chain(&files.left_behind);
        Ok(all.map(|file| file.bytes).sum())
    }

    /// Removes the caches of mailboxes for which `is_gone` returns `true`, unusable caches, and
    /// leftovers of interrupted writers.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn prune(&self, is_gone: &dyn Fn(&CacheContent) -> bool) -> Result<Pruned> {
        let files = self.files()?;
        let mut pruned = Pruned::default();
        for (id, files) in &files.by_id {
            let judged = self.judge(*id, files)?;
            let remove = match judged.entry.as_ref().map(|entry| &entry.content) {
                Some(Ok(content)) => is_gone(content),
                Some(Err(_)) | None => true,
            };
            if remove {
                pruned.caches += u32::from(judged.entry.is_some());
                self.remove(judged.own, &mut pruned)?;
            }
            self.remove(judged.left_behind, &mut pruned)?;
        }
        self.remove(&files.left_behind, &mut pruned)?;
        Ok(pruned)
    }

    /// Removes all caches; other files stay.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn clear(&self) -> Result<Pruned> {
        let files = self.files()?;
        let mut pruned = Pruned::default();
        for (id, files) in &files.by_id {
            self.clear_files(*id, files, &mut pruned)?;
        }
        self.remove(&files.left_behind, &mut pruned)?;
        Ok(pruned)
    }

    /// Removes the cache of one mailbox, with its store and its derived columns.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn clear_one(&self, id: u128) -> Result<Pruned> {
        let files = self.files_of(Some(id))?;
        let mut pruned = Pruned::default();
        if let Some(files) = files.by_id.get(&id) {
            self.clear_files(id, files, &mut pruned)?;
        }
        Ok(pruned)
    }

    fn clear_files(&self, id: u128, files: &[CacheFile], pruned: &mut Pruned) -> Result<()> {
        let name = file_name(id);
        pruned.caches += u32::from(files.iter().any(|file| file.name == name.as_bytes()));
        self.remove(files, pruned)
    }

    fn files(&self) -> Result<Files> {
        self.files_of(None)
    }

    /// Returns all files, or those that belong to the cache of one mailbox.
    fn files_of(&self, only: Option<u128>) -> Result<Files> {
        let mut files = Files::default();
        let dir = match self.vfs.open_dir(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(files),
            result => result.map_err(Error::at(&self.path))?,
        };
        let mut names = Vec::new();
        let mut visit = |name: &[u8], file_type: FileType| {
            if file_type != FileType::Symlink {
                names.push(name.to_vec());
            }
        };
        dir.list(&mut visit).map_err(Error::at(&self.path))?;
        let now = self.vfs.now().unix_seconds();
        for name in names {
            let Some((id, part)) = part_of(&name) else { continue };
            if only.is_some() && id != only {
                continue;
            }
            let Ok(metadata) = dir.metadata(&name) else { continue };
            let bytes = match (metadata.file_type, part) {
                (FileType::Dir, Part::Store(_)) => tree::bytes(&*self.vfs, &self.at(&name)),
                (FileType::Dir, _) => continue,
                _ => metadata.allocated,
            };
            let found = CacheFile { name, metadata, bytes, part };
            match (part, id) {
                (Part::Temporary, _) if found.is_young(now) => {}
                (Part::Temporary, _) | (_, None) => files.left_behind.push(found),
                (_, Some(id)) => files.by_id.entry(id).or_default().push(found),
            }
        }
        Ok(files)
    }

    fn at(&self, name: &[u8]) -> PathBuf {
        self.path.join(std::ffi::OsStr::from_bytes(name))
    }

    /// Opens the cache of an id, if it exists, to identify its files.
    fn judge<'a>(&self, id: u128, files: &'a [CacheFile]) -> Result<Judged<'a>> {
        let path = self.path.join(file_name(id));
        let opened = Snapshot::open(Arc::clone(&self.vfs), &path, id)?;
        let generation = match &opened {
            Opened::Fresh(snapshot) => snapshot.base.header.records.generation,
            _ => 0,
        };
        let now = self.vfs.now().unix_seconds();
        let mut judged = Judged { entry: None, own: Vec::new(), left_behind: Vec::new() };
        for file in files {
            match file.part {
                Part::Store(of) if of != generation && file.is_young(now) => {}
                Part::Store(of) if of != generation => judged.left_behind.push(file),
                _ => judged.own.push(file),
            }
        }
        let options;
        let mut own_bytes = judged.own.iter().map(|file| file.bytes).sum();
        let content = match opened {
            Opened::Absent => return Ok(judged),
            Opened::Discarded { reason, options: guessed } => {
                // Its own store cannot be identified.
                own_bytes = files.iter().map(|file| file.bytes).sum();
                options = guessed;
                Err(reason)
            }
            Opened::Fresh(snapshot) => {
                options = Some(snapshot.options());
                Ok(content_of(&snapshot))
            }
        };
        judged.entry = Some(CacheEntry { id, path, bytes: own_bytes, content, options });
        Ok(judged)
    }

    fn remove<'a>(
        &self,
        files: impl IntoIterator<Item = &'a CacheFile>,
        pruned: &mut Pruned,
    ) -> Result<()> {
        for file in files {
            let path = self.at(&file.name);
            let removed = match file.metadata.file_type {
                FileType::Dir => tree::remove(&*self.vfs, &path),
                _ => self.vfs.remove_file(&path).map(|()| 1),
            };
            match removed {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::at(&path)(error)),
                Ok(files) => {
                    pruned.files += files;
                    pruned.bytes += file.bytes;
                }
            }
        }
        Ok(())
    }
}

impl CacheFile {
    /// Returns `true` if a writer may still be writing it.
    fn is_young(&self, now: i64) -> bool {
        now - self.metadata.modified.unix_seconds() < TEMPORARY_AGE_MIN
    }
}

fn content_of(snapshot: &Snapshot) -> CacheContent {
    let (meta, records) = (snapshot.meta(), &snapshot.base.header.records);
    CacheContent {
        mailbox: meta.path.clone(),
        inode: meta.inode,
        format: meta.format.clone(),
        messages: snapshot.len(),
        options: snapshot.options(),
        raw_bytes: records.raw_bytes,
        stored_bytes: records.stored_bytes,
    }
}

/// Returns the id at the beginning of a file name, and the part of the cache; `None` for other
/// files. Leftovers of [`barid_vfs::atomic_replace`] have no id.
fn part_of(name: &[u8]) -> Option<(Option<u128>, Part)> {
    if is_temporary(name) {
        return Some((None, Part::Temporary));
    }
    let unfinished = registry::store_of_unfinished(name);
    let (digits, rest) = unfinished.unwrap_or(name).split_at_checked(ID_LEN)?;
    let rest = rest.strip_prefix(SUFFIX.as_bytes())?;
    let id = u128::from_str_radix(hexadecimal(digits)?, 16).ok()?;
    let part = match rest {
        [] => Part::Cache,
        rest if rest.starts_with(b".tmp") => Part::Temporary,
        [b'.', ..] if unfinished.is_some() => Part::Temporary,
        [b'.', rest @ ..] => generation_of(rest).map_or(Part::Cache, Part::Store),
        _ => return None,
    };
    Some((Some(id), part))
}

/// Returns the generation at the beginning of the name of a store.
fn generation_of(rest: &[u8]) -> Option<u64> {
    let (digits, rest) = rest.split_at_checked(GENERATION_LEN)?;
    let digits = hexadecimal(digits).filter(|_| rest.starts_with(b"."))?;
    u64::from_str_radix(digits, 16).ok()
}

fn hexadecimal(digits: &[u8]) -> Option<&str> {
    let lower = digits.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    std::str::from_utf8(digits).ok().filter(|_| lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: Option<(Option<u128>, Part)>) {
        assert_eq!(part_of(name.as_bytes()), expected, "{name}");
    }

    #[test]
    fn names_tell_what_a_file_is() {
        let name = file_name(0xabc);
        let ours = |part| Some((Some(0xabc), part));
        check(&name, ours(Part::Cache));
        check(&format!("{name}.lock"), ours(Part::Cache));
        check(&format!("{name}.sort-date"), ours(Part::Cache));
        check(&format!("{name}.tmp0123456789abcdef"), ours(Part::Temporary));
        for of_store in ["lmdb", "lmdb.lock", "rocksdb", "tdb.seal"] {
            let name = format!("{name}.00000000000000ff.{of_store}");
            check(&name, ours(Part::Store(255)));
        }
        check(&format!("__db.{name}.00000000000000ff.bdb"), ours(Part::Temporary));
        check("__db.notes.txt", None);
        check(&format!("{name}.00000000000000ff"), ours(Part::Cache));
        check(&format!("{name}x"), None);
        check(&name.replace('a', "A"), None);
        check("notes.txt", None);
        check("", None);
    }
}
