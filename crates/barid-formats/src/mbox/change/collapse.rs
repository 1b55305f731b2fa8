//! Removes ranges from the middle of a file by the file system (docs/protocol.md, "Change an
//! mbox").
//!
//! After each range its number is recorded in the journal before the next is begun, so that a
//! recovery is in doubt about one range only: it was not begun, or is done, or has left a hole of
//! its length further along, and then collapsing the hole completes it.

use std::io;
use std::path::Path;

use barid_mailbox::{Error, Result};
use barid_vfs::{File, Vfs};
use xxhash_rust::xxh3::Xxh3;

use super::header::{RecordKind, TailHash};
use super::recover::unless_short;
use super::run::Stage;
use super::source::{BufferedFile, hash_of};
use super::unit::Collapse;
use super::work::PlannedChange;

/// Returns the block size of the file system if it can collapse ranges of this file, of `size`
/// bytes, and is known to leave only states that [`PlannedChange::find_midway`] understands.
///
/// Costs a few system calls. The one that tests if the file can be collapsed always fails, with
/// `InvalidInput` if it can. A file that is open for reading only fails with `EBADF`; it counts as
/// one that can be collapsed.
pub(super) fn block(vfs: &dyn Vfs, path: &Path, file: &dyn File, size: u64) -> Option<u64> {
    if !vfs.collapses(path) {
        return None;
    }
    let block = vfs.block_size(path).ok().filter(|block| *block > 0)?;
    if file.first_hole(0).ok()?.is_some() {
        return None;
    }
    let refused = file.collapse(size.next_multiple_of(block) + block, block).err()?;
    let can =
        refused.kind() == io::ErrorKind::InvalidInput || refused.raw_os_error() == Some(EBADF);
    can.then_some(block)
}

/// Error of a write to a file that is open for reading only.
const EBADF: i32 = 9;

/// State of a collapse that may have been interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Midway {
    /// It was not begun.
    No,
    /// All bytes have moved; the file may still have to be cut to its new size.
    Moved,
    /// A hole of its length is left at this offset and must be removed.
    Hole(u64),
}

impl<'a> PlannedChange<'a> {
    /// Collapses the remaining ranges.
    ///
    /// # Errors
    /// [`Error::Changed`], with nothing begun, if the file has holes after all: the hole of an
    /// interrupted collapse could not be distinguished from them.
    pub(super) fn collapse_from(&mut self, stage: &mut Stage) -> Result<()> {
        for index in stage.collapsed..self.collapses.len() {
            let collapse = self.collapses[index];
            let file = self.file();
            if !stage.is_begun && file.first_hole(0).map_err(self.at())?.is_some() {
                return Err(self.changed());
            }
            match file.collapse(collapse.offset, collapse.len) {
                Ok(()) => stage.is_begun = true,
                Err(error) => {
                    // Only a refusal is known to have changed nothing.
                    stage.is_begun |= !matches!(
                        error.kind(),
                        io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput
                    );
                    return Err(self.at()(error));
                }
            }
            self.sync_all()?;
            self.record_collapsed(index + 1)?;
            stage.collapsed = index + 1;
            self.locks.touch()?;
        }
        Ok(())
    }

    /// Determines the state of the collapse that may have been running when [`Stage::collapsed`]
    /// ranges were known to be complete; writes nothing. If all bytes have moved, that collapse
    /// counts as complete.
    ///
    /// # Errors
    /// [`Error::Changed`] if the file is in a state that a collapse cannot have left.
    pub(super) fn find_midway(&self, stage: &mut Stage) -> Result<Midway> {
        let done = stage.collapsed;
        let Some(collapse) = self.collapses.get(done).copied() else { return Ok(Midway::No) };
        let (size_before, size_after) = (self.size_when(done), self.size_when(done + 1));
        let file = self.file();
        let size = file.metadata().map_err(self.at())?.size;
        match file.first_hole(0).map_err(self.at())?.filter(|hole| *hole < size) {
            // Everything has moved, only the size has not followed. Mail of others begins in the
            // last block of the hole.
            Some(hole) if hole >= size_after => {}
            Some(hole) => {
                let midway = Midway::Hole(hole);
                let is_its = hole >= collapse.offset
                    && size >= size_before
                    && self.nuls(hole, hole + collapse.len).map_err(self.at())? == collapse.len
                    && unless_short(self.has_end(done, midway)).map_err(self.at())?;
                return if is_its { Ok(midway) } else { Err(self.changed()) };
            }
            None => {
                let is_not_begun = self.ends_at(size, size_before)?;
                let is_done = self.ends_at(size, size_after)?;
                match (is_not_begun, is_done) {
                    (true, false) => return Ok(Midway::No),
                    (true, true) if size == size_before => return Ok(Midway::No),
                    // Others may have filled the last block of the hole.
                    (false, true) => {}
                    _ => return Err(self.changed()),
                }
            }
        }
        stage.collapsed = done + 1;
        Ok(Midway::Moved)
    }

    /// Returns `true` if the old file ends as it did.
    fn has_end(&self, collapsed: usize, midway: Midway) -> io::Result<bool> {
        let mut source = self.jumping(collapsed, midway);
        let mut has = |tail: TailHash| -> io::Result<bool> {
            let mut hash = Xxh3::new();
            let Some(at) = self.header.base_size.checked_sub(tail.len) else { return Ok(false) };
            source.hash(at, tail.len, &mut hash)?;
            Ok(tail.len == 0 || hash.digest() == tail.hash)
        };
        Ok(has(self.header.tail)? && has(self.header.cut)?)
    }

    /// Returns a source that reads the file as it will be when everything is collapsed.
    pub(super) fn jumping(&self, collapsed: usize, midway: Midway) -> BufferedFile<'a> {
        let mut source = self.source();
        self.jumps(collapsed, midway).into_iter().for_each(|jump| source.collapse(jump));
        source
    }

    /// Returns the ranges that a reader has to skip: those still to be collapsed, and the hole of
    /// the first of these if it has moved.
    fn jumps(&self, collapsed: usize, midway: Midway) -> Vec<Collapse> {
        let Midway::Hole(hole) = midway else { return self.collapses[collapsed..].to_vec() };
        let len = self.collapses[collapsed].len;
        let mut jumps = self.collapses[collapsed + 1..].to_vec();
        let (mut gone, mut at) = (0, jumps.len());
        for (index, collapse) in jumps.iter().enumerate() {
            let begin = collapse.offset + gone;
            if begin >= hole {
                at = index;
                break;
            }
            if begin + collapse.len > hole {
                // The hole is in a range that is skipped anyway.
                jumps[index].len += len;
                return jumps;
            }
            gone += collapse.len;
        }
        jumps.insert(at, Collapse { offset: hole - gone, len });
        jumps
    }

    /// Removes a hole that a collapse has left, which completes that collapse.
    pub(super) fn collapse_hole(&mut self, stage: &mut Stage, hole: u64) -> Result<()> {
        let len = self.collapses[stage.collapsed].len;
        self.file().collapse(hole, len).map_err(self.at())?;
        self.sync_all()?;
        self.record_collapsed(stage.collapsed + 1)?;
        stage.collapsed += 1;
        Ok(())
    }

    /// Records durably that this number of ranges is collapsed.
    pub(super) fn record_collapsed(&mut self, collapsed: usize) -> Result<()> {
        self.record(RecordKind::Collapsed, [collapsed as u64, 0, 0, 0])
    }

    /// Returns the size of the old file when this number of ranges is collapsed.
    pub(super) fn size_when(&self, collapsed: usize) -> u64 {
        let gone: u64 = self.collapses[..collapsed].iter().map(|collapse| collapse.len).sum();
        self.header.old_size - gone
    }

    /// Returns `true` if the bytes before `end` are those that the old file ended with; any after
    /// were delivered since.
    fn ends_at(&self, size: u64, end: u64) -> Result<bool> {
        let TailHash { len, hash } = self.header.tail;
        if end > size || end < len {
            return Ok(false);
        }
        let found = hash_of(self.file(), end - len, len, self.options.buffer_len);
        found.map(|found| found == hash).map_err(Error::at(self.places.mailbox))
    }
}
