//! Tokens to numbers: the first is 0, and each new one the next.

use xxhash_rust::xxh3::xxh3_64;

/// Distinct tokens, one behind the other in one buffer, and a table that finds them.
#[derive(Debug, Default)]
pub(super) struct Interner {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// Indexes of entries plus one, by hash; 0 is free.
    table: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: usize,
    len: u16,
    hash: u32,
}

/// Slots of the smallest table.
const TABLE_LEN_MIN: usize = 4096;

impl Interner {
    /// The number of a token, which is the count of those before if it is new.
    pub(super) fn place(&mut self, token: &[u8]) -> usize {
        if 2 * self.entries.len() >= self.table.len() {
            self.grow();
        }
        let hash = xxh3_64(token) as u32;
        let mask = self.table.len() - 1;
        let mut slot = hash as usize & mask;
        // Half of the slots are free, so the search ends.
        while self.table[slot] != 0 {
            let index = self.table[slot] as usize - 1;
            let entry = self.entries[index];
            if entry.hash == hash && self.token(entry) == token {
                return index;
            }
            slot = (slot + 1) & mask;
        }
        let (start, len) = (self.bytes.len(), token.len() as u16);
        self.bytes.extend_from_slice(token);
        self.entries.push(Entry { start, len, hash });
        self.table[slot] = self.entries.len() as u32;
        self.entries.len() - 1
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Their bytes.
    pub(super) fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// All tokens, in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(|entry| self.token(*entry))
    }

    fn token(&self, entry: Entry) -> &[u8] {
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
