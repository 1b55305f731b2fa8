//! The dotlock of `dovecot-uidlist`.
//!
//! Created exclusively; holds the process id and host, as Dovecot's does. One that has not been
//! touched for two minutes is broken.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use barid_vfs::{OpenOptions, Vfs};

use super::layout::{LOCK_STALE_NANOS, LOCK_TIMEOUT_MS};
use crate::{Error, Result};

/// A dotlock that is held; dropping it removes the file.
#[derive(Debug)]
pub(super) struct Dotlock<'a> {
    vfs: &'a dyn Vfs,
    path: PathBuf,
    inode: u64,
}

impl<'a> Dotlock<'a> {
    /// Takes the lock; waits for [`LOCK_TIMEOUT_MS`] at most. What else but its being taken keeps
    /// it from being created is [`Error::Io`].
    pub(super) fn take(vfs: &'a dyn Vfs, path: &Path) -> Result<Self> {
        let mut waited_ms = 0;
        let mut pause_ms = 1;
        loop {
            match create(vfs, path) {
                Ok(inode) => return Ok(Self { vfs, path: path.to_owned(), inode }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(source) => return Err(Error::at(path)(source)),
            }
            if break_stale(vfs, path) {
                continue;
            }
            if waited_ms >= LOCK_TIMEOUT_MS {
                return Err(Error::Locked {
                    path: path.to_owned(),
                    holder: holder(vfs, path),
                    waited_ms,
                });
            }
            vfs.sleep(Duration::from_millis(pause_ms));
            waited_ms += pause_ms;
            pause_ms = (pause_ms * 2).min(50);
        }
    }
}

impl Drop for Dotlock<'_> {
    fn drop(&mut self) {
        // Whoever broke our lock may hold it now: then it is not ours to remove.
        if self.vfs.symlink_metadata(&self.path).is_ok_and(|m| m.inode == self.inode) {
            let _ = self.vfs.remove_file(&self.path);
        }
    }
}

fn create(vfs: &dyn Vfs, path: &Path) -> std::io::Result<u64> {
    let file = vfs.open(path, OpenOptions::create_new(0o600))?;
    let process = vfs.process();
    // The text only tells people who holds it.
    let _ = file.write_all_at(format!("{}:{}", process.pid, process.host).as_bytes(), 0);
    Ok(file.metadata()?.inode)
}

/// Removes a lock that nobody has touched for too long.
fn break_stale(vfs: &dyn Vfs, path: &Path) -> bool {
    let Ok(metadata) = vfs.symlink_metadata(path) else {
        return false;
    };
    let touched = metadata.modified.max(metadata.changed).unix_nanos;
    let stale = vfs.now().unix_nanos.saturating_sub(touched) > LOCK_STALE_NANOS;
    stale
        && vfs.symlink_metadata(path).is_ok_and(|again| again.inode == metadata.inode)
        && vfs.remove_file(path).is_ok()
}

fn holder(vfs: &dyn Vfs, path: &Path) -> String {
    match vfs.read(path, 1024) {
        Ok(text) if !text.is_empty() => String::from_utf8_lossy(&text).escape_debug().to_string(),
        _ => "another program".to_owned(),
    }
}
