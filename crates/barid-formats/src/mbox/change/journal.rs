//! The file of a journal: its path, and access to it.
//!
//! A short journal is kept in memory and written in one go. It is beside the mailbox as
//! `.NAME.barid-journal`. If the folder cannot be written it is in the state folder, and then
//! only the mailbox's attribute leads to it.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use barid_mailbox::{Error, Result};
use barid_state::Identity;
use barid_vfs::{
    File, FileType, LockKind, LockMode, Metadata, OpenOptions, Vfs, create_dir_durable,
    create_for_owner_of,
};

use super::limits::WritingOptions;

/// Extended attribute of a mailbox that names the journal of a change that moves bytes.
pub(super) const ATTRIBUTE: &str = "user.barid.journal";

/// Suffix of the name of a journal beside its mailbox.
const SUFFIX: &[u8] = b".barid-journal";

/// Suffix of the name of a journal in the state folder.
const STATE_NAME_END: &str = ".mbox-journal";
const STATE_SUFFIX: &[u8] = STATE_NAME_END.as_bytes();

/// Suffix of the name of an append's journal in the state folder.
const APPEND_NAME_END: &str = ".append.mbox-journal";

/// Mark in the attribute, before the path, of a journal that moves bytes although its name is that
/// of an append's.
const MOVES: &[u8] = b"+";

/// Mode bits that let group and others write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

const MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// Content of the attribute of a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// The random id of its journal.
    pub(super) id: [u8; 16],
    /// Its path; `None` if a journal of this mailbox cannot be there.
    pub(super) path: Option<PathBuf>,
    /// `true` if it may belong to an append: such a journal is removed when the append is complete,
    /// before the attribute is.
    pub(super) may_be_gone: bool,
}

/// File at the path of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileAtJournal {
    /// There is no file.
    Missing,
    /// A file that a stranger may have put there.
    Strange,
    /// A file that only a trusted user can have written.
    Ours,
}

/// Possible places of the journals of a mailbox.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places<'a> {
    /// The file system.
    pub(super) vfs: &'a dyn Vfs,
    /// Path of the mailbox, without symbolic links.
    pub(super) mailbox: &'a Path,
    /// The state folder.
    pub(super) state_dir: Option<&'a Path>,
}

impl Places<'_> {
    /// Fails with [`Error::NoSpace`] if the file system has less than `needed` bytes free.
    pub(super) fn check_space(&self, needed: u64) -> Result<()> {
        match self.vfs.free_space(self.mailbox) {
            Ok(free) if free < needed => {
                Err(Error::NoSpace { path: self.mailbox.to_owned(), needed, free })
            }
            // If the free space is unknown, a write will fail.
            _ => Ok(()),
        }
    }

    /// Returns the path of the journal beside the mailbox.
    pub(super) fn beside(&self) -> PathBuf {
        let name = self.mailbox.file_name().unwrap_or_default().as_bytes();
        let name = [b".", name, SUFFIX].concat();
        self.mailbox.with_file_name(OsStr::from_bytes(&name))
    }

    /// Returns the path to which a journal is put aside. Its name is short, since that of the
    /// mailbox may be long.
    pub(super) fn quarantine(&self, journal: &Path, id: &[u8; 16]) -> PathBuf {
        journal.with_file_name(format!(".barid-quarantined-{}", hex(id)))
    }

    /// Returns the attribute for the journal `id` of an append at `path`.
    pub(super) fn attribute_of_append(&self, path: &Path, id: &[u8; 16]) -> Vec<u8> {
        self.attribute(path, id, b" ")
    }

    /// Returns the attribute for the journal `id` at `path`, which moves bytes. It marks a journal
    /// that has replaced that of an append, since its name looks like one.
    pub(super) fn attribute_of_change(&self, path: &Path, id: &[u8; 16]) -> Vec<u8> {
        self.attribute(path, id, if has_append_name(path) { MOVES } else { b" " })
    }

    fn attribute(&self, path: &Path, id: &[u8; 16], mark: &[u8]) -> Vec<u8> {
        let place = match path.parent() == self.mailbox.parent() {
            true => path.file_name().unwrap_or_default(),
            false => path.as_os_str(),
        };
        [hex(id).as_bytes(), mark, place.as_bytes()].concat()
    }

    /// Returns the journal that the attribute names, if it is set.
    pub(super) fn named(&self) -> Result<Option<Named>> {
        let value = self.vfs.xattr(self.mailbox, ATTRIBUTE).map_err(Error::at(self.mailbox))?;
        let unknown = Named { id: [0; 16], path: None, may_be_gone: false };
        Ok(value.map(|value| self.parse(&value).unwrap_or(unknown)))
    }

    /// Parses the attribute. Accepts only paths where a journal of this mailbox can be: anybody who
    /// may write the mailbox can set the attribute, and another user may follow it.
    fn parse(&self, value: &[u8]) -> Option<Named> {
        let (hex, rest) = value.split_at_checked(32)?;
        let mut id = [0; 16];
        for (byte, digits) in id.iter_mut().zip(hex.as_chunks::<2>().0) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        let place = rest.strip_prefix(b" ").or_else(|| rest.strip_prefix(MOVES))?;
        let path = Path::new(OsStr::from_bytes(place));
        let path = match place.contains(&b'/') {
            true => {
                let is_there = path.parent().is_some_and(|dir| Some(dir) == self.state_dir);
                (is_there && place.ends_with(STATE_SUFFIX)).then(|| path.to_owned())
            }
            false => {
                let is_one = place.starts_with(b".") && place.ends_with(SUFFIX);
                is_one.then(|| self.mailbox.with_file_name(path))
            }
        };
        let may_be_gone = rest.starts_with(b" ") && path.as_deref().is_some_and(has_append_name);
        Some(Named { id, path, may_be_gone })
    }

    /// Inspects the file at `path`.
    pub(super) fn look(&self, path: &Path) -> Result<FileAtJournal> {
        match self.vfs.symlink_metadata(path) {
            Ok(found) if self.trusts(&found)? => Ok(FileAtJournal::Ours),
            Ok(_) => Ok(FileAtJournal::Strange),
            Err(error) if is_missing(&error) => Ok(FileAtJournal::Missing),
            Err(error) => Err(Error::at(path)(error)),
        }
    }

    /// Returns `true` if a journal may be followed: anybody can put one in a folder that all may
    /// write.
    fn trusts(&self, found: &Metadata) -> Result<bool> {
        let is_private = found.file_type == FileType::File
            && found.links <= 1
            && found.mode & WRITABLE_BY_OTHERS == 0;
        if !is_private || found.uid == self.vfs.user() || found.uid == 0 {
            return Ok(is_private);
        }
        let mailbox = self.vfs.metadata(self.mailbox).map_err(Error::at(self.mailbox))?;
        Ok(found.uid == mailbox.uid)
    }

    /// Converts an error of writing a journal of `needed` bytes.
    fn full(&self, path: &Path, needed: u64, error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => {
                let free = self.vfs.free_space(path).unwrap_or(0);
                Error::NoSpace { path: path.to_owned(), needed, free }
            }
            _ => Error::at(path)(error),
        }
    }

    /// Creates the file that will replace the journal at `path`.
    fn create_for(&self, path: &Path, id: &[u8; 16]) -> Result<(PathBuf, Box<dyn File>)> {
        let path = path.with_file_name(format!(".barid-new-{}", hex(id)));
        // An existing one was never begun.
        match self.vfs.remove_file(&path) {
            Err(error) if !is_missing(&error) => return Err(Error::at(&path)(error)),
            _ => {}
        }
        let file = self.create_private(&path).map_err(Error::at(&path))?;
        Ok((path, file))
    }

    /// Returns `true` if an error means that no journal can be created.
    pub(super) fn is_closed(&self, error: &Error) -> bool {
        matches!(error, Error::Io { source, .. } if is_denied(source) || is_missing(source))
    }

    /// Creates a file for mail: with the owner of the mailbox, not that of the folder.
    fn create_private(&self, path: &Path) -> io::Result<Box<dyn File>> {
        create_for_owner_of(self.vfs, self.mailbox, path, MODE)
    }

    fn create(&self, state_name_end: &str) -> Result<(PathBuf, Box<dyn File>)> {
        let path = self.beside();
        match self.create_private(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if is_denied(&error) && self.state_dir.is_some() => {}
            Err(error) => return Err(Error::at(&path)(error)),
        }
        let dir = self.state_dir.unwrap_or(Path::new("/"));
        create_dir_durable(self.vfs, dir, DIR_MODE).map_err(Error::at(dir))?;
        let id = Identity::of(self.vfs, self.mailbox, false)?.id;
        let mut path = dir.join(format!("{id:032x}{state_name_end}"));
        if self.look(&path)? != FileAtJournal::Missing {
            // A journal that no attribute names was never begun; but it may belong to a copy of the
            // mailbox.
            let mut random = [0; 8];
            self.vfs.random(&mut random).map_err(Error::at(&path))?;
            let random = u64::from_le_bytes(random);
            path = dir.join(format!("{id:032x}-{random:016x}{state_name_end}"));
        }
        let file = self.create_private(&path).map_err(Error::at(&path))?;
        Ok((path, file))
    }
}

/// Returns `true` if the name is one that an append gives its journal.
fn has_append_name(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(APPEND_NAME_END.as_bytes())
}

fn hex(id: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*id))
}

/// Locks a journal; returns `false` if another process has locked it. On a file system without
/// locks, those of the mailbox must be enough.
fn lock(file: &dyn File) -> bool {
    file.try_lock(LockKind::Flock, LockMode::Exclusive).unwrap_or(true)
}

fn is_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | InvalidFilename)
}

fn is_denied(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, InvalidFilename, PermissionDenied, ReadOnlyFilesystem};
    // An existing file is a stranger's, or belongs to another mailbox.
    matches!(error.kind(), AlreadyExists | PermissionDenied | ReadOnlyFilesystem | InvalidFilename)
}

/// The journal that a new one will replace.
#[derive(Clone, Debug)]
struct Over {
    path: PathBuf,
    id: [u8; 16],
}

/// A journal that is being written or read.
#[derive(Debug)]
pub(super) struct JournalFile {
    /// Its first bytes, until it becomes a file.
    image: Vec<u8>,
    image_max: u64,
    file: Option<(PathBuf, Box<dyn File>)>,
    /// Suffix of its name if it is in the state folder.
    state_name_end: &'static str,
    over: Option<Over>,
    /// Bytes written to the file.
    pub(super) bytes_written: u64,
}

impl JournalFile {
    /// Creates a journal that is in memory until it exceeds `image_max` bytes.
    pub(super) fn new(image_max: u64) -> Self {
        let (image, file, over) = (Vec::new(), None, None);
        let state_name_end = STATE_NAME_END;
        Self { image, image_max, file, state_name_end, over, bytes_written: 0 }
    }

    /// Creates the journal of an append.
    pub(super) fn of_append() -> Self {
        Self { state_name_end: APPEND_NAME_END, ..Self::new(0) }
    }

    /// Creates a journal with the given id that will replace, atomically, the one at `path`.
    pub(super) fn over(path: &Path, id: [u8; 16], options: WritingOptions) -> Self {
        let over = Over { path: path.to_owned(), id };
        Self { over: Some(over), ..Self::new(options.image_len) }
    }

    /// Returns the id that it must have, if one was given.
    pub(super) fn given_id(&self) -> Option<[u8; 16]> {
        self.over.as_ref().map(|over| over.id)
    }

    /// Returns `true` if it replaces another, which must not be lost.
    pub(super) fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Syncs it, renames it into place if it replaces another, and syncs the folder unless its name
    /// is durable already. Returns the number of barriers: one or two.
    pub(super) fn sync(&mut self, places: &Places<'_>) -> Result<u64> {
        let Some((path, file)) = &mut self.file else { return Ok(0) };
        file.sync_all().map_err(Error::at(&*path))?;
        if let Some(over) = &self.over {
            places.vfs.rename(path, &over.path).map_err(Error::at(&*path))?;
            path.clone_from(&over.path);
        } else if file.syncs_name().map_err(Error::at(&*path))? {
            return Ok(1);
        }
        let dir = path.parent().unwrap_or(Path::new("/"));
        places.vfs.sync_dir(dir).map_err(Error::at(dir))?;
        Ok(2)
    }

    /// Opens an existing journal.
    ///
    /// # Errors
    /// [`Error::Unrecoverable`] if it is not trusted any more; [`Error::Locked`] if a process uses
    /// it.
    pub(super) fn open(places: &Places<'_>, path: &Path) -> Result<Self> {
        let options = OpenOptions { no_follow: true, ..OpenOptions::WRITE };
        let file = places.vfs.open(path, options).map_err(Error::at(path))?;
        if !places.trusts(&file.metadata().map_err(Error::at(path))?)? {
            let what = format!("{} was exchanged", path.display());
            return Err(Error::Unrecoverable { path: places.mailbox.to_owned(), what });
        }
        if !lock(&*file) {
            let holder = "the recovery of another copy of the mailbox".to_owned();
            return Err(Error::Locked { path: path.to_owned(), holder, waited_ms: 0 });
        }
        let file = Some((path.to_owned(), file));
        Ok(Self { file, ..Self::new(0) })
    }

    /// Returns its path, if it is a file.
    pub(super) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|(path, _)| path.as_path())
    }

    /// Returns its file, if it is one.
    pub(super) fn file(&self) -> Option<&dyn File> {
        self.file.as_ref().map(|(_, file)| &**file)
    }

    /// Writes bytes at `offset`; creates the file if it gets too long for memory.
    pub(super) fn write(&mut self, places: &Places<'_>, bytes: &[u8], offset: u64) -> Result<()> {
        let end = offset + bytes.len() as u64;
        if self.file.is_none() && end <= self.image_max {
            let end = end as usize;
            if self.image.len() < end {
                self.image.resize(end, 0);
            }
            self.image[offset as usize..end].copy_from_slice(bytes);
            return Ok(());
        }
        self.materialize(places)?;
        let Some((path, file)) = &self.file else { return Ok(()) };
        file.write_all_at(bytes, offset).map_err(|error| places.full(path, end, error))?;
        self.bytes_written += bytes.len() as u64;
        Ok(())
    }

    /// Creates the file, if there is none.
    pub(super) fn materialize(&mut self, places: &Places<'_>) -> Result<()> {
        if self.file.is_some() {
            return Ok(());
        }
        let (path, file) = match &self.over {
            Some(over) => places.create_for(&over.path, &over.id)?,
            None => places.create(self.state_name_end)?,
        };
        lock(&*file);
        let image = std::mem::take(&mut self.image);
        let len = image.len() as u64;
        let written = file.write_all_at(&image, 0).map_err(|error| places.full(&path, len, error));
        self.bytes_written += image.len() as u64;
        self.file = Some((path, file));
        written
    }

    /// Fills `buffer` from `offset` on.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match &self.file {
            Some((_, file)) => file.read_exact_at(buffer, offset),
            None => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX);
                let bytes = self.image.get(from..).unwrap_or_default();
                let bytes = bytes.get(..buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
                buffer.copy_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Removes it before anything was begun, so that it cannot be found and followed later. Errors
    /// are ignored: the caller already has one that matters more.
    pub(super) fn discard(self, vfs: &dyn Vfs) {
        // After the rename it completes the change of the journal that it replaced.
        if self.over.as_ref().is_some_and(|over| Some(&*over.path) == self.path()) {
            return;
        }
        if let Some((_, file)) = &self.file {
            let _ = file.set_len(0);
        }
        self.forget(vfs);
    }

    /// Removes a file that is not a journal yet.
    pub(super) fn forget(self, vfs: &dyn Vfs) {
        if let Some(path) = self.path() {
            let _ = self.unlink(vfs);
            let _ = path.parent().map(|dir| vfs.sync_dir(dir));
        }
    }

    /// Removes its name, if that still leads to it.
    pub(super) fn unlink(&self, vfs: &dyn Vfs) -> io::Result<()> {
        let Some((path, file)) = &self.file else { return Ok(()) };
        match vfs.symlink_metadata(path) {
            Ok(found) if found.inode == file.metadata()?.inode => vfs.remove_file(path),
            Ok(_) => Ok(()),
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Allocates its first `len` bytes on the disk, where that is supported.
    pub(super) fn reserve(&self, places: &Places<'_>, len: u64) -> Result<()> {
        let Some((path, file)) = &self.file else { return Ok(()) };
        match file.allocate(0, len) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
            reserved => reserved.map_err(|error| places.full(path, len, error)),
        }
    }
}
