//! The choice of samples and of the moment for training a dictionary.

use super::dictionary::Dictionary;
use crate::limits::{DICTIONARY_LEN_MAX, TRAINING_LEN_MAX};

/// The fewest records for which a dictionary is useful.
const RECORDS_MIN: usize = 64;
/// Raw bytes of records per byte of dictionary: at this ratio savings and cost balance.
const RECORDS_PER_DICTIONARY: u64 = 20;
/// The smallest useful dictionary, in bytes.
const DICTIONARY_LEN_MIN: usize = 1024;

/// The longest record that is used as a sample, in bytes.
const SAMPLE_LEN_MAX: usize = TRAINING_LEN_MAX / 64;

/// A collector of records for training a dictionary, evenly spread over all offered records.
///
/// Stores at most [`TRAINING_LEN_MAX`] bytes: when they are full, it drops every second record, and
/// collects half as many from then on.
#[derive(Clone, Debug)]
pub struct Trainer {
    samples: Vec<u8>,
    lens: Vec<usize>,
    /// One record in this many is collected.
    stride: u64,
    records_expected: u64,
    records_seen: u64,
    raw_seen: u64,
}

impl Trainer {
    /// Creates a trainer for a mailbox of about this many records; 0 if that is unknown: the number
    /// of offered records then counts.
    pub fn new(records_expected: usize) -> Self {
        let records_expected = records_expected as u64;
        let (samples, lens) = (Vec::new(), Vec::new());
        Self { samples, lens, stride: 1, records_expected, records_seen: 0, raw_seen: 0 }
    }

    /// Offers a record.
    pub fn add(&mut self, raw: &[u8]) {
        let index = self.records_seen;
        self.records_seen += 1;
        self.raw_seen += raw.len() as u64;
        let wanted = index.is_multiple_of(self.stride) && self.make_room(raw.len());
        if wanted && index.is_multiple_of(self.stride) {
            self.take(raw);
        }
    }

    /// Adds the samples of another trainer, for example that of another thread.
    pub fn merge(&mut self, other: &Self) {
        self.records_seen += other.records_seen;
        self.raw_seen += other.raw_seen;
        while self.stride < other.stride {
            self.thin();
        }
        let mut rest = &other.samples[..];
        let step = self.stride / other.stride;
        for (index, len) in (0u64..).zip(&other.lens) {
            let (raw, after) = rest.split_at(*len);
            rest = after;
            if index.is_multiple_of(step) && self.make_room(raw.len()) {
                self.take(raw);
            }
        }
    }

    /// Returns `true` if there is room for a sample; drops others if necessary.
    fn make_room(&mut self, len: usize) -> bool {
        let fits = len <= SAMPLE_LEN_MAX;
        if fits && self.samples.len() + len > TRAINING_LEN_MAX {
            self.thin();
        }
        fits
    }

    fn take(&mut self, raw: &[u8]) {
        self.samples.extend_from_slice(raw);
        self.lens.push(raw.len());
    }

    /// Drops every second sample.
    fn thin(&mut self) {
        self.stride *= 2;
        let (mut from, mut to) = (0, 0);
        for (index, len) in self.lens.iter().enumerate() {
            if index % 2 == 0 {
                self.samples.copy_within(from..from + len, to);
                to += len;
            }
            from += len;
        }
        self.samples.truncate(to);
        let mut index = 0;
        self.lens.retain(|_| {
            index += 1;
            index % 2 == 1
        });
    }

    /// Returns `true` if the samples were full once: more records of the same time would not
    /// improve the dictionary, only records of another time would.
    pub fn is_enough(&self) -> bool {
        self.stride > 1 || self.samples.len() >= TRAINING_LEN_MAX / 8 * 7
    }

    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        self.lens.len()
    }

    /// Returns `true` if there are no samples.
    pub fn is_empty(&self) -> bool {
        self.lens.is_empty()
    }

    /// Returns the number of bytes of all offered records.
    pub fn raw_len_seen(&self) -> u64 {
        self.raw_seen
    }

    /// Returns the number of bytes of all records that the dictionary is meant for.
    fn raw_len_expected(&self) -> u64 {
        let mean = self.raw_seen / self.records_seen.max(1);
        self.raw_seen.max(mean.saturating_mul(self.records_expected))
    }

    /// Trains a dictionary; `None` if it would not be worth its cost. Takes some 30 ms when the
    /// samples are full.
    pub fn train(&self) -> Option<Vec<u8>> {
        if self.lens.len() < RECORDS_MIN {
            return None;
        }
        let len = self.raw_len_expected() / RECORDS_PER_DICTIONARY;
        let len = len.min(DICTIONARY_LEN_MAX as u64) as usize;
        let len = len.min(self.samples.len() / 4);
        if len < DICTIONARY_LEN_MIN {
            return None;
        }
        Dictionary::train(&self.samples, &self.lens, len)
    }
}

/// The fewest records from which the ratio is judged.
const WATCHED_MIN: u64 = 1_000;

/// A watch for the moment when a dictionary no longer fits the records compressed with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RatioWatch {
    /// Records since training.
    pub records: u64,
    /// Their bytes.
    pub raw: u64,
    /// Their bytes as stored.
    pub stored: u64,
}

impl RatioWatch {
    /// Creates a watch without records.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a record.
    pub fn add(&mut self, raw_len: usize, stored_len: usize) {
        self.records += 1;
        self.raw += raw_len as u64;
        self.stored += stored_len as u64;
    }

    /// Adds the records of another watch.
    pub fn merge(&mut self, other: &Self) {
        self.records += other.records;
        self.raw += other.raw;
        self.stored += other.stored;
    }

    /// Returns stored bytes in thousandths of raw bytes.
    pub fn permille(&self) -> u64 {
        self.stored * 1_000 / self.raw.max(1)
    }

    /// Returns `true` if records have become a quarter longer than those of `at_training`, the
    /// records compressed right after training.
    pub fn has_decayed(&self, at_training: &Self) -> bool {
        self.records >= WATCHED_MIN && self.permille() * 4 > at_training.permille().max(1) * 5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(random: &mut fastrand::Rng, index: u32) -> Vec<u8> {
        let id = random.u64(..);
        format!("From: someone{} <a{}@example.org> {index} {id:x}", id % 9, id % 7).into_bytes()
    }

    fn check(count: u32, expected: usize) -> Trainer {
        let mut random = fastrand::Rng::with_seed(6);
        let mut trainer = Trainer::new(expected);
        let mut raw_len = 0;
        for index in 0..count {
            let raw = record(&mut random, index);
            raw_len += raw.len() as u64;
            trainer.add(&raw);
            assert!(trainer.samples.len() <= TRAINING_LEN_MAX);
        }
        assert_eq!(trainer.raw_len_seen(), raw_len);
        assert_eq!(trainer.lens.iter().sum::<usize>(), trainer.samples.len());
        trainer
    }

    #[test]
    fn samples_are_spread_and_bounded() {
        let few = check(500, 0);
        assert_eq!((few.len(), few.is_enough()), (500, false));
        let many = check(150_000, 0);
        assert!(many.is_enough() && many.samples.len() > TRAINING_LEN_MAX / 3);
        assert_eq!(many.len(), 150_000usize.div_ceil(many.stride as usize));
        let text = String::from_utf8(many.samples.clone()).unwrap();
        assert!(text.contains("> 0 ") && text.contains("> 40000 ") && text.contains("> 140000 "));

        let mut merged = check(500, 0);
        merged.merge(&many);
        assert_eq!(merged.raw_len_seen(), few.raw_len_seen() + many.raw_len_seen());
        assert_eq!(merged.lens.iter().sum::<usize>(), merged.samples.len());
        assert!(merged.samples.len() <= TRAINING_LEN_MAX && merged.len() > many.len() / 2);
    }

    #[test]
    fn dictionaries_are_as_long_as_the_mailbox_pays_for() {
        assert_eq!(check(50, 1_000_000).train(), None);
        assert_eq!(check(200, 0).train(), None);
        assert_eq!(Trainer::new(1_000_000).train(), None);
        let trainer = check(5_000, 0);
        let short = trainer.train().unwrap();
        assert!(short.len() as u64 <= trainer.raw_len_seen() / RECORDS_PER_DICTIONARY);
        assert_eq!(trainer.train().unwrap(), short, "the same samples make the same dictionary");
        let long = check(5_000, usize::MAX).train().unwrap();
        assert!(short.len() < long.len() && long.len() <= DICTIONARY_LEN_MAX);
    }

    #[test]
    fn noise_makes_no_dictionary_or_one_that_works() {
        let mut random = fastrand::Rng::with_seed(8);
        let mut trainer = Trainer::new(0);
        for _ in 0..500 {
            let raw: Vec<u8> = (0..random.usize(0..300)).map(|_| random.u8(..)).collect();
            trainer.add(&raw);
        }
        trainer.add(&vec![b'x'; TRAINING_LEN_MAX]);
        assert!(trainer.samples.len() < 500 * 300);
        if let Some(bytes) = trainer.train() {
            assert!(Dictionary::new(1, &bytes, 3).is_some());
        }
    }

    #[test]
    fn what_is_no_dictionary_is_refused() {
        let bytes = check(5_000, 0).train().unwrap();
        assert_eq!(Dictionary::new(9, &bytes, 3).map(|found| found.id()), Some(9));
        assert!(Dictionary::new(9, b"", 3).is_none());
        assert!(Dictionary::new(9, &bytes[1..], 3).is_none());
        assert!(Dictionary::new(9, &bytes[..100], 3).is_none());
        assert!(Dictionary::new(9, &vec![0; 4096], 3).is_none());
        let mut long = bytes.clone();
        long.resize(DICTIONARY_LEN_MAX + 1, 0);
        assert!(Dictionary::new(9, &long, 3).is_none());
    }

    #[test]
    fn decay_is_told() {
        let mut at_training = RatioWatch::new();
        (0..1_000).for_each(|_| at_training.add(500, 150));
        assert_eq!(at_training.permille(), 300);
        let mut watch = RatioWatch::new();
        (0..999).for_each(|_| watch.add(500, 300));
        assert!(!watch.has_decayed(&at_training), "too few");
        watch.add(500, 300);
        assert!(watch.has_decayed(&at_training));
        let mut other = RatioWatch::new();
        (0..50_000).for_each(|_| other.add(500, 160));
        watch.merge(&other);
        assert!(!watch.has_decayed(&at_training));
    }
}
