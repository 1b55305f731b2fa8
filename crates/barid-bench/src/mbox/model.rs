//! A model of the mailbox after each step.

use anyhow::{Result, bail, ensure};
use barid_testkit::boxes::StoredMessage;
use barid_types::{Flag, FlagSet};

use super::step::Step;

/// A message that the mailbox must contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    /// [`StoredMessage::hash`].
    pub(crate) hash: u64,
    pub(crate) uid: u32,
    /// The flags without \Recent.
    pub(crate) flags: FlagSet,
}

/// All messages, in mailbox order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) messages: Vec<Expected>,
    next_uid: u32,
}

impl Model {
    /// Creates the model of a mailbox into which no program has written UIDs.
    pub(crate) fn new(stored: &[StoredMessage]) -> Result<Self> {
        ensure!(stored.len() >= 6, "a mailbox of at least 6 messages is needed");
        if stored.iter().any(|message| message.uid.is_some()) {
            bail!("the mbox has UIDs already (X-UID); one that no program has rewritten is needed");
        }
        if stored.iter().any(|message| message.flags.contains(Flag::Deleted)) {
            bail!("the mbox has messages marked \\Deleted; expunge them first");
        }
        let expected = |(index, message): (usize, &StoredMessage)| Expected {
            hash: message.hash,
            uid: index as u32 + 1,
            flags: message.flags.without(Flag::Recent),
        };
        let messages = stored.iter().enumerate().map(expected).collect();
        Ok(Self { messages, next_uid: stored.len() as u32 + 1 })
    }

    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns the sequence numbers that a step changes, counted from 1.
    pub(crate) fn targets(&self, step: Step) -> Vec<u32> {
        let count = self.len() as u32;
        match step {
            Step::FlagOne => vec![count / 2],
            Step::FlagLater => vec![count / 3],
            Step::ExpungeSmall | Step::ExpungeLarge => vec![1],
            Step::ExpungeThird => (1..=count).filter(|number| number % 3 == 0).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the UID of a message by its sequence number.
    pub(crate) fn uid(&self, number: u32) -> u32 {
        self.messages[number as usize - 1].uid
    }

    /// Returns the model after a step; `batch` are the hashes of the appended messages.
    pub(crate) fn after(&self, step: Step, batch: &[u64]) -> Self {
        let mut next = self.clone();
        let targets = self.targets(step);
        let mut set = |flag| {
            for number in &targets {
                let message = &mut next.messages[*number as usize - 1];
                message.flags = message.flags.with(flag);
            }
        };
        match step {
            Step::FlagOne => set(Flag::Flagged),
            Step::FlagLater => set(Flag::Answered),
            Step::FlagAll => {
                next.messages.iter_mut().for_each(|m| m.flags = m.flags.with(Flag::Seen));
            }
            Step::ExpungeSmall | Step::ExpungeLarge | Step::ExpungeThird => {
                let mut number = 0;
                next.messages.retain(|_| {
                    number += 1;
                    targets.binary_search(&number).is_err()
                });
            }
            Step::Append | Step::AppendBatch => {
                for hash in batch {
                    let uid = next.next_uid;
                    next.next_uid += 1;
                    next.messages.push(Expected { hash: *hash, uid, flags: FlagSet::EMPTY });
                }
            }
            _ => {}
        }
        next
    }

    /// Checks that the file contains these messages, with the same bytes; with `has_status` also
    /// their UIDs and flags.
    pub(crate) fn compare_file(&self, stored: &[StoredMessage], has_status: bool) -> Result<()> {
        for (index, (expected, found)) in self.messages.iter().zip(stored).enumerate() {
            let (number, uid) = (index + 1, expected.uid);
            ensure!(
                found.hash == expected.hash,
                "the file holds other bytes in message {number} (UID {uid}) at offset {}",
                found.offset
            );
            let status = (found.uid, found.flags.without(Flag::Recent));
            ensure!(
                !has_status || status == (Some(uid), expected.flags),
                "the file says {status:?} of message {number}, which has UID {uid} and {:?}",
                expected.flags
            );
        }
        let (expected, found) = (self.len(), stored.len());
        ensure!(expected == found, "the file holds {found} messages instead of {expected}");
        Ok(())
    }

    /// Checks that a program sees these UIDs and flags.
    pub(crate) fn compare_view(&self, view: &[(u32, FlagSet)]) -> Result<()> {
        for (index, (expected, (uid, flags))) in self.messages.iter().zip(view).enumerate() {
            let flags = flags.without(Flag::Recent);
            ensure!(
                (expected.uid, expected.flags) == (*uid, flags),
                "it sees UID {uid} with {flags:?} as message {}, which has UID {} and {:?}",
                index + 1,
                expected.uid,
                expected.flags
            );
        }
        let (expected, found) = (self.len(), view.len());
        ensure!(expected == found, "it sees {found} messages instead of {expected}");
        Ok(())
    }
}

/// Joins numbers as `1,3,9` into lists of at most `len_max` bytes.
pub(crate) fn lists(numbers: &[u32], len_max: usize) -> Vec<String> {
    let mut lists: Vec<String> = Vec::new();
    for number in numbers {
        let text = number.to_string();
        match lists.last_mut() {
            Some(list) if list.len() + 1 + text.len() <= len_max => {
                list.push(',');
                list.push_str(&text);
            }
            _ => lists.push(text),
        }
    }
    lists
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(count: u64) -> Vec<StoredMessage> {
        (0..count).map(|hash| StoredMessage { hash, ..StoredMessage::default() }).collect()
    }

    #[test]
    fn steps_follow_one_another() {
        let model = Model::new(&stored(9)).unwrap();
        let model = model.after(Step::FlagOne, &[]).after(Step::FlagAll, &[]);
        assert!(model.messages[3].flags.contains(Flag::Flagged));
        let model = model.after(Step::ExpungeSmall, &[]).after(Step::ExpungeThird, &[]);
        let uids: Vec<_> = model.messages.iter().map(|message| message.uid).collect();
        assert_eq!(uids, [2, 3, 5, 6, 8, 9]);
        let model = model.after(Step::Append, &[77]);
        assert_eq!(model.messages[6], Expected { hash: 77, uid: 10, flags: FlagSet::EMPTY });
    }

    #[test]
    fn differences_are_told() {
        let (mut found, model) = (stored(7), Model::new(&stored(7)).unwrap());
        model.compare_file(&found, false).unwrap();
        assert!(model.compare_file(&found, true).is_err());
        assert!(model.compare_file(&found[..6], false).is_err());
        found[2].hash = 9;
        let error = model.compare_file(&found, false).unwrap_err().to_string();
        assert_eq!(error, "the file holds other bytes in message 3 (UID 3) at offset 0");
        let mut view: Vec<_> = (1..=7).map(|uid| (uid, FlagSet::EMPTY)).collect();
        view[0].1 = FlagSet::EMPTY.with(Flag::Recent);
        model.compare_view(&view).unwrap();
        view[1].1 = FlagSet::EMPTY.with(Flag::Seen);
        assert!(model.compare_view(&view).is_err());
        assert!(model.compare_view(&view[..1]).is_err());
    }

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(lists(&[1, 22, 333], 4), ["1,22", "333"]);
        assert!(lists(&[], 4).is_empty());
    }
}
