//! Examination of a path, to find the format of the mailbox there.

use std::io::ErrorKind;
use std::path::Path;

use barid_mailbox::{Error, Result};
use barid_vfs::{FileType, OpenOptions, Vfs};

/// Bytes of a file that are read to detect its format.
pub(crate) const HEAD_LEN: usize = 8 << 10;

/// Reason why a folder is not a mailbox.
pub(crate) const NO_MAILDIR: &str =
    "the directory has no cur/ and new/; `barid folders` lists mailboxes below it";
/// Reason why a file that is not text is not a mailbox.
pub(crate) const BINARY_FILE: &str = "it is a binary file";

/// A path that may be a mailbox: a folder, or a file and its first bytes.
pub(crate) struct Probe<'a> {
    vfs: &'a dyn Vfs,
    path: &'a Path,
    /// The first bytes, if it is a file.
    head: Option<Vec<u8>>,
}

/// Reason why a path is not a mailbox of a format that was named.
pub(crate) enum Mismatch {
    /// The path is not a mailbox of that format.
    Other(&'static str),
    /// It may have been one before it was damaged, and a repair may mend it.
    Damaged(&'static str),
}

impl<'a> Probe<'a> {
    /// Looks at a path. Costs a `stat`, and for a file one read of its first bytes.
    ///
    /// # Errors
    /// [`Error::Io`] if the path is missing or cannot be read; [`Error::NotAMailbox`] if it is
    /// neither a file nor a folder.
    pub(crate) fn new(vfs: &'a dyn Vfs, path: &'a Path) -> Result<Self> {
        let head = match vfs.metadata(path).map_err(Error::at(path))?.file_type {
            FileType::Dir => None,
            FileType::File => Some(read_head(vfs, path).map_err(Error::at(path))?),
            _ => {
                let reason = "it is neither a file nor a directory";
                return Err(Error::NotAMailbox { path: path.to_owned(), reason });
            }
        };
        Ok(Self { vfs, path, head })
    }

    /// Returns the file system.
    pub(crate) fn vfs(&self) -> &'a dyn Vfs {
        self.vfs
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> &'a Path {
        self.path
    }

    /// Returns the first bytes, if it is a file.
    pub(crate) fn head(&self) -> Option<&[u8]> {
        self.head.as_deref()
    }

    /// Returns `true` if the path is a file and `is_match` accepts its first bytes.
    pub(crate) fn has_head(&self, is_match: impl Fn(&[u8]) -> bool) -> bool {
        self.head().is_some_and(is_match)
    }

    /// Returns `true` if it is a folder that has these folders.
    ///
    /// # Errors
    /// [`Error::Io`] if a folder cannot be examined.
    pub(crate) fn has_folders(&self, names: &[&str]) -> Result<bool> {
        for name in names {
            if self.head.is_some() || !is_dir(self.vfs, &self.path.join(name))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns `true` if the path ends with an extension, in any case.
    pub(crate) fn has_extension(&self, extension: &[u8]) -> bool {
        let name = self.path.as_os_str().as_encoded_bytes();
        let start = name.len().saturating_sub(extension.len());
        name[start..].eq_ignore_ascii_case(extension)
    }

    /// Returns `true` if it is a folder with a name, other than that of a folder, that `is_match`
    /// accepts. Lists the folder.
    ///
    /// # Errors
    /// [`Error::Io`] if the folder cannot be listed.
    pub(crate) fn has_name(&self, is_match: &dyn Fn(&[u8]) -> bool) -> Result<bool> {
        let dir = self.vfs.open_dir(self.path).map_err(Error::at(self.path))?;
        let mut is_found = false;
        let listed = dir.list(&mut |name, file_type| {
            is_found |= file_type != FileType::Dir && is_match(name);
        });
        listed.map_err(Error::at(self.path))?;
        Ok(is_found)
    }

    /// Returns `true` if the path is a folder that contains `name`. With `follows`, a symbolic link
    /// that leads nowhere does not count.
    pub(crate) fn has(&self, name: &str, follows: bool) -> bool {
        let path = self.path.join(name);
        let metadata = || match follows {
            true => self.vfs.metadata(&path),
            false => self.vfs.symlink_metadata(&path),
        };
        self.head.is_none() && metadata().is_ok()
    }
}

/// Returns the file name extension of the compression with whose magic number a file begins, if it
/// is one in which mailboxes can be read.
pub fn compression_of(head: &[u8]) -> Option<&'static str> {
    const MAGIC: [(&[u8], &str); 4] =
        [(b"\x1f\x8b", "gz"), (b"\x28\xb5\x2f\xfd", "zst"), (b"BZh", "bz2"), (b"\xfd7zXZ\0", "xz")];
    MAGIC.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, extension)| *extension)
}

/// Returns the bytes after the NULs that a crash may leave instead of the first message; without
/// any, the mailbox is empty.
pub(crate) fn without_nuls(head: &[u8]) -> &[u8] {
    let nuls = head.iter().take_while(|byte| **byte == 0).count();
    &head[nuls..]
}

fn read_head(vfs: &dyn Vfs, path: &Path) -> std::io::Result<Vec<u8>> {
    let file = vfs.open(path, OpenOptions::READ)?;
    let mut head = vec![0; HEAD_LEN];
    let len = file.read_at(&mut head, 0)?;
    head.truncate(len);
    Ok(head)
}

fn is_dir(vfs: &dyn Vfs, path: &Path) -> Result<bool> {
    match vfs.metadata(path) {
        Ok(metadata) => Ok(metadata.file_type == FileType::Dir),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(false)
        }
        Err(source) => Err(Error::at(path)(source)),
    }
}
