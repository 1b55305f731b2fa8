//! The tokens of many messages, added up before they are written.

use barid_wordlist::{Batch, Counts};
use xxhash_rust::xxh3::xxh3_64;

/// Distinct tokens of one message: each a length of two bytes and its bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Tokens(Vec<u8>);

impl Tokens {
    /// Room for tokens of so many bytes, of which there are so many.
    pub(super) fn new<'a>(tokens: impl Iterator<Item = &'a [u8]> + Clone) -> Self {
        let mut bytes = Vec::with_capacity(tokens.clone().map(|token| token.len() + 2).sum());
        for token in tokens {
            let len = u16::try_from(token.len()).expect("because longer tokens are left out");
            bytes.extend_from_slice(&len.to_le_bytes());
            bytes.extend_from_slice(token);
        }
        Self(bytes)
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let (len, after) = rest.split_first_chunk::<2>()?;
            let (token, after) = after.split_at_checked(u16::from_le_bytes(*len).into())?;
            rest = after;
            Some(token)
        })
    }

    /// Its bytes in memory.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// What is to be added to each token and taken off it.
#[derive(Debug, Default)]
pub(super) struct Sums {
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
    add: Counts,
    sub: Counts,
}

/// Slots of the smallest table.
const TABLE_LEN_MIN: usize = 4096;

impl Sums {
    /// Counts the tokens of a message.
    pub(super) fn count(&mut self, tokens: &Tokens, add: Counts, sub: Counts) {
        for token in tokens.iter() {
            let index = self.place(token);
            let entry = &mut self.entries[index];
            plus(&mut entry.add, add);
            plus(&mut entry.sub, sub);
        }
    }

    /// How many tokens there are.
    pub(super) fn tokens_len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of all tokens.
    pub(super) fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// The index of the entry of a token, which is made if there is none.
    fn place(&mut self, token: &[u8]) -> usize {
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
        let none = Counts::default();
        self.entries.push(Entry { start, len, hash, add: none, sub: none });
        self.table[slot] = self.entries.len() as u32;
        self.entries.len() - 1
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

    /// Adds all changes to a batch, in the order of the tokens.
    pub(super) fn write(&self, batch: &mut Batch) -> barid_wordlist::Result<()> {
        let mut order: Vec<(&[u8], &Entry)> =
            self.entries.iter().map(|entry| (self.token(*entry), entry)).collect();
        order.sort_unstable_by_key(|(token, _)| *token);
        for (token, entry) in order {
            batch.change(token, entry.add, entry.sub)?;
        }
        Ok(())
    }
}

fn plus(sum: &mut Counts, more: Counts) {
    sum.spam += more.spam;
    sum.ham += more.ham;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn sums_are_those_of_a_map() {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut sums, mut model) = (Sums::default(), BTreeMap::<Vec<u8>, (u32, u32)>::new());
        for _ in 0..400 {
            let mut tokens: Vec<Vec<u8>> = (0..random.usize(0..100))
                .map(|_| (0..random.usize(1..6)).map(|_| random.u8(b'a'..b'g')).collect())
                .collect();
            tokens.sort();
            tokens.dedup();
            let (spam, ham) = (random.u32(0..2), random.u32(0..2));
            let packed = Tokens::new(tokens.iter().map(Vec::as_slice));
            assert!(packed.iter().eq(tokens.iter().map(Vec::as_slice)));
            sums.count(&packed, Counts::new(spam, 0), Counts::new(0, ham));
            for token in tokens {
                let sum = model.entry(token).or_default();
                *sum = (sum.0 + spam, sum.1 + ham);
            }
        }
        assert!(model.len() > 2_000 && sums.entries.len() == model.len());
        for (token, sum) in &model {
            let index = sums.place(token);
            let entry = sums.entries[index];
            assert_eq!((entry.add.spam, entry.sub.ham), *sum);
        }
        let mut batch = Batch::new(0);
        sums.write(&mut batch).unwrap();
        assert_eq!(batch.len(), model.len());
    }
}
