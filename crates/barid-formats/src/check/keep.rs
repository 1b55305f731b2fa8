//! The side folder: the bytes that were overwritten or removed, and the manifest of their places.
//!
//! Each repair has a folder of its own, named by a number, with two files: `kept` contains all old
//! bytes one after the other, and `manifest` is renamed to `undone` once the repair is undone. The
//! bytes: `docs/formats/repair.md`.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use barid_mailbox::{Error, Result};
use barid_vfs::le::{LeReader, PutLe as _};
use barid_vfs::{OpenOptions, Timestamp, Vfs, create_dir_durable};

use super::limits::{KEPT_LEN_MAX, MANIFEST_LEN_MAX, STEPS_MAX};
use super::plan::{FolderStep, RepairPlan, WholeFile, hash};

const MAGIC: &[u8; 8] = b"baridREP";
const VERSION: u32 = 1;
pub(super) const MANIFEST: &str = "manifest";
pub(super) const UNDONE: &str = "undone";
pub(super) const KEPT: &str = "kept";

/// The changes of a repair, and where their old bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    /// Path of the mailbox.
    pub(super) mailbox: PathBuf,
    /// Time of the repair.
    pub(super) time: Timestamp,
    /// `true` if this is a later round of the previous repair.
    pub(super) goes_on: bool,
    pub(super) kept_len: u64,
    pub(super) kept_hash: u64,
    pub(super) entries: Vec<ManifestItem>,
}

/// A range of `kept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeptRange {
    pub(super) at: u64,
    pub(super) len: u64,
}

/// An entry of the manifest: one file or name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ManifestItem {
    Edit {
        name: Vec<u8>,
        old_size: u64,
        new_size: u64,
        old_hash: u64,
        new_hash: u64,
        /// Offsets in the file, and the old bytes.
        pieces: Vec<(u64, KeptRange)>,
    },
    Write {
        path: PathBuf,
        old: Option<Old>,
        new_len: u64,
        new_hash: u64,
    },
    Remove {
        path: PathBuf,
        old: Old,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
        size: u64,
    },
    MakeDir {
        path: PathBuf,
    },
}

/// A file that was replaced or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Old {
    pub(super) stretch: KeptRange,
    pub(super) hash: u64,
    pub(super) mode: u32,
    pub(super) modified: Timestamp,
}

impl Manifest {
    /// Makes the manifest of a plan.
    pub(super) fn of(plan: &RepairPlan, mailbox: &Path, time: Timestamp, goes_on: bool) -> Self {
        let mut at = 0;
        let mut stretch = |len: usize| {
            let stretch = KeptRange { at, len: len as u64 };
            at += len as u64;
            stretch
        };
        let mut entries = Vec::with_capacity(plan.edits.len() + plan.steps.len());
        for edit in &plan.edits {
            let pieces = edit.pieces.iter().map(|piece| (piece.offset, stretch(piece.old.len())));
            let mut pieces: Vec<_> = pieces.collect();
            if !edit.cut.is_empty() {
                pieces.push((edit.new_size, stretch(edit.cut.len())));
            }
            entries.push(ManifestItem::Edit {
                name: edit.name.clone(),
                old_size: edit.old_size,
                new_size: edit.new_size,
                old_hash: edit.old_hash,
                new_hash: edit.new_hash,
                pieces,
            });
        }
        let mut old = |whole: &WholeFile| Old {
            stretch: stretch(whole.bytes.len()),
            hash: hash(&whole.bytes),
            mode: whole.mode,
            modified: whole.modified,
        };
        entries.extend(plan.steps.iter().map(|step| match step {
            FolderStep::Write { path, old: whole, new, .. } => ManifestItem::Write {
                path: path.clone(),
                old: whole.as_ref().map(&mut old),
                new_len: new.len() as u64,
                new_hash: hash(new),
            },
            FolderStep::Remove { path, old: whole } => {
                ManifestItem::Remove { path: path.clone(), old: old(whole) }
            }
            FolderStep::Rename { from, to, size } => {
                ManifestItem::Rename { from: from.clone(), to: to.clone(), size: *size }
            }
            FolderStep::MakeDir { path, .. } => ManifestItem::MakeDir { path: path.clone() },
        }));
        let mut hasher = xxhash_rust::xxh3::Xxh3::new();
        old_bytes(plan).for_each(|bytes| hasher.update(bytes));
        let (mailbox, kept_hash) = (mailbox.to_owned(), hasher.digest());
        Self { mailbox, time, goes_on, kept_len: at, kept_hash, entries }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = ManifestWriter(MAGIC.to_vec());
        out.0.put_u32(VERSION);
        out.0.put_u32(self.goes_on.into());
        out.0.put_u32(self.entries.len() as u32);
        out.0.put_u64(self.time.unix_nanos as u64);
        out.0.put_u64(self.kept_len);
        out.0.put_u64(self.kept_hash);
        out.0.put_bytes(self.mailbox.as_os_str().as_bytes());
        self.entries.iter().for_each(|entry| out.entry(entry));
        let hash = hash(&out.0);
        out.0.put_u64(hash);
        out.0
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (body, sum) = bytes.split_last_chunk::<8>()?;
        if hash(body) != u64::from_le_bytes(*sum) {
            return None;
        }
        let mut input = ManifestReader(LeReader(body.strip_prefix(MAGIC)?));
        if input.0.u32()? != VERSION {
            return None;
        }
        let goes_on = input.0.u32()? != 0;
        let count = input.0.u32().filter(|count| *count <= STEPS_MAX)?;
        let time = Timestamp { unix_nanos: input.0.u64()? as i64 };
        let (kept_len, kept_hash) = (input.0.u64()?, input.0.u64()?);
        let mailbox = input.path()?;
        let mut entries = Vec::new();
        for _ in 0..count {
            entries.push(input.entry()?);
        }
        input.0.0.is_empty().then_some(Self {
            mailbox,
            time,
            goes_on,
            kept_len,
            kept_hash,
            entries,
        })
    }
}

/// Returns all old bytes, in the order of the manifest.
fn old_bytes(plan: &RepairPlan) -> impl Iterator<Item = &[u8]> {
    let edits = plan.edits.iter().flat_map(|edit| {
        let pieces = edit.pieces.iter().map(|piece| piece.old.as_slice());
        pieces.chain(std::iter::once(edit.cut.as_slice()))
    });
    edits.chain(plan.steps.iter().filter_map(|step| match step {
        FolderStep::Write { old: Some(old), .. } | FolderStep::Remove { old, .. } => {
            Some(old.bytes.as_slice())
        }
        _ => None,
    }))
}

/// Stores the bytes that a plan overwrites and removes, durably; returns the folder.
///
/// Order: `kept` and its `fsync`, `manifest` and its `fsync`, `fsync` of the folder.
pub(super) fn keep(
    vfs: &dyn Vfs,
    side_dir: &Path,
    manifest: &Manifest,
    plan: &RepairPlan,
) -> Result<PathBuf> {
    create_dir_durable(vfs, side_dir, 0o700).map_err(Error::at(side_dir))?;
    let number = numbers(vfs, side_dir)?.last().map_or(1, |last| last + 1);
    let folder = side_dir.join(number.to_string());
    create_dir_durable(vfs, &folder, 0o700).map_err(Error::at(&folder))?;
    write_new(vfs, &folder.join(KEPT), old_bytes(plan))?;
    write_new(vfs, &folder.join(MANIFEST), [manifest.to_bytes().as_slice()])?;
    vfs.sync_dir(&folder).map_err(Error::at(&folder))?;
    Ok(folder)
}

fn write_new<'a>(
    vfs: &dyn Vfs,
    path: &Path,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<()> {
    let write = || {
        let file = vfs.open(path, OpenOptions::create_new(0o600))?;
        let mut at = 0;
        for bytes in pieces {
            file.write_all_at(bytes, at)?;
            at += bytes.len() as u64;
        }
        file.sync_all()
    };
    write().map_err(Error::at(path))
}

/// A repair that can be undone.
#[derive(Debug)]
pub(super) struct UndoableRepair {
    pub(super) folder: PathBuf,
    pub(super) manifest: Manifest,
    bytes: Vec<u8>,
}

impl UndoableRepair {
    pub(super) fn bytes(&self, stretch: KeptRange) -> &[u8] {
        let from = (stretch.at as usize).min(self.bytes.len());
        let to = stretch.at.saturating_add(stretch.len).min(self.bytes.len() as u64) as usize;
        &self.bytes[from..to]
    }
}

/// Returns the last repair that was stored completely and is not undone.
pub(super) fn last(vfs: &dyn Vfs, side_dir: &Path) -> Result<Option<UndoableRepair>> {
    for number in numbers(vfs, side_dir)?.into_iter().rev() {
        let folder = side_dir.join(number.to_string());
        // A repair that was not stored completely was never begun.
        let Some(manifest) = manifest(vfs, &folder.join(MANIFEST))? else { continue };
        let path = folder.join(KEPT);
        let bytes = vfs.read(&path, KEPT_LEN_MAX).map_err(Error::at(&path))?;
        if bytes.len() as u64 != manifest.kept_len || hash(&bytes) != manifest.kept_hash {
            let kind = "the bytes saved by a repair are damaged";
            return Err(Error::Damaged { path, offset: 0, kind });
        }
        return Ok(Some(UndoableRepair { folder, manifest, bytes }));
    }
    Ok(None)
}

/// Reads a manifest; returns `None` if it is missing or incomplete.
pub(super) fn manifest(vfs: &dyn Vfs, path: &Path) -> Result<Option<Manifest>> {
    match vfs.read(path, MANIFEST_LEN_MAX) {
        Ok(bytes) => Ok(Manifest::parse(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::at(path)(error)),
    }
}

/// Records durably that a repair is undone.
pub(super) fn mark_undone(vfs: &dyn Vfs, folder: &Path) -> Result<()> {
    let renamed = vfs.rename(&folder.join(MANIFEST), &folder.join(UNDONE));
    renamed.and_then(|()| vfs.sync_dir(folder)).map_err(Error::at(folder))
}

/// Returns the numbers of the folders, ascending.
pub(super) fn numbers(vfs: &dyn Vfs, side_dir: &Path) -> Result<Vec<u64>> {
    let mut numbers = Vec::new();
    let dir = match vfs.open_dir(side_dir) {
        Ok(dir) => dir,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(numbers),
        Err(error) => return Err(Error::at(side_dir)(error)),
    };
    let list = &mut |name: &[u8], _| {
        let name = std::str::from_utf8(name).ok();
        numbers.extend(name.and_then(|name| name.parse::<u64>().ok()));
    };
    dir.list(list).map_err(Error::at(side_dir))?;
    numbers.sort_unstable();
    Ok(numbers)
}

struct ManifestWriter(Vec<u8>);

impl ManifestWriter {
    fn path(&mut self, path: &Path) {
        self.0.put_bytes(path.as_os_str().as_bytes());
    }

    fn stretch(&mut self, stretch: KeptRange) {
        self.0.put_u64(stretch.at);
        self.0.put_u64(stretch.len);
    }

    fn old(&mut self, old: &Old) {
        self.stretch(old.stretch);
        self.0.put_u64(old.hash);
        self.0.put_u64(old.modified.unix_nanos as u64);
        self.0.put_u32(old.mode);
    }

    fn entry(&mut self, entry: &ManifestItem) {
        match entry {
            ManifestItem::Edit { name, old_size, new_size, old_hash, new_hash, pieces } => {
                self.0.put_u32(1);
                self.0.put_bytes(name);
                for number in [old_size, new_size, old_hash, new_hash] {
                    self.0.put_u64(*number);
                }
                self.0.put_u32(pieces.len() as u32);
                for (offset, stretch) in pieces {
                    self.0.put_u64(*offset);
                    self.stretch(*stretch);
                }
            }
            ManifestItem::Write { path, old, new_len, new_hash } => {
                self.0.put_u32(if old.is_some() { 2 } else { 3 });
                self.path(path);
                self.0.put_u64(*new_len);
                self.0.put_u64(*new_hash);
                old.iter().for_each(|old| self.old(old));
            }
            ManifestItem::Remove { path, old } => {
                self.0.put_u32(4);
                self.path(path);
                self.old(old);
            }
            ManifestItem::Rename { from, to, size } => {
                self.0.put_u32(5);
                self.path(from);
                self.path(to);
                self.0.put_u64(*size);
            }
            ManifestItem::MakeDir { path } => {
                self.0.put_u32(6);
                self.path(path);
            }
        }
    }
}

struct ManifestReader<'a>(LeReader<'a>);

impl ManifestReader<'_> {
    fn path(&mut self) -> Option<PathBuf> {
        Some(PathBuf::from(OsStr::from_bytes(self.0.bytes()?)))
    }

    /// Reads a path that stays within the folder of the mailbox.
    fn inner_path(&mut self) -> Option<PathBuf> {
        use std::path::Component::Normal;
        self.path().filter(|path| path.components().all(|part| matches!(part, Normal(_))))
    }

    fn stretch(&mut self) -> Option<KeptRange> {
        Some(KeptRange { at: self.0.u64()?, len: self.0.u64()? })
    }

    fn old(&mut self) -> Option<Old> {
        let (stretch, hash) = (self.stretch()?, self.0.u64()?);
        let modified = Timestamp { unix_nanos: self.0.u64()? as i64 };
        Some(Old { stretch, hash, modified, mode: self.0.u32()? })
    }

    fn entry(&mut self) -> Option<ManifestItem> {
        Some(match self.0.u32()? {
            1 => {
                let name = self.inner_path()?.into_os_string().as_bytes().to_vec();
                let (old_size, new_size) = (self.0.u64()?, self.0.u64()?);
                let (old_hash, new_hash) = (self.0.u64()?, self.0.u64()?);
                let mut pieces = Vec::new();
                for _ in 0..self.0.u32()? {
                    pieces.push((self.0.u64()?, self.stretch()?));
                }
                ManifestItem::Edit { name, old_size, new_size, old_hash, new_hash, pieces }
            }
            tag @ (2 | 3) => {
                let (path, new_len, new_hash) = (self.inner_path()?, self.0.u64()?, self.0.u64()?);
                let old = if tag == 2 { Some(self.old()?) } else { None };
                ManifestItem::Write { path, old, new_len, new_hash }
            }
            4 => ManifestItem::Remove { path: self.inner_path()?, old: self.old()? },
            5 => {
                let (from, to) = (self.inner_path()?, self.inner_path()?);
                ManifestItem::Rename { from, to, size: self.0.u64()? }
            }
            6 => ManifestItem::MakeDir { path: self.inner_path()? },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::{FileEdit, Overwrite};
    use super::*;

    #[test]
    fn a_plan_tells_how_much_is_to_be_kept() {
        let piece = || Overwrite { offset: 1, old: b"ab".to_vec(), new: b"abc".to_vec() };
        let edit = FileEdit {
            name: b"box".to_vec(),
            old_size: 9,
            new_size: 8,
            old_hash: 0,
            new_hash: 0,
            pieces: vec![piece(), piece()],
            cut: b"x".to_vec(),
        };
        let modified = Timestamp { unix_nanos: 0 };
        let whole = || WholeFile { bytes: b"whole".to_vec(), mode: 0, modified };
        let path = || PathBuf::from("a/".repeat(2000));
        let new = Vec::new();
        for step in [
            FolderStep::Write { path: path(), old: Some(whole()), new: new.clone(), mode: 0 },
            FolderStep::Write { path: path(), old: None, new, mode: 0 },
            FolderStep::Remove { path: path(), old: whole() },
            FolderStep::Rename { from: path(), to: path(), size: 5 },
            FolderStep::MakeDir { path: path(), mode: 0 },
        ] {
            // Enough steps that the fixed parts hardly count.
            let plan = RepairPlan { edits: Vec::new(), steps: vec![step; 500] };
            check(&plan);
        }
        check(&RepairPlan { edits: vec![edit], steps: Vec::new() });
    }

    fn check(plan: &RepairPlan) {
        let mailbox = PathBuf::from("m".repeat(4095));
        let manifest = Manifest::of(plan, &mailbox, Timestamp { unix_nanos: 0 }, false);
        let (entries, kept, most) = plan.to_keep();
        assert_eq!(entries, manifest.entries.len() as u64);
        assert_eq!(kept, manifest.kept_len);
        assert!(most >= manifest.to_bytes().len() as u64, "{plan:?}");
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let stretch = KeptRange { at: 3, len: 4 };
        let modified = Timestamp { unix_nanos: -5 };
        let old = Old { stretch, hash: 7, mode: 0o640, modified };
        let manifest = Manifest {
            mailbox: "/mail/box".into(),
            time: Timestamp { unix_nanos: 1 },
            goes_on: true,
            kept_len: 9,
            kept_hash: 8,
            entries: vec![
                ManifestItem::Edit {
                    name: b"box".to_vec(),
                    old_size: 1,
                    new_size: 2,
                    old_hash: 3,
                    new_hash: 4,
                    pieces: vec![(5, stretch)],
                },
                ManifestItem::Write { path: "a".into(), old: Some(old), new_len: 1, new_hash: 2 },
                ManifestItem::Write { path: "cur/b".into(), old: None, new_len: 1, new_hash: 2 },
                ManifestItem::Remove { path: "c".into(), old },
                ManifestItem::Rename { from: "d".into(), to: "e".into(), size: 3 },
                ManifestItem::MakeDir { path: "tmp".into() },
            ],
        };
        let bytes = manifest.to_bytes();
        assert_eq!(Manifest::parse(&bytes), Some(manifest.clone()));
        for len in 0..bytes.len() {
            assert_eq!(Manifest::parse(&bytes[..len]), None);
        }
        let mut strange = manifest;
        strange.entries = vec![ManifestItem::MakeDir { path: "../tmp".into() }];
        assert_eq!(Manifest::parse(&strange.to_bytes()), None);
    }
}
