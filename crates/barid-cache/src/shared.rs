//! Collections whose copies share what they have in common.
//!
//! Every view of a mailbox has a snapshot of its own, which differs from the one before in a few
//! messages: a copy costs a small part of the log, and as much memory.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Items of a page of [`Pages`].
const PAGE_LEN: usize = 32;
/// Entries of a [`SharedMap`] from which on a copy merges its own into the common ones.
const OWN_MIN: usize = 64;

/// A list in pages, which are copied when an item in them changes.
#[derive(Clone, Debug)]
pub(crate) struct Pages<T>(Vec<Arc<Vec<T>>>);

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Clone> FromIterator<T> for Pages<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut pages = Self::default();
        items.into_iter().for_each(|item| pages.push(item));
        pages
    }
}

impl<T: Clone> Pages<T> {
    pub(crate) fn len(&self) -> usize {
        self.0.last().map_or(0, |last| (self.0.len() - 1) * PAGE_LEN + last.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.0.get(index / PAGE_LEN)?.get(index % PAGE_LEN)
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        Arc::make_mut(self.0.get_mut(index / PAGE_LEN)?).get_mut(index % PAGE_LEN)
    }

    pub(crate) fn push(&mut self, item: T) {
        match self.0.last_mut().filter(|last| last.len() < PAGE_LEN) {
            Some(last) => Arc::make_mut(last).push(item),
            None => self.0.push(Arc::new(vec![item])),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flat_map(|page| page.iter())
    }

    /// Returns the number of items for which `is_before` is `true`; they come first.
    pub(crate) fn partition_point(&self, is_before: impl Fn(&T) -> bool) -> usize {
        let all_before = |page: &Arc<Vec<T>>| page.last().is_some_and(&is_before);
        let page = self.0.partition_point(all_before);
        match self.0.get(page) {
            Some(items) => page * PAGE_LEN + items.partition_point(&is_before),
            None => self.len(),
        }
    }
}

/// A map by rows. A copy has entries of its own beside the common ones, and takes over all of them
/// when its own are as many as the square root of those.
#[derive(Clone, Debug)]
pub(crate) struct SharedMap<V> {
    common: Arc<BTreeMap<u32, V>>,
    /// Entries that are newer than the common ones.
    own: BTreeMap<u32, V>,
}

impl<V> Default for SharedMap<V> {
    fn default() -> Self {
        Self { common: Arc::default(), own: BTreeMap::new() }
    }
}

impl<V: Clone> SharedMap<V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.common.is_empty() && self.own.is_empty()
    }

    pub(crate) fn get(&self, row: &u32) -> Option<&V> {
        self.own.get(row).or_else(|| self.common.get(row))
    }

    pub(crate) fn insert(&mut self, row: u32, value: V) {
        if let Some(common) = Arc::get_mut(&mut self.common) {
            common.append(&mut self.own);
            common.insert(row, value);
            return;
        }
        self.own.insert(row, value);
        if self.own.len() >= OWN_MIN.max(self.common.len().isqrt()) {
            Arc::make_mut(&mut self.common).append(&mut self.own);
        }
    }

    /// Returns all values, those that were replaced included, in no order.
    pub(crate) fn values_ever(&self) -> impl Iterator<Item = &V> {
        self.common.values().chain(self.own.values())
    }

    /// Returns the rows whose values may differ from those in `before`, ascending.
    pub(crate) fn rows_since(&self, before: &Self) -> Vec<u32> {
        let mut rows: Vec<u32> = self.own.keys().chain(before.own.keys()).copied().collect();
        if !Arc::ptr_eq(&self.common, &before.common) {
            rows.extend(self.common.keys().chain(before.common.keys()));
        }
        rows.sort_unstable();
        rows.dedup();
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_pages_are_lists() {
        let mut rng = fastrand::Rng::with_seed(3);
        let (mut pages, mut list) = (Pages::default(), Vec::new());
        let mut copies = Vec::new();
        for number in 0..2000_u32 {
            match rng.usize(..3) {
                0 if !list.is_empty() => {
                    let index = rng.usize(..list.len());
                    *pages.get_mut(index).unwrap() ^= 1;
                    list[index] ^= 1;
                }
                _ => {
                    pages.push(number * 2);
                    list.push(number * 2);
                }
            }
            if rng.usize(..50) == 0 {
                copies.push((pages.clone(), list.clone()));
            }
        }
        copies.push((pages, list));
        for (pages, list) in copies {
            assert!(pages.iter().eq(&list));
            assert_eq!((pages.len(), pages.is_empty()), (list.len(), list.is_empty()));
            assert!((0..list.len() + 2).all(|index| pages.get(index) == list.get(index)));
            let point = rng.u32(..4100);
            let sorted: Vec<u32> = list.iter().map(|item| item & !1).collect();
            let expected = sorted.partition_point(|item| *item < point & !1);
            assert_eq!(pages.partition_point(|item| item & !1 < point & !1), expected);
        }
        assert_eq!(Pages::<u8>::default().get_mut(0), None);
    }

    #[test]
    fn copies_of_a_map_are_maps() {
        let mut rng = fastrand::Rng::with_seed(4);
        let (mut map, mut expected) = (SharedMap::default(), BTreeMap::new());
        let mut copies: Vec<(SharedMap<u32>, BTreeMap<u32, u32>)> = Vec::new();
        for number in 0..3000_u32 {
            let row = rng.u32(..700);
            map.insert(row, number);
            expected.insert(row, number);
            if rng.usize(..20) == 0 {
                copies.push((map.clone(), expected.clone()));
            }
        }
        copies.push((map, expected));
        let mut before: Option<&(SharedMap<u32>, BTreeMap<u32, u32>)> = None;
        for copy in &copies {
            let (map, expected) = copy;
            assert!((0..700).all(|row| map.get(&row) == expected.get(&row)));
            assert!(expected.values().all(|value| map.values_ever().any(|ever| ever == value)));
            if let Some((older, older_expected)) = before {
                let rows = map.rows_since(older);
                assert!(rows.is_sorted_by(|a, b| a < b));
                let differs = |row: &u32| expected.get(row) != older_expected.get(row);
                assert!((0..700).filter(differs).all(|row| rows.binary_search(&row).is_ok()));
            }
            before = Some(copy);
        }
        assert!(SharedMap::<u8>::default().is_empty());
    }
}
