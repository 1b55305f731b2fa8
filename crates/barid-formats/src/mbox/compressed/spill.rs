//! Text that was decompressed once, in a file without a name: for compressed files that have no
//! restart points, such as a single frame of Zstandard or a single block of xz.

use std::io;
use std::path::Path;

use barid_vfs::{File, Vfs, create_unlinked};

use super::super::layout::{SPILL_FREE_PART, SPILL_LEN_MAX};

/// A range of the text, in a file that nobody else can open and that ends with the process.
pub(super) struct Spill {
    file: Box<dyn File>,
    /// Offset in the text at which it starts.
    start: u64,
    len: u64,
    len_max: u64,
}

impl Spill {
    /// Begins at an offset of the text, in a new file of `folder`; uses at most a part of the free
    /// space there, and [`SPILL_LEN_MAX`]. `None` if no file can be made.
    pub(super) fn new(vfs: &dyn Vfs, folder: &Path, start: u64) -> Option<Self> {
        let file = create_unlinked(vfs, folder).ok()?;
        let len_max = (vfs.free_space(folder).ok()? / SPILL_FREE_PART).min(SPILL_LEN_MAX);
        Some(Self { file, start, len: 0, len_max })
    }

    /// Returns the offset in the text at which it starts.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Returns the offset in the text at which it ends.
    fn end(&self) -> u64 {
        self.start + self.len
    }

    /// Adds text that follows on what is there; ignores other text, and text for which there is no
    /// room.
    pub(super) fn add(&mut self, offset: u64, text: &[u8]) {
        let len = self.len + text.len() as u64;
        if offset != self.end() || len > self.len_max {
            return;
        }
        match self.file.write_all_at(text, self.len) {
            Ok(()) => self.len = len,
            Err(_) => self.len_max = self.len,
        }
    }

    /// Fills `buffer` from an offset of the text; returns `false` if not all of it is there.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
        let is_there = offset >= self.start && offset + buffer.len() as u64 <= self.end();
        if is_there {
            self.file.read_exact_at(buffer, offset - self.start)?;
        }
        Ok(is_there)
    }
}
