//! Patterns prepared for searching.

use regex::bytes::Regex;

use super::super::fold::Needle;
use super::word::{NearWord, begins_word, next_start, ranges, words};
use super::{PatternSource, PatternText, TextPattern};

/// A pattern prepared for searching.
#[derive(Clone, Debug)]
pub(crate) struct PatternFinder {
    kind: FinderKind,
    folds_accents: bool,
}

#[derive(Clone, Debug)]
enum FinderKind {
    Text(Needle),
    Prefix(Needle),
    Near(NearFinder),
    Regex(Regex),
}

impl PatternFinder {
    pub(crate) fn new(pattern: &TextPattern) -> Self {
        let folds_accents = pattern.folds_accents;
        let needle = |text: &str| {
            let text = PatternText::new(text.into());
            Needle::of_folded(text.folded_form(folds_accents).as_bytes())
        };
        let kind = match (&pattern.source, &pattern.regex) {
            (_, Some(regex)) => FinderKind::Regex(regex.clone()),
            // A pattern has its regular expression, so this is unreachable for one.
            (PatternSource::Text(text) | PatternSource::Regex(text), None) => {
                FinderKind::Text(needle(text))
            }
            (PatternSource::Prefix(text), None) => FinderKind::Prefix(needle(text)),
            (PatternSource::Near(text, distance), None) => {
                FinderKind::Near(NearFinder::new(text, *distance, folds_accents))
            }
        };
        Self { kind, folds_accents }
    }

    /// Returns `true` if a text contains the pattern exactly if it contains the folded needle.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.kind, FinderKind::Text(_)) && !self.folds_accents
    }

    /// Returns `true` if the text contains the pattern. O(length), but for a prefix that is found
    /// again and again inside words: that costs its own length each time.
    pub(crate) fn is_in(&self, text: &PatternText<'_>) -> bool {
        match &self.kind {
            FinderKind::Regex(regex) => {
                regex.is_match(text.regex_form(self.folds_accents).as_bytes())
            }
            FinderKind::Text(needle) => {
                needle.is_in(text.folded_form(self.folds_accents).as_bytes())
            }
            FinderKind::Prefix(needle) => {
                begins_a_word(text.folded_form(self.folds_accents), needle)
            }
            FinderKind::Near(near) => near.is_in(text.folded_form(self.folds_accents)),
        }
    }
}

/// Returns `true` if a word of a folded text begins with a needle. A needle that does not begin
/// with a word is found anywhere.
fn begins_a_word(text: &str, needle: &Needle) -> bool {
    let mut from = 0;
    while let Some(found) = needle.find(&text.as_bytes()[from..]) {
        let at = from + found;
        let Some(first) = text[at..].chars().next() else { return true };
        let is_start = begins_word(text[..at].chars().next_back(), first);
        if is_start || !begins_word(None, first) {
            return true;
        }
        let Some(next) = next_start(text, at) else { return false };
        from = next;
    }
    false
}

/// Words near each other.
#[derive(Clone, Debug)]
struct NearFinder {
    words: Vec<NearWord>,
    /// Finds each word as a text: without one there is no need to look at the words of a text.
    needles: Vec<Needle>,
    /// Number of successive words among which all must be.
    run: usize,
}

impl NearFinder {
    fn new(text: &str, distance: u32, folds_accents: bool) -> Self {
        let words = words(text, folds_accents).unwrap_or_default();
        let needles = words.iter().map(|word| Needle::of_folded(word.text.as_bytes())).collect();
        Self { run: words.len() + distance as usize, words, needles }
    }

    /// O(words of the text * words to find).
    fn is_in(&self, text: &str) -> bool {
        if !self.needles.iter().all(|needle| needle.is_in(text.as_bytes())) {
            return false;
        }
        // The place at which each word was seen last, counted from 1.
        let mut seen = vec![0; self.words.len()];
        for (number, (start, end)) in (1..).zip(ranges(text)) {
            let mut is_one = false;
            for (word, seen) in self.words.iter().zip(&mut seen) {
                if word.is(&text[start..end]) {
                    *seen = number;
                    is_one = true;
                }
            }
            let first = seen.iter().min().copied().unwrap_or_default();
            if is_one && first > 0 && number - first < self.run {
                return true;
            }
        }
        false
    }
}
