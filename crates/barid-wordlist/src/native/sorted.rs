//! The sorted part of a table: all tokens in byte order with their entries.
//!
//! It has blocks of [`BLOCK_LEN`] bytes. A token is stored as the number of leading bytes that it
//! shares with the one before, and the rest (prefix compression); the first token of a block shares
//! nothing, so that every block can be read by itself.

use barid_vfs::le::{u16_at, u32_at};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::header::{Header, Part};
use crate::date::{date_of, day_of};
use crate::limits::TOKEN_LEN_MAX;
use crate::{TokenEntry, varint};

/// Length of a block in bytes.
pub(crate) const BLOCK_LEN: usize = 4096;
/// Length of a block's head: checksum (4), number of tokens (2), bytes used by them (2).
const HEAD_LEN: usize = 8;
/// Value of a half byte if the rest of the length follows as a varint.
const LONG: usize = 15;

/// A builder of sorted blocks.
#[derive(Debug)]
pub(crate) struct Builder {
    day: u32,
    body: Vec<u8>,
    entry: Vec<u8>,
    last: Vec<u8>,
    last_date: u32,
    count: u16,
    blocks: u32,
}

impl Builder {
    pub(crate) fn new(header: &Header) -> Self {
        Self {
            day: header.day,
            body: Vec::with_capacity(BLOCK_LEN),
            entry: Vec::new(),
            last: Vec::new(),
            last_date: 0,
            count: 0,
            blocks: 0,
        }
    }

    /// Appends a token, which must sort after all before it; appends finished blocks to `out`.
    pub(crate) fn push(
        &mut self,
        header: &Header,
        token: &[u8],
        entry: TokenEntry,
        out: &mut Vec<u8>,
    ) {
        self.encode(token, entry);
        if HEAD_LEN + self.body.len() + self.entry.len() > BLOCK_LEN {
            self.flush(header, out);
            self.encode(token, entry);
        }
        self.body.extend_from_slice(&self.entry);
        self.last.clear();
        self.last.extend_from_slice(token);
        self.last_date = entry.date;
        self.count += 1;
    }

    fn encode(&mut self, token: &[u8], entry: TokenEntry) {
        let shared = match self.count {
            0 => 0,
            _ => self.last.iter().zip(token).take_while(|(one, two)| one == two).count(),
        };
        let rest = token.len() - shared;
        let out = &mut self.entry;
        out.clear();
        out.push((shared.min(LONG) << 4 | rest.min(LONG)) as u8);
        for len in [shared, rest] {
            if len >= LONG {
                varint::put(out, (len - LONG) as u64);
            }
        }
        out.extend_from_slice(&token[shared..]);
        let same_date = self.count > 0 && entry.date == self.last_date;
        varint::put(out, u64::from(entry.spam) << 1 | u64::from(same_date));
        varint::put(out, u64::from(entry.ham));
        if !same_date {
            varint::put(out, date_code(entry.date, self.day));
        }
    }

    fn flush(&mut self, header: &Header, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&(self.body.len() as u16).to_le_bytes());
        out.extend_from_slice(&self.body);
        out.resize(start + BLOCK_LEN, 0);
        let sum = sum(header, self.blocks, &out[start..]);
        out[start..start + 4].copy_from_slice(&sum.to_le_bytes());
        self.blocks += 1;
        self.count = 0;
        self.body.clear();
    }

    /// Writes the last block; returns the number of blocks.
    pub(crate) fn finish(mut self, header: &Header, out: &mut Vec<u8>) -> u32 {
        if self.count > 0 {
            self.flush(header, out);
        }
        self.blocks
    }
}

fn sum(header: &Header, block: u32, bytes: &[u8]) -> u32 {
    xxh3_64_with_seed(&bytes[4..], header.block_seed(Part::Sorted, block)) as u32
}

/// Encodes a date as its distance in days from `day`, and an invalid one as its number.
fn date_code(date: u32, day: u32) -> u64 {
    match (date, day_of(date)) {
        (0, _) => 0,
        (_, Some(found)) => {
            let distance = i64::from(day) - i64::from(found);
            1 + 2 * (distance << 1 ^ distance >> 63) as u64
        }
        (_, None) => 2 + 2 * u64::from(date),
    }
}

fn date_of_code(code: u64, day: u32) -> Option<u32> {
    match code {
        0 => Some(0),
        _ if code.is_multiple_of(2) => u32::try_from(code / 2 - 1).ok(),
        _ => {
            let folded = code / 2;
            let distance = (folded >> 1) as i64 ^ -((folded & 1) as i64);
            let found = u32::try_from(i64::from(day).checked_sub(distance)?).ok()?;
            Some(date_of(found))
        }
    }
}

/// An iterator over the tokens of a block.
#[derive(Clone, Debug)]
pub(crate) struct BlockTokens<'a> {
    rest: &'a [u8],
    left: u16,
    day: u32,
    date: u32,
}

impl<'a> BlockTokens<'a> {
    /// Byte offset of the first token in a block.
    pub(crate) const OFFSET: usize = HEAD_LEN;

    /// Returns the tokens of a block; `None` if its checksum is wrong.
    pub(crate) fn of(header: &Header, block: u32, bytes: &'a [u8]) -> Option<Self> {
        let used = HEAD_LEN + usize::from(u16_at(bytes, 6));
        if u32_at(bytes, 0) != sum(header, block, bytes) {
            return None;
        }
        let rest = bytes.get(HEAD_LEN..used)?;
        Some(Self { rest, left: u16_at(bytes, 4), day: header.day, date: 0 })
    }

    /// Returns what may be the tokens of a damaged block.
    pub(crate) fn of_damaged(header: &Header, bytes: &'a [u8]) -> Self {
        let rest = bytes.get(HEAD_LEN..).unwrap_or_default();
        Self { rest, left: u16::MAX, day: header.day, date: 0 }
    }

    /// Continues an iteration at the state of [`BlockTokens::pause`].
    pub(crate) fn resume(day: u32, date: u32, left: u16, rest: &'a [u8]) -> Self {
        Self { rest, left, day, date }
    }

    /// Returns the state for [`BlockTokens::resume`], except the day.
    pub(crate) fn pause(&self) -> (u32, u16, &'a [u8]) {
        (self.date, self.left, self.rest)
    }

    /// Replaces `token`, which must be the previous one, by the next; returns its entry, or `None`
    /// at the end.
    #[inline]
    pub(crate) fn next(&mut self, token: &mut Vec<u8>) -> Option<TokenEntry> {
        self.left = self.left.checked_sub(1)?;
        let (&lens, rest) = self.rest.split_first()?;
        self.rest = rest;
        let (mut shared, mut own) = (usize::from(lens >> 4), usize::from(lens & 15));
        for len in [&mut shared, &mut own] {
            if *len == LONG {
                *len += usize::try_from(varint::take(&mut self.rest)?).ok()?;
            }
        }
        if shared > token.len() || shared.saturating_add(own) > TOKEN_LEN_MAX {
            return None;
        }
        let (text, rest) = self.rest.split_at_checked(own)?;
        token.truncate(shared);
        token.extend_from_slice(text);
        self.rest = rest;
        let spam = varint::take(&mut self.rest)?;
        let ham = varint::take_u32(&mut self.rest)?;
        if spam & 1 == 0 {
            self.date = date_of_code(varint::take(&mut self.rest)?, self.day)?;
        }
        Some(TokenEntry { spam: u32::try_from(spam >> 1).ok()?, ham, date: self.date })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_come_back_whatever_they_are() {
        for date in [0, 1, 19_700_101, 20_261_122, 20_261_399, 99_991_231, u32::MAX] {
            for day in [0, 20_779, 2_932_896] {
                assert_eq!(date_of_code(date_code(date, day), day), Some(date));
            }
        }
    }

    #[test]
    fn blocks_come_back() {
        let header = Header { generation: 5, day: 20_779, ..Header::default() };
        let mut random = fastrand::Rng::with_seed(3);
        let mut tokens: Vec<(Vec<u8>, TokenEntry)> = (0..5_000)
            .map(|_| {
                let len = if random.u8(..) == 0 { TOKEN_LEN_MAX } else { random.usize(1..30) };
                let token = (0..len).map(|_| random.u8(b'a'..b'd')).collect();
                let (spam, ham) = (random.u32(..) >> random.u32(0..32), random.u32(0..3));
                let date = [0, 20_261_122, 20_200_101][random.usize(0..3)];
                (token, TokenEntry { spam, ham, date })
            })
            .collect();
        tokens.sort_by(|one, two| one.0.cmp(&two.0));
        tokens.dedup_by(|one, two| one.0 == two.0);
        let (mut out, mut builder) = (Vec::new(), Builder::new(&header));
        for (token, entry) in &tokens {
            builder.push(&header, token, *entry, &mut out);
        }
        let blocks = builder.finish(&header, &mut out);
        assert!(blocks > 5 && out.len() == blocks as usize * BLOCK_LEN);
        let mut found = Vec::new();
        for (number, block) in out.chunks(BLOCK_LEN).enumerate() {
            let mut tokens = BlockTokens::of(&header, number as u32, block).unwrap();
            let mut token = Vec::new();
            while let Some(entry) = tokens.next(&mut token) {
                found.push((token.clone(), entry));
            }
            assert!(BlockTokens::of(&header, number as u32 + 1, block).is_none());
        }
        assert!(found == tokens);
    }

    #[test]
    fn forged_blocks_end() {
        let header = Header { generation: 5, day: 20_779, ..Header::default() };
        let mut random = fastrand::Rng::with_seed(4);
        let mut read = 0;
        for _ in 0..2_000 {
            let mut block: Vec<u8> = (0..BLOCK_LEN).map(|_| random.u8(..)).collect();
            let used = random.u16(0..=(BLOCK_LEN - HEAD_LEN) as u16);
            block[6..8].copy_from_slice(&used.to_le_bytes());
            let low = random.u8(..);
            block[HEAD_LEN..].iter_mut().for_each(|byte| *byte &= low | 7);
            let sum = sum(&header, 1, &block);
            block[..4].copy_from_slice(&sum.to_le_bytes());
            let mut tokens = BlockTokens::of(&header, 1, &block).unwrap();
            let mut token = Vec::new();
            while tokens.next(&mut token).is_some() {
                assert!(token.len() <= TOKEN_LEN_MAX);
                read += 1;
            }
        }
        assert!(read > 10_000, "{read}");
    }
}
