//! Turns edits of headers into a draft.

use super::draft::Draft;
use barid_mailbox::Result;

/// Receives edits in file order; the bytes between them stay, or are copied if they move.
pub(super) struct Editor<'d> {
    draft: &'d mut dyn Draft,
    /// Offset in the old file up to which the draft is written.
    at: u64,
    /// Number of bytes that the file system collapses.
    collapsed: u64,
}

impl<'d> Editor<'d> {
    pub(super) fn new(draft: &'d mut dyn Draft) -> Self {
        Self { draft, at: 0, collapsed: 0 }
    }

    /// Returns the new position minus the old one. Moves by a collapse are not counted.
    pub(super) fn shift(&self) -> i64 {
        self.draft.shift()
    }

    /// Returns the new offset of the byte at `offset`, which is at or after the position.
    pub(super) fn moved(&self, offset: u64) -> u64 {
        offset.saturating_add_signed(self.displacement())
    }

    /// Returns the new position minus the old one, collapses included.
    pub(super) fn displacement(&self) -> i64 {
        self.draft.shift() - self.collapsed as i64
    }

    /// Returns the offset in the old file up to which the draft is written.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Keeps everything up to `offset` of the old file.
    pub(super) fn keep_until(&mut self, offset: u64) -> Result<()> {
        let len = offset - self.at;
        self.at = offset;
        match (len, self.draft.shift()) {
            (0, _) => Ok(()),
            (_, 0) => self.draft.stay(len),
            _ => self.draft.copy(len),
        }
    }

    /// Leaves out the next bytes.
    pub(super) fn skip(&mut self, len: u64) -> Result<()> {
        self.at += len;
        if len == 0 { Ok(()) } else { self.draft.skip(len) }
    }

    /// Lets the file system collapse the next bytes.
    pub(super) fn collapse(&mut self, len: u64) -> Result<()> {
        self.at += len;
        self.collapsed += len;
        self.draft.collapse(len)
    }

    /// Inserts bytes.
    pub(super) fn insert(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() { Ok(()) } else { self.draft.insert(bytes) }
    }

    /// Replaces `old`, which starts at `offset`, with `new`. Only the part from the first to the
    /// last difference goes into the draft.
    pub(super) fn replace(&mut self, offset: u64, old: &[u8], new: &[u8]) -> Result<()> {
        let same = |pairs: &mut dyn Iterator<Item = (&u8, &u8)>| {
            pairs.take_while(|(old, new)| old == new).count()
        };
        let before = same(&mut old.iter().zip(new));
        if before == old.len() && before == new.len() {
            return Ok(());
        }
        let (old_rest, new_rest) = (&old[before..], &new[before..]);
        let after = same(&mut old_rest.iter().rev().zip(new_rest.iter().rev()));
        self.keep_until(offset + before as u64)?;
        self.skip((old_rest.len() - after) as u64)?;
        self.insert(&new_rest[..new_rest.len() - after])
    }
}
