//! The draft of a new file in terms of the old one.

use crate::Result;

/// Takes down how the new file is made of the old one, from its beginning to its end.
///
/// There is a place in the old file and a place in the new one; every call moves one or both on.
/// The *shift* is the new place less the old one. When all is told, the old place is the end of the
/// old file.
pub(crate) trait Draft {
    /// The next `len` bytes stay where they are and what they are; the shift must be 0. Costs
    /// nothing, however long.
    fn stay(&mut self, len: u64) -> Result<()>;
    /// The next `len` bytes of the old file are copied.
    fn copy(&mut self, len: u64) -> Result<()>;
    /// The next `len` bytes of the old file are left out.
    fn skip(&mut self, len: u64) -> Result<()>;
    /// New bytes.
    fn insert(&mut self, bytes: &[u8]) -> Result<()>;
    /// The file system is to cut the next `len` bytes out of the file before anything is moved;
    /// `len` and the old place are multiples of the file system's block. From then on the old file
    /// is what that leaves: the shift is as before.
    fn collapse(&mut self, len: u64) -> Result<()>;
    /// New place less old place.
    fn shift(&self) -> i64;
}
