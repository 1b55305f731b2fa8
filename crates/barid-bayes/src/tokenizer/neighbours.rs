//! The words before a word, for pairs.

use super::scan::Tag;
use crate::limits::PAIRED_WORDS_MAX;

/// The last words of a text or header field, the newest first.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    words: [Vec<u8>; 2],
    /// The field that they are in.
    pub(super) tag: Option<Tag>,
    /// Words of the text so far.
    count: usize,
}

impl Neighbours {
    /// Forgets all words, for the next message.
    pub(super) fn reset(&mut self) {
        self.forget();
        self.count = 0;
        self.tag = None;
    }

    /// Forgets the words before.
    pub(super) fn forget(&mut self) {
        self.words.iter_mut().for_each(Vec::clear);
    }

    /// Adds a word.
    pub(super) fn push(&mut self, word: &[u8]) {
        self.words.swap(0, 1);
        self.words[0].clear();
        self.words[0].extend_from_slice(word);
    }

    /// Adds a word in small letters.
    pub(super) fn push_small(&mut self, word: &[u8]) {
        self.push(word);
        self.words[0].make_ascii_lowercase();
    }

    /// Counts a word of the text. Returns `false` after the first [`PAIRED_WORDS_MAX`] words.
    pub(super) fn count(&mut self) -> bool {
        self.count += 1;
        self.count <= PAIRED_WORDS_MAX
    }

    /// Returns the word that was added `back` words before the last one; empty if there is none.
    pub(super) fn word(&self, back: usize) -> &[u8] {
        self.words.get(back).map_or(&[], Vec::as_slice)
    }
}
