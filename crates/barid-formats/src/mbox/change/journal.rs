//! The file of a journal: where it is, and reading and writing it.
//!
//! A journal that is still short is kept in memory and written at once. It stands beside the
//! mailbox as `.NAME.barid-journal`; where the folder cannot be written it goes to the state
//! folder, and then only the mailbox's attribute leads to it.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use barid_state::Identity;
use barid_vfs::{
    File, FileType, LockKind, LockMode, Metadata, OpenOptions, Vfs, create_dir_durable,
    create_for_owner_of,
};

use super::limits::WritingOptions;
use crate::{Error, Result};

/// The attribute of a mailbox that names the journal of a change that moves bytes.
pub(super) const ATTRIBUTE: &str = "user.barid.journal";

/// How the name of a journal ends that stands beside its mailbox.
const SUFFIX: &[u8] = b".barid-journal";

/// How the name of one ends that stands in the state folder.
const STATE_NAME_END: &str = ".mbox-journal";
const STATE_SUFFIX: &[u8] = STATE_NAME_END.as_bytes();

/// How the name of one ends there that is the journal of an append.
const APPEND_NAME_END: &str = ".append.mbox-journal";

/// The mark before the place of a journal in the attribute, if its name is that of an append's
/// but it moves bytes.
const MOVES: &[u8] = b"+";

/// The permission of group and others to write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

const MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// What the attribute of a mailbox says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// The random id of its journal.
    pub(super) id: [u8; 16],
    /// Where that is; `None` if it is no place of journals.
    pub(super) path: Option<PathBuf>,
    /// It may be that of an append, which goes when the append is complete.
    pub(super) may_be_gone: bool,
}

/// What is found in the place of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Nothing.
    Missing,
    /// What a stranger may have put there.
    Strange,
    /// A file that only who may be trusted can have written.
    Ours,
}

/// Where journals of a mailbox are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places<'a> {
    /// The file system.
    pub(super) vfs: &'a dyn Vfs,
    /// The mailbox, without symbolic links.
    pub(super) mailbox: &'a Path,
    /// The state folder.
    pub(super) state_dir: Option<&'a Path>,
}

impl Places<'_> {
    /// Looks whether there is room for so many bytes more.
    pub(super) fn check_space(&self, needed: u64) -> Result<()> {
        match self.vfs.free_space(self.mailbox) {
            Ok(free) if free < needed => {
                Err(Error::NoSpace { path: self.mailbox.to_owned(), needed, free })
            }
            // Where it cannot be told, it will be seen.
            _ => Ok(()),
        }
    }

    /// The place beside the mailbox.
    pub(super) fn beside(&self) -> PathBuf {
        let name = self.mailbox.file_name().unwrap_or_default().as_bytes();
        let name = [b".", name, SUFFIX].concat();
        self.mailbox.with_file_name(OsStr::from_bytes(&name))
    }

    /// Where a journal is put aside; a short name, since that of the mailbox may be a long one.
    pub(super) fn quarantine(&self, journal: &Path, id: &[u8; 16]) -> PathBuf {
        journal.with_file_name(format!(".barid-quarantined-{}", hex(id)))
    }

    /// The attribute for the journal `id` at `path`, which is that of an append.
    pub(super) fn attribute_of_append(&self, path: &Path, id: &[u8; 16]) -> Vec<u8> {
        self.attribute(path, id, b" ")
    }

    /// The attribute for the journal `id` at `path`, which moves bytes. If it has taken the place
    /// of that of an append, its name does not tell.
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

    /// The journal that the attribute names, if it is set.
    pub(super) fn named(&self) -> Result<Option<Named>> {
        let value = self.vfs.xattr(self.mailbox, ATTRIBUTE).map_err(Error::at(self.mailbox))?;
        let unknown = Named { id: [0; 16], path: None, may_be_gone: false };
        Ok(value.map(|value| self.parse(&value).unwrap_or(unknown)))
    }

    /// Only what can be a journal of this mailbox is taken for one: anybody who may write the
    /// mailbox sets the attribute, and who follows it may be somebody else.
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

    /// What is at `path`.
    pub(super) fn look(&self, path: &Path) -> Result<Place> {
        match self.vfs.symlink_metadata(path) {
            Ok(found) if self.trusts(&found)? => Ok(Place::Ours),
            Ok(_) => Ok(Place::Strange),
            Err(error) if is_missing(&error) => Ok(Place::Missing),
            Err(error) => Err(Error::at(path)(error)),
        }
    }

    /// Whether a journal is followed: in a folder that all may write anybody can put one.
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

    /// What an error of writing a journal is that needs `needed` bytes.
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

    /// Creates what is to take the place of the journal at `path`.
    fn create_for(&self, path: &Path, id: &[u8; 16]) -> Result<(PathBuf, Box<dyn File>)> {
        let path = path.with_file_name(format!(".barid-new-{}", hex(id)));
        // One that is there was never begun.
        match self.vfs.remove_file(&path) {
            Err(error) if !is_missing(&error) => return Err(Error::at(&path)(error)),
            _ => {}
        }
        let file = self.create_private(&path).map_err(Error::at(&path))?;
        Ok((path, file))
    }

    /// Whether an error says that there is no place for a journal.
    pub(super) fn is_closed(&self, error: &Error) -> bool {
        matches!(error, Error::Io { source, .. } if is_denied(source) || is_missing(source))
    }

    /// Creates a file that holds mail: it is its owner's, and not that of the folder.
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
        if self.look(&path)? != Place::Missing {
            // What no attribute names was never begun; but it may be that of a copy of the mailbox.
            let mut random = [0; 8];
            self.vfs.random(&mut random).map_err(Error::at(&path))?;
            let random = u64::from_le_bytes(random);
            path = dir.join(format!("{id:032x}-{random:016x}{state_name_end}"));
        }
        let file = self.create_private(&path).map_err(Error::at(&path))?;
        Ok((path, file))
    }
}

/// Returns `true` if a journal got this name as that of an append.
fn has_append_name(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(APPEND_NAME_END.as_bytes())
}

fn hex(id: &[u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(*id))
}

/// Lets no other work with a journal; `false` if another does. Where there are no locks, those of
/// the mailbox must be enough.
fn lock(file: &dyn File) -> bool {
    file.try_lock(LockKind::Flock, LockMode::Exclusive).unwrap_or(true)
}

fn is_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | InvalidFilename)
}

fn is_denied(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, InvalidFilename, PermissionDenied, ReadOnlyFilesystem};
    // What has the name already is a stranger's, or about another file.
    matches!(error.kind(), AlreadyExists | PermissionDenied | ReadOnlyFilesystem | InvalidFilename)
}

/// Where a journal goes that takes the place of another.
#[derive(Clone, Debug)]
struct Over {
    path: PathBuf,
    id: [u8; 16],
}

/// A journal that is being written or read.
#[derive(Debug)]
pub(super) struct JournalFile {
    /// Its first bytes, as long as there is no file.
    image: Vec<u8>,
    image_max: u64,
    file: Option<(PathBuf, Box<dyn File>)>,
    /// How its name ends if it stands in the state folder.
    state_name_end: &'static str,
    over: Option<Over>,
    /// Bytes written to it.
    pub(super) bytes_written: u64,
}

impl JournalFile {
    /// A journal that is in memory until it exceeds `image_max` bytes.
    pub(super) fn new(image_max: u64) -> Self {
        let (image, file, over) = (Vec::new(), None, None);
        let state_name_end = STATE_NAME_END;
        Self { image, image_max, file, state_name_end, over, bytes_written: 0 }
    }

    /// The journal of an append.
    pub(super) fn of_append() -> Self {
        Self { state_name_end: APPEND_NAME_END, ..Self::new(0) }
    }

    /// A journal that is to take the place, at once and with the id, of the one at `path`.
    pub(super) fn over(path: &Path, id: [u8; 16], options: WritingOptions) -> Self {
        let over = Over { path: path.to_owned(), id };
        Self { over: Some(over), ..Self::new(options.image_len) }
    }

    /// The id that it is to have, if that is given.
    pub(super) fn given_id(&self) -> Option<[u8; 16]> {
        self.over.as_ref().map(|over| over.id)
    }

    /// Whether it takes the place of another, which must not be lost.
    pub(super) fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Waits for it, gives it its place, and waits for that, unless its name is durable already.
    /// Returns the number of barriers: one or two.
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

    /// One that is there.
    ///
    /// # Errors
    /// [`Error::Unrecoverable`] if it is a stranger's; [`Error::Locked`] if it is being worked on.
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

    /// Where it is, if it is a file.
    pub(super) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|(path, _)| path.as_path())
    }

    /// Its file, if it is one.
    pub(super) fn file(&self) -> Option<&dyn File> {
        self.file.as_ref().map(|(_, file)| &**file)
    }

    /// Writes at `offset`.
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

    /// Makes a file of it, if it is none.
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

    /// Removes it again before anything was begun, for good: it must never be found and followed
    /// later. There is an error already that matters more than any of this.
    pub(super) fn discard(self, vfs: &dyn Vfs) {
        // Once it has taken the place of another it is what completes that one's change.
        if self.over.as_ref().is_some_and(|over| Some(&*over.path) == self.path()) {
            return;
        }
        if let Some((_, file)) = &self.file {
            let _ = file.set_len(0);
        }
        self.forget(vfs);
    }

    /// Removes a file that is no journal yet.
    pub(super) fn forget(self, vfs: &dyn Vfs) {
        if let Some(path) = self.path() {
            let _ = self.unlink(vfs);
            let _ = path.parent().map(|dir| vfs.sync_dir(dir));
        }
    }

    /// Takes its name away, if that is still its own.
    pub(super) fn unlink(&self, vfs: &dyn Vfs) -> io::Result<()> {
        let Some((path, file)) = &self.file else { return Ok(()) };
        match vfs.symlink_metadata(path) {
            Ok(found) if found.inode == file.metadata()?.inode => vfs.remove_file(path),
            Ok(_) => Ok(()),
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Reserves its first `len` bytes on the disk, where that can be done.
    pub(super) fn reserve(&self, places: &Places<'_>, len: u64) -> Result<()> {
        let Some((path, file)) = &self.file else { return Ok(()) };
        match file.allocate(0, len) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
            reserved => reserved.map_err(|error| places.full(path, len, error)),
        }
    }
}
