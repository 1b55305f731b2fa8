//! The plan of a repair: bytes written in place, and files that are made, removed and renamed.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use barid_mailbox::{Error, Result};
use barid_vfs::{File, Timestamp, Vfs};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::limits::{
    EDIT_LEN_MAX, FILE_LEN_MAX, KEPT_LEN_MAX, MANIFEST_LEN_MAX, READ_LEN, STEPS_MAX,
};
use crate::redo::FileChange;

/// Maximum length of a manifest entry, in bytes, without its paths and pieces.
const ENTRY_LEN: usize = 80;
/// Length of a piece in a manifest, in bytes.
const PIECE_LEN: usize = 24;
/// Maximum length of a manifest without its entries, in bytes: the path of the mailbox and some
/// numbers.
const HEAD_LEN: usize = 8192;

/// All changes of a repair, in order: first all edits at once, then one step after the other.
#[derive(Debug, Default)]
pub(crate) struct RepairPlan {
    pub(crate) edits: Vec<FileEdit>,
    pub(crate) steps: Vec<FolderStep>,
}

impl RepairPlan {
    pub(crate) fn is_empty(&self) -> bool {
        self.edits.is_empty() && self.steps.is_empty()
    }

    /// Returns `true` if the plan is too large to be stored, and to be read again for an undo.
    pub(crate) fn is_too_large(&self) -> bool {
        let (entries, kept, manifest) = self.to_keep();
        entries > u64::from(STEPS_MAX) || kept > KEPT_LEN_MAX || manifest > MANIFEST_LEN_MAX
    }

    /// Returns the number of manifest entries, the bytes to be stored, and the maximum length of
    /// the manifest.
    pub(super) fn to_keep(&self) -> (u64, u64, u64) {
        let (mut kept, mut manifest) = (0, HEAD_LEN);
        for edit in &self.edits {
            kept += edit.pieces.iter().map(|piece| piece.old.len()).sum::<usize>() + edit.cut.len();
            manifest += ENTRY_LEN + edit.name.len() + PIECE_LEN * (edit.pieces.len() + 1);
        }
        for step in &self.steps {
            let (paths, old) = match step {
                FolderStep::Write { path, old, .. } => ([Some(path), None], old.as_ref()),
                FolderStep::Remove { path, old } => ([Some(path), None], Some(old)),
                FolderStep::Rename { from, to, .. } => ([Some(from), Some(to)], None),
                FolderStep::MakeDir { path, .. } => ([Some(path), None], None),
            };
            kept += old.map_or(0, |old| old.bytes.len());
            let paths = paths.into_iter().flatten().map(|path| path.as_os_str().len());
            manifest += ENTRY_LEN + paths.sum::<usize>();
        }
        ((self.edits.len() + self.steps.len()) as u64, kept as u64, manifest as u64)
    }
}

/// A part of the new content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// This range of the file.
    Keep(Range<u64>),
    /// Other bytes.
    New(Vec<u8>),
}

/// A file that is written in place.
#[derive(Debug)]
pub(crate) struct FileEdit {
    /// Its name in the folder of the mailbox.
    pub(crate) name: Vec<u8>,
    pub(crate) old_size: u64,
    pub(crate) new_size: u64,
    pub(crate) old_hash: u64,
    pub(crate) new_hash: u64,
    /// The bytes to be written, ascending and without overlaps.
    pub(crate) pieces: Vec<Overwrite>,
    /// The bytes that are cut off at the end.
    pub(crate) cut: Vec<u8>,
}

/// Bytes to be written over `old`, which is shorter at the end of the file.
#[derive(Debug)]
pub(crate) struct Overwrite {
    pub(crate) offset: u64,
    pub(crate) old: Vec<u8>,
    pub(crate) new: Vec<u8>,
}

impl FileEdit {
    /// Returns the edit that turns a file into `segments`; `None` if it is too large. If nothing
    /// changes, the file is not hashed.
    pub(crate) fn assemble(
        name: &[u8],
        file: &dyn File,
        segments: &[Segment],
    ) -> io::Result<Option<Self>> {
        let old_size = file.metadata()?.size;
        let mut edit = Self {
            name: name.to_vec(),
            old_size,
            new_size: 0,
            old_hash: 0,
            new_hash: 0,
            pieces: Vec::new(),
            cut: Vec::new(),
        };
        let (mut at, mut moved) = (0, 0);
        for segment in segments {
            match segment {
                Segment::Keep(range) if range.start == at => at = range.end,
                Segment::Keep(range) => {
                    let len = range.end - range.start;
                    moved += len;
                    if moved > EDIT_LEN_MAX {
                        return Ok(None);
                    }
                    let mut bytes = vec![0; len as usize];
                    file.read_exact_at(&mut bytes, range.start)?;
                    edit.put(file, at, bytes)?;
                    at += len;
                }
                Segment::New(bytes) => {
                    moved += bytes.len() as u64;
                    edit.put(file, at, bytes.clone())?;
                    at += bytes.len() as u64;
                }
            }
        }
        edit.new_size = at;
        let cut_len = old_size.saturating_sub(at);
        if moved + cut_len > EDIT_LEN_MAX {
            return Ok(None);
        }
        edit.cut = vec![0; cut_len as usize];
        file.read_exact_at(&mut edit.cut, at.min(old_size))?;
        if edit.is_empty() {
            return Ok(Some(edit));
        }
        edit.old_hash = hash_file(file, 0..old_size, &[])?;
        edit.new_hash = hash_file(file, 0..at, &edit.pieces)?;
        Ok(Some(edit))
    }

    fn put(&mut self, file: &dyn File, offset: u64, new: Vec<u8>) -> io::Result<()> {
        let mut old = vec![0; new.len()];
        let len = file.read_full_at(&mut old, offset)?;
        old.truncate(len);
        if old == new {
            return Ok(());
        }
        match self.pieces.last_mut().filter(|last| last.offset + last.new.len() as u64 == offset) {
            Some(last) => {
                last.old.extend_from_slice(&old);
                last.new.extend_from_slice(&new);
            }
            None => self.pieces.push(Overwrite { offset, old, new }),
        }
        Ok(())
    }

    /// Returns `true` if it leaves the file unchanged.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.old_size == self.new_size
    }

    /// Returns the edit as a change of the redo journal, for the open file.
    pub(crate) fn change(&self, file: &dyn File) -> io::Result<FileChange> {
        let mut change = FileChange::new(&self.name, self.old_size);
        for piece in &self.pieces {
            change.write(piece.offset, &piece.old, &piece.new);
        }
        if self.new_size < self.old_size {
            change.cut(self.new_size, file)?;
        }
        Ok(change)
    }
}

/// A change of the folder, each of which is done at once or not at all.
#[derive(Clone, Debug)]
pub(crate) enum FolderStep {
    /// A file is replaced or made.
    Write { path: PathBuf, old: Option<WholeFile>, new: Vec<u8>, mode: u32 },
    /// A file is removed.
    Remove { path: PathBuf, old: WholeFile },
    /// A file gets another name, which no file has.
    Rename { from: PathBuf, to: PathBuf, size: u64 },
    /// A folder is made.
    MakeDir { path: PathBuf, mode: u32 },
}

/// A whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WholeFile {
    pub(crate) bytes: Vec<u8>,
    pub(crate) mode: u32,
    pub(crate) modified: Timestamp,
}

impl WholeFile {
    /// Reads a file; returns `None` if it does not exist.
    pub(crate) fn read(vfs: &dyn Vfs, path: &Path) -> Result<Option<Self>> {
        let read = || -> io::Result<Self> {
            let metadata = vfs.metadata(path)?;
            let bytes = vfs.read(path, FILE_LEN_MAX)?;
            Ok(Self { bytes, mode: metadata.mode & 0o7777, modified: metadata.modified })
        };
        match read() {
            Ok(whole) => Ok(Some(whole)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::at(path)(error)),
        }
    }
}

impl FolderStep {
    /// Plans to replace the content of the file at `path` in `folder`.
    pub(crate) fn write(vfs: &dyn Vfs, folder: &Path, path: &Path, new: Vec<u8>) -> Result<Self> {
        let old = WholeFile::read(vfs, &folder.join(path))?;
        let of_folder = || vfs.metadata(folder).map_or(0o600, |folder| folder.mode & 0o666);
        let mode = old.as_ref().map_or_else(of_folder, |old| old.mode);
        Ok(Self::Write { path: path.to_owned(), old, new, mode })
    }

    /// Returns `true` if it removes only zeros: another program may have written since they were
    /// found.
    pub(crate) fn removes_nothing(&self) -> bool {
        matches!(self, Self::Remove { old, .. } if old.bytes.iter().all(|byte| *byte == 0))
    }

    /// Plans to remove the file at `path` in `folder`; returns `None` if it does not exist.
    pub(crate) fn remove(vfs: &dyn Vfs, folder: &Path, path: &Path) -> Result<Option<Self>> {
        let old = WholeFile::read(vfs, &folder.join(path))?;
        Ok(old.map(|old| Self::Remove { path: path.to_owned(), old }))
    }
}

/// Returns the hash of `bytes`.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// Returns the hash of a range of a file, as it is once the pieces are written.
pub(crate) fn hash_file(
    file: &dyn File,
    range: Range<u64>,
    pieces: &[Overwrite],
) -> io::Result<u64> {
    let mut hasher = Xxh3::new();
    let mut buffer = vec![0; READ_LEN];
    let mut at = range.start;
    let mut read = |hasher: &mut Xxh3, from: u64, to: u64| -> io::Result<()> {
        let mut from = from;
        while from < to {
            let len = (to - from).min(READ_LEN as u64) as usize;
            file.read_exact_at(&mut buffer[..len], from)?;
            hasher.update(&buffer[..len]);
            from += len as u64;
        }
        Ok(())
    };
    for piece in pieces {
        read(&mut hasher, at, piece.offset)?;
        hasher.update(&piece.new);
        at = piece.offset + piece.new.len() as u64;
    }
    read(&mut hasher, at, range.end)?;
    Ok(hasher.digest())
}

#[cfg(test)]
mod tests {
    use super::*;
    use barid_vfs::{MemVfs, OpenOptions};

    fn check(segments: &[Segment], expected: &str, pieces: usize) {
        let vfs = MemVfs::new();
        let file = vfs.open(Path::new("/f"), OpenOptions::create_new(0o600)).unwrap();
        file.write_all_at(b"0123456789", 0).unwrap();
        let edit = FileEdit::assemble(b"f", &*file, segments).unwrap().unwrap();
        assert_eq!(edit.pieces.len(), pieces, "{expected}");
        assert_eq!(edit.is_empty(), expected == "0123456789");
        if !edit.is_empty() {
            assert_eq!(edit.old_hash, hash(b"0123456789"));
            assert_eq!(edit.new_hash, hash(expected.as_bytes()));
        }
        for piece in &edit.pieces {
            file.write_all_at(&piece.new, piece.offset).unwrap();
        }
        file.set_len(edit.new_size).unwrap();
        assert_eq!(vfs.read(Path::new("/f"), 99).unwrap(), expected.as_bytes());
        for piece in &edit.pieces {
            file.write_all_at(&piece.old, piece.offset).unwrap();
        }
        file.set_len(edit.old_size.min(edit.new_size)).unwrap();
        file.write_all_at(&edit.cut, edit.new_size).unwrap();
        assert_eq!(vfs.read(Path::new("/f"), 99).unwrap(), b"0123456789");
    }

    #[test]
    fn what_could_not_be_read_back_is_too_large() {
        let step = |number: u32| FolderStep::MakeDir { path: number.to_string().into(), mode: 0 };
        let steps = |count| RepairPlan { edits: Vec::new(), steps: (0..count).map(step).collect() };
        assert!(!steps(STEPS_MAX).is_too_large());
        assert!(steps(STEPS_MAX + 1).is_too_large());
    }

    #[test]
    fn a_file_becomes_what_its_segments_are() {
        let new = |text: &str| Segment::New(text.into());
        check(&[Segment::Keep(0..10)], "0123456789", 0);
        check(&[Segment::Keep(0..4), new("xy"), Segment::Keep(6..10)], "0123xy6789", 1);
        check(&[Segment::Keep(0..4), new("45"), Segment::Keep(6..10)], "0123456789", 0);
        check(&[Segment::Keep(0..4), Segment::Keep(6..10)], "01236789", 1);
        check(&[Segment::Keep(0..7)], "0123456", 0);
        check(&[new("abc"), Segment::Keep(0..10)], "abc0123456789", 1);
        check(&[Segment::Keep(0..2), new("x"), Segment::Keep(3..10), new("!")], "01x3456789!", 2);
        check(&[], "", 0);
    }
}
