//! Interning tokens: the first gets number 0, and each new one the next.

use std::hint::black_box;

use barid_bayes::token_start;

/// Distinct tokens, one after another in one buffer, and a hash table of them.
#[derive(Debug, Default)]
pub struct Interner {
    bytes: Vec<u8>,
    entries: Vec<InternedToken>,
    /// Indexes of entries plus one, by hash; 0 is free.
    table: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct InternedToken {
    start: usize,
    /// The first bytes, which are the whole of most tokens.
    start_bytes: u64,
    len: u16,
    hash: u32,
}

/// Slots of the smallest table.
const TABLE_LEN_MIN: usize = 4096;

impl Interner {
    /// Reads the memory that lookups of these hashes will read, and what `more` reads for their
    /// numbers: many cache misses overlap that would otherwise be waited for in turn.
    pub fn touch(&self, hashes: impl Iterator<Item = u32>, more: impl Fn(usize) -> u32) {
        let mask = self.table.len().wrapping_sub(1);
        let touched = hashes.filter_map(|hash| {
            let index = self.table.get(hash as usize & mask)?.checked_sub(1)? as usize;
            Some(self.entries.get(index)?.hash ^ more(index))
        });
        black_box(touched.fold(0, |all, word| all ^ word));
    }

    /// Returns the number of a token; a new token gets the number of tokens before it. A token must
    /// always come with the same hash.
    pub fn place(&mut self, hash: u32, token: &[u8]) -> usize {
        if 2 * self.entries.len() >= self.table.len() {
            self.grow();
        }
        let start_bytes = token_start(token);
        let mask = self.table.len() - 1;
        let mut slot = hash as usize & mask;
        // Half of the slots are free, so the search ends.
        while self.table[slot] != 0 {
            let index = self.table[slot] as usize - 1;
            let entry = self.entries[index];
            let may_be = (entry.hash, entry.start_bytes) == (hash, start_bytes)
                && usize::from(entry.len) == token.len();
            if may_be && (token.len() <= size_of::<u64>() || self.token(entry) == token) {
                return index;
            }
            slot = (slot + 1) & mask;
        }
        let (start, len) = (self.bytes.len(), token.len() as u16);
        self.bytes.extend_from_slice(token);
        self.entries.push(InternedToken { start, start_bytes, len, hash });
        self.table[slot] = self.entries.len() as u32;
        self.entries.len() - 1
    }

    /// Returns the number of tokens.
    pub fn tokens_len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the bytes of all tokens.
    pub fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns all tokens, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(|entry| self.token(*entry))
    }

    fn token(&self, entry: InternedToken) -> &[u8] {
        &self.bytes[entry.start..entry.start + usize::from(entry.len)]
    }

    fn grow(&mut self) {
        let len = (2 * self.table.len()).max(TABLE_LEN_MIN);
        self.table.clear();
        self.table.resize(len, 0);
        let mask = len - 1;
        for (index, entry) in self.entries.iter().enumerate() {
            let mut slot = entry.hash as usize & mask;
            while self.table[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            self.table[slot] = index as u32 + 1;
        }
    }
}
