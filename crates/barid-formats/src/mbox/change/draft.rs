//! The draft of a new file in terms of the old one.

use barid_mailbox::Result;

/// Receives the composition of the new file from the old one, from beginning to end.
///
/// There is a position in the old file and one in the new file; every call advances one or both.
/// The *shift* is the new position minus the old one. At the end, the old position is the end of
/// the old file.
pub(crate) trait Draft {
    /// Leaves the next `len` bytes unchanged where they are; the shift must be 0. Costs nothing,
    /// however long.
    fn stay(&mut self, len: u64) -> Result<()>;
    /// Copies the next `len` bytes of the old file.
    fn copy(&mut self, len: u64) -> Result<()>;
    /// Leaves out the next `len` bytes of the old file.
    fn skip(&mut self, len: u64) -> Result<()>;
    /// Inserts new bytes.
    fn insert(&mut self, bytes: &[u8]) -> Result<()>;
    /// Lets the file system remove the next `len` bytes from the file before anything is moved;
    /// `len` and the old position are multiples of the file system's block. From then on the old
    /// file is the one without them: the shift does not change.
    fn collapse(&mut self, len: u64) -> Result<()>;
    /// Returns the new position minus the old one.
    fn shift(&self) -> i64;
}
