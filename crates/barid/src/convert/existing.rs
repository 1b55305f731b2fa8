//! The messages that an interrupted conversion has left in the target: compared, not trusted.

use std::collections::VecDeque;

use barid_mailbox::FlagChange;
use barid_types::{FlagSet, InternalDate, Keyword, Uid};

use super::text::{Digest, TextTreatment};
use super::transfer::Entry;
use crate::reading::{Large, MessageRead, ReadOutcome, read_each};
use crate::{Error, Mailbox, Result};

/// A message of the target.
#[derive(Debug)]
struct Seen {
    uid: Uid,
    /// `None` if it cannot be read.
    content: Option<(Digest, FlagSet, Vec<Keyword>, InternalDate)>,
}

/// The messages of the target that are not compared yet, in order.
#[derive(Debug, Default)]
pub(super) struct Existing(VecDeque<Seen>);

/// Result of looking for a message in the target.
#[derive(Debug)]
pub(super) enum TargetMatch {
    /// No messages are left to compare.
    Nothing,
    /// This message is missing, but later ones exist.
    Skipped,
    /// It exists under this UID, and needs this change of flags.
    Same(Uid, Option<FlagChange>),
    /// Another message is there.
    Other,
}

impl Existing {
    /// Reads all messages.
    pub(super) fn read(target: &mut Mailbox, texts: TextTreatment) -> Result<Self> {
        let uids: Vec<Uid> = target.uids()?.into_iter().filter_map(Uid::new).collect();
        let mut all = VecDeque::with_capacity(uids.len());
        let make = move |mailbox: &Mailbox, read: MessageRead<'_>, scratch: &mut Vec<u8>| {
            let digest = texts.digest_of(mailbox, &read, scratch)?;
            Ok((digest, read.flags, read.keywords, read.internal_date))
        };
        read_each(target, (&uids, Large::Stream), &make, &mut |_, uid, outcome| {
            let content = match outcome {
                ReadOutcome::Made(content) => Some(content),
                ReadOutcome::Gone | ReadOutcome::Unreadable(_) => None,
            };
            all.push_back(Seen { uid, content });
            Ok::<_, Error>(true)
        })?;
        Ok(Self(all))
    }

    /// Returns `true` if there are messages that are not in the source.
    pub(super) fn has_more(&self) -> bool {
        !self.0.is_empty()
    }

    /// Looks for a message, whose UID is `wanted` if messages keep theirs; `keywords` are those
    /// that the target can store.
    pub(super) fn take(
        &mut self,
        wanted: Option<Uid>,
        entry: &Entry,
        keywords: &[Keyword],
    ) -> TargetMatch {
        if let (Some(wanted), Some(seen)) = (wanted, self.0.front())
            && seen.uid > wanted
        {
            return TargetMatch::Skipped;
        }
        let Some(seen) = self.0.pop_front() else { return TargetMatch::Nothing };
        let Some((digest, flags, has, date)) = seen.content else { return TargetMatch::Other };
        let is_it = wanted.is_none_or(|uid| uid == seen.uid)
            && digest == entry.digest
            && date.unix_seconds == entry.internal_date.unix_seconds;
        if !is_it {
            return TargetMatch::Other;
        }
        let without =
            |flags: FlagSet, other: FlagSet| FlagSet::from_bits(flags.bits() & !other.bits());
        let missing = |all: &[Keyword], from: &[Keyword]| {
            all.iter().filter(|keyword| !from.contains(keyword)).cloned().collect()
        };
        let change = FlagChange {
            add: without(entry.flags, flags),
            remove: without(flags, entry.flags),
            add_keywords: missing(keywords, &has),
            remove_keywords: missing(&has, keywords),
        };
        let is_same = change == FlagChange::default();
        TargetMatch::Same(seen.uid, (!is_same).then_some(change))
    }
}

#[cfg(test)]
mod tests {
    use barid_types::KeywordMask;

    use super::*;

    #[test]
    fn what_is_skipped_stays_to_be_compared() {
        let uid = |number| Uid::new(number).unwrap();
        let entry = |number: u32| Entry {
            uid: uid(number),
            digest: [number as u8; 32],
            flags: FlagSet::default(),
            keywords: KeywordMask::default(),
            internal_date: InternalDate::default(),
            after: None,
        };
        let seen = |number| {
            let Entry { uid, digest, flags, internal_date, .. } = entry(number);
            Seen { uid, content: Some((digest, flags, Vec::new(), internal_date)) }
        };
        let mut existing = Existing([3, 5, 8].map(seen).into());
        let mut check = |wanted, number: u32, expected: &str| {
            let found = match existing.take(wanted, &entry(number), &[]) {
                TargetMatch::Nothing => "nothing".to_owned(),
                TargetMatch::Skipped => "skipped".to_owned(),
                TargetMatch::Same(after, _) => format!("same {}", after.get()),
                TargetMatch::Other => "other".to_owned(),
            };
            assert_eq!(found, expected, "{number}");
        };
        check(Some(uid(1)), 1, "skipped");
        check(Some(uid(2)), 2, "skipped");
        check(Some(uid(3)), 3, "same 3");
        check(None, 5, "same 5");
        check(Some(uid(9)), 9, "other");
        check(Some(uid(10)), 10, "nothing");
    }
}
