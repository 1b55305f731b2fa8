//! Sets of message numbers in their text form (RFC 9051 §9, `sequence-set`).

use super::SearchError;
use super::day::number;
use crate::limits::SEARCH_RANGES_MAX;

/// A set of sequence numbers or UIDs, with `*` unresolved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NumberSet(Vec<(Option<u32>, Option<u32>)>);

impl NumberSet {
    /// Parses `1,3:5,7:*`.
    ///
    /// # Errors
    /// Returns [`SearchError::BadValue`], or [`SearchError::TooMuch`] beyond [`SEARCH_RANGES_MAX`]
    /// ranges.
    pub fn parse(text: &str) -> Result<Self, SearchError> {
        let bad = || SearchError::bad("UID", "set of numbers", text);
        let end = |text: &str| match text {
            "*" => Ok(None),
            _ => number(text).filter(|number: &u32| *number > 0).map(Some).ok_or_else(bad),
        };
        let mut ranges = Vec::new();
        for range in text.split(',') {
            if ranges.len() == SEARCH_RANGES_MAX {
                return Err(SearchError::TooMuch { what: "ranges", max: SEARCH_RANGES_MAX });
            }
            let (first, last) = range.split_once(':').unwrap_or((range, range));
            ranges.push((end(first)?, end(last)?));
        }
        Ok(Self(ranges))
    }

    /// Makes a set of ranges of numbers above 0, both ends included.
    #[must_use]
    pub fn from_ranges(ranges: impl IntoIterator<Item = (u32, u32)>) -> Self {
        Self(ranges.into_iter().map(|(first, last)| (Some(first), Some(last))).collect())
    }

    /// Returns ascending ranges that do not touch, with `*` as `greatest`; no ranges for an empty
    /// mailbox, where `greatest` is 0.
    #[must_use]
    pub fn resolve(&self, greatest: u32) -> Vec<(u32, u32)> {
        if greatest == 0 {
            return Vec::new();
        }
        let resolve = |&(first, last): &(Option<u32>, Option<u32>)| {
            let (first, last) = (first.unwrap_or(greatest), last.unwrap_or(greatest));
            (first.min(last), first.max(last))
        };
        let mut ranges: Vec<_> = self.0.iter().map(resolve).collect();
        ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::new();
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last);
                }
                _ => merged.push((first, last)),
            }
        }
        merged
    }
}

/// Returns `true` if ranges such as those of [`NumberSet::resolve`] contain a number; O(log
/// ranges).
#[must_use]
pub fn ranges_contain(ranges: &[(u32, u32)], number: u32) -> bool {
    let at = ranges.partition_point(|range| range.1 < number);
    ranges.get(at).is_some_and(|range| range.0 <= number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, greatest: u32, expected: &[(u32, u32)]) {
        assert_eq!(NumberSet::parse(text).unwrap().resolve(greatest), expected, "{text}");
    }

    #[test]
    fn sets_are_resolved() {
        check("1", 9, &[(1, 1)]);
        check("7,1:3,2:4,5", 9, &[(1, 5), (7, 7)]);
        check("12:*", 9, &[(9, 12)]);
        check("*", 9, &[(9, 9)]);
        check("*:4294967295,1", 9, &[(1, 1), (9, u32::MAX)]);
        check("1:*", 0, &[]);
        for bad in ["", "0", "1,", "a", "1:2:3", "4294967296", "-1", "+1"] {
            assert!(NumberSet::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn membership() {
        let ranges = [(1, 3), (7, 7)];
        let members: Vec<u32> = (0..10).filter(|number| ranges_contain(&ranges, *number)).collect();
        assert_eq!(members, [1, 2, 3, 7]);
    }
}
