//! Division of a corpus into training and test messages.

use std::ops;

use super::corpus::Corpus;
use super::mail::Random;

/// Start and length of each training part, in sixteenths of the corpus. Everything after it is
/// tested.
const PARTS: [(usize, usize); 10] =
    [(0, 1), (0, 2), (0, 4), (0, 6), (0, 8), (2, 2), (2, 4), (2, 6), (4, 2), (4, 4)];

/// Least number of messages of each class to train with and to test; splits with fewer are left
/// out.
const TRAIN_MIN: usize = 40;
const TEST_MIN: usize = 100;

/// Number of messages whose results are ignored at first with [`Mode::OnError`].
const WARM_UP: usize = 100;

/// A way to divide a corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Older messages train the list, newer ones are tested.
    Chronological,
    /// The same numbers of messages, in random order.
    Shuffled,
    /// Messages are tested in the order of arrival, and the list is trained with those that it gets
    /// wrong or is unsure of.
    OnError,
}

impl Mode {
    pub(super) const ALL: [Self; 3] = [Self::Chronological, Self::Shuffled, Self::OnError];

    /// Returns its name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Chronological => "chronological",
            Self::Shuffled => "shuffled",
            Self::OnError => "train on error",
        }
    }
}

/// One division: indexes of messages.
#[derive(Clone, Debug)]
pub(super) struct Range {
    pub(super) train: Vec<usize>,
    pub(super) test: Vec<usize>,
    /// `true` if the list is trained with the tested messages that it gets wrong or is unsure of.
    pub(super) learns: bool,
}

/// Returns the divisions of a corpus, except those with too few messages of a class; one without
/// training messages for [`Mode::OnError`].
pub(super) fn ranges(corpus: &Corpus, mode: Mode, seed: u64) -> Vec<Range> {
    let count = corpus.messages.len();
    if mode == Mode::OnError {
        let test = (0..count).collect();
        return vec![Range { train: Vec::new(), test, learns: true }];
    }
    let mut ranges = Vec::new();
    for (index, (start, len)) in PARTS.into_iter().enumerate() {
        let mut order: Vec<usize> = (0..count).collect();
        if mode == Mode::Shuffled {
            shuffle(&mut order, seed + index as u64);
        }
        let of = |sixteenths: ops::Range<usize>| {
            order[sixteenths.start * count / 16..sixteenths.end * count / 16].to_vec()
        };
        let (train, test) = (of(start..start + len), of(start + len..16));
        if least(corpus, &train) >= TRAIN_MIN && least(corpus, &test) >= TEST_MIN {
            ranges.push(Range { train, test, learns: false });
        }
    }
    ranges
}

impl Range {
    /// Returns the number of tested messages at the start whose results are ignored.
    pub(super) fn warm_up(&self) -> usize {
        if self.learns { WARM_UP.min(self.test.len()) } else { 0 }
    }
}

fn least(corpus: &Corpus, indexes: &[usize]) -> usize {
    let spam = indexes.iter().filter(|index| corpus.messages[**index].is_spam).count();
    spam.min(indexes.len() - spam)
}

fn shuffle(order: &mut [usize], seed: u64) {
    let mut random = Random(seed);
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::super::corpus::Labelled;
    use super::*;

    #[test]
    fn older_messages_train() {
        let message = |index| Labelled { is_spam: index % 2 == 0, text: Vec::new() };
        let corpus = Corpus { name: "test", messages: (0..3200).map(message).collect() };
        for mode in [Mode::Chronological, Mode::Shuffled] {
            let ranges = ranges(&corpus, mode, 1);
            assert_eq!(ranges.len(), PARTS.len());
            for range in ranges {
                let all: std::collections::HashSet<_> =
                    range.train.iter().chain(&range.test).collect();
                assert_eq!(all.len(), range.train.len() + range.test.len());
                let is_ordered = range.train.iter().max() < range.test.iter().min();
                assert_eq!(is_ordered, mode == Mode::Chronological);
            }
        }
        let few = Corpus { name: "few", messages: (0..300).map(message).collect() };
        assert!(ranges(&few, Mode::Chronological, 1).iter().all(|range| range.train.len() >= 80));
        assert_eq!(ranges(&few, Mode::OnError, 1)[0].warm_up(), 100);
    }
}
