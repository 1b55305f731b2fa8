//! Files compressed by gzip or zstd, which are only read.
//!
//! Nothing but a window of the text is ever in memory. A place in the text is reached by
//! decompressing everything before it, so reading one message costs O(offset), and a scan uses one
//! thread. What cannot be decompressed ends the mailbox there, and the scan says so.

use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use barid_vfs::File;
use flate2::bufread::MultiGzDecoder;
use zstd::stream::read::Decoder as ZstdDecoder;

use super::layout::{COMPRESSED_READ_LEN, SKIP_LEN, ZSTD_WINDOW_LOG_MAX};
use super::window::Source;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    /// RFC 1952, any number of members.
    Gzip,
    /// RFC 8878, any number of frames.
    Zstd,
}

impl Compression {
    /// What the name of a file says.
    pub(super) fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "gz" => Some(Self::Gzip),
            "zst" => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// Where the text ended because what follows cannot be decompressed.
#[derive(Clone, Debug)]
pub(super) struct Damage(Arc<AtomicU64>);

impl Default for Damage {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

impl Damage {
    /// The offset in the text, if there is any damage.
    pub(super) fn offset(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|offset| *offset != u64::MAX)
    }
}

/// The text of a compressed file.
pub(super) struct CompressedSource<'f> {
    file: &'f dyn File,
    compression: Compression,
    decoder: Option<Box<dyn Read + 'f>>,
    offset: u64,
    ended: bool,
    failure: Arc<AtomicU64>,
    damage: Damage,
}

impl<'f> CompressedSource<'f> {
    pub(super) fn new(file: &'f dyn File, compression: Compression, damage: Damage) -> Self {
        let failure = Arc::new(AtomicU64::new(0));
        Self { file, compression, decoder: None, offset: 0, ended: false, failure, damage }
    }

    fn restart(&mut self) -> io::Result<()> {
        let raw = RawReader { file: self.file, offset: 0, failures: Arc::clone(&self.failure) };
        let raw = BufReader::with_capacity(COMPRESSED_READ_LEN, raw);
        self.decoder = Some(match self.compression {
            Compression::Gzip => Box::new(MultiGzDecoder::new(raw)),
            Compression::Zstd => {
                let mut decoder = ZstdDecoder::with_buffer(raw)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Box::new(decoder)
            }
        });
        self.offset = 0;
        self.ended = false;
        Ok(())
    }

    /// Reads on from where the text was left.
    fn read_on(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut len = 0;
        while len < buffer.len() && !self.ended {
            let Some(decoder) = &mut self.decoder else { break };
            match decoder.read(&mut buffer[len..]) {
                Ok(0) => self.ended = true,
                Ok(read) => {
                    len += read;
                    self.offset += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if self.failure.load(Ordering::Relaxed) > 0 => return Err(error),
                Err(_) => {
                    self.ended = true;
                    self.damage.0.store(self.offset, Ordering::Relaxed);
                }
            }
        }
        Ok(len)
    }
}

impl Source for CompressedSource<'_> {
    fn read_full_at(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.decoder.is_none() || offset < self.offset {
            self.restart()?;
        }
        let mut skipped = vec![0; SKIP_LEN.min((offset - self.offset) as usize)];
        while self.offset < offset && !self.ended {
            let len = skipped.len().min((offset - self.offset) as usize);
            self.read_on(&mut skipped[..len])?;
        }
        self.read_on(buffer)
    }

    fn is_random_access(&self) -> bool {
        false
    }
}

/// The compressed bytes; counts errors that are the file's and not the decoder's.
struct RawReader<'f> {
    file: &'f dyn File,
    offset: u64,
    failures: Arc<AtomicU64>,
}

impl Read for RawReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.offset).inspect_err(|_| {
            self.failures.fetch_add(1, Ordering::Relaxed);
        })?;
        self.offset += read as u64;
        Ok(read)
    }
}
