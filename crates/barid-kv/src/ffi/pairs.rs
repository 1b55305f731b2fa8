//! The calls of an open file that every library has.

use std::fmt::Debug;

use crate::ffi::failure::Outcome;
use crate::kv::Visit;
use crate::{Batch, Op};

/// An open file, for reading. See [`crate::KvRead`] for the rules.
pub(crate) trait ReadPairs: Debug + Send + 'static {
    /// Passes the value of `key` to `visit`; `false` if there is none.
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Outcome<bool>;

    /// Visits all pairs whose key begins with `prefix` until `visit` returns `false`.
    fn scan(&mut self, prefix: &[u8], visit: &mut Visit<'_>) -> Outcome<()>;
}

/// An open file, for changing it pair by pair.
pub(crate) trait WritePairs: ReadPairs {
    /// Sets the value of `key`.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()>;

    /// Removes `key`, if it exists.
    fn delete(&mut self, key: &[u8]) -> Outcome<()>;

    /// Makes the changes of a batch, one after another, up to the first that fails.
    fn apply_each(&mut self, batch: &Batch) -> Outcome<()> {
        batch.iter().try_for_each(|op| match op {
            Op::Put { key, value } => self.put(key, value),
            Op::Delete { key } => self.delete(key),
        })
    }
}
