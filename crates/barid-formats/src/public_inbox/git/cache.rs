//! Bounded caches of two generations: when the younger one is full, it replaces the older one.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Bytes that are shared. A vector becomes such without a copy, unlike an `Arc<[u8]>`.
pub(crate) type Bytes = Arc<Vec<u8>>;

/// Bytes of an entry besides its text: key, counters, allocations, free places of the map.
const ENTRY_LEN: usize = 160;

/// A cache of byte strings that are shared, with a bound on their sum.
#[derive(Debug)]
pub(super) struct ByteCache<K> {
    young: HashMap<K, Bytes>,
    old: HashMap<K, Bytes>,
    young_len: usize,
    generation_len: usize,
}

impl<K: Copy + Eq + Hash> ByteCache<K> {
    /// Makes a cache of at most two generations of `generation_len` bytes.
    pub(super) fn new(generation_len: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), young_len: 0, generation_len }
    }

    /// Returns the bytes of a key.
    pub(super) fn get(&mut self, key: K) -> Option<Bytes> {
        if let Some(found) = self.young.get(&key) {
            return Some(Arc::clone(found));
        }
        let found = self.old.remove(&key)?;
        self.insert(key, Arc::clone(&found));
        Some(found)
    }

    /// Adds the bytes of a key.
    pub(super) fn insert(&mut self, key: K, bytes: Bytes) {
        if self.young_len > self.generation_len {
            self.old = std::mem::take(&mut self.young);
            self.young_len = 0;
        }
        self.young_len += bytes.capacity() + ENTRY_LEN;
        self.young.insert(key, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_goes() {
        let mut cache = ByteCache::new(10 * (10 + ENTRY_LEN));
        for key in 0..1_000_u32 {
            cache.insert(key, Arc::new(vec![0; 10]));
            assert!(cache.get(0).is_some(), "{key}");
        }
        assert!(cache.get(999).is_some() && cache.get(500).is_none());
        assert!(cache.young.len() + cache.old.len() <= 24);
    }

    #[test]
    fn entries_without_bytes_are_bounded_too() {
        let mut cache = ByteCache::new(100 * ENTRY_LEN);
        (0..10_000_u32).for_each(|key| cache.insert(key, Arc::default()));
        assert!(cache.young.len() + cache.old.len() <= 204);
    }
}
