//! The epochs of an archive: the repositories `git/0.git`, `git/1.git` and so on, or a single
//! repository.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_mailbox::{Error, Result};
use barid_vfs::{FileStamp, FileType, Timestamp, Vfs};
use xxhash_rust::xxh3::xxh3_64;

use super::git::{self, GitObjects, ObjectKind, ObjectReader, Repository};
use super::layout::{EPOCH_SUFFIX, EPOCHS, EPOCHS_MAX};
use crate::file_stamps::FileStamps;
use crate::probe::Probe;

/// Bytes of a tree with one file, whose name has one letter.
const ONE_ENTRY_LEN: usize = b"100644 m\0".len() + git::Oid::LEN;
/// Reasons why a repository is not an archive.
const NO_MESSAGE: &str =
    "the newest commit of the repository has neither a file `m` nor a file `d`";
const VERSION_1: &str = "it is an archive of public-inbox v1, which barid cannot read; \
                         `public-inbox-convert` makes a v2 archive of it";

/// An epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Epoch {
    /// Its number.
    pub(super) number: u32,
    /// Its repository.
    pub(super) git_dir: PathBuf,
}

/// Returns the number in the name of an epoch.
fn number(name: &[u8]) -> Option<u32> {
    let digits = name.strip_suffix(EPOCH_SUFFIX.as_bytes())?;
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = std::str::from_utf8(digits).ok()?.parse::<u32>().ok()?;
    // Git makes no other form, and one number must not occur twice.
    (number.to_string().as_bytes() == digits).then_some(number)
}

/// Lists the epochs of the archive at `path`, ascending.
///
/// # Errors
/// Errors of the file system; [`Error::NotAMailbox`] if there are none.
pub(super) fn list(vfs: &dyn Vfs, path: &Path) -> Result<Vec<Epoch>> {
    let folder = path.join(EPOCHS);
    let mut epochs = Vec::new();
    match vfs.open_dir(&folder) {
        Ok(dir) => {
            let listed = dir.list(&mut |name, file_type| {
                if let Some(number) = number(name)
                    && file_type != FileType::File
                    && epochs.len() < EPOCHS_MAX
                {
                    epochs.push(Epoch { number, git_dir: folder.join(OsStr::from_bytes(name)) });
                }
            });
            listed.map_err(Error::at(&folder))?;
        }
        Err(error) if is_absent(&error) => {}
        Err(source) => return Err(Error::at(&folder)(source)),
    }
    // A clone may be unfinished: git writes HEAD first, but an empty folder is not a repository.
    let mut failed = None;
    epochs.retain(|epoch| {
        let head = epoch.git_dir.join("HEAD");
        match vfs.symlink_metadata(&head) {
            Ok(_) => true,
            Err(error) if is_absent(&error) => false,
            Err(source) => {
                failed.get_or_insert(Error::Io { path: head, source });
                true
            }
        }
    });
    if let Some(error) = failed {
        return Err(error);
    }
    epochs.sort_unstable_by_key(|epoch| epoch.number);
    if epochs.is_empty() {
        epochs.extend(single(vfs, path));
    }
    match epochs.is_empty() {
        true => {
            let reason = "it has no epochs";
            Err(Error::NotAMailbox { path: path.to_owned(), reason })
        }
        false => Ok(epochs),
    }
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Returns `true` if messages of an epoch may be known that none of these has: one without commits,
/// or a gap in the numbers.
pub(super) fn may_be_incomplete(epochs: &[super::OpenEpoch], tips: &[git::Tip]) -> bool {
    let has_gap = epochs.windows(2).any(|pair| pair[0].epoch.number + 1 != pair[1].epoch.number);
    has_gap || tips.iter().any(|tip| tip.commit.is_none())
}

/// Returns the repository that is at `path` itself, or in `.git` of a clone with a work tree.
fn single(vfs: &dyn Vfs, path: &Path) -> Option<Epoch> {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let number = number(name).unwrap_or(0);
    let is_there = |git_dir: &PathBuf| {
        ["HEAD", "objects"].iter().all(|name| vfs.metadata(&git_dir.join(name)).is_ok())
    };
    let git_dir = [path.to_owned(), path.join(".git")].into_iter().find(is_there)?;
    Some(Epoch { number, git_dir })
}

/// Returns `true` if a folder has a folder of epochs.
pub(super) fn has_epochs(probe: &Probe<'_>) -> bool {
    probe.has(EPOCHS, true) && list(probe.vfs(), probe.path()).is_ok()
}

/// Returns `true` if a folder is a repository, or a clone of one with a work tree.
pub(super) fn is_repository(probe: &Probe<'_>) -> bool {
    probe.head().is_none() && single(probe.vfs(), probe.path()).is_some()
}

/// Returns `true` if a folder is an archive: it has epochs, or is a repository whose newest commit
/// has a message and nothing else.
pub(super) fn is_archive(probe: &Probe<'_>) -> bool {
    let folder = probe.path().join(EPOCHS);
    let is_epoch = |number: u32| {
        let head = folder.join(format!("{number}{EPOCH_SUFFIX}")).join("HEAD");
        probe.vfs().metadata(&head).is_ok()
    };
    if !is_repository(probe) {
        return probe.head().is_none() && (is_epoch(0) || has_epochs(probe));
    }
    let tree = single(probe.vfs(), probe.path()).and_then(|epoch| newest_tree(probe.vfs(), &epoch));
    tree.is_some_and(|tree| has_message(&tree) && tree.len() == ONE_ENTRY_LEN)
}

/// Returns the reason why a single repository is not an archive: its newest commit has no message.
/// One without commits may be a new epoch; a damaged one is reported when it is read.
pub(super) fn without_message(probe: &Probe<'_>) -> Option<&'static str> {
    let epoch = single(probe.vfs(), probe.path())?;
    let tree = newest_tree(probe.vfs(), &epoch)?;
    if has_message(&tree) {
        return None;
    }
    Some(if git::is_version_1(&tree) { VERSION_1 } else { NO_MESSAGE })
}

fn has_message(tree: &[u8]) -> bool {
    let found = git::message_of_tree(tree).unwrap_or_default();
    found.added.is_some() || found.deleted.is_some()
}

/// Reads the tree of the newest commit; `None` if there is none, or it cannot be read.
fn newest_tree(vfs: &dyn Vfs, epoch: &Epoch) -> Option<Arc<Vec<u8>>> {
    let tip = git::tip(vfs, &epoch.git_dir).ok()?.commit?;
    let store = GitObjects::new(&epoch.git_dir, Arc::default());
    let (repository, mut reader) = (Repository { vfs, store: &store }, ObjectReader::new());
    let commit = reader.read(repository, tip, ObjectKind::Commit).ok()?;
    let commit = git::Commit::parse(&commit)?;
    reader.read(repository, commit.tree, ObjectKind::Tree).ok()
}

/// Takes the stamp of an archive: one of all refs together, and the folder of epochs. A change of a
/// ref replaces a file.
pub(super) fn file_stamps(vfs: &dyn Vfs, path: &Path) -> Result<FileStamps> {
    let taken = vfs.now();
    let none = FileStamp::default();
    let mut refs = (Vec::new(), none);
    for epoch in list(vfs, path)? {
        refs.0.extend_from_slice(&epoch.number.to_le_bytes());
        for path in git::ref_paths(vfs, &epoch.git_dir) {
            let stamp = match vfs.metadata(&path) {
                Ok(metadata) => FileStamp::from(&metadata),
                Err(error) if is_absent(&error) => none,
                Err(source) => return Err(Error::at(&path)(source)),
            };
            add(&mut refs, &stamp);
        }
    }
    let (bytes, mut refs) = refs;
    refs.inode = xxh3_64(&bytes).max(1);
    let folder = vfs.metadata(&path.join(EPOCHS));
    let folder = folder.map_or(none, |metadata| FileStamp::from(&metadata));
    Ok(FileStamps { files: [refs, folder, none, none], taken })
}

/// Adds a file to the bytes of a combined stamp, which has the latest times and the sum of sizes.
fn add((bytes, combined): &mut (Vec<u8>, FileStamp), stamp: &FileStamp) {
    let times = [stamp.modified, stamp.changed].map(|time: Timestamp| time.unix_nanos as u64);
    for number in [stamp.inode, stamp.size, times[0], times[1]] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    combined.size = combined.size.wrapping_add(stamp.size);
    combined.modified = combined.modified.max(stamp.modified);
    combined.changed = combined.changed.max(stamp.changed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_have_numbers() {
        let check = |name: &str, expected: Option<u32>| {
            assert_eq!(number(name.as_bytes()), expected, "{name}");
        };
        check("0.git", Some(0));
        check("19.git", Some(19));
        for none in ["00.git", "all.git", ".git", "1", "-1.git", "4294967296.git", "1.git~"] {
            check(none, None);
        }
    }
}
