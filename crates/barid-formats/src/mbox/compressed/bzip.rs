//! bzip2: streams in sequence, each a header, blocks, and an end.
//!
//! A block is compressed by itself and begins with a 48-bit mark at any bit offset, so decoding can
//! begin at each. A block is passed to the decoder as the first of a stream of its own. If bits
//! within a block look like a mark, the decoder returns no text for the bytes up to there, and gets
//! more of them. The checksum of a whole stream is not verified: each block has its own.

use bzip2::{Decompress, Status};

use super::points::{BlockStart, DecodeStart};
use super::raw::Raw;
use super::{Decode, DecodeFault, Decoded};

const BLOCK_MARK: u64 = 0x3141_5926_5359;
const END_MARK: u64 = 0x1772_4538_5090;
const MARK_LEN: u64 = 48;
const MARK_MASK: u64 = (1 << MARK_LEN) - 1;
/// Bytes of a block: 900 KB of incompressible text, and some room.
const BLOCK_LEN_MAX: usize = 4 << 20;
/// The header of a stream of blocks of any size.
const HEADER: &[u8] = b"BZh9";

#[derive(Clone, Copy, PartialEq, Eq)]
enum BzipState {
    /// Before the header of a stream.
    Between,
    /// At the mark of a block.
    Block,
    /// In a block that was passed to the decoder.
    Text,
    End,
}

/// A decoder of bzip2.
pub(super) struct Bzip {
    raw: Raw,
    state: BzipState,
    /// Compressed bytes, from the one in which the block starts.
    block: Vec<u8>,
    /// Bit of the first of these bytes at which the block starts.
    bit: u8,
    /// Offset in the file of the first of these bytes.
    offset: u64,
    /// Number of bits searched for marks.
    searched: u64,
    /// Bit offset of the mark that was found.
    end: u64,
    ends_stream: bool,
    decoder: Option<Decompress>,
    /// Bytes of the block passed to the decoder.
    fed: usize,
    is_stopped: bool,
}

impl Bzip {
    pub(super) fn new(raw: Raw, place: &DecodeStart) -> Self {
        let (state, bit) = match &place.block {
            Some(block) => (BzipState::Block, block.bit_count),
            None => (BzipState::Between, 0),
        };
        Self {
            raw,
            state,
            block: Vec::new(),
            bit,
            offset: place.raw,
            searched: 0,
            end: 0,
            ends_stream: false,
            decoder: None,
            fed: 0,
            is_stopped: false,
        }
    }

    /// Reads the header of a stream, and the mark after it.
    fn header(&mut self) -> Result<BzipState, DecodeFault> {
        self.offset = self.raw.offset();
        let Some(first) = self.raw.byte()? else { return Ok(BzipState::End) };
        let mut header = [first, 0, 0, 0];
        for byte in &mut header[1..] {
            *byte = self.raw.byte()?.ok_or(DecodeFault::Damaged)?;
        }
        if header[..3] != HEADER[..3] || !matches!(header[3], b'1'..=b'9') {
            return Err(DecodeFault::Damaged);
        }
        self.offset = self.raw.offset();
        (self.bit, self.searched) = (0, 0);
        self.block.clear();
        match self.mark()? {
            BLOCK_MARK => Ok(BzipState::Block),
            END_MARK => self.skip_check(),
            _ => Err(DecodeFault::Damaged),
        }
    }

    /// Returns the mark at the start of the block.
    fn mark(&mut self) -> Result<u64, DecodeFault> {
        while self.block.len() < 7 {
            match self.raw.byte()? {
                Some(byte) => self.block.push(byte),
                None => return Err(DecodeFault::Damaged),
            }
        }
        let word = self.block[..7].iter().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
        Ok(word >> (8 - u32::from(self.bit)) & MARK_MASK)
    }

    /// Skips the checksum after the end mark of an empty stream, of which one byte was read.
    fn skip_check(&mut self) -> Result<BzipState, DecodeFault> {
        for _ in 0..3 {
            self.raw.byte()?.ok_or(DecodeFault::Damaged)?;
        }
        Ok(BzipState::Between)
    }

    /// Reads up to the next mark, which may end the block.
    fn find_end(&mut self) -> Result<(), DecodeFault> {
        let mut at = (self.searched / 8) as usize;
        let known = &self.block[at.saturating_sub(6)..at];
        let mut word = known.iter().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
        let own_end = u64::from(self.bit) + MARK_LEN;
        loop {
            if at == self.block.len() {
                let byte = self.raw.byte()?.ok_or(DecodeFault::Damaged)?;
                self.block.push(byte);
            }
            if at > BLOCK_LEN_MAX {
                return Err(DecodeFault::Damaged);
            }
            word = word << 8 | u64::from(self.block[at]);
            at += 1;
            for left in (0..8).rev() {
                let mark = word >> left & MARK_MASK;
                let end = at as u64 * 8 - left;
                if matches!(mark, BLOCK_MARK | END_MARK) && end > self.searched.max(own_end) {
                    self.searched = end;
                    self.end = end - MARK_LEN;
                    self.ends_stream = mark == END_MARK;
                    return Ok(());
                }
            }
        }
    }

    /// Passes the block, up to the mark that was found, to the decoder; returns the bytes of text.
    fn feed(&mut self, out: &mut [u8]) -> Result<usize, DecodeFault> {
        let bit = u32::from(self.bit);
        let end = (self.end - u64::from(bit)).div_ceil(8) as usize;
        // The decoder gets the block aligned to a byte.
        let aligned = |at: usize| {
            let pair = u16::from_be_bytes([self.block[at], self.block[at + 1]]);
            (pair >> (8 - bit)) as u8
        };
        let bytes: Vec<u8> = (self.fed..end.max(self.fed)).map(aligned).collect();
        self.fed += bytes.len();
        let mut decoder = match self.decoder.take() {
            Some(decoder) => decoder,
            None => {
                let mut decoder = Decompress::new(false);
                step(&mut decoder, HEADER, &mut [])?;
                decoder
            }
        };
        let made = step(&mut decoder, &bytes, out)?;
        self.decoder = Some(decoder);
        Ok(made)
    }

    /// Moves to the mark that ended the block.
    fn next_block(&mut self) -> Result<BzipState, DecodeFault> {
        (self.decoder, self.fed, self.is_stopped) = (None, 0, false);
        let (first, bit) = (self.end / 8, (self.end % 8) as u8);
        self.block.drain(..first as usize);
        self.offset += first;
        (self.bit, self.searched) = (bit, 0);
        if !self.ends_stream {
            return Ok(BzipState::Block);
        }
        // The mark, the checksum of 32 bits, and padding up to a byte boundary.
        let len = (usize::from(bit) + 48 + 32).div_ceil(8);
        for _ in self.block.len()..len {
            self.raw.byte()?.ok_or(DecodeFault::Damaged)?;
        }
        Ok(BzipState::Between)
    }

    fn place(&self) -> DecodeStart {
        let block = BlockStart { bit_count: self.bit, ..BlockStart::default() };
        DecodeStart { raw: self.offset, block: Some(block) }
    }
}

/// Runs the decoder; returns the number of bytes of text.
fn step(decoder: &mut Decompress, bytes: &[u8], out: &mut [u8]) -> Result<usize, DecodeFault> {
    let (read, written) = (decoder.total_in(), decoder.total_out());
    let mut rest = bytes;
    loop {
        let before = (decoder.total_in(), decoder.total_out());
        let room = &mut out[(before.1 - written) as usize..];
        match decoder.decompress(rest, room) {
            Ok(Status::Ok | Status::StreamEnd | Status::RunOk) => {}
            _ => return Err(DecodeFault::Damaged),
        }
        rest = &bytes[(decoder.total_in() - read) as usize..];
        let made = (decoder.total_out() - written) as usize;
        if made == out.len() || before == (decoder.total_in(), decoder.total_out()) {
            return Ok(made);
        }
    }
}

impl Decode for Bzip {
    fn decode(&mut self, out: &mut [u8], stops: bool) -> Result<Decoded, DecodeFault> {
        loop {
            match self.state {
                BzipState::Between => self.state = self.header()?,
                BzipState::Block if stops && !self.is_stopped => {
                    self.is_stopped = true;
                    return Ok(Decoded::Stop(self.place()));
                }
                BzipState::Block => {
                    if self.mark()? != BLOCK_MARK {
                        return Err(DecodeFault::Damaged);
                    }
                    let mut made = 0;
                    while made == 0 {
                        self.find_end()?;
                        made = self.feed(out)?;
                    }
                    self.state = BzipState::Text;
                    return Ok(Decoded::Text(made));
                }
                BzipState::Text => {
                    let decoder = self.decoder.as_mut().ok_or(DecodeFault::Damaged)?;
                    let made = step(decoder, &[], out)?;
                    if made > 0 {
                        return Ok(Decoded::Text(made));
                    }
                    self.state = self.next_block()?;
                }
                BzipState::End => return Ok(Decoded::End),
            }
        }
    }
}
