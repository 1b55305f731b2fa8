//! The tokens of many messages, added up before they are written.

use barid_wordlist::{Batch, Counts};

use super::interner::Interner;

/// Distinct tokens of one message: each a length of two bytes and its bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Tokens(Vec<u8>);

impl Tokens {
    /// Tokens that take about `len` bytes.
    pub(super) fn new<'a>(tokens: impl Iterator<Item = &'a [u8]>, len: usize) -> Self {
        let mut bytes = Vec::with_capacity(len);
        for token in tokens {
            let len = u16::try_from(token.len()).expect("because longer tokens are left out");
            bytes.extend_from_slice(&len.to_le_bytes());
            bytes.extend_from_slice(token);
        }
        Self(bytes)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
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
    pub(super) fn count(&mut self, tokens: &Tokens, add: Counts, sub: Counts) {
        for token in tokens.iter() {
            let index = self.tokens.place(token);
            if index == self.sums.len() {
                self.sums.push(Sum::default());
            }
            let sum = &mut self.sums[index];
            plus(&mut sum.add, add);
            plus(&mut sum.sub, sub);
        }
    }

    /// How many tokens there are.
    pub(super) fn tokens_len(&self) -> usize {
        self.tokens.len()
    }

    /// Bytes of all tokens.
    pub(super) fn bytes_len(&self) -> usize {
        self.tokens.bytes_len()
    }

    /// Adds all changes to a batch, in the order of the tokens.
    pub(super) fn write(&self, batch: &mut Batch) -> barid_wordlist::Result<()> {
        let mut order: Vec<(&[u8], &Sum)> = self.tokens.iter().zip(&self.sums).collect();
        order.sort_unstable_by_key(|(token, _)| *token);
        for (token, sum) in order {
            batch.change(token, sum.add, sum.sub)?;
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
            let packed = Tokens::new(tokens.iter().map(Vec::as_slice), 0);
            assert!(packed.iter().eq(tokens.iter().map(Vec::as_slice)));
            sums.count(&packed, Counts::new(spam, 0), Counts::new(0, ham));
            for token in tokens {
                let sum = model.entry(token).or_default();
                *sum = (sum.0 + spam, sum.1 + ham);
            }
        }
        assert!(model.len() > 2_000 && sums.sums.len() == model.len());
        for (token, sum) in &model {
            let found = sums.sums[sums.tokens.place(token)];
            assert_eq!((found.add.spam, found.sub.ham), *sum);
        }
        let mut batch = Batch::new(0);
        sums.write(&mut batch).unwrap();
        assert_eq!(batch.len(), model.len());
    }
}
