//! The order by relevance: Okapi BM25 (Robertson and Zaragoza, 2009) over the texts of a query.
//!
//! The terms are the texts that a message may match by; those that it must not have are not
//! counted. Nothing of this is in an index: only messages that were found are read and counted, so
//! the order is the same with and without one.

use super::fold::Needle;
use super::normal::children;
use super::pattern::push_without_accents;
use super::scan::with_line_feeds;
use super::texts::{TextBuffers, TextKind, each_folded_text};
use super::{
    AddressField, ProgramBuilder, SearchError, SearchKey, SearchNode, SearchProgram, TextPattern,
    TextPlace,
};
use crate::limits::RELEVANCE_TERMS_MAX;

/// BM25's `k1`: the smaller it is, the less further occurrences add.
const SATURATION: f64 = 1.2;
/// BM25's `b`: the part of the saturation that depends on the length of the message.
const LENGTH_SHARE: f64 = 0.75;

/// Occurrences in a body for which one in the subject counts.
const SUBJECT_WEIGHT: f32 = 4.0;
/// The same for From, To and Cc.
const ADDRESS_WEIGHT: f32 = 2.0;
/// The same for bodies, and for other fields that people write or read.
const TEXT_WEIGHT: f32 = 1.0;
/// The same for fields that only programs write and read.
const OPAQUE_WEIGHT: f32 = 0.25;

/// The texts of a query that messages are ordered by.
#[derive(Clone, Debug)]
pub struct RelevanceTerms {
    terms: Vec<Term>,
}

#[derive(Clone, Debug)]
struct Term {
    place: CountedPlace,
    needle: Needle,
    folds_accents: bool,
    /// Its key alone.
    program: SearchProgram,
}

/// The texts of a message among which a term is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CountedPlace {
    Kind(TextKind),
    /// Values of a header field: its name in capitals, and a colon.
    Field(Vec<u8>),
    /// Headers and bodies.
    Message,
}

/// Occurrences of each term in a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TermCounts {
    /// Bytes of the bodies that are text, as they are compared.
    pub body_len: u64,
    /// For each term its occurrences, each with the weight of its field.
    pub weights: Vec<f32>,
}

impl RelevanceTerms {
    /// Returns the terms of a program: the texts of its keys, each once, except for keys below an
    /// odd number of NOTs. Of a pattern it is the longest text that the pattern requires.
    ///
    /// # Errors
    /// [`SearchError::NoTerms`] if there are none; [`SearchError::TooMuch`] beyond
    /// [`RELEVANCE_TERMS_MAX`].
    pub fn of(program: &SearchProgram) -> Result<Self, SearchError> {
        let mut terms: Vec<Term> = Vec::new();
        for term in positive_keys(program).filter_map(Term::of) {
            if !terms.iter().any(|known| known.counts_as(&term)) {
                terms.push(term);
            }
        }
        if terms.is_empty() {
            return Err(SearchError::NoTerms);
        }
        if terms.len() > RELEVANCE_TERMS_MAX {
            let max = RELEVANCE_TERMS_MAX;
            return Err(SearchError::TooMuch { what: "texts to order by relevance", max });
        }
        Ok(Self { terms })
    }

    /// Returns for each term a program that matches the messages with it.
    pub fn programs(&self) -> impl ExactSizeIterator<Item = &SearchProgram> {
        self.terms.iter().map(|term| &term.program)
    }

    /// Counts the terms in a message. One pass over its texts, and one over each for every term.
    #[must_use]
    pub fn count(&self, message: &[u8], buffers: &mut TextBuffers) -> TermCounts {
        let mut counts = TermCounts { body_len: 0, weights: vec![0.0; self.terms.len()] };
        let folds_accents = self.terms.iter().any(|term| term.folds_accents);
        let mut bare = Vec::new();
        each_folded_text(message, buffers, &mut |kind, text| {
            if kind == TextKind::Body {
                counts.body_len += text.len() as u64;
            }
            if folds_accents {
                bare.clear();
                push_without_accents(text, &mut bare);
            }
            let weight = weight(kind, text);
            for (term, sum) in self.terms.iter().zip(&mut counts.weights) {
                let text = if term.folds_accents { &*bare } else { text };
                *sum += weight * term.count(kind, text) as f32;
            }
        });
        counts
    }
}

/// Returns the keys of a program that are below an even number of NOTs, in their order.
fn positive_keys(program: &SearchProgram) -> impl Iterator<Item = &SearchKey> {
    const POSITIVE: u8 = 1;
    const NEGATED: u8 = 2;
    let nodes = program.nodes();
    let mut signs = vec![0; nodes.len()];
    if let Some(root) = signs.last_mut() {
        *root = POSITIVE;
    }
    for (at, node) in nodes.iter().enumerate().rev() {
        let sign = match node {
            SearchNode::Not(_) => signs[at] << 1 | signs[at] >> 1,
            _ => signs[at],
        };
        for child in children(node) {
            signs[*child as usize] |= sign & (POSITIVE | NEGATED);
        }
    }
    nodes.iter().zip(signs).filter_map(|(node, sign)| match node {
        SearchNode::Key(key) if sign & POSITIVE != 0 => Some(key),
        _ => None,
    })
}

impl Term {
    /// Returns the term of a key; `None` for one that compares no text.
    fn of(key: &SearchKey) -> Option<Self> {
        let (place, needle, folds_accents) = match key {
            SearchKey::Address(field, text) => {
                (CountedPlace::of_address(*field), Needle::new(text), false)
            }
            SearchKey::Subject(text) => {
                (CountedPlace::Kind(TextKind::Subject), Needle::new(text), false)
            }
            SearchKey::Header(name, text) => {
                (CountedPlace::of_field(name), Needle::new(text), false)
            }
            SearchKey::Body(text) => (CountedPlace::Kind(TextKind::Body), Needle::new(text), false),
            SearchKey::Text(text) => (CountedPlace::Message, Needle::new(text), false),
            SearchKey::Pattern(place, pattern) => {
                (CountedPlace::of_pattern(place)?, longest_text(pattern)?, pattern.folds_accents())
            }
            _ => return None,
        };
        if needle.is_empty() {
            return None;
        }
        let mut builder = ProgramBuilder::default();
        let root = builder.key(key.clone()).ok()?;
        Some(Self { place, needle, folds_accents, program: builder.finish(root) })
    }

    /// Returns `true` if the same occurrences are counted for both.
    fn counts_as(&self, other: &Self) -> bool {
        self.place == other.place
            && self.folds_accents == other.folds_accents
            && self.needle.folded() == other.needle.folded()
    }

    /// Returns the number of occurrences in a text of a message; they do not overlap.
    fn count(&self, kind: TextKind, text: &[u8]) -> usize {
        let Some(text) = self.place.within(kind, text) else { return 0 };
        match self.needle.has_break {
            true => self.needle.count(&with_line_feeds(text)),
            false => self.needle.count(text),
        }
    }
}

/// Returns the longest text that a pattern requires.
fn longest_text(pattern: &TextPattern) -> Option<Needle> {
    let longest = pattern.texts_of_matches().into_iter().max_by_key(String::len)?;
    Some(Needle::of_folded(longest.as_bytes()))
}

impl CountedPlace {
    fn of_address(field: AddressField) -> Self {
        match field {
            AddressField::From => Self::Kind(TextKind::From),
            AddressField::To => Self::Kind(TextKind::To),
            AddressField::Cc => Self::Kind(TextKind::Cc),
            AddressField::Bcc => Self::of_field("bcc"),
        }
    }

    fn of_field(name: &str) -> Self {
        Self::Field(format!("{}:", name.to_ascii_uppercase()).into_bytes())
    }

    fn of_pattern(place: &TextPlace) -> Option<Self> {
        Some(match place {
            TextPlace::Address(field) => Self::of_address(*field),
            TextPlace::Subject => Self::Kind(TextKind::Subject),
            TextPlace::Header(name) => Self::of_field(name),
            TextPlace::Body => Self::Kind(TextKind::Body),
            TextPlace::Text => Self::Message,
            TextPlace::FileName | TextPlace::Attachment => return None,
        })
    }

    /// Returns the part of a text that belongs to the place.
    fn within<'t>(&self, kind: TextKind, text: &'t [u8]) -> Option<&'t [u8]> {
        let is_header = matches!(kind, TextKind::Header | TextKind::OpaqueHeader);
        match self {
            Self::Kind(own) => (*own == kind).then_some(text),
            Self::Field(name) if is_header => text.strip_prefix(&**name),
            Self::Field(_) => None,
            // The envelope has the same texts as the header.
            Self::Message => (is_header || kind == TextKind::Body).then_some(text),
        }
    }
}

/// Returns the weight of an occurrence in a text.
fn weight(kind: TextKind, text: &[u8]) -> f32 {
    match kind {
        TextKind::Subject => SUBJECT_WEIGHT,
        TextKind::From | TextKind::To | TextKind::Cc => ADDRESS_WEIGHT,
        TextKind::Body | TextKind::Attachment => TEXT_WEIGHT,
        TextKind::OpaqueHeader => OPAQUE_WEIGHT,
        TextKind::Header if text.starts_with(b"SUBJECT:") => SUBJECT_WEIGHT,
        TextKind::Header => {
            let is_address = [&b"FROM:"[..], b"TO:", b"CC:"].iter().any(|n| text.starts_with(n));
            if is_address { ADDRESS_WEIGHT } else { TEXT_WEIGHT }
        }
    }
}

/// The scores of BM25 for one collection of messages.
#[derive(Clone, Debug)]
pub struct RelevanceModel {
    /// For each term the weight of its rarity, idf.
    rarities: Vec<f64>,
    average_len: f64,
}

impl RelevanceModel {
    /// Creates the model of a collection of `messages` messages. `found_in` is for each term the
    /// number of them that match it; `average_len` the average of [`TermCounts::body_len`] of the
    /// messages that are ordered.
    #[must_use]
    pub fn new(messages: u64, found_in: &[u64], average_len: f64) -> Self {
        let rarity = |found: &u64| {
            // Messages may arrive while terms are searched.
            let others = messages.saturating_sub(*found) as f64;
            (1.0 + (others + 0.5) / (*found as f64 + 0.5)).ln()
        };
        Self { rarities: found_in.iter().map(rarity).collect(), average_len }
    }

    /// Returns the score of a message; at least 0, and 0 if it has none of the terms.
    ///
    /// It is the sum over the terms of `idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * len /
    /// average))`, with `k1` 1.2 and `b` 0.75.
    #[must_use]
    pub fn score(&self, counts: &TermCounts) -> f64 {
        let len = match self.average_len > 0.0 {
            true => counts.body_len as f64 / self.average_len,
            false => 1.0,
        };
        let saturation = SATURATION * (1.0 - LENGTH_SHARE + LENGTH_SHARE * len);
        let of_term = |(rarity, weight): (&f64, &f32)| {
            let weight = f64::from(*weight);
            rarity * weight * (SATURATION + 1.0) / (weight + saturation)
        };
        self.rarities.iter().zip(&counts.weights).map(of_term).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{Day, ShortOptions, parse_short_with};

    fn terms(query: &str, fold_accents: bool) -> Result<RelevanceTerms, SearchError> {
        let options = ShortOptions { today: Day(0), fold_accents };
        RelevanceTerms::of(&parse_short_with(query, options).unwrap())
    }

    /// Checks the terms of a query, as they are compared.
    fn check(query: &str, expected: &[&str]) {
        let found = match terms(query, false) {
            Ok(found) => found.terms,
            Err(error) => {
                assert_eq!(error, SearchError::NoTerms, "{query}");
                Vec::new()
            }
        };
        let texts = found.iter().map(|term| String::from_utf8(term.needle.folded().to_vec()));
        assert_eq!(texts.map(Result::unwrap).collect::<Vec<_>>(), expected, "{query}");
    }

    #[test]
    fn terms_are_texts_that_messages_may_match_by() {
        check("budget", &["BUDGET"]);
        check("budget or plan is:unread", &["BUDGET", "PLAN"]);
        check("budget -plan", &["BUDGET"]);
        check("not (not budget)", &["BUDGET"]);
        check("not (plan or not budget)", &["BUDGET"]);
        check("-(budget plan)", &[]);
        check("budget BUDGET subject:budget", &["BUDGET", "BUDGET"]);
        check("thread:5 budget in:x", &["BUDGET"]);
        check("from:ann bcc:bob header:x-loop=one id:a@b list:rust", {
            &["ANN", "BOB", "ONE", "A@B", "RUST"]
        });
        check("budg* \"annual plan\"~5 /a.*quarter[0-9]/", &["BUDG", "ANNUAL", "QUARTER"]);
        check("is:unread filename:plan mimetype:image/* has:attachment", &[]);
        check("subject:\"\" /[0-9]/", &[]);
        check("all", &[]);
    }

    #[test]
    fn too_many_terms_are_refused() {
        let query: Vec<String> = (0..=RELEVANCE_TERMS_MAX).map(|n| format!("t{n}")).collect();
        let error = terms(&query.join(" "), false).unwrap_err();
        assert!(matches!(error, SearchError::TooMuch { max: RELEVANCE_TERMS_MAX, .. }), "{error}");
        assert!(terms(&query[1..].join(" "), false).is_ok());
    }

    const MESSAGE: &str = "From: Budget Office <b@x>\nTo: ann@budget.example\n\
        Subject: The =?utf-8?q?b=C3=BCdget?= budget\nReceived: by budget.example\n\
        X-Loop: budget\nBcc: budget@x\n\nBudget, budget.\r\nNext line.\n";

    fn count(query: &str, fold_accents: bool) -> Vec<f32> {
        let mut buffers = TextBuffers::default();
        terms(query, fold_accents).unwrap().count(MESSAGE.as_bytes(), &mut buffers).weights
    }

    #[test]
    fn occurrences_count_by_their_field() {
        let check = |query: &str, expected: &[f32]| {
            assert_eq!(count(query, false), expected, "{query}");
        };
        check("body:budget", &[2.0]);
        check("subject:budget", &[4.0]);
        check("subject:/budget/", &[4.0]);
        check("from:budget to:budget cc:budget bcc:budget", &[2.0, 2.0, 0.0, 1.0]);
        check("header:x-loop=budget header:received=budget", &[1.0, 0.25]);
        // Bodies, Subject, From and To, X-Loop and Bcc, Received.
        check("budget", &[2.0 + 4.0 + 2.0 + 2.0 + 2.0 + 0.25]);
        check("header:x-loop=loop", &[0.0]);
        check("\"budget.\nnext\"", &[1.0]);
        check("b\u{fc}dget", &[4.0]);
        assert_eq!(count("subject:budget", true), [8.0]);
        let terms = terms("a", false).unwrap();
        let counts = terms.count(MESSAGE.as_bytes(), &mut TextBuffers::default());
        assert_eq!(counts.body_len, "Budget, budget.\r\nNext line.\n".len() as u64);
    }

    #[test]
    fn scores_are_those_of_the_formula() {
        let check = |model: &RelevanceModel, body_len: u64, weights: &[f32], expected: f64| {
            let score = model.score(&TermCounts { body_len, weights: weights.to_vec() });
            assert!((score - expected).abs() < 1e-12, "{weights:?} {score} {expected}");
        };
        // One of three messages has the term: idf = ln(1 + 2.5 / 1.5).
        let idf = 0.980_829_253_011_726_2;
        let model = RelevanceModel::new(3, &[1], 100.0);
        check(&model, 100, &[0.0], 0.0);
        check(&model, 100, &[1.0], idf);
        check(&model, 100, &[2.0], idf * 4.4 / 3.2);
        // Twice the average: k1 becomes 1.2 * (0.25 + 1.5) = 2.1; no body: 1.2 * 0.25 = 0.3.
        check(&model, 200, &[1.0], idf * 2.2 / 3.1);
        check(&model, 0, &[1.0], idf * 2.2 / 1.3);
        // A term that all messages have: ln(1 + 0.5 / 3.5), which is never negative.
        let model = RelevanceModel::new(3, &[1, 3], 100.0);
        check(&model, 100, &[1.0, 1.0], idf + 0.133_531_392_624_522_6);
        check(&RelevanceModel::new(3, &[1], 0.0), 0, &[1.0], idf);
        check(&RelevanceModel::new(0, &[0], 1.0), 1, &[1.0], 2f64.ln());
    }
}
