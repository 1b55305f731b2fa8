//! Search for files that were renamed since they were listed.
//!
//! A rename may hide a name from a listing in progress. So a message is gone only after a listing
//! without it during which nothing changed. While the directories keep changing, a message that
//! none of many listings shows is neither found nor gone.

use std::collections::HashMap;
use std::time::Duration;

use barid_mailbox::{Error, Result};

use super::Dirs;
use super::layout::{PASSES_MAX, PASSES_UNDER_CHANGE, RELISTS_MAX};
use super::name;
use super::table::{Index, NameRange, Names};
use crate::file_stamps::ListingProof;

/// Result of a search for a file under another name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RenameSearch {
    /// The name it has now, and `true` if it is in `new`.
    Renamed(Vec<u8>, bool),
    /// It was removed.
    Gone,
    /// It was not seen, but the directories keep changing: it may be there.
    Unsure,
}

/// The directories, listed once more while messages are read.
#[derive(Debug, Default)]
pub(super) struct Relisted {
    /// Number of listings.
    lists: u32,
    /// Number of the last listing that showed every message; 0 if there was none.
    whole: u32,
    /// Number of listings in a row during which nothing seemed to change, though the clock of the
    /// file system is too coarse to wait for its next tick.
    quiet: u32,
    /// Time until the next listing may prove more than the last one did.
    pause: Duration,
    /// Number of the last listing that showed a message, by the hash of its base name.
    last_seen: HashMap<u64, u32>,
    /// The names of the last listing.
    names: Names,
    entries: Vec<(NameRange, bool)>,
    index: Index,
}

impl Relisted {
    /// Searches for the file that was named `stale` a moment ago. Lists the directories if no
    /// earlier listing has the answer, and again while they change.
    ///
    /// # Errors
    /// [`Error::Changed`] after [`RELISTS_MAX`] listings.
    pub(super) fn find_renamed(
        &mut self,
        dirs: &Dirs,
        hash: u64,
        base: &[u8],
        stale: &[u8],
    ) -> Result<RenameSearch> {
        let mut is_new = false;
        loop {
            match self.find(hash, base) {
                Some((name, in_new)) if is_new || name != stale => {
                    return Ok(RenameSearch::Renamed(name.to_vec(), in_new));
                }
                // It was renamed since the last listing.
                Some(_) => {}
                None => {
                    let last_seen = self.last_seen.get(&hash).copied().unwrap_or(0);
                    let misses = self.lists - last_seen;
                    if last_seen < self.whole || misses.min(self.quiet) >= PASSES_UNDER_CHANGE {
                        return Ok(RenameSearch::Gone);
                    }
                    if misses >= PASSES_MAX {
                        return Ok(RenameSearch::Unsure);
                    }
                }
            }
            if self.lists == RELISTS_MAX {
                return Err(Error::Changed { path: dirs.paths[1].clone() });
            }
            self.list(dirs)?;
            is_new = true;
        }
    }

    fn list(&mut self, dirs: &Dirs) -> Result<()> {
        dirs.vfs.sleep(std::mem::take(&mut self.pause));
        let before = dirs.file_stamps()?;
        self.lists += 1;
        self.names = Names::default();
        self.entries.clear();
        self.index = Index::default();
        let mut is_cut = false;
        for (at, in_new) in [(0, true), (1, false)] {
            let listed = dirs.handles[at].list(&mut |name, _| is_cut |= !self.see(name, in_new));
            listed.map_err(Error::at(&dirs.paths[at]))?;
        }
        let proof = match ListingProof::of(&before, &dirs.file_stamps()?) {
            _ if is_cut => ListingProof::Disturbed,
            proof => proof,
        };
        self.quiet = if proof == ListingProof::Racy(None) { self.quiet + 1 } else { 0 };
        match proof {
            ListingProof::Whole => self.whole = self.lists,
            ListingProof::Racy(pause) => self.pause = pause.unwrap_or_default(),
            ListingProof::Disturbed => {}
        }
        Ok(())
    }

    /// Records a directory entry; returns `false` if there is no room for its name.
    fn see(&mut self, name: &[u8], in_new: bool) -> bool {
        let base = name::base(name);
        let hash = name::base_hash(base);
        let known = self.position(hash, base);
        let Some(name) = self.names.add(name) else { return false };
        // Of two names of a file, the one that is listed later is the newer.
        if let Some(at) = known {
            self.entries[at as usize] = (name, in_new);
            return true;
        }
        let (entries, at) = (&self.entries, self.entries.len() as u32);
        self.index.insert(hash, at, |at| entries[at as usize].0.hash);
        self.entries.push((name, in_new));
        self.last_seen.insert(hash, self.lists);
        true
    }

    fn find(&self, hash: u64, base: &[u8]) -> Option<(&[u8], bool)> {
        let (name, in_new) = self.entries[self.position(hash, base)? as usize];
        Some((self.names.get(name), in_new))
    }

    fn position(&self, hash: u64, base: &[u8]) -> Option<u32> {
        self.index.find(hash, |at| {
            let name = self.entries[at as usize].0;
            name.hash == hash && self.names.base(name) == base
        })
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
        /// Time from one listing to the next.
        pause: Duration,
    }

    impl Dir for Hiding {
        fn list(&self, visit: &mut dyn FnMut(&[u8], FileType)) -> io::Result<()> {
            let left = self.hidden.load(Ordering::Relaxed);
            if left == 0 {
                return self.dir.list(visit);
            }
            self.hidden.store(left - 1, Ordering::Relaxed);
            self.vfs.sleep(self.pause);
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

    /// Returns an empty Maildir with the file that is there, if there is one.
    fn maildir(file: Option<&str>) -> (MemVfs, Dirs) {
        let vfs = MemVfs::new();
        for folder in ["/box/new", "/box/cur"] {
            vfs.create_dir_all(Path::new(folder), 0o700).unwrap();
        }
        if let Some(file) = file {
            vfs.open(Path::new(file), OpenOptions::create_new(0o600)).unwrap();
        }
        let dirs = Maildir::new(Arc::new(vfs.clone()), "/box".into()).open_dirs().unwrap();
        (vfs, dirs)
    }

    fn hide(vfs: &MemVfs, dirs: &mut Dirs, listings: u32, pause: Duration) {
        let dir = vfs.open_dir(Path::new("/box/cur")).unwrap();
        let hidden = listings.into();
        dirs.handles[1] = Box::new(Hiding { dir, vfs: vfs.clone(), hidden, pause });
    }

    fn search(relisted: &mut Relisted, dirs: &Dirs, stale: &[u8]) -> RenameSearch {
        relisted.find_renamed(dirs, base_hash(base(stale)), base(stale), stale).unwrap()
    }

    /// Searches for a message that was renamed and is not in the first listings; returns the result
    /// and the number of listings.
    fn search_hidden(hidden: u32, exists: bool) -> (RenameSearch, u32) {
        let (vfs, mut dirs) = maildir(exists.then_some("/box/cur/1.here:2,S"));
        hide(&vfs, &mut dirs, hidden, Duration::from_millis(20));
        let mut relisted = Relisted::default();
        let found = search(&mut relisted, &dirs, b"1.here:2,");
        (found, relisted.lists)
    }

    fn here() -> RenameSearch {
        RenameSearch::Renamed(b"1.here:2,S".to_vec(), false)
    }

    #[test]
    fn renames_hide_no_name_for_ever() {
        for hidden in 0..PASSES_MAX {
            assert_eq!(search_hidden(hidden, true), (here(), hidden + 1));
        }
    }

    #[test]
    fn while_the_directories_change_nothing_is_gone() {
        for exists in [true, false] {
            for hidden in [PASSES_MAX, 1000] {
                let found = search_hidden(hidden, exists);
                assert_eq!(found, (RenameSearch::Unsure, PASSES_MAX));
            }
        }
    }

    /// A rename within a tick of the clock leaves the times of the directory as they are.
    #[test]
    fn within_a_clock_tick_nothing_is_gone() {
        for hidden in 0..PASSES_MAX {
            let (vfs, mut dirs) = maildir(Some("/box/cur/1.here:2,S"));
            // Whole milliseconds would be those of a file system with a coarser clock.
            vfs.set_granularity(Duration::from_nanos(4_000_037));
            hide(&vfs, &mut dirs, hidden, Duration::ZERO);
            assert_eq!(search(&mut Relisted::default(), &dirs, b"1.here:2,"), here());
        }
    }

    #[test]
    fn listings_count_for_all_messages() {
        let (vfs, mut dirs) = maildir(None);
        hide(&vfs, &mut dirs, 1000, Duration::from_millis(20));
        let mut relisted = Relisted::default();
        for stale in [&b"1.gone:2,"[..], b"2.gone:2,", b"3.gone:2,S"] {
            assert_eq!(search(&mut relisted, &dirs, stale), RenameSearch::Unsure);
            assert_eq!(relisted.lists, PASSES_MAX);
        }
    }

    #[test]
    fn what_is_renamed_after_quiet_listings_is_found() {
        let old = "/box/cur/1.here:2,";
        let (vfs, dirs) = maildir(Some(old));
        let mut relisted = Relisted::default();
        assert_eq!(search(&mut relisted, &dirs, b"2.gone:2,"), RenameSearch::Gone);
        vfs.rename(Path::new(old), Path::new("/box/cur/1.here:2,S")).unwrap();
        assert_eq!(search(&mut relisted, &dirs, b"1.here:2,"), here());
    }

    #[test]
    fn a_message_that_is_gone_is_soon_known_to_be() {
        assert_eq!(search_hidden(0, false), (RenameSearch::Gone, 2));
        assert_eq!(search_hidden(2, false), (RenameSearch::Gone, 4));
    }

    #[test]
    fn with_a_coarse_clock_several_listings_are_needed() {
        for hidden in 0..PASSES_UNDER_CHANGE {
            let (vfs, mut dirs) = maildir(Some("/box/cur/1.here:2,S"));
            vfs.set_granularity(Duration::from_secs(2));
            hide(&vfs, &mut dirs, hidden, Duration::ZERO);
            assert_eq!(search(&mut Relisted::default(), &dirs, b"1.here:2,"), here());
        }
        let (vfs, dirs) = maildir(None);
        vfs.set_granularity(Duration::from_secs(2));
        vfs.open(Path::new("/box/cur/2.here:2,"), OpenOptions::create_new(0o600)).unwrap();
        let mut relisted = Relisted::default();
        assert_eq!(search(&mut relisted, &dirs, b"1.gone:2,"), RenameSearch::Gone);
        assert_eq!(relisted.lists, PASSES_UNDER_CHANGE);
    }

    #[test]
    fn a_search_ends_though_its_file_is_renamed_for_ever() {
        let (vfs, dirs) = maildir(Some("/box/cur/1.here:2,0"));
        let mut relisted = Relisted::default();
        for at in 0..RELISTS_MAX {
            let [stale, now] = [at, at + 1].map(|at| format!("1.here:2,{at}"));
            let path = |name: &str| Path::new("/box/cur").join(name);
            vfs.rename(&path(&stale), &path(&now)).unwrap();
            let found = search(&mut relisted, &dirs, stale.as_bytes());
            assert_eq!(found, RenameSearch::Renamed(now.into_bytes(), false));
        }
        let stale = format!("1.here:2,{RELISTS_MAX}").into_bytes();
        let found = relisted.find_renamed(&dirs, base_hash(base(&stale)), base(&stale), &stale);
        assert!(matches!(found, Err(Error::Changed { .. })), "{found:?}");
    }
}
