//! Evaluating a program for all messages at once, from what is known of its keys.

use super::BitSet;
use super::SearchNode;
use super::matcher::{Matcher, Op};

/// Knowledge about a key or a program. No row is in both sets; one in neither is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownRows {
    /// Rows that match.
    pub yes: BitSet,
    /// Rows that do not.
    pub no: BitSet,
}

impl KnownRows {
    /// Creates the knowledge of nothing about `rows` rows.
    #[must_use]
    pub fn nothing(rows: u32) -> Self {
        Self { yes: BitSet::none(rows), no: BitSet::none(rows) }
    }

    /// Returns the knowledge about a row.
    #[must_use]
    pub fn of(&self, row: u32) -> Option<bool> {
        match (self.yes.contains(row), self.no.contains(row)) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }
}

impl Matcher {
    /// Returns what follows for a program from what is known of its keys: `known` returns it for a
    /// node. O(nodes × rows / 64).
    pub fn follow<'k>(
        &self,
        rows: u32,
        known: &dyn Fn(usize) -> Option<&'k KnownRows>,
    ) -> KnownRows {
        let mut all = KnownRows::nothing(rows);
        let mut values = vec![(0_u64, 0_u64); self.nodes().len()];
        for word in 0..all.yes.words().len() {
            for (at, op) in self.nodes().iter().enumerate() {
                let of = |id: &u32| values[*id as usize];
                values[at] = match op {
                    Op::Test(_) => known(at).map_or((0, 0), |known| {
                        let of = |words: &[u64]| words.get(word).copied().unwrap_or(0);
                        (of(known.yes.words()), of(known.no.words()))
                    }),
                    Op::Join(SearchNode::Not(id)) => (of(id).1, of(id).0),
                    Op::Join(SearchNode::And(ids)) => {
                        let join = |(yes, no), id| (yes & of(id).0, no | of(id).1);
                        ids.iter().fold((u64::MAX, 0), join)
                    }
                    Op::Join(SearchNode::Or(ids)) => {
                        let join = |(yes, no), id| (yes | of(id).0, no & of(id).1);
                        ids.iter().fold((0, u64::MAX), join)
                    }
                    Op::Join(SearchNode::Key(_)) => (0, 0),
                };
            }
            let (yes, no) = values.last().copied().unwrap_or_default();
            (all.yes.words_mut()[word], all.no.words_mut()[word]) = (yes, no);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{Day, MatcherContext, parse_short};
    use barid_types::KeywordTable;

    #[test]
    fn what_is_known_of_keys_is_followed() {
        let check = |query: &str, expected: [Option<bool>; 3]| {
            let program = parse_short(query, Day(0)).unwrap();
            let keywords = KeywordTable::default();
            let context = MatcherContext {
                now: 0,
                exists: 3,
                greatest_uid: 3,
                keywords: &keywords,
                saved: &[],
            };
            let matcher = Matcher::new(&program, &context);
            // Of every text: the first row has it, the second does not, the third may.
            let mut known = KnownRows::nothing(3);
            known.yes.insert(0);
            known.no.insert(1);
            let texts: Vec<usize> = matcher.texts().map(|test| test.node).collect();
            let followed = matcher.follow(3, &|node| texts.contains(&node).then_some(&known));
            assert_eq!([0, 1, 2].map(|row| followed.of(row)), expected, "{query}");
        };
        check("a", [Some(true), Some(false), None]);
        check("not a", [Some(false), Some(true), None]);
        check("a is:seen", [None, Some(false), None]);
        check("a or is:seen", [Some(true), None, None]);
        check("a -b", [Some(false), Some(false), None]);
        check("a (b or subject:c)", [Some(true), Some(false), None]);
    }
}
