//! Cutting ranges out of the file by the file system (docs/protocol.md, "Change an mbox").
//!
//! After each range its number goes to the journal, before the next is begun, so that a recovery
//! has just one to wonder about: that one was not begun, or is done, or has left a hole of its
//! length somewhere further along, and then collapsing the hole completes it.

use std::io;
use std::path::Path;

use barid_vfs::{File, Vfs};
use xxhash_rust::xxh3::Xxh3;

use super::header::{Kind, Tail};
use super::recover::unless_short;
use super::run::Stage;
use super::source::{Source, hash_of};
use super::unit::Collapse;
use super::work::Work;
use crate::{Error, Result};

/// The block of the file system, if it can collapse ranges of this file, of `size` bytes, and is
/// known to leave what [`Work::find_midway`] understands.
///
/// Costs a few system calls: the one that asks whether it can is refused either way, for another
/// reason if it can. Of a file that is open for reading it says nothing.
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

/// What a call that writes says of a file that is open for reading.
const EBADF: i32 = 9;

/// What a recovery finds of a collapse that may have been under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Midway {
    /// Nothing of it is unfinished.
    No,
    /// All has moved; what is behind the new end is to be cut off, or nothing is.
    Moved,
    /// A hole of its length stands here, and has to go.
    Hole(u64),
}

impl<'a> Work<'a> {
    /// Collapses the ranges that are left.
    ///
    /// # Errors
    /// [`Error::Changed`], and nothing was begun, if the file has holes after all, among which that
    /// of an interrupted collapse could not be told.
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
                    // Only a refusal is known to have left everything as it was.
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

    /// Finds out what there is of the collapse that may have been under way when
    /// [`Stage::collapsed`] of them were known to be complete; writes nothing. If all has moved, it
    /// counts to them from now on.
    ///
    /// # Errors
    /// [`Error::Changed`] if the file is in no state that a collapse can have left.
    pub(super) fn find_midway(&self, stage: &mut Stage) -> Result<Midway> {
        let done = stage.collapsed;
        let Some(collapse) = self.collapses.get(done).copied() else { return Ok(Midway::No) };
        let (size_before, size_after) = (self.size_when(done), self.size_when(done + 1));
        let file = self.file();
        let size = file.metadata().map_err(self.at())?.size;
        match file.first_hole(0).map_err(self.at())?.filter(|hole| *hole < size) {
            // Everything has moved, only the size has not followed. What others delivered begins
            // in the last block of the hole.
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
                    // Others may have filled the last of the hole.
                    (false, true) => {}
                    _ => return Err(self.changed()),
                }
            }
        }
        stage.collapsed = done + 1;
        Ok(Midway::Moved)
    }

    /// Whether the old file ends as it did.
    fn has_end(&self, collapsed: usize, midway: Midway) -> io::Result<bool> {
        let mut source = self.jumping(collapsed, midway);
        let mut has = |tail: Tail| -> io::Result<bool> {
            let mut hash = Xxh3::new();
            let Some(at) = self.header.base_size.checked_sub(tail.len) else { return Ok(false) };
            source.hash(at, tail.len, &mut hash)?;
            Ok(tail.len == 0 || hash.digest() == tail.hash)
        };
        Ok(has(self.header.tail)? && has(self.header.cut)?)
    }

    /// Reads the file as it is once everything is collapsed.
    pub(super) fn jumping(&self, collapsed: usize, midway: Midway) -> Source<'a> {
        let mut source = self.source();
        self.jumps(collapsed, midway).into_iter().for_each(|jump| source.collapse(jump));
        source
    }

    /// The ranges that a reader has to jump over: those that are still to be collapsed, and the
    /// hole of the first of these if it has left its place.
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
                // It stands in what is to be jumped over anyway.
                jumps[index].len += len;
                return jumps;
            }
            gone += collapse.len;
        }
        jumps.insert(at, Collapse { offset: hole - gone, len });
        jumps
    }

    /// Takes a hole out that a collapse has left; the next of them follows.
    pub(super) fn collapse_hole(&mut self, stage: &mut Stage, hole: u64) -> Result<()> {
        let len = self.collapses[stage.collapsed].len;
        self.file().collapse(hole, len).map_err(self.at())?;
        self.sync_all()?;
        self.record_collapsed(stage.collapsed + 1)?;
        stage.collapsed += 1;
        Ok(())
    }

    /// Says that so many ranges are collapsed, durably.
    pub(super) fn record_collapsed(&mut self, collapsed: usize) -> Result<()> {
        self.record(Kind::Collapsed, [collapsed as u64, 0, 0, 0])
    }

    /// The size of the old file when so many ranges are collapsed.
    pub(super) fn size_when(&self, collapsed: usize) -> u64 {
        let gone: u64 = self.collapses[..collapsed].iter().map(|collapse| collapse.len).sum();
        self.header.old_size - gone
    }

    /// Whether the bytes before `end` are those that the old file ended with; what is behind was
    /// delivered since.
    fn ends_at(&self, size: u64, end: u64) -> Result<bool> {
        let Tail { len, hash } = self.header.tail;
        if end > size || end < len {
            return Ok(false);
        }
        let found = hash_of(self.file(), end - len, len, self.options.buffer_len);
        found.map(|found| found == hash).map_err(Error::at(self.places.mailbox))
    }
}
