//! The distinct tokens of one message.

use xxhash_rust::xxh3::xxh3_64;

use crate::limits::{BUFFER_KEPT_LEN, DISTINCT_TOKENS_MAX};
use crate::tokenizer::Tokenizer;

/// The set of distinct tokens of one message, in byte order after [`Distinct::sort`].
///
/// Reused for one message after the other, it soon allocates nothing more: tokens are stored back
/// to back in one buffer, and a hash table finds them.
#[derive(Debug, Default)]
pub struct Distinct {
    bytes: Vec<u8>,
    entries: Vec<DistinctToken>,
    /// Indexes of entries plus one, by hash; 0 is free.
    table: Vec<u32>,
    /// `true` if `table` still has the indexes that entries had before they were sorted.
    is_moved: bool,
}

#[derive(Clone, Copy, Debug)]
struct DistinctToken {
    /// The first eight bytes as in [`token_start`], so that most comparisons need nothing else.
    start_bytes: u64,
    start: u32,
    len: u32,
    hash: u32,
}

/// Slots of the smallest table.
const TABLE_LEN_MIN: usize = 1024;

impl Distinct {
    /// Returns an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Empties the set for the next message.
    pub fn clear(&mut self) {
        if self.bytes.capacity() > BUFFER_KEPT_LEN {
            *self = Self::default();
        }
        self.clear_table();
        self.bytes.clear();
        self.entries.clear();
    }

    /// Frees all slots. Those of a few tokens are freed one by one, because the table stays large
    /// after one long message.
    fn clear_table(&mut self) {
        self.is_moved = false;
        if 8 * self.entries.len() > self.table.len() {
            return self.table.fill(0);
        }
        let mask = self.table.len().wrapping_sub(1);
        for entry in &self.entries {
            // Between the slot that an entry's hash names and its own none was free.
            let mut slot = entry.hash as usize & mask;
            while std::mem::take(&mut self.table[slot]) != 0 {
                slot = (slot + 1) & mask;
            }
        }
    }

    /// Replaces the set by the tokens of a message.
    pub fn read(&mut self, tokenizer: &mut Tokenizer, message: &[u8]) {
        self.clear();
        tokenizer.tokens(message, &mut |token| {
            self.add(token);
        });
    }

    /// Adds a token. Returns `true` if it is new, `false` if the set has it already or is full:
    /// more than [`DISTINCT_TOKENS_MAX`](crate::limits::DISTINCT_TOKENS_MAX) tokens are left out.
    pub fn add(&mut self, token: &[u8]) -> bool {
        if 2 * self.entries.len() >= self.table.len() {
            self.grow();
        }
        if self.is_moved {
            self.fill_table();
        }
        let (hash, start_bytes) = (xxh3_64(token), token_start(token));
        let mask = self.table.len() - 1;
        let mut slot = hash as usize & mask;
        // Half of the slots are free, so the search ends.
        while self.table[slot] != 0 {
            let entry = self.entries[self.table[slot] as usize - 1];
            let may_be = (entry.start_bytes, entry.hash) == (start_bytes, hash as u32)
                && entry.len as usize == token.len();
            if may_be && (token.len() <= 8 || self.token(entry) == token) {
                return false;
            }
            slot = (slot + 1) & mask;
        }
        let is_full = self.entries.len() >= DISTINCT_TOKENS_MAX;
        let (Ok(start), Ok(len)) = (u32::try_from(self.bytes.len()), u32::try_from(token.len()))
        else {
            return false;
        };
        if is_full {
            return false;
        }
        self.bytes.extend_from_slice(token);
        self.entries.push(DistinctToken { start_bytes, start, len, hash: hash as u32 });
        self.table[slot] = self.entries.len() as u32;
        true
    }

    /// Returns the number of tokens.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns `true` if there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the length of all tokens together, in bytes.
    pub fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns `true` if any token contains `byte`.
    pub fn has_byte(&self, byte: u8) -> bool {
        memchr::memchr(byte, &self.bytes).is_some()
    }

    /// Sorts the tokens in byte order, in which they are looked up and scored.
    pub fn sort(&mut self) {
        if self.is_moved {
            return;
        }
        let bytes = &self.bytes;
        self.entries.sort_unstable_by(|one, other| {
            let first = one.start_bytes.cmp(&other.start_bytes);
            first.then_with(|| token(bytes, *one).cmp(token(bytes, *other)))
        });
        self.is_moved = true;
    }

    /// Returns the tokens: in byte order after [`Distinct::sort`], else in the order they were
    /// added.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        self.entries.iter().map(|entry| self.token(*entry))
    }

    /// Returns the tokens as [`Distinct::iter`] does, each with the lower 32 bits of its XXH3-64
    /// hash, which the set has computed already.
    pub fn hashed(&self) -> impl ExactSizeIterator<Item = (u32, &[u8])> + Clone {
        self.entries.iter().map(|entry| (entry.hash, self.token(*entry)))
    }

    fn token(&self, entry: DistinctToken) -> &[u8] {
        token(&self.bytes, entry)
    }

    fn grow(&mut self) {
        let len = (2 * self.table.len()).max(TABLE_LEN_MIN);
        self.table.resize(len, 0);
        self.fill_table();
    }

    fn fill_table(&mut self) {
        self.is_moved = false;
        self.table.fill(0);
        let mask = self.table.len().wrapping_sub(1);
        for (index, entry) in self.entries.iter().enumerate() {
            let mut slot = entry.hash as usize & mask;
            while self.table[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            self.table[slot] = index as u32 + 1;
        }
    }
}

fn token(bytes: &[u8], entry: DistinctToken) -> &[u8] {
    &bytes[entry.start as usize..][..entry.len as usize]
}

/// Returns the first eight bytes of a token as a big-endian number, shorter tokens padded with zero
/// bytes: such numbers are in the order of the tokens, as far as they reach.
pub fn token_start(token: &[u8]) -> u64 {
    if let Some(start) = token.first_chunk::<8>() {
        return u64::from_be_bytes(*start);
    }
    let [first, .., last] = token else {
        return token.first().map_or(0, |byte| u64::from(*byte) << 56);
    };
    let len = token.len();
    // Two parts that may overlap, where they are the same.
    match (token.first_chunk::<4>(), token.last_chunk::<4>()) {
        (Some(start), Some(end)) => {
            let [start, end] = [start, end].map(|part| u64::from(u32::from_be_bytes(*part)));
            start << 32 | end << (64 - 8 * len)
        }
        _ => {
            let middle = u64::from(token[len / 2]) << (56 - 8 * (len / 2));
            u64::from(*first) << 56 | middle | u64::from(*last) << (64 - 8 * len)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn starts_are_numbers() {
        let token = b"\xffbcdefghij";
        for len in 0..=token.len() {
            let mut padded = [0; 8];
            padded[..len.min(8)].copy_from_slice(&token[..len.min(8)]);
            assert_eq!(token_start(&token[..len]), u64::from_be_bytes(padded), "{len}");
        }
    }

    #[test]
    fn like_an_ordered_set() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut distinct = Distinct::new();
        for round in (0..20).chain((0..20).rev()) {
            let mut model = BTreeSet::new();
            distinct.clear();
            for _ in 0..round * 500 {
                let len = rng.usize(0..12);
                let token: Vec<u8> = (0..len).map(|_| rng.u8(0..3)).collect();
                assert_eq!(distinct.add(&token), model.insert(token.clone()), "{token:?}");
                if rng.u16(..) == 0 {
                    distinct.sort();
                }
            }
            distinct.sort();
            assert_eq!((distinct.len(), distinct.is_empty()), (model.len(), model.is_empty()));
            assert!(distinct.iter().eq(model.iter().map(Vec::as_slice)));
        }
    }
}
