//! Search for files that were renamed since they were listed.

use super::Dirs;
use super::layout::RELISTS_MAX;
use super::table::{Index, NameRange, Names};
use barid_mailbox::{Error, Result};

/// Number of consecutive listings without a change after which a missing name counts as removed.
/// One is not enough: a change within a tick of the clock does not show in the times.
const QUIET_LISTS: u32 = 2;
/// Number of listings in search of one name while the directories change.
const LISTS_FOR_ONE: u32 = 4;

/// The directories, listed once more while messages are read.
#[derive(Debug, Default)]
pub(super) struct Relisted {
    lists: u32,
    /// Number of listings in a row during which nothing changed.
    quiet: u32,
    names: Names,
    entries: Vec<(NameRange, bool)>,
    index: Index,
}

impl Relisted {
    /// Searches for the file that was named `stale` a moment ago; returns its name now, and `true`
    /// if it is in `new`. Lists the directories if no earlier listing has the answer, and again
    /// while they change: a rename may hide a name from a listing in progress.
    pub(super) fn find_renamed(
        &mut self,
        dirs: &Dirs,
        hash: u64,
        base: &[u8],
        stale: &[u8],
    ) -> Result<Option<(Vec<u8>, bool)>> {
        let mut found = self.find(hash, base);
        if found.as_ref().is_some_and(|(name, _)| name == stale) {
            // It was renamed since the last listing.
            (found, self.quiet) = (None, 0);
        }
        for _ in 0..LISTS_FOR_ONE {
            if found.is_some() || self.quiet >= QUIET_LISTS || self.lists == RELISTS_MAX {
                break;
            }
            self.list(dirs)?;
            found = self.find(hash, base);
        }
        Ok(found)
    }

    fn list(&mut self, dirs: &Dirs) -> Result<()> {
        let before = dirs.stamps()?;
        *self = Self { lists: self.lists + 1, quiet: self.quiet, ..Self::default() };
        for (at, in_new) in [(0, true), (1, false)] {
            let listed = dirs.handles[at].list(&mut |name, _| {
                if let Some(name) = self.names.add(name) {
                    let entries = &self.entries;
                    let thing = entries.len() as u32;
                    self.index.insert(name.hash, thing, |at| entries[at as usize].0.hash);
                    self.entries.push((name, in_new));
                }
            });
            listed.map_err(Error::at(&dirs.paths[at]))?;
        }
        self.quiet = if before == dirs.stamps()? { self.quiet + 1 } else { 0 };
        Ok(())
    }

    fn find(&self, hash: u64, base: &[u8]) -> Option<(Vec<u8>, bool)> {
        let found = self.index.find(hash, |at| {
            let name = self.entries[at as usize].0;
            name.hash == hash && self.names.base(name) == base
        })?;
        let (name, in_new) = self.entries[found as usize];
        Some((self.names.get(name).to_vec(), in_new))
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use barid_vfs::{Dir, File, FileType, Host as _, MemVfs, Metadata, OpenOptions, Vfs};

    use super::*;
    use crate::maildir::Maildir;
    use crate::maildir::name::{base, base_hash};

    /// A directory in which a rename hides all names from the first listings.
    #[derive(Debug)]
    struct Hiding {
        dir: Box<dyn Dir>,
        vfs: MemVfs,
        hidden: AtomicU32,
    }

    impl Dir for Hiding {
        fn list(&self, visit: &mut dyn FnMut(&[u8], FileType)) -> io::Result<()> {
            let left = self.hidden.load(Ordering::Relaxed);
            if left == 0 {
                return self.dir.list(visit);
            }
            self.hidden.store(left - 1, Ordering::Relaxed);
            self.vfs.sleep(std::time::Duration::from_millis(20));
            let name = format!("/box/cur/{left}.other:2,");
            self.vfs.open(Path::new(&name), OpenOptions::create_new(0o600)).map(drop)
        }

        fn open(&self, name: &[u8], options: OpenOptions) -> io::Result<Box<dyn File>> {
            self.dir.open(name, options)
        }

        fn read_head(&self, name: &[u8], buffer: &mut [u8]) -> io::Result<(Metadata, usize)> {
            self.dir.read_head(name, buffer)
        }

        fn metadata(&self, name: &[u8]) -> io::Result<Metadata> {
            self.dir.metadata(name)
        }

        fn syncs_file_system(&self) -> io::Result<bool> {
            self.dir.syncs_file_system()
        }

        fn sync_file_system(&self) -> io::Result<()> {
            self.dir.sync_file_system()
        }
    }

    /// Searches for a message that was renamed and is not in the first listings; returns its name,
    /// and the number of listings.
    fn search(hidden: u32, exists: bool) -> (Option<Vec<u8>>, u32) {
        let vfs = MemVfs::new();
        for folder in ["/box/new", "/box/cur"] {
            vfs.create_dir_all(Path::new(folder), 0o700).unwrap();
        }
        if exists {
            let path = Path::new("/box/cur/1.here:2,S");
            vfs.open(path, OpenOptions::create_new(0o600)).unwrap();
        }
        let maildir = Maildir::new(Arc::new(vfs.clone()), "/box".into());
        let mut dirs = maildir.open_dirs().unwrap();
        let dir = vfs.open_dir(Path::new("/box/cur")).unwrap();
        dirs.handles[1] = Box::new(Hiding { dir, vfs, hidden: hidden.into() });
        let stale = b"1.here:2,";
        let mut relisted = Relisted::default();
        let hash = base_hash(base(stale));
        let found = relisted.find_renamed(&dirs, hash, base(stale), stale).unwrap();
        (found.map(|(name, _)| name), relisted.lists)
    }

    #[test]
    fn renames_hide_no_name_for_ever() {
        for hidden in 0..LISTS_FOR_ONE {
            let found = search(hidden, true);
            assert_eq!(found, (Some(b"1.here:2,S".to_vec()), hidden + 1));
        }
    }

    #[test]
    fn what_is_renamed_after_quiet_listings_is_found() {
        let vfs = MemVfs::new();
        for folder in ["/box/new", "/box/cur"] {
            vfs.create_dir_all(Path::new(folder), 0o700).unwrap();
        }
        let old = Path::new("/box/cur/1.here:2,");
        vfs.open(old, OpenOptions::create_new(0o600)).unwrap();
        let maildir = Maildir::new(Arc::new(vfs.clone()), "/box".into());
        let dirs = maildir.open_dirs().unwrap();
        let mut relisted = Relisted::default();
        let mut search = |stale: &[u8]| {
            let found = relisted.find_renamed(&dirs, base_hash(base(stale)), base(stale), stale);
            found.unwrap().map(|(name, _)| name)
        };
        assert_eq!(search(b"2.gone:2,"), None);
        vfs.rename(old, Path::new("/box/cur/1.here:2,S")).unwrap();
        assert_eq!(search(b"1.here:2,"), Some(b"1.here:2,S".to_vec()));
    }

    #[test]
    fn a_message_that_is_gone_is_soon_known_to_be() {
        assert_eq!(search(0, false), (None, QUIET_LISTS));
        assert_eq!(search(2, false), (None, 2 + QUIET_LISTS));
    }
}
