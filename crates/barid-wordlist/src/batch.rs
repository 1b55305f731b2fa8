//! Batches of changes, which are applied atomically.

use std::collections::HashMap;

use crate::entry::{Class, Counts, TokenEntry, keys};
use crate::limits::TOKEN_LEN_MAX;
use crate::{Conflict, Error, Receipt, Result};

/// Policy for messages that were trained before according to their receipts, or, when training is
/// undone, never were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conflicts {
    /// The batch fails with [`Error::Conflicts`].
    #[default]
    Refuse,
    /// The batch is applied, and [`crate::Updated::conflicts`] has the messages.
    Report,
}

/// A batch of changes of tokens and receipts, applied together. Changes of one token are applied in
/// the order in which they were added.
///
/// All tokens are in one buffer, which [`Batch::clear`] keeps, so that refilling a batch does not
/// allocate.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    date: u32,
    conflicts: Conflicts,
    bytes: Vec<u8>,
    changes: Vec<Span>,
    trainings: Vec<Training>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    len: u16,
    op: Op,
}

/// A change of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Adds counts, then subtracts counts.
    Change { add: Counts, sub: Counts, date: u32 },
    /// Adds the counts of another token that is renamed to this one; the later date is kept.
    Join(TokenEntry),
    /// Replaces the entry.
    Set(TokenEntry),
    /// Keeps the entry.
    Stay,
}

/// A change of a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Training {
    pub(crate) content: u128,
    /// The class of the training, which is undone if `profile` is `None`.
    pub(crate) class: Class,
    pub(crate) profile: Option<u8>,
}

/// The receipts that a batch changes (`None` removes one), ascending by content, and conflicts.
#[derive(Debug, Default)]
pub(crate) struct ReceiptChanges {
    pub(crate) receipts: Vec<(u128, Option<Receipt>)>,
    pub(crate) conflicts: Vec<Conflict>,
}

/// Numbers of counts that reached a limit of 32 bits, or would have become negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bent {
    pub(crate) saturated: u64,
    pub(crate) floored: u64,
}

impl Batch {
    /// Creates an empty batch, whose changes have `date` as YYYYMMDD, or 0 for tokens without
    /// dates.
    pub fn new(date: u32) -> Self {
        Self { date, ..Self::default() }
    }

    /// Sets the policy for conflicts with receipts.
    #[must_use]
    pub fn on_conflict(self, conflicts: Conflicts) -> Self {
        Self { conflicts, ..self }
    }

    /// Changes the counts of a token: adds `add`, then subtracts `sub`, down to zero.
    ///
    /// # Errors
    /// [`Error::Refused`] for a token that is empty, too long or has a NUL.
    pub fn change(&mut self, token: &[u8], add: Counts, sub: Counts) -> Result<()> {
        self.push(token, Op::Change { add, sub, date: self.date })
    }

    /// Adds counts to a token, and sets its date to that of `entry`.
    ///
    /// # Errors
    /// As [`Batch::change`].
    pub fn add_dated(&mut self, token: &[u8], entry: TokenEntry) -> Result<()> {
        let TokenEntry { date, .. } = entry;
        self.push(token, Op::Change { add: entry.counts(), sub: Counts::default(), date })
    }

    /// Adds counts to a token, and keeps the later of the two dates.
    ///
    /// # Errors
    /// As [`Batch::change`].
    pub fn join(&mut self, token: &[u8], entry: TokenEntry) -> Result<()> {
        self.push(token, Op::Join(entry))
    }

    /// Replaces the entry of a token.
    ///
    /// # Errors
    /// As [`Batch::change`].
    pub fn set(&mut self, token: &[u8], entry: TokenEntry) -> Result<()> {
        self.push(token, Op::Set(entry))
    }

    /// Changes the numbers of trained messages of the list, as [`Batch::change`] does for a token.
    ///
    /// # Errors
    /// As [`Batch::change`].
    pub fn messages(&mut self, add: Counts, sub: Counts) -> Result<()> {
        self.change(keys::MSG_COUNT, add, sub)
    }

    /// Adds the receipt of a message that this batch trains. `content` is the hash of its content.
    pub fn train(&mut self, content: u128, class: Class, profile: u8) {
        self.trainings.push(Training { content, class, profile: Some(profile) });
    }

    /// Removes the receipt of a message whose training this batch undoes.
    pub fn untrain(&mut self, content: u128, class: Class) {
        self.trainings.push(Training { content, class, profile: None });
    }

    fn push(&mut self, token: &[u8], op: Op) -> Result<()> {
        let refused = |what| Err(Error::Refused { what });
        if token.is_empty() || token.len() > TOKEN_LEN_MAX {
            return refused("a token of no length, or too long");
        }
        if token.contains(&0) {
            return refused("a token with a NUL");
        }
        let Ok(start) = u32::try_from(self.bytes.len()) else {
            return refused("a batch of more than 4 GB");
        };
        self.bytes.extend_from_slice(token);
        self.changes.push(Span { start, len: token.len() as u16, op });
        Ok(())
    }

    /// Removes all changes; keeps the memory, the date and the policy for conflicts.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.changes.clear();
        self.trainings.clear();
    }

    /// Returns the number of changes of tokens.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Returns `true` if the batch changes neither tokens nor receipts.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.trainings.is_empty()
    }

    /// Returns the total length of all tokens in bytes.
    pub fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn date(&self) -> u32 {
        self.date
    }

    pub(crate) fn conflicts(&self) -> Conflicts {
        self.conflicts
    }

    /// Computes the receipts after the batch, and conflicts with those before it, which `find`
    /// returns by content. `generation` is that of the list after the batch.
    pub(crate) fn receipt_changes(
        &self,
        generation: u64,
        mut find: impl FnMut(u128) -> Result<Option<Receipt>>,
    ) -> Result<ReceiptChanges> {
        let mut known: HashMap<u128, Option<Receipt>> = HashMap::new();
        let mut conflicts = Vec::new();
        for Training { content, class, profile } in self.trainings().iter().copied() {
            let found = match known.get(&content) {
                Some(found) => *found,
                None => find(content)?,
            };
            let expected = match profile {
                Some(_) => found.is_none(),
                None => found.is_some_and(|found| found.class == class),
            };
            if !expected {
                conflicts.push(Conflict { content, found });
            }
            let (generation, date) = (generation as u32, self.date());
            let now = profile.map(|profile| Receipt { class, profile, generation, date });
            known.insert(content, now);
        }
        let mut receipts: Vec<_> = known.into_iter().collect();
        receipts.sort_unstable_by_key(|(content, _)| *content);
        Ok(ReceiptChanges { receipts, conflicts })
    }

    pub(crate) fn trainings(&self) -> &[Training] {
        &self.trainings
    }

    /// Returns the changes sorted by token; those of one token stay in the order in which they were
    /// added.
    pub(crate) fn sorted(&self) -> Vec<(&[u8], Op)> {
        let of = |span: &Span| {
            let start = span.start as usize;
            (&self.bytes[start..start + usize::from(span.len)], span.op)
        };
        let mut changes: Vec<(&[u8], Op)> = self.changes.iter().map(of).collect();
        if !changes.is_sorted_by_key(|(token, _)| *token) {
            changes.sort_by(|one, two| one.0.cmp(two.0));
        }
        changes
    }
}

impl Op {
    /// Applies the change to an entry, or to a missing one; counts the numbers that did not fit in
    /// `bent`.
    pub(crate) fn apply(self, before: Option<TokenEntry>, bent: &mut Bent) -> TokenEntry {
        match self {
            Self::Set(entry) => entry,
            Self::Stay => before.unwrap_or_default(),
            Self::Join(entry) => {
                let had = before.unwrap_or_default();
                let date = had.date.max(entry.date);
                let spam = add(had.spam, entry.spam, bent);
                TokenEntry { spam, ham: add(had.ham, entry.ham, bent), date }
            }
            Self::Change { add: more, sub: less, date } => {
                let had = before.unwrap_or_default();
                let (spam, ham) = (add(had.spam, more.spam, bent), add(had.ham, more.ham, bent));
                let (spam, ham) = (sub(spam, less.spam, bent), sub(ham, less.ham, bent));
                TokenEntry { spam, ham, date }
            }
        }
    }
}

fn add(count: u32, more: u32, bent: &mut Bent) -> u32 {
    count.checked_add(more).unwrap_or_else(|| {
        bent.saturated += 1;
        u32::MAX
    })
}

fn sub(count: u32, less: u32, bent: &mut Bent) -> u32 {
    count.checked_sub(less).unwrap_or_else(|| {
        bent.floored += 1;
        0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stay_within_their_bounds() {
        let check =
            |op: Op, before: Option<TokenEntry>, after: (u32, u32, u32), bent: (u64, u64)| {
                let mut found = Bent::default();
                let entry = op.apply(before, &mut found);
                assert_eq!((entry.spam, entry.ham, entry.date), after);
                assert_eq!((found.saturated, found.floored), bent);
            };
        let change = |add, sub| Op::Change { add, sub, date: 7 };
        let had = Some(TokenEntry { spam: 2, ham: u32::MAX - 1, date: 9 });
        let (none, one) = (Counts::default(), Counts::new(1, 1));
        check(change(one, none), None, (1, 1, 7), (0, 0));
        check(change(one, none), had, (3, u32::MAX, 7), (0, 0));
        check(change(Counts::new(0, 2), none), had, (2, u32::MAX, 7), (1, 0));
        check(change(none, Counts::new(3, 3)), had, (0, u32::MAX - 4, 7), (0, 1));
        check(change(none, one), None, (0, 0, 7), (0, 2));
        check(Op::Join(TokenEntry { spam: 1, ham: 0, date: 8 }), had, (3, u32::MAX - 1, 9), (0, 0));
        check(Op::Set(TokenEntry { spam: 1, ham: 0, date: 8 }), had, (1, 0, 8), (0, 0));
    }

    #[test]
    fn changes_are_sorted_and_keep_their_order() {
        let mut batch = Batch::new(1);
        for (token, spam) in [(&b"b"[..], 1), (b"a", 2), (b"b", 3), (b"ab", 4)] {
            batch.change(token, Counts::new(spam, 0), Counts::default()).unwrap();
        }
        let spam = |op| match op {
            Op::Change { add, .. } => add.spam,
            _ => 0,
        };
        let found: Vec<_> = batch.sorted().into_iter().map(|(t, op)| (t, spam(op))).collect();
        assert_eq!(found, [(&b"a"[..], 2), (b"ab", 4), (b"b", 1), (b"b", 3)]);
        for bad in [&b""[..], b"a\0b", &[b'x'; TOKEN_LEN_MAX + 1]] {
            assert!(batch.set(bad, TokenEntry::default()).is_err());
        }
        batch.clear();
        assert!(batch.is_empty());
    }
}
