//! Owner, group and permission bits of new files.
//!
//! A new file in a mailbox must be usable by everybody who can use the other files: it gets owner,
//! group and permission bits of the file that it replaces, or owner and group of the folder and the
//! permission bits that Dovecot derives from the folder (`mailbox_get_permissions`). The setuid,
//! setgid and sticky bits are never copied.
//!
//! The file is created under a free name, without following a link, with access for its creator
//! only, and gets its ownership before anything is written to it. A process that may not change the
//! owner sets the group only; if that is not allowed either, the group gets no permissions, because
//! it would be the wrong group.

use std::io;
use std::path::Path;

use crate::api::{File, Metadata, OpenOptions, Vfs};
use crate::replace::parent_of;

/// Owner, group and permission bits for a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    uid: u32,
    gid: u32,
    mode: u32,
    /// `true` if they are those of an existing file, whose owner must keep access.
    is_of_file: bool,
}

impl Ownership {
    /// Returns the ownership of another file.
    pub fn of_file(file: &Metadata) -> Self {
        Self { uid: file.uid, gid: file.gid, mode: file.mode & 0o777, is_of_file: true }
    }

    /// Returns the ownership of new files in a folder: its owner and group, and read and write
    /// permission for those who have it on the folder.
    pub fn in_folder(folder: &Metadata) -> Self {
        let mode = folder.mode & 0o666 | MAKER_MODE;
        Self { uid: folder.uid, gid: folder.gid, mode, is_of_file: false }
    }

    /// Returns the ownership of the file at `path`, which will be replaced; if it is missing, that
    /// of a new file with permission bits `mode` in its folder.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn replacing(vfs: &dyn Vfs, path: &Path, mode: u32) -> io::Result<Self> {
        match vfs.metadata(path) {
            Ok(old) => Ok(Self::of_file(&old)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let folder = vfs.metadata(parent_of(path))?;
                Ok(Self { mode: mode & 0o777, ..Self::in_folder(&folder) })
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the permission bits.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// Creates an empty file. Costs a `stat` more than opening it, and a call for each attribute
    /// that must be changed.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`]; [`io::ErrorKind::PermissionDenied`] if the owner of the
    /// file that will be replaced could not use the new one; errors of the file system.
    pub fn create(&self, vfs: &dyn Vfs, path: &Path) -> io::Result<Box<dyn File>> {
        let file = vfs.open(path, owned_by_creator(MAKER_MODE))?;
        give_or_remove(vfs, path, file, |file| self.give(vfs, file))
    }

    /// Sets owner, group and permission bits of a new file, as far as permitted.
    fn give(&self, vfs: &dyn Vfs, file: &dyn File) -> io::Result<()> {
        let found = file.metadata()?;
        let (mut uid, mut mode) = (found.uid, self.mode);
        let wants = (found.uid, found.gid) != (self.uid, self.gid);
        if wants && vfs.user() == 0 && may(file.set_owner(Some(self.uid), Some(self.gid)))? {
            uid = self.uid;
        } else if found.gid != self.gid
            && self.needs_group()
            && !may(file.set_owner(None, Some(self.gid)))?
        {
            mode &= !0o070;
        }
        if self.is_of_file && uid != self.uid && !self.admits_owner(mode) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the owner of the replaced file could not use it",
            ));
        }
        if found.mode & 0o777 != mode {
            // An error is ignored: some file systems have no permission bits and check access
            // otherwise.
            may(file.set_mode(mode))?;
        }
        Ok(())
    }

    /// Returns `true` if the permissions of the group differ from those of others.
    fn needs_group(&self) -> bool {
        (self.mode & 0o070) >> 3 != self.mode & 0o007
    }

    /// Returns `true` if a file with `mode` that belongs to another user still gives the owner the
    /// permissions of the owner's mode bits, through the group or as any user.
    fn admits_owner(&self, mode: u32) -> bool {
        let owner = mode >> 6 & 0o6;
        let others = (mode | mode >> 3) & 0o6;
        owner & !others == 0
    }
}

/// Creates an empty file with permission bits `mode` (before umask) that must not be readable by
/// others than the file `of`: if root creates it, it gets owner and group of `of`, not of the
/// folder. Costs one call, for root three.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`]; errors of the file system.
pub fn create_for_owner_of(
    vfs: &dyn Vfs,
    of: &Path,
    path: &Path,
    mode: u32,
) -> io::Result<Box<dyn File>> {
    let file = vfs.open(path, owned_by_creator(mode))?;
    if vfs.user() != 0 {
        return Ok(file);
    }
    give_or_remove(vfs, path, file, |file| {
        let of = vfs.metadata(of)?;
        may(file.set_owner(Some(of.uid), Some(of.gid))).map(drop)
    })
}

/// Returns options for creating a file that belongs to its creator.
fn owned_by_creator(mode: u32) -> OpenOptions {
    OpenOptions { no_follow: true, keep_owner: true, ..OpenOptions::create_new(mode) }
}

/// Calls `give` on a file that was just created, and removes the file if that fails.
fn give_or_remove(
    vfs: &dyn Vfs,
    path: &Path,
    file: Box<dyn File>,
    give: impl FnOnce(&dyn File) -> io::Result<()>,
) -> io::Result<Box<dyn File>> {
    match give(&*file) {
        Ok(()) => Ok(file),
        Err(error) => {
            // The first error is the one to report.
            let _ = vfs.remove_file(path);
            Err(error)
        }
    }
}

/// Converts an error for a call that is not permitted or not supported to `false`. The kernel
/// returns `EINVAL` for an owner that does not exist in the user namespace.
pub(crate) fn may(result: io::Result<()>) -> io::Result<bool> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    match result {
        Ok(()) => Ok(true),
        Err(error) => match error.kind() {
            InvalidInput | PermissionDenied | Unsupported => Ok(false),
            _ => Err(error),
        },
    }
}

/// Permission bits with which files are created.
const MAKER_MODE: u32 = 0o600;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemVfs;

    const OWNER: u32 = 1000;

    /// Replaces a file of `OWNER` with this mode as `user`, and compares the mode of the new one.
    fn check(user: u32, mode: u32, expected: Result<u32, io::ErrorKind>) {
        let vfs = MemVfs::new().as_user(user);
        let path = Path::new("/new");
        let wanted = Ownership { uid: OWNER, gid: 0, mode, is_of_file: true };
        let made = wanted.create(&vfs, path).map_err(|error| error.kind());
        let found = made.map(|file| file.metadata().unwrap());
        assert_eq!(found.map(|found| found.mode), expected, "{mode:o}");
        if let Err(error) = vfs.metadata(path) {
            assert_eq!((error.kind(), expected.is_err()), (io::ErrorKind::NotFound, true));
        }
    }

    #[test]
    fn the_former_owner_keeps_his_access() {
        check(OWNER, 0o600, Ok(0o600));
        check(OWNER, 0o640, Ok(0o640));
        check(1001, 0o660, Ok(0o660));
        check(1001, 0o666, Ok(0o666));
        check(1001, 0o640, Err(io::ErrorKind::PermissionDenied));
        check(1001, 0o600, Err(io::ErrorKind::PermissionDenied));
    }

    #[test]
    fn what_cannot_be_given_away_is_kept() {
        const ENOSYS: i32 = 38;
        for code in [1, 13, 22, ENOSYS, 95] {
            assert!(!may(Err(io::Error::from_raw_os_error(code))).unwrap(), "error {code}");
        }
        for code in [5, 28, 30] {
            assert!(may(Err(io::Error::from_raw_os_error(code))).is_err(), "error {code}");
        }
    }

    #[test]
    fn modes_follow_the_file_or_the_folder() {
        let vfs = MemVfs::new();
        vfs.create_dir(Path::new("/box"), 0o2770).unwrap();
        let folder = vfs.metadata(Path::new("/box")).unwrap();
        assert_eq!(Ownership::in_folder(&folder).mode(), 0o660);
        let path = Path::new("/box/list");
        assert_eq!(Ownership::replacing(&vfs, path, 0o640).unwrap().mode(), 0o640);
        vfs.open(path, OpenOptions::create_new(0o600)).unwrap();
        vfs.set_mode(path, 0o6755).unwrap();
        assert_eq!(Ownership::replacing(&vfs, path, 0o640).unwrap().mode(), 0o755);
    }
}
