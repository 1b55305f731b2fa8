//! Zlib streams that are read piece by piece, and blobs of any size.

use std::path::PathBuf;
use std::sync::Arc;

use barid_vfs::File;
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};

use super::cache::Bytes;
use super::error::{ObjectError, ObjectResult};
use super::limits::PIECE_LEN;

/// Text that comes out of a zlib stream in a file.
pub(super) struct ZlibReader {
    file: Arc<dyn File>,
    path: PathBuf,
    /// Offset of the compressed bytes that follow `input`.
    offset: u64,
    input: Vec<u8>,
    used: usize,
    state: Box<InflateState>,
    is_done: bool,
}

impl ZlibReader {
    /// Makes the reader of the stream that begins at `offset`.
    pub(super) fn new(file: Arc<dyn File>, path: PathBuf, offset: u64) -> Self {
        let state = InflateState::new_boxed(DataFormat::Zlib);
        Self { file, path, offset, input: Vec::new(), used: 0, state, is_done: false }
    }

    /// Fills the buffer as far as the text goes; returns the number of bytes.
    pub(super) fn read(&mut self, out: &mut [u8]) -> ObjectResult<usize> {
        let mut made = 0;
        while made < out.len() && !self.is_done {
            if self.used == self.input.len() {
                self.input.resize(PIECE_LEN, 0);
                let at = ObjectError::at(&self.path);
                let len = self.file.read_full_at(&mut self.input, self.offset).map_err(at)?;
                self.input.truncate(len);
                (self.used, self.offset) = (0, self.offset + len as u64);
            }
            let input = &self.input[self.used..];
            let is_end = input.is_empty();
            let result = inflate(&mut self.state, input, &mut out[made..], MZFlush::None);
            self.used += result.bytes_consumed;
            made += result.bytes_written;
            match result.status {
                Ok(MZStatus::StreamEnd) => self.is_done = true,
                Ok(_) | Err(MZError::Buf) if !is_end || result.bytes_written > 0 => {}
                _ => return Err(self.damaged()),
            }
        }
        Ok(made)
    }

    /// Checks that the text ends here, with its checksum.
    pub(super) fn finish(&mut self) -> ObjectResult<()> {
        match self.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(self.damaged()),
        }
    }

    fn damaged(&self) -> ObjectError {
        ObjectError::damaged(&self.path, "cannot be decompressed: its data is damaged")
    }
}

/// A blob that is read from any offset; going forward costs least.
pub(crate) enum BlobStream {
    /// A blob in memory.
    Whole(Bytes),
    /// A blob that is decompressed as far as it is read.
    Zlib(Box<ZlibBlob>),
}

/// A blob in a zlib stream.
pub(crate) struct ZlibBlob {
    file: Arc<dyn File>,
    path: PathBuf,
    /// Offset of the stream, and number of bytes of its text before the blob.
    start: (u64, u64),
    size: u64,
    reader: ZlibReader,
    at: u64,
}

impl BlobStream {
    /// Makes the stream of a blob of `size` bytes after the first `start.1` bytes of the text of
    /// the zlib stream at `start.0`.
    pub(super) fn new(
        (file, path): (Arc<dyn File>, PathBuf),
        start: (u64, u64),
        size: u64,
    ) -> Self {
        let reader = ZlibReader::new(Arc::clone(&file), path.clone(), start.0);
        Self::Zlib(Box::new(ZlibBlob { file, path, start, size, reader, at: 0 }))
    }

    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Whole(bytes) => bytes.len() as u64,
            Self::Zlib(blob) => blob.size,
        }
    }

    /// Fills `buffer` from `offset` on; all of it must be in the blob.
    pub(crate) fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> ObjectResult<()> {
        match self {
            Self::Whole(bytes) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX);
                let piece = bytes.get(from..).and_then(|rest| rest.get(..buffer.len()));
                if let Some(piece) = piece {
                    buffer.copy_from_slice(piece);
                }
                Ok(())
            }
            Self::Zlib(blob) => blob.read_at(buffer, offset),
        }
    }
}

impl ZlibBlob {
    fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> ObjectResult<()> {
        let target = self.start.1.saturating_add(offset);
        if target < self.at {
            self.reader = ZlibReader::new(Arc::clone(&self.file), self.path.clone(), self.start.0);
            self.at = 0;
        }
        let mut scratch = vec![0; PIECE_LEN.min((target - self.at) as usize)];
        while self.at < target {
            let len = scratch.len().min((target - self.at) as usize);
            self.fill(&mut scratch[..len])?;
        }
        self.fill(buffer)?;
        if self.at == self.start.1 + self.size {
            self.reader.finish()?;
        }
        Ok(())
    }

    fn fill(&mut self, buffer: &mut [u8]) -> ObjectResult<()> {
        let len = self.reader.read(buffer)?;
        self.at += len as u64;
        match len == buffer.len() {
            true => Ok(()),
            false => Err(self.reader.damaged()),
        }
    }
}
