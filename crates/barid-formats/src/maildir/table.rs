//! Names stored in one arena, and a hash index over them: no allocation per name.

use super::layout::{NAME_LEN_MAX, NAMES_LEN_MAX};
use super::name;

/// A name in [`Names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NameRange {
    /// The hash of the base name.
    pub(super) hash: u64,
    /// The hash of its stem: the same unless mbsync has added its field.
    pub(super) stem_hash: u64,
    start: u32,
    len: u16,
    base_len: u16,
}

/// An arena of names.
#[derive(Debug, Default)]
pub(super) struct Names(Vec<u8>);

impl Names {
    /// Adds a name; `None` if it is longer than [`NAME_LEN_MAX`] or the arena is full.
    pub(super) fn add(&mut self, name: &[u8]) -> Option<NameRange> {
        if name.len() > NAME_LEN_MAX || self.0.len() + name.len() > NAMES_LEN_MAX {
            return None;
        }
        let base = name::base(name);
        let (stem, hash) = (name::stem(base), name::base_hash(base));
        let added = NameRange {
            hash,
            stem_hash: if stem.len() == base.len() { hash } else { name::base_hash(stem) },
            start: self.0.len() as u32,
            len: name.len() as u16,
            base_len: base.len() as u16,
        };
        self.0.extend_from_slice(name);
        Some(added)
    }

    /// Returns the bytes of a name.
    pub(super) fn get(&self, name: NameRange) -> &[u8] {
        &self.0[name.start as usize..][..usize::from(name.len)]
    }

    /// Returns the base of a name without the field of mbsync.
    pub(super) fn stem(&self, name: NameRange) -> &[u8] {
        name::stem(self.base(name))
    }

    /// Returns the base of a name.
    pub(super) fn base(&self, name: NameRange) -> &[u8] {
        &self.0[name.start as usize..][..usize::from(name.base_len)]
    }
}

/// Finds items by a 64-bit hash; the caller compares them. Open addressing, at most half full.
#[derive(Debug, Default)]
pub(super) struct Index {
    slots: Vec<u32>,
    len: usize,
}

const FREE: u32 = u32::MAX;

impl Index {
    /// Makes an index with room for `capacity` items.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { slots: vec![FREE; (capacity * 2).next_power_of_two().max(16)], len: 0 }
    }

    /// Returns the item with this hash for which `is` returns `true`.
    pub(super) fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        while self.slots[at] != FREE {
            if is(self.slots[at]) {
                return Some(self.slots[at]);
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// Adds an item; `hash_of` returns the hash of an item added before.
    pub(super) fn insert(&mut self, hash: u64, thing: u32, hash_of: impl Fn(u32) -> u64) {
        if (self.len + 1) * 2 > self.slots.len() {
            let bigger = Self::with_capacity((self.len + 1) * 2);
            let old = std::mem::replace(self, bigger);
            for thing in old.slots.into_iter().filter(|slot| *slot != FREE) {
                self.place(hash_of(thing), thing);
            }
        }
        self.place(hash, thing);
    }

    fn place(&mut self, hash: u64, thing: u32) {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at] != FREE {
            at = (at + 1) & mask;
        }
        self.slots[at] = thing;
        self.len += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_found() {
        let (mut names, mut index, mut all) = (Names::default(), Index::default(), Vec::new());
        for number in 0..10_000_u32 {
            let name = names.add(format!("{number}.host:2,S").as_bytes()).unwrap();
            index.insert(name.hash, number, |thing: u32| {
                let name: &NameRange = &all[thing as usize];
                name.hash
            });
            all.push(name);
        }
        for number in 0..10_000_u32 {
            let base = format!("{number}.host");
            let is = |thing: u32| names.base(all[thing as usize]) == base.as_bytes();
            assert_eq!(index.find(name::base_hash(base.as_bytes()), is), Some(number));
        }
        assert_eq!(index.find(7, |thing| names.base(all[thing as usize]) == b"x"), None);
        assert_eq!(Index::default().find(7, |_| true), None);
    }

    #[test]
    fn long_names_are_refused() {
        assert!(Names::default().add(&vec![b'x'; NAME_LEN_MAX + 1]).is_none());
    }
}
