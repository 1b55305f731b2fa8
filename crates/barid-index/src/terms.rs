//! The terms of texts and of search texts.
//!
//! A token is a longest run of ASCII letters, digits and bytes beyond ASCII; everything else
//! separates tokens. If a text contains a search text, each piece of that between two separators is
//! a whole token, the first piece is the end of one, the last the beginning of one, and a search
//! text without separators is within one. So a search text is found by looking its pieces up in
//! the tokens, as texts: nothing can be missed, in any language, and nothing need be known of
//! words.

use crate::limits::{
    FOREIGN_TOKEN_LEN_MAX, GRAMS_MAX, PIECE_STEP, PIECE_TEXT_LEN_MAX, PIECES_MAX, PROBES_MAX,
    SEPARATOR_LEN_MAX, TOKEN_LEN_MAX,
};
use xxhash_rust::xxh3::xxh3_64;

/// Bits of the hash of a boundary.
const GRAM_BITS: u32 = 20;
/// Number of hashes of boundaries.
pub(crate) const GRAMS: usize = 1 << GRAM_BITS;
/// Bytes of a token beside a separator that belong to a boundary.
const GRAM_SIDE: usize = 2;

/// Ends of a term at which its token goes on.
pub(crate) const CUT: u8 = 1;
/// Beginning of a term that is a pair of characters of a long token.
pub(crate) const PAIR: u8 = 2;
/// Separator of terms in a block; no token contains it.
pub(crate) const END: u8 = 0;

/// Takes the terms of a text.
pub(crate) trait TermSink {
    /// Takes a token, or a part of a long one.
    fn term(&mut self, term: &[u8]);
    /// Takes the hash of a boundary: a separator on one line with what stands on both sides.
    fn gram(&mut self, gram: u32);
}

fn is_in_token(byte: &u8) -> bool {
    TOKEN_BYTES[*byte as usize]
}

/// `true` for the bytes of tokens.
static TOKEN_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = byte >= 0x80 || (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    table
};

/// Returns the tokens of a text with their positions.
fn tokens(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += text[at..].iter().position(is_in_token)?;
        let start = at;
        let rest = &text[start..];
        at += rest.iter().position(|byte| !is_in_token(byte)).unwrap_or(rest.len());
        Some((start, &text[start..at]))
    })
}

/// Passes the terms of a text.
pub(crate) fn each_term(text: &[u8], with_grams: bool, sink: &mut dyn TermSink) {
    let mut before: Option<(usize, &[u8])> = None;
    for (start, token) in tokens(text) {
        each_term_of_token(token, sink);
        if with_grams
            && let Some((end, left)) = before
            && let Some(gram) = gram(left, &text[end..start], token)
        {
            sink.gram(gram);
        }
        before = Some((start + token.len(), token));
    }
}

fn each_term_of_token(token: &[u8], sink: &mut dyn TermSink) {
    if token.len() <= FOREIGN_TOKEN_LEN_MAX {
        return sink.term(token);
    }
    match std::str::from_utf8(token) {
        Ok(foreign) if !token.is_ascii() => each_pair(foreign, &mut |pair| sink.term(pair)),
        _ if token.len() <= TOKEN_LEN_MAX => sink.term(token),
        _ => each_piece(token, &mut |piece| sink.term(piece)),
    }
}

/// Passes every two adjacent characters as a term.
fn each_pair(token: &str, take: &mut dyn FnMut(&[u8])) {
    let mut term = [PAIR; 9];
    let mut starts = token.char_indices().map(|(at, _)| at).chain([token.len()]);
    let (Some(mut start), Some(mut middle)) = (starts.next(), starts.next()) else { return };
    for end in starts {
        let pair = &token.as_bytes()[start..end];
        term[1..=pair.len()].copy_from_slice(pair);
        take(&term[..=pair.len()]);
        (start, middle) = (middle, end);
    }
}

/// Passes overlapping pieces of a long token.
fn each_piece(token: &[u8], take: &mut dyn FnMut(&[u8])) {
    let mut term = Vec::with_capacity(TOKEN_LEN_MAX + 2);
    let last = token.len() - TOKEN_LEN_MAX;
    for start in (0..last).step_by(PIECE_STEP).chain([last]) {
        term.clear();
        term.extend((start > 0).then_some(CUT));
        term.extend_from_slice(&token[start..start + TOKEN_LEN_MAX]);
        term.extend((start < last).then_some(CUT));
        take(&term);
    }
}

/// Returns the hash of a boundary; `None` if the separator is long or ends a line.
fn gram(left: &[u8], separator: &[u8], right: &[u8]) -> Option<u32> {
    let is_indexed = separator.len() <= SEPARATOR_LEN_MAX
        && !separator.iter().any(|byte| matches!(byte, b'\r' | b'\n'));
    if !is_indexed {
        return None;
    }
    let mut bytes = [0; 2 * GRAM_SIDE + SEPARATOR_LEN_MAX];
    let left = &left[left.len().saturating_sub(GRAM_SIDE)..];
    let right = &right[..right.len().min(GRAM_SIDE)];
    let mut len = 0;
    for part in [left, separator, right] {
        bytes[len..len + part.len()].copy_from_slice(part);
        len += part.len();
    }
    Some((xxh3_64(&bytes[..len]) >> (64 - GRAM_BITS)) as u32)
}

/// A text to look for among the terms of a block, in which [`END`] stands before, between and
/// behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// Terms in whose bytes, with their ends, this text is.
    Text(Vec<u8>),
    /// Pairs that have this character.
    PairWith(Vec<u8>),
}

/// The terms of which a message with a piece of a search text has at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// All of these are found among tokens and parts of ASCII, ...
    pub(crate) plain: Vec<Probe>,
    /// ... or all of these among pairs.
    pub(crate) pairs: Vec<Probe>,
    /// `true` if a message in which a single term of `plain` is found has the piece.
    pub(crate) is_plain_exact: bool,
    /// `true` if one in which a single term of `pairs` is found has it.
    pub(crate) is_pairs_exact: bool,
    /// Its length in bytes.
    pub(crate) len: usize,
}

/// A search text as pieces that are looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pieces {
    /// The longest first.
    pub(crate) pieces: Vec<Piece>,
    /// Boundaries that a text with the search text has.
    pub(crate) grams: Vec<u32>,
    /// `true` if the search text is nothing but a part of a token.
    pub(crate) is_one: bool,
    /// `true` if the search text has a line end.
    pub(crate) has_break: bool,
}

impl Pieces {
    /// Takes a folded search text apart.
    pub(crate) fn of(needle: &[u8]) -> Self {
        let (mut pieces, mut grams) = (Vec::new(), Vec::new());
        let mut before: Option<(usize, usize)> = None;
        for (start, token) in tokens(needle) {
            let end = start + token.len();
            let is_start = start > 0;
            pieces.push(Piece::of(token, is_start, end < needle.len()));
            if let Some((left, left_end)) = before {
                // The rest of a token that is cut off here is not known.
                let is_left_known = left > 0 || left_end - left >= GRAM_SIDE;
                let is_right_known = end < needle.len() || token.len() >= GRAM_SIDE;
                if is_left_known && is_right_known {
                    grams.extend(gram(&needle[left..left_end], &needle[left_end..start], token));
                }
            }
            before = Some((start, end));
        }
        let is_one = matches!(before, Some((0, end)) if end == needle.len());
        pieces.sort_by_key(|piece: &Piece| std::cmp::Reverse(piece.len));
        pieces.truncate(PIECES_MAX);
        grams.truncate(GRAMS_MAX);
        let has_break = needle.iter().any(|byte| matches!(byte, b'\r' | b'\n'));
        Self { pieces, grams, is_one, has_break }
    }
}

impl Piece {
    fn of(token: &[u8], is_start: bool, is_end: bool) -> Self {
        let plain = plain_probes(token, is_start, is_end);
        let pairs = pair_probes(token);
        let is_pairs_exact = pairs.len() == 1;
        Self { is_plain_exact: plain.len() == 1, plain, pairs, is_pairs_exact, len: token.len() }
    }
}

/// Returns what is found of a piece among tokens and parts of them.
fn plain_probes(token: &[u8], is_start: bool, is_end: bool) -> Vec<Probe> {
    let probe = |text: &[u8], is_start: bool, is_end: bool| {
        let mut bytes = Vec::with_capacity(text.len() + 2);
        bytes.extend(is_start.then_some(END));
        bytes.extend_from_slice(text);
        bytes.extend(is_end.then_some(END));
        Probe::Text(bytes)
    };
    if token.len() <= PIECE_TEXT_LEN_MAX {
        return vec![probe(token, is_start, is_end)];
    }
    let last = token.len() - PIECE_STEP;
    let starts = (0..last).step_by(PIECE_STEP).take(PROBES_MAX).chain([last]);
    starts
        .map(|start| {
            let text = &token[start..start + PIECE_STEP];
            probe(text, is_start && start == 0, is_end && start == last)
        })
        .collect()
}

/// Returns what is found of a piece among pairs.
fn pair_probes(token: &[u8]) -> Vec<Probe> {
    // Search texts and texts are UTF-8, cut at bytes of ASCII.
    let Ok(text) = std::str::from_utf8(token) else { return Vec::new() };
    let mut probes = Vec::new();
    each_pair(text, &mut |pair| {
        let mut bytes = vec![END];
        bytes.extend_from_slice(pair);
        bytes.push(END);
        probes.push(Probe::Text(bytes));
    });
    probes.truncate(PROBES_MAX);
    if probes.is_empty() {
        probes.push(Probe::PairWith(token.to_vec()));
    }
    probes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Terms(Vec<String>, Vec<u32>);

    impl TermSink for Terms {
        fn term(&mut self, term: &[u8]) {
            self.0.push(String::from_utf8(term.to_vec()).unwrap());
        }
        fn gram(&mut self, gram: u32) {
            self.1.push(gram);
        }
    }

    fn terms(text: &str) -> Terms {
        let mut terms = Terms::default();
        each_term(text.as_bytes(), true, &mut terms);
        terms
    }

    #[test]
    fn tokens_are_terms() {
        assert_eq!(terms("A B2, GRU\u{308}N->X\n").0, ["A", "B2", "GRU\u{308}N", "X"]);
        assert!(terms(" -- \n").0.is_empty());
        let long = terms(&"0123456789".repeat(10)).0;
        assert_eq!(long.len(), 3);
        assert!(long[0].ends_with("23\u{1}") && long[2].starts_with("\u{1}67"));
        let cjk = terms(&"\u{4e2d}\u{6587}".repeat(6)).0;
        assert_eq!(cjk.len(), 11);
        assert_eq!(cjk[0], "\u{2}\u{4e2d}\u{6587}");
    }

    #[test]
    fn boundaries_of_search_texts_are_those_of_texts() {
        let text = terms("THE QUICK-BROWN FOX").1;
        assert_eq!(text.len(), 3);
        assert_eq!(Pieces::of(b"QUICK-BROWN").grams, text[1..2]);
        assert_eq!(Pieces::of(b"K-BR").grams, []);
        assert_eq!(Pieces::of(b" QUICK-BROWN ").grams, text[1..2]);
        assert_eq!(terms("A\nB").1, []);
    }

    #[test]
    fn pieces_are_anchored_where_the_search_text_has_separators() {
        let text = |bytes: &[u8]| vec![Probe::Text(bytes.to_vec())];
        let pieces = Pieces::of(b"AB CD-EF");
        let plain: Vec<_> = pieces.pieces.iter().map(|piece| piece.plain.clone()).collect();
        assert_eq!(plain, [text(b"AB\0"), text(b"\0CD\0"), text(b"\0EF")]);
        assert!(!pieces.is_one);
        assert!(Pieces::of(b"AB").is_one);
        assert!(!Pieces::of(b"AB ").is_one);
        assert!(Pieces::of(b"->").pieces.is_empty());
        assert_eq!(Pieces::of(&[b'A'; 100]).pieces[0].plain.len(), 4);
    }
}
