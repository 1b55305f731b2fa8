//! Owners, groups and permission bits of new files, on the real file system, for the superuser and
//! for another user.
#![expect(clippy::disallowed_methods, reason = "owners are set and looked at from outside")]

use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};

use barid_vfs::{OpenOptions, Ownership, create_for_owner_of};
use rustix::fs::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::*;

/// The user and group that own the replaced files.
const OWNER: u32 = 54_321;
/// Another user, and the group of that user.
const USER: u32 = 54_322;
/// Another group to which that user belongs.
const SHARED: u32 = 54_323;
/// A group to which that user does not belong.
const FOREIGN: u32 = 54_324;

/// Owner, group and all mode bits of a file.
type Rights = (u32, u32, u32);

/// A folder that everybody may write.
struct Folder(PathBuf);

impl Folder {
    /// Returns `None` if this is not the superuser, who alone can become another user.
    #[expect(clippy::print_stdout, reason = "who runs the tests sees what is skipped")]
    fn new(name: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var_os("CI").is_none(), "owners of files need the superuser");
            println!("skipped: owners of files: only the superuser can give files away");
            return None;
        }
        let path = std::env::temp_dir().join(format!("barid-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        let folder = Self(path);
        folder.set("", (0, 0, 0o777));
        Some(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn set(&self, name: &str, (uid, gid, mode): Rights) {
        chown(self.path(name), Some(uid), Some(gid)).unwrap();
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Has `user` replace a file of these rights, and returns those of the new one.
    fn replace(&self, user: u32, old: Rights) -> io::Result<Rights> {
        std::fs::write(self.path("old"), "old").unwrap();
        self.set("old", old);
        let made = self.create(user, "old", "new");
        let found = std::fs::symlink_metadata(self.path("new"));
        assert_eq!(made.is_ok(), found.is_ok(), "what is refused leaves no file");
        std::fs::remove_file(self.path("old")).unwrap();
        made?;
        std::fs::remove_file(self.path("new")).unwrap();
        found.map(|found| (found.uid(), found.gid(), found.mode() & 0o7777))
    }

    /// Has `user` make a file that is to take the place of another.
    fn create(&self, user: u32, old: &str, new: &str) -> io::Result<()> {
        let (old, new) = (self.path(old), self.path(new));
        let create =
            move || Ownership::replacing(&OsVfs, &old, 0o600)?.create(&OsVfs, &new).map(drop);
        std::thread::spawn(move || {
            become_user(user);
            create()
        })
        .join()
        .unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Makes this thread, and no other, run as a user.
fn become_user(user: u32) {
    if user == 0 {
        return;
    }
    set_thread_groups(&[Gid::from_raw(SHARED)]).unwrap();
    let gid = Gid::from_raw(user);
    set_thread_res_gid(gid, gid, gid).unwrap();
    let uid = Uid::from_raw(user);
    set_thread_res_uid(uid, uid, uid).unwrap();
}

#[test]
fn the_superuser_gives_files_to_their_owner() {
    let Some(folder) = Folder::new("owners-root") else { return };
    for (mode, expected) in [(0o600, 0o600), (0o640, 0o640), (0o6755, 0o755), (0o1666, 0o666)] {
        let made = folder.replace(0, (OWNER, FOREIGN, mode)).unwrap();
        assert_eq!(made, (OWNER, FOREIGN, expected), "{mode:o}");
    }
}

#[test]
fn somebody_gives_files_to_groups_that_he_is_in() {
    let Some(folder) = Folder::new("owners-group") else { return };
    let check = |old: Rights, expected: Result<Rights, io::ErrorKind>| {
        let made = folder.replace(USER, old).map_err(|error| error.kind());
        assert_eq!(made, expected, "{old:?}");
    };
    check((USER, USER, 0o600), Ok((USER, USER, 0o600)));
    check((USER, SHARED, 0o660), Ok((USER, SHARED, 0o660)));
    check((USER, SHARED, 0o6770), Ok((USER, SHARED, 0o770)));
    // In another group, the mode loses the permissions of the group, unless everybody has them.
    check((USER, FOREIGN, 0o660), Ok((USER, USER, 0o600)));
    check((USER, FOREIGN, 0o664), Ok((USER, USER, 0o604)));
    check((USER, FOREIGN, 0o2644), Ok((USER, USER, 0o644)));
    check((USER, FOREIGN, 0o666), Ok((USER, USER, 0o666)));
    // The owner of a file that is replaced must be able to use the new one.
    check((OWNER, SHARED, 0o660), Ok((USER, SHARED, 0o660)));
    check((OWNER, SHARED, 0o644), Err(io::ErrorKind::PermissionDenied));
    check((OWNER, FOREIGN, 0o666), Ok((USER, USER, 0o666)));
    check((OWNER, FOREIGN, 0o660), Err(io::ErrorKind::PermissionDenied));
}

#[test]
fn a_new_file_follows_its_folder_and_no_link() {
    let Some(folder) = Folder::new("owners-folder") else { return };
    for (user, group, mode, expected) in [
        (USER, SHARED, 0o770, (USER, SHARED, 0o600)),
        (USER, SHARED, 0o2770, (USER, SHARED, 0o600)),
        (USER, FOREIGN, 0o700, (USER, USER, 0o600)),
        (0, FOREIGN, 0o770, (OWNER, FOREIGN, 0o600)),
    ] {
        std::fs::create_dir(folder.path("box")).unwrap();
        folder.set("box", (if user == 0 { OWNER } else { USER }, group, mode));
        folder.create(user, "box/missing", "box/new").unwrap();
        let found = std::fs::metadata(folder.path("box/new")).unwrap();
        let found = (found.uid(), found.gid(), found.mode() & 0o7777);
        // A group without permissions of its own is not worth a call.
        let expected = if mode == 0o770 && user != 0 { (USER, USER, 0o600) } else { expected };
        assert_eq!(found, expected, "{user} {group} {mode:o}");
        std::fs::remove_dir_all(folder.path("box")).unwrap();
    }
    std::fs::write(folder.path("theirs"), "theirs").unwrap();
    folder.set("theirs", (OWNER, OWNER, 0o666));
    for user in [0, USER] {
        for target in ["theirs", "missing"] {
            symlink(folder.path(target), folder.path("link")).unwrap();
            let made = folder.create(user, "theirs", "link").map_err(|error| error.kind());
            assert_eq!(made, Err(io::ErrorKind::AlreadyExists), "{user} {target}");
            assert!(!folder.path("missing").exists());
            let found = std::fs::metadata(folder.path("theirs")).unwrap();
            assert_eq!((found.uid(), found.len(), found.mode() & 0o777), (OWNER, 6, 0o666));
            std::fs::remove_file(folder.path("link")).unwrap();
        }
    }
}

#[test]
fn what_holds_mail_of_a_file_belongs_to_its_owner_and_not_to_that_of_the_folder() {
    let Some(folder) = Folder::new("owners-private") else { return };
    std::fs::create_dir(folder.path("spool")).unwrap();
    folder.set("spool", (USER, SHARED, 0o777));
    std::fs::write(folder.path("spool/box"), "mail").unwrap();
    let (of, path) = (folder.path("spool/box"), folder.path("spool/journal"));
    for (mailbox, owner) in [((OWNER, FOREIGN, 0o600), OWNER), ((0, 0, 0o600), 0)] {
        folder.set("spool/box", mailbox);
        let file = create_for_owner_of(&OsVfs, &of, &path, 0o600).unwrap();
        assert_eq!(file.metadata().unwrap().uid, owner);
        let again = create_for_owner_of(&OsVfs, &of, &path, 0o600).map_err(|error| error.kind());
        assert_eq!(again.err(), Some(io::ErrorKind::AlreadyExists));
        std::fs::remove_file(&path).unwrap();
    }
    // Anything else is given to the owner of the folder.
    OsVfs.open(&path, OpenOptions::create_new(0o600)).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().uid(), USER);
    // Without the file there is no user to give it to.
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(&of).unwrap();
    assert!(create_for_owner_of(&OsVfs, &of, &path, 0o600).is_err() && !path.exists());
}
