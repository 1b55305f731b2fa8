//! Sets of message numbers as ranges, in memory independent of the count of numbers.

use super::name::Number;

/// Ascending ranges, both ends included, none touching the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(Vec<(Number, Number)>);

impl Ranges {
    /// Returns `true` if it has no numbers.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if it contains a number; O(log ranges).
    pub(super) fn contains(&self, number: Number) -> bool {
        let at = self.0.partition_point(|range| range.1 < number);
        self.0.get(at).is_some_and(|range| range.0 <= number)
    }

    /// Returns its ranges, ascending.
    pub(super) fn pairs(self) -> Vec<(Number, Number)> {
        self.0
    }

    /// Returns `true` if it contains a number of `first..=last`.
    pub(super) fn overlaps(&self, first: Number, last: Number) -> bool {
        let at = self.0.partition_point(|range| range.1 < first);
        self.0.get(at).is_some_and(|range| range.0 <= last)
    }

    /// Adds ranges in any order.
    pub(super) fn add(&mut self, ranges: impl IntoIterator<Item = (Number, Number)>) {
        self.0.extend(ranges);
        self.0.sort_unstable();
        let mut merged: Vec<(Number, Number)> = Vec::with_capacity(self.0.len());
        for &(first, last) in &self.0 {
            match merged.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        self.0 = merged;
    }

    /// Removes ranges that ascend and do not overlap.
    pub(super) fn remove(&mut self, ranges: impl IntoIterator<Item = (Number, Number)>) {
        let mut left = Vec::with_capacity(self.0.len());
        let mut gone = ranges.into_iter().peekable();
        for &(first, last) in &self.0 {
            let mut from = u64::from(first);
            while let Some(&(start, end)) = gone.peek() {
                if start > last {
                    break;
                }
                if u64::from(start) > from {
                    left.push((from as Number, start - 1));
                }
                from = from.max(u64::from(end) + 1);
                // A range that reaches further may also remove a part of the next one.
                if end > last {
                    break;
                }
                gone.next();
            }
            if from <= u64::from(last) {
                left.push((from as Number, last));
            }
        }
        self.0 = left;
    }

    /// Appends ` 1-3 5`, as nmh writes it.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for &(first, last) in &self.0 {
            let text = if first == last { format!(" {first}") } else { format!(" {first}-{last}") };
            out.extend_from_slice(text.as_bytes());
        }
    }
}

impl FromIterator<(Number, Number)> for Ranges {
    fn from_iter<T: IntoIterator<Item = (Number, Number)>>(ranges: T) -> Self {
        let mut set = Self::default();
        set.add(ranges);
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_behave_like_sets() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..2_000 {
            let mut model = std::collections::BTreeSet::new();
            let mut ranges = Ranges::default();
            for _ in 0..random.usize(1..8) {
                let mut picked: Vec<u32> =
                    (0..random.usize(0..6)).map(|_| random.u32(1..30)).collect();
                if random.bool() {
                    model.extend(&picked);
                    ranges.add(picked.iter().map(|number| (*number, *number)));
                } else {
                    picked.sort_unstable();
                    picked.dedup();
                    model.retain(|number| !picked.contains(number));
                    let gone: Ranges = picked.iter().map(|number| (*number, *number)).collect();
                    ranges.remove(gone.0);
                }
            }
            for number in 1..31 {
                assert_eq!(ranges.contains(number), model.contains(&number), "{ranges:?}");
                let some = (number..=number + 3).any(|number| model.contains(&number));
                assert_eq!(ranges.overlaps(number, number + 3), some, "{ranges:?}");
            }
            assert!(ranges.0.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0), "{ranges:?}");
        }
    }

    #[test]
    fn the_ends_are_no_trouble() {
        let mut ranges: Ranges = [(1, u32::MAX)].into_iter().collect();
        ranges.remove([(1, 1), (u32::MAX, u32::MAX)]);
        assert_eq!(ranges.0, [(2, u32::MAX - 1)]);
        ranges.add([(u32::MAX, u32::MAX), (1, 1)]);
        assert_eq!(ranges.0, [(1, u32::MAX)]);
        ranges.remove([(1, u32::MAX)]);
        assert!(ranges.is_empty());
        let mut two: Ranges = [(1, 3), (6, 9)].into_iter().collect();
        two.remove([(2, 7)]);
        assert_eq!(two.0, [(1, 1), (8, 9)]);
    }
}
