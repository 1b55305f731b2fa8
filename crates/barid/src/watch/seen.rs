//! The last reported state of a mailbox, and the changes since.

use barid_types::{Flag, FlagSet, KeywordMask, KeywordTable, ModSeq, Uid, UidValidity};

use crate::{Mailbox, Result};

/// A change of a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailboxChange {
    /// The mailbox got a new UIDVALIDITY: what was known of its messages is no longer valid.
    Renumbered(UidValidity),
    /// A message is gone.
    Expunged(Uid),
    /// A message has other flags or keywords than before; \Recent does not count.
    Flags(Uid),
    /// A message has come.
    New(Uid),
}

/// The messages of a mailbox with their flags: 16 bytes for each.
#[derive(Debug)]
pub(crate) struct Seen {
    version: Version,
    keywords: KeywordTable,
    messages: Vec<Message>,
}

/// Values of which at least one differs after any change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    uidvalidity: UidValidity,
    modseq: ModSeq,
    len: u32,
    pending: usize,
    last_pending: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Message {
    keywords: KeywordMask,
    uid: Uid,
    flags: FlagSet,
}

impl Seen {
    /// Records the state of a mailbox. Reads the fixed-size data of all messages.
    pub(crate) fn of(mailbox: &Mailbox) -> Result<Self> {
        let mut messages = Vec::with_capacity(mailbox.len() as usize);
        let result = mailbox.snapshot.cores(0..mailbox.len(), &mut |_, core| {
            let (flags, keywords, _) = mailbox.shown.of_message(core);
            messages.push(Message { keywords, uid: core.uid, flags: flags.without(Flag::Recent) });
        });
        mailbox.done(result)?;
        let (version, keywords) = (Version::of(mailbox), mailbox.keywords().clone());
        Ok(Self { version, keywords, messages })
    }

    /// Returns the changes since the last state, and records the new one: first expunges, then
    /// changes of flags, then new messages, each in ascending order. Costs nothing if nothing
    /// changed.
    pub(crate) fn update(&mut self, mailbox: &Mailbox) -> Result<Vec<MailboxChange>> {
        if self.version == Version::of(mailbox) {
            return Ok(Vec::new());
        }
        let now = Self::of(mailbox)?;
        let changes = match now.version.uidvalidity {
            same if same == self.version.uidvalidity => self.changes(&now),
            other => vec![MailboxChange::Renumbered(other)],
        };
        *self = now;
        Ok(changes)
    }

    fn changes(&self, now: &Self) -> Vec<MailboxChange> {
        let (mut expunged, mut flags, mut new) = (Vec::new(), Vec::new(), Vec::new());
        let slots = self.slots_in(&now.keywords);
        let mut before = self.messages.iter().peekable();
        for message in &now.messages {
            while let Some(gone) = before.next_if(|before| before.uid < message.uid) {
                expunged.push(MailboxChange::Expunged(gone.uid));
            }
            match before.next_if(|before| before.uid == message.uid) {
                None => new.push(MailboxChange::New(message.uid)),
                Some(before) => {
                    let keywords = match &slots {
                        None => Some(before.keywords),
                        Some(slots) => moved(before.keywords, slots),
                    };
                    if (before.flags, keywords) != (message.flags, Some(message.keywords)) {
                        flags.push(MailboxChange::Flags(message.uid));
                    }
                }
            }
        }
        expunged.extend(before.map(|gone| MailboxChange::Expunged(gone.uid)));
        expunged.append(&mut flags);
        expunged.append(&mut new);
        expunged
    }

    /// Returns the current slots of the keywords; `None` if they have not moved.
    fn slots_in(&self, now: &KeywordTable) -> Option<Vec<Option<u32>>> {
        let names = self.keywords.names();
        let is_same = now.names().starts_with(names);
        (!is_same).then(|| names.iter().map(|name| now.slot(name)).collect())
    }
}

impl Version {
    fn of(mailbox: &Mailbox) -> Self {
        let meta = mailbox.snapshot.meta();
        Self {
            uidvalidity: meta.uidvalidity,
            modseq: meta.highest_modseq,
            len: mailbox.len(),
            pending: mailbox.pending.records().len(),
            last_pending: mailbox.pending.last_sequence(),
        }
    }
}

/// Converts a mask to the current slots of its keywords; `None` if a keyword has no slot any more.
fn moved(mask: KeywordMask, slots: &[Option<u32>]) -> Option<KeywordMask> {
    let has = |slot: &usize| mask.0 >> slot & 1 == 1;
    let mut slots = slots.iter().enumerate().filter(|(slot, _)| has(slot));
    slots.try_fold(0, |mask, (_, slot)| slot.map(|slot| mask | 1 << slot)).map(KeywordMask)
}

#[cfg(test)]
mod tests {
    use super::*;
    use barid_types::Keyword;

    fn table(names: &str) -> KeywordTable {
        let mut table = KeywordTable::default();
        for name in names.split_whitespace() {
            table.intern(&Keyword::new(name).unwrap()).unwrap();
        }
        table
    }

    fn seen(keywords: &str, messages: &[(u32, FlagSet, u64)]) -> Seen {
        let message = |(uid, flags, keywords): &(u32, FlagSet, u64)| Message {
            keywords: KeywordMask(*keywords),
            uid: Uid::new(*uid).unwrap(),
            flags: *flags,
        };
        let version = Version {
            uidvalidity: UidValidity::new(1).unwrap(),
            modseq: ModSeq::default(),
            len: 0,
            pending: 0,
            last_pending: None,
        };
        let messages = messages.iter().map(message).collect();
        Seen { version, keywords: table(keywords), messages }
    }

    fn check(before: &Seen, now: &Seen, expected: &str) {
        let name = |change: &MailboxChange| match change {
            MailboxChange::Renumbered(_) => "renumbered".to_owned(),
            MailboxChange::Expunged(uid) => format!("-{uid}"),
            MailboxChange::Flags(uid) => format!("={uid}"),
            MailboxChange::New(uid) => format!("+{uid}"),
        };
        let changes: Vec<_> = before.changes(now).iter().map(name).collect();
        assert_eq!(changes.join(" "), expected);
    }

    #[test]
    fn differences_are_found_by_uid() {
        let none = FlagSet::default();
        let seen_flag = none.with(Flag::Seen);
        let one = seen("", &[(1, none, 0), (3, none, 0), (7, seen_flag, 0)]);
        check(&one, &one, "");
        check(&seen("", &[]), &one, "+1 +3 +7");
        check(&one, &seen("", &[]), "-1 -3 -7");
        let two = seen("", &[(2, none, 0), (3, seen_flag, 0), (7, none, 0), (9, none, 0)]);
        check(&one, &two, "-1 =3 =7 +2 +9");
    }

    #[test]
    fn keywords_are_compared_by_name() {
        let none = FlagSet::default();
        let one = seen("a b", &[(1, none, 0b01), (2, none, 0b10), (3, none, 0)]);
        check(&one, &seen("a b c", &[(1, none, 0b01), (2, none, 0b110), (3, none, 0)]), "=2");
        check(&one, &seen("b a", &[(1, none, 0b10), (2, none, 0b10), (3, none, 0)]), "=2");
        check(&one, &seen("b", &[(1, none, 0), (2, none, 1), (3, none, 0)]), "=1");
    }
}
