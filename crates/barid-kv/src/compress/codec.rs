//! Compression and decompression of byte strings whose length is stored elsewhere.

use std::fmt;
use std::sync::Arc;

use libdeflater::CompressionLvl;
use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into};
use zstd_safe::{CCtx, CParameter, DCtx};

use super::dictionary::Dictionary;
use super::zstd_body;
use super::{Compression, Method};

/// The coding of compressed bytes; its number is stored with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Coding {
    /// The bytes themselves.
    None = 0,
    /// An LZ4 block.
    Lz4 = 1,
    /// A deflate stream without the header and the checksum of zlib.
    Deflate = 2,
    /// The blocks of a Zstandard frame.
    Zstd = 3,
    /// The content of the only block of a Zstandard frame.
    ZstdBlock = 4,
    /// [`Coding::Zstd`] with a dictionary.
    ZstdDict = 5,
    /// [`Coding::ZstdBlock`] with a dictionary.
    ZstdDictBlock = 6,
}

impl Coding {
    /// Returns the coding of this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::None,
            1 => Self::Lz4,
            2 => Self::Deflate,
            3 => Self::Zstd,
            4 => Self::ZstdBlock,
            5 => Self::ZstdDict,
            6 => Self::ZstdDictBlock,
            _ => return None,
        })
    }

    /// Returns `true` if decompression needs a dictionary.
    pub fn has_dictionary(self) -> bool {
        matches!(self, Self::ZstdDict | Self::ZstdDictBlock)
    }
}

/// A defect of stored bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Defect {
    /// The bytes end too early.
    #[error("truncated")]
    Truncated,
    /// The layout is unknown.
    #[error("unknown version {version}")]
    Version {
        /// The version.
        version: u8,
    },
    /// The coding is unknown.
    #[error("unknown coding {coding}")]
    Coding {
        /// Its number.
        coding: u8,
    },
    /// The bytes differ from those that were written.
    #[error("checksum mismatch")]
    Checksum,
    /// The dictionary is missing.
    #[error("no dictionary {id}")]
    Dictionary {
        /// Its id.
        id: u8,
    },
    /// The claimed length is longer than a record can be.
    #[error("{len} bytes, at most {max} are possible")]
    TooLong {
        /// The claimed length.
        len: usize,
        /// The longest possible.
        max: usize,
    },
    /// The bytes do not decompress to the expected length.
    #[error("compressed bytes cannot be read")]
    Payload,
}

enum Engine {
    None,
    Lz4(CompressTable),
    Deflate(libdeflater::Compressor),
    Zstd(CCtx<'static>),
    ZstdDict(CCtx<'static>, Arc<Dictionary>),
}

/// A compressor; one per thread.
pub struct Compressor {
    compression: Compression,
    engine: Engine,
}

impl Compressor {
    /// Creates a compressor; [`Method::ZstdDict`] without a dictionary is [`Method::Zstd`].
    pub fn new(compression: Compression, dictionary: Option<&Arc<Dictionary>>) -> Self {
        let level = compression.level;
        let engine = match (compression.method, dictionary) {
            (Method::None, _) => Engine::None,
            (Method::Lz4, _) => Engine::Lz4(CompressTable::small()),
            (Method::Zlib, _) => {
                let level = CompressionLvl::new(level.clamp(1, 9));
                let level = level.expect("because libdeflate has levels 0 to 12");
                Engine::Deflate(libdeflater::Compressor::new(level))
            }
            (Method::ZstdDict, Some(dictionary)) => {
                Engine::ZstdDict(CCtx::create(), Arc::clone(dictionary))
            }
            (Method::Zstd | Method::ZstdDict, _) => {
                let mut context = CCtx::create();
                let set = context.set_parameter(CParameter::CompressionLevel(level));
                set.expect("because zstd clamps levels");
                Engine::Zstd(context)
            }
        };
        Self { compression, engine }
    }

    /// Returns the compression that it was created for.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Returns the dictionary in use.
    pub fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        match &self.engine {
            Engine::ZstdDict(_, dictionary) => Some(dictionary),
            _ => None,
        }
    }

    /// Appends the compressed `raw`; appends nothing and returns `None` if that would not be
    /// shorter.
    pub fn compress(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Option<Coding> {
        let start = out.len();
        let coding = self.append(raw, out).filter(|_| out.len() - start < raw.len());
        if coding.is_none() {
            out.truncate(start);
        }
        coding
    }

    fn append(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Option<Coding> {
        let start = out.len();
        match &mut self.engine {
            Engine::None => None,
            Engine::Lz4(table) => {
                out.resize(start + lz4_flex::block::get_maximum_output_size(raw.len()), 0);
                let len = compress_into_with_table(raw, &mut out[start..], table).ok()?;
                out.truncate(start + len);
                Some(Coding::Lz4)
            }
            Engine::Deflate(context) => {
                out.resize(start + raw.len(), 0);
                let len = context.deflate_compress(raw, &mut out[start..]).ok()?;
                out.truncate(start + len);
                Some(Coding::Deflate)
            }
            Engine::Zstd(context) => {
                out.resize(start + zstd_safe::compress_bound(raw.len()), 0);
                let len = context.compress2(&mut out[start..], raw).ok()?;
                out.truncate(start + len);
                cut(out, start, false)
            }
            Engine::ZstdDict(context, dictionary) => {
                out.resize(start + zstd_safe::compress_bound(raw.len()), 0);
                let prepared = dictionary.for_compressing()?;
                let len = context.compress_using_cdict(&mut out[start..], raw, prepared).ok()?;
                out.truncate(start + len);
                cut(out, start, true)
            }
        }
    }
}

/// Removes the bytes before the blocks of the frame from `start` on.
fn cut(out: &mut Vec<u8>, start: usize, dictionary: bool) -> Option<Coding> {
    let (len, coding) = zstd_body::cut_of(&out[start..], dictionary)?;
    out.copy_within(start + len.., start);
    out.truncate(out.len() - len);
    Some(coding)
}

impl fmt::Debug for Compressor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Compressor({})", self.compression)
    }
}

/// A decompressor; one per thread. Contexts are created on first use.
#[derive(Default)]
pub struct Decompressor {
    zstd: Option<DCtx<'static>>,
    deflate: Option<libdeflater::Decompressor>,
    frame: Vec<u8>,
}

impl Decompressor {
    /// Creates a decompressor for every coding.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends exactly `raw_len` bytes, or nothing.
    ///
    /// `raw_len` bytes are allocated before `stored` is read: the caller bounds it.
    ///
    /// # Errors
    /// Returns [`Defect::Payload`], and [`Defect::Dictionary`] with an id of 0 if a required
    /// dictionary is not given.
    pub fn decompress(
        &mut self,
        coding: Coding,
        dictionary: Option<&Dictionary>,
        stored: &[u8],
        raw_len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Defect> {
        let start = out.len();
        out.resize(start + raw_len, 0);
        let filled = self.fill(coding, dictionary, stored, &mut out[start..]);
        let filled = filled.and_then(|len| (len == raw_len).then_some(()).ok_or(Defect::Payload));
        if filled.is_err() {
            out.truncate(start);
        }
        filled
    }

    /// Decompresses into `raw` and returns the number of bytes filled.
    pub(super) fn fill(
        &mut self,
        coding: Coding,
        dictionary: Option<&Dictionary>,
        stored: &[u8],
        raw: &mut [u8],
    ) -> Result<usize, Defect> {
        match coding {
            Coding::None => {
                let same = raw.len() == stored.len();
                same.then(|| raw.copy_from_slice(stored)).ok_or(Defect::Payload)?;
                Ok(raw.len())
            }
            Coding::Lz4 => decompress_into(stored, raw).map_err(|_| Defect::Payload),
            Coding::Deflate => {
                let context = self.deflate.get_or_insert_with(libdeflater::Decompressor::new);
                context.deflate_decompress(stored, raw).map_err(|_| Defect::Payload)
            }
            Coding::Zstd | Coding::ZstdBlock => {
                self.restore(coding == Coding::ZstdBlock, stored, raw.len())?;
                let context = self.zstd.get_or_insert_with(DCtx::create);
                context.decompress(raw, &self.frame).map_err(|_| Defect::Payload)
            }
            Coding::ZstdDict | Coding::ZstdDictBlock => {
                let dictionary = dictionary.ok_or(Defect::Dictionary { id: 0 })?;
                self.restore(coding == Coding::ZstdDictBlock, stored, raw.len())?;
                let context = self.zstd.get_or_insert_with(DCtx::create);
                let prepared = dictionary.for_decompressing();
                let filled = context.decompress_using_ddict(raw, &self.frame, prepared);
                filled.map_err(|_| Defect::Payload)
            }
        }
    }

    fn restore(&mut self, lone: bool, stored: &[u8], raw_len: usize) -> Result<(), Defect> {
        let raw_len = u32::try_from(raw_len).map_err(|_| Defect::Payload)?;
        zstd_body::restore(stored, lone, raw_len, &mut self.frame).ok_or(Defect::Payload)
    }
}

impl fmt::Debug for Decompressor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Decompressor")
    }
}
