//! The frame of a record in a store (`docs/formats/record.md`).

use std::fmt;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::codec::{Coding, Compressor, Decompressor, Defect};
use super::dictionary::Dictionary;
use super::{Compression, varint};
use crate::limits::RECORD_LEN_MAX;

/// The version of the layout; there is room for up to 15.
pub const RECORD_VERSION: u8 = 1;

const CHECKSUM_LEN: usize = 4;

/// An encoder of records to frames; one per thread.
#[derive(Debug)]
pub struct Encoder {
    compressor: Compressor,
}

impl Encoder {
    /// Creates an encoder; `zstd+dict` without a dictionary compresses as `zstd` does.
    pub fn new(compression: Compression, dictionary: Option<&Arc<Dictionary>>) -> Self {
        Self { compressor: Compressor::new(compression, dictionary) }
    }

    /// Returns the dictionary in use.
    pub fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        self.compressor.dictionary()
    }

    /// Appends the frame of `raw`, which has at most [`RECORD_LEN_MAX`] bytes.
    ///
    /// `seed` distinguishes records: a record stored under another's key has a wrong checksum.
    pub fn encode(&mut self, seed: u64, raw: &[u8], out: &mut Vec<u8>) {
        debug_assert!(raw.len() <= RECORD_LEN_MAX, "a record of {} bytes", raw.len());
        let start = out.len();
        let id = self.compressor.dictionary().map(|dictionary| dictionary.id());
        out.push(0);
        out.extend(id);
        let checksum_at = out.len();
        out.extend_from_slice(&[0; CHECKSUM_LEN]);
        varint::put(raw.len() as u32, out);
        match self.compressor.compress(raw, out) {
            Some(coding) => {
                out[start] = RECORD_VERSION << 4 | coding as u8;
                seal(seed, out, start, checksum_at);
            }
            None => {
                out.truncate(start);
                out.push(RECORD_VERSION << 4 | Coding::None as u8);
                out.extend_from_slice(&[0; CHECKSUM_LEN]);
                out.extend_from_slice(raw);
                seal(seed, out, start, start + 1);
            }
        }
    }
}

/// Writes the checksum of the frame from `start` on.
fn seal(seed: u64, out: &mut [u8], start: usize, checksum_at: usize) {
    let (head, rest) = out.split_at_mut(checksum_at);
    let (place, rest) = rest.split_at_mut(CHECKSUM_LEN);
    place.copy_from_slice(&checksum(seed, &head[start..], rest).to_le_bytes());
}

/// Returns the checksum of the bytes before it (one or two) and after it.
fn checksum(seed: u64, head: &[u8], rest: &[u8]) -> u32 {
    let head = head.iter().fold(0, |head, byte| head << 8 | u64::from(*byte));
    xxh3_64_with_seed(rest, seed ^ head << 48) as u32
}

/// A decoder of frames; one per thread.
#[derive(Default)]
pub struct Decoder {
    decompressor: Decompressor,
    raw: Vec<u8>,
}

impl Decoder {
    /// Creates a decoder for every coding.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the record of a frame; if it was not compressed, the record is a part of `stored`.
    ///
    /// # Errors
    /// Returns the [`Defect`] of the frame; nothing is allocated before its checksum is verified.
    pub fn decode<'a>(
        &'a mut self,
        seed: u64,
        stored: &'a [u8],
        dictionaries: &dyn Fn(u8) -> Option<Arc<Dictionary>>,
    ) -> Result<&'a [u8], Defect> {
        let frame = Frame::split(seed, stored)?;
        if frame.coding == Coding::None {
            return Ok(frame.payload);
        }
        let dictionary = match frame.dictionary {
            Some(id) => Some(dictionaries(id).ok_or(Defect::Dictionary { id })?),
            None => None,
        };
        if self.raw.len() < frame.raw_len {
            self.raw.resize(frame.raw_len, 0);
        }
        let raw = &mut self.raw[..frame.raw_len];
        let dictionary = dictionary.as_deref();
        let len = self.decompressor.fill(frame.coding, dictionary, frame.payload, raw)?;
        (len == raw.len()).then_some(&*raw).ok_or(Defect::Payload)
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Decoder({} bytes)", self.raw.capacity())
    }
}

/// The parts of a frame with a valid checksum.
struct Frame<'a> {
    coding: Coding,
    dictionary: Option<u8>,
    raw_len: usize,
    payload: &'a [u8],
}

impl<'a> Frame<'a> {
    fn split(seed: u64, stored: &'a [u8]) -> Result<Self, Defect> {
        let &tag = stored.first().ok_or(Defect::Truncated)?;
        let (version, number) = (tag >> 4, tag & 15);
        if version != RECORD_VERSION {
            return Err(Defect::Version { version });
        }
        let coding = Coding::from_number(number).ok_or(Defect::Coding { coding: number })?;
        let head_len = 1 + usize::from(coding.has_dictionary());
        let (head, rest) = stored.split_at_checked(head_len).ok_or(Defect::Truncated)?;
        let (found, rest) = rest.split_first_chunk::<CHECKSUM_LEN>().ok_or(Defect::Truncated)?;
        if u32::from_le_bytes(*found) != checksum(seed, head, rest) {
            return Err(Defect::Checksum);
        }
        let dictionary = head.get(1).copied();
        if coding == Coding::None {
            return Ok(Self { coding, dictionary, raw_len: rest.len(), payload: rest });
        }
        let (raw_len, payload) = varint::take(rest).ok_or(Defect::Truncated)?;
        let raw_len = raw_len as usize;
        if raw_len > RECORD_LEN_MAX {
            return Err(Defect::TooLong { len: raw_len, max: RECORD_LEN_MAX });
        }
        Ok(Self { coding, dictionary, raw_len, payload })
    }
}

#[cfg(test)]
mod tests;
