//! Repair of UIDs that do not ascend: selects those that can stay, and detects when all are void.

use barid_vfs::Vfs;

/// Damage text: UIDs that stay could come to mean other messages.
pub(crate) const DOUBT: &str = "UIDs of expunged messages may be assigned again";
/// Repair text for that damage.
pub(crate) const NEW_UIDVALIDITY: &str = "the mailbox gets a new UIDVALIDITY";

/// Returns a UIDVALIDITY for a mailbox that had none: the seconds since 1970.
pub(crate) fn uidvalidity_now(vfs: &dyn Vfs) -> u32 {
    vfs.now().unix_seconds().clamp(1, u32::MAX.into()) as u32
}

/// Returns a UIDVALIDITY above `old`: the seconds since 1970 if they are above it.
pub(crate) fn new_uidvalidity(now: u32, old: u32) -> u32 {
    old.checked_add(1).map_or(now, |next| next.max(now))
}

/// UIDs as found, in the order of messages, and the last one given out.
pub(crate) struct UidsFound<'a> {
    /// UID of each message; 0 for a message without a readable UID.
    pub(crate) found: &'a [u32],
    /// The last UID that was given out, if it is known.
    pub(crate) last: Option<u32>,
}

/// Result of mending UIDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mended {
    /// UID of each message; 0 for those at the end that have none yet.
    pub(crate) uids: Vec<u32>,
    /// Indexes of the UIDs that changed, ascending.
    pub(crate) changed: Vec<usize>,
    /// `true` if UIDs had to be invented, so that a new UIDVALIDITY is due.
    pub(crate) is_void: bool,
    /// `true` if a UID that is removed may be given again, so that a new UIDVALIDITY is due.
    pub(crate) is_reused: bool,
    /// The last UID that was given out.
    pub(crate) last: u32,
}

/// A series of rising UIDs.
pub(crate) struct Rise {
    /// Their indexes, ascending.
    pub(crate) places: Vec<usize>,
    /// For each, `true` if every series that rises for as long has the same UID there.
    pub(crate) is_certain: Vec<bool>,
}

impl Rise {
    /// Returns one value for each of `len` UIDs: `true` if it certainly stays.
    pub(crate) fn is_kept(&self, len: usize) -> Vec<bool> {
        let mut is_kept = vec![false; len];
        for (at, is_certain) in self.places.iter().zip(&self.is_certain) {
            is_kept[*at] = *is_certain;
        }
        is_kept
    }
}

impl UidsFound<'_> {
    /// Keeps the longest ascending series of UIDs. The messages between two that stay get the UIDs
    /// between them if there are just as many, for then no other message can have had them.
    /// Otherwise, and where other UIDs could be kept instead, all are assigned anew. O(n log n).
    pub(crate) fn mend(&self) -> Mended {
        self.mend_by(&self.longest_rise())
    }

    /// Mends as [`UidsFound::mend`] does, given the result of [`UidsFound::longest_rise`].
    pub(crate) fn mend_by(&self, rise: &Rise) -> Mended {
        let Rise { places: kept, is_certain } = rise;
        let mut uids = self.found.to_vec();
        let highest = kept.last().map_or(0, |at| self.found[*at]);
        let new_from = kept.last().map_or(0, |at| at + 1);
        let last = self.last.unwrap_or(0).max(highest);
        let mut is_void = is_certain.contains(&false);
        let mut from = 0;
        let mut below = 0;
        for &at in kept {
            let (count, uid) = ((at - from) as u32, self.found[at]);
            if count > 0 {
                is_void |= uid - below - 1 != count;
                for (uid, number) in uids[from..at].iter_mut().zip(below + 1..) {
                    *uid = number;
                }
            }
            (from, below) = (at + 1, uid);
        }
        // The next program that opens the mailbox gives these messages their UIDs.
        uids[new_from..].fill(0);
        if is_void {
            (1..).zip(&mut uids).for_each(|(number, uid)| *uid = number);
        }
        let changed = (0..uids.len()).filter(|at| uids[*at] != self.found[*at]);
        let changed: Vec<usize> = changed.collect();
        let is_reused = changed.iter().any(|at| self.found[*at] > last);
        let last = if is_void { uids.len() as u32 } else { last };
        Mended { uids, changed, is_void, is_reused, last }
    }

    /// Returns the longest rising series of possible UIDs; a UID of 0 or far above the last given
    /// out is not possible. Of two equal UIDs the first stays, and is certain if it can have had no
    /// other.
    pub(crate) fn longest_rise(&self) -> Rise {
        let (levels, length) = self.levels();
        let mut places = vec![0; length];
        // For each level, the greatest UID to the right that is part of a longest series.
        let mut greatest = vec![0; length];
        greatest.push(u64::MAX);
        let mut is_certain = vec![true; length];
        let mut is_alike = vec![false; length];
        for (at, level) in levels.iter().enumerate().rev() {
            let (Some(level), uid) = (level.checked_sub(1), u64::from(self.found[at])) else {
                continue;
            };
            if uid < greatest[level + 1] {
                is_alike[level] |= greatest[level] == uid;
                is_certain[level] &= greatest[level] == 0 || greatest[level] == uid;
                greatest[level] = greatest[level].max(uid);
                places[level] = at;
            }
        }
        let (mut below, mut is_below_certain) = (0, true);
        for (level, at) in places.iter().enumerate() {
            let uid = self.found[*at];
            let has_room = uid > below + 1 || !is_below_certain;
            is_certain[level] &= !is_alike[level] || !has_room;
            (below, is_below_certain) = (uid, is_certain[level]);
        }
        Rise { places, is_certain }
    }

    /// Returns the length of the longest series that ends with each UID, 0 for an impossible UID;
    /// and the greatest of these lengths.
    fn levels(&self) -> (Vec<usize>, usize) {
        let limit = self.last.map_or(u32::MAX - 1, |last| {
            let above = self.found.iter().filter(|uid| **uid > last).count();
            last.saturating_add(above as u32)
        });
        let mut lowest: Vec<u32> = Vec::new();
        let level = |&uid: &u32| {
            if uid == 0 || uid > limit {
                return 0;
            }
            let level = lowest.partition_point(|lowest| *lowest < uid);
            match lowest.get_mut(level) {
                Some(lowest) => *lowest = uid,
                None => lowest.push(uid),
            }
            level + 1
        };
        let levels = self.found.iter().map(level).collect();
        (levels, lowest.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(found: &[u32], last: Option<u32>, uids: &[u32], is_void: bool) {
        let mended = UidsFound { found, last }.mend();
        assert_eq!((mended.uids.as_slice(), mended.is_void), (uids, is_void), "{found:?}");
        let differ = found.iter().zip(uids).filter(|(found, uid)| found != uid).count();
        assert_eq!(mended.changed.len(), differ, "{found:?}");
        assert!(mended.last >= uids.iter().copied().max().unwrap_or(0));
    }

    #[test]
    fn as_many_uids_as_rise_stay() {
        check(&[], Some(7), &[], false);
        check(&[1, 2, 5], Some(7), &[1, 2, 5], false);
        check(&[1, 2, 2, 4], Some(4), &[1, 2, 3, 4], false);
        check(&[1, 9, 3, 4], Some(4), &[1, 2, 3, 4], false);
        check(&[1, 0, 3], Some(3), &[1, 2, 3], false);
        check(&[1, 2, 0, 0], Some(3), &[1, 2, 0, 0], false);
        check(&[1, 2, 0xffff_fff0], Some(3), &[1, 2, 0], false);
        // An append that was interrupted before it updated the last UID.
        check(&[1, 2, 3], Some(1), &[1, 2, 3], false);
        check(&[5, 2, 9], Some(9), &[1, 2, 3], true);
        check(&[1, 3, 2, 4], Some(4), &[1, 2, 3, 4], true);
        check(&[5, 6, 4, 9], Some(9), &[1, 2, 3, 4], true);
        check(&[2, 3, 3], Some(3), &[2, 3, 0], false);
        // The first may have been one lower, the second the UID that both have.
        check(&[3, 3], Some(3), &[1, 2], true);
        check(&[1, 3, 3, 5], Some(5), &[1, 2, 3, 4], true);
    }

    #[test]
    fn a_uid_that_goes_may_come_again_for_another_message() {
        let is_reused = |found: &[u32], last| UidsFound { found, last }.mend().is_reused;
        assert!(is_reused(&[1, 2, 0xffff_fff0], Some(3)));
        assert!(is_reused(&[1, 9, 3, 4], Some(4)));
        assert!(!is_reused(&[1, 9, 3, 4], Some(9)));
        assert!(!is_reused(&[2, 3, 3], Some(3)));
        assert!(!is_reused(&[1, 2, 3], Some(1)));
    }

    #[test]
    fn a_new_uidvalidity_is_greater() {
        assert_eq!(new_uidvalidity(9, 0), 9);
        assert_eq!(new_uidvalidity(9, 20), 21);
        assert_eq!(new_uidvalidity(9, u32::MAX), 9);
    }
}
