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
use barid_vfs::{File, OpenOptions, Vfs, create_dir_durable};

use crate::{Error, Result};

/// The attribute of a mailbox that names the journal of a change that moves bytes.
pub(super) const ATTRIBUTE: &str = "user.barid.journal";

const MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

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
    /// The place beside the mailbox.
    pub(super) fn beside(&self) -> PathBuf {
        self.sibling(b"journal")
    }

    /// Where a journal is put aside.
    pub(super) fn quarantine(&self, journal: &Path, id: &[u8; 16]) -> PathBuf {
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = self.sibling(format!("quarantined-{id}").as_bytes());
        journal.with_file_name(name.file_name().unwrap_or(OsStr::new("quarantined")))
    }

    fn sibling(&self, what: &[u8]) -> PathBuf {
        let name = self.mailbox.file_name().unwrap_or_default().as_bytes();
        let name = [b".", name, b".barid-", what].concat();
        self.mailbox.with_file_name(OsStr::from_bytes(&name))
    }

    /// What the attribute says of a journal at `path`.
    pub(super) fn attribute_of(&self, path: &Path) -> Vec<u8> {
        match path.parent() == self.mailbox.parent() {
            true => path.file_name().unwrap_or_default().as_bytes().to_vec(),
            false => path.as_os_str().as_bytes().to_vec(),
        }
    }

    /// The journal that the attribute names, if it is set.
    pub(super) fn named(&self) -> Result<Option<PathBuf>> {
        let value = self.vfs.xattr(self.mailbox, ATTRIBUTE).map_err(Error::at(self.mailbox))?;
        Ok(value.map(|value| match value.starts_with(b"/") {
            true => PathBuf::from(OsStr::from_bytes(&value)),
            false => self.mailbox.with_file_name(OsStr::from_bytes(&value)),
        }))
    }

    /// Whether there is a file at `path`.
    pub(super) fn is_there(&self, path: &Path) -> Result<bool> {
        match self.vfs.symlink_metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(Error::at(path)(error)),
        }
    }

    /// What an error of writing a journal is that needs `needed` bytes.
    fn full(&self, path: &Path, needed: u64, error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::StorageFull => {
                let free = self.vfs.free_space(path).unwrap_or(0);
                Error::NoSpace { path: path.to_owned(), needed, free }
            }
            _ => Error::at(path)(error),
        }
    }

    fn create(&self) -> Result<(PathBuf, Box<dyn File>)> {
        let path = self.beside();
        match self.vfs.open(&path, OpenOptions::create_new(MODE)) {
            Ok(file) => return Ok((path, file)),
            Err(error) if is_denied(&error) && self.state_dir.is_some() => {}
            Err(error) => return Err(Error::at(&path)(error)),
        }
        let dir = self.state_dir.unwrap_or(Path::new("/"));
        create_dir_durable(self.vfs, dir, DIR_MODE).map_err(Error::at(dir))?;
        let id = Identity::of(self.vfs, self.mailbox, false)?.id;
        let mut path = dir.join(format!("{id:032x}.mbox-journal"));
        if self.is_there(&path)? {
            // What no attribute names was never begun; but it may be that of a copy of the mailbox.
            let mut random = [0; 8];
            self.vfs.random(&mut random).map_err(Error::at(&path))?;
            let random = u64::from_le_bytes(random);
            path = dir.join(format!("{id:032x}-{random:016x}.mbox-journal"));
        }
        let file = self.vfs.open(&path, OpenOptions::create_new(MODE)).map_err(Error::at(&path))?;
        Ok((path, file))
    }
}

fn is_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | InvalidFilename)
}

fn is_denied(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem | InvalidFilename)
}

/// A journal that is being written or read.
#[derive(Debug)]
pub(super) struct JournalFile {
    /// Its first bytes, as long as there is no file.
    image: Vec<u8>,
    image_max: u64,
    file: Option<(PathBuf, Box<dyn File>)>,
    /// Bytes written to it.
    pub(super) bytes_written: u64,
}

impl JournalFile {
    /// A journal that is in memory until it exceeds `image_max` bytes.
    pub(super) fn new(image_max: u64) -> Self {
        Self { image: Vec::new(), image_max, file: None, bytes_written: 0 }
    }

    /// One that is there.
    pub(super) fn open(vfs: &dyn Vfs, path: &Path) -> io::Result<Self> {
        let options = OpenOptions { no_follow: true, ..OpenOptions::WRITE };
        let file = Some((path.to_owned(), vfs.open(path, options)?));
        Ok(Self { image: Vec::new(), image_max: 0, file, bytes_written: 0 })
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
        let (path, file) = places.create()?;
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
        if let Some((path, file)) = self.file {
            let _ = file.set_len(0);
            let _ = vfs.remove_file(&path);
            let _ = path.parent().map(|dir| vfs.sync_dir(dir));
        }
    }
}
