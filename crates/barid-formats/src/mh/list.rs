//! Listing a folder while others deliver, remove and renumber, and finding known messages again.
//!
//! A rename within a folder may hide a name from a listing in progress, or show a file under two
//! names. So a listing is trusted only if the folder did not change during it, and a missing
//! message counts as gone only if it could not have changed unnoticed. Where a folder never stops
//! changing, a missing message is kept, and a file seen twice counts once.

use std::collections::HashMap;

use barid_mailbox::{Error, Result};
use barid_vfs::{Dir, FileStamp, FileType, Metadata};

use super::MhFolder;
use super::before::KnownMh;
use super::layout::{PASSES_MAX, QUIET_PASSES};
use super::name::{self, Number};
use crate::file_stamps::{FileStamps, ListingProof};
use crate::files::in_chunks;

/// A file that is a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageFile {
    /// Its number.
    pub(super) number: Number,
    /// The mark by which it is recognised.
    pub(super) mark: u64,
    /// Its inode.
    pub(super) inode: u64,
    /// Its size in bytes.
    pub(super) size: u64,
    /// Its number of links.
    links: u64,
}

/// Result of looking for a known message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MhMatch {
    /// It was not seen, and is gone.
    Gone,
    /// It is unchanged.
    Same,
    /// It is now the file of this index.
    Changed(u32),
}

/// Result of a listing.
#[derive(Debug, Default)]
pub(super) struct MhListing {
    /// All messages by ascending number.
    pub(super) files: Vec<MessageFile>,
    /// The result for each known message.
    pub(super) seen: Vec<MhMatch>,
    /// The files that are not known messages, by ascending number.
    pub(super) fresh: Vec<u32>,
    /// Bytes of all messages.
    pub(super) size_bytes: u64,
    /// Number of directory listings.
    pub(super) dirs_listed: u32,
    /// `true` if missing messages are gone.
    pub(super) is_complete: bool,
}

/// The folder to list, and how.
#[derive(Clone, Copy)]
pub(super) struct Lister<'a> {
    pub(super) folder: &'a MhFolder,
    pub(super) dir: &'a dyn Dir,
    pub(super) threads: usize,
}

impl MhListing {
    /// Returns the listing of a folder that did not change.
    pub(super) fn unchanged(before: &KnownMh) -> Self {
        Self {
            seen: vec![MhMatch::Same; before.rows.len()],
            size_bytes: before.state.map_or(0, |state| state.size_bytes),
            ..Self::default()
        }
    }
}

impl Lister<'_> {
    /// Lists as often as needed, and finds the known messages by their marks.
    pub(super) fn list(&self, before: &KnownMh) -> Result<MhListing> {
        let mut listing = MhListing::default();
        let is_whole = self.until_whole(|pass, files, is_disturbed| {
            listing = MhListing { dirs_listed: pass, ..compare(before, files) };
            !is_disturbed && !listing.seen.contains(&MhMatch::Gone)
        })?;
        listing.is_complete = is_whole;
        if !is_whole {
            listing.keep_what_is_missing();
        }
        Ok(listing)
    }

    /// Lists until a listing shows all that is there, or until `is_enough` returns `true` for one;
    /// returns `false` if the folder keeps changing. `is_enough` takes the number of the listing,
    /// its files, and `true` if the folder changed during it.
    pub(super) fn until_whole(
        &self,
        mut is_enough: impl FnMut(u32, Vec<MessageFile>, bool) -> bool,
    ) -> Result<bool> {
        let mut quiet_passes = 0;
        for pass in 1..=PASSES_MAX {
            let start = self.stamp()?;
            let files = self.files()?;
            let proof = ListingProof::of(&start, &self.stamp()?);
            if is_enough(pass, files, proof == ListingProof::Disturbed) {
                return Ok(true);
            }
            match proof {
                ListingProof::Whole => return Ok(true),
                ListingProof::Racy(Some(pause)) => self.folder.vfs.sleep(pause),
                ListingProof::Racy(None) if quiet_passes + 1 == QUIET_PASSES => return Ok(true),
                ListingProof::Racy(None) => quiet_passes += 1,
                ListingProof::Disturbed => quiet_passes = 0,
            }
        }
        Ok(false)
    }

    fn stamp(&self) -> Result<FileStamps> {
        let (vfs, path) = (&self.folder.vfs, &self.folder.path);
        let taken = vfs.now();
        let metadata = vfs.metadata(path).map_err(Error::at(path))?;
        let folder = FileStamp::from(&metadata);
        Ok(FileStamps {
            taken,
            files: [folder, Default::default(), Default::default(), Default::default()],
        })
    }

    /// Returns the existing numbers, ascending.
    pub(super) fn numbers(&self) -> Result<Vec<Number>> {
        self.numbers_and(&mut |_| {})
    }

    /// Returns the existing numbers, ascending; passes every other name to `other`.
    pub(super) fn numbers_and(&self, other: &mut dyn FnMut(&[u8])) -> Result<Vec<Number>> {
        let listed = self.folder.naming.list(self.dir, other);
        let mut numbers = listed.map_err(Error::at(&self.folder.path))?;
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }

    /// Lists once; costs a `stat` per message.
    pub(super) fn files(&self) -> Result<Vec<MessageFile>> {
        let numbers = self.numbers()?;
        let found = std::sync::Mutex::new(Vec::new());
        in_chunks(
            numbers.len(),
            super::layout::CHUNK_MESSAGES,
            self.threads,
            &|| (),
            &|(), _, range| {
                let mut chunk = Vec::with_capacity(range.len());
                for number in &numbers[range] {
                    chunk.extend(self.look_at(*number)?);
                }
                found.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).append(&mut chunk);
                Ok(())
            },
        )?;
        let mut found = found.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        found.sort_unstable_by_key(|file| file.number);
        Ok(found)
    }

    /// Returns the file of a number; `None` if it is not a message.
    pub(super) fn look_at(&self, number: Number) -> Result<Option<MessageFile>> {
        let file_name = self.folder.naming.listed_name(number);
        let path = || self.folder.listed_path(number);
        let gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
        let found = |metadata: Metadata| MessageFile {
            number,
            mark: name::mark(&metadata),
            inode: metadata.inode,
            size: metadata.size,
            links: metadata.links,
        };
        let metadata = match self.dir.metadata(&file_name) {
            Ok(metadata) if metadata.file_type == FileType::Symlink => {
                self.folder.vfs.metadata(&path())
            }
            result => result,
        };
        match metadata {
            Ok(metadata) => Ok((metadata.file_type == FileType::File).then(|| found(metadata))),
            Err(error) if gone(&error) => Ok(None),
            Err(source) => Err(Error::at(&path())(source)),
        }
    }
}

impl MhListing {
    /// Adapts a listing that cannot be trusted: nothing counts as gone, and no file counts twice.
    fn keep_what_is_missing(&mut self) {
        let mut claimed: std::collections::HashSet<u64> = std::collections::HashSet::new();
        for seen in &mut self.seen {
            match seen {
                MhMatch::Gone => *seen = MhMatch::Same,
                MhMatch::Same => {}
                MhMatch::Changed(at) => {
                    claimed.insert(self.files[*at as usize].inode);
                }
            }
        }
        let files = &self.files;
        self.fresh.retain(|at| {
            let file = &files[*at as usize];
            file.links > 1 || claimed.insert(file.inode)
        });
    }
}

/// Finds the known messages among files: under their numbers, then by their marks.
fn compare(before: &KnownMh, files: Vec<MessageFile>) -> MhListing {
    let mut seen = vec![MhMatch::Gone; before.rows.len()];
    let mut by_number: HashMap<Number, u32> = HashMap::with_capacity(before.rows.len());
    for (at, row) in before.rows.iter().enumerate() {
        by_number.insert(row.number, at as u32);
    }
    let mut unclaimed = Vec::new();
    for (at, file) in files.iter().enumerate() {
        match by_number.get(&file.number) {
            Some(row) if before.rows[*row as usize].mark == file.mark => {
                seen[*row as usize] = MhMatch::Same;
            }
            _ => unclaimed.push(at as u32),
        }
    }
    let mut fresh = unclaimed;
    let is_missing = |at: &usize| seen[*at] == MhMatch::Gone;
    let mut by_mark: HashMap<u64, Vec<u32>> = HashMap::new();
    if !fresh.is_empty() {
        // Of several rows with one mark, which are links to one file, the lowest UID comes last.
        for at in (0..before.rows.len()).rev().filter(is_missing) {
            by_mark.entry(before.rows[at].mark).or_default().push(at as u32);
        }
    }
    fresh.retain(|at| {
        let row = by_mark.get_mut(&files[*at as usize].mark).and_then(Vec::pop);
        if let Some(row) = row {
            seen[row as usize] = MhMatch::Changed(*at);
        }
        row.is_none()
    });
    let size_bytes = files.iter().map(|file| file.size).fold(0, u64::saturating_add);
    MhListing { files, seen, fresh, size_bytes, dirs_listed: 0, is_complete: false }
}
