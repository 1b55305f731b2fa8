//! Patterns for types and file names: `*` stands for any text.

use std::str::FromStr;

/// A pattern; case does not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    /// The texts between the stars, in lower case.
    pieces: Vec<String>,
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("an empty pattern matches nothing".to_owned());
        }
        Ok(Self { pieces: text.to_lowercase().split('*').map(str::to_owned).collect() })
    }
}

impl Pattern {
    /// Returns `true` if the whole text matches. O(text), for each piece at most once.
    pub(super) fn matches(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let [first, middle @ .., last] = &*self.pieces else {
            return self.pieces.iter().all(|piece| *piece == text);
        };
        let Some(mut rest) = text.strip_prefix(&**first) else { return false };
        for piece in middle {
            // The first place leaves the most for the pieces that follow.
            let Some(at) = rest.find(&**piece) else { return false };
            rest = &rest[at + piece.len()..];
        }
        rest.ends_with(&**last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, matching: &[&str], other: &[&str]) {
        let pattern: Pattern = pattern.parse().unwrap();
        for text in matching {
            assert!(pattern.matches(text), "{pattern:?} {text}");
        }
        for text in other {
            assert!(!pattern.matches(text), "{pattern:?} {text}");
        }
    }

    #[test]
    fn stars_stand_for_any_text() {
        check("image/*", &["image/png", "IMAGE/", "image/x/y"], &["image", "ximage/png"]);
        check("*.PDF", &["a.pdf", ".pdf", "a.b.Pdf"], &["pdf", "a.pdfx", ""]);
        check("a*b*a", &["aba", "axbxa", "abbaa"], &["aa", "ab", "ba", "abab"]);
        check("a*a", &["aa"], &["a"]);
        check("*", &["", "x"], &[]);
        check("report", &["Report"], &["reports", ""]);
        assert!("".parse::<Pattern>().is_err());
    }
}
