//! Sets of UIDs as ascending ranges (RFC 9051 §9, `sequence-set`, resolved).

use crate::Uid;

/// A set of UIDs: disjoint ranges in ascending order, neighbours merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UidSet(Vec<(Uid, Uid)>);

impl UidSet {
    /// Returns the set without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one UID; ascending insertion costs O(1), any other O(ranges).
    pub fn insert(&mut self, uid: Uid) {
        self.insert_range(uid, uid);
    }

    /// Adds all UIDs from `first` to `last`, both included, in either order.
    pub fn insert_range(&mut self, first: Uid, last: Uid) {
        let (mut first, mut last) = if first <= last { (first, last) } else { (last, first) };
        let from = self.0.partition_point(|range| range.1.next().is_some_and(|end| end < first));
        let mut to = from;
        while let Some(range) = self.0.get(to)
            && last.next().is_none_or(|end| range.0 <= end)
        {
            first = first.min(range.0);
            last = last.max(range.1);
            to += 1;
        }
        self.0.splice(from..to, [(first, last)]);
    }

    /// Adds all UIDs of another set.
    pub fn insert_all(&mut self, other: &Self) {
        for (first, last) in &other.0 {
            self.insert_range(*first, *last);
        }
    }

    /// Returns `true` if `uid` is a member; O(log ranges).
    pub fn contains(&self, uid: Uid) -> bool {
        let at = self.0.partition_point(|range| range.1 < uid);
        self.0.get(at).is_some_and(|range| range.0 <= uid)
    }

    /// Returns the ranges, ascending and disjoint.
    pub fn ranges(&self) -> &[(Uid, Uid)] {
        &self.0
    }

    /// Returns its ranges as numbers.
    pub fn numbers(&self) -> impl Iterator<Item = (u32, u32)> {
        self.0.iter().map(|(first, last)| (first.get(), last.get()))
    }

    /// Returns the number of UIDs.
    pub fn len(&self) -> u64 {
        self.0.iter().map(|(first, last)| u64::from(last.get() - first.get()) + 1).sum()
    }

    /// Returns `true` if the set has no UIDs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Uid> for UidSet {
    fn from_iter<T: IntoIterator<Item = Uid>>(uids: T) -> Self {
        let mut set = Self::new();
        uids.into_iter().for_each(|uid| set.insert(uid));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(inserts: &[(u32, u32)], expected: &[(u32, u32)]) {
        let uid = |n| Uid::new(n).unwrap();
        let mut set = UidSet::new();
        inserts.iter().for_each(|(a, b)| set.insert_range(uid(*a), uid(*b)));
        let expected: Vec<_> = expected.iter().map(|(a, b)| (uid(*a), uid(*b))).collect();
        assert_eq!(set.ranges(), expected);
    }

    #[test]
    fn ranges_merge() {
        check(&[(1, 1), (2, 2), (4, 4)], &[(1, 2), (4, 4)]);
        check(&[(4, 4), (1, 2), (3, 3)], &[(1, 4)]);
        check(&[(10, 20), (30, 40), (15, 35)], &[(10, 40)]);
        check(&[(5, 3)], &[(3, 5)]);
        check(&[(u32::MAX, u32::MAX), (1, u32::MAX - 1)], &[(1, u32::MAX)]);
    }
}
