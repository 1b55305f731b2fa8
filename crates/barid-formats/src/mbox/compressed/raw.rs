//! The compressed bytes of a file.

use std::io;
use std::sync::Arc;

use barid_vfs::File;

use super::super::layout::COMPRESSED_READ_LEN;

/// A buffered reader that knows its offset.
pub(super) struct Raw {
    file: Arc<dyn File>,
    buffer: Vec<u8>,
    at: usize,
    /// Offset in the file of the end of the buffer.
    end: u64,
}

impl Raw {
    pub(super) fn new(file: Arc<dyn File>, offset: u64) -> Self {
        Self { file, buffer: Vec::new(), at: 0, end: offset }
    }

    /// Returns bytes that are not consumed yet; empty at the end of the file.
    pub(super) fn fill(&mut self) -> io::Result<&[u8]> {
        if self.at == self.buffer.len() {
            self.buffer.resize(COMPRESSED_READ_LEN, 0);
            self.at = 0;
            let read = self.file.read_at(&mut self.buffer, self.end);
            self.buffer.truncate(*read.as_ref().unwrap_or(&0));
            self.end += read? as u64;
        }
        Ok(&self.buffer[self.at..])
    }

    pub(super) fn consume(&mut self, len: usize) {
        self.at += len;
    }

    /// Returns the offset of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.end - (self.buffer.len() - self.at) as u64
    }

    /// Moves to an offset.
    pub(super) fn seek(&mut self, offset: u64) {
        match offset.checked_sub(self.offset()) {
            Some(ahead) if offset <= self.end => self.at += ahead as usize,
            _ => {
                self.buffer.clear();
                (self.at, self.end) = (0, offset);
            }
        }
    }

    /// Reads a byte; `None` at the end of the file.
    pub(super) fn byte(&mut self) -> io::Result<Option<u8>> {
        let byte = self.fill()?.first().copied();
        self.at += usize::from(byte.is_some());
        Ok(byte)
    }
}
