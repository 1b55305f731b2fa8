//! Folders that root creates for processes of other users, below its own.

use std::io;
use std::path::Path;

use barid::vfs::Vfs;
use rustix::fs::{Gid, Mode, OFlags, Uid};

use crate::config::{ServerConfig, ServerSettings, shared_by_users};

/// Creates the folders of virtual users, whose processes cannot create them where root owns the
/// parent. Does nothing unless `own`, the uid of this process, is that of root.
///
/// # Errors
/// A [`MailOwner`](crate::config::MailOwner) that does not exist; errors of the file system.
pub fn create_user_folders(vfs: &dyn Vfs, config: &ServerConfig, own: u32) -> io::Result<()> {
    let Some(owner) = config.mail.owner.as_ref().filter(|_| own == 0) else { return Ok(()) };
    let ids = owner.ids()?;
    let ServerSettings { state_dir, cache_dir, .. } = &config.server;
    for (dir, is_set) in
        [(state_dir, config.mail.state_dir.is_some()), (cache_dir, config.mail.cache_dir.is_some())]
    {
        if !is_set {
            create_private(vfs, &shared_by_users(dir), Some(ids))?;
        }
    }
    Ok(())
}

/// Creates a folder that only its owner can use, unless it exists.
///
/// # Errors
/// Errors of the file system.
pub(crate) fn create_private(
    vfs: &dyn Vfs,
    path: &Path,
    owner: Option<(u32, u32)>,
) -> io::Result<()> {
    if vfs.metadata(path).is_ok() {
        return Ok(());
    }
    let at =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    vfs.create_dir_all(path.parent().unwrap_or(path), 0o755).map_err(at)?;
    vfs.create_dir(path, 0o700).map_err(at)?;
    let Some((uid, gid)) = owner else { return Ok(()) };
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    // Not by its path, which somebody may have replaced by a link.
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(path, flags, Mode::empty());
    let given = dir.and_then(|dir| rustix::fs::fchown(dir, Some(uid), Some(gid)));
    given.map_err(|error| at(error.into()))
}
