//! A message on its way: in memory while it is small, else in a file without a name.

use std::io::{self, Read};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use barid::vfs::{File, Vfs, create_unlinked};
use barid::{FormatError, MessageRest};

use crate::limits::{DELIVERY_MEMORY_LEN, DELIVERY_PIECE_LEN, HEADER_LEN_MAX};

/// A message that was handed over.
pub struct SpooledMessage {
    vfs: Arc<dyn Vfs>,
    folder: PathBuf,
    memory: Vec<u8>,
    file: Option<Arc<dyn File>>,
    len: u64,
    len_max: u64,
}

/// A message was not taken.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// It is larger than allowed.
    #[error("the message has more than {0} bytes")]
    TooLarge(u64),
    /// An error of the file system, or of the source.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl SpooledMessage {
    /// Creates an empty message of at most `len_max` bytes; a large one goes to a file in `folder`.
    pub fn new(vfs: Arc<dyn Vfs>, folder: PathBuf, len_max: u64) -> Self {
        Self { vfs, folder, memory: Vec::new(), file: None, len: 0, len_max }
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// [`SpoolError::TooLarge`]; errors of the file system.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        if self.len.saturating_add(bytes.len() as u64) > self.len_max {
            return Err(SpoolError::TooLarge(self.len_max));
        }
        if self.file.is_none() && self.memory.len() + bytes.len() > DELIVERY_MEMORY_LEN {
            let file = create_unlinked(&*self.vfs, &self.folder)?;
            file.write_all_at(&self.memory, 0)?;
            self.memory = Vec::new();
            self.file = Some(Arc::from(file));
        }
        match &self.file {
            Some(file) => file.write_all_at(bytes, self.len)?,
            None => self.memory.extend_from_slice(bytes),
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Appends everything that a source has.
    ///
    /// # Errors
    /// As [`SpooledMessage::push`], and errors of the source.
    pub fn read_from(&mut self, source: &mut dyn Read) -> Result<(), SpoolError> {
        let mut piece = vec![0; DELIVERY_PIECE_LEN];
        loop {
            match source.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(len) => self.push(&piece[..len])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns `true` if there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns at most `len_max` bytes from the start.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn start(&self, len_max: usize) -> io::Result<Vec<u8>> {
        let len = usize::try_from(self.len).unwrap_or(usize::MAX).min(len_max);
        match &self.file {
            None => Ok(self.memory[..len].to_vec()),
            Some(file) => {
                let mut bytes = vec![0; len];
                let found = file.read_full_at(&mut bytes, 0)?;
                bytes.truncate(found);
                Ok(bytes)
            }
        }
    }

    /// Returns the header with the blank line after it; `None` if it has more than 16 MB.
    pub(crate) fn header(&self) -> io::Result<Option<Vec<u8>>> {
        let mut most = DELIVERY_PIECE_LEN;
        loop {
            let mut start = self.start(most)?;
            let end = barid::message::body_offset(&start);
            if end < start.len() || start.len() as u64 == self.len {
                start.truncate(end);
                return Ok(Some(start));
            }
            if most >= HEADER_LEN_MAX {
                return Ok(None);
            }
            most = (most * 8).min(HEADER_LEN_MAX);
        }
    }

    /// Returns the bytes from an offset on, for storing them.
    pub(crate) fn rest(&self, from: u64) -> SpooledRest<'_> {
        SpooledRest { message: self, range: from.min(self.len)..self.len }
    }

    /// Passes all bytes on in pieces.
    ///
    /// # Errors
    /// Errors of the file system and of `take`.
    pub fn read(&self, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        self.read_range(0..self.len, take)
    }

    fn read_range(
        &self,
        range: Range<u64>,
        take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(file) = &self.file else {
            return take(&self.memory[range.start as usize..range.end as usize]);
        };
        let (mut at, mut piece) = (range.start, vec![0; DELIVERY_PIECE_LEN]);
        while at < range.end {
            let most = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(piece.len());
            file.read_exact_at(&mut piece[..most], at)?;
            take(&piece[..most])?;
            at += most as u64;
        }
        Ok(())
    }
}

impl std::fmt::Debug for SpooledMessage {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_file = self.file.is_some();
        out.debug_struct("SpooledMessage")
            .field("len", &self.len)
            .field("is_file", &is_file)
            .finish()
    }
}

/// The body of a message, for storing it.
#[derive(Debug)]
pub(crate) struct SpooledRest<'a> {
    message: &'a SpooledMessage,
    range: Range<u64>,
}

impl MessageRest for SpooledRest<'_> {
    fn size(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn read(
        &self,
        take: &mut (dyn FnMut(&[u8]) -> Result<(), FormatError> + '_),
    ) -> Result<(), FormatError> {
        let mut failed = None;
        let read = self.message.read_range(self.range.clone(), &mut |piece| {
            take(piece).map_err(|error| {
                failed = Some(error);
                io::Error::other("not taken")
            })
        });
        match (failed, read) {
            (Some(error), _) => Err(error),
            (None, Ok(())) => Ok(()),
            (None, Err(source)) => {
                Err(FormatError::Io { path: self.message.folder.clone(), source })
            }
        }
    }
}
