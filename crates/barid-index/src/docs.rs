//! Sets of documents.

/// A set of documents of a segment, which are numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocSet {
    words: Vec<u64>,
    len: u32,
}

impl DocSet {
    /// Creates an empty set of documents below `len`.
    pub fn none(len: u32) -> Self {
        Self { words: vec![0; len.div_ceil(64) as usize], len }
    }

    /// Creates the set of all documents below `len`.
    pub fn all(len: u32) -> Self {
        let mut words = vec![u64::MAX; len.div_ceil(64) as usize];
        if let Some(last) = words.last_mut()
            && !len.is_multiple_of(64)
        {
            *last = (1 << (len % 64)) - 1;
        }
        Self { words, len }
    }

    /// Adds a document; one beyond the segment is ignored.
    pub fn insert(&mut self, doc: u32) {
        if doc < self.len {
            self.words[doc as usize / 64] |= 1 << (doc % 64);
        }
    }

    /// Returns `true` if a document is in the set.
    pub fn contains(&self, doc: u32) -> bool {
        self.words.get(doc as usize / 64).is_some_and(|word| word >> (doc % 64) & 1 == 1)
    }

    /// Adds the documents of another set.
    pub fn add(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    /// Removes all documents that are not in another set too.
    pub fn keep(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other);
    }

    /// Returns the number of documents.
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// Returns `true` if there are no documents in the set.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Returns the documents, ascending.
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

    /// Returns the words of the set, least significant bit first.
    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets() {
        let (mut one, all) = (DocSet::none(70), DocSet::all(70));
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
        assert!(DocSet::none(0).is_empty() && DocSet::all(0).is_empty());
    }
}
