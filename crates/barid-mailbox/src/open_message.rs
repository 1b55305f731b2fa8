//! Messages that are read piece by piece.

use std::fmt;

use crate::Result;

/// A function that fills a buffer from an offset of the stored message.
pub type ReadPiece<'m> = dyn FnMut(&mut [u8], u64) -> Result<()> + 'm;

/// A message of any size that is open for reading.
pub struct OpenMessage<'m> {
    separator_len: u64,
    len: u64,
    read: Box<ReadPiece<'m>>,
}

impl fmt::Debug for OpenMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { separator_len, len, .. } = self;
        f.debug_struct("OpenMessage")
            .field("separator_len", separator_len)
            .field("len", len)
            .finish()
    }
}

impl<'m> OpenMessage<'m> {
    /// Makes a message of `len` bytes, its separator included, that `read` reads.
    pub fn new(
        separator_len: u64,
        len: u64,
        read: impl FnMut(&mut [u8], u64) -> Result<()> + 'm,
    ) -> Self {
        Self { separator_len, len, read: Box::new(read) }
    }

    /// Returns the length of the separator before the header, in bytes.
    pub fn separator_len(&self) -> u64 {
        self.separator_len
    }

    /// Returns the length of separator, header and body, in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns `true` if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads bytes as stored, starting at `offset`; returns how many, which is less than the length
    /// of the buffer only at the end.
    ///
    /// # Errors
    /// [`Error::MessageGone`](crate::Error::MessageGone) if they may have moved since the message
    /// was opened; errors of the file system.
    pub fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let left = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = buffer.len().min(left);
        if len > 0 {
            (self.read)(&mut buffer[..len], offset)?;
        }
        Ok(len)
    }
}
