//! gzip (RFC 1952): members in sequence, each with a header, deflated text, CRC and length.
//!
//! Decoding can begin at a member, and between two blocks of the deflated text if the 32 KB of text
//! before are known (RFC 1951 §2). The CRC of a member that was not read from its beginning is not
//! checked.

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_HAS_MORE_INPUT, TINFL_FLAG_STOP_ON_BLOCK_BOUNDARY,
};
use miniz_oxide::inflate::core::{BlockBoundaryState, DecompressorOxide, decompress};

use super::points::{BlockStart, DecodeStart};
use super::raw::Raw;
use super::{Decode, DecodeFault, Decoded};

/// Bytes of text that a deflated block may refer to.
pub(super) const WINDOW_LEN: usize = 32 * 1024;
/// Bytes of the circular buffer that receives the text: a power of two.
const BUFFER_LEN: usize = 64 * 1024;

const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
const HEADER_CRC: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;

#[derive(Clone, Copy, PartialEq, Eq)]
enum GzipState {
    /// Before a member, where decoding stops if the caller wants stops.
    Between,
    Header,
    Text,
    Trailer,
    Damaged,
    End,
}

/// A decoder of gzip.
pub(super) struct Gzip {
    raw: Raw,
    state: GzipState,
    inflate: Box<DecompressorOxide>,
    buffer: Box<[u8]>,
    /// Position in the buffer of the end of the text.
    at: usize,
    /// Bytes before that position that are not returned yet.
    ready: usize,
    /// Bytes of the buffer that hold text of this member.
    known: usize,
    /// Boundary between two blocks, reached after the text that is not returned yet.
    stopped: Option<DecodeStart>,
    /// CRC and length of the member so far, if it was read from its beginning.
    sum: Option<crc32fast::Hasher>,
    len: u32,
}

impl Gzip {
    pub(super) fn new(raw: Raw, place: &DecodeStart) -> Self {
        let mut buffer = vec![0; BUFFER_LEN].into_boxed_slice();
        let (mut state, mut at) = (GzipState::Between, 0);
        let mut inflate = Box::<DecompressorOxide>::default();
        if let Some(block) = &place.block {
            at = block.window.len().min(WINDOW_LEN);
            buffer[..at].copy_from_slice(&block.window[..at]);
            state = GzipState::Text;
            let (num_bits, bit_buf) = (block.bit_count, block.bits);
            let boundary =
                BlockBoundaryState { num_bits, bit_buf, ..BlockBoundaryState::default() };
            *inflate = DecompressorOxide::from_block_boundary_state(&boundary);
        }
        let (sum, len, stopped) = (None, 0, None);
        Self { raw, state, inflate, buffer, at, ready: 0, known: at, stopped, sum, len }
    }

    fn required(&mut self) -> Result<u8, DecodeFault> {
        self.raw.byte()?.ok_or(DecodeFault::Damaged)
    }

    fn skip(&mut self, len: usize) -> Result<(), DecodeFault> {
        (0..len).try_for_each(|_| self.required().map(drop))
    }

    fn skip_text(&mut self) -> Result<(), DecodeFault> {
        while self.required()? != 0 {}
        Ok(())
    }

    /// Reads the header of a member.
    fn header(&mut self) -> Result<(), DecodeFault> {
        for expected in MAGIC {
            if self.required()? != expected {
                return Err(DecodeFault::Damaged);
            }
        }
        let flags = self.required()?;
        self.skip(6)?;
        if flags & EXTRA != 0 {
            let len = u16::from_le_bytes([self.required()?, self.required()?]);
            self.skip(len.into())?;
        }
        for flag in [NAME, COMMENT] {
            if flags & flag != 0 {
                self.skip_text()?;
            }
        }
        if flags & HEADER_CRC != 0 {
            self.skip(2)?;
        }
        *self.inflate = DecompressorOxide::default();
        // This gives the same result for a damaged member that refers to text before its own,
        // whether the member before was read or not.
        self.buffer.fill(0);
        self.at = 0;
        (self.known, self.sum, self.len) = (0, Some(crc32fast::Hasher::new()), 0);
        self.state = GzipState::Text;
        Ok(())
    }

    /// Inflates up to the end of the buffer, or of a block.
    fn inflate(&mut self, stops: bool) -> Result<(), DecodeFault> {
        self.at %= BUFFER_LEN;
        let Self { raw, inflate, buffer, at, .. } = self;
        let input = raw.fill()?;
        let more = if input.is_empty() { 0 } else { TINFL_FLAG_HAS_MORE_INPUT };
        let stop = if stops { TINFL_FLAG_STOP_ON_BLOCK_BOUNDARY } else { 0 };
        let (status, used, made) = decompress(inflate, input, buffer, *at, more | stop);
        if let Some(sum) = &mut self.sum {
            sum.update(&self.buffer[self.at..self.at + made]);
        }
        self.len = self.len.wrapping_add(made as u32);
        self.raw.consume(used);
        self.at += made;
        self.ready = made;
        self.known = BUFFER_LEN.min(self.known + made);
        match status {
            TINFLStatus::Done => self.state = GzipState::Trailer,
            TINFLStatus::NeedsMoreInput if more != 0 => {}
            TINFLStatus::HasMoreOutput => {}
            TINFLStatus::BlockBoundary => self.stopped = self.place(),
            // The text before the damage is returned first.
            _ if made == 0 => return Err(DecodeFault::Damaged),
            _ => self.state = GzipState::Damaged,
        }
        Ok(())
    }

    /// Returns the boundary between two blocks that was reached.
    fn place(&self) -> Option<DecodeStart> {
        let state = self.inflate.block_boundary_state()?;
        let len = self.known.min(WINDOW_LEN);
        let mut window = Vec::with_capacity(len);
        let wrapped = len.saturating_sub(self.at);
        window.extend_from_slice(&self.buffer[BUFFER_LEN - wrapped..]);
        window.extend_from_slice(&self.buffer[self.at - (len - wrapped)..self.at]);
        let block = BlockStart { bit_count: state.num_bits, bits: state.bit_buf, window };
        Some(DecodeStart { raw: self.raw.offset(), block: Some(block) })
    }

    fn trailer(&mut self) -> Result<(), DecodeFault> {
        let mut words = [[0; 4]; 2];
        for byte in words.as_flattened_mut() {
            *byte = self.required()?;
        }
        let [sum, len] = words.map(u32::from_le_bytes);
        self.state = GzipState::Between;
        let is_sound =
            self.sum.take().is_none_or(|found| found.finalize() == sum && self.len == len);
        if is_sound { Ok(()) } else { Err(DecodeFault::Damaged) }
    }
}

impl Decode for Gzip {
    fn decode(&mut self, out: &mut [u8], stops: bool) -> Result<Decoded, DecodeFault> {
        loop {
            if self.ready > 0 {
                let len = self.ready.min(out.len());
                let from = self.at - self.ready;
                out[..len].copy_from_slice(&self.buffer[from..from + len]);
                self.ready -= len;
                return Ok(Decoded::Text(len));
            }
            if let Some(place) = self.stopped.take() {
                return Ok(Decoded::Stop(place));
            }
            match self.state {
                GzipState::Between => {
                    let is_end = self.raw.fill()?.is_empty();
                    self.state = if is_end { GzipState::End } else { GzipState::Header };
                    if stops && !is_end {
                        return Ok(Decoded::Stop(DecodeStart {
                            raw: self.raw.offset(),
                            block: None,
                        }));
                    }
                }
                GzipState::Header => self.header()?,
                GzipState::Text => self.inflate(stops)?,
                GzipState::Trailer => self.trailer()?,
                GzipState::Damaged => return Err(DecodeFault::Damaged),
                GzipState::End => return Ok(Decoded::End),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::Path;
    use std::sync::Arc;

    use barid_vfs::{MemVfs, OpenOptions, Vfs};

    use super::*;

    /// Decodes all text from a place on; returns it with the restart places and their offsets.
    fn text_from(bytes: &[u8], place: &DecodeStart) -> (Vec<u8>, Vec<(usize, DecodeStart)>) {
        let (vfs, path) = (MemVfs::new(), Path::new("/x"));
        let file = vfs.open(path, OpenOptions::create(0o600)).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        let mut decoder = Gzip::new(Raw::new(Arc::from(file), place.raw), place);
        let (mut text, mut places, mut buffer) = (Vec::new(), Vec::new(), [0; 100]);
        loop {
            match decoder.decode(&mut buffer, true) {
                Ok(Decoded::Text(len)) => text.extend_from_slice(&buffer[..len]),
                Ok(Decoded::Stop(place)) => places.push((text.len(), place)),
                Ok(Decoded::End) | Err(_) => return (text, places),
            }
        }
    }

    /// A member whose first match lies before its own text, in that of the member before.
    #[test]
    fn a_member_does_not_see_the_one_before() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(b"of the first member").unwrap();
        let mut bytes = encoder.finish().unwrap();
        bytes.extend_from_slice(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]);
        // One block of fixed codes: three bytes from a distance of one, and its end.
        bytes.extend_from_slice(&[0x03, 0x02, 0x00]);
        bytes.extend_from_slice(&crc32fast::hash(b"rrr").to_le_bytes());
        bytes.extend_from_slice(&3_u32.to_le_bytes());
        let start = DecodeStart { raw: 0, block: None };
        let (text, places) = text_from(&bytes, &start);
        assert!(places.len() > 1);
        for (offset, place) in &places {
            assert_eq!(text_from(&bytes, place).0, text[*offset..], "{offset}");
        }
    }
}
