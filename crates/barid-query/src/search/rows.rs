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

    /// Adds `len` numbers from `to` on: those whose counterparts from `from` on are in another set.
    /// O(len / 64).
    pub fn add_range(&mut self, to: u32, other: &Self, from: u32, len: u32) {
        self.add_bits(to, len, |at| other.bits_from(from.saturating_add(at)));
    }

    /// Adds `len` numbers from `to` on: those whose counterparts from `from` on are not in another
    /// set. O(len / 64).
    pub fn add_range_without(&mut self, to: u32, other: &Self, from: u32, len: u32) {
        self.add_bits(to, len, |at| !other.bits_from(from.saturating_add(at)));
    }

    /// Adds numbers from `to` on: `bits` returns 64 of them, from one at a distance from `to` on.
    fn add_bits(&mut self, to: u32, len: u32, bits: impl Fn(u32) -> u64) {
        let len = len.min(self.len.saturating_sub(to));
        let mut done = 0;
        while done < len {
            let (word, shift) = ((to + done) / 64, (to + done) % 64);
            let count = (64 - shift).min(len - done);
            let mask = u64::MAX >> (64 - count);
            self.words[word as usize] |= (bits(done) & mask) << shift;
            done += count;
        }
    }

    /// Returns 64 bits from a number on.
    fn bits_from(&self, number: u32) -> u64 {
        let (at, shift) = (number as usize / 64, number % 64);
        let word = |at: usize| self.words.get(at).copied().unwrap_or(0);
        match shift {
            0 => word(at),
            _ => word(at) >> shift | word(at + 1) << (64 - shift),
        }
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

    /// Returns `true` if a number from `first` to `last`, both included, is in the set.
    /// O(distance / 64).
    #[must_use]
    pub fn has_any_of(&self, first: u32, last: u32) -> bool {
        let mut at = first;
        while at <= last && at < self.len {
            let bits = self.bits_from(at) & (u64::MAX >> (63 - (last - at).min(63)));
            if bits != 0 {
                return true;
            }
            at = at.saturating_add(64);
        }
        false
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

    #[test]
    fn ranges_are_looked_at() {
        let mut set = BitSet::none(300);
        [5, 64, 200].into_iter().for_each(|number| set.insert(number));
        for (first, last, expected) in [
            (0, 4, false),
            (0, 5, true),
            (5, 5, true),
            (6, 63, false),
            (6, 64, true),
            (65, 199, false),
            (65, 200, true),
            (201, u32::MAX, false),
            (9, 8, false),
            (400, 500, false),
        ] {
            assert_eq!(set.has_any_of(first, last), expected, "{first} {last}");
        }
    }

    #[test]
    fn ranges_are_added_at_any_place() {
        let mut other = BitSet::none(300);
        (0..300).filter(|number| number % 3 == 0 || number % 7 == 0).for_each(|n| other.insert(n));
        for (to, from, len) in [(0, 0, 300), (1, 0, 200), (63, 65, 130), (64, 3, 64), (199, 1, 1)] {
            for is_without in [false, true] {
                let mut set = BitSet::none(200);
                set.insert(0);
                match is_without {
                    false => set.add_range(to, &other, from, len),
                    true => set.add_range_without(to, &other, from, len),
                }
                let is_there = |number: &u32| {
                    let inside = (to..to + len).contains(number);
                    *number == 0 || inside && other.contains(number - to + from) != is_without
                };
                let expected: Vec<u32> = (0..200).filter(is_there).collect();
                assert_eq!(set.iter().collect::<Vec<u32>>(), expected, "{to} {from} {len}");
            }
        }
        // What is beyond either set is ignored.
        let mut set = BitSet::none(10);
        set.add_range_without(8, &other, u32::MAX, u32::MAX);
        assert_eq!(set.iter().collect::<Vec<u32>>(), [8, 9]);
    }
}
