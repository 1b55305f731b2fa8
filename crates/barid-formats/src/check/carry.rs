//! Carrying out a plan, and restoring the stored bytes.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use barid_mailbox::{Error, Result};
use barid_vfs::{OpenOptions, Ownership, Timestamp, Vfs, replace_as};

use super::doctor::LockedMailbox;
use super::keep::{ManifestItem, Old, UndoableRepair};
use super::plan::{FileEdit, FolderStep, RepairPlan, Segment, hash, hash_file};
use super::run::CheckOptions;
use crate::redo::{self, Change};

/// Carries out the plan: first all edits together, through the redo journal, then the steps one by
/// one. It may be stopped between two steps.
pub(super) fn out(
    vfs: &dyn Vfs,
    held: &LockedMailbox,
    plan: &RepairPlan,
    (path, options): (&Path, &CheckOptions),
) -> Result<()> {
    write_in_place(vfs, held, &plan.edits)?;
    for (done, step) in plan.steps.iter().enumerate() {
        options.step(path, done, plan.steps.len())?;
        do_step(vfs, &held.folder, step)?;
    }
    Ok(())
}

fn write_in_place(vfs: &dyn Vfs, held: &LockedMailbox, edits: &[FileEdit]) -> Result<()> {
    let mut change = Change::new(None);
    for edit in edits {
        let path = held.folder.join(OsStr::from_bytes(&edit.name));
        let file = vfs.open(&path, OpenOptions::READ).map_err(Error::at(&path))?;
        change.add(edit.change(&*file).map_err(Error::at(&path))?);
    }
    redo::apply(vfs, &held.place, &change, held.mode, None).map(drop)
}

fn do_step(vfs: &dyn Vfs, folder: &Path, step: &FolderStep) -> Result<()> {
    match step {
        FolderStep::Write { path, new, mode, .. } => {
            write_whole(vfs, folder, path, new, *mode, None)
        }
        FolderStep::Remove { path, old } => {
            remove(vfs, folder, path, old.bytes.len() as u64, hash(&old.bytes))
        }
        FolderStep::Rename { from, to, .. } => rename(vfs, folder, from, to),
        FolderStep::MakeDir { path, mode } => {
            let path = folder.join(path);
            match vfs.create_dir(&path, *mode) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    Err(Error::at(&path)(error))
                }
                _ => sync_parent(vfs, &path),
            }
        }
    }
}

fn write_whole(
    vfs: &dyn Vfs,
    folder: &Path,
    path: &Path,
    bytes: &[u8],
    mode: u32,
    modified: Option<Timestamp>,
) -> Result<()> {
    let path = folder.join(path);
    let write = |file: &dyn barid_vfs::File| {
        file.write_all_at(bytes, 0)?;
        file.set_mode(mode)?;
        modified.map_or(Ok(()), |modified| file.set_times(modified, modified))
    };
    let ownership = Ownership::replacing(vfs, &path, mode).map_err(Error::at(&path))?;
    replace_as(vfs, &path, &ownership, write).map(drop).map_err(Error::at(&path))
}

/// Removes a file if it still has these bytes; fails if another program has continued writing it.
fn remove(vfs: &dyn Vfs, folder: &Path, path: &Path, len: u64, hash: u64) -> Result<()> {
    let path = folder.join(path);
    if !is_missing(vfs, &path)? && !hash_of(vfs, &path, len, hash)? {
        let what = "it changed while the mailbox was repaired, so it was not removed";
        return Err(Error::Unsupported { path, what });
    }
    match vfs.remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::at(&path)(error)),
        _ => sync_parent(vfs, &path),
    }
}

/// Renames a file, unless the new name exists already.
fn rename(vfs: &dyn Vfs, folder: &Path, from: &Path, to: &Path) -> Result<()> {
    let (from, to) = (folder.join(from), folder.join(to));
    vfs.rename_new(&from, &to).map_err(Error::at(&to))?;
    sync_parent(vfs, &to)?;
    if from.parent() == to.parent() {
        return Ok(());
    }
    sync_parent(vfs, &from)
}

fn sync_parent(vfs: &dyn Vfs, path: &Path) -> Result<()> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    vfs.sync_dir(parent).map_err(Error::at(parent))
}

/// State of an entry that a repair changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemState {
    /// As the repair left it.
    After,
    /// As it was before.
    Before,
}

/// Restores all entries that are not as they were; returns the files restored.
pub(super) fn back(
    vfs: &dyn Vfs,
    held: &LockedMailbox,
    kept: &UndoableRepair,
) -> Result<BTreeSet<PathBuf>> {
    let entries = &kept.manifest.entries;
    let states: Result<Vec<ItemState>> =
        entries.iter().map(|entry| state(vfs, &held.folder, entry)).collect();
    let states = states?;
    let to_undo = || entries.iter().zip(&states).filter(|(_, state)| **state == ItemState::After);
    for (entry, _) in to_undo().rev() {
        undo_step(vfs, &held.folder, entry, kept)?;
    }
    let edits: Result<Vec<FileEdit>> =
        to_undo().filter_map(|(entry, _)| reversed(vfs, held, entry, kept).transpose()).collect();
    write_in_place(vfs, held, &edits?)?;
    Ok(to_undo().filter_map(|(entry, _)| file_of(entry)).collect())
}

/// Returns the file that an entry changes, by its name before the repair; `None` for a folder.
fn file_of(entry: &ManifestItem) -> Option<PathBuf> {
    match entry {
        ManifestItem::Edit { name, .. } => Some(PathBuf::from(OsStr::from_bytes(name))),
        ManifestItem::Write { path, .. } | ManifestItem::Remove { path, .. } => Some(path.clone()),
        ManifestItem::Rename { from, .. } => Some(from.clone()),
        ManifestItem::MakeDir { .. } => None,
    }
}

fn state(vfs: &dyn Vfs, folder: &Path, entry: &ManifestItem) -> Result<ItemState> {
    let changed = |path: &Path| Error::ChangedSince { path: folder.join(path) };
    let is = |path: &Path, len: u64, hash: u64| hash_of(vfs, &folder.join(path), len, hash);
    match entry {
        ManifestItem::Edit { name, old_size, new_size, old_hash, new_hash, .. } => {
            let path = PathBuf::from(OsStr::from_bytes(name));
            match () {
                () if is(&path, *new_size, *new_hash)? => Ok(ItemState::After),
                () if is(&path, *old_size, *old_hash)? => Ok(ItemState::Before),
                () => Err(changed(&path)),
            }
        }
        ManifestItem::Write { path, old, new_len, new_hash } => {
            if is(path, *new_len, *new_hash)? {
                return Ok(ItemState::After);
            }
            let is_before = match old {
                Some(old) => is(path, old.stretch.len, old.hash)?,
                None => is_missing(vfs, &folder.join(path))?,
            };
            if is_before { Ok(ItemState::Before) } else { Err(changed(path)) }
        }
        ManifestItem::Remove { path, old } => {
            if is_missing(vfs, &folder.join(path))? {
                return Ok(ItemState::After);
            }
            let is_before = is(path, old.stretch.len, old.hash)?;
            if is_before { Ok(ItemState::Before) } else { Err(changed(path)) }
        }
        ManifestItem::Rename { from, to, size } => {
            let has = |path: &Path| {
                let found = vfs.symlink_metadata(&folder.join(path));
                found.is_ok_and(|found| found.size == *size)
            };
            let is_free = |path: &Path| is_missing(vfs, &folder.join(path));
            match () {
                () if has(to) && is_free(from)? => Ok(ItemState::After),
                () if has(from) => Ok(ItemState::Before),
                () => Err(changed(to)),
            }
        }
        ManifestItem::MakeDir { path } => match is_missing(vfs, &folder.join(path))? {
            true => Ok(ItemState::Before),
            false => Ok(ItemState::After),
        },
    }
}

fn is_missing(vfs: &dyn Vfs, path: &Path) -> Result<bool> {
    match vfs.symlink_metadata(path) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(Error::at(path)(error)),
    }
}

/// Returns `true` if a file has these bytes.
fn hash_of(vfs: &dyn Vfs, path: &Path, len: u64, hash: u64) -> Result<bool> {
    let read = || -> io::Result<bool> {
        let file = vfs.open(path, OpenOptions::READ)?;
        Ok(file.metadata()?.size == len && hash_file(&*file, 0..len, &[])? == hash)
    };
    match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        result => result.map_err(Error::at(path)),
    }
}

fn undo_step(
    vfs: &dyn Vfs,
    folder: &Path,
    entry: &ManifestItem,
    kept: &UndoableRepair,
) -> Result<()> {
    let restore = |path: &Path, old: &Old| {
        let bytes = kept.bytes(old.stretch);
        write_whole(vfs, folder, path, bytes, old.mode, Some(old.modified))
    };
    match entry {
        ManifestItem::Edit { .. } => Ok(()),
        ManifestItem::Write { path, old: Some(old), .. } | ManifestItem::Remove { path, old } => {
            restore(path, old)
        }
        ManifestItem::Write { path, old: None, new_len, new_hash } => {
            remove(vfs, folder, path, *new_len, *new_hash)
        }
        ManifestItem::Rename { from, to, .. } => rename(vfs, folder, to, from),
        ManifestItem::MakeDir { path } => {
            let path = folder.join(path);
            match vfs.remove_dir(&path) {
                // It is in use by now.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
                Err(error) => Err(Error::at(&path)(error)),
                Ok(()) => sync_parent(vfs, &path),
            }
        }
    }
}

/// Returns the edit that restores the old bytes of a file that was written in place.
fn reversed(
    vfs: &dyn Vfs,
    held: &LockedMailbox,
    entry: &ManifestItem,
    kept: &UndoableRepair,
) -> Result<Option<FileEdit>> {
    let ManifestItem::Edit { name, old_size, pieces, .. } = entry else { return Ok(None) };
    let path = held.folder.join(OsStr::from_bytes(name));
    let file = vfs.open(&path, OpenOptions::READ).map_err(Error::at(&path))?;
    let mut segments = Vec::new();
    let mut at = 0;
    for (offset, stretch) in pieces {
        // Bytes after the old end did not exist.
        let offset = *offset.min(old_size);
        segments.push(Segment::Keep(at..offset));
        segments.push(Segment::New(kept.bytes(*stretch).to_vec()));
        at = offset + stretch.len;
    }
    if at < *old_size {
        segments.push(Segment::Keep(at..*old_size));
    }
    let edit = FileEdit::assemble(name, &*file, &segments).map_err(Error::at(&path))?;
    let what = "more bytes are to be restored than can be written at once";
    edit.map(Some).ok_or(Error::Unsupported { path, what })
}

#[cfg(test)]
mod tests {
    use super::*;
    use barid_vfs::MemVfs;

    fn put(vfs: &dyn Vfs, path: &str, bytes: &[u8]) {
        let file = vfs.open(Path::new(path), OpenOptions::create(0o600)).unwrap();
        file.write_all_at(bytes, 0).unwrap();
    }

    #[test]
    fn what_is_written_meanwhile_is_not_removed() {
        let vfs = MemVfs::new();
        put(&vfs, "/1", b"");
        let step = FolderStep::remove(&vfs, Path::new("/"), Path::new("1")).unwrap().unwrap();
        put(&vfs, "/1", b"a message");
        do_step(&vfs, Path::new("/"), &step).unwrap_err();
        assert_eq!(vfs.read(Path::new("/1"), 99).unwrap(), b"a message");
    }

    #[test]
    fn what_came_meanwhile_is_not_replaced() {
        let vfs = MemVfs::new();
        put(&vfs, "/01", b"old");
        put(&vfs, "/2", b"new");
        let step = FolderStep::Rename { from: "01".into(), to: "2".into(), size: 3 };
        do_step(&vfs, Path::new("/"), &step).unwrap_err();
        assert_eq!(vfs.read(Path::new("/2"), 99).unwrap(), b"new");
        assert_eq!(vfs.read(Path::new("/01"), 99).unwrap(), b"old");
    }
}
