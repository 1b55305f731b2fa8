//! Listing `new` and `cur` while others rename, deliver and remove.
//!
//! `new` comes first, so that a message moved to `cur` meanwhile is seen at least once: that needs
//! a listing of `cur`, even if only `new` had changed before. A rename within a directory may hide
//! a name from a listing in progress. So a known name that is seen nowhere counts as gone only
//! after a listing during which the directories did not change and were long unchanged, or, where
//! the file system's clock is too coarse to wait for that, after several listings during which they
//! did not seem to change. Where they never stop changing, the name is kept.

use std::collections::{HashMap, HashSet};

use barid_mailbox::{Error, Result};
use barid_vfs::{Dir, FileType, Vfs};

use super::Dirs;
use super::before::{KnownMaildir, KnownName};
use super::layout::{PASSES_MAX, PASSES_UNDER_CHANGE, PASSES_WITHOUT_NEWS};
use super::name;
use super::table::{Index, NameRange, Names};
use crate::file_stamps::{FileStamps, ListingProof};

/// A name that is new, or of which something changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sighting {
    /// The file.
    pub(super) name: NameRange,
    /// `true` if it is in `new`.
    pub(super) in_new: bool,
    /// The message key: the hash of its base name, except for a twin.
    pub(super) key: u64,
    pass: u8,
}

/// Result of looking for a known message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MaildirMatch {
    /// It was not seen, and is gone.
    Gone,
    /// It is unchanged.
    Same,
    /// It changed to the sighting of this index.
    Changed(u32),
}

/// Result of the listings.
#[derive(Debug)]
pub(super) struct MaildirListing {
    /// The names of the sightings.
    pub(super) names: Names,
    /// Everything new or changed.
    pub(super) sightings: Vec<Sighting>,
    /// The sightings that belong to no known message.
    pub(super) fresh: Vec<u32>,
    /// The result for each known message.
    pub(super) seen: Vec<MaildirMatch>,
    /// Known messages, and the sightings under which mbsync's renaming put them.
    pub(super) renamed: Vec<(u32, u32)>,
    /// Number of directory listings.
    pub(super) dirs_listed: u32,
    /// Defects found.
    pub(super) defects: Vec<String>,
    /// `true` if the last pass showed all that is there.
    pub(super) is_whole: bool,
    /// Hashes of the base names that several files have or had.
    pub(super) twin_bases: HashSet<u64>,
    /// `true` if the names of all messages are needed, and were not loaded
    /// ([`KnownMaildir::load_new`]).
    pub(super) needs_all: bool,
    seen_pass: Vec<u8>,
    index: Index,
    doubles: Vec<Sighting>,
    news: bool,
}

const NEVER: u8 = u8::MAX;

/// Lists the directories that are `wanted` (`new`, `cur`), as often as needed. If the caller will
/// soon list them again (`will_rescan`), it repeats a pass only while known names are missing.
pub(super) fn list(
    vfs: &dyn Vfs,
    dirs: &Dirs,
    before: &KnownMaildir,
    stamp: &FileStamps,
    wanted: [bool; 2],
    will_rescan: bool,
) -> Result<MaildirListing> {
    let rows = before.rows.len();
    let mut listing = MaildirListing {
        names: Names::default(),
        sightings: Vec::new(),
        fresh: Vec::new(),
        seen: vec![MaildirMatch::Same; rows],
        renamed: Vec::new(),
        dirs_listed: 0,
        defects: Vec::new(),
        is_whole: false,
        twin_bases: HashSet::new(),
        needs_all: false,
        seen_pass: vec![NEVER; rows],
        index: Index::default(),
        doubles: Vec::new(),
        news: false,
    };
    if wanted[1] && before.is_partial() {
        listing.needs_all = true;
    } else if wanted != [false; 2] {
        let gone = listing.passes(vfs, dirs, before, stamp, wanted, will_rescan)?;
        if before.is_partial() {
            listing.needs_all |= gone != [false; 2] || listing.is_more_than_new(before);
            return Ok(listing);
        }
        if gone != [false; 2] {
            listing.mark_gone(before, gone);
        }
        super::twins::resolve(&mut listing, dirs, before)?;
        super::renamed::resolve(&mut listing, dirs, before)?;
    }
    Ok(listing)
}

impl MaildirListing {
    /// Repeats the listing as needed; returns the directories in which missing names are gone.
    fn passes(
        &mut self,
        vfs: &dyn Vfs,
        dirs: &Dirs,
        before: &KnownMaildir,
        stamp: &FileStamps,
        mut wanted: [bool; 2],
        will_rescan: bool,
    ) -> Result<[bool; 2]> {
        let mut stamp = *stamp;
        let (mut quiet_passes, mut passes_without_news) = (0, 0);
        let mut believed_after = PASSES_WITHOUT_NEWS;
        for pass in 0..PASSES_MAX {
            self.pass(dirs, before, wanted, pass as u8)?;
            let mut after = FileStamps { taken: vfs.now(), ..stamp };
            [after.files[0], after.files[1]] = dirs.stamps()?;
            let changed = [0, 1].map(|at| after.files[at] != stamp.files[at]);
            if changed[1] && before.is_partial() {
                self.needs_all = true;
                return Ok([false; 2]);
            }
            if (0..2).any(|at| changed[at] && !wanted[at]) {
                // A message may have moved there from the other directory before that was listed.
                wanted = [true; 2];
                stamp = after;
                continue;
            }
            let missing =
                self.is_missing(before, wanted) || self.lacks_twins(before, wanted, pass as u8);
            if missing && before.is_partial() {
                self.needs_all = true;
                return Ok([false; 2]);
            }
            let proof = ListingProof::of(&stamp, &after);
            self.is_whole = proof == ListingProof::Whole;
            if changed[1] {
                believed_after = PASSES_UNDER_CHANGE;
            }
            if !missing {
                // Within one clock tick a rename does not change the stamp, but may hide a new
                // name.
                let may_have_moved = !will_rescan && (!stamp.is_settled(1) || changed[1]);
                passes_without_news = if self.news { 0 } else { passes_without_news + 1 };
                if !(wanted[1] && may_have_moved) || passes_without_news >= believed_after {
                    return Ok([false; 2]);
                }
            } else if proof == ListingProof::Whole {
                return Ok(wanted);
            } else if let ListingProof::Racy(wait) = proof {
                quiet_passes += 1;
                let are_enough = quiet_passes >= PASSES_UNDER_CHANGE;
                if wait.is_none() && are_enough && wanted == [true; 2] {
                    self.is_whole = true;
                    return Ok(wanted);
                }
                vfs.sleep(wait.unwrap_or_default());
                after.taken = vfs.now();
            }
            if missing {
                wanted = [true; 2];
            }
            stamp = after;
        }
        Ok([false; 2])
    }

    /// Lists the wanted directories once.
    fn pass(
        &mut self,
        dirs: &Dirs,
        before: &KnownMaildir,
        wanted: [bool; 2],
        pass: u8,
    ) -> Result<()> {
        self.news = false;
        self.doubles.clear();
        for (at, in_new) in [(0, true), (1, false)] {
            if !wanted[at] {
                continue;
            }
            let dir = &dirs.handles[at];
            let mut unsure: Vec<Vec<u8>> = Vec::new();
            let listed = dir.list(&mut |name, file_type| match file_type {
                _ if !name::is_message(name) => self.hidden(name),
                FileType::File | FileType::Symlink => self.see(before, name, in_new, pass),
                FileType::Dir => {}
                FileType::Other => unsure.push(name.to_vec()),
            });
            listed.map_err(Error::at(&dirs.paths[at]))?;
            for name in unsure {
                if is_file(dir.as_ref(), &name) {
                    self.see(before, &name, in_new, pass);
                }
            }
            self.dirs_listed += 1;
        }
        Ok(())
    }

    fn hidden(&mut self, name: &[u8]) {
        if name.first() != Some(&b'.') && self.defects.is_empty() {
            self.defects.push("a file name that contains a line end is skipped".to_owned());
        }
    }

    /// Records a directory entry.
    fn see(&mut self, before: &KnownMaildir, name: &[u8], in_new: bool, pass: u8) {
        let base = name::base(name);
        let hash = name::base_hash(base);
        let row = before.find(hash, base);
        if let Some(at) = row {
            let at = at as usize;
            let known = &before.rows[at];
            if self.seen_pass[at] != pass {
                self.seen_pass[at] = pass;
                if known.in_new == in_new && before.names.get(known.name) == name {
                    self.seen[at] = MaildirMatch::Same;
                } else if let Some(sighting) = self.add(name, in_new, pass) {
                    self.seen[at] = MaildirMatch::Changed(sighting);
                }
                return;
            }
        } else {
            let is = |at: u32| {
                let sighting = &self.sightings[at as usize];
                sighting.name.hash == hash && self.names.base(sighting.name) == base
            };
            let Some(at) = self.index.find(hash, is) else {
                self.add_fresh(name, in_new, pass);
                return;
            };
            let at = at as usize;
            if self.sightings[at].pass != pass {
                if let Some(name) = self.names.add(name) {
                    self.sightings[at] = Sighting { name, in_new, key: hash, pass };
                }
                return;
            }
        }
        if let Some(name) = self.names.add(name) {
            self.doubles.push(Sighting { name, in_new, key: hash, pass });
        }
    }

    fn add(&mut self, name: &[u8], in_new: bool, pass: u8) -> Option<u32> {
        let name = self.names.add(name)?;
        self.sightings.push(Sighting { name, in_new, key: name.hash, pass });
        Some(self.sightings.len() as u32 - 1)
    }

    fn add_fresh(&mut self, name: &[u8], in_new: bool, pass: u8) {
        if let Some(at) = self.add(name, in_new, pass) {
            let sightings = &self.sightings;
            let hash = sightings[at as usize].name.hash;
            self.index.insert(hash, at, |at| sightings[at as usize].name.hash);
            self.fresh.push(at);
            self.news = true;
        }
    }

    /// Returns `true` if a message is missing that should be in a listed directory. Twins are found
    /// by their inodes later.
    fn is_missing(&self, before: &KnownMaildir, wanted: [bool; 2]) -> bool {
        before
            .rows
            .iter()
            .zip(&self.seen_pass)
            .any(|(row, pass)| *pass == NEVER && wanted[usize::from(!row.in_new)] && !row.is_twin())
    }

    /// Returns `true` if a pass showed fewer names of a base than there are known messages of it in
    /// the listed directories.
    fn lacks_twins(&self, before: &KnownMaildir, wanted: [bool; 2], pass: u8) -> bool {
        if before.twins.is_empty() {
            return false;
        }
        let mut lacking: HashMap<u64, i64> = HashMap::new();
        for row in before.twins.iter().map(|at| &before.rows[*at as usize]) {
            let (hash, base) = (row.name.hash, before.names.base(row.name));
            let expected = |row: &KnownName| i64::from(wanted[usize::from(!row.in_new)]);
            let of_first = || match before.find(hash, base) {
                Some(at) => {
                    let is_seen = self.seen_pass[at as usize] == pass;
                    expected(&before.rows[at as usize]) - i64::from(is_seen)
                }
                None => {
                    let fresh = self.find_fresh(hash, base);
                    let is_seen = |at: u32| self.sightings[at as usize].pass == pass;
                    -i64::from(fresh.is_some_and(is_seen))
                }
            };
            *lacking.entry(hash).or_insert_with(of_first) += expected(row);
        }
        for double in &self.doubles {
            if let Some(lacking) = lacking.get_mut(&double.name.hash) {
                *lacking -= 1;
            }
        }
        lacking.values().any(|lacking| *lacking > 0)
    }

    /// Returns `true` if a file seen in `new` may be another one of a known message.
    fn is_more_than_new(&self, before: &KnownMaildir) -> bool {
        let fresh = self.fresh.iter().map(|at| self.sightings[*at as usize].name);
        // A message that mbsync has renamed keeps its key, which is then that of its stem.
        let keys = fresh.flat_map(|name| [name.hash, name.stem_hash]);
        !self.doubles.is_empty() || before.has_any(keys.collect())
    }

    fn mark_gone(&mut self, before: &KnownMaildir, gone: [bool; 2]) {
        for (at, row) in before.rows.iter().enumerate() {
            let unseen = self.seen_pass[at] == NEVER && !row.is_twin();
            if unseen && gone[usize::from(!row.in_new)] {
                self.seen[at] = MaildirMatch::Gone;
            }
        }
    }

    /// Adds a sighting whose key is known.
    pub(super) fn add_keyed(&mut self, name: &[u8], in_new: bool, key: u64) -> Option<u32> {
        let at = self.add(name, in_new, 0)?;
        self.sightings[at as usize].key = key;
        Some(at)
    }

    /// Returns the names seen again under the same base name, for [`super::twins`].
    pub(super) fn take_doubles(&mut self) -> Vec<Sighting> {
        std::mem::take(&mut self.doubles)
    }

    /// Returns the fresh sighting of a base name.
    pub(super) fn find_fresh(&self, hash: u64, base: &[u8]) -> Option<u32> {
        self.index.find(hash, |at| {
            let sighting = &self.sightings[at as usize];
            sighting.name.hash == hash && self.names.base(sighting.name) == base
        })
    }

    /// Returns `true` if a known message was seen in any pass.
    pub(super) fn was_seen(&self, row: u32) -> bool {
        self.seen_pass[row as usize] != NEVER
    }
}

/// Returns `true` if an entry of unknown kind is a file.
fn is_file(dir: &dyn Dir, name: &[u8]) -> bool {
    dir.metadata(name)
        .is_ok_and(|metadata| matches!(metadata.file_type, FileType::File | FileType::Symlink))
}
