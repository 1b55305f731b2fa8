//! Turns edits of headers into a draft.

use super::draft::Draft;
use crate::Result;

/// Takes edits in the order of the file; what lies between stays, or is copied where it moves.
pub(super) struct Editor<'d> {
    draft: &'d mut dyn Draft,
    /// The old file is told up to here.
    at: u64,
    /// Bytes that the file system cuts out.
    collapsed: u64,
}

impl<'d> Editor<'d> {
    pub(super) fn new(draft: &'d mut dyn Draft) -> Self {
        Self { draft, at: 0, collapsed: 0 }
    }

    /// New place less old place, of what comes next; what the file system moves by a collapse has
    /// not moved.
    pub(super) fn shift(&self) -> i64 {
        self.draft.shift()
    }

    /// Where what is now at `offset`, and comes next, will be.
    pub(super) fn moved(&self, offset: u64) -> u64 {
        offset.saturating_add_signed(self.displacement())
    }

    /// New place less old place, of what comes next, collapses included.
    pub(super) fn displacement(&self) -> i64 {
        self.draft.shift() - self.collapsed as i64
    }

    /// Up to where the old file is told.
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

    /// Lets the file system cut out the next bytes.
    pub(super) fn collapse(&mut self, len: u64) -> Result<()> {
        self.at += len;
        self.collapsed += len;
        self.draft.collapse(len)
    }

    /// Puts bytes in.
    pub(super) fn insert(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() { Ok(()) } else { self.draft.insert(bytes) }
    }

    /// Makes `new` of `old`, which starts at `offset`. Only what differs between the first and the
    /// last difference is told.
    pub(super) fn replace(&mut self, offset: u64, old: &[u8], new: &[u8]) -> Result<()> {
        let same = |pairs: &mut dyn Iterator<Item = (&u8, &u8)>| {
            pairs.take_while(|(old, new)| old == new).count()
        };
        let before = same(&mut old.iter().zip(new));
        if before == old.len() && before == new.len() {
            return Ok(());
        }
        let (old_rest, new_rest) = (&old[before..], &new[before..]);
        let behind = same(&mut old_rest.iter().rev().zip(new_rest.iter().rev()));
        self.keep_until(offset + before as u64)?;
        self.skip((old_rest.len() - behind) as u64)?;
        self.insert(&new_rest[..new_rest.len() - behind])
    }
}
