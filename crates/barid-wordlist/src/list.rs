//! The interface of word lists.

use std::fmt::Debug;

use crate::entry::keys;
use crate::{Batch, Counts, Damage, Error, Receipt, Result, TokenEntry};

/// A visitor of tokens and their entries; returning `false` ends the scan.
pub type Visit<'a> = dyn FnMut(&[u8], TokenEntry) -> bool + 'a;

/// A callback that decides the change of a token with an entry.
pub type Decide<'a> = dyn FnMut(&[u8], TokenEntry) -> Change + 'a;

/// A callback after the last token, which adds further changes to a batch.
pub type Beside<'a> = dyn FnMut(&mut Batch) -> Result<()> + 'a;

/// A handle of a word list, with a view of it as of its opening or its last update or refresh.
///
/// Several handles, in any number of processes, may read and write one list. Writers wait for each
/// other; whether readers wait for writers depends on the format.
pub trait WordList: Debug + Send {
    /// Returns the generation of this handle's view. It increases with every change of the list.
    fn generation(&self) -> u64;

    /// Updates the view with the changes of other handles; returns `true` if there were any.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Damaged`], [`Error::NotFound`].
    fn refresh(&mut self) -> Result<bool>;

    /// Looks up the counts of many tokens, in the order of `tokens`; 0 and 0 for unknown ones.
    ///
    /// # Errors
    /// As [`WordList::refresh`].
    ///
    /// # Panics
    /// If `counts` is shorter than `tokens`.
    fn counts(&mut self, tokens: &[&[u8]], counts: &mut [Counts]) -> Result<()>;

    /// Returns the entry of a token; `None` if it has none.
    ///
    /// # Errors
    /// As [`WordList::refresh`].
    fn entry(&mut self, token: &[u8]) -> Result<Option<TokenEntry>>;

    /// Returns the receipts of messages, in the order of `contents`, the 128-bit hashes of their
    /// contents.
    ///
    /// # Errors
    /// As [`WordList::refresh`]; [`Error::Unsupported`] if the list cannot have receipts.
    fn receipts(&mut self, contents: &[u128]) -> Result<Vec<Option<Receipt>>>;

    /// Applies a batch, all of it or nothing; durable when this returns. A list on a store is as
    /// atomic as the store.
    ///
    /// # Errors
    /// [`Error::Conflicts`] if the batch has [`Conflicts::Refuse`](crate::Conflicts::Refuse);
    /// [`Error::Busy`]; [`Error::Poisoned`]; and as [`WordList::refresh`].
    fn update(&mut self, batch: &Batch) -> Result<Updated>;

    /// Visits all keys except receipts, in byte order if the list is ordered.
    ///
    /// # Errors
    /// As [`WordList::refresh`].
    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<()>;

    /// Visits all receipts with the hashes of their contents. The default implementation has none.
    ///
    /// # Errors
    /// As [`WordList::refresh`].
    fn scan_receipts(&mut self, visit: &mut dyn FnMut(u128, Receipt)) -> Result<()> {
        let _ = visit;
        Ok(())
    }

    /// Calls `decide` once for every token, special [`keys`] included, and applies the changes,
    /// atomically if the list can; durable when this returns. Also compacts the list.
    ///
    /// # Errors
    /// As [`WordList::update`].
    fn rewrite(&mut self, decide: &mut Decide<'_>) -> Result<Rewritten> {
        self.rewrite_beside(decide, &mut |_| Ok(()))
    }

    /// Rewrites the list as [`WordList::rewrite`] does, and then applies the changes that `beside`
    /// adds, atomically with the others if the list can. Receipts are not changed.
    ///
    /// # Errors
    /// As [`WordList::update`], and those of `beside`; nothing is changed then.
    fn rewrite_beside(
        &mut self,
        decide: &mut Decide<'_>,
        beside: &mut Beside<'_>,
    ) -> Result<Rewritten>;

    /// Returns the damage that was found so far, which is skipped. The next change repairs the
    /// list: everything sound is kept, and the damaged file gets a second name.
    fn damage(&self) -> &[Damage] {
        &[]
    }

    /// Returns the damage that changes by this handle have repaired.
    fn healed(&self) -> &[Damage] {
        &[]
    }

    /// Returns the numbers of trained messages.
    ///
    /// # Errors
    /// As [`WordList::refresh`].
    fn totals(&mut self) -> Result<Counts> {
        let mut totals = [Counts::default()];
        self.counts(&[keys::MSG_COUNT], &mut totals)?;
        Ok(totals[0])
    }
}

/// A change of a token by [`WordList::rewrite`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Keeps it.
    Keep,
    /// Removes it.
    Drop,
    /// Replaces its entry.
    Set(TokenEntry),
    /// Renames it. If the new name exists, its counts are added and the later date is kept.
    Rename(Vec<u8>),
}

/// The result of [`WordList::update`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Updated {
    /// The generation of the list after the batch.
    pub generation: u64,
    /// Number of counts that would have exceeded 32 bits, and were set to the maximum.
    pub saturated: u64,
    /// Number of counts that would have become negative, and were set to 0.
    pub floored: u64,
    /// Messages whose receipts contradict a batch that was applied anyway.
    pub conflicts: Vec<Conflict>,
    /// Error of the merge after the change. The change itself is committed.
    pub afterwards: Option<Error>,
}

/// The result of [`WordList::rewrite`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rewritten {
    /// Number of tokens that were kept unchanged.
    pub kept: u64,
    /// Number of removed tokens.
    pub dropped: u64,
    /// Number of tokens that got another entry or name.
    pub changed: u64,
}

/// A message whose receipt contradicts a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The hash of its content.
    pub content: u128,
    /// Its receipt from an earlier training; `None` if it was never trained.
    pub found: Option<Receipt>,
}
