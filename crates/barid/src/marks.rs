//! Flags, keywords and numbers of messages, without their texts.

use barid_types::{Flag, FlagSet, KeywordMask, ModSeq, Uid, UidValidity};

use crate::{Result, View};

/// Minimum number of consecutive rows for which reading all blocks of a range costs less than
/// single rows.
const DENSE_ROWS: usize = 8;

/// Flags, keywords and mod-sequence of a message, pending changes included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageMarks {
    /// The UID.
    pub uid: Uid,
    /// The flags.
    pub flags: FlagSet,
    /// The keywords, by the slots of [`View::keywords`].
    pub keywords: KeywordMask,
    /// The mod-sequence of the last change.
    pub modseq: ModSeq,
}

/// The counts and numbers of a view (RFC 9051 §6.3.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewStatus {
    /// Number of messages.
    pub messages: u32,
    /// Number of messages with \Recent.
    pub recent: u32,
    /// Number of messages without \Seen.
    pub unseen: u32,
    /// The UIDVALIDITY.
    pub uidvalidity: UidValidity,
    /// The lowest UID not assigned yet.
    pub uidnext: Uid,
    /// The highest mod-sequence.
    pub highest_modseq: ModSeq,
}

impl View {
    /// Returns the counts and numbers. Costs nothing.
    pub fn view_status(&self) -> ViewStatus {
        let meta = self.snapshot.meta();
        ViewStatus {
            messages: self.len(),
            recent: meta.recent,
            unseen: self.shown.unseen(meta.unseen),
            uidvalidity: meta.uidvalidity,
            uidnext: meta.uidnext,
            highest_modseq: self.highest_modseq(),
        }
    }

    /// Returns the UIDs of rows, in their order. Reads each block of the cache once if the rows are
    /// many and ascending.
    ///
    /// # Errors
    /// A damaged cache, or a row that does not exist.
    pub fn uids_of(&self, rows: &[u32]) -> Result<Vec<Uid>> {
        let mut uids = Vec::with_capacity(rows.len());
        // A result in the order of a sort needs most blocks, each many times.
        if rows.len() >= DENSE_ROWS && rows.len() as u64 * 16 >= u64::from(self.len()) {
            let all = self.uids()?;
            let known = rows.iter().filter_map(|row| all.get(*row as usize));
            uids.extend(known.copied().filter_map(Uid::new));
            return Ok(uids);
        }
        for row in rows {
            uids.push(self.uid_of(*row)?);
        }
        Ok(uids)
    }

    /// Returns the marks of messages, in the order of `uids`; messages that do not exist are left
    /// out. Reads each block of the cache once if `uids` ascend.
    ///
    /// # Errors
    /// A damaged cache.
    pub fn marks_of(&self, uids: &[Uid]) -> Result<Vec<MessageMarks>> {
        let mut marks = Vec::with_capacity(uids.len());
        if uids.len() < DENSE_ROWS || !uids.is_sorted() {
            for uid in uids {
                if let Some(row) = self.row_of(*uid)? {
                    marks.push(self.marks_of_core(&self.snapshot.core(row)?));
                }
            }
            return Ok(marks);
        }
        let (Some(first), Some(last)) = (uids.first(), uids.last()) else { return Ok(marks) };
        let rows = self.row_from(*first)?..match last.next() {
            Some(next) => self.row_from(next)?,
            None => self.len(),
        };
        let mut wanted = uids.iter().peekable();
        let read = self.snapshot.cores(rows, &mut |_, core| {
            while wanted.next_if(|uid| **uid < core.uid).is_some() {}
            if wanted.next_if(|uid| **uid == core.uid).is_some() {
                marks.push(self.marks_of_core(core));
            }
        });
        self.done(read)?;
        Ok(marks)
    }

    fn marks_of_core(&self, core: &barid_cache::Core) -> MessageMarks {
        let (flags, keywords, modseq) = self.shown.of_message(core);
        MessageMarks { uid: core.uid, flags, keywords, modseq }
    }

    /// Returns the sum of RFC822.SIZE of all messages, or of those with a flag; `None` if the size
    /// of one of them is not known yet ([`crate::Mailbox::fill_rfc822_sizes`]).
    ///
    /// # Errors
    /// A damaged cache.
    pub fn rfc822_total(&self, flag: Option<Flag>) -> Result<Option<u64>> {
        self.check_read()?;
        let mut total = Some(0u64);
        let read = self.snapshot.cores(0..self.len(), &mut |_, core| {
            if flag.is_none_or(|flag| self.shown.of_message(core).0.contains(flag)) {
                total = total.zip(core.rfc822_size).map(|(sum, size)| sum.saturating_add(size));
            }
        });
        self.done(read)?;
        Ok(total)
    }

    /// Returns the first row whose message has a flag, or lacks it if `has` is `false`. Reads the
    /// cache up to that row.
    ///
    /// # Errors
    /// A damaged cache.
    pub fn first_row(&self, flag: Flag, has: bool) -> Result<Option<u32>> {
        /// Rows that are read at a time.
        const ROWS: u32 = 4096;
        let mut found = None;
        let mut from = 0;
        while found.is_none() && from < self.len() {
            let to = from.saturating_add(ROWS).min(self.len());
            let read = self.snapshot.cores(from..to, &mut |row, core| {
                if found.is_none() && self.shown.of_message(core).0.contains(flag) == has {
                    found = Some(row);
                }
            });
            self.done(read)?;
            from = to;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mailbox, test_mailbox};

    fn mailbox(messages: usize) -> Mailbox {
        let (mut mailbox, uids) = test_mailbox::maildir(messages);
        test_mailbox::change(&mut mailbox, &[], &uids[..messages / 2]);
        mailbox
    }

    #[test]
    fn many_and_few_messages_have_the_same_marks() {
        let mailbox = mailbox(40);
        let uids = mailbox.uids_of(&(0..40).collect::<Vec<_>>()).unwrap();
        let many = mailbox.marks_of(&uids).unwrap();
        assert_eq!(many.len(), 40);
        for marks in &many {
            assert_eq!(mailbox.marks_of(&[marks.uid]).unwrap(), [*marks]);
        }
        let missing = [uids[3], Uid::MAX];
        assert_eq!(mailbox.marks_of(&missing).unwrap(), [many[3]]);
        let backwards: Vec<Uid> = uids.iter().rev().copied().collect();
        let turned: Vec<MessageMarks> = many.iter().rev().copied().collect();
        assert_eq!(mailbox.marks_of(&backwards).unwrap(), turned);
    }

    #[test]
    fn the_first_unseen_message_is_found() {
        let mailbox = mailbox(10);
        assert_eq!(mailbox.first_row(Flag::Seen, false).unwrap(), Some(5));
        assert_eq!(mailbox.first_row(Flag::Seen, true).unwrap(), Some(0));
        assert_eq!(mailbox.first_row(Flag::Draft, true).unwrap(), None);
        assert_eq!(mailbox.view_status().unseen, 5);
    }
}
