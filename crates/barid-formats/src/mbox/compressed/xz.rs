//! xz: streams in sequence, each of blocks and an index of them. Decoding can begin at any block,
//! since a block depends on nothing before it but the flags of its stream.
//!
//! The indexes are read from the end of the file, in a few small reads. If they cannot be read (the
//! file is cut short, or has too many blocks), the streams are decoded one after the other.

use std::io;
use std::sync::Arc;

use barid_vfs::File;
use lzma_rust2::{Action, Status, XzStream};

use super::super::layout::{XZ_BLOCKS_MAX, XZ_INDEX_LEN_MAX, XZ_MEMORY_MAX_KB};
use super::points::DecodeStart;
use super::raw::Raw;
use super::{Decode, DecodeFault, Decoded};

const MAGIC: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];
const END_MAGIC: [u8; 2] = *b"YZ";
/// Bytes of the header of a stream, and of its footer.
const HEADER_LEN: u64 = 12;

/// A decoder of xz.
pub(super) struct Xz {
    raw: Raw,
    /// The blocks of the file; `None` if its indexes could not be read.
    blocks: Option<Vec<XzBlock>>,
    /// The next block, or the one that is being decoded.
    next: usize,
    /// `None` between two blocks, or between two streams if blocks are unknown.
    decoder: Option<Box<XzStream>>,
    is_stopped: bool,
}

/// A block of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct XzBlock {
    raw: u64,
    /// Bytes in the file, padding included.
    len: u64,
    text_len: u64,
    /// Flags in the header of its stream.
    flags: [u8; 2],
}

impl Xz {
    /// Begins at the block or stream at the offset of `raw`.
    pub(super) fn new(file: &Arc<dyn File>, raw: Raw) -> io::Result<Self> {
        let blocks = blocks(&**file)?;
        let begin =
            |blocks: &Vec<XzBlock>| blocks.partition_point(|block| block.raw < raw.offset());
        let next = blocks.as_ref().map_or(0, begin);
        Ok(Self { raw, blocks, next, decoder: None, is_stopped: false })
    }

    /// Decompresses some of a block.
    fn decode_block(&mut self, out: &mut [u8], stops: bool) -> Result<Decoded, DecodeFault> {
        loop {
            let all = self.blocks.as_deref().unwrap_or_default();
            let Some(block) = all.get(self.next).copied() else { return Ok(Decoded::End) };
            if self.decoder.is_none() {
                self.raw.seek(block.raw);
                if stops && !self.is_stopped {
                    self.is_stopped = true;
                    return Ok(Decoded::Stop(DecodeStart { raw: block.raw, block: None }));
                }
                let mut decoder = new_decoder();
                let begun = decoder.process(&header(block.flags), &mut [], Action::Run);
                begun.map_err(|_| DecodeFault::Damaged)?;
                self.decoder = Some(decoder);
                self.is_stopped = false;
            }
            let left = block.raw + block.len - self.raw.offset();
            let input = if left > 0 { self.raw.fill()? } else { &[] };
            if input.is_empty() && left > 0 {
                return Err(DecodeFault::Damaged);
            }
            let input = &input[..input.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            let Some(decoder) = &mut self.decoder else { continue };
            let done =
                decoder.process(input, out, Action::Run).map_err(|_| DecodeFault::Damaged)?;
            self.raw.consume(done.bytes_consumed);
            if done.bytes_produced > 0 {
                return Ok(Decoded::Text(done.bytes_produced));
            }
            // The block ended before its length in the index.
            if left > 0 && done.bytes_consumed == 0 {
                return Err(DecodeFault::Damaged);
            }
            if left == 0 {
                if decoder.total_out() != block.text_len {
                    return Err(DecodeFault::Damaged);
                }
                self.decoder = None;
                self.next += 1;
            }
        }
    }

    /// Skips the padding between streams: NULs.
    fn skip_padding(&mut self) -> Result<(), DecodeFault> {
        while let [0, ..] = self.raw.fill()? {
            self.raw.consume(1);
        }
        Ok(())
    }

    /// Decompresses some of a stream.
    fn decode_stream(&mut self, out: &mut [u8], stops: bool) -> Result<Decoded, DecodeFault> {
        loop {
            if self.decoder.is_none() {
                self.skip_padding()?;
                if self.raw.fill()?.is_empty() {
                    return Ok(Decoded::End);
                }
                if stops && !self.is_stopped {
                    self.is_stopped = true;
                    return Ok(Decoded::Stop(DecodeStart { raw: self.raw.offset(), block: None }));
                }
            }
            let decoder = self.decoder.get_or_insert_with(new_decoder);
            let input = self.raw.fill()?;
            let is_end = input.is_empty();
            let action = if is_end { Action::Finish } else { Action::Run };
            let done = decoder.process(input, out, action).map_err(|_| DecodeFault::Damaged)?;
            self.raw.consume(done.bytes_consumed);
            self.is_stopped = false;
            if matches!(done.status, Status::StreamEnd) {
                self.decoder = None;
            }
            if done.bytes_produced > 0 {
                return Ok(Decoded::Text(done.bytes_produced));
            }
            if is_end && self.decoder.is_some() {
                return Err(DecodeFault::Damaged);
            }
        }
    }
}

impl Decode for Xz {
    fn decode(&mut self, out: &mut [u8], stops: bool) -> Result<Decoded, DecodeFault> {
        match self.blocks {
            Some(_) => self.decode_block(out, stops),
            None => self.decode_stream(out, stops),
        }
    }
}

fn new_decoder() -> Box<XzStream> {
    Box::new(XzStream::new_mem_limit(false, XZ_MEMORY_MAX_KB))
}

/// Returns the header of a stream with these flags.
fn header(flags: [u8; 2]) -> [u8; HEADER_LEN as usize] {
    let mut header = [0; HEADER_LEN as usize];
    header[..6].copy_from_slice(&MAGIC);
    header[6..8].copy_from_slice(&flags);
    header[8..].copy_from_slice(&crc32fast::hash(&flags).to_le_bytes());
    header
}

/// Reads the indexes of all streams; `None` if they do not account for every byte of the file.
fn blocks(file: &dyn File) -> io::Result<Option<Vec<XzBlock>>> {
    let (mut end, mut streams) = (file.metadata()?.size, Vec::new());
    let mut count = 0;
    while end > 0 {
        let Some(footer_at) = end.checked_sub(HEADER_LEN) else { return Ok(None) };
        let mut footer = [0; HEADER_LEN as usize];
        file.read_exact_at(&mut footer, footer_at)?;
        if footer[8..] == [0; 4] {
            end -= 4;
            continue;
        }
        match stream(file, footer_at, &footer)? {
            Some((start, blocks)) if count + blocks.len() <= XZ_BLOCKS_MAX => {
                count += blocks.len();
                streams.push(blocks);
                end = start;
            }
            _ => return Ok(None),
        }
    }
    Ok(Some(streams.into_iter().rev().flatten().collect()))
}

/// Reads the index of the stream that ends with a footer; returns the offset of the stream too.
fn stream(
    file: &dyn File,
    footer_at: u64,
    footer: &[u8; HEADER_LEN as usize],
) -> io::Result<Option<(u64, Vec<XzBlock>)>> {
    let word = |at: usize| footer[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let index_len = (u64::from(word(4)) + 1) * 4;
    let is_footer = footer[10..] == END_MAGIC && word(0) == crc32fast::hash(&footer[4..10]);
    let Some(index_at) = footer_at.checked_sub(index_len) else { return Ok(None) };
    if !is_footer || index_len > XZ_INDEX_LEN_MAX {
        return Ok(None);
    }
    let mut index = vec![0; index_len as usize];
    file.read_exact_at(&mut index, index_at)?;
    let flags = [footer[8], footer[9]];
    let Some(mut blocks) = records(&index, flags) else { return Ok(None) };
    let len: u64 = blocks.iter().map(|block| block.len).sum();
    let Some(start) = index_at.checked_sub(HEADER_LEN).and_then(|end| end.checked_sub(len)) else {
        return Ok(None);
    };
    let mut found = [0; HEADER_LEN as usize];
    file.read_exact_at(&mut found, start)?;
    let mut raw = start + HEADER_LEN;
    for block in &mut blocks {
        block.raw = raw;
        raw += block.len;
    }
    Ok((found == header(flags)).then_some((start, blocks)))
}

/// Reads the records of an index.
fn records(index: &[u8], flags: [u8; 2]) -> Option<Vec<XzBlock>> {
    let (checked, sum) = index.split_last_chunk::<4>()?;
    let mut rest = checked.strip_prefix(&[0])?;
    let count = number(&mut rest)?;
    // A record has at least two bytes.
    let is_whole = crc32fast::hash(checked) == u32::from_le_bytes(*sum);
    if !is_whole || count > rest.len() as u64 / 2 {
        return None;
    }
    let mut blocks = Vec::with_capacity(count as usize);
    let mut total = 0_u64;
    for _ in 0..count {
        let (len, text_len) = (number(&mut rest)?, number(&mut rest)?);
        let len = len.checked_next_multiple_of(4)?;
        total = total.checked_add(len)?;
        blocks.push(XzBlock { raw: 0, len, text_len, flags });
    }
    (rest.len() < 4 && rest.iter().all(|byte| *byte == 0)).then_some(blocks)
}

/// Reads a number of seven bits per byte, the lowest first.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for at in 0..9 {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << (at * 7);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
