//! Owner, group and permission bits of new files.
//!
//! A file that is made in a mailbox is used by everybody who uses the others: it gets the owner and
//! the group of the file that it replaces, or of the folder, and the permission bits of that file,
//! or those that Dovecot derives from the folder (`mailbox_get_permissions`). Bits that change who
//! somebody is (setuid, setgid, sticky) are never copied.
//!
//! The file is made under a name that is free, without following a link, for its maker alone; it is
//! given away before anything is written into it. Who may not give files away keeps the owner, and
//! gives the group; where that is not allowed either, the group gets no rights, since it would be
//! another one.

use std::io;
use std::path::Path;

use crate::api::{File, Metadata, OpenOptions, Vfs};
use crate::replace::parent_of;

/// Owner, group and permission bits that a new file is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    uid: u32,
    gid: u32,
    mode: u32,
    /// They are those of a file whose owner uses it.
    is_of_file: bool,
}

impl Ownership {
    /// Those of another file.
    pub fn of_file(file: &Metadata) -> Self {
        Self { uid: file.uid, gid: file.gid, mode: file.mode & 0o777, is_of_file: true }
    }

    /// Those of new files in a folder: its owner and group; who may use the folder may use them.
    pub fn in_folder(folder: &Metadata) -> Self {
        let mode = folder.mode & 0o666 | MAKER_MODE;
        Self { uid: folder.uid, gid: folder.gid, mode, is_of_file: false }
    }

    /// Those of the file at `path`, which is to be replaced; if it is missing, of a new file with
    /// these permission bits in its folder.
    ///
    /// # Errors
    /// What the file system says.
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

    /// The permission bits.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// Makes an empty file. Costs a `stat` more than opening it, and a call for what is to be
    /// changed.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`]; [`io::ErrorKind::PermissionDenied`] if the owner of the
    /// file that is to be replaced could not use this one; what the file system says.
    pub fn create(&self, vfs: &dyn Vfs, path: &Path) -> io::Result<Box<dyn File>> {
        let file = vfs.open(path, kept(MAKER_MODE))?;
        give_or_remove(vfs, path, file, |file| self.give(vfs, file))
    }

    /// Gives a file to whom it is to belong.
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
                "the owner of the file that it replaces could not use it",
            ));
        }
        if found.mode & 0o777 != mode {
            // Some file systems have no permission bits; who opens the file is asked anyway.
            may(file.set_mode(mode))?;
        }
        Ok(())
    }

    /// Returns `true` if the group has other rights than everybody.
    fn needs_group(&self) -> bool {
        (self.mode & 0o070) >> 3 != self.mode & 0o007
    }

    /// Returns `true` if the owner may do as somebody else, or as one of the group, what he may do
    /// as the owner.
    fn admits_owner(&self, mode: u32) -> bool {
        let owner = mode >> 6 & 0o6;
        let others = (mode | mode >> 3) & 0o6;
        owner & !others == 0
    }
}

/// Makes an empty file with these permission bits (before umask) that nobody is to read but who
/// may read the file `of`: what the superuser makes belongs to the owner of that, and never to the
/// owner of the folder. Costs one call, for the superuser three.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`]; what the file system says.
pub fn create_for_owner_of(
    vfs: &dyn Vfs,
    of: &Path,
    path: &Path,
    mode: u32,
) -> io::Result<Box<dyn File>> {
    let file = vfs.open(path, kept(mode))?;
    if vfs.user() != 0 {
        return Ok(file);
    }
    give_or_remove(vfs, path, file, |file| {
        let of = vfs.metadata(of)?;
        may(file.set_owner(Some(of.uid), Some(of.gid))).map(drop)
    })
}

/// Makes a file that belongs to its maker.
fn kept(mode: u32) -> OpenOptions {
    OpenOptions { no_follow: true, keep_owner: true, ..OpenOptions::create_new(mode) }
}

/// Gives away a file that was just made.
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

/// Returns `false` if something is not allowed, or cannot be done here. `EINVAL` is what the kernel
/// says of an owner that the user namespace lacks.
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

/// Permission bits that a file is made with.
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
