//! The folders of a user, opened for the Landlock rules of the user's process.
//!
//! A compromised process can write in the folders of its user, and so replace a folder in them with
//! a link to one of another user. The next process of the user must not get access there: users may
//! have one uid, so that only the rules of Landlock separate them.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use barid::vfs::{OsVfs, Vfs as _};
use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::config::ServerConfig;
use crate::limits::FOLDER_LINKS_MAX;
use crate::mail::UserOptions;

/// The folders that a process of a user may write.
#[derive(Debug)]
pub(super) struct UserFolders {
    writable: Vec<PathBuf>,
    /// Folders that the configuration names for all users; links to them are the administrator's.
    named: Vec<PathBuf>,
}

/// The treatment of a folder that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// It is created with its parents.
    Create,
    /// It is an error.
    Fail,
}

impl UserFolders {
    pub(super) fn new(config: &ServerConfig, options: &UserOptions) -> Self {
        let mut writable = vec![options.folders.root.clone(), options.open.state_dir.clone()];
        writable.extend(options.open.cache_dir.clone());
        // Locks are made beside an mbox.
        let inbox = options.folders.inbox.as_ref();
        writable.extend(inbox.and_then(|inbox| Some(inbox.path.parent()?.to_owned())));
        Self { writable, named: config.named_folders() }
    }

    /// Opens the folders of the mail of the user, which are created if they are missing.
    ///
    /// # Errors
    /// A link that the user may have placed; errors of the system; all with the path.
    pub(super) fn open_all(&self) -> io::Result<Vec<OwnedFd>> {
        self.writable.iter().map(|path| self.open(path, Missing::Create)).collect()
    }

    /// Opens a folder, for use in rules only.
    ///
    /// # Errors
    /// As [`UserFolders::open_all`].
    pub(super) fn open(&self, path: &Path, missing: Missing) -> io::Result<OwnedFd> {
        open_below(path, self.named_part(path), missing)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    }

    /// Returns the part of a path that the configuration names, as far as no process of a user can
    /// replace it.
    fn named_part<'p>(&self, path: &'p Path) -> &'p Path {
        let depth = |path: &Path| path.components().count();
        let named = self.named.iter().filter(|named| path.starts_with(named));
        let named = named.map(|one| depth(one)).max().unwrap_or(0);
        let above = self.writable.iter().filter(|one| path.starts_with(one) && *one != path);
        let above = above.map(|one| depth(one)).min();
        let depth_max = named.min(above.unwrap_or(usize::MAX));
        let part = path.ancestors().find(|part| depth(part) <= depth_max);
        part.unwrap_or(Path::new("/"))
    }
}

/// Opens a folder below another one. Links in the path of `base` are followed; others only if no
/// process of this uid can have placed them.
fn open_below(path: &Path, base: &Path, missing: Missing) -> io::Result<OwnedFd> {
    if missing == Missing::Create {
        OsVfs.create_dir_all(base, 0o700)?;
    }
    let mut dir = rustix::fs::open(base, FOLDER, Mode::empty())?;
    let mut left = names(path.strip_prefix(base).unwrap_or(path));
    let mut links = 0;
    while let Some(name) = left.pop() {
        match step(&dir, &name, missing)? {
            Step::Folder(folder) => dir = folder,
            Step::Link(target) => {
                links += 1;
                if links > FOLDER_LINKS_MAX {
                    return Err(Errno::LOOP.into());
                }
                if target.is_absolute() {
                    dir = rustix::fs::open("/", FOLDER, Mode::empty())?;
                }
                left.extend(names(&target));
            }
        }
    }
    Ok(dir)
}

/// Flags of a descriptor that refers to a folder; `DIRECTORY` also triggers an automount.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Flags of a descriptor that refers to any file, also to a link.
const ANYTHING: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Returns the names in a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let name = |component: Component<'_>| match component {
        Component::Normal(_) | Component::ParentDir => Some(component.as_os_str().to_owned()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(name).collect()
}

/// The file behind a name.
enum Step {
    Folder(OwnedFd),
    /// The target of a link that may be followed.
    Link(PathBuf),
}

fn step(dir: &OwnedFd, name: &OsString, missing: Missing) -> io::Result<Step> {
    let open = |flags: OFlags| rustix::fs::openat(dir, name, flags, Mode::empty());
    let folder = || open(FOLDER | OFlags::NOFOLLOW);
    let opened = match folder() {
        Err(Errno::NOENT) if missing == Missing::Create => {
            match rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(0o700)) {
                Ok(()) | Err(Errno::EXIST) => folder(),
                Err(error) => Err(error),
            }
        }
        opened => opened,
    };
    match opened {
        Err(Errno::NOTDIR | Errno::LOOP) => {}
        opened => return Ok(Step::Folder(opened?)),
    }
    let link = open(ANYTHING)?;
    let stat = rustix::fs::fstat(&link)?;
    if !FileType::from_raw_mode(stat.st_mode).is_symlink() {
        return Err(Errno::NOTDIR.into());
    }
    if !is_of_administrator(&stat, dir)? {
        let name = name.display();
        return Err(io::Error::other(format!(
            "the link {name} is not followed, because the user may have made it: name the folder \
             to which it leads in the configuration, or let root own the link (chown -h root)"
        )));
    }
    let target = rustix::fs::readlinkat(&link, "", Vec::new())?;
    let target: OsString = std::os::unix::ffi::OsStringExt::from_vec(target.into_bytes());
    Ok(Step::Link(target.into()))
}

/// Returns `true` if no process of this uid can have placed a link in a folder: the link is root's,
/// or the folder cannot be written.
fn is_of_administrator(link: &Stat, dir: &OwnedFd) -> io::Result<bool> {
    let is_own = rustix::fs::fstat(dir)?.st_uid == rustix::process::geteuid().as_raw();
    let can_write = || rustix::fs::accessat(dir, ".", Access::WRITE_OK, AtFlags::empty()).is_ok();
    Ok(link.st_uid == 0 || !is_own && !can_write())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(writable: &[&str], named: &[&str], path: &str, expected: &str) {
        let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect();
        let folders = UserFolders { writable: paths(writable), named: paths(named) };
        assert_eq!(folders.named_part(Path::new(path)), Path::new(expected), "{path}");
    }

    #[test]
    fn only_what_the_configuration_names_may_be_a_link_of_anybody() {
        check(&["/srv/m/ann"], &["/srv/m"], "/srv/m/ann", "/srv/m");
        check(&["/srv/m/ann"], &["/srv/m", "/srv"], "/srv/m/ann", "/srv/m");
        check(&["/srv/mail"], &["/srv/m"], "/srv/mail", "/");
        check(&["/srv/m/ann"], &["/srv//////m"], "/srv/m/ann", "/srv/m");
        check(&["/home/ann"], &[], "/home/ann", "/");
        // A folder of all users that each of them can write.
        check(&["/srv/m"], &["/srv/m"], "/srv/m", "/srv/m");
        check(&["/srv/m", "/srv/m/s/ann"], &["/srv/m/s"], "/srv/m/s/ann", "/srv/m");
    }
}
