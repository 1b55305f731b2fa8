//! The tokens of many messages, summed up before they are written.

use barid_bayes::Distinct;

use crate::interner::Interner;
use crate::limits::TOKEN_LEN_MAX;
use crate::{Batch, Counts, Result};

/// Distinct tokens of one message: each a hash, a length of two bytes, and its bytes.
#[derive(Clone, Debug, Default)]
pub struct DistinctTokens(Vec<u8>);

/// Bytes before each token.
const HEAD_LEN: usize = 6;

impl DistinctTokens {
    /// Packs at most `count` tokens, of about `len` bytes together.
    pub fn new<'a>(
        tokens: impl Iterator<Item = (u32, &'a [u8])>,
        len: usize,
        count: usize,
    ) -> Self {
        let mut bytes = Vec::with_capacity(len + HEAD_LEN * count);
        for (hash, token) in tokens {
            let len = u16::try_from(token.len()).expect("because longer tokens are left out");
            bytes.extend_from_slice(&hash.to_le_bytes());
            bytes.extend_from_slice(&len.to_le_bytes());
            bytes.extend_from_slice(token);
        }
        Self(bytes)
    }

    /// Returns the tokens with their hashes.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> + Clone {
        let mut rest = &self.0[..];
        std::iter::repeat_with(move || {
            let (hash, after) = rest.split_first_chunk::<4>()?;
            let (len, after) = after.split_first_chunk::<2>()?;
            let (token, after) = after.split_at_checked(u16::from_le_bytes(*len).into())?;
            rest = after;
            Some((u32::from_le_bytes(*hash), token))
        })
        .map_while(|next| next)
    }

    /// Returns the bytes in memory.
    pub fn bytes_len(&self) -> usize {
        self.0.len()
    }
}

/// Additions and subtractions for each token.
#[derive(Debug, Default)]
pub struct Sums {
    tokens: Interner,
    sums: Vec<Sum>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    add: Counts,
    sub: Counts,
}

impl Sums {
    /// Counts the tokens of a message.
    pub fn count<'a>(
        &mut self,
        tokens: impl Iterator<Item = (u32, &'a [u8])> + Clone,
        add: Counts,
        sub: Counts,
    ) {
        let sums = &self.sums;
        let spam = |index: usize| sums.get(index).map_or(0, |sum| sum.add.spam);
        self.tokens.touch(tokens.clone().map(|(hash, _)| hash), spam);
        for (hash, token) in tokens {
            let index = self.tokens.place(hash, token);
            if index == self.sums.len() {
                self.sums.push(Sum::default());
            }
            let sum = &mut self.sums[index];
            plus(&mut sum.add, add);
            plus(&mut sum.sub, sub);
        }
    }

    /// Returns the number of tokens.
    pub fn tokens_len(&self) -> usize {
        self.tokens.tokens_len()
    }

    /// Returns the bytes of all tokens.
    pub fn bytes_len(&self) -> usize {
        self.tokens.bytes_len()
    }

    /// Adds all changes to a batch, in the order of the tokens.
    ///
    /// # Errors
    /// As [`Batch::change`].
    pub fn write(&self, batch: &mut Batch) -> Result<()> {
        let mut order: Vec<(&[u8], &Sum)> = self.tokens.iter().zip(&self.sums).collect();
        order.sort_unstable_by_key(|(token, _)| *token);
        for (token, sum) in order {
            batch.change(token, sum.add, sum.sub)?;
        }
        Ok(())
    }
}

/// Returns the tokens that a word list can store.
pub fn storable_tokens(distinct: &Distinct) -> impl Iterator<Item = &[u8]> + Clone {
    storable_hashed(distinct).map(|(_, token)| token)
}

/// Returns the tokens that a word list can store, with their hashes.
pub fn storable_hashed(distinct: &Distinct) -> impl Iterator<Item = (u32, &[u8])> + Clone {
    let has_nul = distinct.has_byte(0);
    distinct.hashed().filter(move |(_, token)| {
        (1..=TOKEN_LEN_MAX).contains(&token.len()) && !(has_nul && token.contains(&0))
    })
}

fn plus(sum: &mut Counts, more: Counts) {
    sum.spam += more.spam;
    sum.ham += more.ham;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use xxhash_rust::xxh3::xxh3_64;

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
            let hashed = tokens.iter().map(|token| (xxh3_64(token) as u32, &token[..]));
            let packed = DistinctTokens::new(hashed.clone(), 0, 0);
            assert!(packed.iter().eq(hashed));
            sums.count(packed.iter(), Counts::new(spam, 0), Counts::new(0, ham));
            for token in tokens {
                let sum = model.entry(token).or_default();
                *sum = (sum.0 + spam, sum.1 + ham);
            }
        }
        assert!(model.len() > 2_000 && sums.sums.len() == model.len());
        for (token, sum) in &model {
            let found = sums.sums[sums.tokens.place(xxh3_64(token) as u32, token)];
            assert_eq!((found.add.spam, found.sub.ham), *sum);
        }
        let mut batch = Batch::new(0);
        sums.write(&mut batch).unwrap();
        assert_eq!(batch.len(), model.len());
    }
}
