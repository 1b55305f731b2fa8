//! The collation i;unicode-casemap (RFC 5051): titlecase, then full decomposition.

use std::sync::LazyLock;

use unicode_normalization::char::decompose_compatible;

/// Maps a text to its sort key: every character in simple titlecase, then decomposed.
///
/// Keys are compared byte by byte. Dovecot's `uni_utf8_to_decomposed_titlecase` returns the same
/// key, except for characters that decompose in several steps, of which it takes one, and for
/// characters that Unicode has added since (`docs/deviations.md`). O(length).
pub fn casemap(text: &str) -> String {
    let mut key = String::with_capacity(text.len());
    casemap_into(text, &mut key);
    key
}

/// Appends the sort key of `text` to `key`; see [`casemap`].
pub fn casemap_into(text: &str, key: &mut String) {
    let mut rest = text;
    while !rest.is_empty() {
        let ascii = rest.bytes().position(|byte| !byte.is_ascii()).unwrap_or(rest.len());
        let start = key.len();
        key.push_str(&rest[..ascii]);
        key[start..].make_ascii_uppercase();
        rest = casemap_foreign(&rest[ascii..], |part| key.push_str(part));
    }
}

/// Maps the leading non-ASCII characters as [`casemap`] does, and returns the rest of the text.
pub fn casemap_foreign(text: &str, mut push: impl FnMut(&str)) -> &str {
    let mut rest = text.chars();
    loop {
        let after = rest.as_str();
        match rest.next() {
            None | Some('\0'..='\x7f') => return after,
            Some(character @ '\u{80}'..='\u{7ff}') => push(TABLE.get(character)),
            // Ideographs are mapped to themselves.
            Some('\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}') => {
                push(&after[..after.len() - rest.as_str().len()]);
            }
            Some(character) => map(character, &mut push),
        }
    }
}

fn map(character: char, push: &mut impl FnMut(&str)) {
    decompose_compatible(titlecase(character), |part| push(part.encode_utf8(&mut [0; 4])));
}

/// The mappings of the characters up to U+07FF: Latin, Greek, Cyrillic, Hebrew and Arabic. Built
/// when the first of them is met.
static TABLE: LazyLock<Table> = LazyLock::new(Table::new);

struct Table {
    /// The mappings of all characters, concatenated.
    text: String,
    /// End of each character's mapping in `text`.
    ends: Vec<u16>,
}

impl Table {
    fn new() -> Self {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for character in '\0'..='\u{7ff}' {
            map(character, &mut |part: &str| text.push_str(part));
            ends.push(text.len() as u16);
        }
        Self { text, ends }
    }

    /// Returns the mapping of `character`, which must be from U+0001 to U+07FF.
    fn get(&self, character: char) -> &str {
        let at = character as usize;
        &self.text[usize::from(self.ends[at - 1])..usize::from(self.ends[at])]
    }
}

/// Returns the simple titlecase mapping of Unicode, which differs from the full uppercase mapping
/// of the standard library in the characters listed here.
pub(crate) fn titlecase(character: char) -> char {
    match character {
        // Digraphs have a titlecase of their own.
        '\u{1c4}'..='\u{1c6}' => '\u{1c5}',
        '\u{1c7}'..='\u{1c9}' => '\u{1c8}',
        '\u{1ca}'..='\u{1cc}' => '\u{1cb}',
        '\u{1f1}'..='\u{1f3}' => '\u{1f2}',
        // Georgian letters have an uppercase, but their titlecase is themselves.
        '\u{10d0}'..='\u{10fa}' | '\u{10fd}'..='\u{10ff}' => character,
        // Greek with iota subscript has its capital eight places on; the full mapping gives two
        // characters.
        '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => {
            char::from_u32(character as u32 + 8).unwrap_or(character)
        }
        '\u{1fb3}' => '\u{1fbc}',
        '\u{1fc3}' => '\u{1fcc}',
        '\u{1ff3}' => '\u{1ffc}',
        _ => {
            let mut upper = character.to_uppercase();
            match (upper.next(), upper.next()) {
                (Some(single), None) => single,
                _ => character,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Profile, casemap_as};

    fn check(text: &str, expected: &str) {
        assert_eq!(casemap(text), expected, "{text}");
    }

    #[test]
    fn titlecase_then_decomposition() {
        check("Hello, world 1", "HELLO, WORLD 1");
        check("caf\u{e9}", "CAFE\u{301}");
        check("stra\u{df}e", "STRA\u{df}E");
        check("\u{1c6}", "Dz\u{30c}");
        check("\u{fb01}x", "fiX");
        check("\u{d55c}", "\u{1112}\u{1161}\u{11ab}");
        check("\u{1f80}", "\u{391}\u{313}\u{345}");
        check("", "");
    }

    #[test]
    fn every_character_is_mapped_by_itself_as_in_a_table() {
        for character in '\u{80}'..=char::MAX {
            let mut expected = String::new();
            map(character, &mut |part: &str| expected.push_str(part));
            check(character.encode_utf8(&mut [0; 4]), &expected);
        }
    }

    #[test]
    fn dovecot_decomposes_by_one_step() {
        let check = |text, expected| assert_eq!(casemap_as(text, Profile::Dovecot), expected);
        check("caf\u{e9} \u{1d6}", "CAFE\u{301} \u{dc}\u{304}");
        check("\u{1c6}\u{d55c}", "\u{1c5}\u{1112}\u{1161}\u{11ab}");
    }
}
