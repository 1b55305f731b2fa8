//! Tokens of several words: the last words, joined with `*`.

use crate::limits::MULTI_TOKEN_COUNT_MAX;
use crate::options::Options;

/// The last words, and which joined token comes next.
#[derive(Debug, Default)]
pub(super) struct Joined {
    /// A ring of `count_max` words of at most `word_len_max` bytes.
    words: Vec<u8>,
    lens: [usize; MULTI_TOKEN_COUNT_MAX],
    count_max: usize,
    word_len_max: usize,
    len_max: usize,
    /// Words since the last break.
    count: usize,
    /// Number of words, less one, of the joined token that comes next.
    next: usize,
}

impl Joined {
    pub(super) fn new(options: &Options) -> Self {
        let count_max = options.multi_token_bound();
        let word_len_max = options.token_len_bound();
        let words = if count_max > 1 { vec![0; count_max * word_len_max] } else { Vec::new() };
        let len_max = options.multi_token_len_bound();
        Self { words, count_max, word_len_max, len_max, next: 1, ..Self::default() }
    }

    pub(super) fn reset(&mut self) {
        self.count = 0;
        self.next = 1;
    }

    /// Forgets the words before a break.
    pub(super) fn clear(&mut self) {
        self.count = 0;
    }

    /// Adds a word.
    pub(super) fn push(&mut self, word: &[u8]) {
        if self.count_max < 2 {
            return;
        }
        let slot = self.count % self.count_max;
        let len = word.len().min(self.word_len_max);
        let start = slot * self.word_len_max;
        self.words[start..start + len].copy_from_slice(&word[..len]);
        self.lens[slot] = len;
        self.count += 1;
        self.next = 1;
    }

    /// Appends the next joined token to `to`; `false` if there is none.
    pub(super) fn next(&mut self, to: &mut Vec<u8>) -> bool {
        if self.count < 2 || self.count <= self.next || self.count_max <= self.next {
            return false;
        }
        let start = to.len();
        for back in (0..=self.next).rev() {
            let slot = (self.count - 1 - back) % self.count_max;
            let word = slot * self.word_len_max;
            to.extend_from_slice(&self.words[word..word + self.lens[slot]]);
            if back > 0 {
                to.push(b'*');
            }
        }
        to.truncate(start + self.len_max);
        self.next += 1;
        true
    }
}
