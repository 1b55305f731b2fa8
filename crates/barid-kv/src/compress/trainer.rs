//! When to train a dictionary, and from what.

use super::dictionary::Dictionary;
use crate::limits::{DICTIONARY_LEN_MAX, TRAINING_LEN_MAX};

/// Fewer records than this have no use for a dictionary.
const RECORDS_MIN: usize = 256;
/// How many bytes of samples are wanted for each byte of the dictionary.
const SAMPLES_PER_BYTE: usize = 8;
/// A dictionary smaller than this is none.
const DICTIONARY_LEN_MIN: usize = 4 * 1024;

/// Collects records to train a dictionary from, up to a bound.
#[derive(Debug)]
pub struct Trainer {
    samples: Vec<u8>,
    lens: Vec<usize>,
    expected: usize,
    seen: usize,
}

impl Trainer {
    /// A trainer for a mailbox of about this many records: of many, every n-th is taken.
    pub fn new(records_expected: usize) -> Self {
        Self { samples: Vec::new(), lens: Vec::new(), expected: records_expected, seen: 0 }
    }

    /// Offers a record.
    pub fn add(&mut self, raw: &[u8]) {
        self.seen += 1;
        if self.samples.len() + raw.len() <= TRAINING_LEN_MAX {
            self.samples.extend_from_slice(raw);
            self.lens.push(raw.len());
        }
    }

    /// Whether more records would not make the dictionary better.
    pub fn is_enough(&self) -> bool {
        self.samples.len() >= TRAINING_LEN_MAX / 8 * 7
    }

    /// How many records were taken.
    pub fn len(&self) -> usize {
        self.lens.len()
    }

    /// Whether none was taken.
    pub fn is_empty(&self) -> bool {
        self.lens.is_empty()
    }

    /// Trains; `None` if a dictionary would not pay.
    pub fn train(&self) -> Option<Vec<u8>> {
        if self.lens.len() < RECORDS_MIN {
            return None;
        }
        let records = self.expected.max(self.seen);
        let len = self.samples.len() / self.lens.len() * records / SAMPLES_PER_BYTE;
        let len = len.min(self.samples.len() / SAMPLES_PER_BYTE).min(DICTIONARY_LEN_MAX);
        if len < DICTIONARY_LEN_MIN {
            return None;
        }
        Dictionary::train(&self.samples, &self.lens, len)
    }
}

/// Fewer records than this say nothing of a dictionary.
const WATCHED_MIN: u64 = 1_000;

/// Tells when a dictionary no longer fits what is compressed with it.
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
    /// A watch that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes a record.
    pub fn add(&mut self, raw_len: usize, stored_len: usize) {
        self.records += 1;
        self.raw += raw_len as u64;
        self.stored += stored_len as u64;
    }

    /// Adds what another watch saw.
    pub fn merge(&mut self, other: &Self) {
        self.records += other.records;
        self.raw += other.raw;
        self.stored += other.stored;
    }

    /// Stored bytes in thousandths of raw bytes.
    pub fn permille(&self) -> u64 {
        self.stored * 1_000 / self.raw.max(1)
    }

    /// Whether records have become a quarter longer than those of `at_training`, the records that
    /// were compressed right after training.
    pub fn has_decayed(&self, at_training: &Self) -> bool {
        self.records >= WATCHED_MIN && self.permille() * 4 > at_training.permille().max(1) * 5
    }
}
