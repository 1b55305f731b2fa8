//! The texts that a pattern requires, with which an index can narrow a search.

use regex_syntax::hir::{Hir, HirKind};

use super::text::PatternText;
use super::word::words;
use super::{PatternSource, TextPattern};
use crate::limits::REGEX_LEVELS_MAX;

impl TextPattern {
    /// Returns texts, folded as by [`barid_message::casemap`], all of which every text with the
    /// pattern contains when it is folded. None are known with accents folded, and of a regular
    /// expression only its longest run of ASCII.
    #[must_use]
    pub fn required_texts(&self) -> Vec<String> {
        if self.folds_accents { Vec::new() } else { self.texts_of_matches() }
    }

    /// Returns the same texts also with accents folded: then texts without accents contain them.
    pub(crate) fn texts_of_matches(&self) -> Vec<String> {
        let folds = self.folds_accents;
        let mut texts: Vec<String> = match &self.source {
            PatternSource::Text(text) | PatternSource::Prefix(text) => {
                vec![PatternText::new(text.into()).folded_form(folds).to_owned()]
            }
            PatternSource::Near(text, _) => {
                words(text, folds).unwrap_or_default().into_iter().map(|word| word.text).collect()
            }
            PatternSource::Regex(text) => {
                // The form that is compiled.
                vec![longest_run(PatternText::new(text.into()).regex_form(folds))]
            }
        };
        texts.retain(|text| !text.is_empty());
        texts
    }
}

/// Returns the longest run of ASCII that is in every match of a regular expression, in capitals.
///
/// Letters beyond ASCII may match others that fold differently; those of ASCII match only letters
/// that fold to them (`s` the long s, `k` the Kelvin sign).
fn longest_run(regex: &str) -> String {
    let mut parser = regex_syntax::ParserBuilder::new();
    let parsed = parser.multi_line(true).nest_limit(REGEX_LEVELS_MAX).build().parse(regex);
    let mut runs = Runs::default();
    if let Ok(hir) = parsed {
        runs.visit(&hir);
    }
    runs.end();
    String::from_utf8_lossy(&runs.longest).to_ascii_uppercase()
}

#[derive(Default)]
struct Runs {
    current: Vec<u8>,
    longest: Vec<u8>,
}

impl Runs {
    fn end(&mut self) {
        if self.current.len() > self.longest.len() {
            self.longest.clone_from(&self.current);
        }
        self.current.clear();
    }

    /// Visits what always matches, from the left; the levels are bounded by those of the parser.
    fn visit(&mut self, hir: &Hir) {
        match hir.kind() {
            HirKind::Literal(literal) => {
                for byte in &literal.0 {
                    match byte {
                        // A line end may be in the text as CRLF.
                        b' '..=b'~' => self.current.push(*byte),
                        _ => self.end(),
                    }
                }
            }
            HirKind::Concat(parts) => parts.iter().for_each(|part| self.visit(part)),
            HirKind::Capture(capture) => self.visit(&capture.sub),
            HirKind::Repetition(repetition) if repetition.min > 0 => {
                self.end();
                self.visit(&repetition.sub);
                self.end();
            }
            // An assertion is empty: what is beside it stays together.
            HirKind::Empty | HirKind::Look(_) => {}
            HirKind::Class(_) | HirKind::Repetition(_) | HirKind::Alternation(_) => self.end(),
        }
    }
}
