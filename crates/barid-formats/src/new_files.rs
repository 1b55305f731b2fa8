//! Options and files of a new mailbox.

use std::io::ErrorKind;
use std::path::Path;

use barid_mailbox::{Error, Result};
use barid_types::{Uid, UidValidity};
use barid_vfs::{OpenOptions, Vfs};

/// Options of a new mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateOptions {
    /// Its UIDVALIDITY; if `None`, the format chooses one.
    pub uidvalidity: Option<UidValidity>,
    /// UID of its first message if that brings none of its own; 1 if `None`. Used only together
    /// with a UIDVALIDITY.
    pub uidnext: Option<Uid>,
    /// Permission bits of files, before umask. A folder can be entered by everybody who may read or
    /// write its files.
    pub mode: u32,
}

impl Default for CreateOptions {
    /// Permits access to the owner alone.
    fn default() -> Self {
        Self { uidvalidity: None, uidnext: None, mode: 0o600 }
    }
}

impl CreateOptions {
    /// Returns the last UID that counts as given out.
    pub(crate) fn uid_last(&self) -> u32 {
        self.uidnext.filter(|_| self.uidvalidity.is_some()).map_or(0, |uid| uid.get() - 1)
    }

    /// Returns the permission bits of folders.
    pub(crate) fn dir_mode(&self) -> u32 {
        self.mode & 0o666 | (self.mode | self.mode << 1) >> 2 & 0o111
    }
}

/// Returns the error for a path that exists.
pub(crate) fn already_exists(path: &Path) -> Error {
    Error::at(path)(ErrorKind::AlreadyExists.into())
}

/// Makes a new file, durably: after a crash it is complete or missing. Where the file system has no
/// links, a crash may leave a part of it.
pub(crate) fn make_file(vfs: &dyn Vfs, path: &Path, mode: u32, bytes: &[u8]) -> Result<()> {
    let made = match bytes.is_empty() {
        true => vfs.open(path, OpenOptions::create_new(mode)).map(drop),
        false => link_file(vfs, path, mode, bytes),
    };
    made.and_then(|()| vfs.sync_dir(parent_of(path))).map_err(Error::at(path))
}

fn link_file(vfs: &dyn Vfs, path: &Path, mode: u32, bytes: &[u8]) -> std::io::Result<()> {
    let mut random = [0; 8];
    vfs.random(&mut random)?;
    let name = format!(".barid-{:016x}.tmp", u64::from_le_bytes(random));
    let beside = path.with_file_name(name);
    let write = |path: &Path| {
        let file = vfs.open(path, OpenOptions::create_new(mode))?;
        file.write_all_at(bytes, 0)?;
        file.sync_all()
    };
    let linked = write(&beside).and_then(|()| vfs.hard_link(&beside, path));
    let _ = vfs.remove_file(&beside);
    match linked {
        Err(error)
            if error.kind() == ErrorKind::Unsupported
                || matches!(error.raw_os_error(), Some(EPERM | EOPNOTSUPP)) =>
        {
            write(path)
        }
        linked => linked,
    }
}

/// Error number of Linux for links on file systems that have none.
const EPERM: i32 = 1;
const EOPNOTSUPP: i32 = 95;

/// Returns the folder that contains `path`.
pub(crate) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => path,
    }
}
