//! A mapping from hashed texts to dense numbers.
//!
//! A text is identified by a 64-bit hash and a 32-bit check from an independent hash. Texts with
//! the same pair are treated as equal; an equal hash with another check is a [`Collision`], after
//! which the caller interns the texts themselves. Open addressing, with one 16-byte slot for each
//! entry, so that a look-up costs one cache line.

/// Two different texts with the same hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two texts have the hash {hash:#018x}")]
pub struct Collision {
    /// The hash of both.
    pub hash: u64,
}

impl From<Collision> for crate::QueryError {
    fn from(collision: Collision) -> Self {
        crate::QueryError::Collision(collision.hash)
    }
}

#[derive(Clone, Copy)]
struct Slot {
    hash: u64,
    check: u32,
    /// The number plus one; 0 is an empty slot.
    number1: u32,
}

const EMPTY: Slot = Slot { hash: 0, check: 0, number1: 0 };
const SLOTS_MIN: usize = 64;

/// A table that assigns dense numbers, in order of first appearance, to hashed texts.
pub struct Interner {
    slots: Vec<Slot>,
    shift: u32,
    seed: u64,
    len: u32,
}

impl Interner {
    /// Creates an interner with room for `capacity` texts.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self::with_seed(capacity, 0)
    }

    /// Creates an interner whose slots depend on `seed`, so that mail written to crowd the slots of
    /// one seed does not crowd those of another.
    #[must_use]
    pub fn with_seed(capacity: usize, seed: u64) -> Self {
        let slot_count = (capacity.saturating_mul(3) / 2).max(SLOTS_MIN).next_power_of_two();
        Self {
            slots: vec![EMPTY; slot_count],
            shift: 64 - slot_count.trailing_zeros(),
            seed,
            len: 0,
        }
    }

    /// Returns the number of texts; each text has a number below it.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns `true` if no text was interned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of a text, a new one if the text is new.
    ///
    /// # Errors
    /// Returns [`Collision`] if a different text with this hash is already present; the table is
    /// unchanged.
    #[inline]
    pub fn intern(&mut self, hash: u64, check: u32) -> Result<u32, Collision> {
        if (self.len as usize + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        let at = self.probe(hash);
        let slot = &mut self.slots[at];
        if slot.number1 == 0 {
            self.len += 1;
            *slot = Slot { hash, check, number1: self.len };
        } else if slot.check != check {
            return Err(Collision { hash });
        }
        Ok(slot.number1 - 1)
    }

    /// Looks up a text without adding it.
    ///
    /// # Errors
    /// Returns [`Collision`] if a different text with this hash is present.
    pub fn get(&self, hash: u64, check: u32) -> Result<Option<u32>, Collision> {
        match self.slots[self.probe(hash)] {
            Slot { number1: 0, .. } => Ok(None),
            slot if slot.check != check => Err(Collision { hash }),
            slot => Ok(Some(slot.number1 - 1)),
        }
    }

    /// Returns the slot that contains `hash`, or the empty one where it belongs.
    #[inline]
    fn probe(&self, hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mixed = (hash ^ self.seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut at = (mixed >> self.shift) as usize;
        // Terminates: at least a quarter of the slots is empty.
        while self.slots[at].number1 != 0 && self.slots[at].hash != hash {
            at = (at + 1) & mask;
        }
        at
    }

    #[cold]
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![EMPTY; old.len() * 2];
        self.shift -= 1;
        for slot in old.into_iter().filter(|slot| slot.number1 != 0) {
            let at = self.probe(slot.hash);
            self.slots[at] = slot;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_in_order_of_appearance() {
        let mut interner = Interner::with_capacity(0);
        for round in 0..2 {
            for text in 0..10_000u64 {
                let number = interner.intern(text << 40, text as u32).unwrap();
                assert_eq!(u64::from(number), text, "round {round}");
            }
        }
        assert_eq!(interner.len(), 10_000);
        assert_eq!(interner.get(5 << 40, 5), Ok(Some(5)));
        assert_eq!(interner.get(3, 5), Ok(None));
    }

    #[test]
    fn one_hash_with_two_checks_is_a_collision() {
        let mut interner = Interner::with_seed(4, 99);
        assert_eq!(interner.intern(7, 1), Ok(0));
        assert_eq!(interner.intern(7, 2), Err(Collision { hash: 7 }));
        assert_eq!(interner.get(7, 2), Err(Collision { hash: 7 }));
        assert_eq!(interner.intern(7, 1), Ok(0));
        assert_eq!(interner.intern(0, 0), Ok(1));
        assert_eq!(interner.len(), 2);
    }
}
