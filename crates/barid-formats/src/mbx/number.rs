//! Numbering of messages by c-client's rules, and recovery of an interrupted numbering.
//!
//! A line without a UID gets the next one, hidden lines too, in file order. A UID that is not above
//! the one before it, or is above the last one assigned, makes all UIDs from there on void, and the
//! mailbox gets a new UIDVALIDITY.
//!
//! A crash during numbering leaves some lines numbered and others not. Lines directly before a
//! numbered line get the numbers that were meant for them, because numbering always covers
//! consecutive lines.

use super::layout::{MbxRecord, OLD, SECTOR_LEN};

/// The result of numbering.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MbxNumbering {
    /// Indices of the records that got a UID.
    pub(super) given: Vec<usize>,
    /// Last UID assigned.
    pub(super) uid_last: u32,
    /// Highest UID of any record, including those before this range.
    pub(super) last_uid: u32,
    /// `true` if UIDs were void, so that all cached UIDs are void too.
    pub(super) is_void: bool,
}

/// Assigns UIDs to `records`. `last_uid` is the highest UID before them, `uid_last` the last one
/// given out. Returns `None` if no UIDs are left.
pub(super) fn number(
    records: &mut [MbxRecord],
    last_uid: u32,
    uid_last: u32,
) -> Option<MbxNumbering> {
    let mut numbered = MbxNumbering { uid_last, last_uid, ..MbxNumbering::default() };
    let mut index = 0;
    while index < records.len() {
        let end = zeros_end(records, index, &numbered);
        if end > index {
            give(&mut records[index..], end - index, &mut numbered)?;
            numbered.given.extend(index..end);
            index = end;
            continue;
        }
        let uid = records[index].uid;
        if is_sound(uid, &numbered) {
            numbered.last_uid = uid;
            index += 1;
        } else {
            numbered.is_void = true;
            numbered.uid_last = numbered.last_uid;
            records[index].uid = 0;
        }
    }
    Some(numbered)
}

fn is_sound(uid: u32, numbered: &MbxNumbering) -> bool {
    uid > numbered.last_uid && uid <= numbered.uid_last
}

/// Returns the index of the first record from `index` on that has a whole UID. Clears torn UIDs on
/// the way.
fn zeros_end(records: &mut [MbxRecord], index: usize, numbered: &MbxNumbering) -> usize {
    let mut end = index;
    while let Some(record) = records.get_mut(end) {
        if record.uid != 0 && !is_sound(record.uid, numbered) && is_torn(record) {
            record.uid = 0;
        }
        if record.uid != 0 {
            break;
        }
        end += 1;
    }
    end
}

/// Returns `true` if the UID may be half written: it crosses a sector boundary, and no session has
/// seen the message.
fn is_torn(record: &MbxRecord) -> bool {
    let (first, last) = (record.uid_offset(), record.uid_offset() + 7);
    first / SECTOR_LEN != last / SECTOR_LEN && record.flags & OLD == 0
}

/// Numbers the first `count` records, which have no UID: directly below the UID of the record
/// after them if that leaves room, otherwise upwards from the last UID assigned.
fn give(records: &mut [MbxRecord], count: usize, numbered: &mut MbxNumbering) -> Option<()> {
    let after = records.get(count).map(|record| record.uid).filter(|uid| is_sound(*uid, numbered));
    let room = |uid: &u32| (*uid - numbered.last_uid) as usize > count;
    let first = match after.filter(room) {
        Some(uid) => uid - count as u32,
        None => {
            let first = numbered.uid_last.checked_add(1)?;
            numbered.uid_last = numbered.uid_last.checked_add(u32::try_from(count).ok()?)?;
            first
        }
    };
    for (record, uid) in records[..count].iter_mut().zip(first..) {
        record.uid = uid;
        numbered.last_uid = uid;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(uids: &[u32], uid_last: u32, expected: &[u32], given: usize, is_void: bool) {
        check_at(0, uids, uid_last, expected, given, is_void);
    }

    fn check_at(
        offset: u64,
        uids: &[u32],
        uid_last: u32,
        expected: &[u32],
        given: usize,
        is_void: bool,
    ) {
        let record = |uid: &u32| MbxRecord {
            offset,
            size: 1,
            uid: *uid,
            keywords: 0,
            flags: 0,
            line_len: 50,
            date_len: 26,
        };
        let mut records: Vec<MbxRecord> = uids.iter().map(record).collect();
        let numbered = number(&mut records, 0, uid_last).unwrap();
        let found: Vec<u32> = records.iter().map(|record| record.uid).collect();
        assert_eq!(found, expected, "{uids:?}");
        assert_eq!((numbered.given.len(), numbered.is_void), (given, is_void), "{uids:?}");
        let last = expected.last().copied().unwrap_or(0);
        assert_eq!(numbered.last_uid, last);
        assert!(numbered.uid_last >= last);
    }

    #[test]
    fn new_messages_get_the_next_uids() {
        check(&[], 7, &[], 0, false);
        check(&[0, 0, 0], 0, &[1, 2, 3], 3, false);
        check(&[3, 7, 0, 0], 9, &[3, 7, 10, 11], 2, false);
        check(&[3, 7], 9, &[3, 7], 0, false);
    }

    #[test]
    fn what_was_half_numbered_is_completed() {
        check(&[3, 0, 0, 6, 0], 7, &[3, 4, 5, 6, 8], 3, false);
        check(&[0, 2, 0, 4], 4, &[1, 2, 3, 4], 2, false);
        // No room: as c-client does.
        check(&[3, 0, 4], 4, &[3, 5, 6], 2, true);
    }

    #[test]
    fn void_uids_begin_anew() {
        check(&[3, 2, 9], 9, &[3, 4, 5], 2, true);
        check(&[5], 4, &[1], 1, true);
        check(&[1, 2, 8], 5, &[1, 2, 3], 1, true);
        // The digits are on both sides of 512.
        check_at(512 - 43, &[3, 2, 9], 9, &[3, 8, 9], 1, false);
    }

    #[test]
    fn uids_may_run_out() {
        let mut records = [MbxRecord {
            offset: 0,
            size: 1,
            uid: 0,
            keywords: 0,
            flags: 0,
            line_len: 50,
            date_len: 26,
        }];
        assert_eq!(number(&mut records, u32::MAX, u32::MAX), None);
    }
}
