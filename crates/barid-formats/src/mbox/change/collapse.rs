//! Cutting ranges out of the file by the file system (PROTOCOL, "Collapse").
//!
//! After each range its number goes to the journal, before the next is begun, so that a recovery
//! has just one to wonder about: that one was not begun, or is done, or has left a hole of its
//! length somewhere further along, and then collapsing the hole completes it.

use std::io;
use std::path::Path;

use barid_vfs::{File, Vfs};

use super::header::{Kind, Tail};
use super::run::Stage;
use super::source::hash_of;
use super::work::Work;
use crate::{Error, Result};

/// The block of the file system, if it can collapse ranges of this file, of `size` bytes.
///
/// Costs a few system calls: the one that asks whether it can is refused either way, for another
/// reason if it can.
pub(super) fn block(vfs: &dyn Vfs, path: &Path, file: &dyn File, size: u64) -> Option<u64> {
    let block = vfs.block_size(path).ok().filter(|block| *block > 0)?;
    if file.first_hole(0).ok()?.is_some() {
        return None;
    }
    let refused = file.collapse(size.next_multiple_of(block) + block, block).err()?;
    (refused.kind() == io::ErrorKind::InvalidInput).then_some(block)
}

impl Work<'_> {
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
            self.record(Kind::Collapsed, [index as u64 + 1, 0, 0, 0])?;
            stage.collapsed = index + 1;
            self.locks.touch()?;
        }
        Ok(())
    }

    /// Completes the collapse that may have been under way when [`Stage::collapsed`] of them were
    /// known to be complete.
    ///
    /// # Errors
    /// [`Error::Changed`] if the file is in no state that a collapse can have left.
    pub(super) fn complete_collapse(&mut self, stage: &mut Stage) -> Result<()> {
        let done = stage.collapsed;
        let Some(collapse) = self.collapses.get(done).copied() else { return Ok(()) };
        let (size_before, size_after) = (self.size_when(done), self.size_when(done + 1));
        let file = self.file();
        let size = file.metadata().map_err(self.at())?.size;
        match file.first_hole(0).map_err(self.at())?.filter(|hole| *hole < size) {
            // Everything has moved, only the size has not followed. What others delivered begins
            // in the last block of the hole.
            Some(hole) if hole >= size_after => {
                stage.foreign = self.take_foreign(size_after, stage.foreign)?;
            }
            Some(hole) => {
                file.collapse(hole, collapse.len).map_err(self.at())?;
                self.sync_all()?;
            }
            None => {
                let is_not_begun = self.ends_at(size, size_before)?;
                let is_done = self.ends_at(size, size_after)?;
                match (is_not_begun, is_done) {
                    (true, false) => return Ok(()),
                    (true, true) if size == size_before => return Ok(()),
                    // Others may have filled the last of the hole.
                    (false, true) if size > size_after => {
                        stage.foreign = self.take_foreign(size_after, stage.foreign)?;
                    }
                    (false, true) => {}
                    _ => return Err(self.changed()),
                }
            }
        }
        stage.collapsed = done + 1;
        self.record(Kind::Collapsed, [done as u64 + 1, 0, 0, 0])
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
