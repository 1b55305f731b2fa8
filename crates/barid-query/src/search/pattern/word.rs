//! Words, in texts that are folded.
//!
//! A word is a run of letters, digits, marks and `_`. A Han, Hiragana or Katakana character is a
//! word of its own, since their writing has no spaces.

use unicode_normalization::char::is_combining_mark;

use super::text::PatternText;

/// A word to be found near others, folded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NearWord {
    pub(super) text: String,
    /// `true` if it is the beginning of a word.
    pub(super) is_prefix: bool,
}

impl NearWord {
    pub(super) fn is(&self, word: &str) -> bool {
        if self.is_prefix { word.starts_with(&self.text) } else { word == self.text }
    }
}

/// Returns the different words of a text, folded; `None` if a `*` does not follow a word.
pub(super) fn words(text: &str, folds_accents: bool) -> Option<Vec<NearWord>> {
    let text = PatternText::new(text.into());
    let folded = text.folded_form(folds_accents);
    let mut found: Vec<NearWord> = Vec::new();
    let mut stars = 0;
    for (start, end) in ranges(folded) {
        let rest = &folded[end..];
        // `a*b` is no word.
        let is_prefix = rest
            .strip_prefix('*')
            .is_some_and(|rest| !rest.starts_with(|c: char| c == '*' || is_word_char(c)));
        stars += usize::from(is_prefix);
        let word = NearWord { text: folded[start..end].to_owned(), is_prefix };
        if !found.contains(&word) {
            found.push(word);
        }
    }
    (stars == folded.matches('*').count()).then_some(found)
}

/// Returns the ranges of the words of a folded text.
pub(super) fn ranges(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = next_start(text, from)?;
        let mut chars = text[start..].char_indices();
        let mut before = chars.next().map(|(_, c)| c)?;
        let end = chars.find_map(|(at, c)| {
            let is_over = !is_word_char(c) || begins_word(Some(before), c);
            before = c;
            is_over.then_some(start + at)
        });
        from = end.unwrap_or(text.len());
        Some((start, from))
    })
}

/// Returns the offset of the first word that begins at or after `from`.
pub(super) fn next_start(text: &str, from: usize) -> Option<usize> {
    let mut before = text[..from].chars().next_back();
    text[from..].char_indices().find_map(|(at, c)| {
        let is_start = begins_word(before, c);
        before = Some(c);
        is_start.then_some(from + at)
    })
}

/// Returns `true` if a word begins between two characters.
pub(super) fn begins_word(before: Option<char>, at: char) -> bool {
    let is_inside = || before.is_some_and(|before| is_word_char(before) && !is_own_word(before));
    is_word_char(at) && !is_combining_mark(at) && (is_own_word(at) || !is_inside())
}

/// Returns `true` for characters of words.
pub(super) fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || (!c.is_ascii() && is_combining_mark(c))
}

/// Returns `true` for characters of scripts without spaces: Hiragana, Katakana, Han.
fn is_own_word(c: char) -> bool {
    matches!(
        c,
        '\u{3041}'..='\u{30ff}'
            | '\u{31f0}'..='\u{31ff}'
            | '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{3ffff}'
    )
}
