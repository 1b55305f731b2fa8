//! Proving a copy: every message is read back from the target and compared.

use barid_types::{FlagSet, InternalDate, Keyword, Uid};

use super::text::Digest;
use super::transfer::{Copied, Entry};
use super::{ConvertEvent, TellConvert};
use crate::reading::{Large, MessageRead, ReadOutcome, read_each};
use crate::{Error, Mailbox, Result};

/// A message as stored in a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProofSide {
    /// UID of the message.
    pub uid: Uid,
    /// SHA-256 of its text with CRLF; if one of the mailboxes is an mbox, of the part that an mbox
    /// keeps of every text (`docs/design/convert.md`).
    pub sha256: Digest,
    /// Flags, without \Recent.
    pub flags: FlagSet,
    /// Keywords.
    pub keywords: Vec<Keyword>,
    /// Date of arrival.
    pub internal_date: InternalDate,
}

/// Kind of difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// The message is not in the target.
    Missing,
    /// The message is only in the target.
    Extra,
    /// The texts differ.
    Content,
    /// The flags differ.
    Flags,
    /// Keywords differ that the target can store.
    Keywords,
    /// The seconds of arrival differ.
    InternalDate,
}

/// A message before and after a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The message as read from the source.
    pub before: Option<ProofSide>,
    /// The message as read back from the target.
    pub after: Option<ProofSide>,
    /// Unexpected differences.
    pub differences: Vec<Difference>,
}

/// Result of a proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proven {
    /// Number of messages that are the same.
    pub same: u64,
    /// Number of messages that differ.
    pub differing: u64,
}

/// Reads the messages of a copy back from the target and reports each, in the order of the target;
/// with `all`, also those that only the target has.
pub(super) fn prove(
    target: &mut Mailbox,
    copied: &Copied,
    all: bool,
    tell: &mut TellConvert<'_>,
) -> Result<Proven> {
    target.rescan(true)?;
    let mut uids: Vec<Uid> = match all {
        true => target.uids()?.into_iter().filter_map(Uid::new).collect(),
        false => copied.entries.iter().filter_map(|entry| entry.after).collect(),
    };
    uids.sort_unstable();
    let texts = copied.texts;
    let make = move |mailbox: &Mailbox, read: MessageRead<'_>, scratch: &mut Vec<u8>| {
        Ok(ProofSide {
            uid: read.uid,
            sha256: texts.digest_of(mailbox, &read, scratch)?,
            flags: read.flags,
            keywords: read.keywords,
            internal_date: read.internal_date,
        })
    };
    let mut prover = Prover::new(copied, tell);
    read_each(target, (&uids, Large::Stream), &make, &mut |_, uid, outcome| {
        if let ReadOutcome::Made(side) = outcome {
            prover.compare(uid, side);
        }
        Ok::<_, Error>(true)
    })?;
    Ok(prover.finish())
}

/// Compares the messages of the target with the expected ones.
struct Prover<'a, 't> {
    copied: &'a Copied,
    /// Indexes of entries by their UID in the target, ascending; first those without a UID.
    order: Vec<u32>,
    next: usize,
    proven: Proven,
    tell: &'a mut TellConvert<'t>,
}

impl<'a, 't> Prover<'a, 't> {
    fn new(copied: &'a Copied, tell: &'a mut TellConvert<'t>) -> Self {
        let mut order: Vec<u32> = (0..copied.entries.len() as u32).collect();
        order.sort_by_key(|at| copied.entries[*at as usize].after);
        Self { copied, order, next: 0, proven: Proven::default(), tell }
    }

    /// Returns the next entry, if its UID is at most `uid`.
    fn next_up_to(&mut self, uid: Option<Uid>) -> Option<&'a Entry> {
        let entry = &self.copied.entries[*self.order.get(self.next)? as usize];
        let is_due = uid.is_none_or(|uid| entry.after.is_none_or(|after| after <= uid));
        self.next += usize::from(is_due);
        is_due.then_some(entry)
    }

    fn compare(&mut self, uid: Uid, after: ProofSide) {
        while let Some(entry) = self.next_up_to(Some(uid)) {
            if entry.after == Some(uid) {
                return self.both(entry, after);
            }
            self.missing(entry);
        }
        let differences = vec![Difference::Extra];
        self.record(Proof { before: None, after: Some(after), differences });
    }

    fn finish(mut self) -> Proven {
        while let Some(entry) = self.next_up_to(None) {
            self.missing(entry);
        }
        self.proven
    }

    fn missing(&mut self, entry: &Entry) {
        let before = Some(self.copied.before(entry));
        self.record(Proof { before, after: None, differences: vec![Difference::Missing] });
    }

    fn both(&mut self, entry: &Entry, after: ProofSide) {
        let before = self.copied.before(entry);
        let held = before.keywords.iter().filter(|keyword| !self.copied.is_refused(keyword));
        let has_same = {
            let mut held = held.clone();
            held.clone().count() == after.keywords.len()
                && held.all(|keyword| after.keywords.contains(keyword))
        };
        let seconds = |side: &ProofSide| side.internal_date.unix_seconds;
        let found = [
            (before.sha256 != after.sha256, Difference::Content),
            (before.flags != after.flags, Difference::Flags),
            (!has_same, Difference::Keywords),
            (seconds(&before) != seconds(&after), Difference::InternalDate),
        ];
        let differences = found.into_iter().filter(|(is_so, _)| *is_so).map(|(_, what)| what);
        let differences = differences.collect();
        self.record(Proof { before: Some(before), after: Some(after), differences });
    }

    fn record(&mut self, proof: Proof) {
        match proof.differences.is_empty() {
            true => self.proven.same += 1,
            false => self.proven.differing += 1,
        }
        (self.tell)(ConvertEvent::Proof(&proof));
    }
}
