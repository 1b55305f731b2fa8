//! Changes that are applied together.

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// Sets the value of `key`, replacing an old one.
    Put {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// Removes `key`, if it exists.
    Delete {
        /// The key.
        key: &'a [u8],
    },
}

/// Changes that are applied together, in the order in which they were added.
///
/// All bytes are in one buffer that [`Batch::clear`] keeps, so that filling a batch again allocates
/// nothing.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    ops: Vec<Lens>,
}

#[derive(Clone, Copy, Debug)]
struct Lens {
    key: u32,
    /// `None` deletes.
    value: Option<u32>,
}

impl Batch {
    /// Creates an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a [`Op::Put`].
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.put_with(key, |bytes| bytes.extend_from_slice(value));
    }

    /// Adds a [`Op::Put`] whose value is the bytes that `fill` appends to its buffer.
    pub fn put_with<T>(&mut self, key: &[u8], fill: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        self.bytes.extend_from_slice(key);
        let start = self.bytes.len();
        let filled = fill(&mut self.bytes);
        let value = Some((self.bytes.len() - start) as u32);
        self.ops.push(Lens { key: key.len() as u32, value });
        filled
    }

    /// Adds a [`Op::Delete`].
    pub fn delete(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ops.push(Lens { key: key.len() as u32, value: None });
    }

    /// Removes all changes, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ops.clear();
    }

    /// Returns the number of changes.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Returns `true` if there are no changes.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Returns the number of bytes of all keys and values.
    pub fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the changes, in order.
    pub fn iter(&self) -> impl Iterator<Item = Op<'_>> {
        let mut rest = &self.bytes[..];
        self.ops.iter().map(move |lens| {
            let (key, after) = rest.split_at(lens.key as usize);
            let (value, after) = after.split_at(lens.value.unwrap_or(0) as usize);
            rest = after;
            match lens.value {
                Some(_) => Op::Put { key, value },
                None => Op::Delete { key },
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_back_in_order() {
        let mut batch = Batch::new();
        for _ in 0..2 {
            batch.put(b"a", b"1");
            batch.delete(b"bb");
            batch.put_with(b"", |bytes| bytes.extend_from_slice(b"xyz"));
            let found: Vec<Op<'_>> = batch.iter().collect();
            let expected = [
                Op::Put { key: b"a", value: b"1" },
                Op::Delete { key: b"bb" },
                Op::Put { key: b"", value: b"xyz" },
            ];
            assert_eq!(found, expected);
            assert_eq!((batch.len(), batch.bytes_len()), (3, 7));
            batch.clear();
            assert!(batch.is_empty());
        }
    }
}
