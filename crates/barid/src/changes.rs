//! The changes between two views of a mailbox.

use std::collections::BTreeSet;
use std::sync::Arc;

use barid_cache::Core;
use barid_types::{Flag, FlagSet, KeywordMask, KeywordTable, ModSeq, Uid, UidValidity};

use crate::{Result, View};

/// A change of a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailboxChange {
    /// The mailbox has another UIDVALIDITY, or what was known of it can no longer be read: all its
    /// messages must be read again.
    Renumbered(UidValidity),
    /// A message is gone.
    Expunged(Uid),
    /// A message has other flags or keywords than before; \Recent does not count.
    Flags(Uid),
    /// A message has the same flags and keywords as before, but another mod-sequence: they were
    /// changed and changed back, or the mod-sequences were lost.
    ModSeq(Uid),
    /// A message is new.
    New(Uid),
}

/// Flags, keywords and mod-sequence of a message.
#[derive(Clone, Copy, Debug)]
struct Marks {
    keywords: KeywordMask,
    uid: Uid,
    flags: FlagSet,
    modseq: ModSeq,
}

impl Marks {
    /// Returns the change of this message from `before`, whose keywords are now `keywords`.
    fn change_from(&self, before: &Self, keywords: Option<KeywordMask>) -> Option<MailboxChange> {
        if (before.flags, keywords) != (self.flags, Some(self.keywords)) {
            return Some(MailboxChange::Flags(self.uid));
        }
        (before.modseq != self.modseq).then_some(MailboxChange::ModSeq(self.uid))
    }
}

impl View {
    /// Returns the changes since an earlier view of the same mailbox: first expunges, then changes
    /// of flags and mod-sequences, then new messages, each in ascending order.
    ///
    /// Costs nothing if nothing changed; otherwise the cost is proportional to the length of the
    /// cache's log. All messages are compared after the cache was built anew, which happens once in
    /// a while.
    ///
    /// # Errors
    /// A damaged cache.
    pub fn changes_since(&self, before: &Self) -> Result<Vec<MailboxChange>> {
        let is_same = |old: &Self| Arc::ptr_eq(&self.snapshot, &old.snapshot);
        if is_same(before) && Arc::ptr_eq(&self.shown, &before.shown) {
            return Ok(Vec::new());
        }
        let uidvalidity = self.snapshot.meta().uidvalidity;
        if uidvalidity != before.snapshot.meta().uidvalidity {
            return Ok(vec![MailboxChange::Renumbered(uidvalidity)]);
        }
        let slots = Slots::between(before.keywords(), self.keywords());
        let since = self.done(self.snapshot.since(&before.snapshot))?;
        let Some(since) = since.filter(|_| slots.0.is_none()) else {
            return Ok(compare(&before.all_marks()?, &self.all_marks()?, &slots));
        };
        let mut changes: Vec<_> = since.expunged.into_iter().map(MailboxChange::Expunged).collect();
        let mut candidates: BTreeSet<Uid> = since.changed.into_iter().collect();
        candidates.extend(before.shown.uids().chain(self.shown.uids()));
        for uid in candidates {
            let both = before.marks_of_uid(uid)?.zip(self.marks_of_uid(uid)?);
            changes.extend(both.and_then(|(old, new)| new.change_from(&old, Some(old.keywords))));
        }
        changes.extend(since.added.into_iter().map(MailboxChange::New));
        Ok(changes)
    }

    fn marks_of_uid(&self, uid: Uid) -> Result<Option<Marks>> {
        let Some(row) = self.row_of(uid)? else { return Ok(None) };
        Ok(Some(self.marks(&self.snapshot.core(row)?)))
    }

    /// Reads the fixed-size data of all messages.
    fn all_marks(&self) -> Result<Vec<Marks>> {
        let mut all = Vec::with_capacity(self.len() as usize);
        let read = self.snapshot.cores(0..self.len(), &mut |_, core| all.push(self.marks(core)));
        self.done(read)?;
        Ok(all)
    }

    fn marks(&self, core: &Core) -> Marks {
        let (flags, keywords, modseq) = self.shown.of_message(core);
        Marks { keywords, uid: core.uid, flags: flags.without(Flag::Recent), modseq }
    }
}

/// The current slots of the keywords of an earlier table; `None` if they have not moved.
struct Slots(Option<Vec<Option<u32>>>);

impl Slots {
    fn between(before: &KeywordTable, now: &KeywordTable) -> Self {
        let names = before.names();
        let is_same = now.names().starts_with(names);
        Self((!is_same).then(|| names.iter().map(|name| now.slot(name)).collect()))
    }

    /// Converts a mask to the current slots; `None` if a keyword has no slot any more.
    fn now(&self, mask: KeywordMask) -> Option<KeywordMask> {
        let Some(slots) = &self.0 else { return Some(mask) };
        let has = |slot: &usize| mask.0 >> slot & 1 == 1;
        let mut slots = slots.iter().enumerate().filter(|(slot, _)| has(slot));
        slots.try_fold(0, |mask, (_, slot)| slot.map(|slot| mask | 1 << slot)).map(KeywordMask)
    }
}

/// Compares all messages.
fn compare(before: &[Marks], now: &[Marks], slots: &Slots) -> Vec<MailboxChange> {
    let (mut expunged, mut flags, mut new) = (Vec::new(), Vec::new(), Vec::new());
    let mut before = before.iter().peekable();
    for message in now {
        while let Some(gone) = before.next_if(|before| before.uid < message.uid) {
            expunged.push(MailboxChange::Expunged(gone.uid));
        }
        match before.next_if(|before| before.uid == message.uid) {
            None => new.push(MailboxChange::New(message.uid)),
            Some(before) => {
                flags.extend(message.change_from(before, slots.now(before.keywords)));
            }
        }
    }
    expunged.extend(before.map(|gone| MailboxChange::Expunged(gone.uid)));
    expunged.append(&mut flags);
    expunged.append(&mut new);
    expunged
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

    struct Seen(KeywordTable, Vec<Marks>);

    impl Seen {
        /// Gives messages another mod-sequence.
        fn touched(mut self, uids: &[u32]) -> Self {
            let touched = self.1.iter_mut().filter(|marks| uids.contains(&marks.uid.get()));
            touched.for_each(|marks| marks.modseq = ModSeq::new(2).unwrap());
            self
        }
    }

    fn seen(keywords: &str, messages: &[(u32, FlagSet, u64)]) -> Seen {
        let marks = |(uid, flags, keywords): &(u32, FlagSet, u64)| Marks {
            keywords: KeywordMask(*keywords),
            uid: Uid::new(*uid).unwrap(),
            flags: *flags,
            modseq: ModSeq::new(1).unwrap(),
        };
        Seen(table(keywords), messages.iter().map(marks).collect())
    }

    fn check(before: &Seen, now: &Seen, expected: &str) {
        let name = |change: &MailboxChange| match change {
            MailboxChange::Renumbered(_) => "renumbered".to_owned(),
            MailboxChange::Expunged(uid) => format!("-{uid}"),
            MailboxChange::Flags(uid) => format!("={uid}"),
            MailboxChange::ModSeq(uid) => format!("~{uid}"),
            MailboxChange::New(uid) => format!("+{uid}"),
        };
        let slots = Slots::between(&before.0, &now.0);
        let changes: Vec<_> = compare(&before.1, &now.1, &slots).iter().map(name).collect();
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
        check(&one, &two.touched(&[2, 3]), "-1 =3 =7 +2 +9");
        let same = seen("", &[(1, none, 0), (3, none, 0), (7, seen_flag, 0)]);
        check(&one, &same.touched(&[3, 7]), "~3 ~7");
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
