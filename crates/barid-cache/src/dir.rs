//! The folder that caches lie in.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_vfs::{FileType, Metadata, Vfs, is_temporary};

use crate::error::{Error, Result};
use crate::snapshot::{Opened, Snapshot};

/// What stands behind the id in the name of a cache file.
const SUFFIX: &str = ".bhc";
/// Hexadecimal digits of an id.
const ID_LEN: usize = 32;
/// Seconds after which a temporary file is taken for left behind.
const TEMPORARY_AGE_MIN: i64 = 3600;

/// The name of the cache file of a mailbox.
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
    /// Bytes of it and of its derived columns.
    pub bytes: u64,
    /// What is in it, unless it is no use: then why, in one line.
    pub content: std::result::Result<CacheContent, &'static str>,
}

/// What a cache is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheContent {
    /// The mailbox, when it was scanned.
    pub mailbox: PathBuf,
    /// Its inode then.
    pub inode: u64,
    /// The name of its format.
    pub format: String,
    /// Its messages.
    pub messages: u32,
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Caches.
    pub caches: u32,
    /// Files, those of derived columns and leftovers included.
    pub files: u32,
    /// Their bytes.
    pub bytes: u64,
}

/// A file of the folder.
struct Found {
    name: Vec<u8>,
    metadata: Metadata,
}

/// The files of the folder by the mailbox they belong to, and those left behind.
#[derive(Default)]
struct Files {
    by_id: BTreeMap<u128, Vec<Found>>,
    left_behind: Vec<Found>,
}

impl CacheDir {
    /// Names a folder, which need not exist.
    pub fn new(vfs: Arc<dyn Vfs>, path: &Path) -> Self {
        Self { vfs, path: path.to_owned() }
    }

    /// The caches of the folder, by id. Opens each.
    pub fn list(&self) -> Result<Vec<CacheEntry>> {
        let files = self.files()?;
        files.by_id.iter().filter_map(|(id, files)| self.entry(*id, files).transpose()).collect()
    }

    /// Bytes of all caches, derived columns and leftovers.
    pub fn total_bytes(&self) -> Result<u64> {
        let files = self.files()?;
        let all = files.by_id.values().flatten().chain(&files.left_behind);
        Ok(all.map(|file| file.metadata.size).sum())
    }

    /// Removes the caches of mailboxes for which `is_gone` says so, those that are no use, and what
    /// interrupted writers left behind.
    pub fn prune(&self, is_gone: &dyn Fn(&CacheContent) -> bool) -> Result<Pruned> {
        let files = self.files()?;
        let mut pruned = Pruned::default();
        for (id, files) in &files.by_id {
            let entry = self.entry(*id, files)?;
            let remove = match entry.as_ref().map(|entry| &entry.content) {
                Some(Ok(content)) => is_gone(content),
                Some(Err(_)) | None => true,
            };
            if remove {
                pruned.caches += u32::from(entry.is_some());
                self.remove(files, &mut pruned)?;
            }
        }
        self.remove(&files.left_behind, &mut pruned)?;
        Ok(pruned)
    }

    /// Removes all caches; other files stay.
    pub fn clear(&self) -> Result<Pruned> {
        let files = self.files()?;
        let mut pruned = Pruned::default();
        for (id, files) in &files.by_id {
            let name = file_name(*id);
            pruned.caches += u32::from(files.iter().any(|file| file.name == name.as_bytes()));
            self.remove(files, &mut pruned)?;
        }
        self.remove(&files.left_behind, &mut pruned)?;
        Ok(pruned)
    }

    /// Removes the cache of one mailbox, with its derived columns.
    pub fn clear_one(&self, id: u128) -> Result<Pruned> {
        let files = self.files()?;
        let mut pruned = Pruned::default();
        if let Some(files) = files.by_id.get(&id) {
            pruned.caches += 1;
            self.remove(files, &mut pruned)?;
        }
        Ok(pruned)
    }

    fn files(&self) -> Result<Files> {
        let mut files = Files::default();
        let dir = match self.vfs.open_dir(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(files),
            result => result.map_err(Error::at(&self.path))?,
        };
        let mut names = Vec::new();
        let mut visit = |name: &[u8], file_type: FileType| {
            if matches!(file_type, FileType::File | FileType::Other) {
                names.push(name.to_vec());
            }
        };
        dir.list(&mut visit).map_err(Error::at(&self.path))?;
        let now = self.vfs.now().unix_seconds();
        for name in names {
            let Ok(metadata) = dir.metadata(&name) else { continue };
            let id = id_of(&name);
            let temporary = is_temporary_name(&name, id.is_some());
            if temporary {
                if now - metadata.modified.unix_seconds() >= TEMPORARY_AGE_MIN {
                    files.left_behind.push(Found { name, metadata });
                }
            } else if let Some(id) = id {
                files.by_id.entry(id).or_default().push(Found { name, metadata });
            }
        }
        Ok(files)
    }

    /// The cache among the files of an id; `None` if there are only others.
    fn entry(&self, id: u128, files: &[Found]) -> Result<Option<CacheEntry>> {
        let path = self.path.join(file_name(id));
        let content = match Snapshot::open(Arc::clone(&self.vfs), &path, id)? {
            Opened::Absent => return Ok(None),
            Opened::Discarded { reason } => Err(reason),
            Opened::Fresh(snapshot) => Ok(CacheContent {
                mailbox: snapshot.meta().path.clone(),
                inode: snapshot.meta().inode,
                format: snapshot.meta().format.clone(),
                messages: snapshot.len(),
            }),
        };
        let bytes = files.iter().map(|file| file.metadata.size).sum();
        Ok(Some(CacheEntry { id, path, bytes, content }))
    }

    fn remove(&self, files: &[Found], pruned: &mut Pruned) -> Result<()> {
        for file in files {
            let path = self.path.join(std::ffi::OsStr::from_bytes(&file.name));
            match self.vfs.remove_file(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::at(&path)(error)),
                Ok(()) => {
                    pruned.files += 1;
                    pruned.bytes += file.metadata.size;
                }
            }
        }
        Ok(())
    }
}

/// The id that a file name begins with, if it is one of a cache or what lies beside it.
fn id_of(name: &[u8]) -> Option<u128> {
    let (digits, rest) = name.split_at_checked(ID_LEN)?;
    let rest = rest.strip_prefix(SUFFIX.as_bytes())?;
    let digits = std::str::from_utf8(digits).ok()?;
    let lower = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (lower && (rest.is_empty() || rest[0] == b'.')).then_some(())?;
    u128::from_str_radix(digits, 16).ok()
}

fn is_temporary_name(name: &[u8], has_id: bool) -> bool {
    let of_builder = has_id && name[ID_LEN + SUFFIX.len()..].starts_with(b".tmp");
    of_builder || is_temporary(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, id: Option<u128>, temporary: bool) {
        assert_eq!(id_of(name.as_bytes()), id, "{name}");
        assert_eq!(is_temporary_name(name.as_bytes(), id.is_some()), temporary, "{name}");
    }

    #[test]
    fn names_tell_what_a_file_is() {
        let name = file_name(0xabc);
        check(&name, Some(0xabc), false);
        check(&format!("{name}.lock"), Some(0xabc), false);
        check(&format!("{name}.sort-date"), Some(0xabc), false);
        check(&format!("{name}.tmp0123456789abcdef"), Some(0xabc), true);
        check(&format!("{name}x"), None, false);
        check(&name.replace('a', "A"), None, false);
        check("notes.txt", None, false);
        check("", None, false);
    }
}
