//! Removal of expunged messages.
//!
//! If no other session has the mailbox open, the messages that follow move down over the expunged
//! ones, and over those that were hidden before. The journal makes this all or nothing after a
//! crash. Otherwise, or if more would move than a journal should hold, the messages are hidden:
//! their line marks them as expunged, and the next expunge that can move removes their bytes.

use std::collections::BTreeSet;

use barid_mailbox::{Error, Result, Shift, SyncFigures};
use barid_types::Uid;

use super::MbxMailbox;
use super::journal::{apply, file_name};
use super::layout::{HEADER_LEN, MbxRecord, SLIDE_LEN_MAX};
use super::lock::MbxWriteLocks;
use crate::redo::{Change, FileChange};

/// The stretches of the file that stay, and their new offsets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Slide {
    /// Stretches that move, in file order.
    pub(super) shifts: Vec<Shift>,
    /// Offset of the first byte that is removed.
    from: u64,
    /// Size of the file before the move.
    size: u64,
    /// Size of the file after the move.
    pub(super) new_size: u64,
}

impl Slide {
    /// Plans the removal of hidden messages and of those in `expunge`, which ascends. Returns
    /// `None` if too much would move.
    pub(super) fn plan(records: &[MbxRecord], end: u64, expunge: &[Uid]) -> Option<Self> {
        let expunge: BTreeSet<u32> = expunge.iter().map(|uid| uid.get()).collect();
        let goes = |record: &&MbxRecord| record.is_hidden() || expunge.contains(&record.uid);
        let from = records.iter().find(goes).map_or(end, |record| record.offset);
        let mut slide = Self { shifts: Vec::new(), from, size: end, new_size: from };
        for record in records.iter().filter(|record| record.offset > from && !goes(record)) {
            let len = record.end() - record.offset;
            match slide.shifts.last_mut() {
                Some(last) if last.old_offset + last.len == record.offset => last.len += len,
                _ => slide.shifts.push(Shift {
                    old_offset: record.offset,
                    len,
                    new_offset: slide.new_size,
                }),
            }
            slide.new_size += len;
        }
        debug_assert!(from >= HEADER_LEN, "because no message is in the header");
        (slide.new_size - from <= SLIDE_LEN_MAX).then_some(slide)
    }

    /// Returns the new offset of a message that is now at `offset`.
    pub(super) fn new_offset(&self, offset: u64) -> u64 {
        let after = self.shifts.partition_point(|shift| shift.old_offset <= offset);
        match after.checked_sub(1).map(|at| self.shifts[at]) {
            Some(shift) if offset - shift.old_offset < shift.len => {
                shift.new_offset + (offset - shift.old_offset)
            }
            _ => offset,
        }
    }

    /// Returns the number of bytes that move.
    pub(super) fn bytes_moved(&self) -> u64 {
        self.shifts.iter().map(|shift| shift.len).sum()
    }

    /// Moves and cuts; everything is durable on return. Requires the exclusive session lock.
    pub(super) fn run(
        &self,
        mailbox: &MbxMailbox,
        locks: &MbxWriteLocks,
        figures: &mut SyncFigures,
    ) -> Result<()> {
        let at = || Error::at(&mailbox.path);
        if self.shifts.is_empty() {
            // A cut is atomic, so it needs no journal.
            let cut = locks.file.set_len(self.new_size).and_then(|()| locks.file.sync_all());
            figures.barriers += 1;
            return cut.map_err(at());
        }
        let mut new = vec![0; self.bytes_moved() as usize];
        for shift in &self.shifts {
            let to = (shift.new_offset - self.from) as usize;
            let into = &mut new[to..to + shift.len as usize];
            locks.file.read_exact_at(into, shift.old_offset).map_err(at())?;
        }
        let mut old = vec![0; new.len()];
        locks.file.read_exact_at(&mut old, self.from).map_err(at())?;
        let mut file = FileChange::new(file_name(&locks.path), self.size);
        file.write(self.from, &old, &new);
        drop((old, new));
        file.cut(self.new_size, &*locks.file).map_err(at())?;
        let mut change = Change::new(None);
        change.add(file);
        apply(mailbox, locks, &change, figures)?;
        figures.bytes_moved += self.bytes_moved();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::EXPUNGED;
    use super::*;

    /// Records of 100 bytes each from 2048 on, as their UIDs and whether they are hidden.
    fn check(records: &[(u32, bool)], expunge: &[u32], shifts: &[(u64, u64, u64)], new_size: u64) {
        let record = |(at, (uid, hidden)): (usize, &(u32, bool))| MbxRecord {
            offset: 2048 + at as u64 * 100,
            size: 50,
            uid: *uid,
            keywords: 0,
            flags: if *hidden { EXPUNGED } else { 0 },
            line_len: 50,
            date_len: 26,
        };
        let records: Vec<MbxRecord> = records.iter().enumerate().map(record).collect();
        let end = records.last().map_or(2048, MbxRecord::end);
        let expunge: Vec<Uid> = expunge.iter().filter_map(|uid| Uid::new(*uid)).collect();
        let slide = Slide::plan(&records, end, &expunge).unwrap();
        let found: Vec<_> =
            slide.shifts.iter().map(|s| (s.old_offset, s.len, s.new_offset)).collect();
        assert_eq!((found.as_slice(), slide.new_size), (shifts, new_size));
    }

    #[test]
    fn what_stays_moves_down() {
        check(&[(1, false), (2, false), (3, false)], &[2], &[(2248, 100, 2148)], 2248);
        check(&[(1, false), (2, false)], &[1, 2], &[], 2048);
        check(&[(1, false), (2, false)], &[2], &[], 2148);
        check(&[(1, false), (2, true)], &[], &[], 2148);
        check(&[(1, true), (2, false), (3, false)], &[], &[(2148, 200, 2048)], 2248);
        check(
            &[(1, false), (2, true), (3, false), (4, false), (5, false)],
            &[4],
            &[(2248, 100, 2148), (2448, 100, 2248)],
            2348,
        );
        check(&[], &[], &[], 2048);
    }
}
