//! The distinct tokens of one message.

use xxhash_rust::xxh3::xxh3_64;

use crate::limits::{BUFFER_KEPT_LEN, DISTINCT_TOKENS_MAX};
use crate::tokenizer::Tokenizer;

/// The distinct tokens of one message, in byte order once they are asked for.
///
/// Used for one message after the other it allocates nothing any more: tokens lie one behind the
/// other in one buffer, and a table of their hashes finds them.
#[derive(Debug, Default)]
pub struct Distinct {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// Indexes of entries plus one, by hash; 0 is free.
    table: Vec<u32>,
    /// Whether the table has the places that entries had before they were sorted.
    is_moved: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The first bytes, so that most comparisons need nothing else.
    start_bytes: u64,
    start: u32,
    len: u32,
    hash: u32,
}

/// Slots of the smallest table.
const TABLE_LEN_MIN: usize = 1024;

impl Distinct {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Empties it for the next message.
    pub fn clear(&mut self) {
        if self.bytes.capacity() > BUFFER_KEPT_LEN {
            *self = Self::default();
        }
        self.clear_table();
        self.bytes.clear();
        self.entries.clear();
    }

    /// Frees all slots: those of a few tokens one by one, as one long message makes a large table.
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

    /// Takes the tokens of a message in place of what was there.
    pub fn read(&mut self, tokenizer: &mut Tokenizer, message: &[u8]) {
        self.clear();
        tokenizer.tokens(message, &mut |token| {
            self.add(token);
        });
    }

    /// Adds a token; whether it is new. What is beyond
    /// [`DISTINCT_TOKENS_MAX`](crate::limits::DISTINCT_TOKENS_MAX) is left out.
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
        self.entries.push(Entry { start_bytes, start, len, hash: hash as u32 });
        self.table[slot] = self.entries.len() as u32;
        true
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of all tokens together.
    pub fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether any token has a byte.
    pub fn has_byte(&self, byte: u8) -> bool {
        memchr::memchr(byte, &self.bytes).is_some()
    }

    /// Puts the tokens in byte order, in which they are looked up and scored.
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

    /// The tokens, in byte order after [`Distinct::sort`], else as they came.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        self.entries.iter().map(|entry| self.token(*entry))
    }

    /// The same, each with the lower half of its XXH3-64, which finding it took.
    pub fn hashed(&self) -> impl ExactSizeIterator<Item = (u32, &[u8])> + Clone {
        self.entries.iter().map(|entry| (entry.hash, self.token(*entry)))
    }

    fn token(&self, entry: Entry) -> &[u8] {
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

fn token(bytes: &[u8], entry: Entry) -> &[u8] {
    &bytes[entry.start as usize..][..entry.len as usize]
}

/// The first eight bytes of a token as a number, the first of them the highest, zeros behind a
/// shorter one: such numbers are in the order of the tokens, as far as they go.
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
