//! Compressed files, which are read-only.
//!
//! A text is decompressed from its beginning to its end ([`Text`]). Its last megabytes stay in
//! memory, so that several threads that read one message after the other decompress it once. On the
//! way the decoder notes restart points ([`Points`]): positions from which it can continue without
//! the bytes before. A message anywhere in the file is read from the restart point before it.
//! The text of a file without any goes to a spill file once a reader goes back ([`spill::Spill`]).
//! Damage ends the mailbox where it begins, and the scan reports it.

mod bzip;
mod gzip;
mod points;
mod raw;
mod shared;
mod spill;
mod text;
mod xz;
mod zstandard;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use barid_vfs::File;

use self::bzip::Bzip;
use self::gzip::Gzip;
use self::raw::Raw;
use self::xz::Xz;
use self::zstandard::Zstandard;

pub(super) use self::points::{DecodeStart, Points};
pub(super) use self::shared::SharedText;
pub(super) use self::text::{CompressedSource, Text};

/// A compression format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    /// RFC 1952, any number of members.
    Gzip,
    /// RFC 8878, any number of frames.
    Zstd,
    /// bzip2, any number of streams.
    Bzip2,
    /// xz, any number of streams.
    Xz,
}

impl Compression {
    /// Returns the compression by the extension of a file name.
    pub(super) fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "gz" => Some(Self::Gzip),
            "zst" => Some(Self::Zstd),
            "bz2" => Some(Self::Bzip2),
            "xz" => Some(Self::Xz),
            _ => None,
        }
    }

    /// Returns a decoder that begins at a place.
    fn decoder(self, file: &Arc<dyn File>, place: &DecodeStart) -> io::Result<Box<dyn Decode>> {
        let raw = Raw::new(Arc::clone(file), place.raw);
        Ok(match self {
            Self::Gzip => Box::new(Gzip::new(raw, place)),
            Self::Zstd => Box::new(Zstandard::new(raw)?),
            Self::Bzip2 => Box::new(Bzip::new(raw, place)),
            Self::Xz => Box::new(Xz::new(file, raw)?),
        })
    }
}

/// A decoder of one compression format.
trait Decode: Send {
    /// Decompresses into `out`, which is not empty. With `stops` it also ends at every place from
    /// which decoding can begin anew.
    fn decode(&mut self, out: &mut [u8], stops: bool) -> Result<Decoded, DecodeFault>;
}

/// The result of one call of a decoder.
enum Decoded {
    /// Bytes of text.
    Text(usize),
    /// No text, but a place from which decoding can begin.
    Stop(DecodeStart),
    /// The end of the file.
    End,
}

/// A reason why decompression ends.
enum DecodeFault {
    /// The file cannot be read.
    File(io::Error),
    /// The bytes are not valid compressed data.
    Damaged,
}

impl From<io::Error> for DecodeFault {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

/// The offset where a text ended because the rest cannot be decompressed.
#[derive(Clone, Debug)]
pub(super) struct TextEnd(Arc<AtomicU64>);

impl Default for TextEnd {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

impl TextEnd {
    /// Returns the offset in the text, if there is any damage.
    pub(super) fn offset(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|offset| *offset != u64::MAX)
    }

    fn set(&self, offset: u64) {
        self.0.store(offset, Ordering::Relaxed);
    }
}
