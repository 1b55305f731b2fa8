//! UIDs must rise: which of them can stay.

/// UIDs as they are found, in the order of messages, and what is known besides.
pub(crate) struct Uids<'a> {
    /// 0 for a message that has none, or none that can be read.
    pub(crate) found: &'a [u32],
    /// The last UID that was given out, as far as that is known.
    pub(crate) last: Option<u32>,
}

/// What becomes of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mended {
    /// The UID of each message; 0 for those at the end that have none yet.
    pub(crate) uids: Vec<u32>,
    /// Those that are not what they were, ascending.
    pub(crate) changed: Vec<usize>,
    /// UIDs had to be made up, so that a new UIDVALIDITY is due.
    pub(crate) is_void: bool,
    /// The last UID that was given out.
    pub(crate) last: u32,
}

impl Uids<'_> {
    /// Keeps as many as rise; what is between two that stay gets the UIDs between them if they are
    /// just as many, for then no other message can have had them. Otherwise all are given anew.
    /// O(n log n).
    pub(crate) fn mend(&self) -> Mended {
        let kept = self.longest_rise();
        let mut uids = self.found.to_vec();
        let highest = kept.last().map_or(0, |at| self.found[*at]);
        let new_from = kept.last().map_or(0, |at| at + 1);
        let last = self.last.unwrap_or(0).max(highest);
        let mut is_void = false;
        let mut from = 0;
        let mut below = 0;
        for &at in &kept {
            let (count, uid) = ((at - from) as u32, self.found[at]);
            if count > 0 {
                is_void |= uid - below - 1 != count;
                for (uid, number) in uids[from..at].iter_mut().zip(below + 1..) {
                    *uid = number;
                }
            }
            (from, below) = (at + 1, uid);
        }
        // Who opens it next gives those their UIDs.
        uids[new_from..].fill(0);
        if is_void {
            (1..).zip(&mut uids).for_each(|(number, uid)| *uid = number);
        }
        let changed = (0..uids.len()).filter(|at| uids[*at] != self.found[*at]).collect();
        let last = if is_void { uids.len() as u32 } else { last };
        Mended { uids, changed, is_void, last }
    }

    /// The places of the longest series that rises, of UIDs that can be: none, and those far above
    /// the last that was given out, cannot.
    pub(crate) fn longest_rise(&self) -> Vec<usize> {
        let limit = self.last.map_or(u32::MAX - 1, |last| {
            let above = self.found.iter().filter(|uid| **uid > last).count();
            last.saturating_add(above as u32)
        });
        let mut tails: Vec<usize> = Vec::new();
        let mut before: Vec<Option<usize>> = vec![None; self.found.len()];
        for (at, uid) in self.found.iter().enumerate() {
            if *uid == 0 || *uid > limit {
                continue;
            }
            let place = tails.partition_point(|tail| self.found[*tail] < *uid);
            before[at] = place.checked_sub(1).map(|place| tails[place]);
            match tails.get_mut(place) {
                // Of two alike the first stays: there may be room behind it.
                Some(tail) if self.found[*tail] > *uid => *tail = at,
                Some(_) => {}
                None => tails.push(at),
            }
        }
        let mut kept = Vec::with_capacity(tails.len());
        let mut next = tails.last().copied();
        while let Some(at) = next {
            kept.push(at);
            next = before[at];
        }
        kept.reverse();
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(found: &[u32], last: Option<u32>, uids: &[u32], is_void: bool) {
        let mended = Uids { found, last }.mend();
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
        // An append that did not come to say so.
        check(&[1, 2, 3], Some(1), &[1, 2, 3], false);
        check(&[5, 2, 9], Some(9), &[1, 2, 9], false);
        check(&[5, 6, 4, 9], Some(9), &[1, 2, 3, 4], true);
        check(&[3, 3], Some(3), &[3, 0], false);
    }
}
