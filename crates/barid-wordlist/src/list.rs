//! What every word list is asked and what it answers.

use std::fmt::Debug;

use crate::entry::keys;
use crate::{Batch, Counts, Damage, Entry, Error, Receipt, Result};

/// Takes token and entry; `false` ends the scan.
pub type Visit<'a> = dyn FnMut(&[u8], Entry) -> bool + 'a;

/// Takes token and entry, and decides what becomes of them.
pub type Decide<'a> = dyn FnMut(&[u8], Entry) -> Change + 'a;

/// Called behind the last token; adds what is to be set beside what was decided.
pub type Beside<'a> = dyn FnMut(&mut Batch) -> Result<()> + 'a;

/// A word list: a handle shows it as it was when it was opened, last updated or refreshed by it.
///
/// Several handles, in any number of processes, may read and write one list: readers wait for
/// nobody, writers for each other.
pub trait WordList: Debug + Send {
    /// Grows with every change of the list; what it was for this handle's view.
    fn generation(&self) -> u64;

    /// Looks for changes by others; whether there were some.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Damaged`], [`Error::NotFound`].
    fn refresh(&mut self) -> Result<bool>;

    /// The counts of many tokens, in the places of the tokens; 0 and 0 for what is not there.
    ///
    /// # Errors
    /// As [`WordList::refresh`].
    ///
    /// # Panics
    /// If there are fewer places than tokens.
    fn counts(&mut self, tokens: &[&[u8]], counts: &mut [Counts]) -> Result<()>;

    /// All that is there of one token.
    ///
    /// # Errors
    /// As [`WordList::refresh`].
    fn entry(&mut self, token: &[u8]) -> Result<Option<Entry>>;

    /// The receipts of messages, by the 128-bit hashes of their contents; in their places.
    ///
    /// # Errors
    /// As [`WordList::refresh`]; [`Error::Unsupported`] where there are none.
    fn receipts(&mut self, contents: &[u128]) -> Result<Vec<Option<Receipt>>>;

    /// Makes the changes of a batch: all or none, durable when this returns.
    ///
    /// # Errors
    /// [`Error::Conflicts`] if the batch asked for that, [`Error::Busy`], [`Error::Poisoned`] and
    /// as [`WordList::refresh`].
    fn update(&mut self, batch: &Batch) -> Result<Updated>;

    /// Shows everything but receipts, in the order of the tokens' bytes where the list has one.
    ///
    /// # Errors
    /// As [`WordList::refresh`].
    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<()>;

    /// Shows all receipts: the hash of the content, and what it says. There may be none.
    ///
    /// # Errors
    /// As [`WordList::refresh`].
    fn scan_receipts(&mut self, visit: &mut dyn FnMut(u128, Receipt)) -> Result<()> {
        let _ = visit;
        Ok(())
    }

    /// Lets `decide` judge every token, [`keys`] included, once; makes the changes all or none
    /// where the list can, durable when this returns. Also makes the list as compact as it can be.
    ///
    /// # Errors
    /// As [`WordList::update`].
    fn rewrite(&mut self, decide: &mut Decide<'_>) -> Result<Rewritten> {
        self.rewrite_beside(decide, &mut |_| Ok(()))
    }

    /// As [`WordList::rewrite`], with changes of tokens beside it, which come last: all or none of
    /// both, where the list can. Receipts are no part of it.
    ///
    /// # Errors
    /// As [`WordList::update`], and what `beside` says; nothing is changed then.
    fn rewrite_beside(
        &mut self,
        decide: &mut Decide<'_>,
        beside: &mut Beside<'_>,
    ) -> Result<Rewritten>;

    /// What was found damaged so far, and passed by. The next change heals it: what is sound is
    /// kept, and a copy of the damaged file.
    fn damage(&self) -> &[Damage] {
        &[]
    }

    /// What changes by this handle have healed: what was damaged, and is not there any more.
    fn healed(&self) -> &[Damage] {
        &[]
    }

    /// How many messages were trained.
    ///
    /// # Errors
    /// As [`WordList::refresh`].
    fn totals(&mut self) -> Result<Counts> {
        let mut totals = [Counts::default()];
        self.counts(&[keys::MSG_COUNT], &mut totals)?;
        Ok(totals[0])
    }
}

/// What becomes of a token in [`WordList::rewrite`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It stays.
    Keep,
    /// It goes.
    Drop,
    /// It gets this entry.
    Set(Entry),
    /// It is called so from now on. If that is there already, counts are added and the later date
    /// is taken.
    Rename(Vec<u8>),
}

/// What [`WordList::update`] did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Updated {
    /// The list's generation with the batch.
    pub generation: u64,
    /// Counts that would have gone above 32 bits, and stay at the most.
    pub saturated: u64,
    /// Counts that would have gone below zero, and stay at that.
    pub floored: u64,
    /// What receipts say otherwise, where the batch is applied all the same.
    pub conflicts: Vec<Conflict>,
    /// Why what follows a change (a merge) failed. The change itself counts.
    pub afterwards: Option<Error>,
}

/// What [`WordList::rewrite`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rewritten {
    /// Tokens that stay as they were.
    pub kept: u64,
    /// Tokens that are gone.
    pub dropped: u64,
    /// Tokens that got another entry or name.
    pub changed: u64,
}

/// A message whose receipt is not as the batch expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The hash of its content.
    pub content: u128,
    /// What it was trained as before; `None` if it never was.
    pub found: Option<Receipt>,
}
