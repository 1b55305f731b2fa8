//! Sets of small numbers, such as rows and documents.

/// A set of numbers below a limit, a bit for each: rows of a view, or documents of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BitSet {
    words: Vec<u64>,
    len: u32,
}

impl BitSet {
    /// Creates an empty set of numbers below `len`.
    #[must_use]
    pub fn none(len: u32) -> Self {
        Self { words: vec![0; len.div_ceil(64) as usize], len }
    }

    /// Creates the set of all numbers below `len`.
    #[must_use]
    pub fn all(len: u32) -> Self {
        let mut words = vec![u64::MAX; len.div_ceil(64) as usize];
        if let Some(last) = words.last_mut()
            && !len.is_multiple_of(64)
        {
            *last = (1 << (len % 64)) - 1;
        }
        Self { words, len }
    }

    /// Adds a number; one beyond the limit is ignored.
    pub fn insert(&mut self, number: u32) {
        if number < self.len {
            self.words[number as usize / 64] |= 1 << (number % 64);
        }
    }

    /// Removes a number.
    pub fn remove(&mut self, number: u32) {
        if let Some(word) = self.words.get_mut(number as usize / 64) {
            *word &= !(1 << (number % 64));
        }
    }

    /// Returns `true` if a number is in the set.
    #[must_use]
    pub fn contains(&self, number: u32) -> bool {
        self.words.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Adds the numbers of another set.
    pub fn add(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    /// Removes all numbers that are not in another set too.
    pub fn keep(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other);
    }

    /// Returns how many numbers are in the set.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Returns `true` if no number is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Returns the numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().zip(0_u32..).flat_map(|(word, at)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(at * 64 + bit)
            })
        })
    }

    /// Returns the words of the set.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the words of the set: 64 numbers each, the lowest in the least significant bit.
    pub fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets() {
        let (mut one, all) = (BitSet::none(70), BitSet::all(70));
        for doc in [0, 63, 69, 70, 99] {
            one.insert(doc);
        }
        assert_eq!((one.count(), all.count()), (3, 70));
        assert!(one.contains(69) && !one.contains(70) && !one.contains(1000));
        let mut both = all.clone();
        both.keep(&one);
        assert_eq!(both, one);
        both.add(&all);
        assert_eq!(both, all);
        assert!(BitSet::none(0).is_empty() && BitSet::all(0).is_empty());
    }
}
